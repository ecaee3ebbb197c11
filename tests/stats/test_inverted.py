"""Intervals from tests: every difference inside is not rejected, every one outside is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from assay.stats import inverted_interval, paired_test
from assay.stats.bounded import sparse_ends
from assay.stats.confidence import pseudo_values, settle, standard_error
from assay.stats.confidence import test_units as paired_by_units
from assay.stats.samples import units_of

RNG = np.random.default_rng(3)
KINDS = {
    "any": lambda n: RNG.normal(0.2, 1, n),
    "ties": lambda n: np.round(RNG.normal(0.1, 0.4, n), 1),
    "wins and losses": lambda n: RNG.integers(-1, 2, n).astype(float),
    "rare": lambda n: np.where(RNG.random(n) < 0.3, 1.0, 0.0),
}


@pytest.mark.parametrize("method", ["randomisation", "t", "bootstrap"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [6, 9, 12, 40])
def test_what_the_test_does_not_reject(method: str, kind: str, n: int) -> None:
    differences = KINDS[kind](n)
    if not np.ptp(differences):
        differences[0] += 1.0
    nothing = np.zeros(n)
    test = paired_test(differences, nothing, method=method, resamples=2000)
    found = inverted_interval(differences, nothing, test, level=0.1, separate=bool(test.p <= 0.1))
    if method == "bootstrap" and not rejects(differences - 1e6, method):
        student = paired_test(differences, nothing, method="t")
        ends = inverted_interval(differences, nothing, student, level=0.1, separate=False)
        assert (found.low, found.high) == (ends.low, ends.high)  # no difference is rejected
        return
    few = sparse_ends(differences, 0.9, float(np.ptp(differences))) is not None
    width = found.high - found.low
    # Drawn signs differ from shift to shift only where queries without a difference come in.
    slack = 0.05 * width if n > 20 else 1e-9
    for shift, inside in [
        (found.low + slack, True),
        (found.high - slack, True),
        (found.low - slack, False),
        (found.high + slack, False),
    ]:
        if not (few and inside):  # of few that differ the interval is wider than the test
            assert rejects(differences - shift, method) != inside, (shift, found)


def test_where_resamples_have_no_spread_students_t_stands_in() -> None:
    differences = np.array([0.1, 0.2, 0.4])  # a ninth of the resamples are of one value
    test = paired_test(differences, np.zeros(3), method="bootstrap", resamples=2000)
    found = inverted_interval(differences, np.zeros(3), test, level=0.1, separate=False)
    student = scipy.stats.ttest_1samp(differences, 0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((min(student.low, 0.0), student.high))


def rejects(differences: np.ndarray, method: str) -> bool:
    """Whether the test rejects at 10 %."""
    nothing = np.zeros(len(differences))
    return bool(paired_test(differences, nothing, method=method, resamples=2000).p <= 0.1)


@pytest.mark.parametrize("method", ["randomisation", "t", "bootstrap"])
def test_groups(method: str) -> None:
    clusters = np.sort(RNG.integers(0, 14, 60))
    differences = RNG.normal(0.1, 1, 60)
    nothing = np.zeros(60)
    test = paired_by_units(differences, nothing, clusters, method=method, resamples=2000)
    found = inverted_interval(
        differences, nothing, test, level=0.1, separate=bool(test.p <= 0.1), clusters=clusters
    )
    for shift, inside in [
        (found.low + 1e-9, True),
        (found.high - 1e-9, True),
        (found.low - 1e-9, False),
        (found.high + 1e-9, False),
    ]:
        moved = paired_by_units(
            differences - shift, nothing, clusters, method=method, resamples=2000
        )
        assert (moved.p > 0.1) == inside


def test_pseudo_values_have_the_mean_and_the_error_of_groups() -> None:
    a, b = RNG.random(40), RNG.random(40)
    a[3] = math.nan
    d, known = a - b, ~np.isnan(a)
    assert pseudo_values(a, b, np.arange(40)) == pytest.approx(d[known], abs=1e-15)
    clusters = RNG.integers(0, 9, 40)
    spread = pseudo_values(a, b, clusters)
    error = standard_error(units_of(d[known], clusters[known]))
    assert len(spread) == 9
    assert spread.mean() == pytest.approx(d[known].mean(), rel=1e-12)
    assert spread.std(ddof=1) / 3 == pytest.approx(error, rel=1e-12)
    sums = np.bincount(clusters[known], d[known] - d[known].mean())
    assert np.corrcoef(spread, sums)[0, 1] == pytest.approx(1)  # a good group stays a good one
    same = pseudo_values(b + 0.25, b, clusters)
    assert same == pytest.approx(np.full(9, 0.25), abs=1e-12)
    assert pseudo_values(a, b, np.zeros(40)) == pytest.approx([d[known].mean()])


def test_the_end_next_to_0_follows_the_decision() -> None:
    assert settle(0.5, -0.1, 1.0, separate=True) == (5e-13, 1.0)
    assert settle(-0.5, -1.0, 0.1, separate=True) == (-1.0, -5e-13)
    assert settle(0.5, 0.2, 1.0, separate=True) == (0.2, 1.0)
    assert settle(-0.5, -1.0, -0.2, separate=True) == (-1.0, -0.2)
    assert settle(0.5, 0.1, 1.0, separate=False) == (0.0, 1.0)
    assert settle(-0.5, -1.0, -0.1, separate=False) == (-1.0, 0.0)
    assert math.isnan(settle(0.5, math.nan, math.nan, separate=False)[0])


def test_equal_differences_have_some_width() -> None:
    scores = np.linspace(0.1, 0.6, 12)
    for a in (np.full(12, 0.75), scores + 0.3):  # equal but for rounding, too
        b = a - 0.3
        test = paired_test(a, b)
        found = inverted_interval(a, b, test, level=0.05, separate=True)
        assert 0 < found.low < 0.29
        assert found.high > 0.31
        assert "no variation" in found.note
        assert (found.resamples, found.seed) == (0, None)


def test_differences_of_few_queries_are_covered() -> None:
    rng = np.random.default_rng(8)
    n, held = 10, 0
    for _ in range(300):
        tied = rng.integers(0, 2, n)
        draw = rng.random(n)
        a = np.where(draw < 0.1, 1, np.where(draw < 0.15, 0, tied)).astype(float)
        b = np.where(draw < 0.1, 0, np.where(draw < 0.15, 1, tied)).astype(float)
        test = paired_test(a, b)
        found = inverted_interval(a, b, test, level=0.05, separate=test.p <= 0.05)
        held += found.low <= 0.05 <= found.high
    assert held >= 0.94 * 300


def test_one_loss_may_hide_as_many_wins() -> None:
    a, b = np.repeat([0.0, 1.0], 10), np.repeat([0.0, 1.0], 10)
    b[0] = 1.0
    test = paired_test(a, b)
    found = inverted_interval(a, b, test, level=0.05, separate=False)
    assert found.low < -0.05 < 0.02 < found.high


@pytest.mark.parametrize(("won", "lost"), [(0.02, 0.0), (0.05, 0.01)])
def test_rare_wins_of_many_queries_are_covered(won: float, lost: float) -> None:
    n, most = 200, 26
    held = seen = 0.0
    for wins in range(most):
        for losses in range(most if lost else 1):
            chance = multinomial(n, (wins, losses), (won, lost))
            if chance > 2e-4:
                seen += chance
                low, high = ends_of(n, wins, losses)
                held += chance * (low <= won - lost <= high)
    assert seen > 0.98
    assert held / seen >= 0.94


def multinomial(n: int, counts: tuple[int, int], shares: tuple[float, float]) -> float:
    rest, left = n - sum(counts), 1 - sum(shares)
    ways = math.comb(n, counts[0]) * math.comb(n - counts[0], counts[1])
    return ways * shares[0] ** counts[0] * shares[1] ** counts[1] * left**rest


def ends_of(n: int, wins: int, losses: int) -> tuple[float, float]:
    a, b = np.zeros(n), np.zeros(n)
    a[:wins], b[wins : wins + losses] = 1.0, 1.0
    test = paired_test(a, b, resamples=500)
    separate = bool(test.p <= 0.05)
    found = inverted_interval(a, b, test, level=0.05, separate=separate, bounds=(0, 1))
    return found.low, found.high
