"""Seeds and queries as two sources of variation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from assay.errors import MismatchError
from assay.stats import compare_seeds


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
    ("between_seeds", "between_queries"), [(0.0, 0.3), (0.05, 0.0), (0.02, 0.3)]
)
@pytest.mark.parametrize("seeds", [3, 5])
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


def test_error_is_the_sum_of_its_parts() -> None:
    rng = np.random.default_rng(8)
    a, b = simulated(rng, seeds=4, n=150, between_seeds=0.03, between_queries=0.2)
    found = compare_seeds(a, b)
    parts = (a.mean(0) - b.mean(0), a.mean(1), b.mean(1))
    error = math.sqrt(sum(part.var(ddof=1) / len(part) for part in parts))
    assert found.difference.half_width == pytest.approx(2.0 * error, rel=0.25)
    assert found.difference.estimate == pytest.approx(a.mean() - b.mean())
    assert 0 < found.seed_share < 1


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
    assert "too few seeds: 2" in few.difference.note
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
