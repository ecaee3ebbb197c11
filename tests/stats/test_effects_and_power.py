"""Effect sizes, power and ranks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.power import TTestPower

from assay.errors import UsageError
from assay.stats import (
    effect,
    effects,
    minimum_detectable_difference,
    queries_needed,
    rank_intervals,
)
from assay.stats.effects import detectable_sizes
from tests.examples import some_of

RNG = np.random.default_rng(2)
DIFFERENCES = RNG.normal(0.02, 0.1, 60)


def test_effect_counts_and_measures() -> None:
    a, b = RNG.integers(0, 11, 50) / 10, RNG.integers(0, 11, 50) / 10
    d = np.round(a - b, 6)
    found = effect(a, b)
    counts = ((d > 0).sum(), (d == 0).sum(), (d < 0).sum())
    assert (found.wins, found.ties, found.losses) == counts
    assert found.n == 50
    assert found.mean_difference == pytest.approx(d.mean())
    assert found.standardised == pytest.approx(d.mean() / d.std(ddof=1))
    assert found.superiority == pytest.approx(((d > 0) + (d == 0) / 2).mean())


def test_effect_of_little() -> None:
    assert math.isnan(effect([], []).mean_difference)
    assert math.isnan(effect([1, 2, 3], [1, 2, 3]).standardised)
    assert math.isnan(effect([1], [0]).standardised)
    assert math.isnan(effect([1] * 9, [1 / 6, 1 / 6 + 2e-16] * 4 + [1 / 6]).standardised)
    assert effect([1, math.nan, 2], [0, 1, math.nan]).n_removed == 2


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("level", [0.01, 0.05])
def test_minimum_detectable_difference_is_statsmodels(power: float, level: float) -> None:
    size = TTestPower().solve_power(nobs=60, alpha=level, power=power)
    found = minimum_detectable_difference(DIFFERENCES, power=power, level=level)
    assert found == pytest.approx(size * DIFFERENCES.std(ddof=1), rel=1e-6)
    exact = TTestPower().power(found / DIFFERENCES.std(ddof=1), 60, level)
    assert exact == pytest.approx(power, abs=1e-10)


@pytest.mark.parametrize("difference", [0.003, 0.02, 0.1, 1.0])
def test_queries_needed_are_statsmodels(difference: float) -> None:
    n = queries_needed(DIFFERENCES, difference=difference)
    assert n is not None
    size = difference / DIFFERENCES.std(ddof=1)
    assert TTestPower().power(size, n, 0.05) >= 0.8
    if n > 3:
        assert TTestPower().power(size, n - 1, 0.05) < 0.8


def test_power_and_number_agree() -> None:
    smallest = minimum_detectable_difference(DIFFERENCES)
    assert queries_needed(DIFFERENCES, difference=smallest * 1.0001) == 60
    assert queries_needed(-DIFFERENCES, difference=smallest * 1.0001) == 60


def test_power_of_little() -> None:
    assert math.isnan(minimum_detectable_difference([0.1, 0.2]))
    assert queries_needed([0.1, 0.2], difference=0.1) is None
    assert minimum_detectable_difference([0.0] * 5) == 0
    assert queries_needed([0.1] * 5, difference=0.1) == 3
    with pytest.raises(TypeError, match="difference"):
        queries_needed(DIFFERENCES)  # never that of the sample
    with pytest.raises(UsageError, match="difference must be a number above 0"):
        queries_needed(DIFFERENCES, difference=-0.1)
    with pytest.raises(UsageError, match="power"):
        minimum_detectable_difference([0.1] * 5, power=80)


def test_power_at_its_limits() -> None:
    assert minimum_detectable_difference(DIFFERENCES, power=0.04, level=0.05) == 0
    assert minimum_detectable_difference(DIFFERENCES, power=0.06, level=0.05) > 0
    assert queries_needed(DIFFERENCES, difference=1e-9) is None
    many = queries_needed(DIFFERENCES, difference=1e-5)
    exact = (scipy.stats.norm.isf(0.025) + scipy.stats.norm.isf(0.2)) ** 2
    assert many == pytest.approx(exact * DIFFERENCES.var(ddof=1) * 1e10, rel=1e-5)
    holed, plain = [0.1, 0.2, math.nan, 0.1], [0.1, 0.2, 0.1]
    assert queries_needed(holed, difference=0.01) == queries_needed(plain, difference=0.01)


def test_results_in_one_line() -> None:
    assert repr(effect([1, 0, 2, 5], [0, 1, 2, 3])) == (
        "Effect(0.5000, standardised 0.3873, 2 wins, 1 ties, 1 losses, superiority 0.6250)"
    )
    assert "standardised undefined" in repr(effect([1, 2], [1, 2]))
    few = rank_intervals([[0.1, 0.2], [0.3, 0.4], [0.3, 0.4]], level=0.9)
    assert repr(few[1]) == (
        "RankInterval(1.5 no interval, 90 %, n=2; too few queries (2): at least 3 are needed)"
    )


def test_ranks_follow_the_means() -> None:
    table = RNG.random((4, 80)) / 10 + np.array([[0.3], [0.1], [0.11], [0.5]])
    found = rank_intervals(table)
    by_mean = 1 + np.argsort(np.argsort(-table.mean(axis=1)))
    assert [each.rank for each in found] == by_mean.tolist()
    assert (found[3].low, found[3].high) == (1, 1)
    assert (found[0].low, found[0].high) == (2, 2)


def test_close_systems_have_wide_ranks() -> None:
    table = RNG.random((3, 50))
    assert {(each.low, each.high) for each in rank_intervals(table)} <= {(1, 3), (1, 2), (2, 3)}


def test_equal_systems_share_a_rank() -> None:
    row = RNG.random(30)
    found = rank_intervals(np.stack([row, row + 0.3, row]))
    assert [each.rank for each in found] == [2.5, 1, 2.5]
    assert (found[0].low, found[0].high) == (2, 3)
    tenths = rank_intervals([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2]])
    assert [each.rank for each in tenths] == [1.5, 1.5]


def test_ranks_of_little() -> None:
    (alone,) = rank_intervals([[0.1, 0.2, 0.3]])
    assert (alone.rank, alone.n) == (1, 3)
    assert math.isnan(alone.low)
    table = np.array([[0.1] * 9, [0.5] * 9, [math.nan] * 9]) + RNG.random(9) / 100
    found = rank_intervals(table)
    assert [each.rank for each in found] == pytest.approx([2, 1, math.nan], nan_ok=True)
    assert {(each.n, each.n_removed) for each in found} == {(0, 9)}


@pytest.mark.parametrize(
    ("n", "most"),
    [
        *[(4, 0.05), (50, 0.5)],
        *[
            pytest.param(n, most, marks=pytest.mark.slow)
            for n in (3, 4, 8, 50, 3000)
            for most in (0.05, 0.5)
            if (n, most) not in ((4, 0.05), (50, 0.5))
        ],
    ],
)
def test_many_levels_give_what_each_gives_alone(n: int, most: float) -> None:
    """Where the polynomial does not reach the answer (few queries, high levels), it is not used."""
    levels = most / np.arange(120, 0, -1)
    any_values = np.arange(n) % 7 + np.linspace(0, 1, n)
    together = detectable_sizes([*levels, levels[0]], n) * any_values.std(ddof=1)
    some = np.linspace(0, 119, some_of(120)).astype(int)
    alone = [minimum_detectable_difference(any_values, level=level) for level in levels[some]]
    np.testing.assert_allclose(together[[*some, 120]], [*alone, alone[0]], 1e-12)


def test_few_levels_are_solved_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    solve = effects.minimum_detectable_difference

    def noted(values: Any, **how: Any) -> float:
        asked.append(how["level"])
        return solve(values, **how)

    monkeypatch.setattr(effects, "minimum_detectable_difference", noted)
    detectable_sizes([0.05, 0.01, 0.05], 50)
    assert asked == [0.01, 0.05]
    asked.clear()
    detectable_sizes((0.05 / np.arange(1, 4951)).tolist(), 50)
    assert len(asked) < 50
