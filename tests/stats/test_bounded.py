"""Shares near a bound, sparse differences and losses not seen: each by its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from assay.arrays import Floats
from assay.errors import UsageError
from assay.stats import difference_interval, interval
from assay.stats.bounded import (
    check_bounds,
    constant_difference_reach,
    constant_ends,
    describe_few,
    least_mean,
    mean_ends,
    share_ends,
    span_of,
    sparse_ends,
    unseen_loss_p,
)

Z90 = scipy.stats.norm.isf(0.05)


def away_by_definition(distances: list[float], n: int) -> tuple[float, float]:
    """Ends at 90 % for the mean of n distances from 0 to 1, of which these are not 0."""
    k = len(distances)
    share, mean = k / n, sum(distances) / k if k else 1.0
    few, many = proportion_confint(k, n, alpha=0.1, method="wilson")
    variance = (sum((one - mean) ** 2 for one in distances) + 1 / 12) / max(k, 1) ** 2
    near, far = max(mean - Z90 * variance**0.5, 0), min(mean + Z90 * variance**0.5, 1)
    down = ((share - few) * mean) ** 2 + (share * (mean - near)) ** 2
    up = ((many - share) * mean) ** 2 + (share * (far - mean)) ** 2
    return max(share * mean - down**0.5, 0), min(share * mean + up**0.5, 1)


@pytest.mark.parametrize(
    "away", [[], [1.0], [0.02], [0.3, 0.4], [0.5, 0.9, 1.0, 0.8], [0.25] * 6 + [0.5] * 3]
)
@pytest.mark.parametrize("n", [18, 70])
def test_a_share_at_a_bound(away: list[float], n: int) -> None:
    least, most = away_by_definition(away, n)
    distances = np.array(away + [0.0] * (n - len(away)))
    low, high = share_ends(2 + 5 * distances, 2.0, 0.9, (2.0, 7.0))
    assert (low, high) == pytest.approx((2 + 5 * least, 2 + 5 * most), rel=1e-9)
    low, high = share_ends(7 - 5 * distances, 7.0, 0.9, (2.0, 7.0))
    assert (low, high) == pytest.approx((7 - 5 * most, 7 - 5 * least), rel=1e-9)


def test_fewer_than_fifteen_and_half_of_the_values_may_be_away() -> None:
    def where(*values: float) -> str:
        return describe_few(np.array(values), (0, 1), 0.95).partition(":")[0]

    assert where(*[0.5] * 14, *[1.0] * 40) == "only 14 of 54 values differ from 1"
    assert where(*[0.5] * 15, *[1.0] * 40) == ""
    assert where(*[0.5] * 4, *[0.0] * 4) == "only 4 of 8 values differ from 0"
    assert where(*[0.5] * 5, *[0.0] * 4) == where(*[1.0] * 9) == ""


def score_by_definition(values: Floats, level: float) -> tuple[float, float]:
    """All means μ that are no further from the mean than t standard errors for a mean of μ."""
    n, mean, largest = len(values), values.mean(), values.mean() * (1 - values.mean())
    third = 1 / 3  # of a query whose score is any number from 0 to 1: mean ½, mean square ⅓
    share = (n * values.var(ddof=1) + third / 3) / (n * largest + third / 2)
    t = scipy.stats.t.isf((1 - level) / 2, n - 1)

    def excess(mu: float) -> float:
        return (mean - mu) ** 2 - t**2 * share * mu * (1 - mu) / n

    ends = ((0.0, mean), (mean, 1.0))
    low, high = (scipy.optimize.brentq(excess, *end, xtol=1e-15) for end in ends)
    return low, high


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("shape", [(0.1, 0.9), (2, 2), (0.3, 3)])
def test_the_score_interval_inverts_its_test(n: int, level: float, shape: tuple) -> None:
    values = np.random.default_rng(n).beta(*shape, n)
    low, high = score_by_definition(values, level)
    found = interval(values, level=level, bounds=(0, 1))
    assert (found.method, found.resamples, found.seed) == ("score", 0, None)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)
    moved = interval(2 + 5 * values, level=level, bounds=(2, 7))
    assert (moved.low, moved.high) == pytest.approx((2 + 5 * low, 2 + 5 * high), rel=1e-9)
    turned = interval(1 - values, level=level, bounds=(0, 1))
    assert (turned.low, turned.high) == pytest.approx((1 - high, 1 - low), rel=1e-9)


def test_zeros_and_ones_are_wilsons() -> None:
    for hits in (0, 1, 7, 30):
        low, high = proportion_confint(hits, 30, method="wilson")
        found = interval([1] * hits + [0] * (30 - hits), bounds=(0, 1))
        assert found.method == "wilson"
        assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)


def test_uneven_groups_count_like_fewer() -> None:
    rng = np.random.default_rng(1)
    sizes = np.array([40, 20, 10, 5, 5, 10])
    groups = np.repeat(np.arange(6), sizes)
    values = np.clip(0.4 + 0.2 * rng.normal(size=6)[groups] + 0.1 * rng.normal(size=90), 0, 1)
    found = interval(values, clusters=groups, bounds=(0, 1))
    effective = 90**2 / (sizes**2).sum()
    assert found.groups == pytest.approx(effective)
    assert f"n=90 in {effective:.1f} effective groups" in repr(found)
    left_out = [values[groups != group].mean() for group in range(6)]  # the jackknife over groups
    error = np.sqrt(5 / 6 * ((np.array(left_out) - values.mean()) ** 2).sum())
    mean = values.mean()
    size = 90 * (90 * mean * (1 - mean) + 1 / 6) / ((90 * error) ** 2 + 1 / 9)
    t = scipy.stats.t.isf(0.025, effective - 1)
    centre = (mean + t**2 / (2 * size)) / (1 + t**2 / size)
    assert (found.low + found.high) / 2 == pytest.approx(centre, rel=1e-9)
    assert interval(values, bounds=(0, 1)).groups is None
    student = interval(values, clusters=groups, method="t")
    assert student.half_width == pytest.approx(t * error, rel=1e-9)


def test_few_values_away_from_a_bound_are_noted() -> None:
    sparse = interval([0.5] * 14 + [0.0] * 40, bounds=(0, 1))
    assert sparse.note.startswith("only 14 of 54 values differ from 0: the 95 % interval may")
    assert "91 to 99 %" in sparse.note
    loose = interval([0.5] * 4 + [0.0] * 40, level=0.9, bounds=(0, 1))
    assert loose.note.startswith("only 4 of 44 values differ from 0: the 90 % interval may")
    assert not interval([0.5] * 15 + [0.0] * 40, bounds=(0, 1)).note


def test_the_score_interval_needs_bounds() -> None:
    with pytest.raises(UsageError, match="needs the bounds"):
        interval([0.2, 0.5, 0.9], method="score")
    a, b = np.array([0.9, 0.8, 0.7, 0.4]), np.array([0.1, 0.5, 0.2, 0.6])
    with pytest.raises(UsageError, match="needs the bounds"):
        difference_interval(a, b, method="score")
    found = difference_interval(a, b, method="score", bounds=(0, 1))
    alone = interval(a - b, bounds=(-1, 1))
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), rel=1e-12)


@pytest.mark.parametrize("units", [[0.4], [-0.2, -0.3, 1.0], [2.5, -0.5, -0.5, -0.25]])
def test_sparse_differences_are_wins_and_losses_apart(units: list[float]) -> None:
    n, span = 30, max(1.0, *map(abs, units))
    found = sparse_ends(np.array(units + [0.0] * (n - len(units))), 0.9, 1.0)
    won, lost = [one / span for one in units if one > 0], [-one / span for one in units if one < 0]
    (won_low, won_high), (lost_low, lost_high) = (away_by_definition(x, n) for x in (won, lost))
    gain, loss = sum(won) / n, sum(lost) / n
    expected = (
        gain - loss - math.hypot(gain - won_low, lost_high - loss),
        gain - loss + math.hypot(won_high - gain, loss - lost_low),
    )
    assert found == pytest.approx([span * end for end in expected], rel=1e-9)


def test_what_is_sparse() -> None:
    assert sparse_ends(np.repeat([0.5, 0.0], [14, 14]), 0.9, 1.0) is not None
    assert sparse_ends(np.repeat([0.5, 0.0], [15, 40]), 0.9, 1.0) is None
    assert sparse_ends(np.repeat([0.5, 0.0], [15, 40]), 0.9, 1.0, few=16) is not None
    assert sparse_ends(np.repeat([0.5, 0.0], [5, 4]), 0.9, 1.0) is None


def test_reach_of_equal_values() -> None:
    unseen = 1 - 0.05 ** (1 / 12)
    assert constant_ends(3.0, 12, 0.9, (2.0, 7.0)) == pytest.approx((3 - unseen, 3 + 4 * unseen))
    assert constant_difference_reach(-0.5, 12, 0.9, 4.0) == pytest.approx(0.5 * unseen)
    assert constant_difference_reach(0.0, 12, 0.9, 4.0) == pytest.approx(4 * unseen)
    assert math.isnan(constant_difference_reach(0.0, 12, 0.9, 0.0))


def test_the_span_is_that_of_the_bounds_or_as_seen() -> None:
    assert span_of(np.array([0.2, 0.9]), (2.0, 7.0)) == 5
    assert span_of(np.array([0.25, 0.75]), None) == 0.5
    assert span_of(np.empty(0), None) == 0


def test_bounds_are_two_numbers_in_order() -> None:
    assert check_bounds((0, 1)) == (0, 1)
    assert check_bounds((0, math.inf)) is check_bounds((-math.inf, 0)) is check_bounds(None) is None
    for wrong in ((1, 1), (1, 0)):
        with pytest.raises(UsageError, match="least and the largest"):
            check_bounds(wrong)


def test_a_difference_is_clipped_to_the_width_of_the_bounds() -> None:
    a, b = [7.0, 7.0, 7.0, 6.0], [2.0, 2.0, 2.0, 5.0]
    assert difference_interval(a, b, method="t").high > 5
    assert difference_interval(a, b, method="t", bounds=(2, 7)).high == 5
    assert difference_interval(b, a, method="t", bounds=(2, 7)).low == -5


@pytest.mark.parametrize(("margin", "span"), [(0.05, 1.0), (0.02, 1.0), (0.3, 2.0)])
@pytest.mark.parametrize("n", [15, 60])
def test_unseen_losses_are_tried_at_every_share(n: int, margin: float, span: float) -> None:
    units = np.random.default_rng(n).normal(0.01, 0.15, n)  # all differ: none is sparse
    mean, error = units.mean(), units.std(ddof=1) / math.sqrt(n)
    shares = np.linspace(1 / n, 0.999, 20_000)
    rest = (margin - shares * span) / (1 - shares)
    tails = scipy.stats.t.sf((mean + rest) / error, n - 1)
    expected = ((1 - shares) ** n * tails).max()
    assert unseen_loss_p(units, margin, span) == pytest.approx(expected, rel=0.03)


def test_equal_units_may_hide_a_share_of_losses() -> None:
    for value in (0.0, 0.1, -0.02):
        units = np.full(250, value)
        share = (0.05 + value) / (1 + value)  # of losses of 1 that bring the mean to −0.05
        assert unseen_loss_p(units, 0.05, 1.0) >= (1 - share) ** 250 * (1 - 1e-9)
    assert unseen_loss_p(np.zeros(9), 0.05, 0.0) == 0
    assert least_mean(np.full(250, 0.1), 0.05, 1.0) == pytest.approx(
        0.1 - 1.1 * (1 - 0.05 ** (1 / 250)), abs=1e-6
    )


@given(
    st.lists(st.one_of(st.sampled_from([0.0, 0.5, 1.0, math.nan]), st.floats(0, 1)), max_size=40),
    st.sampled_from([0.8, 0.95, 0.99]),
)
def test_the_light_path_of_the_default_interval_has_the_same_bits(values, level):
    ends = mean_ends(np.array(values, float), level, (0.0, 1.0))
    whole = interval(values, level=level, bounds=(0.0, 1.0))
    assert ends == (whole.low, whole.high) or np.isnan([*ends, whole.low, whole.high]).all()


def test_the_light_path_on_another_scale():
    values = np.random.default_rng(3).uniform(0, 4, 31)
    whole = interval(values, bounds=(0.0, 4.0))
    assert mean_ends(values, 0.95, (0.0, 4.0)) == (whole.low, whole.high)
