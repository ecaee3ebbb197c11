"""Keypoints in files, with their ids, so that every descriptor is evaluated on the same ones.

.csv    id, x, y, size and, if known, angle, response, octave, level, detector
.npz    ids, xy, size and, if known, angle, response, octave, level, detector; or what learned
        features are stored as: keypoints (x, y and perhaps size), scores, descriptors
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from assay.arrays import Array
from assay.core.ids import Ids
from assay.core.numbers import parse_number, parse_whole
from assay.core.once import Once
from assay.errors import FormatError, InputError, ShapeError, UsageError
from assay.io.arrays import load_npz
from assay.io.atomic import atomic_write
from assay.io.tables import numbered_rows
from assay.tasks.vision.images import Image
from assay.tasks.vision.keypoints import (
    BORDER,
    Keypoints,
    by_size,
    inside_border,
    project,
    random_subset,
    shared,
    strongest,
)
from assay.tasks.vision.opencv_features import detect
from assay.tasks.vision.scenes import Scene

__all__ = [
    "FEATURES",
    "Detections",
    "KeypointSettings",
    "fill_path",
    "keypoints_of",
    "project_keypoints",
    "read_keypoints",
    "write_keypoints",
]


def fill_path(path: str, names: Mapping[str, object]) -> str:
    """The path with the names put in; one that would lead to another folder is refused.

    >>> fill_path("{scene}/{image}.csv", {"scene": "v_wall", "image": 2})
    'v_wall/2.csv'
    """
    for key, name in names.items():
        text, field = str(name), f"{{{key}}}"
        if field in path and (text in ("", ".", "..") or os.path.basename(text) != text):
            raise UsageError(f"The {key} {text!r} cannot be part of a path.")
        path = path.replace(field, text)
    return path


_FLOATS: Final = ("size", "angle", "response")
_WHOLE: Final = ("octave", "level")
_COLUMNS: Final = ("id", "x", "y", *_FLOATS, *_WHOLE, "detector")
_NEEDED: Final = ("id", "x", "y", "size")
_ARRAYS: Final = ("ids", "xy", *_FLOATS, *_WHOLE, "detector")
FEATURES: Final = ("keypoints", "scores", "descriptors")  # D2-Net's, R2D2's, SuperPoint's files
_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


def read_keypoints(path: str | os.PathLike[str]) -> Keypoints:
    """Keypoints from a .csv or .npz file.

    Ids of a .csv are integers if all are written as such, without zeros before; else text.
    """
    return _read_npz(path) if _ending(path) == ".npz" else _read_csv(path)


def write_keypoints(keypoints: Keypoints, path: str | os.PathLike[str]) -> None:
    """Write keypoints to .csv or .npz so that reading gives back the same bits."""
    data = _npz_bytes(keypoints) if _ending(path) == ".npz" else _csv_bytes(keypoints)
    with atomic_write(path) as file:
        file.write(data)


def _ending(path: str | os.PathLike[str]) -> str:
    ending = Path(path).suffix.lower()
    if ending not in (".csv", ".npz"):
        raise UsageError(f"{os.fspath(path)}: keypoints are stored in .csv and .npz files.")
    return ending


def _read_npz(path: str | os.PathLike[str]) -> Keypoints:
    name = os.fspath(path)
    arrays = load_npz(path, (*_ARRAYS, *FEATURES))
    if "keypoints" in arrays and "xy" not in arrays:
        return _of_features(arrays["keypoints"], arrays.get("scores"), name)
    for key in FEATURES:
        arrays.pop(key, None)
    missing = [key for key in ("ids", "xy", "size") if key not in arrays]
    if missing:
        raise FormatError(f"{name} lacks {', '.join(missing)}.")
    ids, detector = arrays.pop("ids"), arrays.pop("detector", np.array(""))
    if ids.ndim != 1 or ids.dtype.kind not in "iuU" or detector.dtype.kind != "U" or detector.ndim:
        raise FormatError(f"{name}: ids are text or whole numbers, and detector is one text.")
    named = Ids.of(ids if ids.dtype.kind in "iu" else ids.tolist(), "keypoint")
    xy = arrays.pop("xy")
    columns: dict[str, Any] = {"size": arrays.pop("size"), **arrays}
    return Keypoints.of(xy, named, **columns, detector=str(detector), what=name)


def _of_features(points: Array, scores: Array | None, name: str) -> Keypoints:
    """Keypoints of a learned detector, upright; their ids are the rows."""
    if points.ndim != 2 or points.shape[1] < 2 or points.dtype.kind not in "iuf":
        raise ShapeError(
            f"{name}: keypoints are rows of x, y and perhaps a size, found shape {points.shape} of "
            f"{points.dtype}."
        )
    size = points[:, 2] if points.shape[1] > 2 else 1.0
    response = 0.0 if scores is None else np.asarray(scores).reshape(-1)
    return Keypoints.of(points[:, :2], size=size, response=response, what=name)


def _npz_bytes(keypoints: Keypoints) -> bytes:
    columns = {name: getattr(keypoints, name) for name in ("xy", *_FLOATS, *_WHOLE)}
    ids = np.array(keypoints.ids.to_list()) if len(keypoints) else np.zeros(0, np.int64)
    buffer = io.BytesIO()
    np.savez(buffer, ids=ids, detector=np.array(keypoints.detector), **columns)
    return buffer.getvalue()


def _csv_bytes(keypoints: Keypoints) -> bytes:
    columns = [getattr(keypoints, name).tolist() for name in (*_FLOATS, *_WHOLE)]
    x, y = keypoints.xy.T.tolist()
    detector = [keypoints.detector] * len(keypoints)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_COLUMNS)
    table.writerows(zip(keypoints.ids.to_list(), x, y, *columns, detector, strict=True))
    return text.getvalue().encode()


def _read_csv(path: str | os.PathLike[str]) -> Keypoints:
    name = os.fspath(path)
    lines = numbered_rows(path)
    header = next(lines, (0, []))[1]
    _check_header(header, name)
    rows = [row for _, row in lines]
    _check_widths(rows, len(header), name)
    cells = {column: [row[at] for row in rows] for at, column in enumerate(header)}
    return _of_cells(cells, name)


def _check_header(header: Sequence[str], name: str) -> None:
    strange = [column for column in header if column not in _COLUMNS]
    missing = [column for column in _NEEDED if column not in header]
    if strange or missing or len(set(header)) < len(header):
        raise FormatError(
            f"{name}: the first line must name the columns {', '.join(_NEEDED)} and, if known, "
            f"{', '.join(_COLUMNS[4:])}; found {', '.join(header)[:200]}."
        )


def _check_widths(rows: list[list[str]], width: int, name: str) -> None:
    bad = next((at for at, row in enumerate(rows) if len(row) != width), None)
    if bad is not None:
        raise FormatError(
            f"{name}, keypoint {bad + 1}: expected {width} cells, found {len(rows[bad])}."
        )


def _of_cells(cells: dict[str, list[str]], name: str) -> Keypoints:
    ids = cells.pop("id")
    detectors = set(cells.pop("detector", [])) or {""}
    if len(detectors) > 1:
        raise FormatError(f"{name} mixes the detectors {', '.join(sorted(detectors))}.")
    columns: dict[str, Any] = {
        column: _numbers(texts, column, name) for column, texts in cells.items()
    }
    xy = np.stack([columns.pop("x"), columns.pop("y")], axis=1)
    whole = bool(ids) and all(map(_NUMBER.fullmatch, ids))
    named = Ids.of([int(text) for text in ids] if whole else ids, "keypoint")
    return Keypoints.of(xy, named, **columns, detector=detectors.pop(), what=name)


def _numbers(texts: list[str], column: str, name: str) -> Any:
    whole = column in _WHOLE
    values = [parse_whole(text) if whole else parse_number(text) for text in texts]
    if None in values:
        row = values.index(None)
        what = "a whole number up to 10^15" if whole else "a finite number"
        raise FormatError(
            f"{name}, keypoint {row + 1}: {column} is {texts[row][:60]!r}, not {what}."
        )
    return np.array(values, np.int64 if whole else np.float64)


Source = Literal["detect", "project", "file"]


@dataclass(frozen=True)
class KeypointSettings:
    """How keypoints are chosen.

    `source`: "detect" finds them in each image, "project" takes those of image 1 through the
    homography, "file" reads `path`, in which {scene} and {image} stand for names. Then those near
    the border go, and those of other sizes; `shared_with` keeps what a second detector found, too;
    then the `strongest` and a `random` choice of so many stay.
    """

    source: Source = "detect"
    detector: str = "sift"
    options: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None
    border: float = BORDER
    least_size: float = 0.0
    most_size: float = float("inf")
    shared_with: str | None = None
    shared_side: Literal["left", "right"] = "left"  # whose sizes and angles: detector or the other
    tolerance: float = 3.0
    strongest: int | None = None
    random: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        if self.source not in ("detect", "project", "file"):
            raise UsageError(f"source must be detect, project or file; found {self.source!r}.")
        if self.shared_side not in ("left", "right"):
            raise UsageError(f"shared_side must be left or right; found {self.shared_side!r}.")
        if self.source == "file" and self.path is None:
            raise UsageError(
                "Keypoints from files need a path such as keypoints/{scene}/{image}.csv."
            )
        if self.source == "detect" and self.path is not None:
            raise UsageError("A path of keypoints needs the source file or project, not detect.")


class Detections:
    """What detectors found in images, so that each is asked once, whoever describes it."""

    def __init__(self) -> None:
        self._found: Once[tuple[str, int, str], Keypoints] = Once()

    def detect(
        self, scene: Scene, k: int, image: Image, detector: str, options: Mapping[str, Any]
    ) -> Keypoints:
        """The keypoints of image k of a scene, all of them."""
        key = scene.name, k, f"{detector.lower()} {sorted(options.items())!r}"
        return self._found.get(key, lambda: detect(image, detector, options=options))

    def forget(self, scene: Scene) -> None:
        """All of a scene but its first image, which is a distractor in others."""
        self._found.forget(lambda key: key[0] == scene.name and key[1] > 1)


def keypoints_of(
    scene: Scene,
    k: int,
    image: Image,
    settings: KeypointSettings,
    detections: Detections | None = None,
) -> Keypoints:
    """The keypoints of image k of a scene; an image without any is refused."""
    ask = partial((detections or Detections()).detect, scene, k, image)
    if settings.path is None:
        found = ask(settings.detector, settings.options)
    else:
        found = read_keypoints(fill_path(settings.path, {"scene": scene.name, "image": k}))
    chosen = _chosen(found, image, settings, ask)
    if not len(chosen):
        raise InputError(
            f"Image {k} of scene {scene.name!r} has no keypoints left: {len(found)} found, none "
            f"of which is {settings.border:g} pixels from the border of its {image.shape[1]} × "
            f"{image.shape[0]} pixels and within the other limits. Change the limits, or leave "
            "the image out."
        )
    return chosen


def project_keypoints(
    scene: Scene, k: int, reference: Keypoints, shape: tuple[int, ...], *, border: float = BORDER
) -> Keypoints:
    """The keypoints of image 1 as image k sees them, with their ids."""
    ahead = inside_border(project(reference, scene.homographies[k], shape), shape, border=border)
    if not len(ahead):
        raise InputError(
            f"None of the {len(reference)} keypoints of scene {scene.name!r} lies in image {k}, "
            f"{border:g} pixels from its border."
        )
    return ahead


def _chosen(
    found: Keypoints,
    image: Image,
    settings: KeypointSettings,
    ask: Callable[[str, Mapping[str, Any]], Keypoints],
) -> Keypoints:
    ours = _limit(found, image, settings)
    if settings.shared_with is None:
        return _cut(ours, settings)
    theirs = _limit(ask(settings.shared_with, {}), image, settings)
    left, right = shared(ours, theirs, tolerance=settings.tolerance)
    kept = _cut(left, settings)
    return kept if settings.shared_side == "left" else right.take(kept.ids.match(right.ids))


def _limit(keypoints: Keypoints, image: Image, settings: KeypointSettings) -> Keypoints:
    inner = inside_border(keypoints, image.shape, border=settings.border)
    return by_size(inner, least=settings.least_size, most=settings.most_size)


def _cut(keypoints: Keypoints, settings: KeypointSettings) -> Keypoints:
    if settings.strongest is not None:
        keypoints = strongest(keypoints, settings.strongest)
    if settings.random is not None:
        keypoints = random_subset(keypoints, settings.random, seed=settings.seed)
    return keypoints
