"""Judgments: graded pairs, labels, targets."""

from __future__ import annotations

import re

import numpy as np
import pytest

from assay import Ids, Judgments, Ranking, judge, judge_ranks, score
from assay.errors import IdError, MismatchError, ShapeError, ValueRangeError

QUERIES, DOCS = Ids.of(["p", "q"]), Ids.of(["a", "b", "c"])


def pairs(*rows: tuple[int, int, float]):
    queries, docs, grades = zip(*rows, strict=True) if rows else ((), (), ())
    return Judgments.from_pairs(QUERIES, DOCS, list(queries), list(docs), list(grades))


def test_pairs_in_any_order():
    found = pairs((1, 2, 1.0), (0, 1, 2.0), (1, 0, -1.0))
    assert found.offsets.tolist() == [0, 1, 3]
    assert found.docs.tolist() == [1, 0, 2]
    assert found.grades.tolist() == [2.0, -1.0, 1.0]
    assert (len(found), found.n_queries, found.repeated) == (2, 2, 0)
    assert repr(found) == "Qrels(2 queries, 3 judgments)"


def test_pairs_given_twice():
    assert pairs((0, 0, 1.0), (0, 0, 1.0), (0, 1, 1.0)).repeated == 1
    assert pairs((0, 0, 0.0), (0, 0, -0.0)).repeated == 1
    found = pairs((0, 0, 1.0), (0, 1, 2.0), (0, 1, 2.0), (1, 0, 3.0), (1, 0, 3.0))
    assert (found.repeated, found.grades.tolist()) == (2, [1.0, 2.0, 3.0])
    with pytest.raises(MismatchError, match=r"'p', document 'b' .* 2 and 1 \(1 such pairs\)"):
        pairs((0, 0, 1.0), (0, 1, 2.0), (0, 1, 1.0), (1, 0, 3.0), (1, 0, 3.0))
    with pytest.raises(MismatchError, match=r"'p', document 'a' .* 1 and 2"):
        pairs((0, 0, 1.0), (0, 1, 1.0), (0, 0, 2.0))


def test_pairs_are_a_table_of_grades():
    rng = np.random.default_rng(4)
    refused = 0
    for n in list(range(7)) * 30:
        rows = [(q, d, float(q + d)) for q, d in rng.integers(0, (2, 3), (n, 2)).tolist()]
        if n > 2 and rng.random() < 0.5:
            rows[-1] = (*rows[-1][:2], 9.0)
        table: dict[tuple[int, int], float] = {}
        conflicts = [row for row in rows if table.setdefault(row[:2], row[2]) != row[2]]
        if conflicts:
            refused += 1
            with pytest.raises(MismatchError, match=r"grades, \d and 9 \(1 such pairs\)"):
                pairs(*rows)
            continue
        found = pairs(*rows)
        queries = np.repeat([0, 1], np.diff(found.offsets)).tolist()
        pooled = zip(queries, found.docs.tolist(), found.grades.tolist(), strict=True)
        assert {(q, d): grade for q, d, grade in pooled} == table
        assert (len(found.docs), found.repeated) == (len(table), n - len(table))
    assert 20 < refused < 100


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_grades_are_finite(odd):
    with pytest.raises(ValueRangeError, match="row 1"):
        pairs((0, 0, 1.0), (0, 1, odd))


def test_no_pairs_at_all():
    assert pairs().offsets.tolist() == [0, 0, 0]


def test_lengths_must_agree():
    with pytest.raises(MismatchError, match="grades has 1"):
        Judgments.from_pairs(QUERIES, DOCS, [0, 1], [0, 1], [1.0])


# Labels


def test_labels():
    found = Judgments.from_labels(["x", "y", "never"], ["x", "x", "y"])
    assert found.n_relevant.tolist() == [2, 1, 0]
    assert repr(found) == "Labels(3 queries, 3 docs, 3 labels)"
    numbers = Judgments.from_labels(np.array([1, 2]), [2.0, 2.0])  # whole floats are whole numbers
    assert numbers.n_relevant.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("left", "right", "error"),
    [
        (["3"], [3], MismatchError),
        ([1, "1"], [1], ValueRangeError),
        ([None], [1], ValueRangeError),
        ([float("nan")], [1], ValueRangeError),
        ([1.5], [1], ValueRangeError),
        ([[1]], [1], ShapeError),
        ([1j], [1], ValueRangeError),
        ([[1], [1, 2]], [1], ShapeError),
        (None, [1], ShapeError),
        ("x", ["x"], ShapeError),
        (5, [1], ShapeError),
    ],
)
def test_faulty_labels(left, right, error):
    with pytest.raises(error):
        Judgments.from_labels(left, right)


def test_ids_of_labels():
    with pytest.raises(MismatchError, match="query_ids has 2"):
        Judgments.from_labels([1], [1], query_ids=["a", "b"])
    with pytest.raises(IdError, match="'a' appears twice"):
        Judgments.from_labels([1], [1, 1], doc_ids=["a", "a"])


# Targets


def test_targets():
    found = Judgments.from_targets([2, None, -1, 0])
    assert np.diff(found.offsets).tolist() == [1, 0, 0, 1]
    assert found.exhaustive
    by_id = Judgments.from_targets(["b", None], doc_ids=["a", "b"])
    assert by_id.docs.tolist() == [1]


@pytest.mark.parametrize(
    ("targets", "options", "error"),
    [
        (["b"], {}, ValueRangeError),
        (None, {}, ShapeError),
        (5, {}, ShapeError),
        ("b", {"doc_ids": ["b"]}, ShapeError),
        ([[1], [1, 2]], {}, ShapeError),
        ([[1, 2]], {}, ShapeError),
        ([1.5], {}, ValueRangeError),
        ([True], {}, ValueRangeError),
        ([3], {"n_docs": 3}, ValueRangeError),
        ([-2], {}, ValueRangeError),
        (["z"], {"doc_ids": ["a"]}, IdError),
        ([0], {"query_ids": ["a", "b"]}, MismatchError),
        ([0, 0], {"query_ids": ["a", "a"]}, IdError),
        ([0], {"doc_ids": ["a"]}, IdError),
    ],
)
def test_faulty_targets(targets, options, error):
    with pytest.raises(error):
        Judgments.from_targets(targets, **options)


@pytest.mark.parametrize(
    ("targets", "options", "words"),
    [
        (["a", None, "z", "y"], {"doc_ids": ["a", "b"]}, "Target 'z' of query row 2 is not among"),
        ([0, 2, 3, -2], {"n_docs": 3}, "Target 3 of query row 2 is out of range for 3 documents."),
        ([0, -1, -2], {}, "Target -2 of query row 2 is out of range."),
        ([0, 2**31 - 2, 2**31 - 1], {}, f"Target {2**31 - 1} of query row 2 is out of range."),
    ],
)
def test_the_first_faulty_target_is_named(targets, options, words):
    with pytest.raises((IdError, ValueRangeError), match=re.escape(words)):
        Judgments.from_targets(targets, **options)


def test_a_query_without_a_target_is_empty():
    hits = judge(Ranking.from_scores(np.eye(3)), Judgments.from_targets([1, None, -1]))
    scores = score(hits, "RR", conventions="next_location")
    assert np.isnan(scores["RR"][1:]).all()
    assert scores.mean().counts["RR"].empty == 2


def test_bpref_counts_every_other_document_of_a_target_as_judged():
    hits = judge_ranks([1, 2, 9], n_docs=10)
    assert score(hits, "bpref")["bpref"].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "top"), [("float16", 2**11), ("float32", 2**24), ("float64", 2**53)]
)
def test_float_labels_that_merge_are_refused(kind, top):
    fine = np.array([top - 1, 3, -(top - 1)], kind)
    assert Judgments.from_labels(fine, fine).names.tolist() == [1 - top, 3, top - 1]
    for labels in (np.array([top, top + 1], kind), list(np.array([1, -top], kind))):
        with pytest.raises(ValueRangeError, match=r"is not exact from"):
            Judgments.from_labels(labels, fine)
    if kind != "float64":
        with pytest.raises(ValueRangeError, match="is not exact"):
            Judgments.from_labels([1.0, np.dtype(kind).type(top)], fine)
        with pytest.raises(ValueRangeError, match="is not exact"):
            judge_ranks(np.array([1, top + 2], kind))
