"""FAULTS 19–27, as far as they concern the core."""

from __future__ import annotations

import numpy as np
import pytest

import assay
from assay.errors import AssayError, MeasureError, UsageError, ValueRangeError
from assay.native import engine_name

MEASURES = ["P@3", "R@3", "Success@2", "RR", "AP", "nDCG@5", "bpref", "ERR@5", "RBP", "Rprec"]


def _constant(n_docs: int = 50, relevant: int = 5) -> tuple[dict, dict]:
    docs = [f"d{i:02}" for i in range(n_docs)]
    return {"q": dict.fromkeys(docs, 1.0)}, {"q": dict.fromkeys(docs[-relevant:], 1)}


def test_19_a_constant_scorer_never_looks_good() -> None:
    """Its expected value is chance, and the result says that ties decided it."""
    from assay.chance import chance

    run, qrels = _constant()
    rules = assay.preset("trec_eval").but(ties="expected")
    scores = assay.evaluate(run, qrels, MEASURES, conventions=rules)
    ranking = assay.Ranking.from_scores(np.ones((1, 50)), doc_ids=list(run["q"]), query_ids=["q"])
    labels = assay.Judgments.from_labels([1], [0] * 45 + [1] * 5, query_ids=["q"],
                                         doc_ids=list(run["q"]))  # fmt: skip
    by_chance = chance(assay.judge(ranking, labels), [m for m in MEASURES if m != "bpref"])
    for measure in by_chance.measures:
        assert scores.mean()[measure] == pytest.approx(by_chance.mean()[measure], abs=1e-12)
    counts = scores.mean().counts
    assert all(counts[name].tied == 1 for name in ("P@3", "RR", "AP", "nDCG@5"))
    assert scores.mean()["RR"] < 0.3


def test_19_even_the_optimistic_rule_is_disclosed() -> None:
    run, qrels = _constant()
    scores = assay.evaluate(run, qrels, "RR", conventions="document_003")
    assert scores.mean()["RR"] == 1.0
    assert scores.mean().counts["RR"].tied_share == 1.0
    assert "ties:best" in scores.signature
    assert "depend on ties" in repr(scores)


def test_20_shuffled_input_gives_the_same_bytes() -> None:
    rng = np.random.default_rng(0)
    lines = [(f"q{q}", f"d{d}", float(rng.integers(3))) for q in range(9) for d in range(12)]
    qrels = [(f"q{q}", f"d{d}", int(rng.integers(3))) for q in range(9) for d in range(0, 12, 2)]
    first = assay.evaluate(lines, qrels, MEASURES)
    for _ in range(5):
        rng.shuffle(lines)
        rng.shuffle(qrels)
        again = assay.evaluate(lines, qrels, MEASURES)
        assert again.values.tobytes() == first.values.tobytes()
        assert again.query_ids == first.query_ids


@pytest.mark.parametrize("k", ["0", "-1", "2.5", "True", "ten", "1e400"])
def test_22_a_senseless_cutoff(k: str) -> None:
    with pytest.raises(MeasureError, match="cut-off|number|whole"):
        assay.parse(f"P@{k}")


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_22_a_senseless_cutoff_by_operator(k: float) -> None:
    with pytest.raises(MeasureError, match="whole number"):
        assay.parse("P@5") @ k


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None, "3"])
def test_22_a_senseless_depth(k: object) -> None:
    with pytest.raises(AssayError, match="whole number"):
        assay.Ranking.from_scores([[1.0, 2.0]]).first(k)


def test_23_k_beyond_the_collection_still_divides_by_k() -> None:
    scores = assay.evaluate({"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1}}, ["P@10", "R@10"])
    assert scores.mean()["P@10"] == 0.1
    assert scores.mean()["R@10"] == 1.0
    ranking = assay.Ranking.from_scores([[0.5, 0.25]])
    assert ranking.complete.all()
    assert len(ranking.first(99).row(0)) == 2


def test_24_the_ninth_digit_counts_in_float64_and_not_in_float32() -> None:
    run = {"q": {"a": 0.123456789, "b": 0.123456788}}
    exact = assay.evaluate(run, {"q": {"a": 1}}, "RR")
    assert exact.mean()["RR"] == 1.0
    assert exact.mean().counts["RR"].tied == 0
    rounded = assay.evaluate(run, {"q": {"a": 1}}, "RR", conventions="trec_eval_9")
    assert rounded.mean().counts["RR"].tied == 1
    assert rounded.mean()["RR"] == 0.5


def test_25_negative_scores_rank_like_any_others() -> None:
    run = {"q": {"a": -3.0, "b": -1.0, "c": -2.0, "d": -0.0, "e": 0.0}}
    ranking = assay.Ranking.from_scores([[-3.0, -1.0, -2.0]])
    assert [doc for doc, _ in ranking.row(0)] == [1, 2, 0]
    scores = assay.evaluate(run, {"q": {"e": 1}}, "RR")
    assert scores.mean().counts["RR"].tied == 1  # -0.0 equals 0.0


def test_26_self_is_excluded_by_id_with_an_exact_duplicate_present() -> None:
    ids = ["x", "copy", "y", "z"]
    vectors = np.array([[1.0, 0], [1, 0], [0, 1], [0.5, 0.5]])
    labels = ["cat", "cat", "dog", "dog"]
    rules = assay.preset("document_000").but(self_match="exclude")
    ranking = assay.Ranking.from_scores(vectors @ vectors.T, query_ids=ids, doc_ids=ids)
    judgments = assay.Judgments.from_labels(labels, labels, query_ids=ids, doc_ids=ids)
    hits = assay.judge(ranking, judgments, conventions=rules)
    assert hits.n_ret.tolist() == [3, 3, 3, 3]
    assert hits.n_docs.tolist() == [3, 3, 3, 3]
    scores = assay.score(hits, ["P@1", "P@4", "R@4"], conventions=rules)
    by_query = dict(zip(scores.query_ids, scores["P@1"], strict=True))
    assert by_query["x"] == 1.0  # the copy is found; the document itself is not
    assert by_query["copy"] == 1.0
    assert scores["P@4"].tolist() == [0.25] * 4  # one relevant document each, k beyond N
    assert scores["R@4"].tolist() == [1.0] * 4


def test_26_labels_of_one_query_only() -> None:
    rules = assay.preset("document_000").but(self_match="exclude")
    ranking = assay.Ranking.from_scores([[1.0, 0.5]], query_ids=["a"], doc_ids=["a", "b"])
    judgments = assay.Judgments.from_labels(["u"], ["u", "v"], query_ids=["a"], doc_ids=["a", "b"])
    scores = assay.score(assay.judge(ranking, judgments, conventions=rules), "RR",
                         conventions=rules)  # fmt: skip
    assert np.isnan(scores["RR"][0])  # only itself carries the label: an empty query
    assert scores.mean().counts["RR"].empty == 1


def test_nan_and_infinite_scores_are_refused_with_their_row() -> None:
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueRangeError, match=r"row 1, column 0 \(query 'r'\)"):
            assay.Ranking.from_scores([[1.0, 2.0], [bad, 0.0]], query_ids=["q", "r"])


def test_inputs_are_never_modified() -> None:
    scores = np.array([[0.1, 0.9, 0.5]])
    before = scores.copy()
    ranking = assay.Ranking.from_scores(scores)
    assert ranking.docs.tolist() == [1, 2, 0]
    assert (scores == before).all()
    assert scores.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        ranking.docs[0] = 7


def test_weights_need_groups() -> None:
    scores = assay.score(assay.judge_ranks([1]), "RR")
    with pytest.raises(UsageError, match="groups"):
        scores.mean(weights={"a": 1.0})
    assert engine_name() in scores.signature
