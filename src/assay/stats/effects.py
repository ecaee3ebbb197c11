"""Effect size and power of a difference, and how well a number tells two kinds apart (areas).

Systems run with several seeds: seeds and queries are both sources of variance.

Three seeds on 1,000 queries are neither 3 nor 3,000 samples. The error of a difference comes from
the mean squares of the two-way layout, seeds × queries: what varies between queries, between seeds,
and from seed to seed on the same query. That last part is in the first as well as in the second and
is counted once (Searle, Casella & McCulloch 1992, Variance components; degrees of freedom:
Satterthwaite 1946, Biometrics Bulletin 2).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Flags, Floats, cos, exp, log, sin
from assay.errors import MismatchError
from assay.stats import samples
from assay.stats.bounded import falling_root, normal_quantile, t_quantile, t_tail, t_test_power
from assay.stats.choices import CONFIDENCE, LEVEL, RESAMPLES
from assay.stats.confidence import Interval, interval
from assay.stats.tests import TestResult, welch_test

_MOST_QUERIES: Final = 10**15
_SOLVED: Final = 40  # levels, of which there may be thousands


@dataclass(frozen=True)
class Effect:
    """Size of the difference between two systems on the same queries.

    `standardised` is the mean difference over the standard deviation of the differences (Cohen's
    d_z), NaN where that is 0 or unknown; `superiority` is the probability that a beats b on
    a random query, ties counted half.
    """

    mean_difference: float
    standardised: float
    wins: int
    ties: int
    losses: int
    superiority: float
    n_removed: int = 0

    @property
    def n(self) -> int:
        """Number of queries compared."""
        return self.wins + self.ties + self.losses

    def __repr__(self) -> str:
        numbers = (self.mean_difference, self.standardised, self.superiority)
        mean, d, superiority = map(samples.spell, numbers)
        counts = f"{self.wins} wins, {self.ties} ties, {self.losses} losses"
        return f"Effect({mean}, standardised {d}, {counts}, superiority {superiority})"


def effect(a: Any, b: Any) -> Effect:
    """Measure how much better a is than b on the same queries.

    Args:
        a: Scores of one system, a number for each query.
        b: Scores of the other on the same queries.

    Returns:
        Mean difference, standardised difference, wins, ties and losses.

    Example:
        >>> effect([0.3, 0.5, 0.6, 0.9], [0.1, 0.5, 0.3, 0.5])
        Effect(0.2250, standardised 1.3175, 3 wins, 1 ties, 0 losses, superiority 0.8750)
    """
    pairs = samples.clean_pairs(a, b)
    differences = pairs.differences
    n = len(differences)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    mean = math.fsum(differences.tolist()) / n if n else math.nan
    spread = float(differences.std(ddof=1)) if n >= samples.FEWEST else math.nan
    noise = samples.SAME * float(np.abs([pairs.a, pairs.b]).max(initial=0.0))
    return Effect(
        mean_difference=mean,
        standardised=mean / spread if spread > noise else math.nan,
        wins=wins,
        ties=n - wins - losses,
        losses=losses,
        superiority=(wins + (n - wins - losses) / 2) / n if n else math.nan,
        n_removed=pairs.n_removed,
    )


def minimum_detectable_difference(
    differences: Any, *, power: float = 0.8, level: float = LEVEL
) -> float:
    """Return the smallest mean difference that a paired t test detects.

    Args:
        differences: Per-query differences of two systems; their spread is what counts.
        power: Chance to detect the difference.
        level: Level of the two-sided test.

    Returns:
        The difference; NaN with too few queries, 0 where the systems never differ.

    Example:
        >>> round(minimum_detectable_difference([0.1, -0.1] * 50), 4)
        0.0284
    """
    values = _check_power(differences, power, level)
    if samples.too_few(len(values)):
        return math.nan
    n = len(values)
    shift = _shift_for(power, n - 1, level)
    return shift * float(values.std(ddof=1)) / math.sqrt(n)


def detectable_sizes(levels: Sequence[float], n: int, *, power: float = 0.8) -> Floats:
    """Return what n queries detect at each level, in standard deviations of the differences.

    In the logarithm of the level the answer is mostly smooth: it is solved for at some, and the
    rest is read off the polynomial through these, where that agrees with others solved for.

    >>> detectable_sizes([0.05, 0.01], 100).round(4).tolist()
    [0.2829, 0.3476]
    """

    any_values = np.arange(n, dtype=np.float64)  # to whose spread the answer is proportional
    spread = float(any_values.std(ddof=1))

    def solve(some: Floats) -> Floats:
        sizes = [
            minimum_detectable_difference(any_values, power=power, level=level)
            for level in some.tolist()
        ]
        return np.array(sizes) / spread

    distinct, back = np.unique(np.asarray(levels, np.float64), return_inverse=True)
    read = _read_off(solve, distinct) if len(distinct) > _SOLVED else None
    return (solve(distinct) if read is None else read)[back]


def _read_off(solve: Callable[[Floats], Floats], levels: Floats) -> Floats | None:
    """Interpolate a positive function by the polynomial through the nodes of Chebyshev."""
    turns = np.pi * (np.arange(_SOLVED) + 0.5) / _SOLVED
    low, high = log(levels[[0, -1]])
    nodes = exp((low + high) / 2 + (low - high) / 2 * cos(turns))
    values = solve(nodes)
    if not values.all():
        return None
    weights = (-1.0) ** np.arange(_SOLVED) * sin(turns)  # of the barycentric form

    def through(places: Floats) -> Floats:
        away = log(places)[:, None] - log(nodes)
        shares = weights / np.where(away == 0, 1e-300, away)
        interpolated: Floats = exp(shares @ log(values) / shares.sum(axis=1))
        return interpolated

    tried = levels[[0, _SOLVED // 2, len(levels) // 2, -2, -1]]
    return through(levels) if np.allclose(through(tried), solve(tried), 1e-12, 0.0) else None


def queries_needed(
    differences: Any, *, difference: float, power: float = 0.8, level: float = LEVEL
) -> int | None:
    """Return how many queries of this kind detect a mean difference that matters.

    The difference is to be stated: that of a sample says as little about it as its p.

    Args:
        differences: Per-query differences of two systems; their spread is what counts.
        difference: The true difference to detect.
        power: Chance to detect the difference.
        level: Level of the two-sided test.

    Returns:
        The number of queries; None with too few queries.

    Example:
        >>> queries_needed([0.1, -0.1] * 50, difference=0.0285)
        100
    """
    values = _check_power(differences, power, level)
    if samples.too_few(len(values)):
        return None
    spread = float(values.std(ddof=1))
    size = samples.check_margin(difference, "difference") / spread if spread else math.inf

    def enough(n: int) -> bool:
        return math.isinf(size) or t_test_power(size * math.sqrt(n), n - 1, level) >= power

    n = samples.FEWEST + bisect_left(range(samples.FEWEST, _MOST_QUERIES), True, key=enough)
    return n if n < _MOST_QUERIES else None


def _check_power(differences: Any, power: float, level: float) -> Floats:
    """Check the arguments, and return the differences that are defined."""
    samples.check_level(power, "power", 0.8)
    samples.check_level(level, example=0.05)
    values = samples.finite_or_nan(differences, "differences")
    return values[~np.isnan(values)]


def _shift_for(power: float, freedom: int, level: float) -> float:
    """Return the noncentrality at which a two-sided t test has this power; 0 if power ≤ level."""

    def lack(shift: float) -> float:
        return power - t_test_power(shift, freedom, level)

    high = 1.0
    while lack(high) > 0:
        high *= 2
    return falling_root(lack, 0.0, high) if lack(0.0) > 0 else 0.0


def auroc(inside: Floats, outside: Floats) -> float:
    """Return the share of pairs in which the one inside is higher; half of a tie counts.

    >>> auroc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    return float(_placements(inside, outside).mean())


def _placements(a: Floats, b: Floats) -> Floats:
    """Return for each of `a` the share of `b` that is below it.

    Half of what ties.
    """
    ordered = np.sort(b)
    below = np.searchsorted(ordered, a) + np.searchsorted(ordered, a, side="right")
    return below / (2 * len(b))


def auroc_interval(inside: Floats, outside: Floats) -> tuple[float, float]:
    """Return the 95 % interval by DeLong et al. (1988), on the logit scale."""
    area = auroc(inside, outside)
    if min(len(inside), len(outside)) < 2 or not 0 < area < 1:
        return math.nan, math.nan
    parts = (_placements(inside, outside), 1 - _placements(outside, inside))
    variance = sum(part.var(ddof=1) / len(part) for part in parts)
    middle = log(area / (1 - area))
    half = -normal_quantile(0.025) * np.sqrt(variance) / (area * (1 - area))
    low, high = (1 / (1 + exp(-(middle + side * half))) for side in (-1, 1))
    return float(low), float(high)


def false_positive_rate(inside: Floats, outside: Floats, share: float) -> float:
    """Return the share of `outside` above the threshold that `share` of `inside` reaches."""
    at = len(inside) - int(np.ceil(share * len(inside)))
    return float((outside >= np.sort(inside)[at]).mean())


def grouped_ap(distance: Floats, right: Flags, missed: int = 0) -> float:
    """Return AP as scikit-learn has it: equal distances count together; NaN if none is right.

    >>> grouped_ap(np.array([1.0, 2.0, 2.0]), np.array([True, False, True]))
    0.8333333333333333
    """
    total = int(right.sum()) + missed
    if not total:
        return math.nan
    order = np.argsort(distance, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(distance[order]) > 0, True)) if len(order) else order
    hits = np.cumsum(right[order])[ends]
    gained = np.diff(hits, prepend=0)
    return math.fsum((gained / total * hits / (ends + 1)).tolist())


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
        mean, sd = samples.spell(self.mean), samples.spell(self.sd)
        return f"SeedSummary({mean} ± {sd}, {self.n_seeds} seeds)"


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
        share = "" if math.isnan(self.seed_share) else f", {100 * self.seed_share:.0f} % from seeds"
        p = "no p" if math.isnan(self.p) else f"p={self.p:.4g}"
        return f"SeedComparison(a {self.a!r}, b {self.b!r}, {self.difference!r}, {p}{share})"


def compare_seeds(
    a: Any, b: Any, *, level: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> SeedComparison:
    """Compare two systems run with several seeds on the same queries.

    Queries with a NaN anywhere are removed and counted.

    Args:
        a: Seeds × queries of one system.
        b: Seeds × queries of the other; the numbers of seeds may differ.
        level: Confidence level.
        resamples: Accepted as by other functions; nothing is drawn.
        seed: Likewise.

    Returns:
        Both systems over seeds, and their difference.

    Raises:
        MismatchError: The numbers of queries differ.

    Example:
        >>> compare_seeds([[0.5, 0.75, 1.0]] * 3, [[0.25, 0.5, 0.75]] * 3).difference.estimate
        0.25
    """
    left, right = (samples.finite_or_nan(each, name, 2) for each, name in ((a, "a"), (b, "b")))
    if left.shape[1] != right.shape[1]:
        raise MismatchError(
            f"a has {left.shape[1]} queries and b has {right.shape[1]}. Give seeds × queries, with "
            "the same queries in the same order."
        )
    complete = ~(np.isnan(left).any(axis=0) | np.isnan(right).any(axis=0))
    left, right = left[:, complete], right[:, complete]
    share = samples.check_level(level)
    samples.check_bootstraps(resamples)
    samples.check_seed(seed)
    of_a, of_b = _summary(left, share), _summary(right, share)
    n, mean = left.shape[1], of_a.mean - of_b.mean
    blank = Interval(
        mean,
        *(math.nan, math.nan),
        share,
        "two-way",
        n,
        n_removed=int((~complete).sum()),
        note=samples.too_few(min(len(left), len(right)), "seeds") or samples.too_few(n) or "",
    )
    welch = welch_test(_seed_means(left), _seed_means(right))
    if blank.note:
        return SeedComparison(of_a, of_b, blank, math.nan, math.nan, welch)
    difference, p, seed_share = _two_way(left, right, blank)
    return SeedComparison(of_a, of_b, difference, p, seed_share, welch)


def _seed_means(scores: Floats) -> Floats:
    n = scores.shape[1]
    return np.array([math.fsum(row) / n if n else math.nan for row in scores.tolist()], float)


def _summary(scores: Floats, level: float) -> SeedSummary:
    means = _seed_means(scores)
    summary = interval(means, method="t", level=level)
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
    doubt = max(math.fsum(part.doubt for part in used), least.doubt)
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
