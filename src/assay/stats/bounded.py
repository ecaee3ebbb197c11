"""Intervals of values that pile up at one number: shares, and means near the bound of a measure.

A bootstrap only knows what was seen. Of 30 hits in 30 queries it says [1, 1], and with one miss in
50 it covers the truth in some 60 % of samples for 95. What can be said is how many queries may be
different although few or none of these were.
"""

from __future__ import annotations

import math

import numpy as np

from assay.arrays import Floats
from assay.errors import UsageError
from assay.stats.special import normal_quantile

__all__ = [
    "Bounds",
    "check_bounds",
    "constant_difference_reach",
    "constant_ends",
    "few_away",
    "share_ends",
    "span_of",
    "sparse_ends",
    "unseen_share",
    "wilson_ends",
]

Bounds = tuple[float, float]
_FEW: int = 15  # values away from the bound below which a bootstrap of them is not to be trusted


def check_bounds(bounds: Bounds | None) -> Bounds | None:
    """The least and the largest value of a measure; None where one of them is not finite."""
    if bounds is None:
        return None
    low, high = map(float, bounds)
    if low >= high:
        raise UsageError(f"bounds are the least and the largest value; found {bounds!r}.")
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def wilson_ends(share: float, n: int, level: float) -> tuple[float, float]:
    """Wilson's score interval of a share (Wilson 1927, JASA 22).

    >>> [round(end, 4) for end in wilson_ends(1.0, 30, 0.95)]
    [0.8865, 1.0]
    """
    z = -normal_quantile((1 - level) / 2)
    centre = share + z * z / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (centre - reach) / (1 + z * z / n), (centre + reach) / (1 + z * z / n)
    return (0.0 if share == 0 else low), (1.0 if share == 1 else high)


def unseen_share(n: int, level: float) -> float:
    """The largest share of other values that n draws may have missed (Clopper & Pearson 1934).

    >>> round(unseen_share(30, 0.95), 4)
    0.1157
    """
    return float(-np.expm1(math.log((1 - level) / 2) / n))


def constant_ends(value: float, n: int, level: float, bounds: Bounds) -> tuple[float, float]:
    """Ends for n units that all have the same value: what was not seen may lie anywhere."""
    unseen = unseen_share(n, level)
    low, high = (value + unseen * (bound - value) for bound in bounds)
    return low, high


def constant_difference_reach(value: float, n: int, level: float, span: float) -> float:
    """Half the width for n equal differences: those not seen may be as much larger or smaller.

    The side of 0 is then that of the differences. Where there are none, those not seen may be as
    large as the range of the scores; NaN where that is not known.
    """
    return unseen_share(n, level) * (abs(value) or span or math.nan)


def span_of(scores: Floats, bounds: Bounds | None) -> float:
    """How far two scores may be apart: by the bounds of the measure, or else as far as was seen."""
    if bounds is not None:
        return bounds[1] - bounds[0]
    return float(np.ptp(scores)) if scores.size else 0.0


def sparse_ends(
    units: Floats, level: float, span: float, few: int = _FEW
) -> tuple[float, float] | None:
    """Ends for differences of which most are 0 and fewer than `few` are not; None for others.

    The few that differ say little of those that do not here but may elsewhere. What is won and what
    is lost have intervals of their own (`share_ends`), joined as those of independent means
    (Newcombe 1998, Statistics in Medicine 17: paired shares, by squaring and adding).
    """
    differ = int(np.count_nonzero(units))
    if differ >= few or 2 * differ > len(units):
        return None
    bounds = (0.0, max(span, float(np.abs(units).max())))
    won, lost = np.maximum(units, 0.0), np.maximum(-units, 0.0)
    (few_won, many_won), (few_lost, many_lost) = (
        share_ends(part, 0.0, level, bounds) for part in (won, lost)
    )
    gain, loss = float(won.mean()), float(lost.mean())
    below = math.hypot(gain - few_won, many_lost - loss)
    return gain - loss - below, gain - loss + math.hypot(many_won - gain, loss - few_lost)


def few_away(values: Floats, bounds: Bounds) -> float | None:
    """The bound at which most values lie, if fewer than 15 lie elsewhere; None otherwise."""
    for bound in bounds:
        away = int((values != bound).sum())
        if 0 < away < _FEW and 2 * away <= len(values):
            return bound
    return None


def share_ends(values: Floats, bound: float, level: float, bounds: Bounds) -> tuple[float, float]:
    """Ends for values of which most are at the bound: the share away times its mean distance.

    Wilson's interval of the share and a normal one of the mean distance, whose variance has the
    spread over the whole range as one more observation, are joined as those of independent factors
    (Zou, Huang & Zhang 2009, Computational Statistics & Data Analysis 53: recovered variances).
    """
    n, width = len(values), bounds[1] - bounds[0]
    away = np.abs(values[values != bound] - bound) / width
    share = len(away) / n
    few, many = wilson_ends(share, n, level)
    mean = float(away.mean()) if len(away) else 1.0
    spread = math.sqrt((float(((away - mean) ** 2).sum()) + 1 / 12) / max(len(away), 1) ** 2)
    reach = -normal_quantile((1 - level) / 2) * spread
    near, far = max(mean - reach, 0.0), min(mean + reach, 1.0)
    least = share * mean - math.hypot((share - few) * mean, share * (mean - near))
    most = share * mean + math.hypot((many - share) * mean, share * (far - mean))
    ends = max(least, 0.0) * width, min(most, 1.0) * width
    return (bound + ends[0], bound + ends[1]) if bound == bounds[0] else _mirrored(bound, ends)


def _mirrored(bound: float, ends: tuple[float, float]) -> tuple[float, float]:
    return bound - ends[1], bound - ends[0]
