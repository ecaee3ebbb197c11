"""Ranking: rows in order by the one tie rule, whatever they come from."""

from __future__ import annotations

import random

import numpy as np
import pytest

from assay import Conventions, Ids, Ranking, evaluate, preset
from assay.errors import (
    ConventionError,
    IdError,
    MismatchError,
    ShapeError,
    UsageError,
    ValueRangeError,
)
from assay.io.formats import as_ranking

ID_DESCENDING = preset("trec_eval")


def random_rows(seed: int) -> dict[str, dict[str, float]]:
    rng = random.Random(seed)
    names = ["a", "b", "Z", "é", "10", "9", "日本", "zz", "~"]
    return {
        f"q{q}": {
            d: rng.choice([-1.5, 0.0, -0.0, 2.0]) for d in rng.sample(names, rng.randint(1, 9))
        }
        for q in range(20)
    }


@pytest.mark.parametrize("seed", range(5))
def test_the_tie_rule(seed):
    """Score descending (−0.0 equals 0.0), then by the bytes of the id, or by appearance."""
    run = random_rows(seed)
    for tiebreak in ("id-descending", "id-ascending", "index"):
        ranking = as_ranking(run, Conventions(tiebreak=tiebreak))
        for query, row in run.items():
            docs = list(row)
            if tiebreak != "index":
                docs.sort(key=str.encode, reverse=tiebreak == "id-descending")
            docs.sort(key=lambda d, row=row: -row[d])
            assert [doc for doc, _ in ranking.row(query)] == docs


def test_from_scores():
    ranking = Ranking.from_scores([[1, 2, 2], [0, -1, 5]], doc_ids=["x", "y", "z"])
    assert ranking.row(0) == [("y", 2.0), ("z", 2.0), ("x", 1.0)]
    assert ranking.complete.all()
    assert (len(ranking), ranking.n_docs, ranking.lengths.tolist()) == (2, 3, [3, 3])
    assert "2 queries" in repr(ranking)


def test_from_arrays_with_unused_places():
    ranking = Ranking.from_arrays([[4, -1, 2], [-1, -1, -1]], [[1.0, 9.0, 3.0], [0.0, 0.0, 0.0]])
    assert ranking.row(0) == [(2, 3.0), (4, 1.0)]
    assert ranking.row(1) == []
    assert ranking.complete.tolist() == [False, False]


def test_from_arrays_without_scores_keeps_the_order_given():
    ranking = Ranking.from_arrays([[4, 0, 2]])
    assert [doc for doc, _ in ranking.row(0)] == [4, 0, 2]
    assert [doc for doc, _ in ranking.under(ID_DESCENDING).row(0)] == [4, 0, 2]


@pytest.mark.parametrize(
    ("arguments", "error", "found"),
    [
        (([[0, 0]],), IdError, "twice"),
        (([[0, 1]], [[1.0]]), ShapeError, r"\(1, 2\)"),
        (([[0, 1]], [[1.0, float("nan")]]), ValueRangeError, "column 1"),
        (([[0, 1]], [[1.0, float("-inf")]]), ValueRangeError, "-inf"),
        (([[0.0, 1.0]], [[1.0, 2.0]]), ValueRangeError, "integers"),
        (([[0, -2]], [[1.0, 2.0]]), ValueRangeError, "-2"),
        (([0, 1], [1.0, 2.0]), ShapeError, "two dimensions"),
        (([[]],), ShapeError, "each at least 1"),
        (([[0], [0, 1]],), ShapeError, "different lengths"),
        ((None,), ShapeError, "None"),
        (([["a"]],), ValueRangeError, "real numbers"),
    ],
)
def test_faulty_arrays(arguments, error, found):
    with pytest.raises(error, match=found):
        Ranking.from_arrays(*arguments)


def test_ids_that_do_not_fit():
    with pytest.raises(MismatchError, match="query_ids has 1"):
        Ranking.from_scores([[1.0], [2.0]], query_ids=["a"])
    with pytest.raises(IdError, match="'a' appears twice"):
        Ranking.from_scores([[1.0], [2.0]], query_ids=["a", "a"])
    with pytest.raises(IdError, match="'x' appears twice"):
        Ranking.from_scores([[1.0, 2.0]], doc_ids=["x", "x"])
    with pytest.raises(ValueRangeError, match="out of range for 1 documents"):
        Ranking.from_scores([[1.0, 2.0]], doc_ids=["x"])
    with pytest.raises(IdError, match="no query"):
        Ranking.from_scores([[1.0]]).row(7)


def test_lines_must_be_finite():
    lines = {"queries": np.zeros(2, np.int32), "docs": np.arange(2, dtype=np.int32)}
    for odd in (np.nan, np.inf):
        with pytest.raises(ValueRangeError, match="row 1"):
            Ranking.from_lines(
                Ids.of(["q"]), Ids.of(["a", "b"]), **lines, scores=np.array([1, odd])
            )


def test_arrays_are_read_only_and_inputs_are_not_touched():
    scores = np.array([[1.0, 2.0]])
    ranking = Ranking.from_scores(scores)
    for array in (ranking.offsets, ranking.docs, ranking.scores):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    scores[0, 0] = 99
    assert ranking.row(0) == [(1, 2.0), (0, 1.0)]


# Under other conventions


def test_reordering():
    ranking = Ranking.from_scores([[1.0, 1.0, 1.0]], doc_ids=["b", "c", "a"])
    orders = {
        tiebreak: "".join(doc for doc, _ in ranking.under(Conventions(tiebreak=tiebreak)).row(0))
        for tiebreak in ("index", "id-descending", "id-ascending")
    }
    assert orders == {"index": "bca", "id-descending": "cba", "id-ascending": "abc"}
    assert [doc for doc, _ in ranking.row(0)] == ["b", "c", "a"]  # the ranking itself stays


def test_reordering_cannot_bring_back_what_is_gone():
    by_id = as_ranking({"q": {"b": 1.0, "c": 1.0}}, ID_DESCENDING)
    with pytest.raises(ConventionError, match="order of its lines is lost"):
        by_id.under(Conventions(tiebreak="index"))
    short = by_id.under(ID_DESCENDING.replace(scores="float32"))
    with pytest.raises(ConventionError, match="float32"):
        short.under(ID_DESCENDING)


def test_float32_must_hold_the_scores():
    ranking = Ranking.from_scores([[1e300, 1.0]])
    with pytest.raises(ValueRangeError, match=r"1e\+300"):
        ranking.under(Conventions(tiebreak="index", scores="float32"))


def test_depth_counts_after_self_is_excluded():
    scores = [[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]
    ranking = Ranking.from_scores(scores, query_ids=[0, 1], doc_ids=[0, 1, 2])
    rules = Conventions(tiebreak="index", self_match="exclude", depth=2)
    shown = ranking.under(rules)
    assert [doc for doc, _ in shown.row(0)] == [1, 2]
    assert [doc for doc, _ in shown.row(1)] == [0, 2]


def test_line_order_is_not_document_order():
    """Rounding to float32 makes new ties; their order of lines is gone, and nothing is guessed."""
    lines = [("q1", "z", 5.0), ("q1", "a", 4.0), ("q2", "a", 1.0), ("q2", "z", 1.00000001)]
    ranking = as_ranking(lines, Conventions(tiebreak="index"))
    with pytest.raises(ConventionError, match="order of its lines is lost"):
        ranking.under(Conventions(tiebreak="index", scores="float32"))


def test_self_cannot_be_excluded_without_ids():
    with pytest.raises(MismatchError, match="excluded by id"):
        Ranking.from_scores([[0.9, 0.5]]).under(Conventions(tiebreak="index", self_match="exclude"))


def test_a_depth_that_divides_a_tie_group():
    run, qrels = {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}, {"q": {"a": 1}}
    rules = Conventions(depth=2)
    scores = evaluate(run, qrels, ["Success@2", "num_ret"], conventions=rules)
    assert scores.tied.tolist() == [[True], [False]]
    for ties in ("expected", "best", "worst", "midrank-up"):
        with pytest.raises(ConventionError, match="depth 2 cuts through"):
            evaluate(run, qrels, "Success@2", conventions=rules.replace(ties=ties))
    whole = Conventions(depth=3, ties="expected")
    mean = evaluate(run, qrels, "Success@2", conventions=whole).mean()
    assert mean["Success@2"] == pytest.approx(2 / 3, abs=1e-15)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_whole_numbers_that_float64_cannot_tell_apart_are_refused(dtype):
    with pytest.raises(ValueRangeError, match=r"2\^53"):
        Ranking.from_scores(np.array([[2**53, 2**53 + 1]], dtype))


def test_masked_scores_and_senseless_sizes_are_refused():
    with pytest.raises(ShapeError, match="masked"):
        Ranking.from_scores(np.ma.array([[1.0, 9.0]], mask=[[0, 1]]))
    for n_docs in (2.5, "5", 0, True):
        with pytest.raises(UsageError, match="n_docs"):
            Ranking.from_arrays([[0, 1]], n_docs=n_docs)


def test_what_stands_in_an_unused_place_does_not_matter():
    ranking = Ranking.from_arrays([[0, 2, -1]], [[0.1, 0.5, -np.inf]])
    assert [doc for doc, _ in ranking.row(0)] == [2, 0]


def ragged(lengths: list[int], seed: int) -> Ranking:
    """Rows of these lengths, with many equal scores."""
    width, rng = max(lengths), np.random.default_rng(seed)
    docs = [[*range(n), *[-1] * (width - n)] for n in lengths]
    return Ranking.from_arrays(docs, rng.integers(0, 2, (len(lengths), width)).astype(float))


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6])
def test_the_first_documents_of_each_row(depth):
    ranking = ragged([5, 0, 1, 3, 2, 5], seed=depth)
    cut = ranking.first(depth)
    rows = [ranking.row(q) for q in range(6)]
    assert [cut.row(q) for q in range(6)] == [row[:depth] for row in rows]
    assert cut.lengths.tolist() == [min(len(row), depth) for row in rows]
    assert cut.settings == {"first": str(depth)}
    split = [len(row) > depth and row[depth - 1][1] == row[depth][1] for row in rows]
    assert (cut.tie_split is None) == (depth >= 5)
    if cut.tie_split is not None:
        assert cut.tie_split.tolist() == split


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tiebreak", ["id-ascending", "id-descending"])
def test_equal_scores_of_rows_side_by_side_are_no_ties(seed, tiebreak):
    ranking = ragged([4, 1, 3, 0, 9], seed).under(Conventions(tiebreak=tiebreak))
    for q in range(5):
        row = ranking.row(q)
        by_id = sorted(row, key=lambda pair: str(pair[0]), reverse=tiebreak == "id-descending")
        assert row == sorted(by_id, key=lambda pair: -pair[1])


def test_which_rows_are_complete():
    docs = [[0, 1, 2], [2, 0, -1], [-1, -1, -1]]
    assert Ranking.from_arrays(docs, n_docs=3).complete.tolist() == [True, False, False]
    assert Ranking.from_arrays(docs).complete.tolist() == [False] * 3
    assert Ranking.from_arrays(docs, doc_ids=["a", "b", "c"]).complete.tolist() == [
        True,
        False,
        False,
    ]


def test_the_row_that_holds_a_document_twice_is_named():
    with pytest.raises(IdError, match="Document 'c' appears twice in the ranking of query 'q'"):
        Ranking.from_arrays(
            [[0, 1, -1], [-1, -1, -1], [2, -1, 2], [0, 0, 0]],
            doc_ids=["a", "b", "c"],
            query_ids=["o", "p", "q", "r"],
        )


def test_excluded_documents_and_settings():
    ranking = Ranking.from_scores(
        [[1.0, 2.0], [1.0, 2.0]], query_ids=["a", "z"], doc_ids=["a", "b"]
    )
    shown = ranking.under(Conventions(tiebreak="index", self_match="exclude"))
    assert [len(shown.row(q)) for q in ("a", "z")] == [1, 2]
    assert shown.settings == {"exclude": "self"}
    assert ranking.under(Conventions(tiebreak="index")).settings == {}
    for some in ({"query_ids": ["a"]}, {"doc_ids": ["a"]}):
        with pytest.raises(MismatchError, match="lacks"):
            Ranking.from_scores([[1.0]], **some).under(
                Conventions("order", "index", self_match="exclude")
            )
