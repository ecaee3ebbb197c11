"""The registry: a measure registered by a program of its own, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay import evaluate, judge_ranks, parse, preset
from assay.errors import MeasureError
from assay.inspect.explain import explain
from assay.measures import REGISTRY, Measure
from assay.measures.registry import ExpectationError, measure
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


def test_without_an_expectation_ties_are_refused_and_chance_is_undefined():
    register("Squared")
    with pytest.raises(ExpectationError, match="registered without expected="):
        evaluate(RUN, QRELS, "Squared", conventions=preset("trec_eval").but(ties="expected"))
    best = evaluate(RUN, QRELS, "Squared", conventions=preset("trec_eval").but(ties="best"))
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
