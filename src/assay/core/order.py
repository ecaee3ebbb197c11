"""The tie rule: score descending, then the tie-break; and where tie groups begin and end.

`-0.0` equals `0.0`. Everything that sorts documents calls this module.
"""

from __future__ import annotations

import numpy as np

from assay.arrays import Floats, Ints
from assay.native import kernels

__all__ = ["rows_of", "sort_rows", "tie_groups"]


def rows_of(offsets: Ints) -> Ints:
    """The row number of every element of a ragged array.

    >>> rows_of(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def sort_rows(offsets: Ints, scores: Floats, tiebreak: Ints | None) -> Ints:
    """Permutation that puts each row in order: score descending, then tiebreak ascending.

    Without a tiebreak, equal scores keep the order they stand in.
    """
    return kernels().order_rows(offsets, np.ascontiguousarray(scores), tiebreak)


def tie_groups(offsets: Ints, scores: Floats, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Rank, first and last rank of the tie group, for the elements at these positions."""
    row = np.searchsorted(offsets, at, side="right") - 1
    start, stop = offsets[row], offsets[row + 1]
    rank = at - start + 1
    same = np.zeros(len(scores) + 1, bool)
    np.equal(scores[1:], scores[:-1], out=same[1:-1])
    if not same.any():
        return rank, rank, rank
    breaks = ~same
    breaks[offsets] = True
    edges = np.flatnonzero(breaks)
    group = np.searchsorted(edges, at, side="right") - 1
    return rank, edges[group] - start + 1, np.minimum(edges[group + 1], stop) - start
