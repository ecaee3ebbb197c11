"""Intervals of means of bounded values: the score interval, shares, values that are all alike.

A bootstrap only knows what was seen. Of 30 hits in 30 queries it says [1, 1], and with one miss in
50 it covers the truth in some 60 % of samples for 95. The mean of bounded values is as uncertain
as a share of some number of trials, whose interval knows what may not have been seen.

What a test of a margin cannot see: large losses that are so rare that few or none were drawn.

A test of a mean judges by the spread that it sees. Of 20 queries none shows a loss that 5 % of all
have in 36 % of samples, and the system passes. So a system is within a margin only if no share of
losses as large as the scores allow, which these queries are likely to have missed, leads beyond it.

The few special functions that tests and intervals need: normal, Student t, incomplete beta.

Accurate to about 1e-13, in the tails relative to the tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final

import numpy as np

from assay.arrays import Floats, exp, log, log1p, power
from assay.errors import UsageError

# Of the default level: `statistics` takes longer to import than all else here.
_USUAL: Final = {0.025000000000000022: -1.9599639845400536}
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def normal_cdf(x: float) -> float:
    """Return P(Z ≤ x) of a standard normal Z."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def normal_quantile(p: float) -> float:
    """Return the x with P(Z ≤ x) = p; ±infinity at 1 and 0."""
    if p <= 0 or p >= 1:
        return -math.inf if p <= 0 else math.inf
    if p in _USUAL:
        return _USUAL[p]
    from statistics import NormalDist

    return NormalDist().inv_cdf(p)


def t_tail(t: float, freedom: float) -> float:
    """Return P(T ≥ t) of Student's T.

    >>> round(t_tail(2.0, 10), 12)
    0.036694017385
    """
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    square = t * t
    both = beta_tail(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))
    return both / 2 if t >= 0 else 1 - both / 2


@lru_cache(maxsize=1024)
def t_quantile(p: float, freedom: float) -> float:
    """Return the t with P(T ≤ t) = p."""
    if p == 0.5:
        return 0.0
    if p > 0.5:
        return -t_quantile(1 - p, freedom)
    high = 1.0
    while t_tail(high, freedom) > p:
        high *= 2
    return -falling_root(lambda t: t_tail(t, freedom) - p, 0.0, high)


def falling_root(f: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling function crosses zero, to the last bit, by bisection."""
    while True:
        middle = low + (high - low) / 2
        if middle in (low, high):
            return middle
        if f(middle) > 0:
            low = middle
        else:
            high = middle


def beta_tail(a: float, b: float, x: float, y: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b); y = 1 − x keeps its digits.

    For whole numbers it is a binomial tail: P(X ≤ k) of n tosses is I_½(n − k, k + 1).
    """
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_tail(b, a, y, x)
    return math.exp(_log_front(a, b, x, y)) * _beta_fraction(a, b, x, y)


def _log_front(a: float, b: float, x: float, y: float) -> float:
    """Return log of x^a y^b / B(a, b), in Loader's form, which keeps digits for large a and b."""
    total = a + b
    off = x * b - y * a
    bulk = a * _log_minus(x * total / a, off / a) + b * _log_minus(y * total / b, -off / b)
    errors = _stirling_error(total) - _stirling_error(a) - _stirling_error(b)
    return bulk + errors + 0.5 * math.log(a / total * b) - _HALF_LOG_TWO_PI


def _stirling_error(x: float) -> float:
    """Return lgamma(x) less Stirling's formula for it."""
    if x < 16:
        return math.lgamma(x) - ((x - 0.5) * math.log(x) - x + _HALF_LOG_TWO_PI)
    z = 1 / (x * x)
    series = 1 / 1188 - z * 691 / 360360
    for coefficient in (-1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        series = coefficient + z * series
    return series / x


def _log_minus(ratio_to_one: float, x: float) -> float:
    """Return log(r) − x for r = 1 + x, without cancellation near 0 and 1."""
    if abs(x) > 0.5:
        return math.log(ratio_to_one) - x
    ratio = x / (2 + x)
    square = ratio * ratio
    tail, power = 0.0, ratio * square
    for odd in range(3, 60, 2):
        term = power / odd
        tail += term
        if abs(term) <= 1e-18 * abs(tail):
            break
        power *= square
    return 2 * tail - x * ratio


def _beta_fraction(a: float, b: float, x: float, y: float) -> float:
    """Evaluate the continued fraction of DiDonato & Morris (1992), accurate for x near 1."""
    gap = a * y - b * x
    c = _not_zero(a / (a + 1) * (gap + 1))
    value, d = c, 0.0
    for n in range(1, 100_000):
        place = a + 2 * n
        top = (a + n - 1) * (a + b + n - 1) * n * (b - n) * x * x / (place - 1) ** 2
        bottom = n + n * (b - n) * x / (place - 1) + (a + n) / (place + 1) * (gap + 1 + n * (1 + y))
        d = 1 / _not_zero(bottom + top * d)
        c = _not_zero(bottom + top / c)
        value *= c * d
        if abs(c * d - 1) < 3e-16:
            break
    return 1 / value


def _not_zero(x: float) -> float:
    return x if x else 1e-300


def t_test_power(shift: float, freedom: float, level: float) -> float:
    """Return chance that a two-sided t test at `level` rejects, where E[T's numerator] is `shift`.

    P(|T'| > t) of the noncentral T', integrated over the law of the sample's standard deviation.
    """
    critical = -t_quantile(level / 2, freedom)
    spread, weight = _deviation_law(freedom)
    above = [normal_cdf(shift - critical * s) for s in spread]
    below = [normal_cdf(-shift - critical * s) for s in spread]
    return math.fsum(w * (p + q) for w, p, q in zip(weight, above, below, strict=True))


@cache
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(160)
    return nodes, weights


@lru_cache(maxsize=1024)
def _deviation_law(freedom: float) -> tuple[list[float], list[float]]:
    """Return nodes and weights for √(χ²/ν), the sample's deviation as a share of the true."""
    reach = 13 / math.sqrt(2 * freedom)
    low, high = max(0.0, 1 - reach), 1 + reach
    nodes, weights = _quadrature()
    spread = low + (high - low) * (nodes + 1) / 2
    half = freedom / 2
    log_density = freedom * (log(spread) + (1 - spread**2) / 2) - log(spread)
    front = 0.5 * math.log(half) - _HALF_LOG_TWO_PI - _stirling_error(half) + math.log(2)
    weight = exp(log_density + front) * weights * (high - low) / 2
    return spread.tolist(), weight.tolist()


Bounds = tuple[float, float]
_FEW: Final = 15  # values away from a bound; with fewer, no interval holds exactly what it says
_A_THIRD: Final = 1 / 3
ONLY: Final = "only"  # begins the note of a mean that rests on few values


def check_bounds(bounds: Bounds | None) -> Bounds | None:
    """Return the least and the largest value of a measure.

    None where one of them is not finite.
    """
    if bounds is None:
        return None
    low, high = map(float, bounds)
    if low >= high:
        raise UsageError(f"bounds must be the least and the largest value, found {bounds!r}.")
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def score_ends(mean: float, n: float, quantile: float) -> tuple[float, float]:
    """Return the ends of the score interval of a mean in [0, 1].

    The mean is as sure as that of n zeros and ones: with a normal quantile, this is the interval of
    Wilson (1927, JASA 22).

    >>> [round(end, 4) for end in score_ends(1.0, 30, 1.959964)]
    [0.8865, 1.0]
    """
    weight = quantile * quantile / n
    centre = mean + weight / 2
    reach = math.sqrt(weight * (mean * (1 - mean) + weight / 4))
    low, high = (centre - reach) / (1 + weight), (centre + reach) / (1 + weight)
    return (0.0 if mean == 0 else low), (1.0 if mean == 1 else high)


def wilson_ends(share: float, n: int, level: float) -> tuple[float, float]:
    """Return Wilson's interval of a share."""
    return score_ends(share, n, -normal_quantile((1 - level) / 2))


def effective_size(mean: float, error: float, n: int) -> float:
    """Return how many zeros and ones leave a mean in [0, 1] with as large a standard error.

    Of n values the variance is a share of the largest that their mean allows. A third of a query
    with any value (its square is ⅔ of its size on average) is added to both: where few values lie
    away from a bound, they show too little of how far others may. Its weight was chosen by
    coverage (`benchmarks/coverage.py`).

    >>> round(effective_size(0.5, 0.05, 100), 1)
    100.2
    """
    largest = n * mean * (1 - mean) + _A_THIRD / 2
    return n * largest / ((n * error) ** 2 + _A_THIRD / 3)


def mean_ends(values: Floats, level: float, bounds: Bounds) -> tuple[float, float]:
    """Return the ends of the default interval of a mean of independent values.

    `confidence.interval` gives the same ends, bit for bit, and chooses for other samples; this one
    loads no test and no bootstrap. NaN values are left out; fewer than three have no ends.

    >>> [round(end, 4) for end in mean_ends(np.array([1.0, 1.0, 0.0]), 0.95, (0.0, 1.0))]
    [0.2077, 0.9385]
    """
    values = values[~np.isnan(values)]
    n, (low, high) = len(values), bounds
    if n < 3:
        return math.nan, math.nan
    mean = math.fsum(values.tolist()) / n
    if bool(((values == 0) | (values == 1)).all()):
        return wilson_ends(mean, n, level)
    if values.min() == values.max():
        return constant_ends(mean, n, level, bounds)
    weights = float(n) / np.maximum(float(n) - np.ones(n), 1.0)
    squares = float((((values - values.sum() / n) * weights) ** 2).sum())
    error = math.sqrt(squares * (n - 1) / n) / n / (high - low)
    share = min(max((mean - low) / (high - low), 0.0), 1.0)
    size = effective_size(share, error, n)
    ends = score_ends(share, size, -t_quantile((1 - level) / 2, n - 1.0))
    first, last = (min(max(low + (high - low) * end, low), high) for end in ends)
    return first, last


def unseen_share(n: int, level: float) -> float:
    """Return the largest share that n draws may have missed (Clopper & Pearson 1934).

    >>> round(unseen_share(30, 0.95), 4)
    0.1157
    """
    return -math.expm1(math.log((1 - level) / 2) / n)


def constant_ends(value: float, n: int, level: float, bounds: Bounds) -> tuple[float, float]:
    """Return ends for n units that all have the same value.

    What was not seen may lie anywhere.
    """
    unseen = unseen_share(n, level)
    low, high = (value + unseen * (bound - value) for bound in bounds)
    return low, high


def constant_difference_reach(value: float, n: int, level: float, span: float) -> float:
    """Return half the width for n equal differences; unseen ones may be as much off.

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


def describe_few(values: Floats, bounds: Bounds, level: float) -> str:
    """Say how few values lie away from the bound where most lie, and what follows; or nothing.

    >>> describe_few(np.array([0.5, 0.0, 0.0]), (0.0, 1.0), 0.9).partition(":")[0]
    'only 1 of 3 values differs from 0'
    """
    for bound in bounds:
        away = int((values != bound).sum())
        if 0 < away < _FEW and 2 * away <= len(values):
            differ = "differs" if away == 1 else "differ"
            where = f"{ONLY} {away} of {len(values)} values {differ} from {bound:g}"
            held = f"the {100 * level:g} % interval may hold less or more often than it says"
            return f"{where}: {held} (91 to 99 % of simulated samples for 95 %)"
    return ""


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
    if bound == bounds[0]:
        return bound + ends[0], bound + ends[1]
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
    tails = [normal_cdf(-z) for z in as_normal(statistics, n - 1).tolist()]
    return float((power(1 - shares, n) * tails).max())


def as_normal(statistics: Floats, freedom: Floats | int) -> Floats:
    """Convert t statistics to normal ones (Wallace 1959, Annals of Mathematical Statistics 30)."""
    sizes = np.sqrt(freedom * log1p(statistics**2 / freedom))
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
