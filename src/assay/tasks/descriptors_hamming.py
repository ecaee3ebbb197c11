"""Hamming distances of packed binary descriptors: ranks of targets and nearest neighbours.

A distance is |a| + |b| − 2·a·b of the bits as float32, which holds such small whole numbers
exactly; so a matrix product finds all of them, and they are only counted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from assay.engine import TargetRanks

__all__ = ["hamming_distances", "hamming_nearest", "hamming_target_ranks"]

Ints = NDArray[np.int64]
Floats32 = NDArray[np.float32]

_BLOCK = 1 << 22  # distances at a time


def hamming_distances(queries: NDArray[np.uint8], docs: NDArray[np.uint8]) -> Floats32:
    """All distances, queries × docs, as exact float32.

    >>> hamming_distances(np.array([[3]], np.uint8), np.array([[1], [255]], np.uint8)).tolist()
    [[1.0, 6.0]]
    """
    return _distances(_bits(queries), _bits(docs))


def hamming_target_ranks(
    queries: NDArray[np.uint8], docs: NDArray[np.uint8], targets: Ints
) -> TargetRanks:
    """How many documents are nearer than each query's target, and how many are as near.

    >>> codes = np.array([[0], [1], [2]], np.uint8)
    >>> hamming_target_ranks(codes[:1], codes, np.array([2])).rank.tolist()
    [3]
    """
    above, tied, before = (np.empty(len(queries), np.int64) for _ in range(3))
    for rows, distances in _blocks(queries, docs):
        column = targets[rows][:, None]
        own = np.take_along_axis(distances, column, axis=1)
        same = distances == own
        above[rows] = (distances < own).sum(axis=1)
        tied[rows] = same.sum(axis=1) - 1
        before[rows] = (same & (np.arange(len(docs)) < column)).sum(axis=1)
    return TargetRanks(above, tied, before, len(docs), search="hamming-exact")


def hamming_nearest(
    queries: NDArray[np.uint8], docs: NDArray[np.uint8]
) -> tuple[Ints, NDArray[np.float64]]:
    """The nearest document of each query, the first of those that are equally near; its score."""
    nearest, score = np.empty(len(queries), np.int64), np.empty(len(queries))
    for rows, distances in _blocks(queries, docs):
        nearest[rows] = distances.argmin(axis=1)
        score[rows] = -distances.min(axis=1)
    return nearest, score


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
