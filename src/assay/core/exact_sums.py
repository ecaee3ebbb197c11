"""Sums that are exactly rounded, so that the order of the values cannot change a bit.

Values from −1 to 1 are cut into pieces of 26 bits. Sums of fewer than 2^26 pieces of one size are
exact in any order, so only the sum of the sums is rounded. What three pieces cannot hold is left to
math.fsum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints

__all__ = ["exact_group_sums", "exact_sum", "from_grid", "slack", "to_grid"]


_UNITS: Final = (2.0**26, 2.0**52, 2.0**78)
_MOST: Final = 2**26
_FEW: Final = 400  # for so many math.fsum takes as long as the short steps of numpy


def exact_sum(values: Floats) -> float:
    """The same as math.fsum, faster for many values from −1 to 1."""
    if _FEW < len(values) < _MOST and np.abs(values).max(initial=0.0) <= 1.0:
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


_BITS = 61  # one short of what a sum may fill, because a difference of two sums must fit too


def to_grid(values: Floats, terms: int) -> tuple[Ints, int]:
    """Round to multiples of 2^−shift, the finest grid on which a sum of `terms` values fits.

    With 10,000 terms the grid is 2^−47 of the largest value.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0:
        return np.zeros(values.shape, np.int64), 0
    shift = _BITS - math.frexp(largest)[1] - terms.bit_length()
    return np.rint(np.ldexp(values, shift)).astype(np.int64), shift


def slack(terms: int, largest: float, shift: int) -> int:
    """How far two sums may lie apart on the grid and still be the same sum but for rounding.

    Each term is off by half a step of the grid, and by some units in the last place of the scores
    that it was made of, the largest of which is given.
    """
    noise = 4 * np.finfo(np.float64).eps * largest
    return int(min(terms * (1 + np.ldexp(noise, shift)), 2.0**_BITS))


def from_grid(sums: Any, shift: int) -> Floats:
    """Go back from sums on the grid to real numbers."""
    return np.asarray(np.ldexp(np.asarray(sums, np.float64), -shift))
