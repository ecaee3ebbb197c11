"""Remarks where the data show that p and intervals are doubtful, with the remedy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from assay import compare
from assay.comparison.pairs import ComparisonSettings
from assay.comparison.verdict import unequal_variances
from tests.comparison.made_scores import scores_of, with_users

SAME, FEW, GROUPS, TUKEY = "the same value on all", "many small differences", "uneven", "Tukey"


def remarks_on(*rows, **settings):
    return " | ".join(compare(*map(scores_of, rows), resamples=300, **settings).remarks)


def test_a_system_that_never_varies() -> None:
    other = np.random.default_rng(0).random(20) * 0.1
    text = remarks_on(np.full(20, 0.12), other)
    assert "RR: A has the same value on all 20 queries" in text
    assert "use more queries" in text
    assert SAME not in remarks_on(np.full(200, 0.12), np.random.default_rng(0).random(200) * 0.1)
    assert SAME not in remarks_on(np.full(20, 0.9), other)  # a lead that nothing unseen can undo
    base = np.random.default_rng(1).random(12)
    assert "A and B differ by the same value on all 12 queries" in remarks_on(base + 0.1, base)
    assert SAME not in remarks_on(np.full(20, 0.05), other)  # nobody leads


def test_many_small_wins_against_few_large_losses() -> None:
    base = np.random.default_rng(2).random(40)
    wins = base + 0.1 + 0.01 * np.random.default_rng(3).random(40)
    losses = wins.copy()
    losses[:2] -= 0.6
    text = remarks_on(losses, base)
    assert "RR: A leads B by many small differences against a few large ones" in text
    assert "with 40 queries" in text
    assert text.endswith("(--differences)")  # and not "as for" others: there is one pair
    gains = base.copy()  # the other way round, the tail is the winner's own
    gains[:8] += 0.6
    assert FEW not in remarks_on(gains, base)
    assert FEW not in remarks_on(losses, base, test="wilcoxon")


def test_slices_are_looked_at_one_by_one() -> None:
    rng = np.random.default_rng(4)
    base = rng.random(60)
    kinds = ["a"] * 30 + ["b"] * 30
    other = base + 0.1 + 0.05 * rng.normal(size=60)
    other[30:] = base[30:] + 0.1
    other[30] -= 0.5
    scores = [scores_of(row) for row in (other, base)]
    ids = list(scores[0].query_ids)
    scores = [one.with_groups(kind=dict(zip(ids, kinds, strict=True))) for one in scores]
    assert any("in b a lead rests on" in one for one in compare(*scores, slices="kind").remarks)


def test_groups_of_very_uneven_size() -> None:
    rng = np.random.default_rng(5)
    users = ["big"] * 60 + [f"u{i}" for i in range(20) for _ in range(2)]
    systems = [with_users(rng.random(100), users) for _ in range(2)]
    text = " ".join(compare(*systems, by="user").remarks)
    assert "the 21 groups by user are of very uneven size and count like 2.7" in text
    assert "the largest holds 60 % of queries" in text
    even = [with_users(rng.random(100), [f"u{i // 12}" for i in range(100)]) for _ in range(2)]
    assert GROUPS not in " ".join(compare(*even, by="user").remarks)


def test_few_groups_need_not_be_very_uneven() -> None:
    rng = np.random.default_rng(6)
    users = [f"u{i}" for i in np.repeat(np.arange(6), [1, 1, 1, 2, 2, 3])]
    systems = [with_users(rng.random(10), users) for _ in range(2)]
    text = " ".join(compare(*systems, by="user").remarks)
    assert "the 6 groups by user are of uneven size and count like 5.0" in text
    alike = [with_users(rng.random(12), [f"u{i // 2}" for i in range(12)]) for _ in range(2)]
    assert "groups by user" not in " ".join(compare(*alike, by="user").remarks)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([1] * 20 + [7], None),  # like 10.6
        ([1] * 20 + [8], "the 21 groups by user are of very uneven size and count like 9.3 "),
        ([1] * 5 + [2] * 2, "the 7 groups by user are of uneven size and count like 6.2 "),
        ([1] * 6 + [2] * 2, None),
    ],
)
def test_how_uneven_groups_may_be(sizes, words) -> None:
    users = [f"u{i}" for i in np.repeat(np.arange(len(sizes)), sizes)]
    systems = [with_users(np.sin(shift + np.arange(len(users))), users) for shift in (0, 1)]
    found = [one for one in compare(*systems, by="user", resamples=100).remarks if GROUPS in one]
    assert [one.startswith(words or "") for one in found] == [True] * (words is not None)


def test_a_hundred_queries_show_whether_a_system_varies() -> None:
    for n, remarked in ((99, True), (100, False)):
        other = 0.1 * np.abs(np.sin(np.arange(n)))
        assert (SAME in remarks_on(np.full(n, 0.07), other)) is remarked


@pytest.mark.parametrize(("ratio", "words"), [(3.5, []), (4.6, ["5 to 1: use correction max-t"])])
def test_variances_may_be_as_four_to_one(ratio, words) -> None:
    tukey = ComparisonSettings(correction="tukey")
    spreads = [np.sqrt(size) * np.tile([-1.0, 1.0], 10) for size in (1.0, ratio)]
    pairs = [SimpleNamespace(settings=tukey, n_units=20, spread=spread) for spread in spreads]
    assert [text.partition("they are as ")[2] for text in unequal_variances(pairs)] == words


def test_tukey_with_unequal_variances() -> None:
    rng = np.random.default_rng(6)
    base = rng.random(50)
    rows = [base + spread * rng.normal(size=50) for spread in (0.01, 0.01, 0.5)]
    assert "use correction max-t" in remarks_on(*rows, correction="tukey")
    assert TUKEY not in remarks_on(*rows)
    alike = [base + 0.1 * rng.normal(size=50) for _ in range(3)]
    assert TUKEY not in remarks_on(*alike, correction="tukey")
    assert TUKEY not in remarks_on(base, base, base, correction="tukey")
    assert TUKEY not in remarks_on(base, base, alike[0], correction="tukey")


@pytest.mark.parametrize(
    ("n", "least", "most"),
    [
        *((10, 0.0, 0.25), (100, 0.0, 0.01)),
        pytest.param(25, 0.0, 0.12, marks=pytest.mark.slow),
    ],
)
def test_leads_with_symmetric_errors_are_rarely_remarked(n, least, most) -> None:
    rng = np.random.default_rng(7)
    decided = remarked = 0
    for _ in range(300):
        found = compare(
            scores_of(rng.normal(0.8, 1, n)), scores_of(np.sin(np.arange(n))), resamples=200
        )
        if found.pairs[0].winner is not None:
            decided += 1
            remarked += any(FEW in one or SAME in one for one in found.remarks)
    assert decided > 30
    assert least <= remarked / decided <= most


def test_wrong_leads_of_rare_losses_are_remarked() -> None:
    """Equal means, one system always 0.1, the other 1 on a tenth of the queries."""
    rng = np.random.default_rng(8)
    wrong = left = 0
    for _ in range(300):
        found = compare(
            scores_of(np.full(10, 0.1)), scores_of((rng.random(10) < 0.1) * 1.0), resamples=200
        )
        if found.pairs[0].winner is not None:
            wrong += 1
            left += not found.remarks
    assert wrong > 60  # of 300, where 15 should be
    assert left == 0


def test_too_few_resamples_for_the_correction() -> None:
    rng = np.random.default_rng(9)
    rows = [rng.random(40) for _ in range(4)]
    settings = {"correction": "bonferroni", "resamples": 100}
    text = " | ".join(compare(*map(scores_of, rows), **settings).remarks)
    assert text == (
        "100 resamples are too few to separate any pair: use 120 or more, or correction max-t"
    )
    settings["resamples"] = 119  # 6 pairs / 120 is the level itself
    assert compare(*map(scores_of, rows), **settings).remarks == ()


def test_undefined_values_and_leads_below_what_can_be_detected() -> None:
    rng = np.random.default_rng(10)
    base = rng.random(50)
    noise = rng.normal(size=(2, 50))
    noise[1, :7] = np.nan
    centred = noise - np.nanmean(noise, axis=1, keepdims=True)
    scaled = 0.1 * centred / np.nanstd(noise, axis=1, ddof=1, keepdims=True)
    rows = [*(base + 0.034 + scaled), base]  # 2.4 and 2.2 standard errors ahead; 2.8 are wanted
    found = compare(*[scores_of(row, empty="skip") for row in rows], correction="none")
    below = [
        pair
        for pair in found.pairs
        if pair.winner and abs(pair.difference) < pair.minimum_detectable
    ]
    assert len(below) == 2
    worst = min(below, key=lambda pair: abs(pair.difference) / pair.minimum_detectable)
    undefined, overstated = found.remarks
    assert undefined == "RR: undefined on up to 7 queries, left out of pairs"
    assert overstated == (
        f"RR: the lead of {abs(worst.difference):.4f} of {worst.winner} over {worst.loser} is "
        f"below the minimum detectable difference of {worst.minimum_detectable:.4f} "
        f"({worst.effect.n} queries, 80 % power), so it is probably overestimated "
        "(and 1 more)"
    )


def test_the_skewness_and_the_ratio_of_variances_are_those_of_the_differences() -> None:
    base = np.random.default_rng(2).random(40)
    wins = base + 0.1 + 0.01 * np.random.default_rng(3).random(40)
    wins[:2] -= 0.6
    residuals = wins - base - np.mean(wins - base)
    skewness = np.mean(residuals**3) / np.mean(residuals**2) ** 1.5
    expected = f"(skewness {skewness:.1f} with 40 queries)"
    assert expected in remarks_on(wins, base)
    assert expected in remarks_on(base, wins)
    rng = np.random.default_rng(6)
    rows = [base + spread * rng.normal(size=40) for spread in (0.01, 0.01, 0.5)]
    variances = [np.var(rows[a] - rows[b], ddof=1) for a, b in ((0, 1), (0, 2), (1, 2))]
    ratio = f"they are as {max(variances) / min(variances):.0f} to 1: use correction max-t"
    assert ratio in remarks_on(*rows, correction="tukey")
