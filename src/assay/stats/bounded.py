"""Intervals of values that pile up at one number: shares, and means near the bound of a measure.

A bootstrap only knows what was seen. Of 30 hits in 30 queries it says [1, 1], and with one miss in
50 it covers the truth in some 60 % of samples for 95. What can be said is how many queries may be
different although few or none of these were.

What a test of a margin cannot see: large losses that are so rare that few or none were drawn.

A test of a mean judges by the spread that it sees. Of 20 queries none shows a loss that 5 % of all
have in 36 % of samples, and the system passes. So a system is within a margin only if no share of
losses as large as the scores allow, which these queries are likely to have missed, leads beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from assay.arrays import Floats
from assay.errors import UsageError
from assay.stats.special import normal_cdf, normal_quantile

Bounds = tuple[float, float]
_FEW: int = 15  # values away from the bound below which a bootstrap of them is not to be trusted


def check_bounds(bounds: Bounds | None) -> Bounds | None:
    """Return the least and the largest value of a measure.

    None where one of them is not finite.
    """
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
    """Return the largest share that n draws may have missed (Clopper & Pearson 1934).

    >>> round(unseen_share(30, 0.95), 4)
    0.1157
    """
    return float(-np.expm1(math.log((1 - level) / 2) / n))


def constant_ends(value: float, n: int, level: float, bounds: Bounds) -> tuple[float, float]:
    """Return ends for n units that all have the same value.

    What was not seen may lie anywhere.
    """
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
    """Return how far two scores may be apart.

    This is by the bounds of the measure, or else as far as was seen.
    """
    if bounds is not None:
        return bounds[1] - bounds[0]
    return float(np.ptp(scores)) if scores.size else 0.0


def sparse_ends(
    units: Floats, level: float, span: float, few: int = _FEW
) -> tuple[float, float] | None:
    """Return ends for differences that are mostly 0; None if `few` or more are not.

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
    """Return the bound at which most values lie, if fewer than 15 lie elsewhere.

    None otherwise.
    """
    for bound in bounds:
        away = int((values != bound).sum())
        if 0 < away < _FEW and 2 * away <= len(values):
            return bound
    return None


def share_ends(values: Floats, bound: float, level: float, bounds: Bounds) -> tuple[float, float]:
    """Return ends for values mostly at the bound: the share away times its mean distance.

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


_SHARES: Final = 64  # of losses that are tried
_FEW_DIFFERENT: Final = 100  # units that differ, up to which one-sided tests of them err
_STEPS: Final = 30  # of bisection


def unseen_loss_p(units: Floats, margin: float, span: float) -> float:
    """Return the chance to see differences as good as these where their mean is −`margin` or less.

    `span` is the largest loss that can be. Where few units differ, losses seen count as a share of
    them all (`sparse_ends`).

    >>> [round(unseen_loss_p(np.zeros(n), 0.01, 1.0), 2) for n in (20, 100, 300)]
    [0.82, 0.37, 0.05]
    """
    if not span > 0:
        return 0.0
    return max(_missed_p(units, margin, span), _sparse_p(units, margin, span))


def least_margin(n: int, level: float, span: float) -> float:
    """Return the smallest margin that n units without any difference show.

    >>> [round(least_margin(n, 0.05, 1.0), 3) for n in (20, 50, 300)]
    [0.139, 0.058, 0.01]
    """
    return -least_mean(np.zeros(n), level, span)


def least_mean(units: Floats, level: float, span: float) -> float:
    """Return the lower bound of the mean.

    It is the largest −margin at which `unseen_loss_p` is at most `level`.
    """
    bounds = sparse_ends(units, 1 - 2 * level, span, _FEW_DIFFERENT)
    largest = 2 * span + float(np.abs(units).max(initial=0.0))
    margin = _smallest(lambda each: _missed_p(units, each, span) <= level, -largest, largest)
    return -margin if bounds is None else min(-margin, bounds[0])


def _missed_p(units: Floats, margin: float, span: float) -> float:
    """Return the largest p if units that lose `span` exist but were not drawn.

    It is the chance to draw none times that of a t test of what the rest must then be. Shares below
    1/n are left to the test itself, which differs from it by no more than they do.
    """
    n, mean = len(units), float(units.mean())
    error = float(units.std(ddof=1)) / math.sqrt(n)
    enough = max((margin + mean) / (span + mean), 0.0) if span + mean > 0 else 0.0
    if error <= 1e-12 * span:  # all alike: the rest is known
        return float((1 - min(enough, 1.0)) ** n)
    most = min(max(enough + 4 * error / span, 2 / n), 0.999)
    shares = np.append(np.linspace(1 / n, most, _SHARES), min(max(enough, 1 / n), 0.999))
    rest = (margin - shares * span) / (1 - shares)
    statistics = (mean + rest) / error
    tails = [normal_cdf(-z) for z in _as_normal(statistics, n - 1).tolist()]
    return float(((1 - shares) ** n * tails).max())


def _as_normal(statistics: Floats, freedom: int) -> Floats:
    """Statistics of t as those of a normal (Wallace 1959, Annals of Mathematical Statistics 30)."""
    sizes = np.sqrt(freedom * np.log1p(statistics**2 / freedom))
    normal: Floats = np.sign(statistics) * sizes * ((8 * freedom + 1) / (8 * freedom + 3))
    return normal


def _sparse_p(units: Floats, margin: float, span: float) -> float:
    """Return the level at which the bound of `sparse_ends` is −margin.

    0 where many units differ.
    """

    def within(level: float) -> bool:
        bounds = sparse_ends(units, 1 - 2 * level, span, _FEW_DIFFERENT)
        return bounds is None or bounds[0] > -margin

    return _smallest(within, 0.0, 0.5)


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest number from low to high from which on it holds, or high."""
    if low == 0 and holds(1e-9):
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
