"""Scenes: images of one plane, and the homographies from the first to each of the others."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core import checks
from assay.core.id_hints import describe_near
from assay.errors import FormatError, InputError, MismatchError, UsageError
from assay.io.json_text import parse_json
from assay.io.streams import list_folder, read_text
from assay.io.tables import numbered_rows
from assay.tasks.vision.homography import as_homography, read_homography
from assay.tasks.vision.images import Image, read_image

__all__ = [
    "LAYOUTS",
    "UNKNOWN",
    "Categories",
    "Scene",
    "category_of",
    "find_scenes",
    "name_categories",
]

Categories = Mapping[str, str] | Callable[[str], str] | str | os.PathLike[str] | None

UNKNOWN: Final = "uncategorised"
_PREFIXES: Final = {"i_": "illumination", "v_": "viewpoint"}
# What changes in the scenes of Mikolajczyk et al., IJCV 65 (2005).
_OXFORD: Final = {
    "bark": "zoom",
    "boat": "zoom",
    "bikes": "blur",
    "trees": "blur",
    "graf": "viewpoint",
    "wall": "viewpoint",
    "leuven": "illumination",
    "ubc": "compression",
}


def category_of(name: str) -> str:
    """What changes in a scene, by its name: `i_…`, `v_…` or one of the Oxford scenes.

    >>> category_of("v_wall"), category_of("leuven"), category_of("kitchen")
    ('viewpoint', 'illumination', 'uncategorised')
    """
    return _PREFIXES.get(name[:2]) or _OXFORD.get(name, UNKNOWN)


def name_categories(names: list[str], categories: Categories) -> dict[str, str]:
    """The category of every scene; a mapping that leaves one out is refused."""
    if categories is None:
        return {name: category_of(name) for name in names}
    if isinstance(categories, str | os.PathLike):
        return _look_up(names, _read_mapping(categories), f"{os.fspath(categories)}")
    if isinstance(categories, Mapping):
        return _look_up(names, categories, "The mapping of categories")
    if not callable(categories):
        raise UsageError(
            "categories must be a mapping of scenes to categories, a file that holds one, or a "
            f"function of the name; found {type(categories).__name__}."
        )
    return {name: _text(categories(name), f"the rule, for scene {name!r}") for name in names}


def _look_up(names: list[str], mapping: Mapping[str, Any], source: str) -> dict[str, str]:
    missing = [name for name in names if name not in mapping]
    if missing:
        raise MismatchError(
            f"{source} gives no category for {checks.name_few(missing)}."
            f"{describe_near(missing, mapping)} Add {'it' if len(missing) == 1 else 'them'}."
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
    rows = numbered_rows(path)
    if next(rows, (0, []))[1] != ["scene", "category"]:
        raise FormatError(f"{name}: the first line must be: scene,category.")
    mapping: dict[str, Any] = {}
    for line, row in rows:
        if len(row) != 2:
            raise FormatError(f"{name}, line {line}: expected 2 columns, found {len(row)}.")
        if row[0] in mapping:
            raise FormatError(f"{name}, line {line}: scene {row[0]!r} appears twice.")
        mapping[row[0]] = row[1]
    return mapping


_ENDINGS: Final = r"\.(?:png|ppm|pgm|jpe?g|tiff?|bmp|webp)"


class _Layout(NamedTuple):
    image: re.Pattern[str]
    homography: re.Pattern[str]
    form: str


LAYOUTS: Final = {
    "hpatches": _Layout(
        re.compile(rf"(\d+){_ENDINGS}", re.I),
        re.compile(r"H_1_(\d+)(?:\.txt|\.xml)?", re.I),
        "1.ppm … 6.ppm with H_1_2 … H_1_6",
    ),
    "oxford": _Layout(
        re.compile(rf"img(\d+){_ENDINGS}", re.I),
        re.compile(r"H1to(\d+)p?(?:\.txt|\.xml)?", re.I),
        "img1.png … img6.png with H1to2p … H1to6p",
    ),
}


# A folder, its images and its homographies by number.
Parts = tuple[Path, dict[int, Path], dict[int, Path]]


@dataclass(frozen=True, eq=False)
class Scene:
    """Images 1, 2, … of a scene; `homographies[k]` maps points of image 1 into image k.

    An image is the path of a file, or an array (rows × columns × blue, green, red).
    """

    name: str
    category: str
    images: tuple[Path | NDArray[Any], ...]
    homographies: Mapping[int, Floats] = field(repr=False)

    def __post_init__(self) -> None:
        """Check that each image after the first has its homography."""
        expected = list(range(2, len(self.images) + 1))
        if sorted(self.homographies) != expected or not expected:
            raise InputError(
                f"Scene {self.name!r} has {len(self.images)} images, so homographies are needed "
                f"to {expected or 'at least one other'}; found {sorted(self.homographies)}."
            )
        checked = {
            k: as_homography(H, what=f"The homography of scene {self.name!r} to image {k}")
            for k, H in sorted(self.homographies.items())
        }
        object.__setattr__(self, "homographies", MappingProxyType(checked))

    @property
    def pairs(self) -> tuple[int, ...]:
        """The images that image 1 is compared with: 2, 3, …"""
        return tuple(self.homographies)

    def image(self, k: int) -> Image:
        """Read image k; the first is 1."""
        whole = isinstance(k, int | np.integer) and not isinstance(k, bool)
        if not whole or not 1 <= k <= len(self.images):
            raise UsageError(
                f"Scene {self.name!r} has the images 1 to {len(self.images)}; there is no {k!r}."
            )
        return read_image(self.images[k - 1])


def find_scenes(
    folder: str | os.PathLike[str], *, layout: str = "auto", categories: Categories = None
) -> list[Scene]:
    """The scenes in a folder, one a sub-folder, by name; or the folder itself, if it is a scene.

    `layout` is "hpatches", "oxford" or "auto", which knows them by their file names. `categories`
    is a mapping from scene to category, a file that holds one, or a function of the name; without
    it the prefixes `i_` and `v_` and the names of the Oxford scenes decide. Folders that hold
    neither images nor homographies are passed over; a scene that lacks some is refused.
    """
    if layout not in ("auto", *LAYOUTS):
        raise UsageError(f"layout must be auto, {' or '.join(LAYOUTS)}; found {layout!r}.")
    wanted = tuple(LAYOUTS) if layout == "auto" else (layout,)
    root = Path(folder)
    scenes = _scenes_in(root, wanted)
    if not scenes:
        forms = "; or ".join(LAYOUTS[name].form for name in wanted)
        raise InputError(f"{root} holds no scenes: no folder has {forms}.")
    kinds = name_categories(list(scenes), categories)
    return [_scene(name, kinds[name], *parts) for name, parts in scenes.items()]


def _scenes_in(root: Path, layouts: tuple[str, ...]) -> dict[str, Parts]:
    """The folder, if it is a scene, else those of its folders that are."""
    inner = _folders(root)
    itself = _parts(root.resolve(), layouts)
    if itself is not None:
        return {root.resolve().name: itself}
    found = {path.name: _parts(path, layouts) for path in inner}
    return {name: parts for name, parts in found.items() if parts is not None}


def _folders(root: Path) -> list[Path]:
    return [path for path in list_folder(root) if path.is_dir() and not path.name.startswith(".")]


def _parts(folder: Path, layouts: tuple[str, ...]) -> Parts | None:
    """The images and homographies of a folder by number; None if it is not a scene."""
    found = {name: _number_files(folder, LAYOUTS[name]) for name in layouts}
    usable = {name: parts for name, parts in found.items() if any(parts)}
    whole = {name: parts for name, parts in usable.items() if all(parts)}
    if len(whole) > 1:
        raise FormatError(f"{folder} holds the files of two layouts. Say which one is meant.")
    if not usable:
        return None
    images, homographies = next(iter((whole or usable).values()))
    if homographies:
        _refuse_gaps(folder, images, homographies)
        return folder, images, homographies
    return None  # numbered pictures alone are no scene


def _number_files(folder: Path, layout: _Layout) -> tuple[dict[int, Path], dict[int, Path]]:
    images: dict[int, Path] = {}
    homographies: dict[int, Path] = {}
    for path in list_folder(folder):
        for pattern, known in ((layout.image, images), (layout.homography, homographies)):
            match = pattern.fullmatch(path.name)
            if match:
                _add(known, int(match[1]), path)
    return images, homographies


def _add(known: dict[int, Path], number: int, path: Path) -> None:
    if number in known:
        raise FormatError(
            f"{path} and {known[number].name} both claim the number {number}. Remove one."
        )
    known[number] = path


def _refuse_gaps(folder: Path, images: dict[int, Path], homographies: dict[int, Path]) -> None:
    needed = set(range(1, max([*images, *homographies]) + 1))
    lost = sorted(needed - set(images))
    if lost:
        raise FormatError(f"{folder} lacks the image {checks.name_few(lost)}.")
    unmapped = sorted(needed - {1} - set(homographies))
    if unmapped:
        raise FormatError(
            f"{folder} lacks the homography from image 1 to {checks.name_few(unmapped)}."
        )
    if 1 in homographies:
        raise FormatError(f"{homographies[1]} maps image 1 to itself. Remove it.")


def _scene(
    name: str, category: str, folder: Path, images: dict[int, Path], homographies: dict[int, Path]
) -> Scene:
    return Scene(
        name,
        category,
        tuple(images[k] for k in sorted(images)),
        {k: read_homography(path) for k, path in sorted(homographies.items())},
    )
