"""Keypoints: places in an image with a size, a direction and an id; and which of them to keep.

Files keep ids, so that every descriptor is evaluated on the same keypoints:

.csv    id, x, y, size and, if known, angle, response, octave, level, detector
.npz    ids, xy, size and, if known, angle, response, octave, level, detector; or what learned
        features are stored as: keypoints (x, y and perhaps size), scores, descriptors

Names of scenes and keypoints are escaped inside ids and keys: a folder may be called anything.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, cos, sin, stream_key, words
from assay.core import checks
from assay.core.ids import Ids
from assay.core.text import parse_number, parse_whole
from assay.errors import FormatError, ShapeError, UsageError, ValueRangeError
from assay.io.arrays import load_npz
from assay.io.columns import numbered_rows, require_width
from assay.io.streams import atomic_write
from assay.stats.samples import check_seed
from assay.vision import ground_truth
from assay.vision.settings import BORDER

UPRIGHT = -1.0  # the angle of a keypoint whose direction is not known


@dataclass(frozen=True, eq=False)
class Keypoints:
    """Keypoints by id, read-only; make them with `Keypoints.of`, `detect` or `read_keypoints`."""

    ids: Ids
    xy: Floats  # pixels; the centre of the first pixel is (0, 0)
    size: Floats  # diameter in pixels
    angle: Floats  # degrees from the x axis towards the y axis, which points down; −1 unknown
    response: Floats  # strength; the larger the better
    octave: Ints  # these two are the detector's own words for the scale
    level: Ints
    detector: str = ""  # whose words; "" if the size alone tells the scale

    @staticmethod
    def of(
        xy: Any,
        ids: Ids | Iterable[object] | None = None,
        *,
        size: Any,
        angle: Any = UPRIGHT,
        response: Any = 0.0,
        octave: Any = 0,
        level: Any = -1,
        detector: str = "",
        what: str = "The keypoints",
    ) -> Keypoints:
        """Check and take over keypoints; one value stands for all of them, ids default to 0, 1, …

        >>> Keypoints.of([[10, 20], [30, 40]], ["a", "b"], size=8)
        Keypoints(2)
        """
        points = checks.plain_array(xy, f"{what}: xy")
        places = _frozen(
            ground_truth.check_points(points if points.size else np.zeros((0, 2)), f"{what}: xy")
        )
        n = len(places)
        named = Ids.count(n) if ids is None else Ids.of(ids, "keypoint")
        checks.check_lengths(keypoints=n, ids=len(named))
        checks.check_unique(named, "keypoint")
        sizes = _column(size, n, np.float64, f"{what}: size")
        bad = np.flatnonzero(sizes <= 0)
        if len(bad):
            row = int(bad[0])
            raise ValueRangeError(
                f"{what}: the size of {named[row]!r} is {sizes[row]}. Pass a diameter above 0 "
                "pixels."
            )
        columns = {
            "angle": _column(angle, n, np.float64, f"{what}: angle"),
            "response": _column(response, n, np.float64, f"{what}: response"),
            "octave": _column(octave, n, np.int64, f"{what}: octave"),
            "level": _column(level, n, np.int64, f"{what}: level"),
        }
        return Keypoints(named, places, sizes, **columns, detector=detector)

    def __len__(self) -> int:
        return len(self.xy)

    def __repr__(self) -> str:
        return f"Keypoints({len(self)}{f' of {self.detector}' if self.detector else ''})"

    def take(self, places: Any) -> Keypoints:
        """Return some of the keypoints, by their places or by a mask."""
        selection = np.asarray(places)
        at = np.flatnonzero(selection) if selection.dtype == bool else selection.astype(np.int64)
        columns = ("xy", "size", "angle", "response", "octave", "level")
        chosen_rows = {name: _frozen(getattr(self, name)[at]) for name in columns}
        return replace(self, ids=self.ids.take(at), **chosen_rows)


def project(keypoints: Keypoints, H: Any, shape: tuple[int, ...]) -> Keypoints:
    """Project keypoints into another image; those outside are left out.

    Places go through the homography. Sizes grow by √|det| of its derivative at the place, and
    directions turn with it.

    Args:
        keypoints: Keypoints of image 1.
        H: Homography from image 1 to the other image.
        shape: Shape of the other image: height, width, …

    Returns:
        The keypoints that the other image shows, with their ids.

    Raises:
        ShapeError: If H is not 3 × 3.
        ValueRangeError: If H is singular or not finite.

    Example:
        >>> moved = [[1, 0, 5], [0, 1, 0], [0, 0, 1]]
        >>> project(Keypoints.of([[10, 20]], size=8), moved, (50, 50)).xy.tolist()
        [[15.0, 20.0]]
    """
    matrix = ground_truth.as_homography(H)
    seen = np.flatnonzero(
        ground_truth.inside(ground_truth.project_points(keypoints.xy, matrix), shape)
    )
    visible = keypoints.take(seen)
    affine = ground_truth.local_affine(visible.xy, matrix)
    radians = np.deg2rad(visible.angle)
    ahead = np.stack([cos(radians), sin(radians)], axis=1)
    x, y = (affine @ ahead[:, :, None])[:, :, 0].T
    turned = np.rad2deg(np.arctan2(y, x)) % 360.0
    return Keypoints.of(
        ground_truth.project_points(visible.xy, matrix),
        visible.ids,
        size=visible.size * np.sqrt(np.abs(np.linalg.det(affine))),
        angle=np.where(visible.angle == UPRIGHT, UPRIGHT, turned),  # unknown stays unknown
        response=visible.response,
        what="The projected keypoints",
    )


def _column(values: Any, n: int, dtype: Any, what: str) -> Any:
    column = checks.plain_array(values, what)
    if column.dtype.kind not in ("iuf" if dtype is np.float64 else "iu"):
        raise ValueRangeError(f"{what} must be numbers, found {column.dtype}.")
    if column.shape not in ((), (n,)):
        raise ShapeError(f"{what} must be one number for each of {n}, found {column.shape}.")
    result = np.array(np.broadcast_to(column, n), dtype)
    if dtype is np.float64:
        checks.check_finite(result, what)
    return _frozen(result)


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def inside_border(
    keypoints: Keypoints, shape: tuple[int, ...], *, border: float = BORDER
) -> Keypoints:
    """Keep keypoints at least `border` pixels from each edge.

    Args:
        keypoints: The keypoints to choose from.
        shape: Shape of their image: height, width, …
        border: Pixels to each edge; 0 keeps what lies in the image.

    Returns:
        Those inside, in their order.

    Raises:
        UsageError: If the border is negative or the shape is not one of an image.

    >>> inside_border(Keypoints.of([[39, 50], [40, 50]], size=5), (100, 100)).ids
    Ids(1 integer: 1)
    """
    _require_pixels(border, "border")
    height, width = ground_truth.image_size(shape)
    x, y = keypoints.xy[:, 0], keypoints.xy[:, 1]
    return keypoints.take(
        (x >= border) & (x <= width - 1 - border) & (y >= border) & (y <= height - 1 - border)
    )


def by_size(keypoints: Keypoints, *, least: float = 0.0, most: float = np.inf) -> Keypoints:
    """Keep keypoints of a diameter from `least` to `most` pixels.

    Args:
        keypoints: The keypoints to choose from.
        least: Smallest size, inclusive.
        most: Largest size, inclusive.

    Returns:
        Those within the limits, in their order.

    Raises:
        UsageError: If the limits do not rise from a number ≥ 0.

    >>> by_size(Keypoints.of([[1, 2], [3, 4]], size=[4, 9]), least=5).ids
    Ids(1 integer: 1)
    """
    if not checks.is_real(least) or not checks.is_real(most) or not 0 <= least <= most:
        raise UsageError(f"Sizes must rise from a number ≥ 0. Found {least!r} to {most!r}.")
    return keypoints.take((keypoints.size >= least) & (keypoints.size <= most))


def strongest(keypoints: Keypoints, n: int) -> Keypoints:
    """Keep the n of the largest response, in their order.

    Args:
        keypoints: The keypoints to choose from.
        n: How many to keep; of equal ones the first.

    Returns:
        At most n keypoints.

    Raises:
        UsageError: If n is no whole number from 1 on.

    >>> strongest(Keypoints.of([[1, 2], [3, 4]], size=5, response=[1, 2]), 1).ids
    Ids(1 integer: 1)
    """
    count = checks.check_cutoff(n, "n")
    order = np.argsort(-keypoints.response, kind="stable")
    return keypoints.take(np.sort(order[:count]))


def random_subset(keypoints: Keypoints, n: int, *, seed: int = 0) -> Keypoints:
    """Keep n keypoints drawn by a seed, in their order.

    Args:
        keypoints: The keypoints to choose from.
        n: How many to keep; all, if there are no more.
        seed: Another seed draws others.

    Returns:
        At most n keypoints, the same for the same seed on any machine.

    Raises:
        UsageError: If n or the seed is out of range.

    Example:
        >>> len(random_subset(Keypoints.of([[1, 2], [3, 4]], size=5), 1))
        1
    """
    count = checks.check_cutoff(n, "n")
    draw = words(stream_key(check_seed(seed), "keypoints"), 0, len(keypoints))
    return keypoints.take(np.sort(np.argsort(draw, kind="stable")[:count]))


def shared(
    left: Keypoints, right: Keypoints, *, tolerance: float = 3.0
) -> tuple[Keypoints, Keypoints]:
    """Return the keypoints that two detectors both found.

    Args:
        left: Keypoints of one detector.
        right: Keypoints of the other, in the same image.
        tolerance: Largest distance in pixels of a pair, each the other's nearest.

    Returns:
        The paired keypoints of either side, row by row, with the ids of the left.

    Raises:
        UsageError: If the tolerance is no number ≥ 0.

    Example:
        >>> left, right = (Keypoints.of([[x, 9]], size=5) for x in (1, 2))
        >>> [len(side) for side in shared(left, right)]
        [1, 1]
    """
    _require_pixels(tolerance, "tolerance")
    ahead = ground_truth.nearest_within(left.xy, right.xy, tolerance).number
    back = ground_truth.nearest_within(right.xy, left.xy, tolerance).number
    rows = np.flatnonzero(ahead >= 0)
    rows = rows[back[ahead[rows]] == rows]
    ours, theirs = left.take(rows), right.take(ahead[rows])
    return ours, replace(theirs, ids=ours.ids)


def _require_pixels(value: float, name: str) -> None:
    if not checks.is_real(value) or not 0 <= value < np.inf:
        raise UsageError(f"{name} must be a number of pixels ≥ 0, found {value!r}.")


_NOT_IN_ID: Final = re.compile(r"[%\s\0]")
_NOT_IN_KEY: Final = re.compile(r"[%\s\0=;]")


def as_id(name: str) -> str:
    """Escape white space, which ids cannot hold.

    Different names stay different.

    >>> as_id("my scene"), as_id("v_wall")
    ('my%20scene', 'v_wall')
    """
    return _NOT_IN_ID.sub(_escape, name)


def as_ids(start: str, names: Sequence[str]) -> list[str]:
    """Return the ids of many names that share a start.

    >>> as_ids("v_wall/", ["1", "2 b"])
    ['v_wall/1', 'v_wall/2%20b']
    """
    head = as_id(start)
    if _NOT_IN_ID.search("".join(names)) is None:
        return [head + name for name in names]
    return [head + as_id(name) for name in names]


def as_key(name: str) -> str:
    """Escape what would end a key of `key=value;`.

    >>> as_key("a=b")
    'a%3Db'
    """
    return _NOT_IN_KEY.sub(_escape, name)


def _escape(match: re.Match[str]) -> str:
    return quote(match.group(), safe="")


def draw(seed: int, name: str, count: int) -> NDArray[np.uint64]:
    """Return `count` random words for this seed and name.

    >>> draw(0, "a", 2).tolist() == draw(0, "a", 3).tolist()[:2]
    True
    """
    digest = hashlib.sha256(f"{check_seed(seed)}\0{name}".encode()).digest()
    return np.asarray(words(int.from_bytes(digest[:8], "big"), 0, count), np.uint64)


def choose_rows(seed: int, name: str, n: int, k: int) -> NDArray[np.int64]:
    """Draw k of n rows without repeats, rising; at most all."""
    return np.sort(np.argsort(draw(seed, name, n), kind="stable")[:k]).astype(np.int64)


def choose_names(seed: int, name: str, names: Sequence[str], k: int) -> list[str]:
    """Draw k of the names, whatever their order."""
    ordered = sorted(names)
    return [ordered[row] for row in choose_rows(seed, name, len(ordered), k)]


def fill_path(path: str, names: Mapping[str, object]) -> str:
    """Fill names into a path; refuse those that leave its folder.

    >>> fill_path("{scene}/{image}.csv", {"scene": "v_wall", "image": 2})
    'v_wall/2.csv'
    """
    for key, name in names.items():
        text, field = str(name), f"{{{key}}}"
        if field in path and (text in ("", ".", "..") or os.path.basename(text) != text):
            raise UsageError(f"The {key} {text!r} cannot be part of a path. Rename it.")
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
    """Read keypoints from a .csv or .npz file.

    Args:
        path: The file. Ids of a .csv are integers if all are written as such; else text.

    Returns:
        The keypoints.

    Raises:
        UsageError: If the file ends in neither .csv nor .npz.
        FormatError: If columns are missing or a value is no number.

    Example:
        points = read_keypoints("keypoints/v_wall/1.csv")
    """
    return _read_npz(path) if _ending(path) == ".npz" else _read_csv(path)


def write_keypoints(keypoints: Keypoints, path: str | os.PathLike[str]) -> None:
    """Write keypoints to .csv or .npz; reading gives back the same bits.

    Args:
        keypoints: The keypoints.
        path: The file, written atomically.

    Raises:
        UsageError: If the file ends in neither .csv nor .npz.

    Example:
        write_keypoints(points, "keypoints/v_wall/1.csv")
    """
    columns = {name: getattr(keypoints, name) for name in (*_FLOATS, *_WHOLE)}
    if _ending(path) == ".npz":
        ids = np.array(keypoints.ids.to_list()) if len(keypoints) else np.zeros(0, np.int64)
        buffer = io.BytesIO()
        detector = np.array(keypoints.detector)
        np.savez(buffer, ids=ids, detector=detector, xy=keypoints.xy, **columns)
        data = buffer.getvalue()
    else:
        cells = (column.tolist() for column in (*keypoints.xy.T, *columns.values()))
        named = [keypoints.detector] * len(keypoints)
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(_COLUMNS)
        table.writerows(zip(keypoints.ids.to_list(), *cells, named, strict=True))
        data = text.getvalue().encode()
    with atomic_write(path) as file:
        file.write(data)


def _ending(path: str | os.PathLike[str]) -> str:
    ending = Path(path).suffix.lower()
    if ending not in (".csv", ".npz"):
        raise UsageError(f"{os.fspath(path)}: unknown ending. Use .csv or .npz.")
    return ending


def _read_npz(path: str | os.PathLike[str]) -> Keypoints:
    name = os.fspath(path)
    arrays = load_npz(path, (*_ARRAYS, *FEATURES))
    points, scores, _ = (arrays.pop(key, None) for key in FEATURES)
    if points is not None and "xy" not in arrays:  # upright ones of a learned detector
        if points.ndim != 2 or points.shape[1] < 2 or points.dtype.kind not in "iuf":
            raise ShapeError(
                f"{name}: keypoints are rows of x, y and perhaps a size, found shape "
                f"{points.shape} of {points.dtype}."
            )
        diameter = points[:, 2] if points.shape[1] > 2 else 1.0
        response = 0.0 if scores is None else np.asarray(scores).reshape(-1)
        return Keypoints.of(points[:, :2], size=diameter, response=response, what=name)
    missing = [key for key in ("ids", "xy", "size") if key not in arrays]
    if missing:
        raise FormatError(f"{name} lacks {', '.join(missing)}. Add it.")
    ids, detector = arrays.pop("ids"), arrays.pop("detector", np.array(""))
    if ids.ndim != 1 or ids.dtype.kind not in "iuU" or detector.dtype.kind != "U" or detector.ndim:
        raise FormatError(
            f"{name}: invalid ids or detector. Use text or whole numbers, and one detector."
        )
    named = Ids.of(ids if ids.dtype.kind in "iu" else ids.tolist(), "keypoint")
    xy = arrays.pop("xy")
    columns: dict[str, Any] = {"size": arrays.pop("size"), **arrays}
    return Keypoints.of(xy, named, **columns, detector=str(detector), what=name)


def _read_csv(path: str | os.PathLike[str]) -> Keypoints:
    name = os.fspath(path)
    lines = numbered_rows(path)
    header = next(lines, (0, []))[1]
    missing = set(_NEEDED) - set(header)
    if missing or not set(header) <= set(_COLUMNS) or len(set(header)) < len(header):
        raise FormatError(
            f"{name}: the first line must name the columns {', '.join(_NEEDED)} and, if known, "
            f"{', '.join(_COLUMNS[4:])}; found {', '.join(header)[:200]}."
        )
    rows = [row for _, row in lines]
    if rows:
        require_width(rows, len(header), lambda at: f"{name}, keypoint {at + 1}")
    cells = {column: [row[at] for row in rows] for at, column in enumerate(header)}
    ids, detectors = cells.pop("id"), set(cells.pop("detector", [])) or {""}
    if len(detectors) > 1:
        raise FormatError(f"{name} mixes the detectors {', '.join(sorted(detectors))}. Split it.")
    columns: dict[str, Any] = {}
    for column, texts in cells.items():
        whole = column in _WHOLE
        values = [parse_whole(text) if whole else parse_number(text) for text in texts]
        if None in values:
            row = values.index(None)
            what = "a whole number up to 10^15" if whole else "a finite number"
            raise FormatError(
                f"{name}, keypoint {row + 1}: {column} is {texts[row][:60]!r}, not {what}."
            )
        columns[column] = np.array(values, np.int64 if whole else np.float64)
    xy = np.stack([columns.pop("x"), columns.pop("y")], axis=1)
    numbered = bool(ids) and all(map(_NUMBER.fullmatch, ids))
    named = Ids.of([int(text) for text in ids] if numbered else ids, "keypoint")
    return Keypoints.of(xy, named, **columns, detector=detectors.pop(), what=name)
