"""Verdict, p-value, interval, letters, ranks and gate are one answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import compare
from assay.comparison.gate import worse_than_baseline
from assay.comparison.pairs import ALL_CORRECTIONS
from assay.stats import TEST_METHODS
from assay.stats.ranks import split_letters
from tests.comparison.made_scores import scores_of, with_users

COMBINATIONS = [
    (test, correction)
    for test in TEST_METHODS
    for correction in ALL_CORRECTIONS
    if test == "randomisation" or correction not in ("max-t", "tukey")
]
KINDS = ["any", "ties", "binary", "sparse", "shifted", "twins"]


def make(kind: str, systems: int, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.random((systems, n)) * 0.8 + 0.2 * rng.random((systems, 1))
    if kind == "ties":
        return np.round(values, 1)
    if kind == "binary":
        return (values < 0.6 * rng.random((systems, 1)) + 0.2).astype(float)
    if kind == "sparse":
        return np.where(rng.random((systems, n)) < 0.15, values, np.round(values[0]))
    if kind == "shifted":
        return values[0] * 0.5 + np.linspace(0, 0.4, systems)[:, None]
    if kind == "twins":
        values[1] = values[0]
    return values


def contradictions(found, level: float):
    """Every way in which two of the answers could disagree."""
    alone = {}
    for pair in found.pairs:
        decided = pair.winner is not None
        if pair.coherent and not np.isnan(pair.interval.low):
            outside = pair.interval.low > 0 or pair.interval.high < 0
            if outside != (pair.p <= level) or outside != decided:
                yield f"{pair}: interval {pair.interval}, winner {pair.winner}"
        if decided and pair.p > level:
            yield f"{pair}: a winner with p {pair.p}"
        alone[frozenset((pair.a, pair.b))] = decided
    if found.baseline is not None:
        losers = {pair.a for pair in found.pairs if pair.outcome == "worse"}
        untested = {pair.a for pair in found.pairs if pair.untestable}
        failed = {text.split(" ")[0] for text in worse_than_baseline(found)}
        if failed != losers | untested:
            yield f"gate {failed}, losers {losers}"
        return
    letters = {one.name: set(split_letters(one.letters)) for one in found.standings}
    for pair in found.pairs:
        if any(letters.values()):
            shared = bool(letters[pair.a] & letters[pair.b])
            if shared == alone[frozenset((pair.a, pair.b))]:
                yield f"{pair}: letters {letters}"
    for one in found.standings:
        if np.isnan(one.rank.low):
            continue
        better = sum(pair.loser == one.name for pair in found.pairs)
        worse = sum(pair.winner == one.name for pair in found.pairs)
        if (one.rank.low, one.rank.high) != (1 + better, len(found.names) - worse):
            yield f"{one}: {better} better, {worse} worse"


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(COMBINATIONS),
    st.sampled_from(KINDS),
    st.integers(2, 5),
    st.integers(3, 40),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.01, 0.05, 0.2]),
    st.integers(0, 2**32 - 1),
)
def test_no_two_answers_disagree(how, kind, systems, n, grouped, baseline, level, seed) -> None:
    values = make(kind, systems, n, seed)
    users = [f"u{i}" for i in np.random.default_rng(seed).integers(0, max(2, n // 2), n)]
    scores = [with_users(row, users) if grouped else scores_of(row) for row in values]
    found = compare(
        *scores,
        names=[f"s{i}" for i in range(systems)],
        test=how[0],
        correction=how[1],
        level=level,
        resamples=300,
        by="user" if grouped else None,
        baseline="s0" if baseline else None,
    )
    assert list(contradictions(found, level)) == []
    assert "-0.0000" not in repr(found)


@pytest.mark.parametrize("interval", ["bca", "percentile", "t"])
def test_an_interval_of_another_kind_is_not_in_the_sentence(interval: str) -> None:
    values = make("any", 3, 30, 1)
    found = compare(*map(scores_of, values), interval=interval, resamples=300)
    assert not found.pairs[0].coherent
    assert "p only; the interval of the tables is" in found.verdict
    assert "not of the test" in repr(found)
    ranks = compare(*map(scores_of, values), test="wilcoxon", resamples=300)
    assert "p only" in ranks.verdict
    assert not ranks.pairs[0].coherent


def test_identical_systems_have_no_first() -> None:
    row = make("any", 1, 20, 2)[0]
    three = compare(*[scores_of(row)] * 3)
    assert three.verdict == "All 3 systems are identical on RR: equal on all 20 queries"
    worse = compare(scores_of(row), scores_of(row), scores_of(row * 0.1), names=["a", "b", "c"])
    assert worse.verdict.startswith("a and b are first on RR and identical on every query; they")


def test_a_family_is_named() -> None:
    values = make("any", 4, 30, 3)
    every = compare(*map(scores_of, values), resamples=300)
    assert every.family == "all 6 pairs of 4 systems" == every.to_dict()["family"]
    assert "max-t over 6 pairs" in every.verdict
    against = compare(*map(scores_of, values), names=list("abcd"), baseline="a", resamples=300)
    assert against.family == "3 systems against a"


@pytest.mark.parametrize("correction", ["max-t", "tukey", "holm"])
@pytest.mark.parametrize("systems", [2, 3])
@pytest.mark.parametrize("interval", ["auto", "t"])
def test_differences_at_a_bound_have_ends_that_can_be(correction, systems, interval) -> None:
    rows = np.ones((systems, 30))
    rows[-1] = 0.0
    found = compare(*map(scores_of, rows), correction=correction, interval=interval, resamples=200)
    for pair in found.pairs:
        assert -1 <= pair.interval.low < pair.interval.high <= 1
        assert math.isnan(pair.effect.standardised)
