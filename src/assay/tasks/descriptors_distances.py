"""All distances between two sets of descriptors, such that equal pairs are equally far apart.

Float distances are squared and computed in float64 of what float32 holds; they are then set on a
grid of 2⁻⁴⁰ of the largest, so that the order in which a library adds up does not break ties.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.tasks.descriptors_hamming import hamming_distances

__all__ = ["largest_distance", "pair_distances", "row_distances"]

Floats = NDArray[np.float64]

_GRID = 2.0**40


def pair_distances(left: NDArray[Any], right: NDArray[Any], metric: str, scale: float) -> Floats:
    """Distances of every row on the left to every row on the right; L2 distances are squared.

    `scale` is the largest distance that any of the sets to be compared can have (see
    `largest_distance`), so that all of them share one grid.

    >>> pair_distances(np.array([[1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 2.0]]), "l2", 8.0)
    array([[1., 4.]])
    """
    if metric == "hamming":
        return hamming_distances(left, right).astype(np.float64)
    if metric == "cosine":
        left, right = _unit(left), _unit(right)
    a, b = left.astype(np.float64), right.astype(np.float64)
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * (a @ b.T)
    unit = scale / _GRID
    return np.asarray(np.maximum(np.rint(squares / unit), 0.0) * unit)


def row_distances(left: NDArray[Any], right: NDArray[Any], metric: str, scale: float) -> Floats:
    """Distances row by row, by the same arithmetic as all others."""
    found = np.empty(len(left))
    step = 256
    for start in range(0, len(left), step):
        rows = slice(start, start + step)
        found[rows] = np.diagonal(pair_distances(left[rows], right[rows], metric, scale))
    return found


def largest_distance(*sets: NDArray[Any], metric: str) -> float:
    """A bound of all squared distances within and between the sets, as a power of 2."""
    if metric == "hamming":
        return 1.0
    if metric == "cosine":
        return 4.0
    largest = max((float((s.astype(np.float64) ** 2).sum(axis=1).max()) for s in sets if len(s)),
                  default=0.0)  # fmt: skip
    return 2.0 ** np.ceil(np.log2(4 * largest)) if largest > 0 else 1.0


def _unit(vectors: NDArray[Any]) -> Floats:
    wide = vectors.astype(np.float64)
    return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True), np.float64)
