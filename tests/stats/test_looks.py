"""Bets on bounded differences, and levels that last for all looks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from assay.errors import UsageError, ValueRangeError
from assay.stats import paired_test
from assay.stats.tests import EProcess, look_share

LEVEL = 0.05
LOOKS = 200


def wealth(differences: list[float], width: float = 1.0, at: float = 0.0) -> float:
    """The e-value by its definition."""
    stakes = [number / 40 for number in range(1, 41)]
    won = [
        math.prod(1 - stake * (one - at) / (width - at) for one in differences) for stake in stakes
    ]
    return sum(won) / len(stakes)


def bets(differences: list[float], width: float = 1.0) -> EProcess:
    return EProcess.of(differences, [0.0] * len(differences), width)


def test_all_looks_together_spend_the_level() -> None:
    spent = np.cumsum([look_share(look) for look in range(1, 20_001)])
    assert spent[99] == pytest.approx(0.5)
    assert spent[-1] == pytest.approx(20_000 / 20_100)
    assert (np.diff(spent) > 0).all()
    for look in (0, -1, 1.5, True, None):
        with pytest.raises(UsageError, match="look"):
            look_share(look)  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [-0.3, 0.0, 0.2])
def test_p_is_one_over_the_wealth(at: float) -> None:
    values = np.random.default_rng(1).uniform(-1, 0.4, 30).round(3).tolist()
    assert bets(values).p(at) == pytest.approx(min(1, 1 / wealth(values, at=at)))
    assert bets([value * 5 for value in values], 5.0).p(5 * at) == pytest.approx(bets(values).p(at))


@pytest.mark.parametrize("high", [1.0, 0.5, 0.1])
def test_the_wealth_is_one_on_average_under_any_null(high: float) -> None:
    """All outcomes of six queries: rare gains of `high` make up for frequent losses of 0.05."""
    share = 0.05 / (0.05 + high)
    outcomes = itertools.product([(high, share), (-0.05, 1 - share)], repeat=6)
    total = 0.0
    for outcome in outcomes:
        values, chances = zip(*outcome, strict=True)
        total += math.prod(chances) * math.exp(bets(list(values)).log_wealth(0.0))
    assert total == pytest.approx(1)


def test_groups_are_bet_on_as_a_whole() -> None:
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(12), rng.integers(1, 6, 12))
    values = rng.uniform(-1, 0.3, len(groups))
    sums = np.bincount(groups, values)
    largest = np.bincount(groups).max()
    found = EProcess.of(values, np.zeros(len(values)), 1.0, groups)
    assert found.n_units == 12
    assert found.p() == pytest.approx(1 / wealth((sums / largest).tolist()))
    assert found.difference == pytest.approx(values.mean())
    wide, worst = (
        EProcess.of(each, np.zeros(len(values)), 2.0, groups)
        for each in (values, np.full(len(values), -2.0))
    )
    for at in (-0.5, 0.0):
        assert wide.smallest_p(at) == pytest.approx(worst.p(at))


@pytest.mark.parametrize("level", [0.05, 1e-4, 1e-9])
@pytest.mark.parametrize("at", [-0.1, 0.0, 0.05])
def test_the_bound_is_that_of_the_test(level: float, at: float) -> None:
    rng = np.random.default_rng(3)
    for shift in (-0.5, -0.2, -0.05, 0.0, 0.2):
        found = bets(np.clip(rng.normal(shift, 0.2, 80), -1, 1).tolist())
        bound = found.highest(level, at)
        assert (bound <= at) == (found.p(at) <= level)
        assert found.p(bound + 1e-6) <= level < found.p(bound - 1e-6)
        assert bound > found.difference


def test_strange_samples() -> None:
    nothing = bets([])
    assert (nothing.p(), nothing.highest(0.05), nothing.n_units) == (1, 1, 0)
    assert math.isnan(nothing.difference)
    best, worst = bets([1.0] * 50), bets([-1.0] * 50)
    assert (best.p(), worst.p(-1.0)) == (1, 1)
    assert worst.p() == worst.smallest_p() == best.smallest_p() < 1e-13
    assert bets([-1.0] * 10_000).p() > 0
    assert bets([0.0] * 50).p() == 1
    assert bets([0.2] * 9).p(1.0) < 1e-60  # a mean of 1 is impossible
    holed = EProcess.of([0.1, math.nan, 0.3], [0.2, 0.2, math.nan], 1.0)
    assert holed.n_units == 1
    with pytest.raises(ValueRangeError, match=r"differ by 1\.5, at most 1 is possible"):
        bets([1.5, 0.2])
    for width in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueRangeError, match="known bounds"):
            bets([0.1], width)


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.clip(rng.normal(0, 0.2, n), -1, 1)


def skewed(rng: np.random.Generator, n: int) -> np.ndarray:
    """Equal means: losses of 0.05 on most queries, gains of 0.95 on one of twenty."""
    return np.where(rng.random(n) < 0.05, 0.95, -0.05)


@pytest.mark.parametrize("kind", [pytest.param(normal, marks=pytest.mark.slow), skewed])
@pytest.mark.parametrize("replications", [25, pytest.param(400, marks=pytest.mark.slow)])
def test_false_alarms_over_many_looks(kind: object, replications: int) -> None:
    """The plain gate raises one nearly always, bets hardly ever."""
    plain = lasting = 0
    for number in range(replications):
        rng = np.random.default_rng(number)
        looks = [kind(rng, 100) for _ in range(LOOKS)]  # type: ignore[operator]
        nothing = np.zeros(100)
        plain += any(
            one.mean() < 0 and paired_test(one, nothing, method="t").p <= LEVEL for one in looks
        )
        lasting += any(
            EProcess.of(one, nothing, 1.0).p() <= LEVEL * look_share(look)
            for look, one in enumerate(looks, 1)
        )
    assert plain > 0.9 * replications
    assert lasting <= LEVEL * replications


def test_a_real_loss_is_seen_at_a_late_look() -> None:
    rng = np.random.default_rng(5)
    found = bets(np.clip(rng.normal(-0.05, 0.14, 1000), -1, 1).tolist())
    assert found.p() <= LEVEL * look_share(LOOKS)
