"""The verdict in one plain sentence, with its numbers apart."""

from __future__ import annotations

import re

import numpy as np
import pytest

from assay import compare
from assay.comparison.verdict import sum_up
from tests.comparison.made_scores import made_scores


def verdict_of(*skills: float, seeds: tuple[int, ...] = (), **settings: object) -> tuple[str, str]:
    numbers = seeds or tuple(range(len(skills)))
    scores = [made_scores(s, skill=skill) for s, skill in zip(numbers, skills, strict=True)]
    names = [f"s{i}" for i in range(len(skills))]
    compared = compare(*scores, names=names, measures="AP", resamples=500, **settings)
    (block,) = compared.blocks
    said, small = block.verdict.headline, block.verdict.numbers
    for pair in compared.pairs:  # the sentence never says more than the tests
        if pair.winner is None and f"better than {pair.a}" in said:
            raise AssertionError(said)
    return said, small


def test_a_lead_that_is_not_significant_is_said_as_a_colleague_would():
    said, small = verdict_of(0.5, 0.5)
    assert said == "s0 scores highest on AP; its lead over s1 is not significant"
    lead = r"Lead \+0\.\d{3} \(95 % CI −0\.\d{3} to \+0\.\d{3}, p = 0\.\d{4}\)"
    assert re.match(lead, small)
    assert "; minimum detectable difference 0." in small


def test_numbers_are_those_of_the_pair():
    scores = [made_scores(i, skill=skill) for i, skill in enumerate((0.5, 0.45))]
    pair = compare(*scores, names=["x", "y"], measures="AP", resamples=500).pairs[0]
    small = sum_up("AP", ["x", "y"], [pair]).numbers.partition(";")[0]
    shown = [float(text.replace("−", "-")) for text in re.findall(r"[+−]\d\.\d+", small)]
    exact = [pair.difference, pair.interval.low, pair.interval.high]
    assert np.abs(np.subtract(shown, exact)).max() <= 5.001e-4


def test_clear_leads_name_all_others_and_the_closest():
    said, small = verdict_of(0.5, 0.45, 0.4)
    assert said == "s0 is better than both others on AP"
    assert small.startswith("Closest competitor: s1, lead +")
    assert verdict_of(0.4, 0.5)[0] == "s1 is better than s0 on AP"


def test_open_leads_are_named_and_clear_ones_are_not():
    said, small = verdict_of(0.5, 0.5, 0.4)
    assert said == "s0 scores highest on AP; its lead over s1 is not significant"
    assert small.startswith("Lead over s1 ")


def test_a_baseline_sorts_the_others_by_outcome():
    said, small = verdict_of(0.5, 0.44, 0.4, 0.44, baseline="s1")
    assert said == "Against s1 on AP: better: s0; worse: s2; no significant difference: s3"
    assert small.count(" · ") == 2


@pytest.mark.parametrize("n", [2, 3])
def test_equal_runs_are_identical(n):
    said, small = verdict_of(*[0.5] * n, seeds=(1,) * n)
    assert re.search(r"are identical on AP: equal on all \d+ queries$", said)
    assert small == ""


def test_too_few_queries_are_said_and_no_number_is_made_up():
    scores = [made_scores(i, n=1) for i in range(2)]
    (block,) = compare(*scores, names=["x", "y"], measures="AP").blocks
    said, small = block.verdict.headline, block.verdict.numbers
    assert said.startswith("Too few queries (1) to compare y and x on AP: at least 3 are needed")
    assert small == ""


def test_an_interval_that_ends_at_0_of_a_sure_lead_says_on_which_side():
    qrels = {f"q{i}": {"d": 1} for i in range(12)}
    others = [{f"e{rank}": 5.0 for rank in range(1 + i)} for i in range(12)]
    behind = {f"q{i}": {"d": 1.0, **others[i % 6]} for i in range(12)}
    ahead = {query: {"d": 9.0} if int(query[1:]) < 5 else behind[query] for query in qrels}
    ahead["q5"] = {"d": 1.0, "e": 5.0} | {f"e{rank}": 5.0 for rank in range(3)}  # 1/5, not 1/7
    (block,) = compare({"a": ahead, "b": behind}, qrels, "RR").blocks
    assert block.verdict.headline.startswith("a is better than b on RR")
    assert "95 % CI just above 0 to +" in block.verdict.numbers
