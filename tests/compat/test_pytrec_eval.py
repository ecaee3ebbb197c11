"""pytrec_eval's names: its example, its numbers, its errors, and what is not there."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

import assay.compat.pytrec_eval as ours
from assay.errors import FormatError

QREL = {"q1": {"d1": 0, "d2": 1, "d3": 0}, "q2": {"d2": 1, "d3": 1}}
RUN = {"q1": {"d1": 1.0, "d2": 0.0, "d3": 1.5}, "q2": {"d1": 1.5, "d2": 0.2, "d3": 0.5}}
ASKED = sorted({*ours.supported_measures, "ndcg_cut.3,7", "P_2", "success.4", "map_cut_1"})


def test_its_own_example() -> None:
    found = ours.RelevanceEvaluator(QREL, {"map", "ndcg"}).evaluate(RUN)
    assert json.loads(json.dumps(found)) == {
        "q1": {"map": pytest.approx(1 / 3), "ndcg": 0.5},
        "q2": {"map": pytest.approx(7 / 12), "ndcg": pytest.approx(0.6934264036172708)},
    }


# Negative grades make the package's own G loop for ever.
_NOT_NEGATIVE = ("G", "Rndcg", "binG", "infAP", "ndcg_rel")


def _random_data(chance: random.Random, least: int) -> tuple[dict[str, Any], dict[str, Any]]:
    docs = [f"d{i}" for i in range(chance.randint(1, 25))]

    def some() -> list[str]:
        return chance.sample(docs, chance.randint(0, len(docs)))

    qrel = {f"q{i}": {doc: chance.randint(least, 3) for doc in some()} for i in range(5)}
    run = {f"q{i}": {doc: float(chance.randint(0, 5)) for doc in some()} for i in range(6)}
    return qrel, run


@pytest.mark.parametrize("measure", [name for name in ASKED if name not in ("runid", "relstring")])
def test_numbers_are_those_of_the_package(measure: str) -> None:
    theirs = pytest.importorskip("pytrec_eval")
    chance = random.Random(measure)
    for level, judged_only in ((1, False), (2, False), (1, True)):
        for _ in range(4):
            qrel, run = _random_data(chance, 0 if measure in _NOT_NEGATIVE else -1)
            want = theirs.RelevanceEvaluator(qrel, {measure}, level, judged_only).evaluate(run)
            found = ours.RelevanceEvaluator(qrel, {measure}, level, judged_only).evaluate(run)
            assert found.keys() == want.keys()
            for query, values in want.items():  # without a relevant document some are NaN there
                known = {name: value for name, value in values.items() if not math.isnan(value)}
                assert found[query].keys() == values.keys()
                shown = {name: found[query][name] for name in known}
                assert shown == pytest.approx(known, abs=1e-12), (measure, query)
                assert all(found[query][name] == 0 for name in values.keys() - known.keys())


def test_aggregates_are_those_of_the_package() -> None:
    theirs = pytest.importorskip("pytrec_eval")
    for name in ("map", "num_ret", "gm_map"):
        values = [-0.5, -2.0, -0.1]
        want = theirs.compute_aggregated_measure(name, values)
        assert ours.compute_aggregated_measure(name, values) == pytest.approx(want, rel=1e-15)


def test_nothing_is_evaluated_where_nothing_is_there() -> None:
    assert ours.RelevanceEvaluator(QREL, {"map"}).evaluate({}) == {}
    assert ours.RelevanceEvaluator({}, {"map"}).evaluate(RUN) == {}
    assert ours.RelevanceEvaluator(QREL, set()).evaluate(RUN) == {"q1": {}, "q2": {}}
    assert ours.RelevanceEvaluator(QREL, {"map"}).evaluate({"other": {"d1": 1.0}}) == {}


def test_parameters_that_are_given_replace_the_default_ones() -> None:
    asked = ["ndcg_cut", "ndcg_cut.1,4", "ndcg_cut_15", "success"]
    found = ours.RelevanceEvaluator(QREL, asked).evaluate(RUN)["q1"]
    cuts = {"ndcg_cut_1", "ndcg_cut_4", "ndcg_cut_15"}
    assert found.keys() == cuts | {"success_1", "success_5", "success_10"}


def test_nicknames_hold_what_is_supported() -> None:
    found = ours.RelevanceEvaluator(QREL, {"official"}).evaluate(RUN)["q1"]
    assert {"map", "gm_map", "P_5", "P_1000", "iprec_at_recall_0.00", "num_q"} <= set(found)
    assert "ndcg" not in found
    everything = ours.RelevanceEvaluator(QREL, {"all_trec"}).evaluate(RUN)["q1"]
    assert everything["Rprec_mult_1.00"] == everything["Rprec"]


@pytest.mark.parametrize("name", ["prefs_simp", "map_avgjg", "nothing", "map_x"])
def test_what_is_not_there_is_said(name: str) -> None:
    with pytest.raises(ValueError, match=f"unsupported measure {name}"):
        ours.RelevanceEvaluator(QREL, {name})


@pytest.mark.parametrize(
    "wrong", [None, [("q", "d")], {"q": [1]}, {1: {"d": 1}}, {"q": {1: 1}}, {"q": {"d": 0.5}}]
)
def test_other_shapes_are_type_errors(wrong: Any) -> None:
    with pytest.raises(TypeError):
        ours.RelevanceEvaluator(wrong, {"map"})


def test_lines_are_parsed() -> None:
    run = ["q1 Q0 d1 1 2.5 me\n", "q1 Q0 d2 2 1e-3 me\n"]
    assert ours.parse_run(run) == {"q1": {"d1": 2.5, "d2": 0.001}}
    assert ours.parse_qrel(["q1 0 d1 1", "q2 0 d1 -1"]) == {"q1": {"d1": 1}, "q2": {"d1": -1}}
    with pytest.raises(AssertionError, match="line 2 names d1 twice"):
        ours.parse_qrel(["q1 0 d1 1", "q1 0 d1 0"])
    with pytest.raises(ValueError, match="line 1 has 3 columns"):
        ours.parse_qrel(["q1 d1 1"])
    with pytest.raises(FormatError, match="line 2 has 'x' for a whole number"):
        ours.parse_qrel(["q1 0 d1 1", "q1 0 d2 x"])
