"""Ranks of one target per query equal a brute force in exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from assay.search.engine import target_ranks
from tests.search.engine.exact import exact_rank, exact_target_ranks
from tests.search.engine.nasty import METRICS, nasty_cases, nasty_inputs, nasty_scores


def exclusion(kind, targets):
    """The argument for `target_ranks`, and the pairs it stands for; never a target."""
    if kind == "none":
        return None, set()
    if kind == "self":
        return "self", {(q, q) for q in range(len(targets))}
    drawn = np.random.default_rng(len(targets)).random((len(targets), len(targets))) < 0.3
    drawn[np.arange(len(targets)), targets] = False
    pairs = np.argwhere(drawn)[::-1]
    return pairs, set(map(tuple, pairs.tolist()))


def check(got, want, case=""):
    above, tied, before = np.array(want, np.int64).T
    for name, column in {"above": above, "tied": tied, "before": before}.items():
        assert getattr(got, name).dtype == np.int64
        assert getattr(got, name).tolist() == column.tolist(), f"{name} {case}"
    assert np.asarray(got.rank).tolist() == (above + before + 1).tolist()


@pytest.mark.parametrize(("metric", "name"), nasty_cases())
def test_target_ranks_equal_exact_arithmetic(metric, name, engine):
    nasty = nasty_inputs()[name]
    n = len(nasty.docs)
    for number, excluding in enumerate(("none", "self", "pairs"), METRICS.index(metric)):
        shift = (1, n // 2)[number % 2]
        targets = (np.arange(n) + shift) % n  # no query has its own row as its target
        exclude, excluded = exclusion(excluding, targets)
        got = target_ranks(
            nasty.queries,
            nasty.docs,
            targets,
            metric=metric,
            exclude=exclude,
            threads=1 + number % 2,
            engine=engine,
        )
        want = exact_target_ranks(nasty_scores(metric, name), targets.tolist(), excluded=excluded)
        check(got, want, f"exclude={excluding} shift={shift}")


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * (number % 2))
        for number, case in enumerate(nasty_cases())
    ],
)
def test_the_rank_of_a_target_is_its_place_in_the_list(metric, name, engine):
    nasty = nasty_inputs()[name]
    rows = exact_rank(nasty_scores(metric, name), len(nasty.docs))
    for place in (0, 4, len(nasty.docs) - 1):
        targets = np.array([row[place][0] for row in rows])
        got = target_ranks(
            nasty.queries, nasty.docs, targets, metric=metric, threads=1, engine=engine
        )
        assert np.asarray(got.rank).tolist() == [place + 1] * len(rows)


@pytest.mark.parametrize("metric", METRICS)
def test_a_self_that_is_a_duplicate_of_the_target_does_not_count(metric, engine):
    docs = np.ones((6, 5), np.float32)
    targets = (np.arange(6) + 1) % 6
    got = target_ranks(docs, docs, targets, metric=metric, exclude="self", engine=engine)
    check(got, [(0, 4, target - (q < target)) for q, target in enumerate(targets)])
