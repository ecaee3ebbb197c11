"""judge for plain dictionaries: {query: {doc: score}} and {query: {doc: grade}} of text ids.

The documents of the run are never numbered. Whatever is not plain, and all that would be refused,
is left to the general way, which reads the data into a `Ranking` and `Judgments` first: it gives
the same hits and remarks, and the errors.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from assay.arrays import Flags
from assay.core import order
from assay.core.conventions import Conventions
from assay.core.hits import Hits, RankedQueries, hits_in_id_order
from assay.core.id_hints import looks_alike
from assay.core.ids import Ids
from assay.core.input_remarks import (
    CONSTANT,
    check_queries,
    fractions_among,
    odd_scores,
    step_over_rows,
)
from assay.core.judgments import Qrels
from assay.core.ranking import TIES_BY_RULE
from assay.errors import InputError
from assay.native import kernels
from assay.native.signatures import NUMBER_TYPES

__all__ = ["judge_dicts"]

Rows = dict[Any, dict[Any, Any]]


def judge_dicts(run: Any, qrels: Any, rules: Conventions, *, allow_mismatch: bool) -> Hits | None:
    """The hits of a run, if both it and the judgments are plain dictionaries that fit.

    >>> hits = judge_dicts({"q": {"a": 0.5}}, {"q": {"a": 1}}, Conventions(), allow_mismatch=False)
    >>> hits.rank.tolist()
    [1]
    """
    if not (_is_plain(run) and _is_plain(qrels)) or rules.depth or rules.self_match == "exclude":
        return None
    try:
        return _judge(run, qrels, rules, allow_mismatch)
    except InputError:  # the general way says the same, or names the first of several faults
        return None


def _is_plain(data: Any) -> bool:
    return type(data) is dict and bool(data) and type(next(iter(data.values()))) is dict


def _judge(run: Rows, qrels: Rows, rules: Conventions, allow: bool) -> Hits | None:
    ranked, judged = (Ids.of(list(ids), "query") for ids in (run, qrels))
    rows, to_judged = list(run.values()), ranked.match(judged)
    found = kernels().join_rows(
        rows,
        list(qrels.values()),
        to_judged,
        NUMBER_TYPES,
        TIES_BY_RULE[rules.tiebreak],
        rules.scores == "float32",
    )
    if found is None:
        return None
    (blob, ids, offsets, docs, grades), hits, scores, seen, only_judged, constant = found
    judgments = Qrels(judged, Ids.from_utf8(blob, ids), offsets, docs.astype(np.int64), grades)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    fits = only_judged or _fit(judgments.doc_ids, seen.astype(bool), rows, int(lengths.sum()))
    if not fits or len(fractions_among(grades)):
        return None
    remarks = check_queries(ranked, judgments, to_judged, allow=allow)
    odd = odd_scores(lengths, order.rows_of(hits[0]), hits[4], lambda: scores)
    return hits_in_id_order(
        RankedQueries(ranked, lengths),
        judgments,
        rules,
        to_judged,
        hits,
        judgments.grade_counts,
        exhaustive=False,
        own=None,
        remarks=(*remarks, *odd, *([CONSTANT] if constant else [])),
    )


def _fit(judged: Ids, seen: Flags, rows: list[dict[Any, Any]], n_results: int) -> bool:
    """Whether nothing is to be said of documents that are judged and not in the run."""
    some = chain.from_iterable(rows[:: step_over_rows(n_results)])
    return bool(seen.all()) or (bool(seen.any()) and looks_alike(judged, seen, some))
