"""A gate that is asked again and again, and the bound of a margin."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from assay import compare, parse
from assay.comparison.gate import count_look, look_at, width_of, worse_than_baseline
from assay.errors import FormatError, StorageError, UsageError
from assay.stats import TEST_METHODS
from assay.stats.tests import EProcess, look_share
from tests.comparison.made_scores import scores_of, with_users

RNG = np.random.default_rng(11)
OLD = RNG.uniform(0.3, 0.9, 400)
SAME = np.clip(OLD + RNG.normal(0, 0.1, 400), 0, 1)
BAD = np.clip(OLD - 0.15 + RNG.normal(0, 0.1, 400), 0, 1)


def against(*systems, names=None, margin=None, **settings):
    names = names or [f"new{number}" for number in range(len(systems))]
    return compare(
        *(scores_of(one, **settings) for one in (*systems, OLD)),
        names=[*names, "old"],
        baseline="old",
        margin=margin,
        resamples=200,
    )


def test_a_loss_fails_at_every_look_and_noise_passes():
    found = against(SAME, BAD)
    for number in (1, 17, 200, 5000):
        look = look_at(found, number)
        (why,) = look.reasons
        assert why.startswith("new1 is worse than old on RR: −0.1")
        assert "95 % over all looks" in why
        same, bad = look.pairs
        assert bad.bound < 0 < same.bound
        assert bad.p <= 0.05 < same.p


def test_later_looks_and_more_systems_need_more_proof():
    p = [look_at(against(BAD), number).pairs[0].p for number in (1, 50, 500)]
    assert p == sorted(p)
    assert look_at(against(BAD, SAME), 1).pairs[0].p == pytest.approx(2 * p[0])


def test_with_a_margin_proof_is_wanted():
    for margin, shown in ((0.03, [False, False]), (0.1, [True, False]), (0.5, [True, True])):
        look = look_at(against(SAME, BAD, margin=margin), 3)
        assert [one.shown for one in look.pairs] == shown
        for one in look.pairs:
            assert one.shown == (one.p <= 0.05) == (one.bound > -margin) == (not one.reason)
            assert one.shown or f"may lose {margin:g} or more against old on RR" in one.reason
    alone = look_at(against(SAME, margin=0.1), 3).pairs[0]
    assert alone.p == look_at(against(SAME, BAD, margin=0.1), 3).pairs[0].p


def test_what_cannot_be_shown_does_not_pass():
    few = compare(scores_of([1, 0.9]), scores_of([1, 1]), names=["new", "old"], baseline="old")
    assert "too few queries (2)" in look_at(few, 1).reasons[0]
    ten = compare(
        scores_of(np.arange(10) / 10), scores_of(np.ones(10)), names=["new", "old"], baseline="old"
    )
    assert look_at(ten, 1).reasons == [
        "new cannot be tested on RR: 10 queries are too few for look 1 (5 % in all)"
    ]
    assert look_at(against(OLD), 1).reasons == []
    nothing = look_at(against(np.full(400, np.nan), empty="skip"), 1)
    assert nothing.sentences == [f"Look 1: {nothing.reasons[0]}"]
    assert "nan" not in nothing.sentences[0]
    with pytest.raises(UsageError, match=r"look must be at most 10\^15"):
        look_at(against(BAD), 10**400)


@pytest.mark.parametrize("margin", [None, 0.01, 0.9])
@pytest.mark.parametrize("n", [1, 2, 10, 400])
def test_the_scores_of_the_baseline_pass_at_every_look(n, margin):
    scores = [scores_of(OLD[:n])] * 2
    found = compare(*scores, names=["new", "old"], baseline="old", margin=margin)
    for number in (1, 200, 5000):
        look = look_at(found, number)
        assert look.reasons == []
        assert look.sentences == [f"Look {number}: new and old have equal scores on RR"]
        assert look.to_dict()["pairs"][0]["failed"] is False


@pytest.mark.parametrize("number", [1, 200])
def test_a_margin_that_a_look_cannot_show_is_refused_with_the_least(number):
    with pytest.raises(
        UsageError, match=f"400 queries cannot rule out .* at look {number}: "
    ) as no:
        look_at(against(SAME, margin=0.01), number)
    (least,) = map(float, re.findall(r"Use a margin of ([0-9.]+) or more", str(no.value)))
    level = 0.05 * look_share(number)
    equal = EProcess.of(OLD, OLD, 1.0)
    assert equal.p(least) <= level < equal.p(0.98 * least)
    look_at(against(SAME, margin=least), number)


def test_groups_and_undefined_values():
    users = [f"u{number // 4}" for number in range(400)]
    found = compare(
        with_users(BAD, users),
        with_users(OLD, users),
        names=["new", "old"],
        baseline="old",
        by="user",
    )
    (one,) = look_at(found, 1).pairs
    assert one.bets.n_units == 100
    assert one.shown
    holed = BAD.copy()
    holed[:50] = np.nan
    assert look_at(against(holed, empty="skip"), 1).pairs[0].bets.n_units == 350


def test_nonsense_is_refused():
    plain = compare(scores_of(BAD), scores_of(OLD))
    with pytest.raises(UsageError, match="--baseline"):
        look_at(plain, 1)
    for number in (0, -3, 2.5):
        with pytest.raises(UsageError, match="look"):
            look_at(against(BAD), number)
    with pytest.raises(UsageError, match="num_ret has no upper bound"):
        width_of(parse("num_ret"))


def test_a_file_counts_looks_at_each_baseline(tmp_path):
    path = str(tmp_path / "looks.json")
    assert count_look(against(SAME), path) == (1, False)
    assert count_look(against(BAD), path) == (2, False)
    before = os.stat(path).st_mtime_ns
    assert count_look(against(SAME, names=["another name"]), path) == (1, True)
    assert os.stat(path).st_mtime_ns == before
    assert count_look(against(SAME, BAD), path) == (3, False)
    released = compare(scores_of(SAME), scores_of(BAD), names=["a", "b"], baseline="b")
    assert count_look(released, path) == (1, False)
    assert count_look(against(OLD), path) == (4, False)
    assert sorted(map(len, json.loads(Path(path).read_text())["gates"].values())) == [1, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("{", "not JSON"),
        ("[]", "not a file of looks"),
        ('{"gates": 3}', "not a file of looks"),
        ('{"gates": {"x": [1]}}', "not a file of looks"),
        ('{"looks_version": 2, "gates": {}}', "version 2"),
        ('{"gates": {}, "gates": {}}', "appears twice"),
        ("q1 Q0 a 1 1 tag\n", "not JSON"),
    ],
)
def test_a_file_that_is_not_ours_stays_as_it_is(tmp_path, text, message):
    path = tmp_path / "looks.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        count_look(against(SAME), str(path))
    assert path.read_text() == text


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "looks.json", tmp_path):
        with pytest.raises(StorageError):
            count_look(against(SAME), str(place))


@pytest.mark.parametrize("test", TEST_METHODS)
@pytest.mark.parametrize("n", [25, 60])
@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("seeds", [5, pytest.param(12, marks=pytest.mark.slow)])
def test_the_bound_of_a_margin_never_contradicts_its_test(test, n, groups, seeds):
    """The message shows the bound of the one-sided test, not the two-sided interval."""
    users = [f"u{number // (1 if n == 25 else 2)}" for number in range(n)]
    margin = {25: 0.12, 60: 0.1 if groups else 0.05}[n]  # what so many units can show
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        old = rng.uniform(0.2, 0.8, n)
        new = old + rng.normal(-0.6 * margin, 0.1, n).round(2)
        made = (with_users(new, users), with_users(old, users))
        found = compare(
            *made,
            names=["new", "old"],
            baseline="old",
            test=test,
            margin=margin,
            resamples=999,
            by="user" if groups else None,
        )
        (pair,) = found.pairs
        least = pair.least_difference("new")
        shown = pair.non_inferiority("new").p <= 0.05
        if test in ("wilcoxon", "sign"):
            assert np.isnan(least)
        else:
            assert (least > -margin) == shown
            assert least < pair.difference
        for why in worse_than_baseline(found):
            assert not shown
            assert "[" not in why
            assert ("one-sided" in why) == (not np.isnan(least))


def test_the_bound_of_a_margin_is_students():
    found = compare(
        scores_of(SAME), scores_of(OLD), names=["new", "old"], baseline="old", test="t", margin=0.01
    )
    differences = SAME - OLD
    error = differences.std(ddof=1) / 20
    expected = differences.mean() - 1.6486815336 * error
    assert found.pairs[0].least_difference("new") == pytest.approx(expected, rel=1e-6)
    assert np.isnan(against(SAME).pairs[0].least_difference("new0"))
