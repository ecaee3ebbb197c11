"""Faults 19, 20, 22 to 26 and 31: ranking and ties, as far as the core is concerned."""

from __future__ import annotations

import random

import numpy as np
import pytest

from assay import Judgments, Ranking, evaluate, judge, judge_ranks, parse, preset, score
from assay.errors import AssayError, MeasureError, UsageError, ValueRangeError
from assay.scoring.chance import chance

TRAITS = ["P@10", "R@10", "Success@10", "RR", "AP", "nDCG@10", "Rprec", "ERR(gmax=1)", "RBP", "iAP"]


def test_equal_scores_never_look_good():
    n = 60
    run = {"q": {f"d{i:02d}": 0.5 for i in range(n)}}
    for lucky in ("d00", "d30", "d59"):
        hits_chance = chance(judge_ranks([1], n_docs=n), TRAITS)
        rules = preset("trec_eval").replace(ties="expected")
        found = evaluate(run, {"q": {lucky: 1}}, TRAITS, conventions=rules)
        np.testing.assert_allclose(found.values, hits_chance.values, atol=1e-13)
        assert (found.values[:8] < 0.2).all()
        ordered = evaluate(run, {"q": {lucky: 1}}, TRAITS)
        assert ordered.tied.all()  # and where the order decides, the result says so
        assert all(c.tied_share == 1 for c in ordered.mean().counts.values())


def test_even_the_optimistic_rule_is_disclosed():
    run, qrels = {"q": {f"d{i}": 1.0 for i in range(50)}}, {"q": {"d7": 1}}
    scores = evaluate(run, qrels, "RR", conventions="keypoints")
    assert scores.mean()["RR"] == 1.0
    assert scores.mean().counts["RR"].tied_share == 1.0
    assert "ties:best" in scores.signature
    assert "depend on ties" in repr(scores)


@pytest.mark.parametrize("ties", ["order", "expected", "best", "worst", "midrank-up"])
def test_shuffled_input_gives_the_same_bytes(ties, engine):
    rng = random.Random(20)
    run = {f"q{q}": {f"d{d}": float(rng.randint(0, 3)) for d in range(30)} for q in range(20)}
    qrels = {q: {f"d{d}": rng.randint(-1, 3) for d in rng.sample(range(40), 15)} for q in run}
    rules = preset("trec_eval").replace(ties=ties)
    names = [name for name in TRAITS if not name.startswith("ERR")] + ["ERR", "bpref"]
    whole = evaluate(run, qrels, names, conventions=rules)
    for _ in range(3):
        scores = evaluate(_shuffled(run, rng), _shuffled(qrels, rng), names, conventions=rules)
        assert scores.values.tobytes() == whole.values.tobytes()
        assert repr(scores) == repr(whole)


def _shuffled(table: dict, rng: random.Random) -> dict:
    rows = {q: dict(rng.sample(list(row.items()), len(row))) for q, row in table.items()}
    return dict(rng.sample(list(rows.items()), len(rows)))


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "x", float("nan"), float("inf"), 10**16, None])
def test_cutoffs_that_make_no_sense(k):
    for build in (
        lambda: parse(f"P@{k}"),
        lambda: parse("P@1") @ k,
        lambda: evaluate({"q": {"a": 1.0}}, {"q": {"a": 1}}, f"nDCG@{k}"),
    ):
        with pytest.raises(MeasureError):
            build()


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "x", float("nan")])
def test_sizes_that_make_no_sense(size):
    with pytest.raises(UsageError, match="n_docs"):
        judge_ranks([1], n_docs=size)


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None, "3"])
def test_depths_that_make_no_sense(k):
    with pytest.raises(UsageError, match="whole number"):
        Ranking.from_scores([[1.0, 2.0]]).first(k)


def test_k_beyond_the_collection():
    ranking = Ranking.from_scores([[3.0, 2.0, 1.0]])
    assert len(ranking.first(99).row(0)) == 3
    assert ranking.complete.all()
    hits = judge(ranking, Judgments.from_targets([0]))
    found = score(hits, ["P@100", "R@100", "nDCG@100", "P@1000000000000000"]).mean()
    assert found["P@100"] == 1 / 100
    assert found["R@100"] == found["nDCG@100"] == 1
    assert found["P@1000000000000000"] == 1e-15


def test_the_ninth_digit_counts_in_float64(engine):
    run = {"q": {"b": 0.123456789, "a": 0.123456788}}
    assert evaluate(run, {"q": {"b": 1}}, "RR").mean()["RR"] == 1
    assert evaluate(run, {"q": {"a": 1}}, "RR").mean()["RR"] == 0.5
    scores = evaluate(run, {"q": {"a": 1}}, "RR")
    assert not scores.tied.any()
    tiny = {"q": {"a": 1.0, "b": 1.0 + 2**-52}}
    assert evaluate(tiny, {"q": {"b": 1}}, "RR").mean()["RR"] == 1
    assert evaluate(tiny, {"q": {"b": 1}}, "RR", conventions="pytrec_eval").tied.all()


def test_negative_scores_rank_like_any_others(engine):
    run = {"q": {"a": -1.0, "b": -2.0, "c": -1e300, "d": 0.0, "e": -0.0}}
    order = [doc for doc, _ in _ranking(run).row("q")]
    assert order == ["e", "d", "a", "b", "c"]  # −0.0 equals 0.0: the id decides
    assert evaluate(run, {"q": {"e": 1}}, "RR").tied.all()


def _ranking(run: dict) -> Ranking:
    from assay.io.formats import as_ranking

    return as_ranking(run, preset("trec_eval"))


def test_self_is_excluded_by_id_with_a_duplicate_present(engine):
    """The duplicate scores the same and comes first; it must stay, and self must go."""
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    ids = range(4)
    ranking = Ranking.from_scores(vectors @ vectors.T, query_ids=ids, doc_ids=ids)
    rules = preset("label_retrieval").replace(self_match="exclude")
    hits = judge(ranking, Judgments.from_labels([0, 0, 1, 1], [0, 0, 1, 1]), conventions=rules)
    assert score(hits, "RR", conventions=rules)["RR"].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert score(hits, "num_rel", conventions=rules)["num_rel"].tolist() == [1.0] * 4
    assert hits.n_ret.tolist() == hits.n_docs.tolist() == [3] * 4


def test_a_query_that_alone_carries_its_label_is_empty():
    rules = preset("label_retrieval").replace(self_match="exclude")
    ranking = Ranking.from_scores([[1.0, 0.5]], query_ids=["a"], doc_ids=["a", "b"])
    judgments = Judgments.from_labels(["u"], ["u", "v"], query_ids=["a"], doc_ids=["a", "b"])
    scores = score(judge(ranking, judgments, conventions=rules), "RR", conventions=rules)
    assert np.isnan(scores["RR"][0])
    assert scores.mean().counts["RR"].empty == 1


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused_with_their_row(odd):
    with pytest.raises(ValueRangeError, match=r"row 1, column 0 \(query 'r'\)"):
        Ranking.from_scores([[1.0, 2.0], [odd, 0.0]], query_ids=["q", "r"])


@pytest.mark.parametrize("ties", ["order", "expected", "best", "worst", "midrank-up"])
def test_no_relevant_document_and_all_relevant(ties, engine):
    rules = preset("label_retrieval").replace(ties=ties, tiebreak="id-descending")
    run = {"all": {"a": 1.0, "b": 1.0}, "none": {"a": 1.0, "b": 1.0}}
    qrels = {"all": {"a": 1, "b": 1}, "none": {"a": 0, "b": 0}}
    names = [name for name in TRAITS if "@10" not in name] + [
        "bpref",
        "SetF",
        "MAP@R",
        "R@2",
        "P@2",
    ]
    scores = evaluate(run, qrels, names, conventions=rules)
    for name in names:
        in_all, in_none = scores[name]
        assert np.isnan(in_none), name
        if not name.startswith(("ERR", "RBP")):
            assert in_all == 1.0, name
        counts = scores.mean().counts[name]
        assert (counts.n, counts.empty, counts.tied) == (1, 1, 0)


def test_hostile_grades_and_thresholds():
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    qrels = {"q": {"a": 0.5, "b": -1e300, "c": 2}}
    found = evaluate(run, qrels, ["RR(rel=0.5)", "RR(rel=0.6)", "RR(rel=-5)", "R(rel=0)@3", "nDCG"])
    assert found.values[:4, 0].tolist() == [1.0, 1 / 3, 1.0, 1.0]
    assert 0 < found["nDCG"][0] < 1
    for grade in (1e300, 1.7e308):
        for name in ("nDCG", "nDCG(gain=exp)", "ERR", "RBP(graded=true)"):
            _value_or_named_error(run, {"q": {"a": grade, "b": 1}}, name)


def _value_or_named_error(run: dict, qrels: dict, name: str) -> None:
    """Never NaN, never beyond the range, never a bare overflow."""
    try:
        value = evaluate(run, qrels, name)[name][0]
    except AssayError as error:
        assert "grade" in str(error)  # noqa: PT017
    else:
        assert 0 <= value <= 1
