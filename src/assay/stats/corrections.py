"""Multiple comparisons: corrected p-values, and Tukey's test of all pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.arrays import Floats
from assay.core.checks import check_choice
from assay.core.exact_sums import from_grid, slack, to_grid
from assay.errors import ShapeError, ValueRangeError
from assay.native import kernels
from assay.native.random_words import stream_key
from assay.stats.joint import allowed_draws
from assay.stats.samples import check_level, check_resamples, check_seed, finite_or_nan, too_few

__all__ = ["CORRECTIONS", "TukeyResult", "adjust", "levels_of_one", "tukey_hsd"]


CORRECTIONS = ("holm", "bonferroni", "bh", "none")


def adjust(p_values: Any, method: str = "holm") -> Floats:
    """Adjust p-values for their number; compare the result with the level as usual.

    `holm` and `bonferroni` control the family-wise error rate, `bh` (Benjamini & Hochberg)
    the false discovery rate. NaN stays NaN and is not counted.

    >>> adjust([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    name = check_choice(method, CORRECTIONS, "method")
    given = finite_or_nan(p_values, "p_values")
    if ((given < 0) | (given > 1)).any():
        row = int(np.argmax((given < 0) | (given > 1)))
        raise ValueRangeError(f"p_values holds {given[row]} at {row}; p lies between 0 and 1.")
    adjusted = given.copy()
    known = np.flatnonzero(~np.isnan(given))
    order = known[np.argsort(given[known], kind="stable")]
    adjusted[order] = np.minimum(_ADJUST[name](given[order]), 1.0)
    return adjusted


def _holm(ascending: Floats) -> Floats:
    return np.maximum.accumulate(ascending * np.arange(len(ascending), 0, -1))


def _bonferroni(ascending: Floats) -> Floats:
    return ascending * len(ascending)


def _benjamini_hochberg(ascending: Floats) -> Floats:
    m = len(ascending)
    return np.minimum.accumulate((ascending * m / np.arange(1, m + 1))[::-1])[::-1]


def _as_given(ascending: Floats) -> Floats:
    return ascending


_ADJUST = {
    "holm": _holm,
    "bonferroni": _bonferroni,
    "bh": _benjamini_hochberg,
    "none": _as_given,
}


def levels_of_one(p_values: Any, method: str = "holm", level: float = 0.05) -> Floats:
    """The level that each p alone is compared with, so that `adjust` and it always agree.

    Holm: a rejected p met the level of its step, all others failed at that of the first step that
    failed. Benjamini & Hochberg: k of m rejected give k/m of the level, the one at which intervals
    of what was selected keep their coverage (Benjamini & Yekutieli 2005, JASA 100).

    >>> levels_of_one([0.01, 0.04, 0.03]).round(4).tolist()
    [0.0167, 0.025, 0.025]
    """
    adjusted = adjust(p_values, method)
    known = ~np.isnan(adjusted)
    m, rejected = int(known.sum()), int((adjusted <= check_level(level, example=0.05)).sum())
    if not m or method == "none":
        return np.full(len(adjusted), level)
    if method == "bonferroni":
        return np.full(len(adjusted), level / m)
    if method == "bh":
        return np.full(len(adjusted), level * max(rejected, 1) / m)
    each = np.full(len(adjusted), level / max(m - rejected, 1))
    order = np.flatnonzero(known)[np.argsort(np.asarray(p_values)[known], kind="stable")]
    each[order[:rejected]] = level / (m - np.arange(rejected))
    return each


@dataclass(frozen=True, eq=False)
class TukeyResult:
    """p for each pair of systems, adjusted for all pairs, and the mean differences.

    `p[i, j]` belongs to systems i and j, `differences[i, j]` is mean i − mean j. p is NaN, and
    `note` says why, where there are too few queries. `ranges` are the largest differences of the
    shuffles, ascending.
    """

    p: Floats
    differences: Floats
    n: int
    n_removed: int
    resamples: int
    seed: int
    ranges: Floats
    note: str = ""

    def half_width(self, level: float) -> float:
        """The least difference with p ≤ level: intervals reach as far; infinite if none has."""
        allowed = allowed_draws(level, self.resamples)
        return math.inf if allowed < 0 or self.note else float(self.ranges[-1 - allowed])

    def __repr__(self) -> str:
        """How many systems, queries and resamples."""
        note = f"; {self.note}" if self.note else ""
        removed = f", {self.n_removed} removed" if self.n_removed else ""
        return (
            f"TukeyResult({len(self.p)} systems, n={self.n}{removed}, "
            f"{self.resamples} resamples{note})"
        )


def tukey_hsd(values: Any, *, resamples: int = 10_000, seed: int = 0) -> TukeyResult:
    """Randomised Tukey HSD of `values`, systems × queries: all pairs in one test.

    The scores of each query are shuffled among the systems, and each difference is compared with
    the largest difference that arises so (Carterette, ACM TOIS 2012). Queries with a NaN in any
    system are removed and counted.

    >>> result = tukey_hsd([[0.9, 0.8, 0.9, 0.7], [0.1, 0.2, 0.1, 0.3], [0.1, 0.2, 0.2, 0.3]])
    >>> result.p[0, 1] < 0.05 < result.p[1, 2]
    np.True_
    """
    table = finite_or_nan(values, "values", dimensions=2)
    if len(table) < 2:
        raise ShapeError(f"A comparison needs two systems or more, found shape {table.shape}.")
    resamples, seed = check_resamples(resamples), check_seed(seed)
    kept = ~np.isnan(table).any(axis=0)
    table = table[:, kept]
    p, differences, ranges = _tukey(table, resamples, seed)
    n, removed = table.shape[1], int((~kept).sum())
    return TukeyResult(p, differences, n, removed, resamples, seed, ranges, too_few(n) or "")


def _tukey(table: Floats, resamples: int, seed: int) -> tuple[Floats, Floats, Floats]:
    systems, n = table.shape
    unknown = np.full((systems,) * 2, math.nan)
    if n == 0:
        return unknown, unknown, np.empty(0)
    means = np.array([math.fsum(row) / n for row in table.tolist()])
    differences = means[:, None] - means
    if too_few(n):
        return unknown, differences, np.empty(0)
    # Centred scores keep the grid fine; a query's mean is the same however it is shuffled.
    grid, shift = to_grid(table - table.mean(axis=0), n)
    near = slack(4 * n, float(np.abs(table).max()), shift)
    sums = grid.sum(axis=1)
    gaps = np.abs(sums[:, None] - sums)
    key = stream_key(seed, "shuffles")
    flat = np.ascontiguousarray(grid.T).ravel()
    ranges = np.sort(kernels().shuffled_ranges(flat, systems, key, 0, resamples, 0))
    reached = resamples - np.searchsorted(ranges, gaps - near)
    p = (reached + 1) / (resamples + 1)
    p[gaps <= near] = 1.0
    return p, differences, from_grid(ranges, shift) / n
