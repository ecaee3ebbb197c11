"""A margin is not shown by queries that may have missed the losses that break it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay import compare
from assay.comparison.gate import worse_than_baseline
from assay.stats import non_inferior
from assay.stats.margins import least_mean, unseen_loss_p
from tests.comparison.made_scores import scores_of


def passes(lost: int, n: int, margin: float) -> bool:
    """Whether the gate opens for a system that has lost so many of n queries and ties the rest."""
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
    return not list(worse_than_baseline(found))


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
    same = np.linspace(0.1, 0.9, 30)
    found = compare(
        scores_of(same), scores_of(same), names=["new", "old"], baseline="old", margin=0.01
    )
    (why,) = worse_than_baseline(found)
    assert "losses on 9.5 % of all queries may be in none of these 30" in why
    assert "at least -0.09" in why
