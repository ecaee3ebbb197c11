"""Real numbers as integers on a fine grid, so that sums are exact in whatever order they are taken.

This is what makes resampled sums the same bytes for any block size, thread count and engine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["from_grid", "slack", "to_grid"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

_BITS = 61  # one short of what a sum may fill, because a difference of two sums must fit too


def to_grid(values: Floats, terms: int) -> tuple[Longs, int]:
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
