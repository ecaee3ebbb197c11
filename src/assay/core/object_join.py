"""judge for plain objects of Python with text ids: {query: {doc: score}} and {query: {doc: grade}},
or (query, doc, score) and (query, doc, grade) tuples, those of each query together.

The documents of the run are never numbered. Whatever is not plain, and all that would be refused,
is left to the general way, which reads the data into a `Ranking` and `Judgments` first: it gives
the same hits and remarks, and the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from assay.arrays import NUMBER_TYPES, Ints, offsets_of
from assay.core import mismatches
from assay.core.conventions import Conventions
from assay.core.hits import Hits, RankedQueries, count_named, make_hits, regroup, rows_by_id
from assay.core.ids import Ids
from assay.core.judgments import Qrels
from assay.core.ranking import TIES_BY_RULE
from assay.errors import InputError
from assay.native import kernels

if TYPE_CHECKING:
    from assay.native.signatures import JoinedRows


class _Joined(NamedTuple):
    """The joined hits; `docs_of` gives the ids of a row of the run."""

    ranked: Ids
    judged: Ids
    to_judged: Ints
    lengths: Ints
    docs_of: Callable[[int], Iterable[Any]]
    rows: JoinedRows


def judge_objects(run: Any, qrels: Any, rules: Conventions, *, allow_mismatch: bool) -> Hits | None:
    """Return the hits of a run, if both it and the judgments are plain and fit.

    >>> rules = Conventions()
    >>> judge_objects({"q": {"a": 0.5}}, {"q": {"a": 1}}, rules, allow_mismatch=False).rank.tolist()
    [1]
    >>> judge_objects([("q", "a", 0.5)], [("q", "a", 1)], rules, allow_mismatch=False).rank.tolist()
    [1]
    """
    if rules.depth or rules.self_match == "exclude" or rules.unjudged != "nonrelevant":
        return None
    try:
        if _are_dicts(run) and _are_dicts(qrels):
            joined = _join_dicts(run, qrels, rules)
        elif _are_tuples(run) and _are_tuples(qrels):
            joined = _join_tuples(run, qrels, rules)
        else:
            return None
        return None if joined is None else _judge(joined, rules, allow_mismatch)
    except InputError:  # the general way says the same, or names the first of several faults
        return None


def _are_dicts(data: Any) -> bool:
    return type(data) is dict and bool(data) and type(next(iter(data.values()))) is dict


def _are_tuples(data: Any) -> bool:
    return type(data) is list and bool(data) and type(data[0]) is tuple


def _join_dicts(run: Any, qrels: Any, rules: Conventions) -> _Joined | None:
    ranked, judged = (Ids.of(list(ids), "query") for ids in (run, qrels))
    rows, to_judged = list(run.values()), ranked.match(judged)
    rows_joined = kernels().join_rows(rows, list(qrels.values()), to_judged, *_how(rules))
    if rows_joined is None:
        return None
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return _Joined(ranked, judged, to_judged, lengths, rows.__getitem__, rows_joined)


def _join_tuples(run: Any, qrels: Any, rules: Conventions) -> _Joined | None:
    width = 2 if len(qrels[0]) == 2 else 3
    read = kernels().join_tuples(run, qrels, width, *_how(rules))
    if read is None:
        return None
    ranked, judged = (Ids.from_utf8(*ids) for ids in read[:2])
    begins = offsets_of(read[2]).tolist()

    def docs_of(row: int) -> list[Any]:
        return [line[1] for line in run[begins[row] : begins[row + 1]]]

    return _Joined(ranked, judged, ranked.match(judged), read[2], docs_of, read[3])


def _how(rules: Conventions) -> tuple[tuple[type, ...], int, bool]:
    return NUMBER_TYPES, TIES_BY_RULE[rules.tiebreak], rules.scores == "float32"


def _judge(joined: _Joined, rules: Conventions, allow: bool) -> Hits | None:
    ranked, judged, to_judged, lengths, docs_of, rows_joined = joined
    (blob, ids, offsets, docs, grades), hits, scores, seen, only_judged, constant = rows_joined
    judgments = Qrels(judged, Ids.from_utf8(blob, ids), offsets, docs.astype(np.int64), grades)
    some_rows = range(0, len(lengths), mismatches.step_over_rows(int(lengths.sum())))
    some = chain.from_iterable(map(docs_of, some_rows))
    is_seen = seen.astype(bool)  # nothing is to be said of documents that are not in the run
    fits = only_judged or bool(is_seen.all())
    fits = fits or bool(is_seen.any() and mismatches.looks_alike(judgments.doc_ids, is_seen, some))
    if not fits or (
        not judgments.whole
        and (len(mismatches.fractions_among(grades)) or len(mismatches.mostly_fractions(grades)))
    ):
        return None
    remarks = mismatches.check_queries(ranked, judgments, to_judged, allow=allow)
    odd = mismatches.odd_scores(lengths, hits[0], hits[4], lambda: scores)
    ranking = RankedQueries(ranked, lengths)

    def cover() -> Any:
        names = set(chain.from_iterable(map(docs_of, range(len(lengths)))))
        qrels = judgments.in_id_order
        named = np.array([id in names for id in qrels.doc_ids.to_list()], bool)
        return count_named(qrels, named[qrels.docs], len(names))

    rows = rows_by_id(ranking, judgments, rules, to_judged)
    return make_hits(
        ranking,
        judgments,
        rules,
        to_judged,
        rows,
        regroup(hits, rows),
        judgments.in_id_order.grade_counts,
        exhaustive=False,
        own_doc=None,
        cover=cover,
        remarks=(*remarks, *odd, *([mismatches.CONSTANT] if constant else [])),
    )
