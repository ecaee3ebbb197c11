"""Which keypoint of one image is which of the other, by the homography between them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core import checks
from assay.errors import ShapeError, UsageError
from assay.tasks.vision.homography import as_homography, inside, project_points
from assay.tasks.vision.near_points import NearestPoints, nearest_within, pairs_within

__all__ = ["Status", "Truth", "check_taus", "match_truth", "match_truths"]


class Status(IntEnum):
    """What is known about a query's true match."""

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
        """Number of queries."""
        return len(self.target)

    def __repr__(self) -> str:
        """Count each status in one line."""
        found = [(self.count(status), status.name.lower()) for status in Status]
        if not found[-1][0]:
            found.pop()
        counts = ", ".join(f"{count} {name}" for count, name in found)
        return f"Truth(within {self.tau:g} px: {counts})"

    def count(self, status: Status) -> int:
        """Number of queries of a status."""
        return int((self.status == status).sum())

    def take(self, queries: Ints) -> Truth:
        """The truth of some of the queries."""
        return Truth(self.tau, self.target[queries], self.status[queries], self.distance[queries])


def match_truth(
    query_xy: Any,
    target_xy: Any,
    H: Any,
    *,
    tau: float = 3.0,
    target_shape: tuple[int, ...],
    source_shape: tuple[int, ...] | None = None,
    one_to_one: bool = False,
    symmetric: bool = False,
) -> Truth:
    """For each query the target nearest to its projection, if within `tau` pixels (inclusive).

    Equally near targets: the lower row. A projection outside the target image has no ground truth.
    `one_to_one` gives pairs away from the nearest to the farthest, each query and target once.
    `symmetric` also asks that the target, projected back, lies within `tau` of the query, and in
    the source image where its shape is given.

    >>> match_truth([[10, 10], [90, 10]], [[15, 10]], [[1, 0, 5], [0, 1, 0], [0, 0, 1]],
    ...             target_shape=(50, 90))
    Truth(within 3 px: 1 matched, 0 no_match, 1 outside)
    """
    truths = match_truths(
        query_xy,
        target_xy,
        H,
        taus=[tau],
        target_shape=target_shape,
        source_shape=source_shape,
        one_to_one=one_to_one,
        symmetric=symmetric,
    )
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
    """The truth for several tolerances at once; see `match_truth`."""
    radii = check_taus(taus)
    queries, targets = _points(query_xy, "query_xy"), _points(target_xy, "target_xy")
    matrix = as_homography(H)
    ahead = project_points(queries, matrix)
    seen = inside(ahead, target_shape)
    ahead[~seen] = np.nan
    back = _Back(queries, targets, matrix, source_shape) if symmetric else None
    find = _one_to_one if one_to_one else _nearest
    return {tau: _truth(tau, near, seen) for tau, near in find(ahead, targets, radii, back).items()}


def check_taus(taus: Iterable[float]) -> list[float]:
    """Tolerances in pixels, each finite and ≥ 0, none twice."""
    found = checks.as_list(taus, "taus")
    for tau in found:
        if not checks.is_real(tau) or not 0 <= float(tau) < math.inf:
            raise UsageError(f"tau must be a number of pixels ≥ 0, found {tau!r}.")
    radii = [float(tau) for tau in found]
    if not radii or len(set(radii)) < len(radii):
        raise UsageError(f"taus must be different tolerances, at least one; found {found}.")
    return radii


def _points(xy: Any, what: str) -> Floats:
    points = checks.plain_array(xy, what)
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "iuf":
        raise ShapeError(
            f"{what} must hold two numbers (x, y) a row, found shape {points.shape} of "
            f"{points.dtype}."
        )
    result = points.astype(np.float64)
    checks.check_finite(result, what)
    return result


def _truth(tau: float, near: NearestPoints, seen: NDArray[np.bool_]) -> Truth:
    status = np.where(near.number >= 0, Status.MATCHED, Status.NO_MATCH).astype(np.int8)
    status[~seen] = Status.OUTSIDE
    return Truth(tau, near.number, status, near.distance)


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
    found = {}
    for tau in taus:
        good = widest.distance <= tau
        if back is not None:
            good &= back.agrees(rows, widest.number, tau) if len(targets) else False
        distance = np.where(good, widest.distance, np.inf)
        found[tau] = NearestPoints(np.where(good, widest.number, -1), distance)
    return found


def _one_to_one(
    ahead: Floats, targets: Floats, taus: list[float], back: _Back | None
) -> dict[float, NearestPoints]:
    pairs = pairs_within(ahead, targets, max(taus))
    found = {}
    for tau in taus:
        good = pairs.distance <= tau
        if back is not None:
            good &= back.agrees(pairs.left, pairs.right, tau)
        left, right, apart = pairs.left[good], pairs.right[good], pairs.distance[good]
        found[tau] = _given_away(left, right, apart, len(ahead))
    return found


def _given_away(left: Ints, right: Ints, distance: Floats, n_queries: int) -> NearestPoints:
    """Pairs in their order, each side taken once."""
    index = np.full(n_queries, -1, np.int64)
    apart = np.full(n_queries, np.inf)
    taken: set[int] = set()
    for query, target, pixels in zip(left.tolist(), right.tolist(), distance.tolist(), strict=True):
        if index[query] < 0 and target not in taken:
            taken.add(target)
            index[query], apart[query] = target, pixels
    return NearestPoints(index, apart)
