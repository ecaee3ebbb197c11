"""What the gate says of a comparison: conditions on means, and margins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

from assay import compare
from assay.comparison.gate import failures, parse_condition, worse_than_baseline
from assay.errors import UsageError
from tests.comparison.made_scores import scores_of


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
    with pytest.raises(UsageError, match="A baseline is needed"):
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
    found = compare(*scores, margin=0.01, **settings)
    (why,) = worse_than_baseline(found)
    d = new - old
    error = d.std(ddof=1) / math.sqrt(200)
    least = found.pairs[0].least_difference("new")
    assert least <= d.mean() - student.ppf(0.9, 199) * error  # rare losses may be unseen
    p = student.sf((d.mean() + 0.01) / error, 199)
    assert why == (
        f"new is not shown to be within 0.01 of old on RR: {d.mean():+.4f}, "
        f"at least {least:+.4f} (90 %, one-sided), p = {p:.4f}"
    )
    assert not list(worse_than_baseline(compare(*scores, margin=0.2, **settings)))


def test_a_margin_on_few_queries_cannot_be_tested() -> None:
    rows = np.linspace(0.2, 0.8, 19), np.linspace(0.3, 0.7, 19)
    found = compare(*map(scores_of, rows), names=["new", "old"], baseline="old", margin=0.9)
    (why,) = worse_than_baseline(found)
    assert why.startswith("new cannot be tested on RR: too few queries: 19")
    assert why.endswith("for a margin")
