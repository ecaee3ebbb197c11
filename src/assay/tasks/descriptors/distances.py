"""Hamming distances of packed binary descriptors: ranks of targets and nearest neighbours.

Ranks come from how many documents stand at each distance. All distances of a table are
|a| + |b| − 2·a·b of the bits as float32, which holds such small whole numbers exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Floats32, Ints
from assay.search.engine import TargetRanks
from assay.search.engine.code_search import distance_histogram, rank_codes
from assay.search.engine.codes import Codes

__all__ = [
    "Neighbours",
    "hamming_apart",
    "hamming_distances",
    "hamming_nearest",
    "hamming_target_ranks",
    "largest_distance",
    "nearest_two",
    "pair_distances",
    "paired_distances",
    "row_distances",
    "unit_rows",
]


_BLOCK = 1 << 22  # distances at a time


def hamming_distances(queries: NDArray[np.uint8], docs: NDArray[np.uint8]) -> Floats32:
    """All distances, queries × docs, as exact float32.

    >>> hamming_distances(np.array([[3]], np.uint8), np.array([[1], [255]], np.uint8)).tolist()
    [[1.0, 6.0]]
    """
    return _distances(_bits(queries), _bits(docs))


def hamming_target_ranks(
    queries: NDArray[np.uint8],
    docs: NDArray[np.uint8],
    targets: Ints,
    *,
    threads: int | None = None,
) -> TargetRanks:
    """How many documents are nearer than each query's target, and how many are as near.

    >>> codes = np.array([[0], [1], [2]], np.uint8)
    >>> hamming_target_ranks(codes[:1], codes, np.array([2])).rank.tolist()
    [3]
    """
    own = hamming_apart(queries, docs[targets])[:, None]
    above, same, before = (np.zeros(len(queries), np.int64) for _ in range(3))
    step = max(1, _BLOCK // (8 * queries.shape[1] + 1))
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        counts = distance_histogram(_codes(queries[rows]), _codes(docs), threads=threads)
        same[rows] = np.take_along_axis(counts, own[rows], axis=1)[:, 0]
        nearer = np.cumsum(counts, axis=1) - counts
        above[rows] = np.take_along_axis(nearer, own[rows], axis=1)[:, 0]
    tied = np.flatnonzero(same > 1)
    before[tied] = _count_before(queries[tied], docs, targets[tied], own[tied])
    return TargetRanks(above, same - 1, before, len(docs), search="hamming-exact")


def hamming_nearest(
    queries: NDArray[np.uint8], docs: NDArray[np.uint8], *, threads: int | None = None
) -> tuple[Ints, NDArray[np.float64]]:
    """The nearest document of each query, the first of those that are equally near; its score."""
    found = rank_codes(_codes(queries), _codes(docs), 1, threads=threads)
    nearest = found.docs.astype(np.int64)
    return nearest, -hamming_apart(queries, docs[nearest]).astype(np.float64)


def hamming_apart(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> Ints:
    """Distances row by row.

    >>> hamming_apart(np.array([[3]], np.uint8), np.array([[255]], np.uint8)).tolist()
    [6]
    """
    return np.asarray(np.unpackbits(left ^ right, axis=1).sum(axis=1), np.int64)


def _codes(packed: NDArray[np.uint8]) -> Codes:
    return Codes(packed, 8 * packed.shape[1])


def _count_before(
    queries: NDArray[np.uint8], docs: NDArray[np.uint8], targets: Ints, own: Ints
) -> Ints:
    """Of the documents as far away as the target, how many have a lower number."""
    before = np.zeros(len(queries), np.int64)
    for rows, distances in _blocks(queries, docs):
        lower = np.arange(len(docs)) < targets[rows][:, None]
        before[rows] = ((distances == own[rows]) & lower).sum(axis=1)
    return before


def _blocks(
    queries: NDArray[np.uint8], docs: NDArray[np.uint8]
) -> Iterator[tuple[slice, Floats32]]:
    left, right = _bits(queries), _bits(docs)
    step = max(1, _BLOCK // len(docs))
    for start in range(0, len(left), step):
        rows = slice(start, min(start + step, len(left)))
        yield rows, _distances(left[rows], right)


def _bits(packed: NDArray[np.uint8]) -> Floats32:
    return np.unpackbits(packed, axis=1).astype(np.float32)


def _distances(left: Floats32, right: Floats32) -> Floats32:
    sums = left.sum(axis=1)[:, None] + right.sum(axis=1)
    return np.asarray(sums - 2 * (left @ right.T), np.float32)


_GRID = 2.0**40
_ROWS = 64


def pair_distances(left: NDArray[Any], right: NDArray[Any], metric: str, scale: float) -> Floats:
    """Distances of every row on the left to every row on the right; L2 distances are squared.

    `scale` is the largest distance that any of the sets to be compared can have (see
    `largest_distance`), so that all of them share one grid.

    >>> pair_distances(np.array([[1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 2.0]]), "l2", 8.0)
    array([[1., 4.]])
    """
    if metric == "hamming":
        return hamming_distances(left, right).astype(np.float64)
    a, b = _wide(left, metric), _wide(right, metric)
    return _on_grid(_squares(a)[:, None] + _squares(b) - 2 * (a @ b.T), scale)


def row_distances(left: NDArray[Any], right: NDArray[Any], metric: str, scale: float) -> Floats:
    """Distances row by row, by the same arithmetic as all others.

    Products come from blocks: BLAS adds up those of fewer than 64 rows, and of a row alone, in
    another order, and one distance of some thousands would stand elsewhere on the grid.
    """
    if metric == "hamming":
        return hamming_apart(left, right).astype(np.float64)
    a, b = _wide(left, metric), _wide(right, metric)
    products = np.empty(len(a))
    for start in range(0, len(a), _ROWS):
        rows = slice(max(0, min(start, len(a) - _ROWS)), start + _ROWS)
        products[rows] = np.diagonal(a[rows] @ b[rows].T)
    return _on_grid(_squares(a) + _squares(b) - 2 * products, scale)


def _wide(vectors: NDArray[Any], metric: str) -> Floats:
    return unit_rows(vectors) if metric == "cosine" else vectors.astype(np.float64)


def _squares(rows: Floats) -> Floats:
    return np.asarray((rows * rows).sum(axis=1))


def _on_grid(squares: Floats, scale: float) -> Floats:
    unit = scale / _GRID
    return np.asarray(np.maximum(np.rint(squares / unit), 0.0) * unit)


def paired_distances(left: NDArray[Any], right: NDArray[Any], metric: str) -> Floats:
    """Distances row by row where none of a table is compared with them; L2 is squared.

    >>> paired_distances(np.array([[1.0, 0.0]]), np.array([[0.0, 2.0]]), "l2")
    array([5.])
    """
    if metric == "hamming":
        return hamming_apart(left, right).astype(np.float64)
    apart = unit_rows(left) - unit_rows(right) if metric == "cosine" else left.astype(float) - right
    return np.asarray(np.einsum("ij,ij->i", apart, apart))


def largest_distance(*sets: NDArray[Any], metric: str) -> float:
    """A bound of all squared distances within and between the sets, as a power of 2."""
    if metric == "hamming":
        return 1.0
    if metric == "cosine":
        return 4.0
    largest = max(
        (float((s.astype(np.float64) ** 2).sum(axis=1).max()) for s in sets if len(s)), default=0.0
    )
    return 2.0 ** np.ceil(np.log2(4 * largest)) if largest > 0 else 1.0


def unit_rows(vectors: NDArray[Any]) -> Floats:
    """Rows of length 1; zeros stay zeros."""
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(norms > 0, norms, 1.0), np.float64)


class Neighbours(NamedTuple):
    """For each row of one side the nearest of the other, its distance and that of the second."""

    nearest: Ints
    best: Floats
    second: Floats  # inf where there is no second


def nearest_two(left: NDArray[Any], right: NDArray[Any], metric: str) -> Neighbours:
    """The two nearest on the right of each row on the left; L2 distances are squared.

    >>> nearest_two(np.eye(2), np.array([[1.0, 0.0], [1.0, 1.0]]), "l2").nearest.tolist()
    [0, 1]
    """
    nearest = np.zeros(len(left), np.int64)
    best, second = np.full((2, len(left)), np.inf)
    scale = largest_distance(left, right, metric=metric)
    step = max(1, _BLOCK // max(1, len(right)))
    for start in range(0, len(left) if len(right) else 0, step):
        rows = slice(start, start + step)
        apart = pair_distances(left[rows], right, metric, scale)
        nearest[rows] = apart.argmin(axis=1)
        two = np.partition(apart, 1, axis=1) if len(right) > 1 else apart
        best[rows] = two[:, 0]
        second[rows] = two[:, 1] if len(right) > 1 else np.inf
    return Neighbours(nearest, best, second)
