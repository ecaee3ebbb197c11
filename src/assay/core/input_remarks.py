"""Input that reads well and is probably not what was meant, in a sentence each.

Ids that do not fit are refused. What is only odd stands as a remark beside the numbers: scores
that rank nothing, a run that is a copy of the judgments, judgments that look like a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core import order
from assay.core.id_hints import check_match
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking

__all__ = [
    "CONSTANT",
    "are_odd_files",
    "check_docs",
    "check_queries",
    "constant_scores",
    "odd_grades",
    "odd_scores",
]

CONSTANT: Final = "every query gives all it ranks the same score: nothing is ranked, ties decide"
_COPY: Final = "the run may be a copy of the judgments"
_SWAPPED: Final = "run and judgments may be swapped"
_A_RUN: Final = "the judgments may be a run"
_FEW: Final = 10  # below so many queries, documents or judgments, chance explains a lot


def check_queries(
    ranking: Ranking, judgments: Judgments, to_judged: Ints, *, allow: bool
) -> tuple[str, ...]:
    """Refuse a run of other queries than were judged, unless that is allowed."""
    found = np.zeros(judgments.n_queries, bool)
    found[to_judged[to_judged >= 0]] = True
    return check_match(
        judgments.query_ids,
        ranking.query_ids,
        "judged queries",
        "the run",
        allow=allow,
        found=found,
        either=True,
    )


def check_docs(
    ranking: Ranking, qrels: Qrels, found: NDArray[np.bool_], n_common: int, *, allow: bool
) -> tuple[str, ...]:
    """Refuse a run of other documents than were judged, unless that is allowed.

    One query may well miss all that was judged for it; that many miss everything that was judged
    for any of them is no accident.
    """
    judged, there = qrels.doc_ids, ranking.doc_ids
    problem = check_match(
        judged,
        there,
        "judged documents",
        "the run",
        allow=allow,
        found=found,
        none=n_common >= _FEW and min(len(judged), len(there)) >= _FEW,
    )
    if problem or found.any() or not len(judged) or not len(there):
        return problem
    return (f"none of the {len(judged):,} judged documents is in the run: nothing can score",)


def odd_scores(ranking: Ranking, rows: Ints, rank: Ints, grade: Floats) -> Iterator[str]:
    """A remark on scores that are the grades of the documents.

    `rows` of the ranking hold judged documents at `rank` with `grade`.
    """
    n_ranked = int(ranking.lengths[np.unique(rows)].sum())
    if _FEW <= len(grade) == n_ranked:
        scores = ranking.scores[ranking.offsets[rows] + rank - 1]
        if (scores == grade).all() and (grade != grade[0]).any():
            yield f"every score is the grade of its document: {_COPY}"


def constant_scores(ranking: Ranking) -> Iterator[str]:
    """A remark on scores that rank nothing."""
    scores, starts = ranking.given_scores, ranking.offsets[:-1]
    first = starts[ranking.lengths > 1][:1]
    if not len(first) or scores[first[0]] != scores[first[0] + 1]:
        return
    rows = order.rows_of(ranking.offsets)
    if (scores == scores[starts[rows]]).all():
        yield CONSTANT


def odd_grades(ranking: Ranking, qrels: Qrels) -> Iterator[str]:
    """A remark on grades that look like scores."""
    positive = qrels.grades[qrels.grades > 0]
    broken = positive[positive != np.rint(positive)]
    if 2 * len(broken) <= len(positive) or len(np.unique(broken[:1000])) < _FEW:
        return
    scores = ranking.given_scores[:1000]
    shown = f"most grades are fractional, such as {broken[0]:g}"
    if (scores == np.rint(scores)).all():
        yield f"{shown}, and no score is: {_SWAPPED}"
    else:
        yield f"{shown}, as scores are: {_A_RUN}"


def are_odd_files(remark: str) -> bool:
    """Whether a remark says that a file may be another one than was meant."""
    return remark.endswith((_COPY, _SWAPPED, _A_RUN))
