"""Codes as learning to hash judges them: mAP by labels, and what lies within a Hamming radius.

Rows of labels or judgments are taken a block of queries at a time, so that neither a whole order
of all documents for all queries nor a table of all pairs is ever held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, offsets_of
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.hits import Hits, judge
from assay.core.id_hints import check_match
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Labels, Qrels
from assay.core.ranking import Ranking
from assay.core.text import did_you_mean
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.io.formats import as_judgments
from assay.scoring.chance import chance
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.tasks.codes.search import VectorSearch

__all__ = [
    "HASHING",
    "RADIUS",
    "LabelRelevance",
    "PairRelevance",
    "RadiusCurve",
    "map_measure",
    "read_relevance",
]

# How deep the field cuts the list on each collection; None is the whole list.
HASHING: Final[dict[str, int | None]] = {
    "all": None,
    "cifar10": None,
    "mirflickr": None,
    "imagenet": 1000,
    "nuswide": 5000,
    "coco": 5000,
}
RADIUS: Final = 2  # of the usual P@radius: what a hash table finds without a scan


def map_measure(preset: str) -> str:
    """The measure behind mAP@all, mAP@1000 or mAP@5000, by the name of the collection."""
    if preset not in HASHING:
        known = ", ".join(HASHING)
        hint = did_you_mean(str(preset), list(HASHING))
        raise UsageError(f"Unknown preset of hashing {preset!r}. Known: {known}.{hint}")
    cut = HASHING[preset]
    return "AP" if cut is None else f"AP@{cut}"


def as_label_rows(labels: Any, n_rows: int, what: str) -> NDArray[Any]:
    """One label for each row or, with two dimensions, 0 or 1 for each row and class."""
    nested = isinstance(labels, list | tuple) and isinstance((*labels, None)[0], list | tuple)
    array = None
    if nested or getattr(labels, "ndim", 1) == 2:
        array = checks.plain_array(labels, what)
    if array is None:
        array = checks.check_labels(labels, what)
    elif array.dtype.kind not in "biuf" or not ((array == 0) | (array == 1)).all():
        raise ValueRangeError(f"{what} of two dimensions must be 0 or 1 for each row and class.")
    checks.check_lengths(**{what: len(array), "vectors": n_rows})
    return array


@dataclass(frozen=True, eq=False)
class LabelRelevance:
    """A document is relevant that shares the query's label, or one of its labels."""

    query_ids: Ids
    doc_ids: Ids
    query_labels: NDArray[Any]
    doc_labels: NDArray[Any]

    @classmethod
    def of(cls, task: VectorSearch, labels: Any, query_labels: Any, own: bool) -> LabelRelevance:
        """Check that both sides are labelled, in one way."""
        if labels is None or (query_labels is None) != own:
            raise UsageError(
                "Labels are needed for documents and for queries: labels and query_labels; where "
                "the documents are their own queries, labels alone."
            )
        docs = as_label_rows(labels, len(task.docs), "labels")
        queries = docs if own else as_label_rows(query_labels, len(task.queries), "query_labels")
        if docs.shape[1:] != queries.shape[1:]:
            raise ShapeError(
                f"labels and query_labels must have the same classes; found the shapes "
                f"{docs.shape} and {queries.shape}."
            )
        return cls(_ids(task.query_ids, queries), _ids(task.doc_ids, docs), queries, docs)

    def of_rows(self, rows: Ints) -> Judgments:
        """The judgments of some queries."""
        names, wanted = self.query_ids.take(rows), self.query_labels[rows]
        if wanted.ndim == 1:
            return Judgments.from_labels(
                wanted, self.doc_labels, query_ids=names, doc_ids=self.doc_ids
            )
        shared = wanted.astype(np.float32) @ self.doc_labels.T.astype(np.float32) > 0
        row, doc = np.nonzero(shared)
        made = Judgments.from_pairs(names, self.doc_ids, row, doc, np.ones(len(row)))
        return replace(made, exhaustive=True)


def _ids(ids: Ids | None, rows: NDArray[Any]) -> Ids:
    return Ids.count(len(rows)) if ids is None else ids


@dataclass(frozen=True, eq=False)
class PairRelevance:
    """Judgments of pairs; judged queries without a vector go with the first rows, and count 0."""

    query_ids: Ids
    judgments: Qrels | Labels

    def of_rows(self, rows: Ints) -> Judgments:
        """The judgments of some queries."""
        judged = self.judgments
        place = judged.query_ids.match(self.query_ids)
        kept = np.isin(place, rows) | ((place < 0) & (0 in rows))
        if kept.all():
            return judged
        names = judged.query_ids.take(np.flatnonzero(kept))
        if not isinstance(judged, Qrels):
            return replace(judged, query_ids=names, query_labels=judged.query_labels[kept])
        length = np.diff(judged.offsets)
        inside = np.repeat(kept, length)
        return replace(
            judged,
            query_ids=names,
            offsets=offsets_of(length[kept]),
            docs=judged.docs[inside],
            grades=judged.grades[inside],
        )


Relevance = LabelRelevance | PairRelevance


@dataclass(frozen=True, eq=False)
class RadiusCurve:
    """Mean precision and recall of all documents within each Hamming radius, 0 … bits.

    A ball without a document has precision 0, as the field counts it; `filled` is the share of
    queries whose ball has one. `near` is the precision of each query at radius 2.
    """

    bits: int
    precision: Floats
    recall: Floats
    filled: Floats
    near: Floats

    @classmethod
    def of(cls, bits: int, balls: list[tuple[Ints, Ints, Ints]]) -> RadiusCurve:
        """From counts of all and of relevant documents by radius, and of all relevant ones."""
        inside, good, n_good = (np.concatenate(part) for part in zip(*balls, strict=True))
        precision = good / np.maximum(inside, 1)
        recall = good / np.maximum(n_good, 1)[:, None]
        mean, found, filled = (part.mean(axis=0) for part in (precision, recall, inside > 0))
        return cls(bits, mean, found, filled, precision[:, min(RADIUS, bits)])


def count_balls(ranking: Ranking, hits: Hits, bits: int) -> tuple[Ints, Ints, Ints]:
    """For each query how many documents, and relevant ones, lie within each Hamming radius."""
    width = bits + 1
    rows = np.repeat(np.arange(len(ranking)), ranking.lengths)
    inside = _count(rows, -ranking.scores, len(ranking), width)
    own_row = hits.query_ids.match(ranking.query_ids)
    chosen = hits.grade >= 1
    at = ranking.offsets[own_row[hits.row]] + hits.rank - 1
    good = _count(hits.row[chosen], -ranking.scores[at[chosen]], hits.n_queries, width)
    counted = np.where(hits.pool_grade >= 1, hits.pool_count, 0)
    n_good = np.bincount(hits.pool_row, counted, minlength=hits.n_queries).astype(np.int64)
    padded = np.concatenate([inside, np.zeros((1, width), np.int64)])  # for queries not ranked
    return padded[own_row], good, n_good


def _count(rows: Ints, distances: Floats, n_rows: int, width: int) -> Ints:
    cells = np.bincount(rows * width + distances.astype(np.int64), minlength=n_rows * width)
    return np.asarray(cells.reshape(n_rows, width).cumsum(axis=1), np.int64)


def read_relevance(
    task: VectorSearch, qrels: Any, labels: Any, query_labels: Any, own: bool, allow: bool
) -> tuple[Relevance | None, tuple[str, ...]]:
    """What is relevant, and remarks about it."""
    if labels is not None or query_labels is not None:
        if qrels is not None:
            raise UsageError("Give labels or qrels, not both: each says what is relevant.")
        return LabelRelevance.of(task, labels, query_labels, own), ()
    if qrels is None:
        return None, ()
    judged = as_judgments(qrels)
    if not isinstance(judged, Qrels | Labels):
        raise UsageError("qrels must be graded pairs or labels.")
    query_ids = task.query_ids or Ids.count(len(task.queries))
    doc_ids = task.doc_ids or Ids.count(len(task.docs))
    return PairRelevance(query_ids, judged), _check_judgments(judged, query_ids, doc_ids, allow)


def _check_judgments(
    judgments: Qrels | Labels, query_ids: Ids, doc_ids: Ids, allow: bool
) -> tuple[str, ...]:
    """Refuse judgments of other queries or documents; remark on those without a vector."""
    remarks: list[str] = []
    sides = [
        ("queries", judgments.query_ids, query_ids),
        ("documents", judgments.doc_ids, doc_ids),
    ]
    for what, judged, known in sides:
        if known.numbered and judged.kind == "text" and len(judged):
            raise MismatchError(
                f"The judgments name {what} by ids such as {judged[0]!r}, and the vectors are only "
                "numbered. Give the ids of the vectors."
            )
        found = judged.match(known) >= 0
        absent = np.flatnonzero(~found)
        place = f"the {len(known)} vectors"
        remarks += check_match(judged, known, f"judged {what}", place, allow=allow, found=found)
        if len(absent):
            remarks.append(
                f"{len(absent)} of {len(judged)} judged {what} have no vector: "
                f"{checks.name_few(judged.take(absent))}"
            )
    return tuple(remarks)


def score_rows(
    relevance: Relevance,
    blocks: Iterator[Ints],
    rank_rows: Callable[[Ints], Ranking],
    names: list[str],
    rules: Conventions,
    bits: int | None = None,
) -> tuple[Scores, RadiusCurve | None]:
    """Scores of rankings that are made for some queries at a time; with `bits` the curve, too."""
    parts, balls = [], []
    for rows in blocks:
        ranking = rank_rows(rows)
        hits = judge(ranking, relevance.of_rows(rows), conventions=rules, allow_mismatch=True)
        parts.append(score(hits, names, conventions=rules))
        if bits is not None:
            balls.append(count_balls(ranking, hits, bits))
    return Scores.merge(*parts), RadiusCurve.of(bits, balls) if bits is not None else None


def random_map(
    relevance: Relevance, blocks: Iterator[Ints], ranking: Ranking, measure: str, rules: Conventions
) -> float:
    """The measure of a random order, exactly; of the ranking only queries and sizes matter."""
    parts = []
    for rows in blocks:
        judged = relevance.of_rows(rows)
        hits = judge(ranking.rows(rows), judged, conventions=rules, allow_mismatch=True)
        parts.append(chance(hits, measure, conventions=rules))
    return Scores.merge(*parts).mean()[measure]
