"""Special functions against scipy, in the middle and in the tails."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
import scipy.special
import scipy.stats

from assay.stats.bounded import (
    beta_tail,
    normal_cdf,
    normal_quantile,
    t_quantile,
    t_tail,
    t_test_power,
)

FREEDOMS = [1, 2, 2.5, 3, 10, 49, 299, 3000, 1e4, 1e6]


@pytest.mark.parametrize("x", [-37, -8, -1.96, -1e-9, 0, 0.5, 3, 8])
def test_normal(x: float) -> None:
    assert normal_cdf(x) == pytest.approx(scipy.stats.norm.cdf(x), rel=1e-13)


@pytest.mark.parametrize("p", [1e-300, 1e-12, 0.025, 0.5, 0.9, 1 - 1e-12])
def test_normal_quantile(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(scipy.stats.norm.ppf(p), rel=1e-12, abs=1e-15)


def test_normal_quantile_at_the_ends() -> None:
    assert (normal_quantile(0), normal_quantile(1)) == (-math.inf, math.inf)


@pytest.mark.parametrize("freedom", FREEDOMS)
@pytest.mark.parametrize("t", [-40, -2, -0.01, 0, 0.01, 0.5, 1, 2, 5, 30, 100])
def test_t_tail(t: float, freedom: float) -> None:
    expected = scipy.stats.t.sf(t, freedom)
    assert t_tail(t, freedom) == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_t_tail_has_a_closed_form_for_one_degree_of_freedom() -> None:
    for t in (1e-9, 1e-6, 0.3, 7.0, 1e8):
        assert t_tail(t, 1) == pytest.approx(math.atan2(1, t) / math.pi, rel=1e-13)
    assert (t_tail(math.inf, 5), t_tail(-math.inf, 5)) == (0, 1)


@pytest.mark.parametrize("freedom", FREEDOMS)
@pytest.mark.parametrize("p", [1e-12, 1e-6, 0.001, 0.025, 0.4, 0.5, 0.7, 0.975])
def test_t_quantile(p: float, freedom: float) -> None:
    assert t_quantile(p, freedom) == pytest.approx(scipy.stats.t.ppf(p, freedom), rel=1e-12)


@pytest.mark.parametrize("a", [0.5, 1, 3, 40, 5000])
@pytest.mark.parametrize("b", [0.5, 1, 7, 300])
@pytest.mark.parametrize("x", [1e-9, 0.1, 0.5, 0.9, 0.999])
def test_incomplete_beta(a: float, b: float, x: float) -> None:
    expected = scipy.special.betainc(a, b, x)
    assert beta_tail(a, b, x, 1 - x) == pytest.approx(expected, rel=1e-11, abs=1e-280)


@pytest.mark.parametrize("n", [1, 10, 101, 10_000])
def test_binomial_tail_against_whole_numbers(n: int) -> None:
    for k in {0, n // 3, n // 2, n - 1}:
        ways = sum(accumulate(range(k), lambda way, i: way * (n - i) // (i + 1), initial=1))
        exact = math.exp(math.log(ways) - n * math.log(2))
        assert beta_tail(n - k, k + 1, 0.5, 0.5) == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("freedom", [2, 5, 49, 300, 10_000])
@pytest.mark.parametrize("shift", [0, 0.5, 2.8, 6])
def test_power(shift: float, freedom: int) -> None:
    cut = scipy.stats.t.isf(0.025, freedom)
    expected = scipy.stats.nct.sf(cut, freedom, shift) + scipy.stats.nct.cdf(-cut, freedom, shift)
    assert t_test_power(shift, freedom, 0.05) == pytest.approx(expected, abs=1e-11)
