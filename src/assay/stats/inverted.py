"""The interval that a test implies: all differences that the test would not reject.

A p-value is then at most α exactly if the interval leaves out 0. Under random signs the differences
of the queries in a random subset, whose mean is at most θ, are as extreme as the data about θ; so
the ends are order statistics of the means of random subsets (Hartigan 1969, JASA 64).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, from_grid, to_grid
from assay.native import kernels
from assay.native.random_words import stream_key
from assay.stats.bootstrap import bootstrap_t
from assay.stats.bounded import (
    Bounds,
    check_bounds,
    constant_difference_reach,
    span_of,
    sparse_ends,
)
from assay.stats.choices import RESAMPLES
from assay.stats.confidence import Interval
from assay.stats.corrections import allowed_draws
from assay.stats.samples import SAME, clean_pairs, too_few
from assay.stats.special import t_quantile
from assay.stats.tests import EXACT_SIGNS_UP_TO, TestResult, paired_test, signs_of_all
from assay.stats.units import unit_error, units_table

INVERTIBLE: Final = ("randomisation", "t", "bootstrap")
_FLAT: Final = "all differences are equal, so no variation was seen"


def test_units(a: Any, b: Any, clusters: Any, **arguments: Any) -> TestResult:
    """`paired_test` with groups of queries as units.

    Signs and ranks are of the sums of groups; t and bootstrap use the error of a mean over all
    queries, in which larger groups weigh more.
    """
    if clusters is None:
        return paired_test(a, b, **arguments)
    if arguments.get("method") in ("t", "bootstrap"):
        spread = pseudo_values(a, b, clusters)
        result = paired_test(spread, np.zeros(len(spread)), **arguments)
    else:
        (left, right), _ = units_table(np.stack([a, b]), clusters)
        result = paired_test(left, right, **arguments)
    return replace(result, note=result.note.replace("queries", "groups"))


def pseudo_values(a: Any, b: Any, clusters: Any) -> Floats:
    """Return a number for each unit.

    Their mean and its error are those of the mean of a − b.
    """
    pairs = clean_pairs(a, b)
    if clusters is None or not len(pairs.differences):
        return pairs.differences
    (sums,), sizes = units_table(pairs.differences[None, :], np.asarray(clusters)[pairs.defined])
    mean = math.fsum(pairs.differences.tolist()) / len(pairs.differences)
    residuals = sums - mean * sizes
    spread = float(residuals.std(ddof=1)) if len(sizes) > 1 else 0.0
    scale = unit_error(residuals, sizes) * math.sqrt(len(sizes)) / spread if spread else 0.0
    pseudo: Floats = mean + (residuals - residuals.mean()) * scale
    return pseudo


def inverted_interval(
    a: Any,
    b: Any,
    test: TestResult,
    *,
    level: float,
    separate: bool,
    clusters: Any = None,
    bounds: Bounds | None = None,
) -> Interval:
    """Return the interval for the mean of a − b that belongs to `test`, one of `INVERTIBLE`.

    `level` is the significance level, `separate` whether the test, after corrections, rejects: the
    side of 0 follows it to the last bit. `bounds` are those of the scores.
    """
    pairs = clean_pairs(a, b)
    n = len(pairs.differences)
    mean = math.fsum(pairs.differences.tolist()) / n if n else math.nan
    blank = Interval(
        mean,
        math.nan,
        math.nan,
        1 - level,
        test.method,
        n,
        test.resamples,
        test.seed,
        pairs.n_removed,
        test.note,
    )
    labels = None if clusters is None else np.asarray(clusters)[pairs.defined]
    (sums,), sizes = units_table(pairs.differences[None, :], labels)
    if too_few(len(sizes)):
        return blank
    scores, bounds = np.concatenate([pairs.a, pairs.b]), check_bounds(bounds)
    span = span_of(scores, bounds)
    if np.ptp(sums / sizes) <= 4 * SAME * float(np.abs(scores).max()):
        return _constant(blank, len(sizes), span, separate=separate).of_difference(bounds)
    if test.method == "randomisation":
        low, high = _subset_ends(sums, sizes, test, level)
    else:
        low, high = _studentised_ends(pseudo_values(a, b, clusters), mean, test, level)
    wide = sparse_ends(sums / sizes.mean(), 1 - level, span)
    if wide is not None:
        low, high = np.minimum(low, wide[0]).item(), np.maximum(high, wide[1]).item()
    low, high = settle(mean, low, high, separate=separate)
    return replace(blank, low=low, high=high).of_difference(bounds)


def settle(mean: float, low: float, high: float, *, separate: bool) -> tuple[float, float]:
    """Move the end next to 0 to the side of 0 where the decision of the test puts it.

    It is at most as far away as draws and rounding may err.
    """
    if math.isnan(low) or math.isnan(high):
        return low, high
    if separate:
        least = 1e-12 * abs(mean)
        return (max(low, least), high) if mean > 0 else (low, min(high, -least))
    return min(low, 0.0), max(high, 0.0)


def _constant(blank: Interval, n: int, span: float, *, separate: bool) -> Interval:
    """Equal differences: those that were not seen may be as much larger or smaller."""
    mean, reach = blank.estimate, constant_difference_reach(blank.estimate, n, blank.level, span)
    ends = settle(mean, mean - reach, mean + reach, separate=separate)
    return replace(blank, low=ends[0], high=ends[1], resamples=0, seed=None, note=_FLAT)


def _subset_ends(
    sums: Floats, sizes: Floats, test: TestResult, level: float
) -> tuple[float, float]:
    """Return ends from the means of random subsets and of what they leave.

    The first are the lower, the second the higher.
    """
    n = len(sums)
    grid, shift = to_grid(sums, n)
    weights = sizes.astype(np.int64)
    if n <= EXACT_SIGNS_UP_TO:
        flipped, counted = signs_of_all(grid), signs_of_all(weights)
        allowed = math.floor(level * len(flipped) * (1 + 1e-12))
    else:
        resamples, key = test.resamples or RESAMPLES, stream_key(test.seed or 0, "sign flips")
        flipped, counted = (
            kernels().flip_sums(column, key, 0, resamples, 0) for column in (grid, weights)
        )
        allowed = allowed_draws(level, resamples)
    if allowed < 0 or allowed >= len(flipped):
        return math.nan, math.nan
    halves = []
    for turn in (-1, 1):
        inside = from_grid(grid.sum() + turn * flipped, shift + 1)
        number = (weights.sum() + turn * counted) / 2
        halves.append(np.where(number > 0, inside / np.maximum(number, 1), math.nan))
    lower = np.where(np.isnan(halves[0] + halves[1]), -np.inf, np.fmin(*halves))
    higher = np.where(np.isinf(lower), np.inf, np.fmax(*halves))
    low = float(np.partition(lower, allowed)[allowed])
    high = float(-np.partition(-higher, allowed)[allowed])
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (math.nan, math.nan)


def _studentised_ends(
    spread: Floats, mean: float, test: TestResult, level: float
) -> tuple[float, float]:
    n = len(spread)
    error = float(spread.std(ddof=1)) / math.sqrt(n)
    reach = -t_quantile(level / 2, n - 1)
    if test.method == "bootstrap":
        allowed = allowed_draws(level, test.resamples)
        if allowed < 0:
            return math.nan, math.nan
        drawn = np.abs(bootstrap_t(spread - mean, test.resamples, test.seed or 0))
        quantile = float(-np.partition(-drawn, allowed)[allowed])
        if math.isfinite(quantile):  # else too many resamples are of one value and have no spread
            reach = quantile
    return mean - reach * error, mean + reach * error
