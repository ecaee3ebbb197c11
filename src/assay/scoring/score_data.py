"""Scores as plain data, JSON or tables in files, and back: the same bits, ids and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import or_none
from assay.core.conventions import CHOICES, Conventions
from assay.core.ids import Ids, IntegerIds
from assay.core.text import guard_formula
from assay.errors import AssayError, FormatError, StorageError
from assay.io import writers
from assay.io.fingerprints import fingerprint_of
from assay.io.plain_data import parse_json
from assay.io.streams import FilePath, read_text
from assay.measures import parse
from assay.scoring.scores import Scores

_NUMBERED: Final = "numbered"
_LAYOUT: Final = "assay scores 1"


def save_scores(scores: Scores, path: FilePath) -> None:
    """Write all of the scores as JSON, a line for each part, for `load_scores`."""
    writers.write_text(path, [scores_to_text(scores)])


def scores_to_text(scores: Scores, test: str = "") -> str:
    """Return the text of a file of scores; `test` names the test whose baseline it is."""
    writers.require_kind(scores, Scores, "save_scores")
    data = {
        "layout": _LAYOUT,
        **({"test": test} if test else {}),
        "signature": scores.signature,
        "conventions": scores.conventions.signature(),
        "search": scores.search,
        **scores_to_data(scores),
    }
    whole = {**data, "digest": fingerprint_of(data)}
    lines = [f"{writers.to_json(key)}: {writers.to_json(value)}" for key, value in whole.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load_scores(path: FilePath) -> Scores:
    """Return the scores that `save_scores` wrote; a file that was changed since is refused."""
    return load_baseline(path)[0]


def load_baseline(path: FilePath) -> tuple[Scores, str]:
    """Return the scores of a file, and the test whose baseline they are (empty: of none)."""
    data = parse_json(read_text(path), str(path))
    if not isinstance(data, dict) or data.get("layout") != _LAYOUT:
        raise FormatError(f"{path} holds no scores of layout {_LAYOUT!r}. Name another file.")
    if data.pop("digest", None) != fingerprint_of(data):
        raise FormatError(f"{path} does not match its digest: it was changed. Write it again.")
    try:
        scores = scores_from_data(data, data["conventions"], str(path))
        return replace(scores, search=data["search"]), str(data.get("test", ""))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        if isinstance(error, AssayError):
            raise
        raise FormatError(f"Cannot read {path} as scores: {error}. Write it again.") from None


def baseline_test(path: FilePath) -> str | None:
    """Return the test whose baseline a file is; None where there is no sound file."""
    try:
        return load_baseline(path)[1]
    except (FormatError, StorageError):
        return None


def scores_to_data(scores: Scores) -> dict[str, Any]:
    """Return plain data with every digit of every value.

    Conventions and search are kept beside it.
    """
    names = list(map(str, scores.measures))
    return {
        "measures": names,
        "id_kind": id_kind(scores.query_ids),
        "queries": scores.query_ids.to_list(),
        "values": [[or_none(v) for v in row] for row in scores.values.tolist()],
        "tied": [np.flatnonzero(row).tolist() for row in scores.tied],
        "missing": np.flatnonzero(scores.missing).tolist(),
        "extra_kind": id_kind(scores.extra),
        "extra": scores.extra.to_list(),
        "groups": {name: column.tolist() for name, column in scores.groups.items()},
        "settings": dict(scores.settings),
        "remarks": list(scores.remarks),
    }


def scores_from_data(data: Mapping[str, Any], conventions: str, where: str) -> Scores:
    """Return the scores of plain data, checked; `where` is for messages."""
    n = len(data["queries"])
    shape = (len(data["measures"]), n)
    values = np.array([[np.nan if v is None else v for v in row] for row in data["values"]], float)
    if values.reshape(-1).shape != (shape[0] * n,) or len(data["tied"]) != shape[0]:
        raise FormatError(f"{where}: {shape[0]} × {n} values are needed. Write it again.")
    tied = np.zeros(shape, bool)
    for number, places in enumerate(data["tied"]):
        tied[number] = _mark(places, n, where)
    groups = {
        name: np.asarray([require_text(group, where) for group in column], np.str_)
        for name, column in data["groups"].items()
    }
    if any(len(column) != n for column in groups.values()):
        raise FormatError(f"{where}: a group column lacks groups of queries. Write it again.")
    settings = data.get("settings", {}).items()
    scores = Scores(
        measures=tuple(parse(name) for name in data["measures"]),
        query_ids=_ids(data["queries"], data["id_kind"], where),
        values=values.reshape(shape),
        tied=tied,
        missing=_mark(data["missing"], n, where),
        conventions=conventions_of(conventions),
        extra=_ids(data["extra"], data["extra_kind"], where),
        groups=groups,
        settings={key: require_text(value, f"{where}, settings") for key, value in settings},
        remarks=tuple(require_text(text, f"{where}, remarks") for text in data.get("remarks", [])),
    )
    pair = scores.query_ids.first_duplicate()
    if pair is not None:
        raise FormatError(f"{where}: query {scores.query_ids[pair[0]]!r} repeats. Write it again.")
    if np.isinf(scores.values).any():
        raise FormatError(f"{where}: a value is infinite. Write it again.")
    return Scores.merge(scores) if n else scores  # in the order of query ids


def _ids(values: list[Any], kind: str, where: str) -> Ids:
    if kind in (_NUMBERED, "integer"):
        return ids_of_kind(values, kind)
    return ids_of_kind(
        [require_text(identifier, f"{where}, a query id") for identifier in values], "text"
    )


def _mark(places: list[int], n: int, where: str) -> Any:
    marks = np.zeros(n, bool)
    for place in places:
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < n:
            raise FormatError(f"{where}: no query has the position {place!r:.60}. Write it again.")
        marks[place] = True
    return marks


def require_text(value: Any, where: str) -> str:
    """Return the value, if it is a text."""
    if not isinstance(value, str):
        raise FormatError(f"{where} must be a text, found {value!r:.60}.")
    return value


def id_kind(ids: Ids) -> str:
    """Return the kind of query ids: text, integer, or numbered (rows without ids)."""
    return _NUMBERED if ids.numbered else ids.kind


def ids_of_kind(values: Sequence[Any] | NDArray[Any], kind: str) -> Ids:
    """Return query ids of a kind that `id_kind` tells."""
    if kind in (_NUMBERED, "integer"):
        numbers = np.asarray(values, np.int64)
        # Version 0.1 did not say which integers are numbers of rows: those in the order of rows.
        old = len(numbers) > 10 and np.array_equal(numbers, np.arange(len(numbers)))
        numbered = kind == _NUMBERED or old
        return IntegerIds(numbers, numbered=True) if numbered else Ids.of(numbers, "query")
    if not len(values):
        return Ids.from_utf8(np.zeros(0, np.uint8), np.zeros(1, np.int64))  # none, but of text
    return Ids.of(values, "query")


def conventions_of(signature: str) -> Conventions:
    """Return the conventions of a signature, also where its preset has a user's own name.

    >>> mine = Conventions(preset="mine", depth=7)
    >>> conventions_of(mine.signature()) == mine
    True
    """
    parts = dict(part.split(":", 1) for part in signature.split("|") if ":" in part)
    choices = {key: parts[key] for key in (*CHOICES, "preset") if key in parts}
    if "self" in choices:
        choices["self_match"] = choices.pop("self")
    depth = parts.get("depth", "all")
    return Conventions(**choices, depth=0 if depth == "all" else int(depth))


def write_scores(scores: Scores, path: FilePath, *, format: str | None = None) -> None:
    """Write scores to a file: a row per query, or all of it as json.

    Undefined values are empty cells, or null.

    Args:
        scores: The scores.
        path: The file to write.
        format: csv, tsv, json, jsonl or parquet; by default that of the ending.

    Raises:
        UsageError: The format is unknown.

    Example:
        write_scores(assay.evaluate("bm25.run", "qrels.txt"), "scores.csv")
    """
    writers.require_kind(scores, Scores, "write_scores")
    chosen_format = writers.choose_format(path, format, ("csv", "tsv", "json", "jsonl", "parquet"))
    if chosen_format == "json":
        writers.write_text(path, [writers.to_json(scores.to_dict()), "\n"])
        return
    if chosen_format == "parquet":
        writers.need_parquet()
        table = scores.to_frame("pyarrow")
        writers.write_parquet(table.replace_schema_metadata({"signature": scores.signature}), path)
        return
    names = ["query", *scores.groups, *map(str, scores.measures)]
    groups = [column.tolist() for column in scores.groups.values()]
    values = [[or_none(value) for value in column] for column in scores.values.tolist()]
    rows = map(list, zip(scores.query_ids.to_list(), *groups, *values, strict=True))
    if chosen_format == "jsonl":
        objects = (dict(zip(names, row, strict=True)) for row in rows)
        writers.write_text(path, (f"{writers.to_json(item)}\n" for item in objects))
    else:
        # A spreadsheet takes no guarded cell for a formula.
        guarded = (
            [guard_formula(cell) if isinstance(cell, str) else cell for cell in row]
            for row in chain([names], rows)
        )
        writers.write_delimited(guarded, path, writers.DELIMITERS[chosen_format])
