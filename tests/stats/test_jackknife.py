"""Intervals from leaving out groups: against the formula, and how often they cover."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.stats.bounded import t_quantile
from assay.stats.confidence import jackknife_interval
from assay.stats.effects import auroc


def test_of_a_mean_it_is_students_interval_on_the_logit() -> None:
    values = np.random.default_rng(0).uniform(0.2, 0.9, 12)
    left_out = np.array([np.delete(values, i).mean() for i in range(12)])
    found = jackknife_interval(values.mean(), left_out, level=0.9)
    logit = np.log(left_out / (1 - left_out))
    error = math.sqrt(11 / 12 * ((logit - logit.mean()) ** 2).sum())
    middle = math.log(values.mean() / (1 - values.mean()))
    wanted = [1 / (1 + math.exp(-middle - s * t_quantile(0.95, 11) * error)) for s in (-1, 1)]
    assert (found.low, found.high) == pytest.approx(tuple(wanted))
    assert (found.method, found.n, found.level) == ("jackknife", 12, 0.9)


def test_at_a_bound_and_with_few_groups() -> None:
    same = jackknife_interval(1.0, np.ones(10))
    assert same.low < 1.0 == same.high
    touching = jackknife_interval(0.9, np.array([0.8, 1.0, 0.9]))
    assert 0 <= touching.low < 0.9 < touching.high <= 1
    few = jackknife_interval(0.5, np.array([0.4, 0.6]))
    assert math.isnan(few.low)
    assert "too few groups" in few.note
    assert math.isnan(jackknife_interval(math.nan, np.full(5, math.nan)).estimate)


def test_a_pooled_area_is_covered_about_as_often_as_it_says() -> None:
    """Groups that are easier or harder: AUROC over all pairs of values, groups left out in turn."""
    rng = np.random.default_rng(2)
    # The true area: shifts of groups have variance 0.25, values 1; right − wrong ~ N(1, 2.5).
    truth = 0.5 * (1 + math.erf(1 / math.sqrt(2.5) / math.sqrt(2)))
    hits = 0
    for _ in range(300):
        shift = rng.normal(0, 0.5, 20)[:, None]
        right = 1 + shift + rng.normal(size=(20, 15))
        wrong = rng.normal(0, 0.5, 20)[:, None] + rng.normal(size=(20, 15))
        kept = [np.arange(20) != gone for gone in range(20)]
        left_out = np.array([auroc(right[k].ravel(), wrong[k].ravel()) for k in kept])
        found = jackknife_interval(auroc(right.ravel(), wrong.ravel()), left_out)
        hits += found.low <= truth <= found.high
    assert 0.91 <= hits / 300 <= 0.985
