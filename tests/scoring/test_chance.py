"""Chance and ceiling against brute force over all orders, simulation and published figures."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import assay
from assay import errors
from assay.io.formats import as_judgments, as_ranking
from assay.measures import REGISTRY
from assay.scoring.chance import ceiling, chance
from tests.measures.generic import OF_HITS, settings_of

MEASURES = [
    "P@2",
    "P(trunc=true)@4",
    "R@3",
    "R(cap=true)@2",
    "Success@2",
    "RR",
    "RR@2",
    "AP",
    "AP@3",
    "AP(over=hits)@3",
    "AP(over=k)@3",
    "AP(over=min)@3",
    "MAP@R",
    "GMAP",
    "nDCG",
    "nDCG@3",
    "nDCG(gain=exp)@3",
    "Rprec",
    "Rprec(mult=0.5)",
    "RBP",
    "RBP(graded=true,p=0.9)@4",
    "ERR@4",
    "ERR",
    "bpref",
    "Judged@3",
    "Unjudged@3",
    "iprec@0.5",
    "iprec@0",
    "iAP",
]

COVERED = {assay.parse(name).name for name in MEASURES}
MEASURES += [
    text
    for name, definition in ((name, REGISTRY[name]) for name in OF_HITS)
    if name not in COVERED and "order-free" not in definition.laws
    for text in settings_of(name)
]

# Grades of the six documents of a collection; None: nobody judged it.
COLLECTIONS = [
    [1, None, None, None, None, None],
    [1, 1, 0, 0, None, None],
    [3, 2, 1, 0, -1, None],
    [2, 2, 2, 2, 2, 2],
]


@pytest.mark.parametrize("grades", COLLECTIONS)
def test_all_orders(grades: list[int | None]) -> None:
    docs = [f"d{i}" for i in range(len(grades))]
    qrels = {d: g for d, g in zip(docs, grades, strict=True) if g is not None}
    run = {}
    for number, order in enumerate(itertools.permutations(docs)):
        run[f"q{number:03}"] = {doc: float(-place) for place, doc in enumerate(order)}
    scores = assay.evaluate(run, dict.fromkeys(run, qrels), MEASURES)
    hits = assay.judge(
        assay.Ranking.from_scores([[0.0] * 6], query_ids=["q000"], doc_ids=docs),
        as_judgments({"q000": qrels}),
    )
    got = chance(hits, MEASURES)
    top = ceiling(hits, MEASURES)
    for number, measure in enumerate(scores.measures):
        values = scores.values[number]
        mean, best = got.values[number, 0], top.values[number, 0]
        np.testing.assert_allclose(mean, values.mean(), atol=1e-12, err_msg=str(measure))
        np.testing.assert_allclose(best, values.max(), atol=1e-12, err_msg=str(measure))


def test_published_figures() -> None:
    hits = assay.judge_ranks([1], n_docs=1187)
    mean = chance(hits, ["Success@1", "RR", "nDCG@10"]).mean()
    assert round(mean["Success@1"], 6) == 0.000842
    assert round(mean["RR"], 6) == 0.006451
    assert round(mean["nDCG@10"], 6) == 0.003828


def test_labels_without_self() -> None:
    labels = ["a"] * 4 + ["b"] * 6
    ids = [f"x{i}" for i in range(10)]
    rules = assay.preset("label_retrieval").replace(self_match="exclude", tiebreak="index")
    ranking = assay.Ranking.from_scores(np.eye(10), query_ids=ids, doc_ids=ids)
    judgments = assay.Judgments.from_labels(labels, labels, query_ids=ids, doc_ids=ids)
    hits = assay.judge(ranking, judgments, conventions=rules)
    got = chance(hits, "P@3", conventions=rules)["P@3"]
    np.testing.assert_allclose(got, [3 / 9] * 4 + [5 / 9] * 6)
    assert ceiling(hits, "P@10", conventions=rules)["P@10"][0] == 0.3


def test_simulation_on_a_larger_collection() -> None:
    rng = np.random.default_rng(7)
    n_queries, n_docs, grades = 4000, 60, np.array([3.0, 2, 1, 1, 0])
    ranking = assay.Ranking.from_scores(rng.random((n_queries, n_docs)))
    rows = np.repeat(np.arange(n_queries), len(grades))
    judgments = assay.Judgments.from_pairs(
        assay.Ids.count(n_queries),
        assay.Ids.count(n_docs),
        rows,
        np.tile(np.arange(len(grades)), n_queries),
        np.tile(grades, n_queries),
    )
    hits = assay.judge(ranking, judgments)
    names = ["nDCG@10", "AP", "RR", "Success@5", "ERR@20", "bpref", "iAP", "RBP"]
    seen, expected = assay.score(hits, names), chance(hits, names)
    for name in names:
        error = seen[name].std() / np.sqrt(n_queries)
        assert abs(seen[name].mean() - expected.mean()[name]) < 4 * error


def test_size_must_be_known_and_large_enough() -> None:
    hits = assay.judge_ranks([1, 2])
    with pytest.raises(errors.UsageError, match="n_docs"):
        chance(hits, "RR")
    with pytest.raises(errors.UsageError, match=r"up to 10\^10"):
        chance(hits, "RR", n_docs=10**12)
    assert chance(hits, "RR", n_docs=2).mean()["RR"] == 0.75
    big = assay.judge(
        assay.Ranking.from_scores([[1.0, 0.5]]), assay.Judgments.from_labels([1], [1, 1])
    )
    with pytest.raises(errors.MismatchError, match="collection"):
        chance(big, "RR", n_docs=1)


def test_a_count_up_to_k_depends_on_the_order() -> None:
    hits = assay.judge_ranks([1], n_docs=20)
    assert chance(hits, "num_rel_ret@5").mean()["num_rel_ret@5"] == 0.25


def test_order_free_measures_have_no_chance() -> None:
    assert np.isnan(chance(assay.judge_ranks([1], n_docs=5), "SetP")["SetP"][0])


@pytest.mark.parametrize("empty", ["zero", "skip", "error"])
@pytest.mark.parametrize("name", ["iAP", "iprec@0.5", "ERR", "SetP", "SetF", "num_ret", "num_rel"])
def test_what_is_not_computed_has_no_mean(name: str, empty: str) -> None:
    """Not a number stays not a number, however empty queries count."""
    qrels = {"q": {f"d{i}": 1 for i in range(300)}, "r": {f"d{i}": 1 for i in range(2)}}
    run = {"q": {"d0": 1.0}, "r": {"d0": 1.0}}
    rules = assay.preset("trec_eval").replace(empty=empty)
    hits = assay.judge(as_ranking(run, rules), as_judgments(qrels), conventions=rules)
    found = chance(hits, [name, "AP"], conventions=rules, n_docs=10**6)
    assert np.isnan(found[name]).all()
    assert found.not_computed == {assay.parse(name)}
    grouped = found.with_groups(kind={"q": "a", "r": "b"})
    for mean in (found.mean(), grouped.mean(by="kind")):
        assert np.isnan(mean[name])
        assert mean.counts[name].n == 0
        assert mean["AP"] > 0
    assert np.isnan(grouped.mean(by="kind").groups["a"][name])
    assert found.to_dict()["measures"][name]["mean"] is None


def test_the_command_says_what_is_not_computed(assay: object, tmp_path: object) -> None:
    (tmp_path / "q.txt").write_text("q 0 a 1\nq 0 b 1\nr 0 a 0\n")
    (tmp_path / "r.txt").write_text("q Q0 a 1 2 t\nq Q0 c 2 1 t\nr Q0 a 1 1 t\n")
    measures = ("-m", "iAP", "-m", "SetP", "-m", "AP")
    done = assay(
        *("eval", tmp_path / "r.txt", "-r", tmp_path / "q.txt", *measures),
        *("--chance", "--n-docs", 1_000_000, "--full"),
    )
    rows = {line.split()[0]: line.split() for line in done.out.splitlines() if line.strip()}
    assert rows["iAP"][2:4] == ["–", "0.5000"]
    assert rows["SetP"][2:4] == ["–", "–"]
    assert "chance of iAP is not computed" in done.out
