"""One pair: what its numbers count, and how a comparison is asked for them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from inspect import signature

import numpy as np
import pytest

from assay import compare, compare_tasks, stats
from assay.comparison import compare as comparing
from assay.comparison.gate import look_at
from assay.comparison.pairs import ComparisonSettings
from assay.errors import UsageError
from assay.tasks.comparison import compare_task_values
from tests.comparison.made_scores import scores_of, with_users

RNG = np.random.default_rng(41)
BASE = RNG.uniform(0.2, 0.6, 50)
ROWS = [BASE, BASE + RNG.normal(0.1, 0.1, 50), BASE + RNG.normal(0.05, 0.2, 50)]


@pytest.mark.parametrize("correction", ["max-t", "holm", "tukey"])
def test_queries_without_a_value_are_counted_and_left_out(correction) -> None:
    holed = [row.copy() for row in ROWS]
    holed[1][:4] = np.nan
    found = compare(
        *[scores_of(row, empty="skip") for row in holed], correction=correction, resamples=200
    )
    for pair in found.pairs:
        # Tukey's test needs the queries that all systems have.
        gone = 4 if "B" in (pair.a, pair.b) or correction == "tukey" else 0
        a, b = (holed["ABC".index(name)][gone:] for name in (pair.a, pair.b))
        assert (pair.test.n, pair.test.n_removed) == (50 - gone, gone)
        assert (pair.effect.n, pair.effect.n_removed) == (50 - gone, gone)
        assert (pair.interval.n, pair.interval.n_removed) == (50 - gone, gone)
        assert pair.difference == pytest.approx(np.mean(a - b))
        assert pair.interval.estimate == pytest.approx(np.mean(a - b))
        assert [len(row) for row in pair.values] == [50 - gone] * 2
        expected = stats.minimum_detectable_difference(a - b, power=0.8, level=pair.level_of_one)
        assert pair.minimum_detectable == pytest.approx(expected)


@pytest.mark.parametrize("correction", ["max-t", "holm", "tukey"])
def test_one_query_has_a_difference_and_decides_nothing(correction) -> None:
    (pair,) = compare(scores_of([0.75]), scores_of([0.25]), correction=correction).pairs
    assert (pair.difference, pair.interval.estimate) == (0.5, 0.5)
    assert math.isnan(pair.interval.low)
    assert math.isnan(pair.interval.high)


@pytest.mark.parametrize("baseline", [None, "C"])
def test_standings_say_what_they_rest_on(baseline) -> None:
    holed = np.array(ROWS)
    holed[1, :4] = np.nan
    drawn = {"resamples": 200, "seed": 3}
    systems = [scores_of(row, empty="skip") for row in holed]
    found = compare(*systems, baseline=baseline, level=0.1, **drawn)
    for one in found.standings:
        row = holed["ABC".index(one.name)]
        assert one.mean == stats.interval(row, level=0.9, bounds=(0, 1), **drawn)
        rank = one.rank
        assert (rank.level, rank.n, rank.n_removed, rank.note) == (0.9, 46, 4, "")
        assert (rank.resamples, rank.seed) == (200, 3)


def test_ranks_say_why_no_pair_can_be_decided() -> None:
    rows = [row[:5].copy() for row in ROWS]
    rows[2][0] = np.nan
    found = compare(*[scores_of(row, empty="skip") for row in rows], correction="holm")
    why = [pair.untestable for pair in found.pairs]
    assert why[0].endswith("gives p ≥ 0.1875, corrected for 3 pairs")
    assert why[1].endswith("gives p ≥ 0.375, corrected for 3 pairs")
    assert {one.rank.note for one in found.standings} == {why[0]}  # that of the first pair


def test_what_is_short_are_resamples_where_more_of_them_would_do() -> None:
    rows = [*ROWS, BASE * 0.9]
    many = compare(*map(scores_of, rows), correction="bonferroni", resamples=100)
    assert {pair.smallest_p for pair in many.pairs} == {6 / 101}
    assert "Too few resamples (100) to compare " in many.verdict
    assert "even a clean sweep gives p ≥ 0.05941, corrected for 6" in many.verdict
    enough = compare(*map(scores_of, rows), correction="bonferroni", resamples=119)
    assert enough.pairs[0].smallest_p == 6 / 120
    assert not enough.pairs[0].untestable


def test_the_smallest_p_under_holm_is_that_of_the_place_it_would_take() -> None:
    """A p below all others is multiplied by their number; one behind k others by k fewer."""
    rows = [scores_of(row[:9]) for row in (BASE, BASE + 0.3, BASE + 0.1 * (-1.0) ** np.arange(50))]
    found = compare(*rows, correction="holm")
    raw = [pair.test.p for pair in found.pairs]
    least = 2 / 2**9
    for number, pair in enumerate(found.pairs):
        others = [p for place, p in enumerate(raw) if place != number]
        adjusted = stats.adjust([least, *others], "holm")[0]
        assert pair.smallest_p == pytest.approx(adjusted)


def test_the_smallest_p_under_holm_where_pairs_have_other_queries() -> None:
    rows = [BASE, BASE + 0.3, np.where(np.arange(50) < 7, BASE + 0.1 * RNG.normal(size=50), np.nan)]
    found = compare(*[scores_of(row, empty="skip") for row in rows], correction="holm")
    raw = [pair.test.p for pair in found.pairs]
    assert [pair.test.n for pair in found.pairs] == [50, 7, 7]
    for number, least in enumerate([1 / 10_001, 2 / 2**7, 2 / 2**7]):
        adjusted = stats.adjust([least, *np.delete(raw, number)], "holm")[0]
        assert found.pairs[number].smallest_p == pytest.approx(adjusted)


@pytest.mark.parametrize("correction", ["max-t", "holm", "tukey"])
def test_the_level_of_intervals_is_that_of_the_tests(correction) -> None:
    found = compare(*map(scores_of, ROWS), correction=correction, level=0.1, resamples=200)
    for pair in found.pairs:
        level = pair.level_of_one if correction == "holm" else 0.1
        assert pair.interval.level == 1 - level


def test_a_pair_seen_from_the_other_side_is_negated() -> None:
    (pair,) = compare(*map(scores_of, ROWS[:2]), resamples=200).pairs
    low, high = pair.interval.low, pair.interval.high
    for name, ends in (("A", (pair.difference, low, high)), ("B", (-pair.difference, -high, -low))):
        turned = pair.interval_of(name)
        assert (turned.estimate, turned.low, turned.high) == ends
    assert low < pair.difference < high
    assert repr(pair) == f"Pair(A and B on RR: {pair.outcome}, p={pair.p:.4g})"


def test_a_lead_below_the_minimum_detectable_one_is_overstated() -> None:
    noise = np.tile([-0.1, 0.1], 25)
    error = noise.std(ddof=1) / math.sqrt(50)
    for shift, winner, overstated in ((1.0, None, False), (2.4, "B", True), (3.5, "B", False)):
        rows = (BASE, BASE + shift * error + noise)
        (pair,) = compare(*map(scores_of, rows), test="t").pairs
        assert (pair.winner, pair.overstated) == (winner, overstated)


def test_three_queries_have_a_minimum_detectable_difference_and_two_have_none() -> None:
    for n in (2, 3):
        (pair,) = compare(*[scores_of(row[:n]) for row in ROWS[:2]]).pairs
        assert math.isnan(pair.minimum_detectable) == (n < 3)


def test_losses_that_may_be_unseen_are_said_to_be() -> None:
    rows = [BASE + 0.001 * RNG.normal(size=50), BASE]
    found = compare(*map(scores_of, rows), names=["new", "old"], margin=0.01, baseline="old")
    test = found.pairs[0].non_inferiority("new")
    assert test.p > 0.05
    share = 1 - 0.05 ** (1 / 50)  # of which a sample of 50 holds none in 5 %
    worst = re.fullmatch(
        r"50 queries cannot rule out a loss of 0\.01 \(worst plausible loss (0\.\d+)\)", test.note
    )
    assert worst is not None
    assert float(worst[1]) == pytest.approx(share, abs=0.002)
    wide = compare(*map(scores_of, rows), margin=0.5)
    assert wide.pairs[0].non_inferiority("A").note == ""
    assert compare(*map(scores_of, rows)).pairs[0].non_inferiority("A") is None


def test_equivalence_of_groups_is_the_worse_of_both_sides() -> None:
    users = [f"u{number // 2}" for number in range(50)]
    rows = (BASE + 0.05 + 0.01 * RNG.normal(size=50), BASE)
    (pair,) = compare(*[with_users(row, users) for row in rows], by="user", margin=0.3).pairs
    sides = [pair.non_inferiority(name).p for name in ("A", "B")]
    assert pair.equivalence.p == max(sides)
    assert sides[0] < sides[1]


def test_a_look_as_plain_data() -> None:
    rows = (np.clip(BASE - 0.2, 0, 1), BASE)
    found = compare(*map(scores_of, rows), names=["new", "old"], baseline="old")
    look = look_at(found, 3, seen_before=True)
    data = json.loads(json.dumps(look.to_dict(), allow_nan=False))
    assert (data["number"], data["seen_before"]) == (3, True)
    (one,) = data["pairs"]
    assert (one["measure"], one["a"], one["b"]) == ("RR", "new", "old")
    assert one["difference"] == pytest.approx(np.mean(rows[0] - rows[1]))
    assert one["failed"] == (one["p"] <= 0.05) == (one["bound"] < 0) == bool(look.reasons)


def test_what_was_not_compared_is_said_not_to_be() -> None:
    both = [scores_of(np.stack([row, row]), measures="RR,AP") for row in ROWS]
    found = compare(*both, baseline="A", resamples=100)
    assert found.pair("A", "C", measure="AP") is found.pair("C", "A", measure="AP")
    for arguments, words in (
        (("B", "C"), "'B' and 'C' were not compared. Name the baseline 'A'"),
        (("B", "B"), "A pair needs two systems, found 'B' twice"),
        (("B", "X"), "Unknown system 'X'. Name one of A, B, C"),
    ):
        with pytest.raises(UsageError, match=words):
            found.pair(*arguments, measure="RR")
    with pytest.raises(UsageError, match="Name one of the measures: RR, AP"):
        found.pair("A", "B")
    with pytest.raises(UsageError, match=r"P@10 was not compared\. Name one of RR, AP"):
        found.pairs_on("P@10")
    assert len(found.table("AP").rows) == 3
    assert len(found.table().rows) == 6
    assert len(found.table().columns) == len(found.table("AP").columns) + 1
    assert [row[-1].value for row in found.table("AP").rows if row[0].value == "A"] == ["baseline"]


def test_a_chart_is_of_the_first_measure_unless_another_is_named(monkeypatch) -> None:
    monkeypatch.setattr(comparing, "find_hook", lambda _: lambda *arguments: arguments)
    both = [scores_of(np.stack([row, row]), measures="RR,AP") for row in ROWS]
    plain = compare(*both, resamples=100)
    assert plain.plot() == (plain.standings_on("RR"), "RR", None)
    versus = compare(*both, baseline="A", resamples=100)
    assert versus.plot("AP") == (versus.standings_on("AP"), "AP", versus.pairs_on("AP"))


def test_defaults_agree_wherever_they_are_written() -> None:
    settings = {one.name: one.default for one in fields(ComparisonSettings)}
    assert (settings["level"], settings["resamples"], settings["seed"]) == (0.05, 10_000, 0)
    for function in (compare, compare_tasks, compare_task_values):
        for name, parameter in signature(function).parameters.items():
            if name in settings and name != "correction":  # by the test, unless it is named
                assert parameter.default == settings[name], (function, name)
