"""Verdict, p-value, interval, letters, ranks and gate are one answer."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import compare
from assay.comparison.gate import worse_than_baseline
from assay.stats import TEST_METHODS
from assay.stats.choices import CORRECTIONS
from assay.stats.corrections import split_letters
from tests.comparison.made_scores import scores_of, with_users
from tests.examples import examples

COMBINATIONS = [
    (test, correction)
    for test in TEST_METHODS
    for correction in CORRECTIONS
    if test == "randomisation" or correction not in ("max-t", "tukey")
]
KINDS = ["any", "ties", "binary", "sparse", "shifted", "twins", "hard and easy"]


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
    if kind == "hard and easy":  # systems differ far less than queries do
        return 0.1 * values + np.linspace(0, 0.8, n) + 0.02 * np.arange(systems)[:, None]
    return values


def with_gaps(values: np.ndarray, share: float, seed: int) -> np.ndarray:
    """The values, of which this share is undefined."""
    gone = np.random.default_rng([seed, 1]).random(values.shape) < share
    return np.where(gone, np.nan, values)


def contradictions(found, level: float):
    """Every way in which two of the answers could disagree."""
    for pair in found.pairs:
        yield from wrong_pair(pair, level)
    if found.baseline is not None:
        losers = {pair.a for pair in found.pairs if pair.outcome == "worse"}
        untested = {pair.a for pair in found.pairs if pair.untestable and not pair.unchanged}
        failed = {text.split(" ")[0] for text in worse_than_baseline(found)}
        if failed != losers | untested:
            yield f"gate {failed}, losers {losers}"
        return
    letters = {one.name: set(split_letters(one.letters)) for one in found.standings}
    for pair in found.pairs if any(letters.values()) else ():
        if bool(letters[pair.a] & letters[pair.b]) != (pair.winner is None):
            yield f"{pair}: letters {letters}"
    yield from wrong_ranks(found)
    yield from wrong_sentences(found, level)


def wrong_pair(pair, level: float):
    """Disagreements of p, interval, winner and difference of one pair."""
    decided, interval = pair.winner is not None, pair.interval
    if pair.coherent and not np.isnan(interval.low):
        outside = interval.low > 0 or interval.high < 0
        if outside != (pair.p <= level) or outside != decided:
            yield f"{pair}: interval {interval}, winner {pair.winner}"
        if not interval.low <= pair.difference <= interval.high:
            yield f"{pair}: {pair.difference} is outside of {interval}"
    opposite = pair.outcome == "contradictory"
    if decided != (pair.p <= level) and not opposite:
        yield f"{pair}: winner {pair.winner} with p {pair.p}"
    if opposite and pair.test.method not in ("wilcoxon", "sign"):
        yield f"{pair}: a test of means contradicts the means"
    if pair.p < pair.smallest_p * (1 - 1e-9) or pair.test.p > pair.p * (1 + 1e-9):
        yield f"{pair}: {pair.p} is below {pair.smallest_p}, or uncorrected {pair.test.p}"


def wrong_ranks(found):
    """Ranks that do not follow from the means, and intervals that do not from the pairs."""
    gapless = not np.isnan(found.values_on("RR")).any()
    for one in found.standings:
        if np.isnan(one.rank.low):
            continue
        better = sum(pair.loser == one.name for pair in found.pairs)
        worse = sum(pair.winner == one.name for pair in found.pairs)
        ends = (1 + better, len(found.names) - worse)
        if gapless and (one.rank.low, one.rank.high) != ends:
            yield f"{one}: {better} better, {worse} worse"
        if not one.rank.low <= one.rank.rank <= one.rank.high:
            yield f"{one}: the rank is outside of its interval"
        if one.rank.low > ends[0] or one.rank.high < ends[1]:
            yield f"{one}: narrower than {ends}"
    ranks = [one.rank.rank for one in found.standings if not np.isnan(one.rank.rank)]
    if ranks != sorted(ranks):
        yield f"ranks {ranks} are not in the order of the means"


def wrong_sentences(found, level: float):
    """What the sentence says of pairs with the first that they do not say."""
    head = re.match(r"(s\d+) scores highest on RR; (.*)", found.verdict)
    if head is None:
        return
    said = re.search(r"its lead over (.*?) is not significant", head[2])
    for other in re.findall(r"s\d+", said[1] if said else ""):
        pair = found.pair(head[1], other)
        if pair.outcome != "not separable" or pair.p <= level:
            yield f"{found.verdict}: {pair}"


@examples(150)
@given(
    st.sampled_from(COMBINATIONS),
    st.sampled_from(KINDS),
    st.integers(2, 8),
    st.integers(3, 40),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.01, 0.03125, 0.05, 0.2]),
    st.sampled_from([0.0, 0.0, 0.1, 0.4]),
    st.integers(0, 2**32 - 1),
)
def test_no_two_answers_disagree(
    how, kind, systems, n, grouped, baseline, level, gaps, seed
) -> None:
    values = with_gaps(make(kind, systems, n, seed), gaps, seed)
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
    assert "-0.0000" not in str(found)


@pytest.mark.parametrize("test", ["wilcoxon", "sign"])
def test_ranks_and_signs_of_groups_point_where_the_means_do(test: str) -> None:
    row = make("any", 1, 24, 4)[0] * 0.5
    users = [f"u{i // 2}" for i in range(24)]
    found = compare(with_users(row + 0.2, users), with_users(row, users), test=test, by="user")
    assert found.pairs[0].outcome == "better"


def test_tukey_counts_the_same_queries_everywhere() -> None:
    values = make("any", 3, 12, 5)
    values[2, 6:] = np.nan  # the first two differ where the third has no value
    values[0, 6:] += 5.0
    pair = compare(*map(scores_of, values), correction="tukey", resamples=300).pairs[0]
    assert pair.effect.n == 6
    assert pair.interval.estimate == pytest.approx(pair.difference)


def test_the_first_may_lose_a_pair_where_values_are_undefined() -> None:
    rng = np.random.default_rng(6)
    hard = np.repeat([0.0, 0.8], 20)
    low, high = (hard + shift + 0.02 * rng.random(40) for shift in (0.0, 0.1))
    low[:16], high[36:] = np.nan, np.nan  # the weaker has the easy queries
    third = hard + 0.05 + 0.02 * rng.random(40)
    found = compare(*map(scores_of, (low, high, third)), names=["low", "high", "third"])
    assert found.pair("low", "high").winner == "high"
    assert "low scores highest on RR; high and third score higher on the queries" in found.verdict
    assert "separable" not in found.verdict
    rank = found.standings[0].rank
    assert rank.low <= rank.rank == 1 <= rank.high


def test_test_and_means_in_opposite_directions_are_not_called_inseparable() -> None:
    base = np.linspace(0.3, 0.5, 30)
    many_small = np.where(np.arange(30) < 27, 0.01 + base / 1000, -0.5)
    rows = [base + many_small, base, base]
    found = compare(*map(scores_of, rows), names=list("abc"), test="sign")
    assert "a test" not in found.verdict
    assert "b and c (identical) score highest on RR; test and means" in (found.verdict)
    against = compare(*map(scores_of, rows), names=list("abc"), test="sign", baseline="b")
    assert "identical: c" in against.verdict
    assert "opposite directions: a. a −0." in against.verdict


def test_a_bootstrap_without_spread_still_has_an_interval() -> None:
    sparse = np.zeros(12)
    sparse[3] = 1.0
    found = compare(scores_of(sparse), scores_of(np.zeros(12)), test="bootstrap", resamples=300)
    pair = found.pairs[0]
    assert pair.interval.low <= 0 < pair.interval.high
    assert "no interval" not in found.verdict


@pytest.mark.parametrize("interval", ["bca", "percentile", "t"])
def test_an_interval_of_another_kind_is_not_in_the_sentence(interval: str) -> None:
    values = make("any", 3, 30, 1)
    found = compare(*map(scores_of, values), interval=interval, resamples=300)
    assert not found.pairs[0].coherent
    assert "CI" not in found.verdict
    assert "not of the test" in str(found)
    ranks = compare(*map(scores_of, values), test="wilcoxon", resamples=300)
    assert "CI" not in ranks.verdict
    assert not ranks.pairs[0].coherent


def test_identical_systems_have_no_first() -> None:
    row = make("any", 1, 20, 2)[0]
    three = compare(*[scores_of(row)] * 3)
    assert three.verdict == "A, B and C are identical on RR: equal on all 20 queries"
    worse = compare(scores_of(row), scores_of(row), scores_of(row * 0.1), names=["a", "b", "c"])
    assert worse.blocks[0].verdict.headline == ("a and b (identical) are better than c on RR")


def test_a_family_is_named() -> None:
    values = make("any", 4, 30, 3)
    every = compare(*map(scores_of, values), resamples=300)
    assert every.family == "all 6 pairs of 4 systems" == every.to_dict()["family"]
    assert "max-t over all 6 pairs" in every.method
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
