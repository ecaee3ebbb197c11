"""build_index: vectors into an engine; Index: its answers by exact scores and the one tie rule."""

from __future__ import annotations

import time
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Floats, Floats32, Ints
from assay.core import checks
from assay.core.conventions import as_settings
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.core.specs import Spec
from assay.core.text import mask_secrets
from assay.errors import AssayError, PluginError, StorageError, UsageError, error_text
from assay.search.engine import rank, rerank
from assay.search.engine.blocks import Metric as EngineMetric
from assay.search.indexes.base import Engine, EngineBytes, Exactness, Options, Setup
from assay.search.indexes.prepared import EngineVectors, prepare_docs
from assay.search.indexes.specs import opener_of, parse_spec

_SPARE: Final = 16  # documents beyond k, so that rounding does not move one across the cut
_GROWTH: Final = 4
_OF_AN_ENGINE: Final = ("version", "exactness", "add", "find", "size", "close")


def build_index(
    spec: str,
    vectors: Any,
    *,
    metric: Literal["cosine", "dot", "l2"] = "cosine",
    doc_ids: Any = None,
    threads: int | None = None,
) -> Index:
    """Build an index of vectors by another search engine; use it in a `with` statement.

    `spec` is "exact", "faiss:HNSW32?efSearch=64", "usearch", "lancedb", "qdrant",
    "pgvector:URL", "sqlite-vec", or a kind that another installed package brings. `vectors` is an
    array or the path of a .npy file. `threads` is for engines that take a number of threads; a
    graph built by several threads may differ from run to run.

    >>> with build_index("exact", [[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]]) as index:
    ...     index.search([[1.0, 0.0]], 2)[0].tolist()
    [[1, 2]]
    """
    parsed = parse_spec(spec)
    EngineMetric.of(metric, "error")
    if threads is not None:
        threads = checks.check_cutoff(threads, "threads")
    names = None if doc_ids is None else Ids.of(doc_ids, what="doc")
    docs = prepare_docs(vectors, metric, names)
    if names is not None:
        checks.check_unique(names, "doc")
        checks.check_lengths(doc_ids=len(names), docs=len(docs.vectors))
    options = Options(parsed.text, parsed.options)
    setup = Setup(parsed.argument, options, docs.vectors.shape[1], metric, threads, parsed.text)
    engine, seconds = _open_engine(parsed, setup, docs.vectors)
    return Index(engine, docs, setup, seconds=seconds, doc_ids=names)


def _open_engine(spec: Spec, setup: Setup, vectors: Floats32) -> tuple[Engine, float]:
    """An open engine with the vectors in it, and how long that took; nothing is left if it fails.

    Importing and connecting are not counted.
    """
    engine: Engine = _call(spec.text, opener_of(spec), setup)
    _check_engine(engine, spec)
    try:
        setup.options.finish()
        start = time.perf_counter()
        _call(spec.text, engine.add, vectors)
        seconds = time.perf_counter() - start
    except BaseException:
        engine.close()
        raise
    return engine, seconds


def _check_engine(engine: Any, spec: Spec) -> None:
    """An engine of another package must have all that an engine has."""
    missing = [name for name in _OF_AN_ENGINE if not hasattr(engine, name)]
    if missing:
        raise PluginError(
            f"The index {spec.text}: its engine is {type(engine).__name__}, without "
            f"{', '.join(missing)}. See assay.search.indexes.base.Engine."
        )


def _call(spec: str, function: Any, *arguments: Any) -> Any:
    """Call into an engine; its errors carry the name of the index."""
    try:
        return function(*arguments)
    except (AssayError, MemoryError):
        raise
    except Exception as error:
        raise StorageError(f"The index {spec} failed: {mask_secrets(error_text(error))}") from error


class Index:
    """Vectors in a search engine.

    Answers are ordered by the exact scores that `assay.rank` gives, then by row. Where the engine
    searches exhaustively (`exactness` "exact") they are those of exact search, bit by bit: the
    index requests more documents until rounding and ties cannot have cost one.
    """

    def __init__(
        self,
        engine: Engine,
        docs: EngineVectors,
        setup: Setup,
        *,
        seconds: float,
        doc_ids: Ids | None,
    ) -> None:
        self._engine: Engine | None = engine
        self._docs = docs
        self._threads = setup.threads
        self.spec = setup.spec
        self.build_seconds = seconds
        self.doc_ids = doc_ids
        self.exactness: Exactness = engine.exactness
        self.version = engine.version

    @property
    def metric(self) -> Literal["cosine", "dot", "l2"]:
        """The metric of the scores."""
        return self._docs.metric

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self._docs.vectors)

    @property
    def vectors(self) -> Any:
        """The documents' vectors, as they were given, widened."""
        return self._docs.rows

    def size(self) -> EngineBytes:
        """Bytes in memory and on disk, where the engine can tell."""
        size: EngineBytes = _call(self.spec, self._running().size)
        return size

    def search(self, queries: Any, k: int) -> tuple[Ints, Floats]:
        """Numbers and scores of the best documents, queries × min(k, documents).

        Places that the engine left empty hold -1 and NaN.
        """
        ranking = self.rank(queries, k)
        width = min(checks.check_cutoff(k), self.n_docs)
        indices = np.full((len(ranking), width), -1, np.int64)
        scores = np.full((len(ranking), width), np.nan)
        used = np.arange(width) < ranking.lengths[:, None]
        indices[used], scores[used] = ranking.docs, ranking.scores
        return indices, scores

    def rank(self, queries: Any, k: int, *, query_ids: Any = None) -> Ranking:
        """The best documents as a ranking, by id where the index was given ids."""
        k = min(checks.check_cutoff(k), self.n_docs)
        rows, ready = self._docs.queries(queries)
        self._running()
        if self.exactness == "certified":
            ranking = rank(rows, self._docs.rows, k, metric=self.metric, threads=self._threads)
        elif self.exactness == "exact":
            ranking = self._rank_enclosed(rows, ready, k)
        else:
            ranking = self._rerank(rows, self._find_checked(ready, k)).first(k)
        return self._with_ids(ranking, query_ids, k)

    def raw(self, queries: Any) -> Floats32:
        """Queries as `find` takes them, checked."""
        return self._docs.queries(queries)[1]

    def find(self, ready: Floats32, k: int) -> NDArray[Any]:
        """The engine's own answer, unchecked and unordered: what is timed."""
        neighbours: NDArray[Any] = _call(self.spec, self._running().find, ready, k)
        return neighbours

    def close(self) -> None:
        """Close the engine and delete everything it has written."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def __enter__(self) -> Self:
        """The index itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """Engine and size in one line."""
        return f"Index({self.spec!r}, {self.n_docs} documents, {self.metric}, {self.exactness})"

    def _running(self) -> Engine:
        if self._engine is None:
            raise UsageError(f"The index {self.spec} is closed. Build it again.")
        return self._engine

    def _find_checked(self, ready: Floats32, k: int) -> Ints:
        return check_answer(self.find(ready, k), len(ready), self.n_docs, self.spec)

    def _rerank(self, rows: Any, neighbours: Ints) -> Ranking:
        """Answers in the order of exact scores."""
        ranking = Ranking.from_arrays(neighbours, n_docs=self.n_docs)
        return rerank(ranking, rows, docs=self._docs.rows, metric=self.metric)

    def _rank_enclosed(self, rows: Any, ready: Floats32, k: int) -> Ranking:
        """The exact best k, from an engine that searches all documents in float32.

        A document that it did not name scores at most as much as the last one it named, but for
        twice its rounding. Where that is not below the k-th, more are requested.
        """
        margins = 2 * self._docs.margins(rows)
        answers = np.full((len(ready), k), -1, np.int64)
        left, depth = np.arange(len(ready)), min(self.n_docs, k + _SPARE)
        while len(left):
            ranking = self._rerank(rows[left], self._find_checked(ready[left], depth))
            safe = self._is_enclosed(ranking, k, margins[left]) | (depth == self.n_docs)
            best = ranking.first(k)
            used = np.arange(k) < best.lengths[:, None]
            table = np.full((len(left), k), -1, np.int64)
            table[used] = best.docs
            answers[left[safe]] = table[safe]
            left, depth = left[~safe], min(self.n_docs, depth * _GROWTH)
        return self._rerank(rows, answers).first(k)

    def _is_enclosed(self, ranking: Ranking, k: int, margins: Floats) -> Flags:
        """Whether the last document of each row lies below the k-th by more than the margin."""
        longer = ranking.lengths > k
        safe = np.zeros(len(ranking), bool)
        kth = ranking.scores[ranking.offsets[:-1][longer] + k - 1]
        last = ranking.scores[ranking.offsets[1:][longer] - 1]
        safe[longer] = last < kth - margins[longer]
        return safe

    def _with_ids(self, ranking: Ranking, query_ids: Any, k: int) -> Ranking:
        queries = ranking.query_ids if query_ids is None else Ids.of(query_ids, what="query")
        checks.check_lengths(query_ids=len(queries), queries=len(ranking))
        checks.check_unique(queries, "query")
        return replace(
            ranking,
            query_ids=queries,
            doc_ids=ranking.doc_ids if self.doc_ids is None else self.doc_ids,
            has_ids=query_ids is not None and self.doc_ids is not None,
            search=ranking.search if self.exactness == "certified" else self._signature(),
            settings=as_settings(metric=self.metric, k=k, n_docs=self.n_docs),
        )

    def _signature(self) -> str:
        """The index for the signature of a result: one word."""
        return f"{self.spec}@{self.version}".replace(", ", "+").replace(" ", "-")


def check_answer(answer: Any, n_queries: int, n_docs: int, spec: str) -> Ints:
    """Document numbers, queries × places, none twice in a row; -1 marks an empty place.

    Fewer than requested are accepted. Numbers that no document has are refused, and so
    are answers of another shape or type.
    """
    table = np.asarray(answer)
    if table.ndim != 2 or len(table) != n_queries or table.dtype.kind not in "iu":
        raise StorageError(
            f"The index {spec} answered with shape {table.shape} of {table.dtype} for "
            f"{n_queries} queries; expected a row of document numbers for each."
        )
    if not table.shape[1]:
        return np.full((n_queries, 1), -1, np.int64)
    if table.min() < -1 or table.max() >= n_docs:
        wrong = table[(table < -1) | (table >= n_docs)].flat[0]
        raise StorageError(f"The index {spec} answered with document {wrong} of {n_docs}.")
    return _without_repeats(table.astype(np.int64))


def _without_repeats(table: Ints) -> Ints:
    """Repeated documents of a row are removed."""
    by_doc = np.argsort(table, axis=1, kind="stable")
    sorted_rows = np.take_along_axis(table, by_doc, axis=1)
    again = np.zeros(table.shape, bool)
    np.put_along_axis(again[:, :], by_doc[:, 1:], sorted_rows[:, 1:] == sorted_rows[:, :-1], axis=1)
    table[again] = -1
    return table
