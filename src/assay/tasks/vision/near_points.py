"""The nearest of many points within a radius, by a grid: no matrix of all distances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from assay.arrays import Floats, Ints
from assay.errors import InputError

__all__ = ["NearPairs", "NearestPoints", "nearest_within", "pairs_within"]


_MOST_PAIRS = 1 << 21  # distances at a time
_MOST_KEPT = 1 << 24
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


def nearest_within(points: Floats, others: Floats, radius: float) -> NearestPoints:
    """The nearest of `others` to each point, if within the radius (inclusive).

    Of equally near ones the lowest number is taken. A point that is NaN has none.

    >>> nearest_within(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [3.0, 4.0]]), 5.0)
    NearestPoints(number=array([0]), distance=array([5.]))
    """
    index = np.full(len(points), -1, np.int64)
    distance = np.full(len(points), np.inf)
    firsts = _first_at_each_place(others)
    for left, right, apart in _blocks(points, others[firsts], radius):
        starts = np.flatnonzero(np.diff(left, prepend=-1))  # the pairs of a point stand together
        if not len(starts):
            continue
        least = np.minimum.reduceat(apart, starts)
        tied = apart == np.repeat(least, np.diff(starts, append=len(left)))
        numbers = np.where(tied, firsts[right], len(others))
        distance[left[starts]] = least
        index[left[starts]] = np.minimum.reduceat(numbers, starts)
    return NearestPoints(index, distance)


def pairs_within(points: Floats, others: Floats, radius: float) -> NearPairs:
    """All pairs within the radius (inclusive), nearest first; ties by number, left then right."""
    blocks = list(_limit_pairs(_blocks(points, others, radius), radius))
    left, right, apart = (
        np.concatenate([block[part] for block in blocks]) if blocks else np.zeros(0, kind)
        for part, kind in enumerate((np.int64, np.int64, np.float64))
    )
    order = np.lexsort((right, left, apart))
    return NearPairs(left[order], right[order], apart[order])


def _limit_pairs(blocks: Iterator[NearPairs], radius: float) -> Iterator[NearPairs]:
    """The blocks, as long as all of them fit into memory."""
    total = 0
    for block in blocks:
        total += len(block.left)
        if total > _MOST_KEPT:
            raise InputError(
                f"More than {_MOST_KEPT} pairs of points lie within {radius:g} pixels. Use a "
                "smaller tolerance, or fewer points."
            )
        yield block


def _first_at_each_place(points: Floats) -> Ints:
    """The lowest number at each distinct place, so that many equal points cost as much as one."""
    order = np.lexsort((points[:, 1], points[:, 0]))
    ordered = points[order]
    new = np.ones(len(points), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return np.sort(order[new]).astype(np.int64)


def _blocks(points: Floats, others: Floats, radius: float) -> Iterator[NearPairs]:
    """Pairs within the radius; all pairs of one point come in one block."""
    if not len(points) or not len(others):
        return
    side = max(radius, 1.0)
    keys = _keys(_cells(others, side))
    order = np.argsort(keys, kind="stable").astype(np.int64)
    valid = np.flatnonzero(np.isfinite(points).all(axis=1))
    starts, counts = _runs(_cells(points[valid], side), keys[order])
    for rows in _row_blocks(counts.sum(axis=1)):
        left, places = _spread(starts[rows], counts[rows])
        found = order[places]
        numbers = valid[rows.start + left]
        apart = _distance(points[numbers], others[found])
        close = apart <= radius
        yield NearPairs(numbers[close], found[close], apart[close])


def _cells(points: Floats, side: float) -> Ints:
    """The cell of each point; far ones share the cells at the rim, which costs only time."""
    return np.clip(np.floor(points / side), -_SPAN, _SPAN).astype(np.int64)


def _keys(cells: Ints) -> Ints:
    return cells[..., 1] * (4 * _SPAN) + cells[..., 0]


def _runs(cells: Ints, keys: Ints) -> tuple[Ints, Ints]:
    """For each point and each of three rows of cells around it, where its candidates stand."""
    rows = cells[:, None, :] + np.array([[0, -1], [0, 0], [0, 1]])
    right = np.array([1, 0])
    first = np.searchsorted(keys, _keys(rows - right), side="left")
    last = np.searchsorted(keys, _keys(rows + right), side="right")
    return first, last - first


def _row_blocks(counts: Ints) -> Iterator[slice]:
    """Cut the points so that each block holds few pairs, and at least one point."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _MOST_PAIRS, side="right")))
        yield slice(start, stop)
        start = stop


def _spread(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """One entry for each pair: the point's row in the block, and the place of its candidate."""
    flat = counts.ravel()
    ends = np.cumsum(flat)
    within = np.arange(ends[-1]) - np.repeat(ends - flat, flat)
    rows = np.repeat(np.arange(flat.size) // counts.shape[1], flat)
    return rows, np.repeat(starts.ravel(), flat) + within


def _distance(left: Floats, right: Floats) -> Floats:
    apart = left - right
    result: Floats = np.sqrt(apart[:, 0] * apart[:, 0] + apart[:, 1] * apart[:, 1])
    return result
