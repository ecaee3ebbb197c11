"""The category of a scene: by its name, by a rule of yours, or by a mapping."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from assay import checks
from assay.errors import FormatError, MismatchError, UsageError
from assay.ids import Ids
from assay.io.json_text import parse_json
from assay.io.text_lines import read_lines, read_text
from assay.near_ids import near_misses

__all__ = ["UNKNOWN", "Categories", "category_of", "named_categories"]

Categories = Mapping[str, str] | Callable[[str], str] | str | os.PathLike[str] | None

UNKNOWN: Final = "uncategorised"
_PREFIXES: Final = {"i_": "illumination", "v_": "viewpoint"}
# What changes in the scenes of Mikolajczyk et al., IJCV 65 (2005).
_OXFORD: Final = {
    "bark": "zoom", "boat": "zoom", "bikes": "blur", "trees": "blur", "graf": "viewpoint",
    "wall": "viewpoint", "leuven": "illumination", "ubc": "compression",
}  # fmt: skip


def category_of(name: str) -> str:
    """What changes in a scene, by its name: `i_…`, `v_…` or one of the Oxford scenes.

    >>> category_of("v_wall"), category_of("leuven"), category_of("kitchen")
    ('viewpoint', 'illumination', 'uncategorised')
    """
    return _PREFIXES.get(name[:2]) or _OXFORD.get(name, UNKNOWN)


def named_categories(names: list[str], categories: Categories) -> dict[str, str]:
    """The category of every scene; a mapping that leaves one out is refused."""
    if categories is None:
        return {name: category_of(name) for name in names}
    if isinstance(categories, str | os.PathLike):
        return _looked_up(names, _read_mapping(categories), f"{os.fspath(categories)}")
    if isinstance(categories, Mapping):
        return _looked_up(names, categories, "The mapping of categories")
    if not callable(categories):
        raise UsageError(
            "categories must be a mapping of scenes to categories, a file that holds one, or a "
            f"function of the name; found {type(categories).__name__}."
        )
    return {name: _text(categories(name), f"the rule, for scene {name!r}") for name in names}


def _looked_up(names: list[str], mapping: Mapping[str, Any], source: str) -> dict[str, str]:
    missing = [name for name in names if name not in mapping]
    if missing:
        near = near_misses(Ids.of(missing), Ids.of([str(name) for name in mapping]))
        hint = "".join(f" {a!r} and {b!r} differ {how}." for how, p in near.items() for a, b in p)
        raise MismatchError(
            f"{source} gives no category for {checks.named_few(missing)}.{hint} Add "
            f"{'it' if len(missing) == 1 else 'them'}."
        )
    return {name: _text(mapping[name], f"{source}, scene {name!r}") for name in names}


def _text(category: Any, place: str) -> str:
    if not isinstance(category, str) or not category.strip():
        raise FormatError(f"{place}: a category is text that is not empty, found {category!r}.")
    return category


def _read_mapping(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A JSON object, or a CSV file with the columns scene and category."""
    name = os.fspath(path)
    if Path(name).suffix.lower() == ".json":
        found = parse_json(read_text(path), name)
        if not isinstance(found, dict):
            raise FormatError(f"{name}: expected an object such as {{'v_wall': 'viewpoint'}}.")
        return found
    return _read_table(path, name)


def _read_table(path: str | os.PathLike[str], name: str) -> dict[str, Any]:
    rows = csv.reader(read_lines(path), skipinitialspace=True)
    if next(rows, None) != ["scene", "category"]:
        raise FormatError(f"{name}: the first line must be: scene,category.")
    mapping: dict[str, Any] = {}
    for row in filter(None, rows):
        if len(row) != 2:
            raise FormatError(
                f"{name}, line {rows.line_num}: expected 2 columns, found {len(row)}."
            )
        if row[0] in mapping:
            raise FormatError(f"{name}, line {rows.line_num}: scene {row[0]!r} stands twice.")
        mapping[row[0]] = row[1]
    return mapping
