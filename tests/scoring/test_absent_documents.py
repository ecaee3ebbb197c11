"""Chance and ceiling where judged documents are not in the collection, over all orders.

A document that is not in the collection counts in the number of relevant documents and in the
ideal, and no order finds it. Every measure of the registry is enumerated, by its plain definition
and under every convention.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import assay
from assay import errors
from assay.core.conventions import CHOICES, Conventions
from assay.core.hits import Hits
from assay.io.formats import as_judgments, as_ranking
from assay.scoring.chance import ceiling, chance
from tests.measures.generic import every_setting, values_over_orders
from tests.measures.oracle import Grade, Listing

SETTINGS = [text for text in every_setting() if not assay.parse(text).is_order_free]

# Grades of the documents in the collection (None: not judged), and of those that are not in it.
COLLECTIONS: dict[str, tuple[tuple[Grade, ...], tuple[float, ...]]] = {
    "one of two": ((1, None, None, None, None), (1,)),
    "several": ((1, 1, 0, None, None), (1, 1, 1, 0)),
    "graded": ((3, 1, 0, -1, None), (3, 2, 2)),
    "best absent": ((1, 2, 0, 0, None), (3, 3, 3)),
    "absent are not relevant": ((2, 1, None, None, None), (0, 0, -1)),
    "all relevant absent": ((0, 0, None, None, None), (2, 1)),
    "all judged absent": ((None,) * 5, (1, 3, 0)),
    "more judged than documents": ((1, 2, 0, 1, 1), (1,) * 9),
    "one document": ((1,), (1, 2)),
}


def _pairs(grades: tuple[Grade, ...], absent: tuple[float, ...]) -> dict[str, float]:
    """Judgments of the documents d0, d1, … and of x0, x1, …, which no ranking names."""
    judged = {f"d{i}": grade for i, grade in enumerate(grades) if grade is not None}
    return judged | {f"x{i}": grade for i, grade in enumerate(absent)}


def _hits(n_docs: int, qrels: dict[str, float]) -> Hits:
    docs = [f"d{i}" for i in range(n_docs)]
    ranking = assay.Ranking.from_scores([[0.0] * n_docs], query_ids=["q"], doc_ids=docs)
    return assay.judge(ranking, as_judgments({"q": qrels}), allow_mismatch=True)


def test_the_mean_of_reciprocal_ranks() -> None:
    """One relevant document among ten, and one elsewhere: the mean of 1/1, …, 1/10."""
    hits = _hits(10, {"d0": 1, "x": 1})
    exact = sum(1 / r for r in range(1, 11)) / 10
    assert chance(hits, "RR").mean()["RR"] == pytest.approx(exact, abs=1e-15)
    assert round(exact, 4) == 0.2929
    top = ceiling(hits, ["R@10", "AP", "nDCG", "P@1", "Rprec"]).mean()
    assert top["R@10"] == top["AP"] == top["Rprec"] == 0.5
    assert top["nDCG"] == pytest.approx(1 / (1 + 1 / np.log2(3)))
    assert top["P@1"] == 1


@pytest.mark.parametrize("case", COLLECTIONS)
def test_every_measure_by_its_definition(case: str) -> None:
    grades, absent = COLLECTIONS[case]
    hits = _hits(len(grades), _pairs(grades, absent))
    listing = Listing((grades,), (*(g for g in grades if g is not None), *absent))
    mean, best = chance(hits, SETTINGS), ceiling(hits, SETTINGS)
    for name, low, high in zip(SETTINGS, mean.values[:, 0], best.values[:, 0], strict=True):
        values = values_over_orders(assay.parse(name), listing)
        assert low == pytest.approx(np.mean(values), abs=1e-12, nan_ok=True), name
        assert high == pytest.approx(np.max(values), abs=1e-12, nan_ok=True), name


# Some settings leave no relevant document; ids are there to break ties.
_UNFIT = {("empty", "error"), ("tiebreak", "index")}
CONVENTIONS = {
    f"{name}:{choice}": assay.preset("trec_eval").replace(**{name: choice})
    for name, choices in CHOICES.items()
    for choice in choices
    if (name, choice) not in _UNFIT and name != "self"
}


@pytest.mark.parametrize("choice", CONVENTIONS)
@pytest.mark.parametrize("case", ["graded", "all relevant absent"])
def test_every_measure_under_every_convention(case: str, choice: str) -> None:
    rules = CONVENTIONS[choice]
    grades, absent = COLLECTIONS[case]
    mean, best = _over_all_orders(len(grades), _pairs(grades, absent), rules)
    hits = _hits(len(grades), _pairs(grades, absent))
    np.testing.assert_allclose(chance(hits, SETTINGS, conventions=rules).values[:, 0], mean, 1e-12)
    np.testing.assert_allclose(ceiling(hits, SETTINGS, conventions=rules).values[:, 0], best, 1e-12)


def _over_all_orders(n_docs: int, qrels: dict[str, float], rules: Conventions) -> tuple[Any, Any]:
    """Mean and largest value of every setting over all orders, without a tie."""
    orders = itertools.permutations([f"d{i}" for i in range(n_docs)])
    run = {
        f"q{number:03}": {doc: float(-place) for place, doc in enumerate(order)}
        for number, order in enumerate(orders)
    }
    judgments = as_judgments(dict.fromkeys(run, qrels))
    ranking = as_ranking(run, rules)
    hits = assay.judge(ranking, judgments, conventions=rules, allow_mismatch=True)
    values = assay.score(hits, SETTINGS, conventions=rules).values
    return values.mean(axis=1), values.max(axis=1)


@pytest.mark.parametrize("known", [True, False], ids=["ids", "n_docs"])
def test_without_the_query_itself(known: bool) -> None:
    """The query is the document e, which it does not find and need not find."""
    qrels = {"d0": 2, "d1": 1, "d2": 0, "x0": 3, "x1": 1}
    rules = assay.preset("trec_eval").replace(self_match="exclude")
    mean, best = _over_all_orders(4, qrels, rules)
    qrels["e"] = 3
    docs = ["d0", "d1", "d2", "d3", "e"]
    ranking = assay.Ranking.from_scores([[0.0] * 5], query_ids=["e"], doc_ids=docs)
    if not known:
        ranking = as_ranking({"e": dict.fromkeys(docs, 0.0)}, rules)
    hits = assay.judge(ranking, as_judgments({"e": qrels}), conventions=rules)
    sized: dict[str, Any] = {"conventions": rules, "n_docs": None if known else 5}
    np.testing.assert_allclose(chance(hits, SETTINGS, **sized).values[:, 0], mean, 1e-12)
    np.testing.assert_allclose(ceiling(hits, SETTINGS, **sized).values[:, 0], best, 1e-12)


@pytest.mark.parametrize("own", [False, True])
def test_labelled_documents_that_are_not_searched(own: bool) -> None:
    """Eight documents have labels, four of them are in the collection."""
    docs, labels = [f"d{i}" for i in range(8)], ["a", "a", "b", "b", *"aaaa"]
    rules = assay.preset("trec_eval").replace(tiebreak="index")
    rules = rules.replace(self_match="exclude") if own else rules
    judgments = assay.Judgments.from_labels(["a"], labels, query_ids=["d0"], doc_ids=docs)
    measures = ["RR", "AP", "R@2", "P@2", "nDCG@3", "Rprec", "Success@1", "RBP", "MAP@R", "bpref"]

    def judged(scores: list[float]) -> Hits:
        ranking = assay.Ranking.from_scores([scores], query_ids=["d0"], doc_ids=docs[:4])
        return assay.judge(ranking, judgments, conventions=rules)

    values = [
        assay.score(judged(list(order)), measures, conventions=rules).values[:, 0]
        for order in itertools.permutations([0.0, 1.0, 2.0, 3.0])
    ]
    hits = judged([0.0] * 4)
    got = chance(hits, measures, conventions=rules).values[:, 0]
    top = ceiling(hits, measures, conventions=rules).values[:, 0]
    np.testing.assert_allclose(got, np.mean(values, axis=0), 1e-12)
    np.testing.assert_allclose(top, np.max(values, axis=0), 1e-12)


def test_documents_without_ids() -> None:
    """Rows are numbered: a judged number beyond the last row is not in the collection."""
    judgments = assay.Judgments.from_pairs(
        assay.Ids.count(1), assay.Ids.count(12), [0, 0], [3, 11], [1, 1]
    )
    for k in (10, 2):
        ranking = assay.Ranking.from_arrays([list(range(k))], n_docs=10)
        hits = assay.judge(ranking, judgments)
        assert round(chance(hits, "RR").mean()["RR"], 4) == 0.2929
    many = assay.Ranking.from_arrays([[5]], n_docs=10**6)  # of which only row 5 has an id
    far = assay.judge(many, judgments, allow_mismatch=True)
    assert ceiling(far, "R@2").mean()["R@2"] == 1


def _of_run(run: dict[str, float], qrels: dict[str, float]) -> Hits:
    rules = assay.preset("trec_eval")
    return assay.judge(as_ranking({"q": run}, rules), as_judgments({"q": qrels}))


def test_a_run_that_names_the_whole_collection() -> None:
    """Ten documents are named and ten there are: what is not named is not there."""
    hits = _of_run({f"d{i}": float(i) for i in range(10)}, {"d0": 1, "x": 1})
    assert round(chance(hits, "RR", n_docs=10).mean()["RR"], 4) == 0.2929


def test_a_run_that_names_a_part_of_the_collection() -> None:
    """A document that no list names may be in the collection, and counts as in it."""
    hits = _of_run({f"d{i}": float(i) for i in range(9)}, {"d0": 1, "x": 1})
    both = sum((10 - r) / 45 / r for r in range(1, 10))  # the first of two of ten
    assert chance(hits, "RR", n_docs=10).mean()["RR"] == pytest.approx(both, abs=1e-12)


def test_a_size_that_leaves_open_which_documents_are_there() -> None:
    hits = _of_run({f"d{i}": float(i) for i in range(9)}, {"d0": 1, "x": 1, "y": 1})
    for limit in (chance, ceiling):
        with pytest.raises(errors.MismatchError, match="so some judged documents are not in it"):
            limit(hits, "RR", n_docs=10)
        with pytest.raises(errors.MismatchError, match=r"names 9 documents, more than .* 8"):
            limit(hits, "RR", n_docs=8)
    assert chance(hits, "RR", n_docs=11).mean()["RR"] > 0


def test_queries_that_differ_only_in_what_is_absent() -> None:
    """The same judged grades, another part of them in the collection: another chance."""
    docs = [f"d{i}" for i in range(10)]
    ranking = assay.Ranking.from_scores(np.zeros((3, 10)), query_ids=["a", "b", "c"], doc_ids=docs)
    qrels = {"a": {"d0": 1, "x": 1}, "b": {"d0": 1, "d1": 1}, "c": {"x": 1, "y": 1}}
    hits = assay.judge(ranking, as_judgments(qrels))
    both = sum((10 - r) / 45 / r for r in range(1, 10))
    alone = sum(1 / r for r in range(1, 11)) / 10
    np.testing.assert_allclose(chance(hits, "RR")["RR"], [alone, both, 0])
    np.testing.assert_allclose(ceiling(hits, "R@10")["R@10"], [0.5, 1, 0])
    some = hits.select(np.array([2, 0]))
    np.testing.assert_allclose(chance(some, "RR")["RR"], [0, alone])
