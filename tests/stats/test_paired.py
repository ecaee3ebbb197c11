"""Paired and unpaired tests against scipy, statsmodels and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.descriptivestats import sign_test
from statsmodels.stats.weightstats import ttost_paired

from assay.errors import MismatchError, UsageError
from assay.stats import equivalent, interval, non_inferior, paired_test, welch_test
from assay.stats.tests import ALTERNATIVES, TEST_METHODS
from tests.examples import examples

RNG = np.random.default_rng(11)
A = RNG.beta(1, 2, 40)
B = np.clip(A + RNG.normal(-0.03, 0.1, 40), 0, 1)
TENTHS_A, TENTHS_B = RNG.integers(0, 11, 40) / 10, RNG.integers(0, 10, 40) / 10


def all_signs(differences: np.ndarray, alternative: str) -> float:
    """The share of sign choices as extreme as the data, one by one."""
    observed, extreme = math.fsum(differences), 0
    for signs in itertools.product((1, -1), repeat=len(differences)):
        total = math.fsum(s * d for s, d in zip(signs, differences, strict=True))
        if alternative == "two-sided":
            extreme += abs(total) >= abs(observed) - 1e-12
        elif alternative == "greater":
            extreme += total >= observed - 1e-12
        else:
            extreme += total <= observed + 1e-12
    return extreme / 2 ** len(differences)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [3, 6, 12])
@pytest.mark.parametrize("tenths", [False, True])
def test_exact_randomisation_tries_every_sign(n: int, alternative: str, tenths: bool) -> None:
    a, b = (TENTHS_A[:n], TENTHS_B[:n]) if tenths else (A[:n], B[:n])
    found = paired_test(a, b, alternative=alternative)
    assert found.exact
    assert (found.resamples, found.seed) == (0, None)
    assert found.p == pytest.approx(all_signs(a - b, alternative), rel=1e-12)


def test_exact_randomisation_is_scipys() -> None:
    theirs = scipy.stats.permutation_test(
        (A[:12], B[:12]),
        lambda x, y: np.mean(x - y),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    assert paired_test(A[:12], B[:12]).p == pytest.approx(theirs.pvalue, rel=1e-12)


def test_queries_without_a_difference_leave_it_exact() -> None:
    a, b = np.concatenate([A[:12], np.full(300, 0.5)]), np.concatenate([B[:12], np.full(300, 0.5)])
    found = paired_test(a, b)
    assert found.exact
    assert found.p == paired_test(A[:12], B[:12]).p
    assert found.n == 312


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_random_signs_come_near_the_exact_p(alternative: str) -> None:
    a, b = A[:21], B[:21]
    sums = np.zeros(1)
    for d in a - b:
        sums = np.concatenate([sums + d, sums - d])
    t = (a - b).sum()
    side = {"two-sided": np.abs(sums) >= abs(t), "greater": sums >= t, "less": sums <= t}
    exact = side[alternative].mean()
    found = paired_test(a, b, alternative=alternative, resamples=40_000)
    assert not found.exact
    assert found.p == pytest.approx(exact, abs=5 * math.sqrt(exact * (1 - exact) / 40_000))
    assert (found.p * 40_001) == pytest.approx(round(found.p * 40_001), abs=1e-6)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_t_is_scipys(alternative: str) -> None:
    theirs = scipy.stats.ttest_rel(A, B, alternative=alternative)
    found = paired_test(A, B, method="t", alternative=alternative)
    assert (found.p, found.statistic) == pytest.approx((theirs.pvalue, theirs.statistic), rel=1e-11)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [5, 20, 40])
def test_wilcoxon_is_scipys_exact(n: int, alternative: str) -> None:
    theirs = scipy.stats.wilcoxon(A[:n], B[:n], alternative=alternative, method="exact")
    found = paired_test(A[:n], B[:n], method="wilcoxon", alternative=alternative)
    assert found.exact
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("tenths", [False, True])
def test_wilcoxon_of_many_is_scipys_normal(alternative: str, tenths: bool) -> None:
    a, b = RNG.random(200), RNG.random(200) * 0.9
    if tenths:  # in quarters, so that scipy meets the same ties that there are
        a, b = np.round(a * 4) / 4, np.round(b * 4) / 4
    theirs = scipy.stats.wilcoxon(a, b, alternative=alternative, method="approx")
    found = paired_test(a, b, method="wilcoxon", alternative=alternative)
    assert not found.exact
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-10)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_wilcoxon_with_ties_counts_every_sign(alternative: str) -> None:
    a, b = TENTHS_A[:12], TENTHS_B[:12]
    d = np.round(a - b, 6)
    d = d[d != 0]
    ranks = scipy.stats.rankdata(np.abs(d))
    p = paired_test(a, b, method="wilcoxon", alternative=alternative).p
    w = ranks[d > 0].sum()
    sums = [
        sum(r for r, s in zip(ranks, signs, strict=True) if s)
        for signs in itertools.product((0, 1), repeat=len(d))
    ]
    below, above = np.mean(np.array(sums) <= w), np.mean(np.array(sums) >= w)
    expected = {"two-sided": min(1, 2 * min(below, above)), "greater": above, "less": below}
    assert p == pytest.approx(expected[alternative], rel=1e-12)


def test_sign_is_scipys_and_statsmodels() -> None:
    for a, b in ((A, B), (TENTHS_A, TENTHS_B)):
        found = paired_test(a, b, method="sign")
        assert found.p == pytest.approx(sign_test(np.round(a - b, 6))[1], rel=1e-12)
    wins = int((A > B).sum())
    for side in ALTERNATIVES:
        expected = scipy.stats.binomtest(wins, 40, alternative=side).pvalue
        p = paired_test(A, B, method="sign", alternative=side).p
        assert p == pytest.approx(expected, rel=1e-12)


def test_bootstrap_comes_near_t_on_normal_data() -> None:
    a, b = RNG.normal(size=500), RNG.normal(0.1, 1, 500)
    t = paired_test(a, b, method="t")
    found = paired_test(a, b, method="bootstrap", resamples=20_000)
    assert found.statistic == pytest.approx(t.statistic, rel=1e-12)
    assert found.p == pytest.approx(t.p, abs=0.02)


def test_welch_is_scipys() -> None:
    for side in ALTERNATIVES:
        theirs = scipy.stats.ttest_ind(A[:7], B[:25], equal_var=False, alternative=side)
        found = welch_test(A[:7], B[:25], alternative=side)
        assert (found.p, found.statistic) == pytest.approx(
            (theirs.pvalue, theirs.statistic), rel=1e-11
        )


def test_equivalence_is_statsmodels() -> None:
    for margin in (0.01, 0.05, 0.1):
        expected = ttost_paired(A, B, -margin, margin)[0]
        found = equivalent(A, B, margin, method="t")
        assert found.p == pytest.approx(expected, rel=1e-11)
        assert found.alternative == "equivalent"


def test_non_inferiority_is_a_shifted_test() -> None:
    expected = scipy.stats.ttest_1samp(A - B, -0.05, alternative="greater").pvalue
    assert non_inferior(A, B, 0.05, method="t").p == pytest.approx(expected, rel=1e-11)
    for method in TEST_METHODS:
        small, large = (non_inferior(A - 0.05, A, m, method=method).p for m in (0.001, 0.2))
        assert small > 0.9 or math.isnan(small)
        assert large < 0.01 or math.isnan(large)


def test_identical_systems_are_equivalent_if_there_are_enough_queries() -> None:
    assert equivalent(A, A, 0.01).p < 0.001
    assert non_inferior(A, A, 0.01).p < 0.001
    assert equivalent(A[:4], A[:4], 0.01).p == 1 / 16


@pytest.mark.parametrize("method", TEST_METHODS)
def test_sides_mirror_each_other(method: str) -> None:
    forth = paired_test(A, B, method=method, alternative="greater", resamples=5000)
    back = paired_test(B, A, method=method, alternative="less", resamples=5000)
    near = 0.03 if method in ("randomisation", "bootstrap") else 1e-12
    assert forth.p == pytest.approx(back.p, abs=near)


@pytest.mark.parametrize("method", TEST_METHODS)
def test_a_clear_difference_is_found_by_all(method: str) -> None:
    assert paired_test(A + 0.2 + RNG.random(40) / 100, A, method=method).p < 0.001


def test_rounding_makes_no_difference() -> None:
    a, b = np.array([0.1 + 0.2] * 30), np.array([0.3] * 30)
    for method in TEST_METHODS:
        found = paired_test(a, b, method=method)
        assert (found.p, found.statistic, found.exact) == (1, 0, True)
        few = paired_test(a[:2], b[:2], method=method)
        assert (found.resamples, found.seed) == (few.resamples, few.seed) == (0, None)
    # Sums of tenths tie in truth, though not in floating point.
    d = np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.3])
    assert paired_test(d, np.zeros(6)).p == all_signs(np.array([1, 2, 3, 1, 2, 3.0]), "two-sided")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: paired_test(A, B, method="z"), UsageError, "one of randomisation"),
        (lambda: paired_test(A, B, alternative="better"), UsageError, "two-sided"),
        (lambda: paired_test(A, B[:5]), MismatchError, "b has 5"),
        (lambda: paired_test(A, B, resamples=0), UsageError, "resamples"),
        (lambda: non_inferior(A, B, 0), UsageError, "above 0"),
        (lambda: non_inferior(A, B, -0.1), UsageError, "above 0"),
        (lambda: equivalent(A, B, math.nan), UsageError, "above 0"),
        (lambda: equivalent(A, B, "0.1"), UsageError, "number"),
    ],
)
def test_nonsense_is_refused(call: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()  # type: ignore[operator]


@examples(60)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=30))
def test_p_lies_between_0_and_1(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    for method in TEST_METHODS:
        for alternative in ALTERNATIVES:
            p = paired_test(a, b, method=method, alternative=alternative, resamples=100).p
            assert 0 < p <= 1 or math.isnan(p)


def test_welch_of_constant_samples_speaks_of_samples() -> None:
    note = welch_test([0.1] * 3, [0.2] * 3).note
    assert note == "both samples are constant, so Welch's test is not defined"


def test_only_counted_p_values_are_exact() -> None:
    many, zeros = RNG.normal(0.3, 1, 60), np.zeros(60)
    for method in TEST_METHODS:
        assert paired_test(many, zeros, method=method).exact == (method == "sign")
        few = paired_test(many[:20], zeros[:20], method=method)
        assert few.exact == (method in ("randomisation", "wilcoxon", "sign"))
        assert (few.seed is None) == (few.resamples == 0) == (method != "bootstrap")
    assert paired_test(many[:50], zeros[:50], method="wilcoxon").exact
    assert not paired_test(many[:51], zeros[:51], method="wilcoxon").exact
    assert not paired_test(many[:21], zeros[:21]).exact
    assert not welch_test(many, zeros).exact


def test_statistics_are_what_they_are_said_to_be() -> None:
    d = np.array([0.5, -0.1, 0.3, 0.2, -0.4, 0.0])
    found = {name: paired_test(d, np.zeros(6), method=name).statistic for name in TEST_METHODS}
    t = d.mean() / (d.std(ddof=1) / math.sqrt(6))
    assert found == pytest.approx(
        {"randomisation": d.mean(), "t": t, "bootstrap": t, "wilcoxon": 5 + 3 + 2, "sign": 3}
    )


def test_results_in_one_line() -> None:
    a, b = [0.3, 0.5, 0.6, math.nan], [0.1, 0.4, 0.3, 0.5]
    assert repr(paired_test(a, b)) == (
        "TestResult(p=0.25, randomisation, two-sided, n=3, 1 removed, exact)"
    )
    assert repr(paired_test([1, 2], [2, 2], method="t")) == (
        "TestResult(no p, t, two-sided, n=2; too few queries (2): at least 3 are needed)"
    )
    drawn = paired_test(A, B, resamples=50, alternative="less")
    assert repr(drawn) == f"TestResult(p={drawn.p:.4g}, randomisation, less, n=40, 50 resamples)"


def test_what_a_t_test_cannot_say() -> None:
    for method in ("t", "bootstrap"):
        found = paired_test(A[:9] + 0.25, A[:9], method=method)
        assert math.isnan(found.p)
        assert "all differences are equal" in found.note
    same = welch_test([0.1] * 3, [0.1] * 4)  # whose means differ by rounding
    assert (same.p, same.n, same.note) == (1, 7, "")
    few = welch_test([0.1, 0.2, math.nan], [0.1, 0.2, 0.3])
    assert (few.n, few.n_removed) == (5, 1)
    assert few.note == "too few values on one side (2): at least 3 are needed"


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_bootstrap_counts_resamples_as_extreme_as_the_data(alternative: str) -> None:
    d = np.array([0.4, -0.1, 0.3, 0.2, 0.1])
    t = d.mean() / (d.std(ddof=1) / math.sqrt(5))
    counts = {"two-sided": 0, "greater": 0, "less": 0}
    with np.errstate(divide="ignore", invalid="ignore"):
        for drawn in itertools.product(d - d.mean(), repeat=5):
            one = np.divide(np.mean(drawn), np.std(drawn, ddof=1) / math.sqrt(5))
            counts["two-sided"] += abs(one) >= abs(t)
            counts["greater"] += one >= t
            counts["less"] += one <= t
    found = paired_test(d, np.zeros(5), method="bootstrap", alternative=alternative)
    assert found.p == pytest.approx(counts[alternative] / 5**5, abs=0.02)
    certain = paired_test(np.arange(1.0, 4) + 99, np.zeros(3), method="bootstrap", resamples=9999)
    assert certain.p >= 1 / 9  # 3 of 27 resamples are of one query alone


def test_american_spellings_are_understood() -> None:
    a, b = [0.3, 0.5, 0.6, 0.9], [0.1, 0.4, 0.3, 0.5]
    assert paired_test(a, b, method="randomization") == paired_test(a, b)
    both = [interval(range(20), method=name) for name in ("studentized", "studentised")]
    assert both[0] == both[1]
