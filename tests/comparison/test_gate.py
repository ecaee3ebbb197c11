"""What the gate says of a comparison: conditions on means, and margins."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from assay import compare
from assay.comparison.gate import (
    describe_pass,
    failures,
    parse_condition,
    worse_than_baseline,
)
from assay.errors import UsageError
from tests.comparison.made_scores import scores_of, with_users


def named(means, **settings):
    rows = {name: scores_of(np.tile([mean - 0.1, mean + 0.1], 20)) for name, mean in means.items()}
    return compare(*rows.values(), names=rows, resamples=100, **settings)


def test_the_systems_that_meet_a_condition_are_named_with_their_numbers() -> None:
    found = named({"low": 0.3, "old": 0.5, "high": 0.6}, baseline="old")
    conditions = ["RR < baseline - 0.05", "RR <= 0.6", "RR < baseline * 0.5", "RR < 0.2"]
    assert list(failures(found, map(parse_condition, conditions))) == [
        "low has RR 0.3000 < 0.4500 (RR < baseline - 0.05)",
        "low has RR 0.3000 <= 0.6000 (RR <= 0.6)",
        "high has RR 0.6000 <= 0.6000 (RR <= 0.6)",
    ]
    assert list(failures(found, [parse_condition("RR < baseline + 0.2")])) == [
        "low has RR 0.3000 < 0.7000 (RR < baseline + 0.2)",
        "high has RR 0.6000 < 0.7000 (RR < baseline + 0.2)",
    ]
    assert str(parse_condition("RR < baseline + 0")) == "RR < baseline"


def test_a_baseline_is_needed_where_a_condition_names_one() -> None:
    found = named({"low": 0.3, "high": 0.6})
    assert len(list(failures(found, [parse_condition("RR < 0.7")]))) == 2
    with pytest.raises(UsageError, match="'RR < baseline' refers to a baseline: name it"):
        list(failures(found, [parse_condition("RR < baseline")]))
    with pytest.raises(UsageError, match="A baseline is required"):
        list(worse_than_baseline(found))


def test_a_system_without_a_mean_fails() -> None:
    rows = (np.full(10, math.nan), np.linspace(0.1, 0.9, 10))
    systems = [scores_of(row, empty="skip") for row in rows]
    found = compare(*systems, names=["x", "y"], baseline="y")
    conditions = map(parse_condition, ("RR < 0.1", "RR < baseline"))
    assert list(failures(found, conditions)) == [
        "x has no RR to check against 'RR < 0.1'",
        "x has no RR to check against 'RR < baseline'",
    ]
    turned = compare(*systems, names=["x", "y"], baseline="x")
    assert list(failures(turned, [parse_condition("RR < baseline")])) == [
        "y has no RR to check against 'RR < baseline'"
    ]


@pytest.mark.parametrize("limit", [0.3, 1e6])
def test_only_rounding_is_forgiven(limit) -> None:
    below, at_most = parse_condition(f"RR < {limit}"), parse_condition(f"RR <= {limit}")
    size = max(1.0, limit)
    assert not below.fails(limit - 5e-13 * size, 0.0)
    assert below.fails(limit - 5e-12 * size, 0.0)
    assert at_most.fails(limit + 5e-13 * size, 0.0)
    assert not at_most.fails(limit + 5e-12 * size, 0.0)


def test_the_gate_of_a_margin_names_its_bound() -> None:
    rng = np.random.default_rng(3)
    old = rng.uniform(0.3, 0.7, 200)
    new = old - 0.02 + rng.normal(0, 0.05, 200)
    scores = [scores_of(row) for row in (new, old)]
    settings = {"names": ["new", "old"], "baseline": "old", "test": "t", "level": 0.1}
    found = compare(*scores, margin=0.015, **settings)
    (why,) = worse_than_baseline(found)
    d = new - old
    error = d.std(ddof=1) / math.sqrt(200)
    least = found.pairs[0].least_difference("new")
    assert least <= d.mean() - student.ppf(0.9, 199) * error  # rare losses may be unseen
    p = student.sf((d.mean() + 0.015) / error, 199)
    assert why == (
        f"new may lose 0.015 or more against old on RR: −{-d.mean():.4f}, "
        f"at least −{-least:.4f} (90 %, one-sided), p = {p:.4f}"
    )
    assert not list(worse_than_baseline(compare(*scores, margin=0.2, **settings)))


def test_a_margin_on_few_queries_cannot_be_tested() -> None:
    rows = np.linspace(0.2, 0.8, 19), np.linspace(0.3, 0.7, 19)
    found = compare(*map(scores_of, rows), names=["new", "old"], baseline="old", margin=0.9)
    with pytest.raises(UsageError, match="A margin needs at least 20 queries; RR has 19"):
        list(worse_than_baseline(found))


TESTS = [("randomisation", name) for name in ("max-t", "holm", "bonferroni", "bh", "tukey", "none")]
TESTS += [(test, "holm") for test in ("t", "wilcoxon", "sign", "bootstrap")]


@pytest.mark.parametrize(("test", "correction"), TESTS)
@pytest.mark.parametrize("n", [1, 2, 5, 19, 50])
@pytest.mark.parametrize("margin", [None, 0.0001, 0.02])
def test_the_scores_of_the_baseline_pass(test, correction, n, margin) -> None:
    """However few the queries, alone and among others that differ."""
    old = np.random.default_rng(n).uniform(0, 1, n)
    how = {"baseline": "old", "test": test, "correction": correction, "resamples": 100}
    for rows in ([old, old], [old, old, old]):
        names = [*(f"same{number}" for number in range(len(rows) - 1)), "old"]
        systems = [scores_of(row) for row in rows]
        found = compare(*systems, names=names, margin=margin, level=0.001, **how)
        assert list(worse_than_baseline(found)) == []
        said = describe_pass(found, "old.run")
        assert said.startswith("same scores as old.run on RR")
        assert ("The margin will be refused once scores change: " in said) == (margin is not None)
    better = compare(
        *map(scores_of, (old, np.clip(old + 0.5, 0, 1), old)),
        names=["same", "better", "old"],
        **how,
    )
    assert not any(why.startswith("same") for why in worse_than_baseline(better))


def test_undefined_scores_are_not_those_of_the_baseline() -> None:
    old = np.linspace(0.2, 0.8, 40)
    holed = np.where(np.arange(40) < 5, math.nan, old)
    how = {"names": ["new", "old"], "baseline": "old", "margin": 0.02}
    both = compare(*[scores_of(holed, empty="skip")] * 2, **how)
    assert list(worse_than_baseline(both)) == []
    for pair in ((holed, old), (old, holed)):
        with pytest.raises(UsageError, match=r"35 queries cannot rule out a loss of 0\.02"):
            list(worse_than_baseline(compare(*[scores_of(x, empty="skip") for x in pair], **how)))
    nothing = compare(*[scores_of(np.full(9, math.nan), empty="skip")] * 2, **how)
    assert len(list(worse_than_baseline(nothing))) == 1


@pytest.mark.parametrize("n", [20, 50, 300])
@pytest.mark.parametrize("level", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("test", ["randomisation", "t", "wilcoxon", "sign", "bootstrap"])
def test_the_least_margin_is_the_least_that_equal_scores_show(n, level, test) -> None:
    """The brute-force bound: equal scores are within it, and not within a little less."""
    z = float(norm.isf(level))
    # A share of lost queries that n miss with this probability, and Wilson's bound of none in n.
    least = max(1 - level ** (1 / n), z * z / (n + z * z))
    old = np.linspace(0.2, 0.8, n)
    changed = np.where(np.arange(n) == 3, old + 1e-9, old)

    def compared(margin, new):
        return compare(
            *map(scores_of, (new, old)),
            names=["new", "old"],
            baseline="old",
            test=test,
            level=level,
            margin=margin,
            resamples=1000,
        )

    for margin, shown in ((1.001 * least, True), (0.999 * least, False)):
        (pair,) = compared(margin, old).pairs
        if test not in ("t", "bootstrap"):  # which are not defined for equal differences
            assert (pair.non_inferiority("new").p <= level) == shown
        assert pair.least_margin == pytest.approx(least, rel=1e-6)
    with pytest.raises(UsageError) as refused:
        list(worse_than_baseline(compared(0.999 * least, changed)))
    (named_margin,) = re.findall(r"Use a margin of ([0-9.]+) or more", str(refused.value))
    assert least <= float(named_margin) <= 1.01 * least
    assert list(worse_than_baseline(compared(float(named_margin), old))) == []
    list(worse_than_baseline(compared(float(named_margin), changed)))  # is not refused


def test_a_margin_that_no_resample_could_show_is_refused() -> None:
    old = np.linspace(0.2, 0.8, 60)
    found = compare(
        *map(scores_of, (old + 0.01, old)),
        names=["new", "old"],
        baseline="old",
        margin=0.5,
        level=0.005,
        resamples=100,
    )
    with pytest.raises(UsageError, match=r"level 0.005 with 100 resamples. Use more resamples"):
        list(worse_than_baseline(found))


def test_a_passing_gate_says_what_it_has_shown() -> None:
    found = named({"new": 0.6, "old": 0.5}, baseline="old")
    assert describe_pass(found, "old.run") == "no significant loss against old.run on RR"
    wide = named({"new": 0.6, "old": 0.5}, baseline="old", margin=0.2)
    assert describe_pass(wide, "old.run") == "no loss of 0.2 or more against old.run on RR"


def test_probably_worse_passes_and_is_said() -> None:
    base = np.random.default_rng(2).random(40)
    lost = base - 0.1 - 0.01 * np.random.default_rng(3).random(40)
    lost[:2] += 0.6  # two large wins
    found = compare(scores_of(lost), scores_of(base), names=["new", "old"], baseline="old")
    assert found.pairs[0].p < 0.01
    assert list(worse_than_baseline(found)) == []
    assert describe_pass(found, "old.run") == (
        "no certain loss against old.run on RR. Probably worse: new on RR (the difference rests on "
        "few or one-sided queries). Use --margin to fail unless a loss is ruled out"
    )
    lost[:2] = base[:2] - 0.105
    sure = compare(scores_of(lost), scores_of(base), names=["new", "old"], baseline="old")
    assert [text.split(":")[0] for text in worse_than_baseline(sure)] == [
        "new is worse than old on RR"
    ]


def test_the_gate_counts_groups_as_the_comparison_does() -> None:
    rng = np.random.default_rng(7)
    users = [f"u{i // 10}" for i in range(200)]
    noise = 0.1 * rng.normal(size=20)
    shared = np.repeat(noise - noise.mean() - 0.03, 10)
    old = rng.uniform(0.3, 0.7, 200)
    new = np.clip(old + shared, 0, 1)
    alone = compare(scores_of(new), scores_of(old), names=["new", "old"], baseline="old")
    rows = [with_users(row, users) for row in (new, old)]
    grouped = compare(*rows, names=["new", "old"], baseline="old", by="user")
    assert list(worse_than_baseline(alone))
    assert not list(worse_than_baseline(grouped))
    assert grouped.pairs[0].n_units == 20
    assert grouped.to_dict()["queries"]["groups"] == 20
    assert grouped.to_dict()["queries"]["effective_groups"] == pytest.approx(20)
    assert "(20 groups, which count like 20.0 of equal size)" in grouped.method
