"""judge: the one join; judgments of every kind that say the same give the same hits."""

from __future__ import annotations

import numpy as np
import pytest

from assay import Hits, Ids, Judgments, Ranking, evaluate, judge, judge_ranks, preset, score
from assay.core.conventions import Conventions
from assay.core.object_join import judge_objects
from assay.errors import (
    ConventionError,
    IdError,
    MismatchError,
    ShapeError,
    UsageError,
    ValueRangeError,
)
from assay.io.formats import as_judgments, as_ranking

# With one relevant document, or labels, every measure sees a judgment for each document.
MEASURES = [
    "P@3",
    "R@3",
    "Success@2",
    "RR",
    "AP",
    "AP(over=hits)@4",
    "nDCG",
    "Rprec",
    "bpref",
    "MAP@R",
    "RBP",
    "ERR(gmax=1)",
    "iprec@0.5",
    "iAP",
    "Judged@3",
    "Unjudged@3",
    "SetF",
    "num_ret",
    "num_rel",
    "num_nonrel_judged_ret",
]
TIES = ("order", "expected", "best", "worst", "midrank-up")
INDEX = preset("label_retrieval")


def tied_scores(n_queries: int, n_docs: int, levels: int = 4) -> np.ndarray:
    return np.random.default_rng(n_docs).integers(0, levels, (n_queries, n_docs)).astype(float)


def all_values(hits: Hits, ties: str) -> np.ndarray:
    return score(hits, MEASURES, conventions=INDEX.replace(ties=ties)).values


def qrels_of(relevant: np.ndarray) -> Judgments:
    """Every pair judged, 1 or 0."""
    queries, docs = np.indices(relevant.shape)
    return Judgments.from_pairs(
        Ids.count(relevant.shape[0]),
        Ids.count(relevant.shape[1]),
        queries.ravel(),
        docs.ravel(),
        relevant.astype(float).ravel(),
    )


# Judgments of different kinds


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("exclude", [False, True])
def test_labels_agree_with_the_qrels_they_stand_for(ties, exclude):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, 15)
    query_labels = np.append(labels[:9], 77)  # a label that no document has
    ranking = Ranking.from_scores(tied_scores(10, 15), query_ids=range(10), doc_ids=range(15))
    rules = INDEX.replace(self_match="exclude") if exclude else INDEX
    by_label = judge(ranking, Judgments.from_labels(query_labels, labels), conventions=rules)
    by_pair = judge(ranking, qrels_of(query_labels[:, None] == labels), conventions=rules)
    np.testing.assert_allclose(all_values(by_label, ties), all_values(by_pair, ties), atol=1e-13)
    assert by_label.n_docs.tolist() == by_pair.n_docs.tolist()


@pytest.mark.parametrize("ties", TIES)
def test_targets_agree_with_the_qrels_they_stand_for(ties):
    targets = np.array([3, 0, -1, 7, 7, 2])
    ranking = Ranking.from_scores(tied_scores(6, 8))
    by_target = judge(ranking, Judgments.from_targets(targets), conventions=INDEX)
    by_pair = judge(ranking, qrels_of(targets[:, None] == np.arange(8)), conventions=INDEX)
    np.testing.assert_allclose(all_values(by_target, ties), all_values(by_pair, ties), atol=1e-13)


@pytest.mark.parametrize("ties", TIES)
def test_bare_ranks_agree_with_a_full_list(ties):
    scores, targets = tied_scores(40, 12, levels=5), np.arange(40) % 12
    at_target = scores[np.arange(40), targets][:, None]
    above, tied = (scores > at_target).sum(1), (scores == at_target).sum(1) - 1
    before = [(row[:t] == row[t]).sum() for row, t in zip(scores, targets, strict=True)]
    bare = judge_ranks(above + 1, tied=tied, placed=above + 1 + before, n_docs=12)
    full = judge(Ranking.from_scores(scores), Judgments.from_targets(targets), conventions=INDEX)
    np.testing.assert_allclose(all_values(bare, ties), all_values(full, ties), atol=1e-13)
    for name in ("rank", "rank_lo", "rank_hi", "n_docs", "n_ret"):
        assert getattr(bare, name).tolist() == getattr(full, name).tolist(), name


def test_text_targets_and_labels():
    ranking = Ranking.from_scores([[1.0, 3.0, 2.0]], query_ids=["q"], doc_ids=["x", "y", "z"])
    target = Judgments.from_targets(["z"], query_ids=["q"], doc_ids=["x", "y", "z"])
    assert judge(ranking, target).rank.tolist() == [2]
    labels = Judgments.from_labels(["b"], ["b", "a", "b"], query_ids=["q"], doc_ids=["x", "y", "z"])
    assert judge(ranking, labels).rank.tolist() == [2, 3]


def test_documents_are_joined_by_id_not_by_number():
    ranking = Ranking.from_scores([[3.0, 2.0, 1.0]], doc_ids=[30, 10, 20])
    target = Judgments.from_targets([20], doc_ids=[20, 30])
    assert judge(ranking, target).rank.tolist() == [3]


def test_with_ids_a_target_is_an_id_also_where_ids_are_numbers():
    assert Judgments.from_targets([30, None, -1], doc_ids=[20, 30]).docs.tolist() == [1]
    with pytest.raises(IdError, match="not among doc_ids"):
        Judgments.from_targets([0], doc_ids=[20, 30])


# Bare ranks


def test_bare_ranks_in_detail():
    hits = judge_ranks([2, 0, 5], tied=[3, 0, 0], query_ids=["c", "a", "b"])
    assert list(hits.query_ids) == ["a", "b", "c"]
    assert hits.rank_lo.tolist() == [5, 2]
    assert hits.rank.tolist() == hits.rank_hi.tolist() == [5, 5]  # by default the last of its group
    values = score(hits, "RR", conventions="trec_eval")["RR"]
    assert values.tolist() == [0.0, 0.2, 0.2]


@pytest.mark.parametrize(
    ("ranks", "options", "error"),
    [
        ([-1], {}, ValueRangeError),
        ([1.5], {}, ValueRangeError),
        ([float("nan")], {}, ValueRangeError),
        ([float("inf")], {}, ValueRangeError),
        (["1"], {}, ShapeError),
        ([[1]], {}, ShapeError),
        ([[1], [1, 2]], {}, ShapeError),
        (None, {}, ShapeError),
        ([1], {"tied": [-1]}, ValueRangeError),
        ([1], {"tied": [1, 2]}, MismatchError),
        ([5], {"n_docs": 4}, ValueRangeError),
        ([2], {"tied": [3], "n_docs": 4}, ValueRangeError),
        ([2], {"tied": [1], "placed": [1]}, ValueRangeError),
        ([2], {"tied": [1], "placed": [4]}, ValueRangeError),
        ([1, 1], {"query_ids": ["a", "a"]}, IdError),
        ([1], {"query_ids": ["a", "b"]}, MismatchError),
        ([1], {"has_target": [True, False]}, MismatchError),
        ([1], {"n_docs": 0}, UsageError),
        ([1], {"n_docs": True}, UsageError),
    ],
)
def test_bad_ranks_are_refused(ranks, options, error):
    with pytest.raises(error):
        judge_ranks(ranks, **options)


@pytest.mark.parametrize(
    ("ranks", "options", "words"),
    [
        (
            [1, 5],
            {"n_docs": 4},
            r"row 1: rank 5 with tie group 5…5 does not fit into 4 documents\.",
        ),
        ([2], {"tied": [1], "placed": [4]}, r"row 0: rank 4 with tie group 2…3 does not fit\."),
    ],
)
def test_a_rank_that_does_not_fit_is_named(ranks, options, words):
    with pytest.raises(ValueRangeError, match=words):
        judge_ranks(ranks, **options)


def test_ranks_at_their_limits():
    hits = judge_ranks([1, 4, 0], tied=[3, 0, 0], placed=[1, 4, 0], n_docs=4)
    assert (hits.rank.tolist(), hits.rank_hi.tolist()) == ([1, 4], [4, 4])
    assert hits.n_ret.tolist() == hits.n_docs.tolist() == [4, 4, 4]
    unknown = judge_ranks([1, 4, 0], tied=[2, 0, 0])
    assert unknown.n_ret.tolist() == [3, 4, 0]
    assert unknown.n_docs.tolist() == [0, 0, 0]
    some = judge_ranks([1, 2, 2], has_target=[True, False, True])
    assert (some.offsets.tolist(), some.pool_offsets.tolist()) == ([0, 1, 1, 2],) * 2
    assert some.tied_rows.tolist() == []
    assert hits.tied_rows.tolist() == [0]


@pytest.mark.parametrize(
    ("ranks", "tied", "n_docs", "flat"),
    [
        ([1, 1], [3, 3], 4, True),
        ([1, 0], [3, 0], 4, True),  # one was not found
        ([1, 1], [3, 2], 4, False),
        ([1, 1], [3, 3], None, False),
        ([1, 1], [0, 0], 1, False),  # among one document nothing is to be ranked
        ([1], [1], 2, True),
        ([0], [0], 4, False),
    ],
)
def test_ranks_of_a_constant_scorer(ranks, tied, n_docs, flat):
    remarks = judge_ranks(ranks, tied=tied, n_docs=n_docs).remarks
    assert [words.startswith("every query gives all") for words in remarks] == [True] * flat


# Self matches


@pytest.mark.parametrize("n_kept", [2, 5, 6])
def test_self_is_excluded_by_id(n_kept):
    """Also at k ≥ N, with a duplicate of itself, and where itself does not come first."""
    ids = ["a", "b", "c", "d", "e", "f"]
    scores = np.array([[5.0, 5, 5, 1, 0, 9], [1, 2, 3, 4, 5, 6], [0, 0, 0, 0, 0, 0]])
    labels = ["x", "x", "y", "y", "x", "x"]
    docs = np.argsort(-scores, kind="stable")[:, :n_kept]
    ranking = Ranking.from_arrays(
        docs, np.take_along_axis(scores, docs, 1), doc_ids=ids, query_ids=ids[:3]
    )
    rules = INDEX.replace(self_match="exclude")
    judgments = Judgments.from_labels(labels[:3], labels, query_ids=ids[:3], doc_ids=ids)
    found = judge(ranking, judgments, conventions=rules)
    others = {q: {d: s for d, s in ranking.row(q) if d != q} for q in ids[:3]}
    pairs = {
        q: {d: float(labels[i] == label) for i, d in enumerate(ids) if d != q}
        for q, label in zip(ids, labels[:3], strict=False)
    }
    for name in ("P@10", "R@3", "AP", "nDCG@3", "bpref", "num_ret", "num_rel"):
        wanted = evaluate(others, pairs, name, conventions=preset("label_retrieval"))[name]
        np.testing.assert_allclose(score(found, name, conventions=rules)[name], wanted, atol=1e-15)
    assert found.n_docs.tolist() == [5, 5, 5]


def test_self_is_never_counted_as_relevant():
    rules = preset("beir")
    run, qrels = {"a": {"a": 9.0, "b": 1.0}}, {"a": {"a": 1, "b": 1}}
    found = evaluate(run, qrels, ["RR", "num_rel", "num_ret", "R@1"], conventions=rules).mean()
    assert dict(found) == {"RR": 1.0, "num_rel": 1.0, "num_ret": 1.0, "R@1": 1.0}


def test_self_counts_for_a_missing_query_and_outside_the_run():
    labels = Judgments.from_labels([1, 2], [1, 2, 1], query_ids=["a", "b"], doc_ids=["a", "b", "c"])
    hits = judge(as_ranking({"a": {"b": 1.0}}, preset("beir")), labels, conventions=preset("beir"))
    assert hits.n_docs.tolist() == [2, 2]
    assert hits.missing.tolist() == [False, True]
    assert score(hits, "num_rel").values.tolist() == [[1.0, 0.0]]


# What does not belong together


def test_no_query_in_common():
    with pytest.raises(MismatchError, match=r"None of the .* judged queries is in the run"):
        evaluate({"q1": {"a": 1.0}}, {"1": {"a": 1}}, "RR")


def test_an_unlabelled_document_is_named():
    ranking = Ranking.from_scores([[1.0, 2.0]], doc_ids=["a", "b"])
    judgments = Judgments.from_labels(["x"], ["x"], doc_ids=["a"])
    with pytest.raises(MismatchError, match="'b'"):
        judge(ranking, judgments)


@pytest.mark.parametrize(
    ("n_docs", "n_labels", "words"), [(5, 2, "^3 .* document 2"), (3, 2, "^1 .* document 2")]
)
def test_how_many_documents_have_no_label(n_docs, n_labels, words):
    ranking = Ranking.from_scores([list(range(n_docs))])
    with pytest.raises(MismatchError, match=words):
        judge(ranking, Judgments.from_labels([1], [1] * n_labels))
    few = Ranking.from_arrays([[0]], n_docs=2**40)
    words = f"{2**40 - 2} ranked documents have no label, e.g. document {2**40 - 1}[.]"
    with pytest.raises(MismatchError, match=words):
        judge(few, Judgments.from_labels([1], [1, 1]))
    assert judge(ranking, Judgments.from_labels([1], [1] * n_docs)).n_docs.tolist() == [n_docs]


def test_missing_queries_are_named():
    run, qrels = {"b": {"x": 1.0}}, {q: {"x": 1} for q in "cba"}
    with pytest.raises(MismatchError, match="without a ranking: 'a', 'c'"):
        evaluate(run, qrels, "RR", conventions=preset("trec_eval").replace(missing="error"))


def test_a_divided_tie_group_names_its_query():
    run = {"p": {"a": 2.0, "b": 1.0, "c": 1.0}, "q": {"a": 1.0, "b": 1.0}, "r": {"a": 1.0}}
    rules = preset("trec_eval").replace(depth=1, ties="expected")
    with pytest.raises(ConventionError, match=r"first in query 'q' \(1 such queries\)"):
        judge(
            as_ranking(run, preset("trec_eval")), as_judgments({"p": {"a": 1}}), conventions=rules
        )
    split = as_ranking(run, preset("trec_eval")).first(2).tie_split
    assert split.tolist() == [True, False, False]


def test_judgments_must_be_judgments():
    with pytest.raises(UsageError, match="dict"):
        judge(Ranking.from_scores([[1.0]]), {"q": {"a": 1}})


def test_a_float32_ranking_judges_as_such_and_not_otherwise():
    rules = preset("pytrec_eval")
    ranking = as_ranking({"q": {"a": 1.0, "b": 1.0 + 1e-9}}, rules)
    judgments = as_judgments({"q": {"a": 1}})
    assert judge(ranking, judgments).rank_hi.tolist() == [2]
    with pytest.raises(ConventionError, match="float32"):
        judge(ranking, judgments, conventions=preset("trec_eval"))


# Hits as a value


def test_the_signature_says_how_the_hits_were_judged():
    ranking = Ranking.from_scores([[1.0, 1.0]])
    hits = judge(ranking, Judgments.from_targets([1]))
    assert "tiebreak:index" in score(hits, "RR").signature
    asked_too_late = score(hits, "RR", conventions="pytrec_eval")
    assert "tiebreak:index|scores:float64" in asked_too_late.signature
    assert asked_too_late.conventions.preset == "pytrec_eval*"


def test_what_a_run_does_not_tell_is_unknown():
    run, qrels = {"q": {"a": 1.0}}, {"p": {"a": 1}, "q": {"a": 1, "b": 0}}
    rules = preset("trec_eval")
    ranking = as_ranking(run, rules)
    assert (ranking.n_docs, ranking.zero_rows, ranking.tie_split) == (0, (0, 0), None)
    long = judge(ranking, as_judgments(qrels))
    for hits in (long, judge_objects(run, qrels, rules, allow_mismatch=False)):
        assert hits.n_docs.tolist() == [0, 0]
        assert (hits.exhaustive, hits.tie_split, len(hits.extra)) == (False, None, 0)
        assert (hits.missing.tolist(), hits.n_ret.tolist()) == ([True, False], [0, 1])


@pytest.mark.parametrize("rules", [{"depth": 1}, {"self_match": "exclude"}])
def test_rules_that_change_rows_are_left_to_the_general_way(rules):
    run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 1}}
    assert judge_objects(run, qrels, Conventions(**rules), allow_mismatch=False) is None
    for odd in ({}, [], {"q": ["a"]}):
        for sides in ((odd, qrels), (run, odd)):
            assert judge_objects(*sides, Conventions(), allow_mismatch=False) is None


def test_select():
    run = {f"q{i}": {"a": 1.0, "b": float(i)} for i in range(5)}
    qrels = {q: {"a": 1, "z": 2} for q in run} | {"q9": {"a": 1}}
    hits = judge(as_ranking(run, preset("trec_eval")), as_judgments(qrels))
    for rows in ([4, 0, 5], [], [0, 1, 2], [5]):
        some = hits.select(np.array(rows, np.int64))
        assert list(some.query_ids) == [hits.query_ids[r] for r in rows]
        np.testing.assert_array_equal(
            score(some, "nDCG").values, score(hits, "nDCG").values[:, rows]
        )
    assert "6 queries" in repr(hits)


def test_inputs_are_not_changed():
    scores = np.array([[1.0, 2.0], [3.0, 3.0]])
    targets, copy = np.array([1, 0]), scores.copy()
    judge(Ranking.from_scores(scores), Judgments.from_targets(targets))
    assert scores.tobytes() == copy.tobytes()
    assert scores.flags.writeable
    assert targets.flags.writeable
    run, qrels = {"q": {"q": 2.0, "a": 1.0}}, {"q": {"q": 1, "a": 1}}
    evaluate(run, qrels, "RR", conventions="beir")
    assert (run, qrels) == ({"q": {"q": 2.0, "a": 1.0}}, {"q": {"q": 1, "a": 1}})
