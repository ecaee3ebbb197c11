"""The searches behind an evaluation of codes: float vectors, shorter vectors, packed bits.

All go through the engine's exact search and keep every document that ties with the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.core import checks
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import MismatchError, UsageError
from assay.io.arrays import open_rows
from assay.search.engine import Codes, prepare, rank, rank_codes
from assay.search.engine.search import rerank
from assay.search.engine.vectors import matrix_of

__all__ = ["Metric", "Progress", "Sample", "VectorSearch", "Vectors", "Zero", "make_search"]

Metric = Literal["cosine", "dot", "l2"]
Zero = Literal["error", "drop", "last"]
Progress = Callable[[int, int | None], object]
Vectors = NDArray[Any] | Codes

_DOCS: Final = 1000
_QUERIES: Final = 1000
_CELLS: Final = 1 << 23  # queries × documents that are ranked at a time


@dataclass(frozen=True, eq=False)
class Sample:
    """Row numbers of some queries and documents, and which pairs of them are one item."""

    queries: Ints
    docs: Ints
    own: Ints | None


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
        if not isinstance(docs, Codes):
            return rank(
                cast("NDArray[Any]", queries),
                self._corpus if docs is self.docs else docs,
                self.depth,
                metric=metric or self.metric,
                zero=self.zero,
                keep_ties=True,
                progress=progress,
                **self._common,
            )
        if self.rerank is None:
            return rank_codes(
                queries, docs, self.depth, keep_ties=True, progress=progress, **self._common
            )
        return self.rescore(queries, docs, None, self.rerank, progress)

    def rescore(
        self,
        queries: Vectors,
        docs: Vectors,
        metric: Metric | None,
        depth: int,
        progress: Progress | None = None,
    ) -> Ranking:
        """The first documents of a code, ordered again by the float vectors."""
        how: dict[str, Any] = {"progress": progress, **self._common}
        if isinstance(docs, Codes):
            first = rank_codes(queries, docs, depth, **how)
        else:
            how |= {"metric": metric or self.metric, "zero": self.zero}
            first = rank(cast("NDArray[Any]", queries), docs, depth, **how)
        return rerank(
            first,
            self.queries,
            docs=self._corpus,
            metric=self.metric,
            zero=self.zero,
            threads=self.threads,
        )

    def rank_rows(
        self,
        queries: Vectors,
        docs: Vectors,
        metric: Metric | None,
        rows: Ints,
        depth: int | None,
    ) -> Ranking:
        """The order of all documents for some queries, or of the first `depth` and what ties."""
        ids = Ids.count(len(self.queries)) if self.query_ids is None else self.query_ids
        names = Ids.count(len(self.docs)) if self.doc_ids is None else self.doc_ids
        how: dict[str, Any] = {**self._common, "query_ids": ids.take(rows), "doc_ids": names}
        first = min(depth or len(self.docs), len(self.docs))
        left: Any = _rows(queries, rows)
        if isinstance(docs, Codes):
            return rank_codes(left, docs, first, keep_ties=True, **how)
        by = metric or self.metric
        return rank(left, docs, first, metric=by, zero=self.zero, keep_ties=True, **how)

    def row_blocks(self) -> Iterator[Ints]:
        """Rows of the queries, so few at a time that all their documents fit."""
        step = max(1, _CELLS // len(self.docs))
        for start in range(0, len(self.queries), step):
            yield np.arange(start, min(start + step, len(self.queries)))

    def rank_sample(
        self, sample: Sample, queries: Vectors, docs: Vectors, metric: Metric | None = None
    ) -> Ranking:
        """The whole order of some documents for some queries, without any re-ranking."""
        left: Any = _rows(queries, sample.queries)
        right = _rows(docs, sample.docs)
        depth, pairs = len(sample.docs), sample.own
        if isinstance(right, Codes):
            return rank_codes(left, right, depth, exclude=pairs, threads=self.threads)
        return rank(
            left,
            right,
            depth,
            exclude=pairs,
            metric=metric or self.metric,
            zero=self.zero,
            threads=self.threads,
        )

    def sample(self, seed: int) -> Sample:
        """Some queries and documents, drawn once for all codes; all of them where they are few.

        They are drawn by id, and queries are in the order of ids: rows may come in any order.
        """
        rng = np.random.default_rng(seed)
        queries = self.query_order[_draw(rng, len(self.queries), _QUERIES)]
        docs = np.sort(_by_id(self.doc_ids, len(self.docs))[_draw(rng, len(self.docs), _DOCS)])
        if self.exclude is None:
            return Sample(queries, docs, None)
        own = self.own_docs()[queries]
        place = np.searchsorted(docs, own)
        found = docs[np.minimum(place, len(docs) - 1)] == own
        return Sample(queries, docs, np.column_stack([np.flatnonzero(found), place[found]]))

    @property
    def query_order(self) -> Ints:
        """The rows of the queries in the order of their ids."""
        return _by_id(self.query_ids, len(self.queries))

    def own_docs(self) -> Ints:
        """The number of each query's own document, or −1."""
        if self.query_ids is None or self.doc_ids is None:
            return np.full(len(self.queries), -1)
        return self.query_ids.match(self.doc_ids)

    def rows_to_learn_from(self) -> Ints | None:
        """Documents that are no query's own; None where that is all of them, or less than half."""
        own = self.own_docs()
        rest = np.setdiff1d(np.arange(len(self.docs)), own[own >= 0])
        return rest if len(self.docs) / 2 <= len(rest) < len(self.docs) else None

    @property
    def _common(self) -> dict[str, Any]:
        return {
            "exclude": self.exclude,
            "query_ids": self.query_ids,
            "doc_ids": self.doc_ids,
            "threads": self.threads,
        }


def _by_id(ids: Ids | None, size: int) -> Ints:
    return np.arange(size) if ids is None else ids.order()


def _draw(rng: np.random.Generator, size: int, most: int) -> Ints:
    if size <= most:
        return np.arange(size)
    return np.sort(rng.choice(size, most, replace=False))


def _rows(vectors: Vectors, rows: Ints) -> Vectors:
    if isinstance(vectors, Codes):
        return Codes(vectors.packed[rows], vectors.bits)
    return vectors[rows]


def make_search(
    docs: Any,
    queries: Any,
    *,
    query_ids: Any,
    doc_ids: Any,
    exclude_self: bool | None,
    metric: Metric,
    depth: int,
    rerank: int | None,
    zero: Zero,
    threads: int | None,
) -> VectorSearch:
    """Check what belongs together; without queries the documents are their own."""
    if metric not in get_args(Metric):
        raise UsageError(f"Unknown metric {metric!r}. Known: {', '.join(get_args(Metric))}.")
    vectors = _matrix(docs, "docs")
    own = queries is None
    if own and query_ids is not None:
        raise UsageError(
            "query_ids without queries: documents that are their own queries have the "
            "documents' ids."
        )
    others = vectors if own else _matrix(queries, "queries")
    without_self = own if exclude_self is None else exclude_self
    names = _ids(doc_ids, len(vectors), "doc")
    others_names = names if own else _ids(query_ids, len(others), "query")
    _check_ids(others_names, names, len(others) == len(vectors), without_self)
    if without_self and names is None:  # self is excluded by id: rows of one number are one item
        names = others_names = Ids.count(len(vectors))
    task = VectorSearch(
        queries=others,
        docs=vectors,
        query_ids=others_names,
        doc_ids=names,
        exclude="self" if without_self else None,
        metric=metric,
        depth=depth,
        rerank=None if rerank is None else checks.check_cutoff(rerank, "rerank"),
        zero=zero,
        threads=threads,
    )
    _check_depth(task)
    return task


def _matrix(values: Any, what: str) -> NDArray[Any]:
    """Vectors as an array, or as rows of a .npy file that are read as they are used."""
    return cast("NDArray[Any]", matrix_of(open_rows(values), what))


def _ids(given: Any, size: int, what: str) -> Ids | None:
    if given is None:
        return None
    ids = Ids.of(given, what=what)
    checks.check_lengths(**{f"{what}_ids": len(ids), f"{what} vectors": size})
    checks.check_unique(ids, what)
    return ids


def _check_ids(queries: Ids | None, docs: Ids | None, as_many: bool, without_self: bool) -> None:
    if (queries is None) != (docs is None):
        raise UsageError("Give both query_ids and doc_ids, or neither: ids are matched with ids.")
    if without_self and docs is None and not as_many:
        raise MismatchError(
            "The queries and documents have no ids and differ in number, so nothing says which "
            "document is a query's own. Give query_ids and doc_ids, or keep self."
        )


def _check_depth(task: VectorSearch) -> None:
    if task.depth > task.n_candidates:
        raise UsageError(
            f"k is {task.depth}, but each query has only {task.n_candidates} documents to find. "
            "Use a smaller k."
        )
    if task.rerank is not None and task.rerank < task.depth:
        raise UsageError(
            f"rerank is {task.rerank} and the largest k is {task.depth}: re-rank at least as many."
        )
