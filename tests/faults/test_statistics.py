"""Items 55 to 60: what statistics must do when there is little, nothing or too much to compare."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest

from assay import stats
from assay.stats.tests import ALTERNATIVES, TEST_METHODS

RNG = np.random.default_rng(55)
A, B = RNG.random(100), RNG.random(100)


@pytest.mark.parametrize("method", TEST_METHODS)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [3, 20, 21, 100])
def test_identical_systems(engine: str, method: str, alternative: str, n: int) -> None:
    found = stats.paired_test(A[:n], A[:n], method=method, alternative=alternative)
    assert found.p == 1
    assert found.exact


def test_identical_systems_everywhere_else(engine: str) -> None:
    assert stats.welch_test([0.5] * 4, [0.5] * 4).p == 1
    assert (stats.tukey_hsd(np.stack([A, A, A])).p == 1).all()
    assert math.isnan(stats.effect(A, A).standardised)
    assert stats.effect(A, A).superiority == 0.5
    assert {each.rank for each in stats.rank_intervals(np.stack([A, A, A]))} == {2}
    found = stats.difference_interval(A, A)
    assert found.estimate == 0
    assert 0 < found.high == -found.low < 0.2  # what was not seen may differ
    assert stats.compare_seeds(np.stack([A, A, A]), np.stack([A, A, A])).p == 1
    assert stats.minimum_detectable_difference(A - A) == 0
    assert stats.queries_needed(A - A, difference=0.1) == 3


@pytest.mark.parametrize("method", TEST_METHODS)
def test_a_difference_without_spread_is_not_infinitely_sure(method: str) -> None:
    found = stats.paired_test(A + 0.25, A, method=method)
    if method in ("t", "bootstrap"):
        assert math.isnan(found.p)
        assert "all differences are equal" in found.note
    else:
        assert 0 < found.p < 0.01


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_queries(engine: str, n: int) -> None:
    a, b = A[:n], B[:n]
    found = [stats.paired_test(a, b, method=method) for method in TEST_METHODS]
    found += [stats.non_inferior(a, b, 0.1), stats.equivalent(a, b, 0.1), stats.welch_test(a, b)]
    for each in found:
        assert math.isnan(each.p)
        assert "too few" in each.note
        assert "too few" in repr(each)
    for method in stats.INTERVAL_METHODS:
        made = stats.interval(np.round(a), method=method)
        assert math.isnan(made.low)
        assert math.isnan(made.high)
        assert "too few" in made.note
    assert math.isnan(stats.difference_interval(a, b).low)
    assert np.isnan(stats.tukey_hsd(np.stack([a, b])).p).all()
    assert all(math.isnan(each.low) for each in stats.rank_intervals(np.stack([a, b])))
    assert math.isnan(stats.minimum_detectable_difference(a - b))
    assert stats.queries_needed(a - b, difference=0.1) is None


def test_too_few_clusters_or_units_in_a_stratum() -> None:
    halves = np.repeat(["x", "y"], 50)
    assert "too few clusters (2)" in stats.interval(A, clusters=halves).note
    lonely = np.array(["x"] * 99 + ["y"])
    assert "too few units in a stratum" in stats.interval(A, strata=lonely).note


@pytest.mark.parametrize("method", TEST_METHODS)
def test_p_is_never_zero(engine: str, method: str) -> None:
    better = A[:, None] * 0 + np.linspace(0.5, 0.6, 100)[:, None]
    n = 5000
    a = np.tile(better.ravel(), n // 100) + RNG.random(n) * 1e-3
    for alternative in ("two-sided", "greater"):
        p = stats.paired_test(a, np.zeros(n), method=method, alternative=alternative).p
        assert 0 < p < 1e-3


def test_p_is_never_zero_elsewhere(engine: str) -> None:
    apart = np.stack([A, A + 1 + B / 100, A + 2])
    assert (stats.tukey_hsd(apart).p > 0).all()
    seeds = RNG.random((3, 100)) * 1e-6
    assert stats.compare_seeds(seeds, seeds + 1).p > 0
    assert stats.welch_test(RNG.random(2000) * 1e-9, 1 + RNG.random(2000) * 1e-9).p > 0
    assert (stats.adjust([1e-308, 0.5]) > 0).all()


REPORT = """
import numpy as np
from assay import stats
rng = np.random.default_rng(1)
a, b = rng.random(333), rng.random(333)
seeds = rng.random((3, 333)), rng.random((3, 333))
groups = np.arange(333) // 3
for method in ("bca", "percentile", "studentised"):
    r = stats.interval(a, method=method, seed=5, resamples=3000); print(r.low.hex(), r.high.hex())
r = stats.interval(a, clusters=groups, seed=5, resamples=3000); print(r.low.hex(), r.high.hex())
for method in ("randomisation", "bootstrap"):
    print(stats.paired_test(a, b, method=method, seed=5, resamples=3000).p.hex())
print(stats.tukey_hsd(np.stack([a, b, a * b, b * b]), seed=5, resamples=500).p.tobytes().hex())
print(stats.rank_intervals(np.stack([a, b, a * b]), seed=5, resamples=500))
r = stats.compare_seeds(*seeds, resamples=500, seed=5); print(r.difference.low.hex(), r.p.hex())
"""


def run_report(*prefix: str, **environment: str) -> str:
    done = subprocess.run(
        [*prefix, sys.executable, "-c", REPORT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_same_bytes_from_every_engine() -> None:
    """Thread counts and block sizes are varied in tests/stats/test_kernels.py."""
    assert run_report(ASSAY_NATIVE="1") == run_report(ASSAY_NATIVE="0") != ""


def test_the_seed_is_recorded_and_matters() -> None:
    one, two = (stats.interval(A, seed=seed) for seed in (1, 2))
    assert (one.seed, two.seed) == (1, 2)
    assert one.low != two.low
    assert one == stats.interval(A, seed=1)
    tests = [stats.paired_test(A, A * 0.9 + B / 20, seed=seed) for seed in (1, 1, 2)]
    assert tests[0] == tests[1] != tests[2]


def test_nan_pairs_are_removed_and_counted(engine: str) -> None:
    a, b = A.copy(), B.copy()
    a[[3, 50]], b[[50, 70]] = math.nan, math.nan
    kept = np.delete(np.arange(100), [3, 50, 70])
    for method in TEST_METHODS:
        found = stats.paired_test(a, b, method=method)
        assert (found.n, found.n_removed) == (97, 3)
        assert found.p == stats.paired_test(A[kept], B[kept], method=method).p
    found = stats.difference_interval(a, b, clusters=np.arange(100) // 2)
    alone = stats.difference_interval(A[kept], B[kept], clusters=kept // 2)
    assert (found.low, found.high, found.n_removed) == (alone.low, alone.high, 3)
    assert stats.interval(a).n_removed == 2
    assert "3 removed" in repr(stats.paired_test(a, b))
    assert stats.tukey_hsd(np.stack([a, b])).n_removed == 3
    assert stats.rank_intervals(np.stack([a, b]))[0].n_removed == 3
    assert stats.effect(a, b).n_removed == 3


def test_nothing_but_nan() -> None:
    nothing = [math.nan] * 10
    assert "too few queries (0)" in stats.paired_test(nothing, A[:10]).note
    assert stats.interval(nothing).n_removed == 10


def test_a_hundred_systems(engine: str) -> None:
    systems = 100
    table = np.arange(systems)[:, None] + RNG.random((systems, 40)) / 10
    result = stats.tukey_hsd(table, resamples=200)
    shown = stats.compact_letters((result.p < 0.05) & ~np.eye(systems, dtype=bool))
    assert len(shown) == systems
    assert all(shown)
    apart = stats.compact_letters(~np.eye(systems, dtype=bool))
    assert len(set(apart)) == systems
    assert [each.rank for each in stats.rank_intervals(table, resamples=100)] == [
        *range(100, 0, -1)
    ]
