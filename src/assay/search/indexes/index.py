"""Build an index by another engine, order its answers by exact scores, and measure its recall.

Engines take vectors as float32 of a size that float32 can square. Under cosine rows have length 1.
Under the other metrics all documents are scaled by one power of two, which changes no order and no
digit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from assay import __version__
from assay.arrays import Flags, Floats, Floats32, Ints, Ints32
from assay.core import checks
from assay.core.conventions import as_settings
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.core.specs import Spec
from assay.core.text import mask_secrets
from assay.errors import (
    AssayError,
    MismatchError,
    PluginError,
    StorageError,
    UsageError,
    ValueRangeError,
    error_text,
)
from assay.io.arrays import open_rows
from assay.io.mapped import steady_files
from assay.search.engine import rank, rerank
from assay.search.engine.blocks import MeasuredRows, measure_rows
from assay.search.engine.blocks import Metric as EngineMetric
from assay.search.engine.inputs import Rows, check_columns, choose_kernels, matrix_of, widen
from assay.search.indexes import base

_SPARE: Final = 16  # documents beyond k, so that rounding does not move one across the cut
_GROWTH: Final = 4
_LARGEST_EXPONENT: Final = 60  # a norm of 2^60 can be squared, and added, in float32
_ROUNDOFF: Final = 2.0**-24
_ROWS_CONVERTED: Final = 4096  # at a time
_WARM_UP: Final = 3
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

    Args:
        spec: "exact", "faiss:HNSW32?efSearch=64", "usearch", "lancedb", "qdrant", "pgvector:URL",
            "sqlite-vec", or a kind that another installed package brings.
        vectors: An array or the path of a .npy file.
        metric: How vectors are compared.
        doc_ids: Ids of the documents, by default their row numbers.
        threads: Number of threads, for engines that take one; a graph built by several threads
            may differ from run to run.

    Returns:
        The open index.

    Raises:
        AssayError: The spec is unknown, a package is missing, vectors do not fit, or the engine
            fails.

    Example:
        >>> with build_index("exact", [[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]]) as index:
        ...     index.search([[1.0, 0.0]], 2)[0].tolist()
        [[1, 2]]
    """
    parsed = base.parse_spec(spec)
    EngineMetric.of(metric, "error")
    if threads is not None:
        threads = checks.check_cutoff(threads, "threads")
    names = None if doc_ids is None else Ids.of(doc_ids, what="doc")
    docs = prepare_docs(vectors, metric, names)
    if names is not None:
        checks.check_unique(names, "doc")
        checks.check_lengths(doc_ids=len(names), docs=len(docs.vectors))
    options = base.Options(parsed.text, parsed.options)
    setup = base.Setup(
        parsed.argument, options, docs.vectors.shape[1], metric, threads, parsed.text
    )
    engine, seconds = _open_engine(parsed, setup, docs.vectors)
    return Index(engine, docs, setup, seconds=seconds, doc_ids=names)


def _open_engine(spec: Spec, setup: base.Setup, vectors: Floats32) -> tuple[base.Engine, float]:
    """Open an engine and add the vectors; return it and the seconds that adding took.

    Importing and connecting are not counted. Nothing is left if it fails.
    """
    engine: base.Engine = _call(spec.text, base.opener_of(spec), setup)
    missing = [name for name in _OF_AN_ENGINE if not hasattr(engine, name)]
    if missing:
        raise PluginError(
            f"The index {spec.text}: its engine is {type(engine).__name__}, without "
            f"{', '.join(missing)}. See assay.search.indexes.base.Engine."
        )
    try:
        setup.options.finish()
        start = time.perf_counter()
        _call(spec.text, engine.add, vectors)
        seconds = time.perf_counter() - start
    except BaseException:
        engine.close()
        raise
    return engine, seconds


def _call(spec: str, function: Any, *arguments: Any) -> Any:
    """Call into an engine; its errors carry the name of the index."""
    try:
        return function(*arguments)
    except (AssayError, MemoryError):
        raise
    except Exception as error:
        raise StorageError(f"The index {spec} failed: {mask_secrets(error_text(error))}") from error


class Index:
    """Search vectors in another engine.

    Answers are ordered by the exact scores that `assay.rank` gives, then by row. Where the engine
    searches exhaustively (`exactness` "exact") they are those of exact search, bit by bit: the
    index requests more documents until rounding and ties cannot have cost one.
    """

    def __init__(
        self,
        engine: base.Engine,
        docs: EngineVectors,
        setup: base.Setup,
        *,
        seconds: float,
        doc_ids: Ids | None,
    ) -> None:
        self._engine: base.Engine | None = engine
        self._docs = docs
        self._threads = setup.threads
        self.spec = setup.spec
        self.build_seconds = seconds
        self.doc_ids = doc_ids
        self.filtered = ""  # by whom the last search among some documents was: "engine" or "after"
        self.exactness: base.Exactness = engine.exactness
        self.version = engine.version
        self.learnt: str = getattr(engine, "learnt", "")

    @property
    def metric(self) -> Literal["cosine", "dot", "l2"]:
        """Return the metric of the scores."""
        return self._docs.metric

    @property
    def n_docs(self) -> int:
        """Return the number of documents."""
        return len(self._docs.vectors)

    @property
    def vectors(self) -> Any:
        """Return the documents' vectors as they were given, widened."""
        return self._docs.rows

    def size(self) -> base.EngineBytes:
        """Return bytes in memory and on disk, where the engine can tell."""
        size: base.EngineBytes = _call(self.spec, self._running().size)
        return size

    def search(self, queries: Any, k: int) -> tuple[Ints, Floats]:
        """Return numbers and scores of the best documents, queries × min(k, documents).

        Places that the engine left empty hold -1 and NaN.
        """
        ranking = self.rank(queries, k)
        width = min(checks.check_cutoff(k), self.n_docs)
        indices = np.full((len(ranking), width), -1, np.int64)
        scores = np.full((len(ranking), width), np.nan)
        used = np.arange(width) < ranking.lengths[:, None]
        indices[used], scores[used] = ranking.docs, ranking.scores
        return indices, scores

    def tune(self, spec: str) -> bool:
        """Take the spec of the same index with other values of options of its search.

        Returns:
            Whether it did; otherwise nothing is changed, and an index must be built for the spec.
        """
        before, parsed = base.parse_spec(self.spec), base.parse_spec(spec)
        engine = self._running()
        changed = dict(parsed.options.items() - before.options.items())
        same = (parsed.kind, parsed.argument) == (before.kind, before.argument)
        if not same or parsed.options.keys() != before.options.keys():
            return False
        if changed.keys() - set(getattr(engine, "tunable", ())):
            return False
        tunable = {name: parsed.options[name] for name in engine.tunable if name in parsed.options}  # type: ignore[attr-defined]
        _call(parsed.text, engine.tune, base.Options(parsed.text, tunable))  # type: ignore[attr-defined]
        self.spec, self.exactness = parsed.text, engine.exactness
        return True

    def rank_exactly(self, queries: Any, k: int, among: Ints | None = None) -> Ranking:
        """Rank all documents, or some by number, exactly, without the engine."""
        docs = self._docs.rows
        how: Any = {"metric": self.metric, "threads": self._threads}
        if among is None:
            return rank(queries, docs, k, **how)
        ranking = rank(queries, docs[among], k, **how)
        numbers, ids = among[ranking.docs].astype(np.int32), Ids.count(self.n_docs)
        whole: Any = {"given_docs": numbers, "given_scores": ranking.scores}
        return replace(ranking, doc_ids=ids, n_docs=self.n_docs, **whole)

    def rank(
        self, queries: Any, k: int, *, query_ids: Any = None, among: Ints | None = None
    ) -> Ranking:
        """Rank the best documents, by id where the index has ids; `among` some, by number."""
        k = min(checks.check_cutoff(k), self.n_docs if among is None else len(among))
        rows, ready = self._docs.queries(queries)
        self._running()
        if self.exactness == "certified":
            ranking = self.rank_exactly(rows, k, among)
        elif self.exactness == "exact":
            ranking = self._rank_enclosed(rows, ready, k, among)
        else:
            ranking = self._rerank(rows, self._find_checked(ready, k, among)).first(k)
        return self._with_ids(ranking, query_ids, k)

    def raw(self, queries: Any) -> Floats32:
        """Check queries and return them as `find` takes them."""
        return self._docs.queries(queries)[1]

    def find(self, ready: Floats32, k: int, among: Ints | None = None) -> NDArray[Any]:
        """Return the engine's answer, unchecked and unordered: what is timed.

        `among` some documents the engine filters, if it can; or it is asked for more until k pass.
        """
        engine = self._running()
        if among is None:
            neighbours: NDArray[Any] = _call(self.spec, engine.find, ready, k)
            return neighbours
        allowed = np.append(np.zeros(self.n_docs, bool), True)  # -1 is no document
        allowed[among] = True
        find = getattr(engine, "find_among", lambda *_: None)
        answer = _call(self.spec, find, ready, k, among)
        if answer is not None and allowed[answer].all():
            self.filtered = "engine"
            return np.asarray(answer)
        self.filtered, depth = "after", k * self.n_docs // len(among) + _SPARE
        while True:
            depth = min(depth, self.n_docs)
            answer = _call(self.spec, engine.find, ready, depth).astype(np.int64)
            passing = allowed[answer] & (answer >= 0)
            if depth == self.n_docs or (passing.sum(axis=1) >= k).all():
                break
            depth *= _GROWTH
        order = np.argsort(~passing, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(np.where(passing, answer, -1), order, axis=1)

    def close(self) -> None:
        """Close the engine and delete everything it has written."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def __enter__(self) -> Self:
        """Return the index."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the engine."""
        self.close()

    def __repr__(self) -> str:
        """Show engine and size in one line."""
        return f"Index({self.spec!r}, {self.n_docs} documents, {self.metric}, {self.exactness})"

    def _running(self) -> base.Engine:
        if self._engine is None:
            raise UsageError(f"The index {self.spec} is closed. Build it again.")
        return self._engine

    def _find_checked(self, ready: Floats32, k: int, among: Ints | None) -> Ints:
        answer = self.find(ready, k) if among is None else self.find(ready, k, among)
        return check_answer(answer, len(ready), self.n_docs, self.spec)

    def _rerank(self, rows: Any, neighbours: Ints) -> Ranking:
        """Order answers by exact scores."""
        ranking = Ranking.from_arrays(neighbours, n_docs=self.n_docs)
        return rerank(ranking, rows, docs=self._docs.rows, metric=self.metric)

    def _rank_enclosed(
        self, rows: Any, ready: Floats32, k: int, among: Ints | None = None
    ) -> Ranking:
        """Rank the exact best k from an engine that searches all documents in float32.

        A document that it did not name scores at most as much as the last one it named, but for
        twice its rounding. Where that is not below the k-th, more are requested.
        """
        margins = 2 * self._docs.margins(rows)
        answers = np.full((len(ready), k), -1, np.int64)
        n_docs = self.n_docs if among is None else len(among)
        left, depth = np.arange(len(ready)), min(n_docs, k + _SPARE)
        while len(left):
            ranking = self._rerank(rows[left], self._find_checked(ready[left], depth, among))
            safe = self._is_enclosed(ranking, k, margins[left]) | (depth == n_docs)
            best = ranking.first(k)
            used = np.arange(k) < best.lengths[:, None]
            table = np.full((len(left), k), -1, np.int64)
            table[used] = best.docs
            answers[left[safe]] = table[safe]
            left, depth = left[~safe], min(n_docs, depth * _GROWTH)
        return self._rerank(rows, answers).first(k)

    def _is_enclosed(self, ranking: Ranking, k: int, margins: Floats) -> Flags:
        """Tell whether the last document of each row lies below the k-th by the margin."""
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
        # In the signature of a result the index is one word.
        signature = f"{self.spec}@{self.version}".replace(", ", "+").replace(" ", "-")
        return replace(
            ranking,
            query_ids=queries,
            doc_ids=ranking.doc_ids if self.doc_ids is None else self.doc_ids,
            has_ids=query_ids is not None and self.doc_ids is not None,
            search=ranking.search if self.exactness == "certified" else signature,
            settings=as_settings(metric=self.metric, k=k, n_docs=self.n_docs),
        )


def check_answer(answer: Any, n_queries: int, n_docs: int, spec: str) -> Ints:
    """Check an answer: document numbers, queries × places; -1 marks an empty place.

    Fewer than requested are accepted, and repeated documents of a row are removed. Numbers that no
    document has are refused, and so are answers of another shape or type.
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
    table = table.astype(np.int64)
    by_doc = np.argsort(table, axis=1, kind="stable")
    sorted_rows = np.take_along_axis(table, by_doc, axis=1)
    again = np.zeros(table.shape, bool)
    np.put_along_axis(again[:, :], by_doc[:, 1:], sorted_rows[:, 1:] == sorted_rows[:, :-1], axis=1)
    table[again] = -1
    return table


@dataclass(frozen=True)
class EngineVectors:
    """Hold documents as an engine takes them, and how queries must be scaled to meet them."""

    rows: Any  # as given, widened: what exact scores are computed from
    vectors: Floats32
    metric: base.Metric
    exponent: int  # of the largest norm
    largest: float

    def queries(self, queries: Any) -> tuple[Any, Floats32]:
        """Check queries; return them as given, and as the engine takes them."""
        queries = open_rows(queries)
        with steady_files(queries):
            block = _measure(queries, "queries", self.metric, ids=None)
            check_columns(self.rows.shape[1], block.rows.shape[1])
            if self.metric == "cosine":
                return block.rows, _to_unit(block)
            exponents = _norm_exponents(block)
            if self.metric == "dot":  # the length of a query changes no order
                return block.rows, _scale(block, -exponents)
            if _largest(block, exponents) - self.exponent > _LARGEST_EXPONENT:
                raise ValueRangeError(
                    "Some queries are over 2^60 times longer than all documents, beyond "
                    "float32. Scale them."
                )
            return block.rows, _scale(block, np.full_like(exponents, -self.exponent))

    def margins(self, queries: Any) -> Floats:
        """Bound the error of an engine's scores for each query when it rounds to float32.

        As for the exact search: with d columns, about d roundings of the product of the norms;
        twice as many where an engine normalises once more.
        """
        factor = 1.01 * (2 * self.rows.shape[1] + 16) * _ROUNDOFF
        if self.metric == "cosine":
            return np.full(len(queries), factor)
        with np.errstate(over="ignore"):
            norms = _measure(queries, "queries", self.metric, ids=None).norms
            sized = norms * self.largest if self.metric == "dot" else (norms + self.largest) ** 2
            return np.asarray(factor * sized)


def prepare_docs(vectors: Any, metric: base.Metric, ids: Ids | None) -> EngineVectors:
    """Check documents; refuse NaN, infinite values and, under cosine, zero rows."""
    vectors = open_rows(vectors)
    with steady_files(vectors):
        block = _measure(vectors, "docs", metric, ids=ids)
        exponents = _norm_exponents(block)
        largest = _largest(block, exponents)
        if metric == "cosine":
            ready = _to_unit(block)
        else:
            ready = _scale(block, np.full_like(exponents, -largest))
    return EngineVectors(block.rows, ready, metric, largest, float(block.norms.max()))


def _measure(vectors: Any, what: str, metric: base.Metric, *, ids: Ids | None) -> MeasuredRows:
    _, kernels = choose_kernels(None)
    rows = Rows(widen(matrix_of(open_rows(vectors), what)[:], what), 0, what)
    block = measure_rows(kernels, rows, EngineMetric.of(metric, "last"), ids=ids, threads=1)
    if metric == "cosine" and block.zero.any():
        row = int(np.argmax(block.zero))
        name = f" (id {ids[row]!r})" if ids is not None and row < len(ids) else ""
        raise ValueRangeError(
            f"{what} row {row}{name} is all zeros and has no cosine ({int(block.zero.sum())} "
            "such rows). Remove them."
        )
    return block


def _norm_exponents(block: MeasuredRows) -> Ints32:
    """Return the exponent of each row's norm; of zero rows 0."""
    sized = np.frexp(np.sqrt(block.square_hi))[1] + block.exponents
    return np.where(block.zero, 0, sized).astype(np.int32)


def _largest(block: MeasuredRows, exponents: Ints32) -> int:
    """Return the largest exponent of rows that are not zero; 0 where all are."""
    return 0 if block.zero.all() else int(exponents[~block.zero].max())


def _to_unit(block: MeasuredRows) -> Floats32:
    """Divide rows by their norms."""
    return _convert(block.rows, -block.exponents, np.sqrt(block.square_hi))


def _scale(block: MeasuredRows, exponents: Ints32) -> Floats32:
    """Multiply rows by 2^exponents."""
    return _convert(block.rows, exponents, np.ones(len(block.rows)))


def _convert(rows: Any, exponents: Ints32, divisors: Floats) -> Floats32:
    """Scale rows by 2^exponents over divisors; some at a time, because float64 takes room."""
    converted = np.empty(rows.shape, np.float32)
    for start in range(0, len(rows), _ROWS_CONVERTED):
        part = slice(start, start + _ROWS_CONVERTED)
        wide = np.ldexp(rows[part].astype(np.float64), exponents[part, None])
        converted[part] = wide / divisors[part, None]
    return converted


@dataclass(frozen=True, eq=False)
class IndexReport:
    """Compare an index with exact search.

    `recall` counts documents that score at least as much as the exact k-th: among tied ones it
    does not matter which are named. `overlap` counts those that exact search names too. Both are
    means over queries, the values of which are in `recalls` and `overlaps`. `short` is how many
    queries got fewer documents than exist. Times are the engine's own, without
    the ordering by exact scores: `queries_per_second` of all queries in one call, `latency_ms` of
    calls with one query, by percentile. Bytes are None where the engine does not report them.
    `learnt` says what clusters or codebooks were learnt from, where the engine has some.
    """

    spec: str
    version: str
    metric: str
    k: int
    n_docs: int
    n_queries: int
    exactness: str
    recall: float
    overlap: float
    short: int
    build_seconds: float
    queries_per_second: float
    latency_ms: dict[str, float]
    memory_bytes: int | None
    disk_bytes: int | None
    recalls: Floats
    overlaps: Floats
    learnt: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return all but the values of single queries, for JSON."""
        hidden = ("recalls", "overlaps", *([] if self.learnt else ["learnt"]))
        return {name: value for name, value in vars(self).items() if name not in hidden}


def measure_index(
    index: Index,
    queries: Any,
    k: int,
    *,
    exact: Ranking | None = None,
    latency_queries: int = 100,
    among: Sequence[Ints] | None = None,
) -> IndexReport:
    """Measure recall and overlap at k against exact search, build time, speed and size.

    Args:
        index: An open index.
        queries: Vectors of the queries.
        k: Cutoff of recall and overlap.
        exact: Ranking of the same queries by exact search, at least k deep; by default the
            search is made here.
        latency_queries: Number of queries that are timed one by one.
        among: Numbers of the documents that each query may get. Recall is then against exact
            search among these, and a query that may get none is left out.

    Returns:
        The measurements.

    Raises:
        AssayError: Queries or `exact` do not fit the index, or the engine fails.

    Example:
        >>> vectors = np.eye(4)
        >>> with build_index("exact", vectors) as index:
        ...     measure_index(index, vectors, 1).recall
        1.0
    """
    checks.require(index, Index, "index", "an Index; build_index() makes one")
    k = min(checks.check_cutoff(k), index.n_docs)
    ready = index.raw(queries)
    if exact is None and among is None:
        exact = rank(queries, index.vectors, k, metric=index.metric)
    if exact is not None:
        exact = _check_exact(exact, index, len(ready), k)
    groups = _group_queries(among, len(ready))
    index.find(ready[:_WARM_UP], k)
    seconds = sum(_seconds(index, ready[rows], k, some) for rows, some in groups)
    n_timed = checks.check_cutoff(latency_queries, "latency_queries")
    latency = _latency(index, ready, k, n_timed, among)
    recalls, overlaps, short = np.full(len(ready), np.nan), np.full(len(ready), np.nan), 0
    for rows, some in groups:
        part, most = (queries, k) if some is None else (queries[rows], min(k, len(some)))
        ranking = index.rank(part, most, among=some)
        best = index.rank_exactly(part, most, some) if exact is None else exact
        recalls[rows], overlaps[rows] = _agreement(ranking, best, most)
        short += int((ranking.lengths < most).sum())
    size = index.size()
    return IndexReport(
        spec=index.spec,
        version=index.version,
        metric=index.metric,
        k=k,
        n_docs=index.n_docs,
        n_queries=len(ready),
        exactness=index.exactness,
        recall=_mean(recalls),
        overlap=_mean(overlaps),
        short=short,
        build_seconds=index.build_seconds,
        queries_per_second=len(ready) / seconds,
        latency_ms=latency,
        memory_bytes=size.memory,
        disk_bytes=size.disk,
        recalls=recalls,
        overlaps=overlaps,
        learnt=index.learnt,
    )


def _check_exact(exact: Ranking, index: Index, n_queries: int, k: int) -> Ranking:
    """Check that a ranking is of this index's documents; return its first k."""
    checks.require(exact, Ranking, "exact", "a Ranking; assay.rank() makes one")
    checks.check_lengths(queries=n_queries, **{"rows of exact": len(exact)})
    checks.check_lengths(docs=index.n_docs, **{"documents of exact": exact.n_docs})
    if int(exact.lengths.min()) < k:
        raise MismatchError(
            f"exact holds {int(exact.lengths.min())} documents for some query; {k} are needed."
        )
    return exact.first(k)


def _agreement(ranking: Ranking, exact: Ranking, k: int) -> tuple[Floats, Floats]:
    """Return for each query the share of k that scores as the exact ones, and that is theirs."""
    row = np.repeat(np.arange(len(ranking)), ranking.lengths)
    kth = exact.scores[exact.offsets[1:] - 1]
    as_good = np.bincount(row[ranking.scores >= kth[row]], minlength=len(ranking))
    size = np.int64(exact.n_docs)
    exact_row = np.repeat(np.arange(len(exact)), exact.lengths)
    same = np.isin(row * size + ranking.docs, exact_row * size + exact.docs)
    named_too = np.bincount(row[same], minlength=len(ranking))
    return as_good / k, named_too / k


Groups = list[tuple[Any, Ints | None]]


def _group_queries(among: Sequence[Ints] | None, n_queries: int) -> Groups:
    """Return the rows of queries that may get the same documents, and these."""
    if among is None:
        return [(slice(None), None)]
    checks.check_lengths(among=len(among), queries=n_queries)
    rows: dict[int, list[int]] = {}
    for row, numbers in enumerate(among):
        if len(numbers):
            rows.setdefault(id(numbers), []).append(row)
    return [(np.array(group), among[group[0]]) for group in rows.values()]


def _seconds(index: Index, ready: Floats32, k: int, among: Ints | None = None) -> float:
    start = time.perf_counter()
    index.find(ready, k if among is None else min(k, len(among)), among)
    return max(time.perf_counter() - start, 1e-9)


def _latency(
    index: Index, ready: Floats32, k: int, n_queries: int, among: Sequence[Ints] | None
) -> dict[str, float]:
    """Return percentiles of the time for one query, over queries spread evenly."""
    some = [None] * len(ready) if among is None else among
    usable = np.array([row for row, docs in enumerate(some) if docs is None or len(docs)])
    rows = usable[np.linspace(0, len(usable) - 1, min(n_queries, len(usable))).astype(int)]
    calls = ((ready[row : row + 1], k, some[row]) for row in rows.tolist())
    taken = sorted(1000 * _seconds(index, *call) for call in calls)
    return {f"p{p}": taken[max(math.ceil(p / 100 * len(taken)) - 1, 0)] for p in (50, 95, 99)}


def _mean(values: Floats) -> float:
    defined = values[~np.isnan(values)].tolist()
    return math.fsum(defined) / len(defined) if defined else math.nan


class _Exact:
    """Answer by the engine of this package, for comparison with the others."""

    version = f"assay {__version__}"
    exactness: base.Exactness = "certified"

    def __init__(self, setup: base.Setup) -> None:
        self._setup = setup
        self._vectors = np.zeros((0, setup.dimension), np.float32)

    def add(self, vectors: Floats32) -> None:
        self._vectors = vectors

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        return self.find_among(queries, k, np.arange(len(self._vectors)))

    def find_among(self, queries: Floats32, k: int, numbers: Ints) -> NDArray[Any]:
        metric, threads = self._setup.metric, self._setup.threads
        ranking = rank(queries, self._vectors[numbers], k, metric=metric, threads=threads)
        return np.asarray(numbers[ranking.docs].reshape(len(queries), -1))

    def size(self) -> base.EngineBytes:
        return base.EngineBytes(memory=self._vectors.nbytes)

    def close(self) -> None:
        self._vectors = self._vectors[:0]


open_exact = _Exact  # there is nothing to set
