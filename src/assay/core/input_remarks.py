"""Input that reads well and is probably not what was meant, in a sentence each.

Ids that do not fit are refused. What is only odd stands as a remark beside the numbers: scores
that rank nothing, a run that is a copy of the judgments, judgments that look like a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core import order
from assay.core.checks import name_few
from assay.core.id_hints import check_match
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking
from assay.errors import MismatchError

CONSTANT: Final = "every query gives all it ranks the same score: nothing is ranked, ties decide"
CUT_BY_ROW: Final = (
    "the search cut ties by the documents' rows, not by their ids: keep all of a tie (keep_ties)"
)
_COPY: Final = "the run may be a copy of the judgments"
_SWAPPED: Final = "run and judgments may be swapped"
_A_RUN: Final = "the judgments may be a run"
_SEEN: Final = 5000  # documents of the run that tell what ids look like there
_GRADES: Final = (-2, 10)  # between these, whole numbers are what judges give
_SCALE: Final = 20  # scales of grades have fewer values
_FEW: Final = 10  # below so many queries, documents or judgments, chance explains a lot


def check_queries(
    ranked: Ids, judgments: Judgments, to_judged: Ints, *, allow: bool
) -> tuple[str, ...]:
    """Refuse a run of other queries than were judged, unless that is allowed."""
    is_found = np.zeros(judgments.n_queries, bool)
    is_found[to_judged[to_judged >= 0]] = True
    return check_match(
        judgments.query_ids,
        ranked,
        "judged queries",
        "the run",
        allow=allow,
        found=is_found,
        either=True,
    )


def check_docs(
    ranking: Ranking, qrels: Qrels, is_found: NDArray[np.bool_], n_common: int, *, allow: bool
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
        found=is_found,
        none=n_common >= _FEW and min(len(judged), len(there)) >= _FEW,
        some=_docs_of_some_rows(ranking),
    )
    if problem or is_found.any() or not len(judged) or not len(there):
        return problem
    return (f"none of the {len(judged):,} judged documents is in the run: nothing can score",)


def _docs_of_some_rows(ranking: Ranking) -> Iterator[str | int]:
    """Yield ids from rows here and there; mostly the first few of them tell enough."""
    step = step_over_rows(len(ranking.given_docs))
    begins, ends = ranking.offsets[:-1:step].tolist(), ranking.offsets[1::step].tolist()
    rows = [ranking.given_docs[begin:end] for begin, end in zip(begins, ends, strict=True)]
    yield from ranking.doc_ids.take(
        np.concatenate([ranking.given_docs[:0], *rows])[:_SEEN]
    ).to_list()


def step_over_rows(n_results: int) -> int:
    """From which row to which one must go to see some thousand documents."""
    return n_results // _SEEN + 1


def odd_scores(
    lengths: Ints, offsets: Ints, grade: Floats, scores: Callable[[], Floats]
) -> Iterator[str]:
    """Yield a remark on scores that are the grades of the documents.

    Row q of the run has `lengths[q]` documents, of which those at `offsets[q]:offsets[q+1]` of
    `grade` and `scores` are judged.
    """
    n_ranked = int(lengths[offsets[1:] > offsets[:-1]].sum())
    if _FEW <= len(grade) == n_ranked and (scores() == grade).all() and (grade != grade[0]).any():
        yield f"every score is the grade of its document: {_COPY}"


def constant_scores(ranking: Ranking) -> Iterator[str]:
    """Yield a remark on scores that rank nothing."""
    scores, starts = ranking.given_scores, ranking.offsets[:-1]
    first = starts[ranking.lengths > 1][:1]
    if not len(first) or scores[first[0]] != scores[first[0] + 1]:
        return
    rows = order.rows_of(ranking.offsets)
    if (scores == scores[starts[rows]]).all():
        yield CONSTANT


def cut_by_row(ranking: Ranking, placed: Ranking, queries: Ids) -> Iterator[str]:
    """Yield a remark on ties that a search cut, whose documents have ids that it did not go by.

    `placed` is the ranking under the conventions; ties below their depth decide nothing.
    """
    if ranking.settings.get("cut") != "row" or ranking.doc_ids.numbered:
        return
    if ranking.tie_split is not None and placed.tie_split is not None:
        cut = np.flatnonzero(ranking.tie_split & placed.tie_split)
        if (ranking.query_ids.take(cut).match(queries) >= 0).any():
            yield CUT_BY_ROW


def fractions_among(grades: Floats) -> Floats:
    """The grades that are no whole numbers, where these are so many that they may be scores."""
    positive = grades[grades > 0]
    broken = positive[positive != np.rint(positive)]
    few = 2 * len(broken) <= len(positive) or len(np.unique(broken[:1000])) < _FEW
    return np.zeros(0) if few else np.asarray(broken)


def mostly_fractions(grades: Floats) -> Floats:
    """The distinct fractions among grades, where most are fractions and more than a scale has.

    Judges repeat the few grades of a scale (0.25, 0.5, 0.75); scores hardly repeat.
    """
    broken = grades[grades != np.rint(grades)]
    seen = broken[:_SEEN]
    distinct = np.unique(seen) if 2 * len(broken) > len(grades) else np.zeros(0)
    scale = len(distinct) < _SCALE and 2 * len(distinct) <= len(seen)
    return np.zeros(0) if scale or len(distinct) <= 2 else distinct


def refuse_swapped(ranking: Ranking, qrels: Qrels, *, allow: bool) -> None:
    """Refuse grades that are as scores are, of a run whose scores are as grades are."""
    fractions = np.zeros(0) if allow or qrels.whole else mostly_fractions(qrels.grades)
    if not len(fractions):
        return
    values = np.unique(ranking.given_scores[:_SEEN])
    whole = (values == np.rint(values)).all() and len(values) < len(fractions)
    if whole and len(values) and _GRADES[0] <= values[0] and values[-1] <= _GRADES[1]:
        raise MismatchError(
            "The run and the judgments (qrels) seem to be swapped: most grades are fractions, such "
            f"as {fractions[0]:g}, and the scores of the run are {name_few(values.tolist())}. Give "
            "the run its scores and the judgments their grades; if they are meant, allow the "
            "mismatch (allow_mismatch=True, --allow-mismatch)."
        )


def odd_grades(ranking: Ranking, qrels: Qrels) -> Iterator[str]:
    """Yield a remark on grades that look like scores."""
    broken = np.zeros(0) if qrels.whole else fractions_among(qrels.grades)
    if not len(broken):
        return
    scores = ranking.given_scores[:1000]
    text = f"most grades are fractional, such as {broken[0]:g}"
    if (scores == np.rint(scores)).all():
        yield f"{text}, and no score is: {_SWAPPED}"
    else:
        yield f"{text}, as scores are: {_A_RUN}"


def are_odd_files(remark: str) -> bool:
    """Tell whether a remark says that a file may be another one than was meant."""
    return remark.endswith((_COPY, _SWAPPED, _A_RUN))
