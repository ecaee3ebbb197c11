"""Seeds and queries as two sources of variation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from assay.errors import MismatchError
from assay.stats import compare_seeds

SLOW = pytest.mark.slow


def simulated(
    rng: np.random.Generator, *, seeds: int, n: int, between_seeds: float, between_queries: float
) -> tuple[np.ndarray, np.ndarray]:
    """Two systems of equal worth: query effects, query × system, seed effects and noise."""
    query = rng.normal(0, 1, n)
    tables = []
    for _ in range(2):
        own = rng.normal(0, between_queries, n)
        seed = rng.normal(0, between_seeds, (seeds, 1))
        tables.append(query + own + seed + rng.normal(0, 0.1, (seeds, n)))
    return tables[0], tables[1]


@pytest.mark.parametrize(
    ("seeds", "between_seeds", "between_queries"),
    [
        (3, 0.02, 0.3),
        *[
            pytest.param(*case, marks=SLOW)
            for case in ((5, 0.05, 0.0), (3, 0.0, 0.3), (5, 0.02, 0.3))
        ],
    ],
)
def test_false_claims_are_rare_whatever_varies(
    seeds: int, between_seeds: float, between_queries: float
) -> None:
    rng = np.random.default_rng(seeds)
    rejected = 0
    for number in range(300):
        a, b = simulated(
            rng, seeds=seeds, n=200, between_seeds=between_seeds, between_queries=between_queries
        )
        rejected += compare_seeds(a, b, resamples=400, seed=number).p < 0.05
    assert rejected / 300 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
    assert rejected > 0 or between_seeds > 0


def test_pooling_would_claim_too_much() -> None:
    """What compare_seeds is for: all seed-query pairs as one sample reject far too often."""
    rng = np.random.default_rng(0)
    pooled = honest = 0
    for number in range(200):
        a, b = simulated(rng, seeds=3, n=200, between_seeds=0.05, between_queries=0.1)
        pooled += scipy.stats.ttest_rel(a.ravel(), b.ravel()).pvalue < 0.05
        honest += compare_seeds(a, b, resamples=400, seed=number).p < 0.05
    assert pooled > 60
    assert honest < 25


@pytest.mark.parametrize(
    ("seeds", "between_seeds", "between_queries", "noise"),
    [
        (3, 0.0, 0.0, 0.3),
        pytest.param(3, 0.02, 0.2, 0.2, marks=SLOW),
        *[
            pytest.param(10, *case, marks=SLOW)
            for case in ((0.0, 0.0, 0.3), (0.01, 0.0, 0.3), (0.0, 0.3, 0.3), (0.02, 0.2, 0.2))
        ],
    ],
)
def test_noise_of_seeds_on_queries_counts_once(
    seeds: int, between_seeds: float, between_queries: float, noise: float
) -> None:
    """Counted with the queries and with the seeds, it made intervals 1.4 times too wide."""
    rng = np.random.default_rng(seeds)
    rejected, widths = 0, []
    for _ in range(400):
        query = rng.normal(0, 1, 100)
        a, b = (
            query
            + rng.normal(0, between_queries, 100)
            + rng.normal(0, between_seeds, (seeds, 1))
            + rng.normal(0, noise, (seeds, 100))
            for _ in range(2)
        )
        found = compare_seeds(a, b)
        rejected += found.p <= 0.05
        assert (found.p <= 0.05) == (0 not in found.difference)
        widths.append(found.difference.half_width**2)
    true = 2 * (between_queries**2 / 100 + (between_seeds**2 + noise**2 / 100) / seeds)
    assert 0.004 < rejected / 400 < 0.085
    if seeds == 10:  # with three, Student's quantiles are far from 1.96
        assert math.sqrt(np.mean(widths)) < 1.25 * 1.96 * math.sqrt(true)


def mean_squares(table: list[list[float]]) -> tuple[float, float, float]:
    """Of seeds, of queries and of what is left, by loops over the two-way layout."""
    seeds, n = len(table), len(table[0])
    whole = sum(map(sum, table)) / (seeds * n)
    by_seed = [sum(row) / n for row in table]
    by_query = [sum(row[q] for row in table) / seeds for q in range(n)]
    left = sum(
        (table[s][q] - by_seed[s] - by_query[q] + whole) ** 2
        for s in range(seeds)
        for q in range(n)
    )
    return (
        n * sum((one - whole) ** 2 for one in by_seed) / (seeds - 1),
        seeds * sum((one - whole) ** 2 for one in by_query) / (n - 1),
        left / ((seeds - 1) * (n - 1)),
    )


@pytest.mark.parametrize(("seeds_a", "seeds_b"), [(4, 4), (3, 6)])
def test_error_is_that_of_the_mean_squares(seeds_a: int, seeds_b: int) -> None:
    rng = np.random.default_rng(8)
    a, _ = simulated(rng, seeds=seeds_a, n=60, between_seeds=0.03, between_queries=0.2)
    b, _ = simulated(rng, seeds=seeds_b, n=60, between_seeds=0.03, between_queries=0.2)
    found = compare_seeds(a, b)
    (seed_a, _, left_a), (seed_b, _, left_b) = (mean_squares(one.tolist()) for one in (a, b))
    scale = [60 * seeds_a, 60 * seeds_b]
    queries = (a.mean(0) - b.mean(0)).var(ddof=1) / 60
    parts = [
        (queries, 59),
        (seed_a / scale[0], seeds_a - 1),
        (seed_b / scale[1], seeds_b - 1),
        (-left_a / scale[0], (seeds_a - 1) * 59),
        (-left_b / scale[1], (seeds_b - 1) * 59),
    ]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / df for part, df in parts)
    t = (a.mean() - b.mean()) / math.sqrt(variance)
    assert found.p == pytest.approx(2 * scipy.stats.t.sf(abs(t), freedom))
    reach = scipy.stats.t.ppf(0.975, freedom) * math.sqrt(variance)
    assert found.difference.half_width == pytest.approx(reach)
    assert found.difference.estimate == pytest.approx(a.mean() - b.mean())
    assert found.seed_share == pytest.approx((seed_a / scale[0] + seed_b / scale[1]) / variance)
    assert (found.difference.resamples, found.difference.seed) == (0, None)


def test_seeds_that_tie_do_not_make_a_difference_certain() -> None:
    """Hits that move from query to query leave the means of seeds equal: queries vary still."""
    a = np.tile(np.eye(5), (1, 6))[:3]
    b = 1 - a
    found = compare_seeds(a, b)
    assert 0 < found.difference.half_width < 1
    assert found.p < 0.05
    shuffled = np.stack([np.roll(a[0], step) for step in (0, 2, 4)])
    none = compare_seeds(a, shuffled)
    assert none.p == 1
    assert none.difference.half_width > 0


def test_summaries_are_mean_and_spread_over_seeds() -> None:
    rng = np.random.default_rng(9)
    a, b = rng.random((3, 50)), rng.random((5, 50))
    found = compare_seeds(a, b)
    assert (found.a.mean, found.a.sd) == pytest.approx((a.mean(), a.mean(1).std(ddof=1)))
    expected = scipy.stats.ttest_1samp(b.mean(1), 0).confidence_interval()
    assert (found.b.interval.low, found.b.interval.high) == pytest.approx(tuple(expected))
    welch = scipy.stats.ttest_ind(a.mean(1), b.mean(1), equal_var=False)
    assert found.over_seeds.p == pytest.approx(welch.pvalue)
    assert found.b.n_seeds == 5


def test_too_few_and_nan() -> None:
    rng = np.random.default_rng(10)
    few = compare_seeds(rng.random((2, 50)), rng.random((3, 50)))
    assert math.isnan(few.p)
    assert "too few seeds (2)" in few.difference.note
    assert "too few queries" in compare_seeds(np.ones((3, 2)), np.ones((3, 2))).difference.note
    a, b = rng.random((3, 50)), rng.random((3, 50))
    holed = a.copy()
    holed[1, 7] = math.nan
    found = compare_seeds(holed, b)
    whole = compare_seeds(np.delete(a, 7, axis=1), np.delete(b, 7, axis=1))
    assert (found.difference.n_removed, found.p) == (1, whole.p)
    with pytest.raises(MismatchError, match="49"):
        compare_seeds(a, b[:, :49])


def test_identical_seeds_of_identical_systems() -> None:
    table = np.tile(np.random.default_rng(1).random(30), (3, 1))
    found = compare_seeds(table, table)
    assert found.p == 1
    assert found.difference.estimate == 0


def test_seeds_that_do_not_vary_at_all() -> None:
    flat = compare_seeds(np.full((3, 9), 0.5), np.full((4, 9), 0.25))
    assert (flat.difference.low, flat.difference.high) == (0.25, 0.25)
    assert flat.difference.note == "neither seeds nor queries vary"
    assert math.isnan(flat.p)
    assert math.isnan(flat.seed_share)
    for value in (0.5, 0.1):  # the means of three and of four tenths differ by rounding
        assert compare_seeds(np.full((3, 9), value), np.full((4, 9), value)).p == 1


def test_seeds_in_one_line() -> None:
    rng = np.random.default_rng(11)
    a, b = rng.random((3, 9)), rng.random((3, 9))
    found = compare_seeds(a, b)
    assert repr(found.a) == f"SeedSummary({a.mean():.4f} ± {a.mean(1).std(ddof=1):.4f}, 3 seeds)"
    end = f"p={found.p:.4g}, {100 * found.seed_share:.0f} % from seeds)"
    assert repr(found).startswith(f"SeedComparison(a {found.a!r}, b {found.b!r}, Interval(")
    assert repr(found).endswith(end)
    assert repr(compare_seeds(a[:1], b)).endswith("at least 3 are needed), no p)")
    assert math.isnan(compare_seeds(a[:1], b).a.sd)
    assert compare_seeds(a[:2], b).a.sd == pytest.approx(a[:2].mean(1).std(ddof=1))
