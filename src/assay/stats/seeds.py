"""Systems run with several seeds: seeds and queries are both sources of variance.

Three seeds on 1,000 queries are neither 3 nor 3,000 samples. Queries are resampled for all seeds
and both systems at once, seeds within each system, and the spread of the resulting differences is
the standard error of the two together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.arrays import Floats
from assay.core.exact_sums import from_grid, to_grid
from assay.errors import MismatchError
from assay.native.random_words import stream_key, words
from assay.stats.bootstrap import resample_sums
from assay.stats.intervals import Interval, interval
from assay.stats.samples import (
    check_bootstraps,
    check_level,
    check_seed,
    finite_or_nan,
    spell,
    too_few,
)
from assay.stats.special import t_quantile, t_tail
from assay.stats.tests import TestResult, welch_test

__all__ = ["SeedComparison", "SeedSummary", "compare_seeds"]


@dataclass(frozen=True)
class SeedSummary:
    """Mean over seeds, standard deviation between seeds, and Student's interval over seeds.

    The interval is for other seeds on the same queries.
    """

    mean: float
    sd: float
    interval: Interval
    n_seeds: int

    def __repr__(self) -> str:
        """Mean ± standard deviation."""
        return f"SeedSummary({spell(self.mean)} ± {spell(self.sd)}, {self.n_seeds} seeds)"


@dataclass(frozen=True)
class SeedComparison:
    """Two systems over seeds and queries.

    `difference` has an interval for other seeds and other queries, `p` tests it against 0, and
    `seed_share` is the part of its variance that comes from seeds. `over_seeds` is Welch's test on
    the means of the seeds, which keeps the queries as they are.
    """

    a: SeedSummary
    b: SeedSummary
    difference: Interval
    p: float
    seed_share: float
    over_seeds: TestResult

    def __repr__(self) -> str:
        """The difference, its p, and where the variance comes from."""
        share = "" if math.isnan(self.seed_share) else f", {self.seed_share:.0%} from seeds"
        p = "no p" if math.isnan(self.p) else f"p={self.p:.4g}"
        return f"SeedComparison(a {self.a!r}, b {self.b!r}, {self.difference!r}, {p}{share})"


def compare_seeds(
    a: Any, b: Any, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> SeedComparison:
    """Compare two systems from their scores, seeds × queries; the queries are the same for both.

    The numbers of seeds may differ. Queries with a NaN anywhere are removed and counted.
    """
    left, right, removed = _align(a, b)
    share, resamples, seed = check_level(level), check_bootstraps(resamples), check_seed(seed)
    of_a, of_b = _summary(left, share), _summary(right, share)
    blank = Interval(
        of_a.mean - of_b.mean,
        math.nan,
        math.nan,
        share,
        "two-way",
        left.shape[1],
        resamples,
        seed,
        removed,
        _too_few(left, right),
    )
    welch = welch_test(_seed_means(left), _seed_means(right))
    if blank.note:
        return SeedComparison(of_a, of_b, blank, math.nan, math.nan, welch)
    found, p, seed_share = _two_way(left, right, blank)
    return SeedComparison(of_a, of_b, found, p, seed_share, welch)


def _align(a: Any, b: Any) -> tuple[Floats, Floats, int]:
    left, right = finite_or_nan(a, "a", dimensions=2), finite_or_nan(b, "b", dimensions=2)
    if left.shape[1] != right.shape[1]:
        raise MismatchError(
            f"a has {left.shape[1]} queries and b has {right.shape[1]}. Give seeds × queries, with "
            "the same queries in the same order."
        )
    kept = ~(np.isnan(left).any(axis=0) | np.isnan(right).any(axis=0))
    return left[:, kept], right[:, kept], int((~kept).sum())


def _too_few(left: Floats, right: Floats) -> str:
    fewest = min(len(left), len(right))
    return too_few(fewest, "seeds") or too_few(left.shape[1]) or ""


def _seed_means(scores: Floats) -> Floats:
    n = scores.shape[1]
    return np.array([math.fsum(row) / n if n else math.nan for row in scores.tolist()], float)


def _summary(scores: Floats, level: float) -> SeedSummary:
    found = interval(_seed_means(scores), method="t", level=level)
    means = _seed_means(scores)
    sd = float(means.std(ddof=1)) if len(means) > 1 else math.nan
    return SeedSummary(found.estimate, sd, found, len(scores))


def _two_way(left: Floats, right: Floats, blank: Interval) -> tuple[Interval, float, float]:
    variances, freedoms = _components(left, right)
    drawn = _resample_differences(left, right, blank.resamples, blank.seed or 0)
    error = float(drawn.std(ddof=1))
    if error <= 1e-15 * max(np.abs(left).max(), np.abs(right).max()):
        note = "neither seeds nor queries vary"
        same = blank.estimate == 0
        found = replace(blank, low=blank.estimate, high=blank.estimate, note=note)
        return found, 1.0 if same else math.nan, math.nan
    # Satterthwaite: few seeds weigh the more, the more of the variance is theirs.
    parts = [v**2 / f for v, f in zip(variances, freedoms, strict=True)]
    freedom = sum(variances) ** 2 / sum(parts)
    reach = -t_quantile((1 - blank.level) / 2, freedom) * error
    p = max(2 * t_tail(abs(blank.estimate) / error, freedom), np.finfo(np.float64).tiny)
    seed_share = sum(variances[1:]) / sum(variances)
    found = replace(blank, low=blank.estimate - reach, high=blank.estimate + reach)
    return found, float(p), seed_share


def _components(left: Floats, right: Floats) -> tuple[list[float], list[int]]:
    """Variance of the difference from queries, seeds of a, seeds of b; degrees of freedom."""
    by_query = left.mean(axis=0) - right.mean(axis=0)
    samples = (by_query, left.mean(axis=1), right.mean(axis=1))
    return (
        [float(sample.var(ddof=1)) / len(sample) for sample in samples],
        [len(sample) - 1 for sample in samples],
    )


def _resample_differences(left: Floats, right: Floats, resamples: int, seed: int) -> Floats:
    n = left.shape[1]
    grid, shift = to_grid(np.concatenate([left, right]), n)
    sums = resample_sums(grid.T, np.array([0, n]), resamples, seed)
    means = from_grid(sums, shift) / n
    mean_a = _resample_seeds(means[:, : len(left)], stream_key(seed, "seeds of a"))
    mean_b = _resample_seeds(means[:, len(left) :], stream_key(seed, "seeds of b"))
    return mean_a - mean_b


def _resample_seeds(means: Floats, key: int) -> Floats:
    """Mean over seeds drawn with replacement, its deviations widened by √(S / (S − 1)).

    A bootstrap of S values has (S − 1) / S of the variance: harmless for a thousand queries, a
    third too little for three seeds.
    """
    resamples, seeds = means.shape
    halves = words(key, 0, resamples * seeds).reshape(resamples, seeds) >> np.uint64(32)
    chosen = (halves * np.uint64(seeds) >> np.uint64(32)).astype(np.int64)
    all_seeds = means.mean(axis=1)
    drawn = np.take_along_axis(means, chosen, axis=1).mean(axis=1)
    widened: Floats = all_seeds + (drawn - all_seeds) * math.sqrt(seeds / (seeds - 1))
    return widened
