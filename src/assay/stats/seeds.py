"""Systems run with several seeds: seeds and queries are both sources of variance.

Three seeds on 1,000 queries are neither 3 nor 3,000 samples. The error of a difference comes from
the mean squares of the two-way layout, seeds × queries: what varies between queries, between seeds,
and from seed to seed on the same query. That last part is in the first as well as in the second and
is counted once (Searle, Casella & McCulloch 1992, Variance components; degrees of freedom:
Satterthwaite 1946, Biometrics Bulletin 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from assay.arrays import Floats
from assay.errors import MismatchError
from assay.stats.choices import CONFIDENCE, RESAMPLES
from assay.stats.confidence import Interval, interval
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
        return f"SeedSummary({spell(self.mean)} ± {spell(self.sd)}, {self.n_seeds} seeds)"


@dataclass(frozen=True)
class SeedComparison:
    """Two systems over seeds and queries.

    `difference` has an interval for other seeds and other queries, `p` tests it against 0 with the
    same error, and `seed_share` is the part of its variance that more seeds would reduce.
    `over_seeds` is Welch's test on the means of the seeds, which keeps the queries as they are.
    """

    a: SeedSummary
    b: SeedSummary
    difference: Interval
    p: float
    seed_share: float
    over_seeds: TestResult

    def __repr__(self) -> str:
        share = "" if math.isnan(self.seed_share) else f", {self.seed_share:.0%} from seeds"
        p = "no p" if math.isnan(self.p) else f"p={self.p:.4g}"
        return f"SeedComparison(a {self.a!r}, b {self.b!r}, {self.difference!r}, {p}{share})"


def compare_seeds(
    a: Any, b: Any, *, level: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> SeedComparison:
    """Compare two systems from their scores, seeds × queries; the queries are the same for both.

    The numbers of seeds may differ. Queries with a NaN anywhere are removed and counted. Nothing is
    drawn: `resamples` and `seed` are accepted as by other functions and change nothing.
    """
    left, right, removed = _align(a, b)
    share = check_level(level)
    check_bootstraps(resamples)
    check_seed(seed)
    of_a, of_b = _summary(left, share), _summary(right, share)
    blank = Interval(
        of_a.mean - of_b.mean,
        math.nan,
        math.nan,
        share,
        "two-way",
        left.shape[1],
        n_removed=removed,
        note=_too_few(left, right),
    )
    welch = welch_test(_seed_means(left), _seed_means(right))
    if blank.note:
        return SeedComparison(of_a, of_b, blank, math.nan, math.nan, welch)
    difference, p, seed_share = _two_way(left, right, blank)
    return SeedComparison(of_a, of_b, difference, p, seed_share, welch)


def _align(a: Any, b: Any) -> tuple[Floats, Floats, int]:
    left, right = finite_or_nan(a, "a", dimensions=2), finite_or_nan(b, "b", dimensions=2)
    if left.shape[1] != right.shape[1]:
        raise MismatchError(
            f"a has {left.shape[1]} queries and b has {right.shape[1]}. Give seeds × queries, with "
            "the same queries in the same order."
        )
    complete = ~(np.isnan(left).any(axis=0) | np.isnan(right).any(axis=0))
    return left[:, complete], right[:, complete], int((~complete).sum())


def _too_few(left: Floats, right: Floats) -> str:
    fewest = min(len(left), len(right))
    return too_few(fewest, "seeds") or too_few(left.shape[1]) or ""


def _seed_means(scores: Floats) -> Floats:
    n = scores.shape[1]
    return np.array([math.fsum(row) / n if n else math.nan for row in scores.tolist()], float)


def _summary(scores: Floats, level: float) -> SeedSummary:
    summary = interval(_seed_means(scores), method="t", level=level)
    means = _seed_means(scores)
    sd = float(means.std(ddof=1)) if len(means) > 1 else math.nan
    return SeedSummary(summary.estimate, sd, summary, len(scores))


def _two_way(left: Floats, right: Floats, blank: Interval) -> tuple[Interval, float, float]:
    error, freedom, seed_share = _error_of_difference(left, right)
    noise = 1e-15 * max(np.abs(left).max(), np.abs(right).max())
    if error <= noise:
        note = "neither seeds nor queries vary"
        same = abs(blank.estimate) <= noise
        result = replace(blank, low=blank.estimate, high=blank.estimate, note=note)
        return result, 1.0 if same else math.nan, math.nan
    reach = -t_quantile((1 - blank.level) / 2, freedom) * error
    p = max(2 * t_tail(abs(blank.estimate) / error, freedom), np.finfo(np.float64).tiny)
    result = replace(blank, low=blank.estimate - reach, high=blank.estimate + reach)
    return result, float(p), seed_share


class _MeanSquare(NamedTuple):
    """A variance of the mean difference and its degrees of freedom."""

    variance: float
    freedom: int

    @property
    def doubt(self) -> float:
        """Its term in Satterthwaite's sum."""
        return self.variance**2 / self.freedom


def _error_of_difference(left: Floats, right: Floats) -> tuple[float, float, float]:
    """Return standard error, degrees of freedom and share of seeds of the mean difference.

    The part of queries is what they vary beyond the interaction, at least 0. The part of seeds is
    not floored: with few seeds it is often below the interaction by chance, and a floor would make
    intervals too wide. The whole is at least half of what the queries alone give.
    """
    by_query = _spread(left.mean(axis=0) - right.mean(axis=0))
    by_seed = [_spread(table.mean(axis=1)) for table in (left, right)]
    twice = [_interaction(table) for table in (left, right)]
    seeds = sum(part.variance for part in by_seed)
    queries = by_query.variance - sum(part.variance for part in twice)
    used = [*by_seed, by_query, *twice] if queries > 0 else by_seed
    least = _MeanSquare(by_query.variance / 2, by_query.freedom)
    whole = max(seeds + max(queries, 0.0), least.variance)
    doubt = max(sum(part.doubt for part in used), least.doubt)
    if doubt == 0:
        return math.sqrt(whole), math.inf, math.nan
    return math.sqrt(whole), whole**2 / doubt, seeds / whole


def _spread(means: Floats) -> _MeanSquare:
    return _MeanSquare(float(means.var(ddof=1)) / len(means), len(means) - 1)


def _interaction(table: Floats) -> _MeanSquare:
    """Return the residual of seeds × queries as a variance of the whole mean."""
    seeds, n = table.shape
    left = table - table.mean(axis=0) - table.mean(axis=1)[:, None] + table.mean()
    freedom = (seeds - 1) * (n - 1)
    return _MeanSquare(float((left**2).sum()) / freedom / (seeds * n), freedom)
