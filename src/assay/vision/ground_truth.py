"""Match keypoints of two images by the homography between them.

A homography says where a point of one image lies in another, and how its surroundings turn. The
nearest of many points are found by a grid: no matrix of all distances is made.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple
from xml.etree.ElementTree import TreeBuilder
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core import checks
from assay.core.text import is_decimal, parse_whole
from assay.errors import FormatError, InputError, ShapeError, UsageError, ValueRangeError
from assay.io.streams import open_chunks, read_text

_LONGEST = 1 << 16  # nine numbers take a few hundred bytes
_WORST_CONDITION = 1e14


def as_homography(matrix: Any, *, what: str = "The homography") -> Floats:
    """Check a homography: finite, invertible, 3 × 3.

    The result is read-only and has w > 0 at the corner of image 1. H and −H are the same map. The
    sign is settled here; no entry is scaled, so no bit is lost.
    """
    array = checks.plain_array(matrix, what)
    if array.shape != (3, 3) or array.dtype.kind not in "iuf":
        raise ShapeError(f"{what} must be 3 × 3 numbers, found {array.shape} of {array.dtype}.")
    result: Floats = np.array(array, np.float64)
    if not np.isfinite(result).all():
        row, column = np.argwhere(~np.isfinite(result))[0]
        raise ValueRangeError(
            f"{what} holds {result[row, column]} in row {row}, column {column}. Correct the file."
        )
    largest = np.abs(result).max()
    if not largest or not np.linalg.cond(result / largest) < _WORST_CONDITION:
        raise ValueRangeError(
            f"{what} is singular: the image maps to a line or point. Correct the file."
        )
    if result[2, 2] < 0:
        result = -result
    result.flags.writeable = False
    return result


def read_homography(path: str | os.PathLike[str]) -> Floats:
    """Read nine numbers of text, or the matrix of OpenCV's XML."""
    name = os.fspath(path)
    if sum(map(len, open_chunks(name))) > _LONGEST:
        raise FormatError(f"{name} is too long for nine numbers. Check the file name.")
    text = read_text(name)
    matrix = _of_xml(text, name) if text.lstrip().startswith("<") else _of_text(text, name)
    return as_homography(matrix, what=f"The homography in {name}")


def _of_text(text: str, name: str) -> list[list[float]]:
    rows = [line.replace(",", " ").split() for line in text.splitlines() if line.strip()]
    try:
        matrix = [list(map(_number, row)) for row in rows]
    except ValueError as error:
        raise FormatError(f"{name}: a homography is nine numbers; {error}.") from None
    lengths = list(map(len, matrix))
    if lengths != [3, 3, 3]:
        raise ShapeError(
            f"{name}: a homography is three lines of three numbers, found lines of {lengths} "
            "numbers."
        )
    return matrix


def _number(text: str) -> float:
    """Parse a number; the matrix is checked for finite ones later."""
    if is_decimal(text) or text.lower().lstrip("+-") in ("nan", "inf"):
        return float(text)
    raise ValueError(f"found {text[:60]!r}")


def _of_xml(text: str, name: str) -> Floats:
    """Read the only matrix of an OpenCV file.

    Definitions of types and entities are refused unread: without entities XML cannot grow.
    """

    def refuse_declarations(*_: object) -> None:
        raise ValueError("XML types and entities are not allowed. Remove them")

    builder, parser = TreeBuilder(), ParserCreate()
    parser.StartDoctypeDeclHandler = refuse_declarations
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(text, True)
    except (ExpatError, ValueError) as error:
        raise FormatError(f"{name} is not valid XML ({error}).") from None
    matrices = [node for node in builder.close() if node.get("type_id") == "opencv-matrix"]
    if len(matrices) != 1:
        raise FormatError(f"{name}: expected one OpenCV matrix, found {len(matrices)}.")
    node = matrices[0]
    rows, columns = (parse_whole(node.findtext(key, "0").strip()) for key in ("rows", "cols"))
    try:
        values = list(map(_number, node.findtext("data", "").split()))
        if rows is None or columns is None:
            raise ValueError("rows or cols is missing")
    except ValueError as error:
        raise FormatError(f"{name}: not a matrix of numbers: {error}. Write 3 × 3.") from None
    if (rows, columns, len(values)) != (3, 3, 9):
        raise ShapeError(
            f"{name}: a homography has 3 rows, 3 columns and 9 numbers, found {rows} rows, "
            f"{columns} columns and {len(values)} numbers."
        )
    return np.array(values).reshape(3, 3)


def project_points(xy: Floats, H: Floats) -> Floats:
    """Return where points lie in the other image.

    NaN where w ≤ 0, at or behind the line at infinity. The sums run in one fixed order, so the
    result has the same bits on any machine.

    >>> project_points(np.array([[1.0, 2.0]]), np.array([[1.0, 0, 5], [0, 1, -1], [0, 0, 1]]))
    array([[6., 1.]])
    """
    x, y = xy[:, 0], xy[:, 1]
    w = H[2, 0] * x + H[2, 1] * y + H[2, 2]
    w = np.where(w > 0, w, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        ahead = [(row[0] * x + row[1] * y + row[2]) / w for row in H[:2]]
    return np.stack(ahead, axis=1)


def local_affine(xy: Floats, H: Floats) -> Floats:
    """Return the 2 × 2 derivative of the homography at each point.

    It tells how a small patch is turned and scaled.

    >>> local_affine(np.array([[3.0, 4.0]]), np.diag([2.0, 2.0, 1.0])).tolist()
    [[[2.0, 0.0], [0.0, 2.0]]]
    """
    ahead = project_points(xy, H)
    w = H[2, 0] * xy[:, 0] + H[2, 1] * xy[:, 1] + H[2, 2]
    affine: Floats = (H[:2, :2] - ahead[:, :, None] * H[2, :2]) / w[:, None, None]
    return affine


def inside(xy: Floats, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which points lie in an image of that shape.

    It reaches from the centre of the first pixel to that of the last.
    """
    height, width = image_size(shape)
    x, y = xy[:, 0], xy[:, 1]
    return (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)


def image_size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return height and width of an image of that shape."""
    sizes = tuple(shape[:2]) if isinstance(shape, tuple | list) else ()
    if len(sizes) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in sizes):
        raise UsageError(f"Invalid image shape {shape!r}. Pass (height, width, …).")
    return sizes


MOST_PAIRS = 1 << 21  # distances at a time
MOST_KEPT = 1 << 24
_SPAN = 1 << 30


class NearPairs(NamedTuple):
    """Points of two sets that lie within the radius of one another."""

    left: Ints
    right: Ints
    distance: Floats


class NearestPoints(NamedTuple):
    """For each point the number of the nearest one (−1: none within the radius)."""

    number: Ints
    distance: Floats  # inf where there is none


def nearest_within(points: Floats, candidates: Floats, radius: float) -> NearestPoints:
    """Find the nearest of `candidates` to each point within the radius.

    Of equally near ones the lowest number is taken. A point that is NaN has none.

    >>> nearest_within(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [3.0, 4.0]]), 5.0)
    NearestPoints(number=array([0]), distance=array([5.]))
    """
    index = np.full(len(points), -1, np.int64)
    distance = np.full(len(points), np.inf)
    firsts = _first_at_each_place(candidates)
    for left, right, apart in _blocks(points, candidates[firsts], radius):
        starts = np.flatnonzero(np.diff(left, prepend=-1))  # the pairs of a point stand together
        if not len(starts):
            continue
        least = np.minimum.reduceat(apart, starts)
        tied = apart == np.repeat(least, np.diff(starts, append=len(left)))
        numbers = np.where(tied, firsts[right], len(candidates))
        distance[left[starts]] = least
        index[left[starts]] = np.minimum.reduceat(numbers, starts)
    return NearestPoints(index, distance)


def pairs_within(points: Floats, candidates: Floats, radius: float) -> NearPairs:
    """Find all pairs within the radius, nearest first.

    Ties stand by number, left then right; the radius is inclusive.
    """
    blocks: list[NearPairs] = []
    total = 0
    for block in _blocks(points, candidates, radius):
        blocks.append(block)
        total += len(block.left)
        if total > MOST_KEPT:
            raise InputError(
                f"More than {MOST_KEPT} pairs of points lie within {radius:g} pixels. Use a "
                "smaller tolerance, or fewer points."
            )
    left, right, apart = (
        np.concatenate([block[part] for block in blocks]) if blocks else np.zeros(0, kind)
        for part, kind in enumerate((np.int64, np.int64, np.float64))
    )
    order = np.lexsort((right, left, apart))
    return NearPairs(left[order], right[order], apart[order])


def _first_at_each_place(points: Floats) -> Ints:
    """Return the lowest number at each distinct place, rising.

    So many equal points cost as much as one.
    """
    places = points[:, 0] + 1j * points[:, 1]
    return np.sort(np.unique(places, return_index=True)[1]).astype(np.int64)


def _blocks(points: Floats, targets: Floats, radius: float) -> Iterator[NearPairs]:
    """Yield pairs within the radius; those of one point together."""
    if not len(points) or not len(targets):
        return
    side = max(radius, 1.0)
    keys = _keys(_cells(targets, side))
    order = np.argsort(keys, kind="stable").astype(np.int64)
    valid = np.flatnonzero(np.isfinite(points).all(axis=1))
    # Candidates stand in three rows of cells.
    cells = _cells(points[valid], side)[:, None, :] + np.array([[0, -1], [0, 0], [0, 1]])
    sorted_keys, beside = keys[order], np.array([1, 0])
    starts = np.searchsorted(sorted_keys, _keys(cells - beside), side="left")
    counts = np.searchsorted(sorted_keys, _keys(cells + beside), side="right") - starts
    for rows in _row_blocks(counts.sum(axis=1)):
        left, places = _spread(starts[rows], counts[rows])
        candidates = order[places]
        numbers = valid[rows.start + left]
        apart = point_distances(points[numbers], targets[candidates])
        close = apart <= radius
        yield NearPairs(numbers[close], candidates[close], apart[close])


def _cells(points: Floats, side: float) -> Ints:
    """Return the cell of each point; far ones share rim cells."""
    return np.clip(np.floor(points / side), -_SPAN, _SPAN).astype(np.int64)


def _keys(cells: Ints) -> Ints:
    return cells[..., 1] * (4 * _SPAN) + cells[..., 0]


def _row_blocks(counts: Ints) -> Iterator[slice]:
    """Cut the points so that each block holds few pairs, and at least one point."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + MOST_PAIRS, side="right")))
        yield slice(start, stop)
        start = stop


def _spread(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return for each pair the point's row and its candidate's place."""
    flat = counts.ravel()
    ends = np.cumsum(flat)
    within = np.arange(ends[-1]) - np.repeat(ends - flat, flat)
    rows = np.repeat(np.arange(flat.size) // counts.shape[1], flat)
    return rows, np.repeat(starts.ravel(), flat) + within


def point_distances(left: Floats, right: Floats) -> Floats:
    """Return distances between points, row by row."""
    x, y = (left - right).T
    return np.asarray(np.sqrt(x * x + y * y))


class Status(IntEnum):
    """Status of a query's true match."""

    MATCHED = 0
    NO_MATCH = 1  # it lies in the other image, but no keypoint is near enough
    OUTSIDE = 2  # it lies outside the other image, or behind it: there is no ground truth
    FAILED = 3  # there is a true match, but it has no descriptor (only in a `PairData`)


@dataclass(frozen=True, eq=False)
class Truth:
    """The true match of each query within `tau` pixels."""

    tau: float
    target: Ints  # row among the targets, −1 for none
    status: NDArray[np.int8]  # of `Status`
    distance: Floats  # pixels to the true match, inf for none

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for part in (self.target, self.status, self.distance):
            part.flags.writeable = False

    def __len__(self) -> int:
        return len(self.target)

    def __repr__(self) -> str:
        parts = [(self.count(status), status.name.lower()) for status in Status]
        if not parts[-1][0]:
            parts.pop()
        counts = ", ".join(f"{count} {name}" for count, name in parts)
        return f"Truth(within {self.tau:g} px: {counts})"

    def count(self, status: Status) -> int:
        """Count the queries of a status."""
        return int((self.status == status).sum())

    def take(self, queries: Ints) -> Truth:
        """Return the truth of some of the queries."""
        return Truth(self.tau, self.target[queries], self.status[queries], self.distance[queries])


def match_truth(
    query_xy: Any,
    target_xy: Any,
    H: Any,
    *,
    tau: float = 3.0,
    target_shape: tuple[int, ...],
    **more: Any,
) -> Truth:
    """Find the target nearest to each query's projection within `tau` pixels.

    Of equally near targets the lower row is taken. A projection outside the target image has no
    ground truth.

    Args:
        query_xy: Places of the queries in image 1, a row each.
        target_xy: Places of the targets in the other image.
        H: Homography from image 1 to the other image.
        tau: Tolerance in pixels, inclusive.
        target_shape: Shape of the other image: height, width, …
        **more: source_shape, one_to_one and symmetric, as for `match_truths`.

    Returns:
        The true match and status of each query.

    Raises:
        UsageError: If the tolerance is no number ≥ 0.
        ShapeError: If places or H have the wrong shape.

    >>> match_truth([[10, 10], [90, 10]], [[15, 10]], [[1, 0, 5], [0, 1, 0], [0, 0, 1]],
    ...             target_shape=(50, 90))
    Truth(within 3 px: 1 matched, 0 no_match, 1 outside)
    """
    truths = match_truths(query_xy, target_xy, H, taus=[tau], target_shape=target_shape, **more)
    return truths[float(tau)]


def match_truths(
    query_xy: Any,
    target_xy: Any,
    H: Any,
    *,
    taus: Iterable[float],
    target_shape: tuple[int, ...],
    source_shape: tuple[int, ...] | None = None,
    one_to_one: bool = False,
    symmetric: bool = False,
) -> dict[float, Truth]:
    """Find true matches for several tolerances at once.

    Args:
        query_xy: Places of the queries in image 1, a row each.
        target_xy: Places of the targets in the other image.
        H: Homography from image 1 to the other image.
        taus: Tolerances in pixels; all other arguments are as for `match_truth`.
        target_shape: Shape of the other image.
        source_shape: Shape of image 1, for `symmetric`.
        one_to_one: Give pairs away from the nearest to the farthest, each side once.
        symmetric: Ask that the target, projected back, lies within `tau` of the query.

    Returns:
        The truth for each tolerance.

    Raises:
        UsageError: If a tolerance is no number ≥ 0, or stands there twice.

    Example:
        >>> sorted(match_truths([[1, 1]], [[1, 2]], np.eye(3), taus=[1, 3], target_shape=(9, 9)))
        [1.0, 3.0]
    """
    radii = check_taus(taus)
    queries, targets = check_points(query_xy, "query_xy"), check_points(target_xy, "target_xy")
    matrix = as_homography(H)
    ahead = project_points(queries, matrix)
    seen = inside(ahead, target_shape)
    ahead[~seen] = np.nan
    back = _Back(queries, targets, matrix, source_shape) if symmetric else None
    find = _one_to_one if one_to_one else _nearest
    truths = {}
    for tau, near in find(ahead, targets, radii, back).items():
        status = np.where(near.number >= 0, Status.MATCHED, Status.NO_MATCH).astype(np.int8)
        status[~seen] = Status.OUTSIDE
        truths[tau] = Truth(tau, near.number, status, near.distance)
    return truths


def check_taus(taus: Iterable[float]) -> list[float]:
    """Check tolerances in pixels: finite, ≥ 0, none twice."""
    values = checks.as_list(taus, "taus")
    for tau in values:
        if not checks.is_real(tau) or not 0 <= float(tau) < math.inf:
            raise UsageError(f"tau is {tau!r}. Pass pixels ≥ 0.")
    radii = [float(tau) for tau in values]
    if not radii or len(set(radii)) < len(radii):
        raise UsageError(f"taus are {values}. Pass different tolerances, at least one.")
    return radii


def check_points(xy: Any, what: str) -> Floats:
    """Return finite points (x, y), a row each, as a copy."""
    points = checks.plain_array(xy, what)
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "iuf":
        raise ShapeError(
            f"{what} must hold two numbers (x, y) a row, found shape {points.shape} of "
            f"{points.dtype}."
        )
    result = points.astype(np.float64)
    checks.check_finite(result, what)
    return result


class _Back:
    """The check in the other direction: a target must come back to its query."""

    def __init__(
        self, queries: Floats, targets: Floats, H: Floats, shape: tuple[int, ...] | None
    ) -> None:
        self._queries = queries
        # The inverse keeps its sign: what lies before image 1 has w > 0 in both directions.
        self._back = project_points(targets, np.linalg.inv(H).astype(np.float64))
        if shape is not None:
            self._back[~inside(self._back, shape)] = np.nan

    def agrees(self, queries: Ints, targets: Ints, tau: float) -> NDArray[np.bool_]:
        apart = self._queries[queries] - self._back[targets]
        near: NDArray[np.bool_] = np.sqrt((apart * apart).sum(axis=1)) <= tau  # NaN is not near
        return near


def _nearest(
    ahead: Floats, targets: Floats, taus: list[float], back: _Back | None
) -> dict[float, NearestPoints]:
    widest = nearest_within(ahead, targets, max(taus))
    rows = np.arange(len(ahead))
    nearest = {}
    for tau in taus:
        good = widest.distance <= tau
        if back is not None:
            good &= back.agrees(rows, widest.number, tau) if len(targets) else False
        distance = np.where(good, widest.distance, np.inf)
        nearest[tau] = NearestPoints(np.where(good, widest.number, -1), distance)
    return nearest


def _one_to_one(
    ahead: Floats, targets: Floats, taus: list[float], back: _Back | None
) -> dict[float, NearestPoints]:
    """Give pairs away from the nearest to the farthest, each side once."""
    pairs = pairs_within(ahead, targets, max(taus))
    nearest = {}
    for tau in taus:
        good = pairs.distance <= tau
        if back is not None:
            good &= back.agrees(pairs.left, pairs.right, tau)
        number, apart = np.full(len(ahead), -1, np.int64), np.full(len(ahead), np.inf)
        taken: set[int] = set()
        for query, target, pixels in zip(*(part[good].tolist() for part in pairs), strict=True):
            if number[query] < 0 and target not in taken:
                taken.add(target)
                number[query], apart[query] = target, pixels
        nearest[tau] = NearestPoints(number, apart)
    return nearest
