"""Judgments by labels, targets and pairs say the same where they mean the same."""

from __future__ import annotations

import numpy as np
import pytest

import assay
from assay.errors import IdError, MismatchError, ValueRangeError

MEASURES = ["P@3", "R@4", "Success@2", "RR", "AP", "MAP@R", "nDCG@5", "Rprec", "RBP", "iprec@0.5"]


def _as_pairs(relevant: np.ndarray, docs: int) -> assay.Judgments:
    queries, found = np.nonzero(relevant)
    return assay.Judgments.from_pairs(
        assay.Ids.count(len(relevant)), assay.Ids.count(docs), queries, found, np.ones(len(found))
    )


@pytest.mark.parametrize("ties", ["order", "expected", "best", "worst", "midrank-up"])
def test_labels_equal_the_same_pairs(ties: str) -> None:
    rng = np.random.default_rng(4)
    query_labels, doc_labels = rng.integers(0, 4, 20), rng.integers(0, 4, 15)
    ranking = assay.Ranking.from_scores(rng.integers(0, 4, (20, 15)))
    rules = assay.preset("document_000").but(ties=ties)
    by_label = assay.Judgments.from_labels(query_labels, doc_labels)
    by_pair = _as_pairs(query_labels[:, None] == doc_labels[None, :], 15)
    left, right = (
        assay.score(assay.judge(ranking, judgments, conventions=rules), MEASURES, conventions=rules)
        for judgments in (by_label, by_pair)
    )
    np.testing.assert_array_equal(left.values, right.values)
    np.testing.assert_array_equal(left.tied, right.tied)


@pytest.mark.parametrize("ties", ["order", "expected", "best", "worst", "midrank-up"])
def test_targets_equal_bare_ranks_and_pairs(ties: str) -> None:
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 5, (30, 12)).astype(float)
    target = rng.integers(0, 12, 30)
    own = scores[np.arange(30), target][:, None]
    above, tied = (scores > own).sum(1), (scores == own).sum(1) - 1
    before = ((scores == own) & (np.arange(12) < target[:, None])).sum(1)
    rules = assay.preset("document_001").but(ties=ties)
    from_list = assay.judge(
        assay.Ranking.from_scores(scores), assay.Judgments.from_targets(target), conventions=rules
    )
    from_ranks = assay.judge_ranks(above + 1, tied=tied, placed=above + before + 1, n_docs=12)
    relevant = np.arange(12) == target[:, None]
    from_pairs = assay.judge(
        assay.Ranking.from_scores(scores), _as_pairs(relevant, 12), conventions=rules
    )
    values = [
        assay.score(hits, MEASURES, conventions=rules).values
        for hits in (from_list, from_ranks, from_pairs)
    ]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


def test_bpref_counts_every_other_document_of_a_target_as_judged() -> None:
    hits = assay.judge_ranks([1, 2, 9], n_docs=10)
    assert assay.score(hits, "bpref")["bpref"].tolist() == [1.0, 0.0, 0.0]


def test_a_query_without_a_target_is_empty() -> None:
    judgments = assay.Judgments.from_targets([1, None, -1])
    hits = assay.judge(assay.Ranking.from_scores(np.eye(3)), judgments)
    scores = assay.score(hits, "RR", conventions="document_001")
    assert np.isnan(scores["RR"][1:]).all()
    assert scores.mean().counts["RR"].empty == 2


def test_targets_by_id() -> None:
    judgments = assay.Judgments.from_targets(["b", None], doc_ids=["a", "b"])
    ranking = assay.Ranking.from_scores([[0.9, 0.1], [0.2, 0.3]], doc_ids=["a", "b"])
    assert assay.judge(ranking, judgments).rank.tolist() == [2]
    with pytest.raises(IdError, match="'c' of query row 0"):
        assay.Judgments.from_targets(["c"], doc_ids=["a", "b"])


def test_targets_out_of_range_or_of_the_wrong_type() -> None:
    with pytest.raises(ValueRangeError, match="out of range"):
        assay.Judgments.from_targets([5], n_docs=5)
    with pytest.raises(ValueRangeError, match="out of range"):
        assay.Judgments.from_targets([-2], n_docs=5)
    with pytest.raises(ValueRangeError, match="doc_ids"):
        assay.Judgments.from_targets(["a"])


def test_a_pair_twice() -> None:
    ids = assay.Ids.of(["q"], what="query"), assay.Ids.of(["a", "b"])
    same = assay.Judgments.from_pairs(*ids, [0, 0, 0], [1, 1, 0], [2.0, 2.0, 1.0])
    assert (len(same.docs), same.repeated) == (2, 1)
    with pytest.raises(MismatchError, match="different grades, 1 and 2"):
        assay.Judgments.from_pairs(*ids, [0, 0], [1, 1], [1.0, 2.0])


def test_labels_refuse_what_cannot_be_compared() -> None:
    with pytest.raises(MismatchError, match="never equal"):
        assay.Judgments.from_labels(["3"], [3])
    with pytest.raises(MismatchError, match="same length"):
        assay.Judgments.from_labels([3], [3], query_ids=["a", "b"])
    with pytest.raises(IdError, match="stands twice"):
        assay.Judgments.from_labels([3, 4], [3], query_ids=["a", "a"])


def test_unlabelled_documents_are_named() -> None:
    ranking = assay.Ranking.from_scores([[1.0, 0.5]], doc_ids=["a", "b"])
    labels = assay.Judgments.from_labels([1], [1], doc_ids=["a"])
    with pytest.raises(MismatchError, match="'b'"):
        assay.judge(ranking, labels)


def test_nothing_in_common() -> None:
    with pytest.raises(MismatchError, match="no query in common"):
        assay.evaluate({"1": {"a": 1.0}}, {"q1": {"a": 1}})


def test_bare_ranks_are_checked() -> None:
    for ranks, options in (
        ([-1], {}),
        ([1.5], {}),
        ([3], {"n_docs": 2}),
        ([2], {"tied": [1], "placed": [1]}),
        ([2], {"tied": [5], "n_docs": 4}),
    ):
        with pytest.raises(ValueRangeError):
            assay.judge_ranks(ranks, **options)
    with pytest.raises(MismatchError, match="same length"):
        assay.judge_ranks([1, 2], tied=[0])
