"""A margin is not shown by queries that may have missed the losses that break it."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from assay import compare
from assay.comparison.gate import worse_than_baseline
from assay.stats import non_inferior
from assay.stats.bounded import least_margin, least_mean, unseen_loss_p
from tests.comparison.made_scores import scores_of


def passes(lost: int, n: int, margin: float) -> bool:
    """Whether a system is within the margin that has lost so many of n queries and ties others."""
    old = np.ones(n)
    new = np.where(np.arange(n) < lost, 0.0, old)
    found = compare(
        scores_of(new),
        scores_of(old),
        names=["new", "old"],
        baseline="old",
        margin=margin,
        resamples=500,
    )
    test = found.pairs[0].non_inferiority("new")
    assert test is not None
    return test.p <= 0.05


@pytest.mark.parametrize("n", [16, 50, 100])  # of 16, all signs are tried
@pytest.mark.parametrize("margin", [0.01, 0.03, 0.05])
def test_rare_large_losses_rarely_pass(n: int, margin: float) -> None:
    opened = sum(
        math.comb(n, lost) * 0.05**lost * 0.95 ** (n - lost)
        for lost in range(8)
        if passes(lost, n, margin)
    )
    assert opened <= 0.05


def test_graded_scores_still_pass() -> None:
    rng = np.random.default_rng(2)
    opened = 0
    for _ in range(200):
        units = 0.5 * (rng.beta(2, 3, 100) - rng.beta(2, 3, 100))
        p = non_inferior(units, np.zeros(100), 0.05, method="t").p
        opened += max(p, unseen_loss_p(units, 0.05, 1.0)) <= 0.05
    assert opened >= 0.9 * 200


@pytest.mark.parametrize("n", [20, 60, 300])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_the_bound_belongs_to_its_p(n: int, share: float) -> None:
    rng = np.random.default_rng(n)
    units = np.where(rng.random(n) < share, rng.uniform(-1, 1, n), 0.0)
    bound = least_mean(units, 0.05, 1.0)
    assert (
        unseen_loss_p(units, -bound + 1e-4, 1.0) <= 0.05 < unseen_loss_p(units, -bound - 1e-4, 1.0)
    )
    assert bound < units.mean()


def test_the_reason_names_what_was_not_seen() -> None:
    old = np.linspace(0.1, 0.9, 30)
    new = np.where(np.arange(30) % 2, old - 0.05, old)
    found = compare(
        scores_of(new), scores_of(old), names=["new", "old"], baseline="old", margin=0.1
    )
    (why,) = worse_than_baseline(found)
    worst = float(re.findall(r"\(worst plausible loss (0\.\d+)\)", why)[0])
    assert "30 queries cannot rule out a loss of 0.1 " in why
    assert f"at least −{worst:.4f} " in why
    assert unseen_loss_p(new - old, worst + 1e-4, 1.0) <= 0.05 < unseen_loss_p(new - old, 0.1, 1.0)


def test_the_least_margin_is_shown_by_equal_scores() -> None:
    for n in (20, 50, 1000):
        least = least_margin(n, 0.05, 2.0)
        assert least == pytest.approx(2 * (1 - 0.05 ** (1 / n)), rel=1e-6)
        below, above = (unseen_loss_p(np.zeros(n), part * least, 2.0) for part in (0.999, 1.001))
        assert above <= 0.05 < below
