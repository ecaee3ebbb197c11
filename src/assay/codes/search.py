"""The searches behind an evaluation of codes: float vectors, shorter vectors, packed bits.

All go through the engine's exact search and keep every document that ties with the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, offsets_of
from assay.codes.encoders import CodeTraining, FoldedCodes, float_blocks, open_vectors
from assay.codes.settings import HASHING, HELD_OUT, METRICS, Metric, Zero
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.hits import Hits, judge
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Labels, Qrels
from assay.core.mismatches import check_match
from assay.core.ranking import Ranking
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.io.fingerprints import digest_of_arrays
from assay.io.formats import as_judgments
from assay.scoring.chance import chance
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.search.engine import Codes, prepare, rank, rank_codes
from assay.search.engine.inputs import check_ids
from assay.search.engine.search import rerank

Progress = Callable[[int, int | None], object]
Vectors = NDArray[Any] | Codes

SAMPLE_DOCS: Final = 1000
SAMPLE_QUERIES: Final = 1000
BLOCK_CELLS: Final = 1 << 23  # queries × documents that are ranked at a time


@dataclass(frozen=True, eq=False)
class Sample:
    """Row numbers of some queries and documents, and which pairs of them are one item."""

    queries: Ints
    docs: Ints
    own_pairs: Ints | None


@dataclass(frozen=True, eq=False)
class VectorSearch:
    """The queries and documents of all searches, the depth and the metric."""

    queries: NDArray[Any]
    docs: NDArray[Any]
    query_ids: Ids | None
    doc_ids: Ids | None
    exclude: str | None
    metric: Metric
    depth: int
    rerank: int | None
    zero: Zero
    threads: int | None

    @property
    def n_candidates(self) -> int:
        """Number of documents that a query can retrieve."""
        return len(self.docs) - (self.exclude is not None)

    @property
    def names(self) -> tuple[Ids, Ids]:
        """Ids of queries and documents: their numbers where they have none."""
        queries = Ids.count(len(self.queries)) if self.query_ids is None else self.query_ids
        return queries, Ids.count(len(self.docs)) if self.doc_ids is None else self.doc_ids

    @cached_property
    def _corpus(self) -> Any:
        """The documents; prepared where codes are re-ranked by them, unless they lie in a file."""
        in_memory = type(self.docs) is np.ndarray
        return prepare(self.docs, threads=self.threads) if self.rerank and in_memory else self.docs

    def search(
        self,
        queries: Vectors,
        docs: Vectors,
        progress: Progress | None = None,
        metric: Metric | None = None,
    ) -> Ranking:
        """Rank encoded documents for encoded queries; binary codes are re-ranked with `rerank`."""
        if isinstance(docs, Codes) and self.rerank is not None:
            return self.rescore(queries, docs, None, self.rerank, progress)
        targets = self._corpus if docs is self.docs else docs
        how = self._common | {"keep_ties": True, "progress": progress}
        return self._rank(queries, targets, self.depth, metric, **how)

    def _rank(
        self, queries: Vectors, docs: Any, depth: int, metric: Metric | None, **how: Any
    ) -> Ranking:
        """Rank codes by Hamming distance, and vectors by the metric."""
        if isinstance(docs, Codes):
            ranking = rank_codes(queries, docs, depth, **how)
            return docs.unfold(ranking) if isinstance(docs, FoldedCodes) else ranking
        left = cast("NDArray[Any]", queries)
        return rank(left, docs, depth, metric=metric or self.metric, zero=self.zero, **how)

    def rescore(
        self,
        queries: Vectors,
        docs: Vectors,
        metric: Metric | None,
        depth: int,
        progress: Progress | None = None,
    ) -> Ranking:
        """Return the first documents of a code, ordered again by the float vectors."""
        ranking = self._rank(queries, docs, depth, metric, progress=progress, **self._common)
        how: dict[str, Any] = {"metric": self.metric, "zero": self.zero, "threads": self.threads}
        return rerank(ranking, self.queries, docs=self._corpus, **how)

    def rank_rows(
        self, queries: Vectors, docs: Vectors, metric: Metric | None, rows: Ints, depth: int | None
    ) -> Ranking:
        """Rank all documents for some queries, or the first `depth` and ties."""
        query_ids, doc_ids = self.names
        how = self._common | {"query_ids": query_ids.take(rows), "doc_ids": doc_ids}
        first = min(depth or len(self.docs), len(self.docs))
        return self._rank(_rows(queries, rows), docs, first, metric, **how)

    def row_blocks(self) -> Iterator[Ints]:
        """Yield rows of the queries, so few at a time that all their documents fit."""
        step = max(1, BLOCK_CELLS // len(self.docs))
        for start in range(0, len(self.queries), step):
            yield np.arange(start, min(start + step, len(self.queries)))

    def rank_sample(
        self, sample: Sample, queries: Vectors, docs: Vectors, metric: Metric | None = None
    ) -> Ranking:
        """Return the whole order of some documents for some queries, without any re-ranking."""
        left, right = _rows(queries, sample.queries), _rows(docs, sample.docs)
        how: dict[str, Any] = {"exclude": sample.own_pairs, "threads": self.threads}
        return self._rank(left, right, len(sample.docs), metric, **how)

    def sample(self, seed: int) -> Sample:
        """Draw some queries and documents for all codes; all if few.

        They are drawn by id, and queries are in the order of ids: rows may come in any order.
        """
        rng = np.random.default_rng(seed)
        queries = _draw(rng, self.query_order, SAMPLE_QUERIES)
        docs = np.sort(_draw(rng, _by_id(self.doc_ids, len(self.docs)), SAMPLE_DOCS))
        if self.exclude is None:
            return Sample(queries, docs, None)
        own_docs = self.own_docs()[queries]
        place = np.searchsorted(docs, own_docs)
        sampled = docs[np.minimum(place, len(docs) - 1)] == own_docs
        return Sample(queries, docs, np.column_stack([np.flatnonzero(sampled), place[sampled]]))

    @property
    def query_order(self) -> Ints:
        """The rows of the queries in the order of their ids."""
        return _by_id(self.query_ids, len(self.queries))

    def own_docs(self) -> Ints:
        """Return the number of each query's own document, or −1."""
        if self.query_ids is None or self.doc_ids is None:
            return np.full(len(self.queries), -1)
        return self.query_ids.match(self.doc_ids)

    def rows_to_learn_from(self) -> Ints | None:
        """Return the documents that are no query's own.

        None stands for all of them, also where less than half are left.
        """
        own_docs = self.own_docs()
        rest = np.delete(np.arange(len(self.docs)), own_docs[own_docs >= 0])
        return rest if len(self.docs) / 2 <= len(rest) < len(self.docs) else None

    def training(self, train: Any) -> tuple[CodeTraining, str, tuple[str, ...]]:
        """Return what codes learn from, its name in the signature, and remarks about it."""
        if train is None or checks.is_real(train):
            share = HELD_OUT if train is None else float(train)
            if not 0 < share <= 1:
                raise UsageError(f"train is {train!r}. Pass a share in (0, 1], or vectors.")
            order, typed = _by_id(self.doc_ids, len(self.docs)), train is not None
            rows = self.rows_to_learn_from()
            return CodeTraining(share, None, order, rows, typed), f"{share:g}", ()
        vectors = open_vectors(train, "train")
        if vectors.shape[1] != self.docs.shape[1]:
            raise MismatchError(
                f"train has {vectors.shape[1]} columns, docs {self.docs.shape[1]}. Align them."
            )
        values = np.asarray(vectors[:], np.float64)
        checks.check_finite(values, "train")
        own_rows = (row.tobytes() for block in float_blocks(self.docs) for row in block)
        seen = len({row.tobytes() for row in values}.intersection(own_rows))
        note = f"{seen} of the {len(values)} training vectors are searched documents"
        return CodeTraining(1, values), digest_of_arrays(values)[:8], (note,) if seen else ()

    @property
    def _common(self) -> dict[str, Any]:
        return {key: vars(self)[key] for key in ("exclude", "query_ids", "doc_ids", "threads")}


def _by_id(ids: Ids | None, size: int) -> Ints:
    return np.arange(size) if ids is None else ids.order()


def _draw(rng: np.random.Generator, rows: Ints, most: int) -> Ints:
    few = len(rows) <= most
    return rows if few else rows[np.sort(rng.choice(len(rows), most, replace=False))]


def _rows(vectors: Vectors, rows: Ints) -> Vectors:
    if isinstance(vectors, Codes):
        return replace(vectors, packed=vectors.packed[rows])
    return vectors[rows]


def keep_first(ranking: Ranking, depth: int) -> Ranking:
    """Leave out what ranks after the first `depth` of a row and their ties, where rows are equal.

    To sort all candidates takes longer than to find the last score that counts.
    """
    width = int(ranking.lengths.max(initial=0))
    if width <= depth or (ranking.lengths < width).any():
        return ranking
    scores = ranking.given_scores.reshape(-1, width)
    last = np.partition(scores, width - depth, axis=1)[:, [width - depth]]
    return ranking.select((scores >= last).ravel())


def make_search(
    docs: Any, queries: Any, query_ids: Any, doc_ids: Any, exclude_self: bool | None, **how: Any
) -> VectorSearch:
    """Check what belongs together; without queries the documents are their own.

    `how` are metric, depth, rerank, zero and threads of the search.
    """
    checks.check_choice(how["metric"], METRICS, "metric")
    # Vectors are an array, or rows of a .npy file that are read as they are used.
    vectors = open_vectors(docs, "docs")
    same = queries is None
    if same and query_ids is not None:
        raise UsageError("query_ids need queries. Omit them, or pass queries.")
    query_vectors = vectors if same else open_vectors(queries, "queries")
    without_self = same if exclude_self is None else checks.check_flag(exclude_self, "exclude_self")
    names = check_ids(doc_ids, len(vectors), "doc")
    others_names = names if same else check_ids(query_ids, len(query_vectors), "query")
    if (others_names is None) != (names is None):
        raise UsageError("Only one side has ids. Pass both query_ids and doc_ids, or neither.")
    if without_self and names is None:  # self is excluded by id: rows of one number are one item
        if len(query_vectors) != len(vectors):
            raise MismatchError(
                "The queries and documents have no ids and differ in number. Pass query_ids "
                "and doc_ids, or keep self."
            )
        names = others_names = Ids.count(len(vectors))
    if how["rerank"] is not None:
        how["rerank"] = checks.check_cutoff(how["rerank"], "rerank")
    exclude = "self" if without_self else None
    task = VectorSearch(query_vectors, vectors, others_names, names, exclude, **how)
    if task.depth > task.n_candidates:
        raise UsageError(
            f"k is {task.depth}, but queries have {task.n_candidates} candidates. Lower k."
        )
    if task.rerank is not None and task.rerank < task.depth:
        raise UsageError(
            f"rerank is {task.rerank} and the largest k is {task.depth}. Raise rerank."
        )
    return task


RADIUS: Final = 2  # of the usual P@radius: what a hash table finds without a scan


def map_measure(preset: str) -> str:
    """Return the measure behind mAP@all, mAP@1000 or mAP@5000, by the name of the collection."""
    cut = HASHING[checks.check_choice(preset, tuple(HASHING), "hashing")]
    return "AP" if cut is None else f"AP@{cut}"


def as_label_rows(labels: Any, n_rows: int, what: str) -> NDArray[Any]:
    """Return one label for each row or, with two dimensions, 0 or 1 for each row and class."""
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
    def of(cls, task: VectorSearch, labels: Any, query_labels: Any, same: bool) -> LabelRelevance:
        """Check that both sides are labelled, in one way."""
        if labels is None or (query_labels is None) != same:
            raise UsageError(
                "Labels are missing. Pass labels and query_labels, or labels alone without queries."
            )
        docs = as_label_rows(labels, len(task.docs), "labels")
        queries = docs if same else as_label_rows(query_labels, len(task.queries), "query_labels")
        if docs.shape[1:] != queries.shape[1:]:
            raise ShapeError(
                f"labels and query_labels must have the same classes; found the shapes "
                f"{docs.shape} and {queries.shape}."
            )
        return cls(*task.names, queries, docs)

    def of_rows(self, rows: Ints) -> Judgments:
        """Return the judgments of some queries."""
        names, labels = self.query_ids.take(rows), self.query_labels[rows]
        if labels.ndim == 1:
            ids = {"query_ids": names, "doc_ids": self.doc_ids}
            return Judgments.from_labels(labels, self.doc_labels, **ids)
        shared = labels.astype(np.float32) @ self.doc_labels.T.astype(np.float32) > 0
        row, doc = np.nonzero(shared)
        judgments = Judgments.from_pairs(names, self.doc_ids, row, doc, np.ones(len(row)))
        return replace(judgments, exhaustive=True)


@dataclass(frozen=True, eq=False)
class PairRelevance:
    """Judgments of pairs; judged queries without a vector go with the first rows, and count 0."""

    query_ids: Ids
    judgments: Qrels | Labels

    def of_rows(self, rows: Ints) -> Judgments:
        """Return the judgments of some queries."""
        judged = self.judgments
        place = judged.query_ids.match(self.query_ids)
        inside_rows = np.isin(place, rows) | ((place < 0) & (0 in rows))
        if inside_rows.all():
            return judged
        names = judged.query_ids.take(np.flatnonzero(inside_rows))
        if not isinstance(judged, Qrels):
            return replace(judged, query_ids=names, query_labels=judged.query_labels[inside_rows])
        length = np.diff(judged.offsets)
        inside = np.repeat(inside_rows, length)
        return replace(
            judged,
            query_ids=names,
            offsets=offsets_of(length[inside_rows]),
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

    def shares(self) -> Iterator[tuple[float, float, float]]:
        """Yield recall, precision and share of filled balls at each radius."""
        return zip(self.recall, self.precision, self.filled, strict=True)

    @classmethod
    def of(cls, bits: int, balls: list[tuple[Ints, Ints, Ints]]) -> RadiusCurve:
        """Make the curve of counts of documents by radius."""
        inside, good, n_good = (np.concatenate(part) for part in zip(*balls, strict=True))
        precision = good / np.maximum(inside, 1)
        recall = good / np.maximum(n_good, 1)[:, None]
        mean, mean_recall, filled = (part.mean(axis=0) for part in (precision, recall, inside > 0))
        return cls(bits, mean, mean_recall, filled, precision[:, min(RADIUS, bits)])


def count_balls(ranking: Ranking, hits: Hits, bits: int) -> tuple[Ints, Ints, Ints]:
    """Count documents, and relevant ones, within each Hamming radius."""
    width = bits + 1
    rows = np.repeat(np.arange(len(ranking)), ranking.lengths)
    inside = _count(rows, -ranking.scores, len(ranking), width)
    own_row = hits.query_ids.match(ranking.query_ids)
    relevant = hits.grade >= 1
    at = ranking.offsets[own_row[hits.row]] + hits.rank - 1
    good = _count(hits.row[relevant], -ranking.scores[at[relevant]], hits.n_queries, width)
    counted = np.where(hits.pool_grade >= 1, hits.pool_count, 0)
    n_good = np.bincount(hits.pool_row, counted, minlength=hits.n_queries).astype(np.int64)
    padded = np.concatenate([inside, np.zeros((1, width), np.int64)])  # for queries not ranked
    return padded[own_row], good, n_good


def _count(rows: Ints, distances: Floats, n_rows: int, width: int) -> Ints:
    cells = np.bincount(rows * width + distances.astype(np.int64), minlength=n_rows * width)
    return np.asarray(cells.reshape(n_rows, width).cumsum(axis=1), np.int64)


def read_relevance(
    task: VectorSearch, qrels: Any, labels: Any, query_labels: Any, same: bool, allow: bool
) -> tuple[Relevance | None, tuple[str, ...]]:
    """Return what is relevant, and remarks about it."""
    if labels is not None or query_labels is not None:
        if qrels is not None:
            raise UsageError("labels and qrels exclude each other. Pass one.")
        return LabelRelevance.of(task, labels, query_labels, same), ()
    if qrels is None:
        return None, ()
    judged = as_judgments(qrels)
    if not isinstance(judged, Qrels | Labels):
        raise UsageError("qrels must be graded pairs or labels. Convert them.")
    return PairRelevance(task.names[0], judged), _check_judgments(judged, *task.names, allow)


def _check_judgments(
    judgments: Qrels | Labels, query_ids: Ids, doc_ids: Ids, allow: bool
) -> tuple[str, ...]:
    """Refuse judgments of other queries or documents; remark on those without a vector."""
    remarks: list[str] = []
    sides = [("queries", judgments.query_ids, query_ids), ("documents", judgments.doc_ids, doc_ids)]
    for what, judged, vector_ids in sides:
        if vector_ids.numbered and judged.kind == "text" and len(judged):
            raise MismatchError(
                f"The judgments name {what} by ids such as {judged[0]!r}, but the vectors "
                "have no ids. Pass them."
            )
        matched = judged.match(vector_ids) >= 0
        absent = np.flatnonzero(~matched)
        names = f"judged {what}", f"the {len(vector_ids)} vectors"
        remarks += check_match(judged, vector_ids, *names, allow=allow, matched=matched)
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
    """Score rankings of some queries at a time.

    With `bits` the curve is made, too.
    """
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
    """Return the exact value of a random order.

    Of the ranking only queries and sizes matter.
    """
    parts = []
    for rows in blocks:
        judged = relevance.of_rows(rows)
        hits = judge(ranking.rows(rows), judged, conventions=rules, allow_mismatch=True)
        parts.append(chance(hits, measure, conventions=rules))
    return Scores.merge(*parts).mean()[measure]
