"""Wilcoxon's signed-rank test: are the larger differences on one side?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from assay.stats.special import normal_cdf

__all__ = ["EXACT_UP_TO", "signed_rank_p"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

EXACT_UP_TO = 50
_GRID = 2.0**-40  # sizes closer than this share of the largest are one size, split by rounding


def signed_rank_p(differences: Floats, alternative: str) -> tuple[float, float, bool]:
    """Find (p, sum of the ranks of positive differences, whether p is exact).

    Zero differences are left out (Wilcoxon's own rule), equal sizes share their mean rank. Up to
    50 differences the law of the rank sum is counted, ties included; beyond, it is normal with
    the variance corrected for ties.
    """
    moved = differences[differences != 0]
    if not len(moved):
        return 1.0, 0.0, True
    doubled, tie_sizes = _doubled_ranks(np.abs(moved))
    positive = int(doubled[moved > 0].sum())
    exact = len(moved) <= EXACT_UP_TO
    tails = (
        _exact_tails(doubled, positive) if exact else _normal_tails(doubled, tie_sizes, positive)
    )
    return _choose(tails, alternative), positive / 2, exact


def _doubled_ranks(sizes: Floats) -> tuple[Longs, Longs]:
    """Twice the mean rank of each size, a whole number, and how many share each rank."""
    grid = np.rint(sizes / (sizes.max() * _GRID))
    _, places, counts = np.unique(grid, return_inverse=True, return_counts=True)
    above = np.cumsum(counts)
    return (2 * above - counts + 1)[places], counts


def _exact_tails(doubled: Longs, positive: int) -> tuple[float, float]:
    """P(W ≤ w) and P(W ≥ w), by counting the subsets with each sum of ranks."""
    ways = np.zeros(int(doubled.sum()) + 1, np.int64)
    ways[0] = 1
    for rank in doubled:
        ways[rank:] += ways[:-rank].copy()
    total = 2.0 ** len(doubled)
    return float(ways[: positive + 1].sum()) / total, float(ways[positive:].sum()) / total


def _normal_tails(doubled: Longs, tie_sizes: Longs, positive: int) -> tuple[float, float]:
    n = float(len(doubled))
    sizes = tie_sizes.astype(np.float64)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((sizes**3 - sizes).sum()) / 48
    z = (positive / 2 - n * (n + 1) / 4) / math.sqrt(variance)
    return normal_cdf(z), normal_cdf(-z)


def _choose(tails: tuple[float, float], alternative: str) -> float:
    if alternative == "two-sided":
        return min(1.0, 2 * min(tails))
    return tails[1] if alternative == "greater" else tails[0]
