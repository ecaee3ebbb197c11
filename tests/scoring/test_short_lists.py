"""Cutoffs that no list reaches are named beside the numbers, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

import assay
from assay import Judgments, Ranking


def run_of(lengths, n_docs=100):
    return {
        f"q{q}": {f"d{(q * 31 + i) % n_docs}": 1.0 - i / 1000 for i in range(length)}
        for q, length in enumerate(lengths)
    }


QRELS = {f"q{q}": {f"d{(q * 31 + i) % 100}": 1 for i in (1, 50, 99)} for q in range(20)}


def warnings(run, qrels, measures, **choices):
    remarks = assay.evaluate(run, qrels, measures, **choices).remarks
    return [remark for remark in remarks if "the longest list has" in remark]


def test_a_run_of_ten_documents_a_query():
    (words,) = warnings(run_of([10] * 20), QRELS, ["R@5", "R@10", "R@1000", "nDCG@20", "AP"])
    assert words.startswith("R@1000, nDCG@20: the longest list has 10 documents")
    assert words.endswith("use cutoffs up to 10")
    assert words.short == "lists end at rank 10: R@1000 may be too low"


@pytest.mark.parametrize(
    ("lengths", "measures"),
    [
        ([10] * 20, ["R@10", "P@5", "AP", "RR"]),  # no cutoff beyond
        ([1000] + [3] * 19, ["R@100"]),  # a list reaches the cutoff: the others ended themselves
        ([100] * 20, ["R@1000"]),  # all that the run names
        (range(30, 50), ["R@100"]),  # lists of many lengths are not cut
    ],
)
def test_no_false_alarm(lengths, measures):
    assert warnings(run_of(lengths, 1000 if 1000 in lengths else 100), QRELS, measures) == []


def test_lists_of_many_lengths_and_a_cutoff_far_away():
    assert warnings(run_of(range(3, 23)), QRELS, "R@1000")


def test_nothing_relevant_is_left_to_find():
    assert (
        warnings(run_of([10] * 20), {f"q{q}": {f"d{q * 31 % 100}": 1} for q in range(20)}, "R@50")
        == []
    )


def test_a_depth_that_was_asked_for_is_none():
    assert warnings(run_of([60] * 20), QRELS, "R@100", depth=10) == []


def test_the_whole_collection_is_not_short():
    scores = np.random.default_rng(1).random((4, 12))
    judgments = Judgments.from_targets([1, 2, 3, 4], n_docs=12)
    assert warnings(Ranking.from_scores(scores), judgments, "R@100") == []
    vectors = np.random.default_rng(1).normal(size=(12, 3)).astype(np.float32)
    assert warnings(assay.rank(vectors[:4], vectors, k=2), judgments, "R@5")


def test_batches_say_it_once():
    stream = assay.Stream("R@100")
    run = run_of([10] * 20)
    for q in run:
        stream.add({q: run[q]}, {q: QRELS[q]})
    assert stream.scores().remarks == ()  # one list names all that its batch knows
