"""The kernels in Python and numpy: the same answers and errors as the compiled ones, slower."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from assay.arrays import Bytes, Flags, Floats, Ints, Ints32, gather, offsets_of
from assay.native.signatures import RowFault
from assay.native.tie_order import rank_order
from assay.native.twins.coarse import CoarseBlock, coarse_rows, coarsen, coarsen_wide
from assay.native.twins.hamming import count_code_distances, find_nearest_codes
from assay.native.twins.objects import (
    join_rows,
    join_tuples,
    number_rows,
    number_texts,
    number_tuples,
)
from assay.native.twins.score_ranks import count_score_ranks
from assay.native.twins.search import (
    DocBlock,
    QueryBlock,
    TopK,
    count_coarse_targets,
    count_targets,
    decide_targets,
    fused_rows,
    pair_scores,
    square_norms,
    widen,
)
from assay.native.twins.statistics import bootstrap_sums, flip_sums, shuffled_ranges
from assay.native.twins.trec import TrecParser

__all__ = [
    "CoarseBlock",
    "DocBlock",
    "QueryBlock",
    "TopK",
    "TrecParser",
    "bootstrap_sums",
    "coarse_rows",
    "coarsen",
    "coarsen_wide",
    "count_coarse_targets",
    "count_code_distances",
    "count_grades",
    "count_judged",
    "count_score_ranks",
    "count_targets",
    "decide_targets",
    "find_judged",
    "find_nearest_codes",
    "first_duplicate",
    "first_repeat",
    "flip_sums",
    "fused_rows",
    "join_rows",
    "join_tuples",
    "match_ids",
    "number_ids",
    "number_rows",
    "number_texts",
    "number_tuples",
    "order_ids",
    "order_rows",
    "pair_scores",
    "shuffled_ranges",
    "sort_rows",
    "square_norms",
    "take_ids",
    "widen",
]


def sort_rows(
    queries: Ints32,
    docs: Ints32,
    scores: Floats,
    n_queries: int,
    doc_blob: Bytes,
    doc_offsets: Ints,
    ties: int,
    float32: bool,
) -> tuple[Ints, Ints32, Floats, RowFault | None]:
    """Group lines by query and sort each row; see `signatures.Kernels.sort_rows`."""
    _require(len(queries) == len(docs) == len(scores), _ONE_LENGTH)
    _require(ties in (-1, 0, 1), "ties must be -1, 0 or 1")
    _check_offsets(doc_offsets, len(doc_blob))
    n_docs = len(doc_offsets) - 1
    _check_codes(queries, 0, n_queries, "query code out of range")
    _check_codes(docs, 0, n_docs, "doc code out of range")
    values = _to_float32(scores) if float32 else scores
    grouped = np.argsort(queries, kind="stable")
    fault = _row_fault(queries[grouped], docs[grouped], values[grouped], n_docs)
    order = rank_order(values, tiebreak=_tie_keys(docs, doc_blob, doc_offsets, ties), row=queries)
    counts = np.bincount(queries, minlength=n_queries)
    return offsets_of(counts), docs[order], values[order], fault


def order_rows(offsets: Ints, scores: Floats, tiebreak: Ints | None) -> Ints:
    """Find the permutation that sorts each row by score descending, tiebreak ascending."""
    _check_offsets(offsets, len(scores))
    _require(tiebreak is None or len(tiebreak) == len(scores), _ONE_LENGTH_TIES)
    _require(not np.isnan(scores).any(), "scores must not be NaN")
    return rank_order(scores, tiebreak=tiebreak, row=_row_numbers(offsets))


def find_judged(
    offsets: Ints,
    docs: Ints32,
    scores: Floats,
    rows: Ints,
    judged_offsets: Ints,
    judged_docs: Ints32,
    judged_grades: Floats,
    n_docs: int,
) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    """Find judged docs in sorted rows: (offsets, rank, rank_lo, rank_hi, grade)."""
    _require(len(docs) == len(scores) and len(judged_docs) == len(judged_grades), _DOCS_AND_VALUES)
    _require(len(rows) + 1 == len(judged_offsets), _A_ROW_EACH)
    _check_offsets(offsets, len(docs))
    _check_offsets(judged_offsets, len(judged_docs))
    _check_codes(docs, 0, n_docs, "doc code out of range")
    _check_codes(judged_docs, -1, n_docs, "doc code out of range")
    _check_codes(rows, 0, len(offsets), "row out of range")
    at, ends = gather(np.append(offsets, len(docs)), rows)
    docs, scores, query = docs[at], scores[at], _row_numbers(ends)
    judgment = _judgment_of(
        query * n_docs + docs, _row_numbers(judged_offsets) * n_docs + judged_docs, judged_docs >= 0
    )
    places = np.flatnonzero(judgment >= 0)
    lo, hi = _tie_groups(query, scores, places)
    begin = ends[query[places]]
    counts = np.bincount(query[places], minlength=len(rows))
    grade = judged_grades[judgment[places]]
    return offsets_of(counts), places - begin + 1, lo - begin + 1, hi - begin, grade


def count_judged(
    offsets: Ints,
    docs: Ints32,
    scores: Floats,
    rows: Ints,
    judged_offsets: Ints,
    judged_docs: Ints32,
    judged_grades: Floats,
    n_docs: int,
) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    """Find judged docs in rows of any order; equal scores are ordered by doc code."""
    order = order_rows(offsets, scores, docs.astype(np.int64))
    return find_judged(
        offsets,
        docs[order],
        scores[order],
        rows,
        judged_offsets,
        judged_docs,
        judged_grades,
        n_docs,
    )


def count_grades(offsets: Ints, grades: Floats) -> tuple[Ints, Floats, Ints]:
    """Count each row's judgments by grade, highest first; -0.0 counts as 0.0."""
    _check_offsets(offsets, len(grades))
    _require(not np.isnan(grades).any(), "grades must not be NaN")
    row = _row_numbers(offsets)
    by_grade = np.lexsort((-grades, row))
    row, grade = row[by_grade], grades[by_grade] + 0.0
    new = np.ones(len(row), np.bool_)
    new[1:] = (row[1:] != row[:-1]) | (grade[1:] != grade[:-1])
    start = np.flatnonzero(new)
    count = np.diff(np.append(start, len(row)))
    return offsets_of(np.bincount(row[start], minlength=len(offsets) - 1)), grade[start], count


def first_repeat(offsets: Ints, docs: Ints32) -> int:
    """Find the first place at which a doc stands in its row a second time, or -1."""
    _check_offsets(offsets, len(docs))
    by_doc = np.lexsort((docs, _row_numbers(offsets)))
    row, doc = _row_numbers(offsets)[by_doc], docs[by_doc]
    again = np.flatnonzero((row[1:] == row[:-1]) & (doc[1:] == doc[:-1]))
    return int(by_doc[again + 1].min(initial=len(docs))) if len(again) else -1


def first_duplicate(blob: Bytes, offsets: Ints) -> tuple[int, int] | None:
    """Find the first id that appears a second time: both places."""
    seen: dict[bytes, int] = {}
    for place, text in enumerate(_texts(blob, offsets)):
        earlier = seen.setdefault(text, place)
        if earlier != place:
            return earlier, place
    return None


def number_ids(blob: Bytes, offsets: Ints) -> tuple[Bytes, Ints, Ints32] | None:
    """Number ids by first appearance; None unless all are clean."""
    return number_texts([text.decode() for text in _texts(blob, offsets)])


def match_ids(blob: Bytes, offsets: Ints, other_blob: Bytes, other_offsets: Ints) -> Ints:
    """Find each id's first place among the others, or -1."""
    places: dict[bytes, int] = {}
    for place, text in enumerate(_texts(other_blob, other_offsets)):
        places.setdefault(text, place)
    places_of = (places.get(text, -1) for text in _texts(blob, offsets))
    return np.fromiter(places_of, np.int64, len(offsets) - 1)


def order_ids(blob: Bytes, offsets: Ints, descending: bool) -> Ints:
    """Find the permutation that sorts ids by bytes; equal ids keep their order."""
    texts = _texts(blob, offsets)
    order = sorted(range(len(texts)), key=texts.__getitem__, reverse=descending)
    return np.array(order, np.int64)


def take_ids(blob: Bytes, offsets: Ints, places: Ints) -> tuple[Bytes, Ints]:
    """Copy the ids at some places."""
    _check_offsets(offsets, len(blob))
    fine = not len(places) or (places.min() >= 0 and places.max() < len(offsets) - 1)
    _require(bool(fine), "place out of range")
    raw, ends = blob.tobytes(), offsets.tolist()
    texts = [raw[ends[place] : ends[place + 1]] for place in places.tolist()]
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return np.frombuffer(b"".join(texts), np.uint8), offsets_of(sizes)


_ONE_LENGTH = "queries, docs and scores must have one length"
_ONE_LENGTH_TIES = "tiebreak and scores must have one length"
_DOCS_AND_VALUES = "docs and their values must have one length"
_A_ROW_EACH = "every judged query must have a row"


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _check_offsets(offsets: Ints, elements: int) -> None:
    _require(len(offsets) >= 1 and offsets[0] == 0, "offsets must start with 0")
    _require(not (np.diff(offsets) < 0).any(), "offsets must not fall")
    _require(offsets[-1] == elements, "offsets must end at the number of elements")


def _check_codes(codes: Ints | Ints32, least: int, end: int, message: str) -> None:
    _require(not len(codes) or bool(codes.min() >= least and codes.max() < end), message)


def _row_numbers(offsets: Ints) -> Ints:
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def _texts(blob: Bytes, offsets: Ints) -> list[bytes]:
    _check_offsets(offsets, len(blob))
    raw = blob.tobytes()
    return [raw[begin:end] for begin, end in pairwise(offsets.tolist())]


def _to_float32(scores: Floats) -> Floats:
    with np.errstate(over="ignore"):  # infinity is reported as a fault
        return scores.astype(np.float32).astype(np.float64)


def _tie_keys(docs: Ints32, blob: Bytes, offsets: Ints, ties: int) -> Ints:
    """Return what orders docs of equal score, ascending; the sort itself keeps appearance."""
    if ties == 0:
        return np.zeros(len(docs), np.int64)
    order = order_ids(blob, offsets, descending=ties < 0)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[docs]


def _row_fault(queries: Ints32, docs: Ints32, scores: Floats, n_docs: int) -> RowFault | None:
    """Find the first fault of lines that are grouped by query."""
    repeated = np.ones(len(docs), np.bool_)
    repeated[np.unique(queries.astype(np.int64) * n_docs + docs, return_index=True)[1]] = False
    faults = []
    for severity, (kind, at_fault) in enumerate(
        (("duplicate", repeated), ("float32", np.isinf(scores)))
    ):
        for place in np.flatnonzero(at_fault)[:1].tolist():
            faults.append((int(queries[place]), severity, kind, int(docs[place])))
    if not faults:
        return None
    query, _, kind, doc = min(faults)
    return kind, query, doc


def _judgment_of(keys: Ints, judged_keys: Ints, present: Flags) -> Ints:
    """Return for each key the index of its first judgment, or -1."""
    places = np.flatnonzero(present)
    places = places[np.argsort(judged_keys[places], kind="stable")]
    if not len(places):
        return np.full(len(keys), -1, np.int64)
    at = np.minimum(np.searchsorted(judged_keys[places], keys), len(places) - 1)
    return np.where(judged_keys[places[at]] == keys, places[at], -1)


def _tie_groups(rows: Ints, scores: Floats, places: Ints) -> tuple[Ints, Ints]:
    """Return the first place, and the one after the last, that share row and score."""
    change = (rows[1:] != rows[:-1]) | (scores[1:] != scores[:-1])
    starts = np.concatenate([[0], np.flatnonzero(change) + 1, [len(rows)]]).astype(np.int64)
    group = np.searchsorted(starts, places, side="right")
    return starts[group - 1], starts[group]
