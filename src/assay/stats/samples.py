"""Input of tests and intervals: one number per query, aligned, NaN removed."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core.checks import check_cutoff, check_lengths, is_real
from assay.errors import ShapeError, UsageError, ValueRangeError

_LARGEST = 1e100  # beyond, squares would overflow, and below its inverse underflow
_SMALLEST_LEVEL, _LARGEST_LEVEL = 1e-12, 0.5
FEWEST_BOOTSTRAPS = 100
FEWEST = 3  # with fewer values a standard deviation means nothing
SAME = 1e-12  # two scores that differ by less than this share of their size are the same score


@dataclass(frozen=True, eq=False)
class Pairs:
    """Scores of two systems on the same queries, and what was removed to get there."""

    a: Floats
    b: Floats
    differences: Floats
    defined: NDArray[np.bool_]

    @property
    def n_removed(self) -> int:
        """How many pairs had a NaN on one side or both."""
        return int((~self.defined).sum())


def clean_pairs(a: Any, b: Any) -> Pairs:
    """Align by position, remove pairs with a NaN, and take differences.

    A difference that is only rounding noise of the two scores (0.1 + 0.2 against 0.3) is zero.
    """
    left, right = finite_or_nan(a, "a"), finite_or_nan(b, "b")
    check_lengths(a=len(left), b=len(right))
    defined = ~(np.isnan(left) | np.isnan(right))
    left, right = left[defined], right[defined]
    differences = left - right
    noise = np.maximum(SAME * np.maximum(np.abs(left), np.abs(right)), 1 / _LARGEST)
    return Pairs(left, right, np.where(np.abs(differences) <= noise, 0.0, differences), defined)


def finite_or_nan(values: Any, what: str, dimensions: int = 1) -> Floats:
    """Return values as float64.

    NaN (undefined) is allowed, infinity, text and other shapes are not.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iufb":
        raise ValueRangeError(f"{what} must hold numbers, found dtype {array.dtype}.")
    if array.ndim != dimensions:
        shape = "one number per query" if dimensions == 1 else "a row per system, one per query"
        raise ShapeError(f"{what} must have {shape}; found shape {array.shape}.")
    numbers_ = array.astype(np.float64)
    huge = np.abs(numbers_) > _LARGEST
    if huge.any():
        place = tuple(int(i) for i in np.argwhere(huge)[0])
        where = place[0] if dimensions == 1 else place
        raise ValueRangeError(
            f"{what} holds {numbers_[place]} at {where}. Scores are finite (at most 1e100), or NaN "
            "where a measure is undefined."
        )
    return numbers_


def too_few(n: int, what: str = "queries", fewest: int = FEWEST) -> str | None:
    """Return the note in place of a number where there are too few values.

    None if there are enough.
    """
    return f"too few {what}: {n}, at least {fewest} are needed" if n < fewest else None


def check_level(level: Any, name: str = "level", example: float = 0.95) -> float:
    """Return a share strictly between 0 and 1."""
    if not is_real(level) or not 0 < float(level) < 1:
        raise UsageError(f"{name} must lie between 0 and 1, such as {example}; found {level!r}.")
    return float(level)


def check_significance_level(level: Any) -> float:
    """Return the significance level of a test.

    1 − level must still be below 1.
    """
    if not is_real(level) or not _SMALLEST_LEVEL <= float(level) <= _LARGEST_LEVEL:
        text = f"{level:g}" if isinstance(level, float) else repr(level)
        raise UsageError(
            f"level must lie between {_SMALLEST_LEVEL:g} and {_LARGEST_LEVEL:g}, such as 0.05: it "
            f"is the significance level, not the confidence level of intervals; found {text}."
        )
    return float(level)


def check_resamples(resamples: Any) -> int:
    """Return a whole number ≥ 1."""
    return check_cutoff(resamples, "resamples")


def check_bootstraps(resamples: Any) -> int:
    """Return a whole number ≥ 100.

    The ends of an interval are quantiles of what was drawn.
    """
    number = check_resamples(resamples)
    if number < FEWEST_BOOTSTRAPS:
        raise UsageError(
            f"resamples must be {FEWEST_BOOTSTRAPS} or more for a bootstrap interval; "
            f"found {number}. Take 10,000."
        )
    return number


def check_seed(seed: Any) -> int:
    """Return a whole number from 0 to 2^64 − 1."""
    whole = isinstance(seed, numbers.Integral) and not isinstance(seed, bool)
    if not whole or not 0 <= int(seed) < 1 << 64:
        raise UsageError(f"seed must be a whole number from 0 to 2^64 − 1; found {seed!r}.")
    return int(seed)


def check_margin(margin: Any, name: str = "margin") -> float:
    """Return a finite number above zero, in the units of the measure."""
    if not is_real(margin) or not 0 < float(margin) < math.inf:
        raise UsageError(
            f"{name} must be a number above 0, in the units of the measure; found {margin!r}."
        )
    return float(margin)


def spell(value: float) -> str:
    """Return four digits for a result's repr; "undefined" for NaN."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"
