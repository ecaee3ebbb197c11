"""The registry: a measure registered by a program of its own, and what it refuses."""

from __future__ import annotations

import math
import sys
from dataclasses import fields, is_dataclass
from threading import Thread

import numpy as np
import pytest

from assay import evaluate, judge_ranks, parse, preset
from assay.errors import MeasureError
from assay.inspect.explain import explain
from assay.io.formats import as_judgments
from assay.measures import (
    REGISTRY,
    Measure,
    derivations,
    registry,
    views,
)
from assay.measures.registry import ExpectationError, Param, gain_function, measure
from assay.prediction import classes
from assay.scoring.chance import chance

RUN, QRELS = {"q": {"a": 3.0, "b": 2.0, "c": 2.0}}, {"q": {"b": 1, "z": 1}}


@pytest.fixture(autouse=True)
def restored():
    known = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(known)


def register(name: str, **settings) -> None:
    """The square of 1 / r_1, which is not linear in ranks."""

    @measure(name, formula="1 / r_1²", laws={"monotone"}, **settings)
    def squared(at, k):
        """Reciprocal rank, squared."""
        first = np.flatnonzero(at.nth == 1)
        return at.per_query(at.row[first], 1.0 / at.rank[first] ** 2)


def test_a_measure_is_known_by_its_names_at_once_and_gone_with_its_entry():
    register("Squared", aliases=("Quick-Squared",))
    assert parse("squared@5") == parse("quick_squared_5") == Measure("Squared", (), 5)
    assert evaluate(RUN, QRELS, "Squared").mean()["Squared"] == pytest.approx(1 / 9)
    del REGISTRY["Squared"]
    with pytest.raises(MeasureError, match="Unknown measure 'Squared'"):
        parse("Squared")
    with pytest.raises(MeasureError, match="Unknown measure 'Squared'"):
        _ = Measure("Squared").definition


@pytest.mark.parametrize(
    ("name", "aliases", "taken"),
    [
        ("nDCG", (), "ndcg"),
        ("Mine", ("MAP",), "map"),
        ("Mine", ("R-Precision",), "r_precision"),
        ("recall", (), "recall"),
        ("MAP", (), "MAP"),
    ],
)
def test_a_name_in_use_is_refused(name, aliases, taken):
    with pytest.raises(MeasureError, match=rf"takes the name {taken}, which belongs to"):
        register(name, aliases=aliases)


@pytest.mark.parametrize("settings", [{"gain": "gain"}, {"cutoff": "sometimes"}])
def test_an_unknown_setting_is_refused(settings):
    with pytest.raises(MeasureError, match="known: "):
        register("Squared", **settings)
    assert "Squared" not in REGISTRY


def test_a_module_may_register_its_measure_again_as_a_notebook_does():
    register("Squared", aliases=("sq",))
    register("Squared", aliases=("sqr",))
    assert parse("sqr").name == "Squared"
    with pytest.raises(MeasureError, match="Unknown measure 'sq'"):
        parse("sq")


def test_a_measure_registered_again_is_computed_as_it_is_registered_now():
    grades = {"q": {"b": 2, "a": 1}}
    register("Squared", gain="graded")
    assert evaluate(RUN, grades, "Squared").mean()["Squared"] == 1.0
    register("Squared", params={"rel": Param(2, "number", "")})
    assert evaluate(RUN, grades, "Squared").mean()["Squared"] == pytest.approx(1 / 9)


def test_without_an_expectation_ties_are_refused_and_chance_is_undefined():
    register("Squared")
    with pytest.raises(ExpectationError, match="no expectation over tied documents"):
        evaluate(RUN, QRELS, "Squared", conventions=preset("trec_eval").replace(ties="expected"))
    best = evaluate(RUN, QRELS, "Squared", conventions=preset("trec_eval").replace(ties="best"))
    assert best.mean()["Squared"] == 0.25
    assert math.isnan(chance(judge_ranks([1], n_docs=9), "Squared")["Squared"][0])


def test_explain_lists_ranks_gains_and_formula_of_a_measure_without_a_derivation():
    register("Squared", gain="graded")
    found = explain(RUN, {"q": {"a": 2, "c": 3, "z": 1}}, query="q", measure="Squared@2")
    assert found.exact
    assert found.columns == ("found", "gain")
    assert [line.values for line in found.lines] == [(1, 2.0), (2, 3.0)]
    assert found.working == (
        "ranks of the documents that count at ranks ≤ 2: 1, 2; R = 3, retrieved: 3",
        "formula: 1 / r_1²",
        "Squared@2 = 1",
    )


@pytest.mark.parametrize(
    ("gain", "wanted"),
    [
        ("relevant", 4),
        ("relevant or graded", 4),
        ("preference", 4),
        ("judged", 5),
        ("graded", 1 + 2 + 3 + 4),
        ("stop", (1 + 3 + 7 + 15) / 16),
    ],
)
def test_what_a_grade_counts_where_a_measure_has_no_parameters(gain, wanted):
    @measure("Total", formula="Σ g", laws={"monotone"}, gain=gain, cutoff="none", high=None)
    def total(at):
        """Sum of all gains."""
        return at.weigh(np.ones_like, None)

    grades = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 0, "f": -1}
    run = {"q": dict.fromkeys([*grades, "unjudged"], 1.0)}
    assert evaluate(run, {"q": grades}, "Total").mean()["Total"] == wanted


GRADES = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("kind", "params", "wanted"),
    [
        ("relevant", {"rel": 1}, [0, 0, 0, 1, 1, 1]),
        ("relevant", {"rel": 0}, [0, 1, 1, 1, 1, 1]),
        ("relevant", {"rel": -1}, [0, 1, 1, 1, 1, 1]),
        ("preference", {"rel": 1}, [0, -1, -1, 1, 1, 1]),
        ("preference", {"rel": -1}, [0, 1, 1, 1, 1, 1]),
        ("judged", {}, [0, 1, 1, 1, 1, 1]),
        ("graded", {}, [0, 0, 0.5, 1, 2, 3]),
        ("graded", {"gain": "exp"}, [0, 0, math.sqrt(2) - 1, 1, 3, 7]),
        ("graded", {"gain": "exp", "gains": ((2, 5.0), (-1, 4.0))}, [4, 0, 2**0.5 - 1, 1, 5, 7]),
        ("relevant or graded", {"rel": 2, "graded": True}, [0, 0, 0.5, 1, 2, 3]),
        ("relevant or graded", {"rel": 2, "graded": False}, [0, 0, 0, 0, 1, 1]),
        ("stop", {"gmax": 3}, [0, 0, (math.sqrt(2) - 1) / 8, 1 / 8, 3 / 8, 7 / 8]),
    ],
)
def test_from_grades_to_gains(kind, params, wanted):
    gain = gain_function(kind, **params)
    assert gain(GRADES) == pytest.approx(wanted, rel=1e-15, abs=0)
    assert gain(GRADES[:0]).tolist() == []
    assert gain_function(kind, **params) is gain


def test_grades_beyond_a_scale_are_refused_with_their_number():
    def of(grade: float, name: str) -> float:
        return evaluate({"q": {"a": 1.0}}, {"q": {"a": grade}}, name).mean()[name]

    assert of(963, "nDCG(gain=exp)") == 1.0
    with pytest.raises(MeasureError, match="A grade of 964 is too large for gain=exp"):
        of(964, "nDCG(gain=exp)")
    assert of(4, "ERR") == 15 / 16
    with pytest.raises(MeasureError, match=r"grade 5, above gmax=4\. Write ERR\(gmax=5\)"):
        of(5, "ERR")


@pytest.mark.parametrize("module", [classes, derivations, registry, views])
def test_values_cannot_be_changed_and_arrays_are_not_compared(module):
    found = [one for one in vars(module).values() if is_dataclass(one)]
    for one in (one for one in found if one.__module__ == module.__name__):
        assert one.__dataclass_params__.frozen, one
        holds_arrays = any(str(field.type) in ("Ints", "Floats", "Places") for field in fields(one))
        assert one.__dataclass_params__.eq != holds_arrays, one


def test_threads_share_judgments_and_more_cut_offs_than_are_kept():
    judged = as_judgments({f"q{row}": {"a": 1, "b": 2} for row in range(3)})
    run = {f"q{row}": {"a": 2.0, "b": 1.0} for row in range(3)}
    found: list[float] = []

    def evaluate_many(first: int) -> None:
        names = [f"nDCG@{first + k}" for k in range(2, 22)]
        for _ in range(30):
            found.extend(evaluate(run, judged, names).mean().values())

    threads = [Thread(target=evaluate_many, args=(7 * number,)) for number in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
    finally:
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert len(found) == 4 * 30 * 20
    assert len(set(found)) == 1
