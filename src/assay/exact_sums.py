"""Sums that are exactly rounded, so that the order of the values cannot change a bit.

Values from −1 to 1 are cut into pieces of 26 bits. Sums of fewer than 2^26 pieces of one size are
exact in any order, so only the sum of the sums is rounded. What three pieces cannot hold is left to
math.fsum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["exact_group_sums", "exact_sum"]

Floats = NDArray[np.float64]

_UNITS: Final = (2.0**26, 2.0**52, 2.0**78)
_MOST: Final = 2**26


def exact_sum(values: Floats) -> float:
    """The same as math.fsum, faster for many values from −1 to 1."""
    if len(values) < _MOST and np.abs(values).max(initial=0.0) <= 1.0:
        sums, rest = [], values
        for piece, left in _pieces(values):
            sums.append(float(piece.sum()))
            rest = left
        if not rest.any():
            return math.fsum(sums)
    return math.fsum(values.tolist())


def exact_group_sums(values: Floats, groups: NDArray[np.int64], n_groups: int) -> Floats:
    """math.fsum of the values of each group, all groups at once; `groups` are numbers in order.

    >>> exact_group_sums(np.array([0.1, 0.2, 0.3, 7.5]), np.array([0, 0, 0, 2]), 3).tolist()
    [0.6, 0.0, 7.5]
    """
    hard = np.abs(values) > 1.0
    easy = np.where(hard, 0.0, values)
    sums, rest = [], easy
    for piece, left in _pieces(easy):
        sums.append(np.bincount(groups, piece, n_groups).tolist())
        rest = left
    found = np.array(list(map(math.fsum, zip(*sums, strict=True))), np.float64)
    of_hard = np.unique(groups[hard | (rest != 0)]) if len(values) < _MOST else np.unique(groups)
    for group in of_hard.tolist():
        first, end = np.searchsorted(groups, [group, group + 1])
        found[group] = math.fsum(values[first:end].tolist())
    return found


def _pieces(values: Floats) -> Iterator[tuple[Floats, Floats]]:
    """The leading 26 bits of each value and the rest, three times."""
    rest = values
    for unit in _UNITS:
        piece = np.trunc(rest * unit) / unit
        rest = rest - piece
        yield piece, rest
