"""Remarks on odd input: from how much on, and on which part of it, they are made."""

from __future__ import annotations

import numpy as np
import pytest

from assay import Ids, Judgments, Ranking, judge
from assay.core.mismatches import (
    CONSTANT,
    are_odd_files,
    constant_scores,
    fractions_among,
    odd_grades,
    odd_scores,
)
from assay.errors import MismatchError


def copies(grades, lengths=None, scores=None):
    """Remarks on two rows of judged documents, of which the first holds four."""
    lengths = [4, len(grades) - 4] if lengths is None else lengths
    offsets = np.array([0, 4, *[len(grades)] * (len(lengths) - 1)])
    given = np.array(grades if scores is None else scores, float)
    return list(odd_scores(np.array(lengths), offsets, np.array(grades, float), lambda: given))


TEN = [3, 2, 1, 0, 2, 2, 1, 1, 0, 0]


def test_a_copy_of_the_judgments():
    (remark,) = copies(TEN)
    assert are_odd_files(remark)
    assert copies(TEN, [4, 6, 50]) == [remark]  # a query without judgments tells nothing
    assert copies(TEN, [4, 7]) == []  # one document is not judged
    assert copies(TEN[:9]) == []  # chance explains that
    assert copies([1] * 10) == []
    assert copies([1] * 9 + [0]) == [remark]
    assert copies(TEN, scores=[*TEN[:9], 1]) == []


@pytest.mark.parametrize(
    ("rows", "flat"),
    [
        ([[1, 1], [2, 2]], True),
        ([[1, 1], [2, 3]], False),
        ([[1, 2], [2, 2]], False),
        ([[1, 1, 2]], False),
        ([[2, 1, 1]], False),
        ([[1], [2]], False),  # a single document is ranked, whatever its score
        ([[5], [2, 2], [3, 3, 3]], True),
        ([[5], [2, 2], [3, 3, 4]], False),
        ([[], [2, 2]], True),
    ],
)
def test_scores_that_rank_nothing(rows, flat):
    width = max(map(len, rows))
    docs = [[*range(len(row)), *[-1] * (width - len(row))] for row in rows]
    scores = [[*row, *[0] * (width - len(row))] for row in rows]
    assert list(constant_scores(Ranking.from_arrays(docs, scores))) == [CONSTANT] * flat


FRACTIONS = [i + 0.5 for i in range(10)]


def test_many_different_fractions_may_be_scores():
    nothing = [0.0, -1.5, -2.5, -3.0] * 10
    assert fractions_among(np.array([*nothing, *FRACTIONS, *range(1, 10)])).tolist() == FRACTIONS
    assert not len(fractions_among(np.array([*FRACTIONS, *range(1, 11)])))  # half of them
    assert not len(fractions_among(np.array(FRACTIONS[:9] * 5)))  # a scale of nine steps


def test_grades_that_look_like_scores():
    def remark(scores):
        ranking = Ranking.from_scores([scores])
        zeros = [0] * 10
        qrels = Judgments.from_pairs(Ids.count(1), Ids.count(10), zeros, range(10), FRACTIONS)
        return list(odd_grades(ranking, qrels))

    shown = "most grades are fractional, such as 0.5"
    assert remark(range(10)) == [f"{shown}, and no score is: run and judgments may be swapped"]
    assert remark(FRACTIONS) == [f"{shown}, as scores are: the judgments may be a run"]
    assert remark([*range(9), 0.5]) == [f"{shown}, as scores are: the judgments may be a run"]


def other_documents(n_queries, n_judged, n_ranked):
    """The remarks of a join whose two sides have all queries and no document in common."""
    ranking = Ranking.from_arrays(
        [range(n_ranked)] * n_queries, doc_ids=[f"x{i}y" for i in range(n_ranked)]
    )
    queries, docs = np.indices((n_queries, n_judged)).reshape(2, -1)
    names = Ids.of([str(7000 + 31 * i) for i in range(n_judged)])
    qrels = Judgments.from_pairs(Ids.count(n_queries), names, queries, docs, np.ones(len(docs)))
    return judge(ranking, qrels).remarks


@pytest.mark.parametrize("sizes", [(9, 10, 10), (10, 9, 10), (10, 10, 9)])
def test_few_documents_may_all_be_missed(sizes):
    words = f"none of the {sizes[1]} judged documents is in the run: all of it is unjudged"
    assert other_documents(*sizes) == (words,)


def test_that_many_documents_are_all_missed_is_no_accident():
    with pytest.raises(MismatchError, match="None of the 10 judged documents is in the run"):
        other_documents(10, 10, 10)
