"""What a set of queries can show: the power of a paired t test on it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assay.arrays import Floats
from assay.stats.samples import check_level, check_margin, finite_or_nan, too_few
from assay.stats.special import t_test_power

__all__ = ["minimum_detectable_difference", "queries_needed"]


_MOST = 10**15


def minimum_detectable_difference(
    differences: Any, *, power: float = 0.8, level: float = 0.05
) -> float:
    """Find the smallest true mean difference that these queries would show with chance `power`.

    `differences` are per-query differences of two systems; their spread is what counts. `level`
    is that of a two-sided test. NaN with too few queries; 0 where the systems never differ.

    >>> round(minimum_detectable_difference([0.1, -0.1] * 50), 4)
    0.0284
    """
    chance, alpha = check_level(power, "power", 0.8), check_level(level, example=0.05)
    values = _known(differences)
    if too_few(len(values)):
        return math.nan
    n = len(values)
    shift = _shift_for(chance, n - 1, alpha)
    return shift * float(values.std(ddof=1)) / math.sqrt(n)


def queries_needed(
    differences: Any,
    *,
    difference: float | None = None,
    power: float = 0.8,
    level: float = 0.05,
) -> int | None:
    """Find how many queries of this kind would show a mean difference with chance `power`.

    `difference` is the size of the true difference to be shown; by default that of the mean of
    `differences`. None where no number can be told: too few queries, or no difference at all.

    >>> queries_needed([0.1, -0.1] * 50, difference=0.0285)
    100
    """
    chance, alpha = check_level(power, "power", 0.8), check_level(level, example=0.05)
    values = _known(differences)
    if too_few(len(values)):
        return None
    wanted = (
        abs(float(values.mean())) if difference is None else check_margin(difference, "difference")
    )
    spread = float(values.std(ddof=1))
    if wanted <= 1e-12 * float(np.abs(values).max()):
        return None
    size = wanted / spread if spread else math.inf

    def enough(n: int) -> bool:
        return math.isinf(size) or t_test_power(size * math.sqrt(n), n - 1, alpha) >= chance

    return _smallest(enough)


def _known(differences: Any) -> Floats:
    values = finite_or_nan(differences, "differences")
    return values[~np.isnan(values)]


def _shift_for(power: float, freedom: int, level: float) -> float:
    """The noncentrality at which a two-sided t test has this power; 0 if power ≤ level."""
    high = 1.0
    while t_test_power(high, freedom, level) < power:
        high *= 2
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if t_test_power(middle, freedom, level) < power:
            low = middle
        else:
            high = middle
    return high


def _smallest(enough: Any) -> int | None:
    """Smallest n ≥ 3 that is enough, by doubling and halving."""
    high = 3
    while not enough(high):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2 if high > 3 else 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
