"""How a search is cut: blocks of queries, each with one or more ranges of every block of docs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Floats32, Ints
from assay.core import checks
from assay.core.checks import thread_count
from assay.core.conventions import as_settings, pair_digest
from assay.core.ids import Ids
from assay.errors import UsageError
from assay.io.arrays import NpyRows, open_rows
from assay.native import Engine, engine_name, load
from assay.native.signatures import CoarseHandle, Kernels, RawHandle, RawQueryHandle
from assay.native.twins.search import limits_of
from assay.search.engine.blocks import (
    Docs,
    MeasuredRows,
    Metric,
    Queries,
    Sizes,
    convertible,
    measure_rows,
    prepare_docs,
    prepare_queries,
    raw_docs,
    refuse_zero,
)
from assay.search.engine.coarse import (
    MOST_COLUMNS,
    PANEL,
    Coarse,
    Sampled,
    axis_of,
    coarsen,
    sample_scores,
    share_left,
    signs_of,
)
from assay.search.engine.exclusion import Excluded, exclusions_of
from assay.search.engine.prepared import Prepared
from assay.search.engine.vectors import (
    Rows,
    Vectors,
    check_columns,
    doc_blocks,
    matrix_of,
    raw_windows,
    stored_as,
    widen,
)

_MOST_QUERIES: Final = 1008  # at a time: their packed rows stay in the last cache
_SHORT: Final = 1 << 30  # multiplications
_TINY: Final = 1 << 25  # and so few that to start another thread would take longer
_FEW_QUERIES: Final = 256  # below this many for each thread, threads share out the documents
_BYTES: Final = 192 << 20  # work space of all threads together
_MOST_PRUNED: Final = 4096
_COARSE_BYTES: Final = 96 << 20  # of documents in 8 bits, which a search makes for itself
_MAPPED_BYTES: Final = 128 << 20  # of a file whose rows are quantised as they are stored
_USUAL_SIZE: Final = 29  # exponents of the norms of queries that meet rows as they are stored
_COARSE_DOCS: Final = 4096  # fewer are searched sooner by the float32 product; so are short rows,
_COARSE_COLUMNS: Final = 32
_COARSE_QUERIES: Final = 128  # and for fewer of these documents are not quantised
_COARSE_WORK: Final = 768 << 20  # multiplications that pay for it; half as many to count targets
_COARSE_SHARE: Final = 48  # documents for each that is to be found
_COARSE_ROOM: Final = 8192  # candidates of a query
_PROBES: Final = 8  # queries by which a block is judged, and
_SAMPLE: Final = 1024  # documents
_AXIS_SAMPLE: Final = 128  # documents to find an axis by where targets are counted
_MOST_LEFT: Final = 1 / 20  # of the documents of a block


@dataclass(frozen=True)
class SearchPlan:
    """Checked inputs and how they are cut."""

    kernels: Kernels
    engine: str
    metric: Metric
    queries: Vectors
    docs: Any
    n_docs: int | None
    query_ids: Ids | None
    doc_ids: Ids | None
    exclude: Any
    threads: int
    tile: int
    parts: int
    depth: int  # documents to find by 8 bits, where that may be done; else 0
    lists: bool  # whether the best documents are searched for

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.queries.shape[0]

    @property
    def fused(self) -> bool:
        """Whether the compiled fused product does the search."""
        return self.kernels.fused_rows() > 0

    @property
    def total(self) -> int | None:
        """How many pairs there are to score, where that is known."""
        return None if self.n_docs is None else self.n_queries * self.n_docs

    @property
    def is_short(self) -> bool:
        """Whether all products together take a few hundredths of a second at most."""
        return self.total is not None and self.total * self.queries.shape[1] < _SHORT

    def refuse_early(self) -> None:
        """Refuse queries and exclusions that cannot be searched for."""
        if self.raw is None:
            _ = self.measures
        _ = self.excluded

    @cached_property
    def excluded(self) -> Excluded:
        """What each query must not find."""
        return exclusions_of(
            self.exclude,
            n_queries=self.n_queries,
            n_docs=self.n_docs,
            query_ids=self.query_ids,
            doc_ids=self.doc_ids,
        )

    @property
    def n_zero(self) -> int:
        """How many queries are all zero."""
        return 0 if self.raw is not None else int(self.measures.zero.sum())

    @cached_property
    def measures(self) -> MeasuredRows:
        """What all queries measure, without their rows."""
        return _measure_queries(
            self.kernels, self.queries, self.metric, self.tile, self.query_ids, self.threads
        )

    @cached_property
    def sizes(self) -> Sizes:
        """The least and the largest of the queries' sizes."""
        return _sizes(self.measures) if self.raw is None else Sizes(*self.raw.sizes())

    def tiles(self) -> list[tuple[int, int]]:
        """The blocks of queries: first, and one past the last."""
        count = self.n_queries
        return [(start, min(start + self.tile, count)) for start in range(0, count, self.tile)]

    def ranges(self, n_docs: int) -> list[tuple[int, int]]:
        """The ranges of a block of documents that one block of queries meets separately."""
        if self.parts == 1:
            return [(0, n_docs)]
        cuts = [n_docs * part // self.parts for part in range(self.parts + 1)]
        return list(pairwise(cuts))

    def prepared(self, start: int, stop: int) -> Queries:
        """A block of queries, prepared for the product."""
        part = self.measures.part(start, stop)
        rows = widen(self.queries[start:stop], "queries")
        block = MeasuredRows(rows, start, part.exponents, part.square_hi, part.square_lo)
        return prepare_queries(self.kernels, block, self.metric, sizes=self.sizes)

    def blocks(self) -> Iterator[MeasuredRows]:
        """The documents, block by block, measured."""
        for block in self._measured():
            for part in convertible(block):
                yield from self._coarse_parts(part)

    def _measured(self) -> Iterator[MeasuredRows]:
        if isinstance(self.docs, Prepared):
            for block in self.docs.blocks():
                refuse_zero(block, "docs", self.metric, self.doc_ids)
                yield block
            return
        blocks, _ = doc_blocks(self.docs, self.queries.shape[1])
        for rows in blocks:
            yield measure_rows(
                self.kernels, rows, self.metric, ids=self.doc_ids, threads=self.threads
            )

    def _coarse_parts(self, block: MeasuredRows) -> Iterator[MeasuredRows]:
        """The block, in parts where it will be quantised."""
        is_new = block.coarse is None and self.is_coarse(block)
        return _quantisable(block) if is_new else iter([block])

    def counted_docs(
        self, block: MeasuredRows, docs: Docs, targets: Ints, scores: Floats
    ) -> Iterator[Docs]:
        """Documents to count against targets; quantised, in parts, where that is sooner."""
        axis = None
        shape = block.rows.shape
        if docs.coarse is None and self._quantises(*shape) and self._suits_8_bits(*shape):
            axis = axis_of(docs.rows[:: max(1, len(docs) // _AXIS_SAMPLE)])
        if axis is None or not self._tells_apart(docs, axis, targets, scores):
            yield docs
            return
        for part in _quantisable(block):
            some = docs
            if len(part.rows) < len(docs):
                some = prepare_docs(self.kernels, part, self.metric, sizes=self.sizes)
            yield self._with_codes(some, coarsen(self.kernels, some.rows, axis, self.threads))

    def is_coarse(self, block: MeasuredRows) -> bool:
        """Whether a block of documents is searched by products of 8-bit numbers first."""
        if block.coarse is None and not (self.lists and self._quantises(*block.rows.shape)):
            return False
        return self._suits_8_bits(*block.rows.shape)

    def _suits_8_bits(self, n_docs: int, columns: int) -> bool:
        fewest = _COARSE_DOCS if self.lists else _COARSE_DOCS // 4  # nothing is kept of most
        return (
            self.depth > 0
            and n_docs >= max(fewest, self.depth * _COARSE_SHARE)
            and _COARSE_COLUMNS <= columns <= MOST_COLUMNS
        )

    @cached_property
    def raw(self) -> RawQueryHandle | None:
        """All queries, where documents are searched as they are stored: once, not for 8 bits."""
        if not self._reads_stored or self.n_queries > self.tile or self._quantises_stored:
            return None
        rows = widen(self.queries[: self.n_queries], "queries")
        raw_queries = self.kernels.RawQueries(rows, self.metric.code)
        return None if raw_queries.is_odd() else raw_queries

    @property
    def _reads_stored(self) -> bool:
        return (
            self.lists
            and self.fused
            and isinstance(self.docs, np.ndarray | NpyRows)
            and stored_as(self.docs.dtype) is not None
            and stored_as(self.queries.dtype) is not None
        )

    @property
    def _quantises_stored(self) -> bool:
        return self._quantises(*self.docs.shape) and self._suits_8_bits(*self.docs.shape)

    @cached_property
    def stored_axis(self) -> Floats32 | None:
        """What documents share that are quantised as they are stored; None where they are not."""
        if not (self._reads_stored and self._quantises_stored and self._has_usual_sizes):
            return None
        n_docs, columns = self.docs.shape
        if not self._suits_8_bits(min(self._stored_rows, n_docs), columns):
            return None
        rows = widen(self.docs[:: max(1, n_docs // _sample_size(n_docs))], "docs")
        axis, queries = axis_of(rows), self.prepared(*self._probes).rows
        sampled = sample_scores(
            self.kernels, queries, rows, axis, *self._usual_scores(rows), len(rows)
        )
        return None if self._leaves_many(sampled, n_docs) else axis

    @property
    def _has_usual_sizes(self) -> bool:
        least, most = self.sizes
        return not self.n_zero and least > -_USUAL_SIZE and most < _USUAL_SIZE

    @np.errstate(all="ignore")
    def _usual_scores(self, rows: Floats32) -> tuple[Floats32, Floats32]:
        """Scales and biases of rows whose sizes are usual: a row that is odd shows later."""
        squares = np.einsum("rc,rc->r", rows, rows)
        scale = squares**-0.5 if self.metric.name == "cosine" else np.ones_like(squares)
        bias_unit = math.ldexp(0.5, -self.sizes.largest) if self.metric.name == "l2" else 0.0
        return scale, -bias_unit * squares

    @property
    def _stored_rows(self) -> int:
        """How many rows are quantised at a time as they are stored."""
        most = _COARSE_BYTES // self.docs.shape[1]
        if not isinstance(self.docs, np.ndarray):
            most = min(most, _MAPPED_BYTES // (self.docs.dtype.itemsize * self.docs.shape[1]))
        return int(max(1, most // PANEL) * PANEL)

    def stored_docs(self, axis: Floats32) -> Iterator[tuple[int, RawHandle, CoarseHandle]]:
        """Documents quantised as they are stored, block by block, and how many these hold."""
        stored, signs = stored_as(self.docs.dtype) or 0, signs_of(self.docs.shape[1])
        for rows in raw_windows(self.docs, self._stored_rows):
            block = raw_docs(self.kernels, rows, stored, self.metric, sizes=self.sizes)
            coarse = self.kernels.coarsen_raw(block, axis, signs, self.threads)
            yield len(rows), block, self.kernels.CoarseBlock(block, *coarse, axis, signs)

    def raw_docs(self) -> Iterator[tuple[int, RawHandle]]:
        """The documents as they are stored, block by block, and how many these hold."""
        stored = stored_as(self.docs.dtype) or 0
        for rows in raw_windows(self.docs):
            block = raw_docs(self.kernels, rows, stored, self.metric, sizes=self.sizes)
            yield len(rows), block

    def _quantises(self, n_docs: int, columns: int) -> bool:
        """Whether it pays to quantise documents for this search only."""
        least = _COARSE_WORK if self.lists else _COARSE_WORK // 2
        return self._has_many_queries and self.n_queries * n_docs * columns >= least

    @property
    def _has_many_queries(self) -> bool:
        return self.n_queries >= _COARSE_QUERIES

    def _is_crowded(self, docs: Docs, axis: Floats32) -> bool:
        """Whether too many documents are too near to each other for 8 bits, by a few queries."""
        if not self._has_many_queries:
            return False
        rows = self.prepared(*self._probes).rows
        return self._leaves_many(self._sample(rows, docs, axis, _sample_size(len(docs))), len(docs))

    def _leaves_many(self, sampled: Sampled, n_docs: int) -> bool:
        share = self.depth / n_docs
        return share_left(sampled, share) > _MOST_LEFT + 4 * share

    @property
    def _probes(self) -> tuple[int, int]:
        """The queries by which a block is judged."""
        middle = max(0, self.n_queries - _PROBES) // 2
        return middle, min(self.n_queries, middle + _PROBES)

    def _sample(self, rows: Floats32, docs: Docs, axis: Floats32, most: int) -> Sampled:
        return sample_scores(self.kernels, rows, docs.rows, axis, docs.scale, docs.bias, most)

    @np.errstate(all="ignore")
    def _tells_apart(self, docs: Docs, axis: Floats32, targets: Ints, scores: Floats) -> bool:
        """Whether 8 bits tell most documents from the targets of a few queries."""
        queries = self.prepared(*self._probes)
        has_target = targets[slice(*self._probes)] >= 0
        level, _ = limits_of(scores[slice(*self._probes)], docs.unit, *queries[1:3])
        scored, off = self._sample(queries.rows[has_target], docs, axis, _SAMPLE // 4)
        near = np.abs(scored - level[has_target, None]) <= off
        return len(near) > 0 and bool(np.median(near.mean(axis=1)) <= _MOST_LEFT / 2)

    def prepared_docs(self, block: MeasuredRows) -> Docs:
        """A block of documents, prepared for the product; in 8 bits where that is sooner."""
        if not isinstance(self.docs, Prepared):
            return self._prepare_docs(block)
        coarse = self.is_coarse(block)
        key = self.engine, self.metric, self.sizes, len(block.rows), coarse and self.depth
        return self.docs.keep(block.first, key, lambda: self._prepare_docs(block))

    def _prepare_docs(self, block: MeasuredRows) -> Docs:
        docs = prepare_docs(self.kernels, block, self.metric, sizes=self.sizes)
        if not self.is_coarse(block):
            return docs
        axis = block.coarse.axis if block.coarse else axis_of(docs.rows)
        if self._is_crowded(docs, axis):
            return docs
        coarse = block.coarse or coarsen(self.kernels, docs.rows, axis, self.threads)
        return self._with_codes(docs, coarse)

    def _with_codes(self, docs: Docs, coarse: Coarse) -> Docs:
        signs = signs_of(docs.rows.shape[1])
        return Docs(*docs[:-1], coarse=self.kernels.CoarseBlock(docs.block, *coarse, signs))

    def check_docs(self, n_docs: int) -> None:
        """Check what depends on the number of documents, which a stream tells at its end."""
        if self.doc_ids is not None:
            checks.check_lengths(doc_ids=len(self.doc_ids), docs=n_docs)
        if self.n_docs is None:
            exclusions_of(
                self.exclude,
                n_queries=self.n_queries,
                n_docs=n_docs,
                query_ids=self.query_ids,
                doc_ids=self.doc_ids,
            )


def _sample_size(n_docs: int) -> int:
    """How many documents a block is judged by: fewer where it takes less time to search it."""
    return min(_SAMPLE, max(_SAMPLE // 4, n_docs // 32))


def _quantisable(block: MeasuredRows) -> Iterator[MeasuredRows]:
    """Parts of a block: what it takes to quantise each stays small."""
    step = max(1, _COARSE_BYTES // (PANEL * block.rows.shape[1])) * PANEL
    for start in range(0, len(block.rows), step):
        yield block.part(start, start + step)


def search_settings(*, metric: str, zero: str, exclude: Any, **more: Any) -> dict[str, str]:
    """What can change the answers of a search, for the signature of its numbers.

    `zero` counts under cosine only; where it is "error", no row is zero. Of documents that tie at
    the k-th place the first rows are kept, whatever their ids, unless all are: `cut:row` says so.
    """
    cut = "row" if "k" in more and not more.get("keep_ties") else None
    return as_settings(
        metric=metric,
        cut=cut,
        zero=zero if zero != "error" and metric == "cosine" else None,
        exclude=exclude if isinstance(exclude, str | None) else f"pairs-{pair_digest(exclude)}",
        **more,
    )


def choose_kernels(engine: Engine | None) -> tuple[str, Kernels]:
    """The kernels of an engine; by default the best there are."""
    if engine not in (None, "native", "numpy"):
        raise UsageError(f"engine must be 'native' or 'numpy', found {engine!r}.")
    name = engine or engine_name()
    try:
        return name, load(name)
    except ImportError:
        raise UsageError(
            "The compiled kernels are not installed, so engine='native' cannot run. Install the "
            "package where there is a C++ compiler, or use engine='numpy': the same answers."
        ) from None


def plan(
    queries: Any,
    docs: Any,
    *,
    k: int,
    metric: str,
    zero: str,
    exclude: Any,
    query_ids: Any,
    doc_ids: Any,
    threads: int | None,
    engine: Engine | None,
    lists: bool = False,
    coarse: bool = False,
) -> SearchPlan:
    """Check the inputs of a search and decide how to cut it."""
    name, kernels = choose_kernels(engine)
    metric_of_search = Metric.of(metric, zero)
    matrix, docs = matrix_of(open_rows(queries), "queries"), _open_docs(docs)
    n_queries, columns = matrix.shape
    n_docs = _count_docs(docs, columns)
    n_threads = thread_count(threads)
    if n_docs is not None and n_queries * n_docs * columns < _TINY:
        n_threads = 1
    names = check_ids(query_ids, n_queries, "query"), check_ids(doc_ids, n_docs, "doc")
    rows = kernels.fused_rows()
    depth = k if (lists or coarse) and k < _MOST_PRUNED and kernels.coarse_rows() else 0
    room = max(4 * depth + 1024, _COARSE_ROOM) if depth else 2 * min(k, _MOST_PRUNED) + 256
    if not lists:
        room //= 2  # numbers without scores
    tile = _tile(n_queries, columns, room, threads=n_threads, rows=max(rows, 1))
    if not rows:
        tile = min(tile, _FEW_QUERIES)
    n_tiles = -(-n_queries // tile)
    ready = SearchPlan(
        kernels=kernels,
        engine=name,
        metric=metric_of_search,
        queries=matrix,
        docs=docs,
        n_docs=n_docs,
        query_ids=names[0],
        doc_ids=names[1],
        exclude=exclude,
        threads=n_threads,
        tile=tile,
        parts=-(-n_threads // n_tiles) if n_tiles < n_threads else 1,
        depth=depth,
        lists=lists,
    )
    ready.refuse_early()
    return ready


def _open_docs(docs: Any) -> Any:
    """Documents with their files opened: one file, or the blocks of an iterator."""
    return map(open_rows, docs) if _once(docs) else open_rows(docs)


def _count_docs(docs: Any, columns: int) -> int | None:
    if isinstance(docs, Prepared):
        check_columns(docs.shape[1], columns)
        return len(docs)
    return None if _once(docs) else doc_blocks(docs, columns)[1]


def _once(docs: Any) -> bool:
    """Whether documents can be read only once."""
    return not isinstance(docs, np.ndarray) and isinstance(docs, Iterator)


def check_ids(ids: Any, count: int | None, what: str) -> Ids | None:
    """Ids, if there are any: unique, and as many as rows."""
    if ids is None:
        return None
    names = Ids.of(ids, what=what)
    if count is not None:
        checks.check_lengths(**{f"{what}_ids": len(names), "rows": count})
    checks.check_unique(names, what)
    return names


def _tile(n_queries: int, columns: int, room: int, *, threads: int, rows: int) -> int:
    """How many queries, each with room for candidates, to take at a time: as the product does."""
    for_each = 8 * room + 16 * columns
    most = max(rows, min(_MOST_QUERIES, _BYTES // threads // for_each))
    n_tiles = -(-n_queries // most)
    if n_queries >= _FEW_QUERIES * threads:
        n_tiles = -(-n_tiles // threads) * threads
    return -(-n_queries // n_tiles // rows) * rows


def _measure_queries(
    kernels: Kernels, matrix: Vectors, metric: Metric, tile: int, ids: Ids | None, threads: int
) -> MeasuredRows:
    parts = []
    for start in range(0, matrix.shape[0], tile):
        rows = Rows(widen(matrix[start : start + tile], "queries"), start, "queries")
        parts.append(measure_rows(kernels, rows, metric, ids=ids, threads=threads))
    nothing: NDArray[np.float32] = np.empty((matrix.shape[0], 0), np.float32)
    return MeasuredRows(
        nothing,
        0,
        np.concatenate([part.exponents for part in parts]),
        np.concatenate([part.square_hi for part in parts]),
        np.concatenate([part.square_lo for part in parts]),
    )


def _sizes(measures: MeasuredRows) -> Sizes:
    if measures.zero.all():
        return Sizes(0, 0)
    exponents = np.frexp(np.sqrt(measures.square_hi))[1] + measures.exponents
    exponents = exponents[~measures.zero]
    return Sizes(int(exponents.min()), int(exponents.max()))
