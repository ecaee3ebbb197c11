"""The numbers and names in the sentences of a comparison, as text."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from assay import compare
from assay.comparison.pairs import ComparisonSettings, smallest_by_rate
from assay.comparison.standings import format_p
from assay.comparison.verdict import describe_detectable, describe_p, describe_test, join_names
from assay.stats import Interval, adjust
from tests.comparison.made_scores import scores_of

RNG = np.random.default_rng(21)
BASE = RNG.uniform(0.3, 0.5, 40)


def test_p_is_never_rounded_to_zero() -> None:
    shown = {0.5: "0.5000", 0.0001: "0.0001", 0.00009: None, 1.0: "1.0000"}
    for p, digits in shown.items():
        assert describe_p(p) == (f"p = {digits}" if digits else "p < 0.0001")
        assert format_p(p) == (digits or "<0.0001")
    assert (describe_p(math.nan), format_p(math.nan)) == ("no p", None)


def test_an_interval_shows_its_ends_or_nothing() -> None:
    some, signed, zero, none = (
        Interval(0.2, low, high, 0.95, "t", 9)
        for low, high in ((0.1, 0.25), (-0.1, 0.25), (-0.0, 0.25), (math.nan, math.nan))
    )
    assert (some.text(), signed.text(sign=True)) == ("[0.1000, 0.2500]", "[-0.1000, +0.2500]")
    assert zero.text() == "[0.0000, 0.2500]"
    assert (none.text(), none.sentence(), none.cell().text) == (None, "no interval", "–")
    assert (-signed).to_dict("difference") == {"difference": -0.2, "low": -0.25, "high": 0.1}


def test_at_most_five_names_are_listed() -> None:
    assert join_names(["a"]) == "a"
    assert join_names(["a", "b"]) == "a and b"
    assert join_names(list("abcde")) == "a, b, c, d and e"
    assert join_names(list("abcdefg")) == "a, b, c, d, e and 2 more"


@pytest.mark.parametrize(
    ("settings", "n_pairs", "n_slices", "words"),
    [
        ({}, 1, 1, "randomisation"),
        ({"test": "t"}, 1, 1, "Student t"),
        ({}, 2, 1, "max-t over 2 pairs"),
        ({}, 2, 2, "max-t over 2 slices"),
        ({}, 6, 2, "max-t over 3 pairs in 2 slices"),
        ({"test": "t"}, 3, 1, "Student t, Holm over 3 pairs"),
        ({"correction": "none"}, 3, 1, "randomisation, not corrected for 3 pairs"),
        ({"correction": "tukey"}, 1, 1, "randomised Tukey HSD"),
    ],
)
def test_the_test_and_its_family_are_named(settings, n_pairs, n_slices, words) -> None:
    assert describe_test(ComparisonSettings(**settings), n_pairs, n_slices) == words


@pytest.mark.parametrize(
    ("size", "words"),
    [(0.01234, "; minimum detectable difference 0.0123"), (0.0, ""), (math.nan, "")],
)
def test_the_minimum_detectable_difference_in_words(size, words) -> None:
    assert describe_detectable(SimpleNamespace(minimum_detectable=size)) == words


def shifted(*shifts):
    return [scores_of(BASE + shift + 0.01 * RNG.random(40)) for shift in shifts]


def test_the_verdict_against_a_baseline_lists_five_of_each_kind() -> None:
    names = [*"abcdefg", "bad", "copy", "old"]
    systems = [*shifted(*np.linspace(0.1, 0.4, 7), -0.2), scores_of(BASE), scores_of(BASE)]
    found = compare(*systems, names=names, baseline="old", resamples=999)
    for name, system in list(zip(names, systems, strict=True))[:5]:
        assert f"{name} {np.mean(system['RR'] - BASE):+.3f} (95 % CI +0." in found.verdict
    assert "f +" not in found.verdict
    assert found.verdict.startswith(
        "Against old on RR: better: a, b, c, d, e and 2 more; worse: bad; identical: copy. a +0."
    )
    assert found.verdict.endswith(" · 4 more")


def test_the_first_of_several_is_described_by_its_nearest() -> None:
    found = compare(*shifted(0.4, 0.0, 0.2), resamples=999)
    assert found.verdict.startswith(
        "A is better than both others on RR. Closest competitor: C, lead +0."
    )
    four = compare(*shifted(0.4, 0.0, 0.2, 0.1), resamples=999)
    assert "A is better than all 3 others on RR. Closest competitor: C, lead +0." in four.verdict
    twins = compare(*[scores_of(BASE + 0.3)] * 2, *shifted(0.0), resamples=999)
    assert twins.blocks[0].verdict.headline == ("A and B (identical) are better than C on RR")
    twice = compare(*[scores_of(BASE + 0.3)] * 2, *shifted(0.0, 0.1), resamples=999)
    assert twice.verdict.startswith("A and B (identical) are better than D and C on RR. ")
    three = compare(*[scores_of(BASE)] * 3, resamples=999)
    assert three.verdict == "A, B and C are identical on RR: equal on all 40 queries"


def test_the_table_of_pairs_puts_the_better_first_and_turns_what_belongs_to_it() -> None:
    high = BASE + np.where(np.arange(40) < 30, 0.1, np.where(np.arange(40) < 35, 0.0, -0.1))
    found = compare(scores_of(BASE), scores_of(high), names=["low", "high"], resamples=999)
    (row,) = found.pair_table().rows
    d = high - BASE
    cells = [cell.value for cell in row]
    assert cells[:2] == ["high − low", f"{d.mean():+.4f}"]
    assert cells[4:] == ["30/5/5", f"{d.mean() / d.std(ddof=1):+.2f}"]
    low, high_end = found.pairs[0].interval.low, found.pairs[0].interval.high
    assert cells[2] == f"[{-high_end:+.4f}, {-low:+.4f}]"
    assert not any(cell.best for cell in row)  # bold is for systems that may be the best
    old = compare(scores_of(BASE), scores_of(high), names=["low", "high"], baseline="high")
    (row,) = old.pair_table().rows
    assert [row[0].value, row[4].value] == ["low − high", "5/5/30"]


def test_pairs_are_in_the_order_of_the_standings() -> None:
    systems = shifted(0.1, 0.3, 0.0, 0.2)
    for baseline, names in ((None, "xz xw xy zw zy wy"), ("w", "xw zw yw")):
        found = compare(*systems, names=list("wxyz"), baseline=baseline, resamples=100)
        table = found.pair_table()
        assert table.columns[-table.n_optional :] == (
            "wins/ties/losses",
            "effect size",
        )  # where there is room
        shown = [row[0].value for row in table.rows]
        assert shown == [f"{first} − {second}" for first, second in names.split()]


def test_forty_five_pairs_are_shown_and_more_are_not() -> None:
    for n, tables in ((10, 2), (11, 1)):
        found = compare(*shifted(*np.linspace(0, 0.4, n)), resamples=100)
        assert sum(hasattr(part, "columns") for part in found.page()) == tables
        assert f"({n * (n - 1) // 2} pairs of {n} systems)" in f"({found.family[4:]})"


def test_the_minimum_detectable_difference_is_said_once_or_as_a_range() -> None:
    rows = [scores_of(BASE), *shifted(0.1), scores_of(BASE + 0.3 * RNG.random(40))]
    found = compare(*rows, resamples=100)
    sizes = sorted(pair.minimum_detectable for pair in found.pairs)
    assert found.power_note("RR") == (
        f"Minimum detectable difference on RR (80 % power): {sizes[0]:.4f} to {sizes[-1]:.4f}, "
        "depending on the pair. Losses on up to 7.2 % of all queries, however large, may be absent "
        "from this sample (5 % risk)."
    )
    one = compare(*rows[:2], resamples=100)
    only = one.pairs[0].minimum_detectable
    assert f"Minimum detectable difference on RR (80 % power): {only:.4f}. " in one.power_note("RR")
    assert compare(rows[0], rows[0]).power_note("RR") == ""
    below = compare(rows[0], rows[0], rows[1], resamples=100)  # of the identical pair it would be 0
    assert "0.0000" not in below.power_note("RR")


def test_differences_shown_are_those_of_the_best_two_or_of_each_to_the_baseline() -> None:
    systems = shifted(0.0, 0.2, 0.1)
    (own,) = compare(*systems, resamples=100).main_differences()
    assert (own.a, own.b) == ("B", "C")
    (both,) = compare(*systems[:2], resamples=100).main_differences()
    assert (both.a, both.b) == ("A", "B")
    versus = compare(*systems, baseline="A", resamples=100).main_differences()
    assert [(one.a, one.b) for one in versus] == [("B", "A"), ("C", "A")]


@pytest.mark.parametrize(
    ("settings", "n", "words"),
    [
        ({}, 2, "p: randomisation, 1,000 resamples, seed 3. Intervals of differences "
         "invert the test; intervals of means are individual 90 % "),
        ({}, 3, "p: max-t over all 3 pairs of 3 systems, 1,000 resamples, seed 3. "
         "Intervals of differences are simultaneous (90 % jointly); intervals of means are"),
        ({"baseline": "A"}, 3, "p: max-t over 2 systems against A, 1,000 resamples"),
        ({"interval": "t"}, 2, "with the correction of p but not from this test; intervals of "),
        ({"test": "t"}, 2, "Intervals of differences invert the test; "),
    ],
)  # fmt: skip
def test_the_method_names_test_family_draws_and_intervals(settings, n, words) -> None:
    rows = shifted(0.0, 0.1, 0.2)[:n]
    found = compare(*rows, resamples=1000, seed=3, level=0.1, **settings)
    assert words in found.method
    assert "intervals of means are individual 90 % " in found.method
    assert found.table().columns[1:3] == ("mean", "90 % CI")


def test_ranks_and_letters_and_marks_of_the_systems() -> None:
    rows = [BASE, BASE + np.tile([-0.01, 0.01], 20), BASE + 0.2 + 0.01 * RNG.random(40)]
    found = compare(*map(scores_of, rows), resamples=999)
    table = found.table()
    assert [row[0].value for row in table.rows] == ["C", *(one.name for one in found.standings[1:])]
    assert table.rows[0][3].value == "1"
    assert all(row[3].value.endswith(" (2–3)") for row in table.rows[1:])
    assert [row[4].value for row in table.rows] == ["a", "b", "b"]
    assert [row[1].best for row in table.rows] == [True, False, False]
    assert found.verdict.startswith("C is better than both others on RR")
    names = ["worse", "twin", "good", "old"]
    versus = compare(
        *map(scores_of, (BASE - 0.1, BASE, rows[2], BASE)), names=names, baseline="old"
    )
    last = {row[0].value: (row[4].value, row[1].best) for row in versus.table().rows}
    assert last == {
        "good": ("better", True),
        "old": ("baseline", False),
        "twin": ("identical", False),
        "worse": ("worse", False),
    }


def test_the_first_is_not_separable_from_some() -> None:
    balanced = np.tile([-0.01, 0.01], 20)
    rows = [BASE, BASE + 0.0001 + balanced, BASE + 0.0002 - balanced, BASE - 0.2 + balanced]
    found = compare(*map(scores_of, rows), resamples=999)
    assert found.verdict.startswith(
        "C scores highest on RR; its lead over B and A is not significant. Lead over B +0.0001 ("
    )
    two = compare(scores_of(rows[0]), scores_of(rows[2]), scores_of(rows[3]), resamples=999)
    assert two.verdict.startswith(
        "B scores highest on RR; its lead over A is not significant. Lead over A +0.0002 ("
    )


def one_sided(seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Many small wins against two large losses."""
    base = np.random.default_rng(seed).random(40)
    wins = base + 0.1 + 0.01 * np.random.default_rng(3).random(40)
    wins[:2] -= 0.6
    return wins, base


RESTS = "the difference rests on few or one-sided queries"


def test_a_lead_of_one_sided_differences_is_probable() -> None:
    wins, base = one_sided()
    found = compare(scores_of(wins), scores_of(base))
    pair = found.pairs[0]
    assert (pair.outcome, pair.winner, pair.loser, pair.doubt) == (
        *("probably better", "A", "B"),
        "lopsided",
    )
    assert found.verdict.startswith(f"A is probably better than B on RR: {RESTS}. Lead +0.0")
    assert found.to_dict()["measures"]["RR"]["pairs"][0]["outcome"] == "probably better"
    turned = compare(scores_of(base), scores_of(wins), baseline="B")
    assert turned.pairs[0].outcome == "probably worse"
    assert turned.standings[-1].outcome == "probably worse"
    assert turned.verdict.startswith("B is probably better than A on RR")
    ranks = compare(scores_of(wins), scores_of(base), test="wilcoxon").pairs[0]
    assert (ranks.outcome, ranks.doubt) == ("better", "")  # no test of means


def test_of_several_the_probable_ones_are_named() -> None:
    wins, base = one_sided()
    low = base - 0.4 + 0.01 * np.random.default_rng(5).random(40)
    rows = [scores_of(row) for row in (wins, base, low)]
    verdict = compare(*rows, names=["new", "old", "low"]).verdict
    assert verdict.startswith(
        f"new is better than low on RR, only probably than old: {RESTS}. Closest competitor: old"
    )
    against = compare(*rows, names=["new", "old", "low"], baseline="old").verdict
    assert (
        "probably better (the difference rests on few or one-sided queries): new; worse" in against
    )
    assert "; worse: low. new +0." in against


def test_a_system_that_breaks_is_worse_however_flat() -> None:
    """Zero on all of 40 queries: no share of queries that was missed makes up for it."""
    old = np.random.default_rng(1).uniform(0.3, 0.6, 40)
    found = compare(scores_of(np.zeros(40)), scores_of(old), baseline="B")
    assert (found.pairs[0].outcome, found.pairs[0].doubt) == ("worse", "")
    near = compare(scores_of(np.full(40, 0.1)), scores_of(old / 3), baseline="B")
    assert (near.pairs[0].outcome, near.pairs[0].doubt) == ("probably worse", "flat")


def test_bh_is_decided_with_an_interval_or_not_at_all() -> None:
    """Not significant without an interval says nothing: too few draws cannot be compared."""
    rng = np.random.default_rng(4)
    rows = [scores_of(rng.random(30)) for _ in range(8)]
    found = compare(*rows, correction="bh", resamples=100)  # 28 pairs: p of 28/101 at least
    assert {pair.outcome for pair in found.pairs} == {"undecided"}
    for resamples in (300, 1000):
        for pair in compare(*rows, correction="bh", resamples=resamples).pairs:
            assert math.isnan(pair.interval.low) == (pair.outcome == "undecided")
    small = [scores_of(np.round(rng.random(7), 1) + shift) for shift in (0, 0, 0.3, 2)]
    for pair in compare(*small, correction="bh").pairs:
        assert math.isnan(pair.interval.low) == (pair.outcome == "undecided")


def test_the_smallest_p_of_bh_is_that_of_the_family_with_it() -> None:
    rng = np.random.default_rng(6)
    for _ in range(60):
        p = np.round(rng.random(rng.integers(1, 9)) ** 3, 3) + 0.001
        p[rng.random(len(p)) < 0.1] = math.nan
        least = np.minimum(rng.choice([0.001, 0.02, 0.1], len(p)), np.nan_to_num(p, nan=1.0))
        expected = np.full(len(p), math.nan)
        for i in np.flatnonzero(~np.isnan(p)):
            moved = p.copy()
            moved[i] = least[i]
            expected[i] = adjust(moved, "bh")[i]
        found = np.minimum(smallest_by_rate(p, least), 1.0)
        assert found == pytest.approx(expected, nan_ok=True)
