"""The few special functions that tests and intervals need: normal, Student t, incomplete beta.

Accurate to about 1e-13, in the tails relative to the tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np

from assay.arrays import Floats

_NORMAL = NormalDist()
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def normal_cdf(x: float) -> float:
    """P(Z ≤ x) of a standard normal Z."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def normal_quantile(p: float) -> float:
    """Return the x with P(Z ≤ x) = p; ±infinity at 1 and 0."""
    if p <= 0 or p >= 1:
        return -math.inf if p <= 0 else math.inf
    return _NORMAL.inv_cdf(p)


def t_tail(t: float, freedom: float) -> float:
    """P(T ≥ t) of Student's T.

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
    return -_falling_root(lambda t: t_tail(t, freedom) - p, 0.0, high)


def _falling_root(f: Callable[[float], float], low: float, high: float) -> float:
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
    """Regularised incomplete beta function I_x(a, b), with y = 1 − x given for its digits.

    For whole numbers it is a binomial tail: P(X ≤ k) of n tosses is I_½(n − k, k + 1).
    """
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_tail(b, a, y, x)
    return math.exp(_log_front(a, b, x, y)) * _beta_fraction(a, b, x, y)


def _log_front(a: float, b: float, x: float, y: float) -> float:
    """log of x^a y^b / B(a, b), in Loader's form, which loses no digits for large a and b."""
    total = a + b
    off = x * b - y * a
    bulk = a * _log_minus(x * total / a, off / a) + b * _log_minus(y * total / b, -off / b)
    errors = _stirling_error(total) - _stirling_error(a) - _stirling_error(b)
    return bulk + errors + 0.5 * math.log(a / total * b) - _HALF_LOG_TWO_PI


def _stirling_error(x: float) -> float:
    """lgamma(x) less Stirling's formula for it."""
    if x < 16:
        return math.lgamma(x) - ((x - 0.5) * math.log(x) - x + _HALF_LOG_TWO_PI)
    z = 1 / (x * x)
    series = 1 / 1188 - z * 691 / 360360
    for coefficient in (-1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        series = coefficient + z * series
    return series / x


def _log_minus(ratio_to_one: float, x: float) -> float:
    """log(r) − x for r = 1 + x, without cancellation when r is near 1 or near 0."""
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
    """Nodes and weights for the law of √(χ²/ν), the sample's deviation as a share of the true."""
    reach = 13 / math.sqrt(2 * freedom)
    low, high = max(0.0, 1 - reach), 1 + reach
    nodes, weights = _quadrature()
    spread = low + (high - low) * (nodes + 1) / 2
    half = freedom / 2
    log_density = freedom * (np.log(spread) + (1 - spread**2) / 2) - np.log(spread)
    front = 0.5 * math.log(half) - _HALF_LOG_TWO_PI - _stirling_error(half) + math.log(2)
    weight = np.exp(log_density + front) * weights * (high - low) / 2
    return spread.tolist(), weight.tolist()
