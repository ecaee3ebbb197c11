"""What a test of a margin cannot see: large losses that are so rare that few or none were drawn.

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
from assay.stats.bounded import sparse_ends
from assay.stats.special import normal_cdf

__all__ = ["least_mean", "unseen_loss_p"]

_SHARES: Final = 64  # of losses that are tried
_FEW: Final = 100  # units that differ, up to which one-sided tests of them err
_STEPS: Final = 30  # of bisection


def unseen_loss_p(units: Floats, margin: float, span: float) -> float:
    """The chance to see differences as good as these where their mean is −`margin` or less.

    `span` is the largest loss that can be. Where few units differ, losses seen count as a share of
    them all (`sparse_ends`).

    >>> [round(unseen_loss_p(np.zeros(n), 0.01, 1.0), 2) for n in (20, 100, 300)]
    [0.82, 0.37, 0.05]
    """
    if not span > 0:
        return 0.0
    return max(_missed_p(units, margin, span), _sparse_p(units, margin, span))


def least_mean(units: Floats, level: float, span: float) -> float:
    """Lower bound of the mean: the largest −margin at which `unseen_loss_p` is at most `level`."""
    bounds = sparse_ends(units, 1 - 2 * level, span, _FEW)
    largest = 2 * span + float(np.abs(units).max(initial=0.0))
    margin = _smallest(lambda each: _missed_p(units, each, span) <= level, -largest, largest)
    return -margin if bounds is None else min(-margin, bounds[0])


def _missed_p(units: Floats, margin: float, span: float) -> float:
    """The largest p if a share of units loses `span`, none of them was drawn, and the rest is seen.

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
    found: Floats = np.sign(statistics) * sizes * ((8 * freedom + 1) / (8 * freedom + 3))
    return found


def _sparse_p(units: Floats, margin: float, span: float) -> float:
    """The level at which the bound of `sparse_ends` is −margin; 0 where many units differ."""

    def within(level: float) -> bool:
        bounds = sparse_ends(units, 1 - 2 * level, span, _FEW)
        return bounds is None or bounds[0] > -margin

    return _smallest(within, 0.0, 0.5)


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest number from low to high from which on it holds, or high."""
    if low == 0 and holds(1e-9):
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
