"""Cut a search: blocks of queries, each with one or more ranges of every block of documents."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Floats32, Ints
from assay.core import checks
from assay.core.checks import thread_count
from assay.core.conventions import as_settings, pair_digest
from assay.core.ids import Ids
from assay.io.arrays import NpyRows, open_rows
from assay.native import Engine
from assay.native.twins.search import limits_of
from assay.search.engine import blocks, inputs
from assay.search.engine.prepared import Prepared

if TYPE_CHECKING:
    from assay.native.signatures import CoarseHandle, Kernels, RawHandle, RawQueryHandle

_MOST_QUERIES: Final = 1008  # at a time: their packed rows stay in the last cache
_SHORT: Final = 1 << 30  # multiplications
_TINY: Final = 1 << 25  # and so few that to start another thread would take longer
FEW_QUERIES: Final = 256  # below this many for each thread, threads share out the documents
_BYTES: Final = 192 << 20  # work space of all threads together
_MOST_PRUNED: Final = 4096
COARSE_BYTES: Final = 96 << 20  # of documents in 8 bits, and more where candidates need less
_NUMBERS_BYTES: Final = 64  # of a document in 8 bits, beside its codes
_MAPPED_BYTES: Final = 128 << 20  # of a file whose rows are quantised as they are stored
_USUAL_SIZE: Final = 29  # exponents of the norms of queries that meet rows as they are stored
COARSE_DOCS: Final = 4096  # fewer are searched sooner by the float32 product; so are short rows,
COARSE_COLUMNS: Final = 32
COARSE_QUERIES: Final = 128  # and for fewer of these documents are not quantised
COARSE_WORK: Final = 768 << 20  # multiplications that pay for it; half as many to count targets
COARSE_SHARE: Final = 48  # documents for each that is to be found
COARSE_ROOM: Final = 8192  # candidates of a query
_PROBES: Final = 8  # queries by which a block is judged, and
_SAMPLE: Final = 1024  # documents
_AXIS_SAMPLE: Final = 128  # documents to find an axis by where targets are counted
MOST_LEFT: Final = 1 / 20  # of the documents of a block


@dataclass(frozen=True)
class SearchPlan:
    """Hold checked inputs and how they are cut."""

    kernels: Kernels
    engine: str
    metric: blocks.Metric
    queries: inputs.Vectors
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
    coarse_bytes: int  # room for documents in 8 bits, which a search makes for itself

    @property
    def n_queries(self) -> int:
        """Return the number of queries."""
        return self.queries.shape[0]

    @property
    def fused(self) -> bool:
        """Tell whether the compiled fused product does the search."""
        return self.kernels.fused_rows() > 0

    @property
    def total(self) -> int | None:
        """Return how many pairs there are to score; None where that is unknown."""
        return None if self.n_docs is None else self.n_queries * self.n_docs

    @property
    def is_short(self) -> bool:
        """Tell whether all products together take a few hundredths of a second at most."""
        return self.total is not None and self.total * self.queries.shape[1] < _SHORT

    @cached_property
    def excluded(self) -> inputs.Excluded:
        """Return the documents that each query must not find."""
        return self._exclude(self.n_docs)

    def _exclude(self, n_docs: int | None) -> inputs.Excluded:
        ids = self.query_ids, self.doc_ids
        return inputs.exclusions_of(self.exclude, self.n_queries, n_docs, *ids)

    @property
    def n_zero(self) -> int:
        """Count the queries that are all zero."""
        return 0 if self.raw is not None else int(self.measures.zero.sum())

    @cached_property
    def measures(self) -> blocks.MeasuredRows:
        """Measure all queries, without keeping their rows."""
        parts = []
        for start in range(0, self.n_queries, self.tile):
            some = inputs.widen(self.queries[start : start + self.tile], "queries")
            rows = inputs.Rows(some, start, "queries")
            measured = blocks.measure_rows(
                self.kernels, rows, self.metric, ids=self.query_ids, threads=self.threads
            )
            parts.append(measured)
        nothing: NDArray[np.float32] = np.empty((self.n_queries, 0), np.float32)
        return blocks.MeasuredRows(
            nothing,
            0,
            np.concatenate([part.exponents for part in parts]),
            np.concatenate([part.square_hi for part in parts]),
            np.concatenate([part.square_lo for part in parts]),
        )

    @cached_property
    def sizes(self) -> blocks.Sizes:
        """Return the least and the largest of the queries' sizes."""
        if self.raw is not None:
            return blocks.Sizes(*self.raw.sizes())
        measures = self.measures
        if measures.zero.all():
            return blocks.Sizes(0, 0)
        exponents = np.frexp(np.sqrt(measures.square_hi))[1] + measures.exponents
        exponents = exponents[~measures.zero]
        return blocks.Sizes(int(exponents.min()), int(exponents.max()))

    def tiles(self) -> list[tuple[int, int]]:
        """Return the blocks of queries: first, and one past the last."""
        count = self.n_queries
        return [(start, min(start + self.tile, count)) for start in range(0, count, self.tile)]

    def ranges(self, n_docs: int) -> list[tuple[int, int]]:
        """Return the ranges of a block of documents that one block of queries meets separately."""
        if self.parts == 1:
            return [(0, n_docs)]
        cuts = [n_docs * part // self.parts for part in range(self.parts + 1)]
        return list(pairwise(cuts))

    def prepared(self, start: int, stop: int) -> blocks.Queries:
        """Prepare a block of queries for the product."""
        part = self.measures.part(start, stop)
        rows = inputs.widen(self.queries[start:stop], "queries")
        block = blocks.MeasuredRows(rows, start, part.exponents, part.square_hi, part.square_lo)
        return blocks.prepare_queries(self.kernels, block, self.metric, sizes=self.sizes)

    def measured_blocks(self) -> Iterator[blocks.MeasuredRows]:
        """Measure the documents, block by block; in parts where they will be quantised."""
        for block in self._measured():
            for part in blocks.convertible(block):
                if part.coarse is None and self.is_coarse(part):
                    yield from self._quantisable(part)
                else:
                    yield part

    def _measured(self) -> Iterator[blocks.MeasuredRows]:
        if isinstance(self.docs, Prepared):
            for block in self.docs.blocks():
                blocks.refuse_zero(block, "docs", self.metric, self.doc_ids)
                yield block
            return
        for rows in inputs.doc_blocks(self.docs, self.queries.shape[1])[0]:
            yield blocks.measure_rows(
                self.kernels, rows, self.metric, ids=self.doc_ids, threads=self.threads
            )

    def counted_docs(
        self, block: blocks.MeasuredRows, docs: blocks.Docs, targets: Ints, scores: Floats
    ) -> Iterator[blocks.Docs]:
        """Yield documents to count against targets; quantised, in parts, where that is sooner."""
        axis = None
        shape = block.rows.shape
        if docs.coarse is None and self._quantises(*shape) and self._suits_8_bits(*shape):
            axis = blocks.axis_of(docs.rows[:: max(1, len(docs) // _AXIS_SAMPLE)])
        if axis is None or not self._tells_apart(docs, axis, targets, scores):
            yield docs
            return
        for part in self._quantisable(block):
            some = docs
            if len(part.rows) < len(docs):
                some = blocks.prepare_docs(self.kernels, part, self.metric, sizes=self.sizes)
            yield self._with_codes(
                some, blocks.coarsen(self.kernels, some.rows, axis, self.threads)
            )

    def is_coarse(self, block: blocks.MeasuredRows) -> bool:
        """Tell whether a block of documents is searched by products of 8-bit numbers first."""
        quantises = block.coarse is not None or (self.lists and self._quantises(*block.rows.shape))
        return quantises and self._suits_8_bits(*block.rows.shape)

    def _suits_8_bits(self, n_docs: int, columns: int) -> bool:
        fewest = COARSE_DOCS if self.lists else COARSE_DOCS // 4  # nothing is kept of most
        return (
            self.depth > 0
            and n_docs >= max(fewest, self.depth * COARSE_SHARE)
            and COARSE_COLUMNS <= columns <= blocks.MOST_COLUMNS
        )

    @cached_property
    def raw(self) -> RawQueryHandle | None:
        """Return all queries, where documents are searched as stored: once, not for 8 bits."""
        if not self._reads_stored or self.n_queries > self.tile or self._quantises_stored:
            return None
        rows = inputs.widen(self.queries[: self.n_queries], "queries")
        raw_queries = self.kernels.RawQueries(rows, self.metric.code)
        return None if raw_queries.needs_rescaling() else raw_queries

    @property
    def _reads_stored(self) -> bool:
        return (
            self.lists
            and self.fused
            and isinstance(self.docs, np.ndarray | NpyRows)
            and inputs.stored_as(self.docs.dtype) is not None
            and inputs.stored_as(self.queries.dtype) is not None
        )

    @property
    def _quantises_stored(self) -> bool:
        return self._quantises(*self.docs.shape) and self._suits_8_bits(*self.docs.shape)

    @cached_property
    def stored_axis(self) -> Floats32 | None:
        """Return the axis of documents that are quantised as stored; None where they are not."""
        if not (self._reads_stored and self._quantises_stored) or self.n_zero:
            return None
        if self.sizes.smallest <= -_USUAL_SIZE or self.sizes.largest >= _USUAL_SIZE:
            return None
        n_docs, columns = self.docs.shape
        if not self._suits_8_bits(min(self.stored_rows, n_docs), columns):
            return None
        rows = inputs.widen(self.docs[:: max(1, n_docs // _sample_size(n_docs))], "docs")
        axis, queries = blocks.axis_of(rows), self.prepared(*self._probes).rows
        sampled = blocks.sample_scores(
            self.kernels, queries, rows, axis, *self._usual_scores(rows), len(rows)
        )
        return None if self._leaves_many(sampled, n_docs) else axis

    @np.errstate(all="ignore")
    def _usual_scores(self, rows: Floats32) -> tuple[Floats32, Floats32]:
        """Return scales and biases of rows of usual sizes: a row that is odd shows later."""
        squares = np.einsum("rc,rc->r", rows, rows)
        scale = squares**-0.5 if self.metric.name == "cosine" else np.ones_like(squares)
        bias_unit = math.ldexp(0.5, -self.sizes.largest) if self.metric.name == "l2" else 0.0
        return scale, -bias_unit * squares

    @property
    def stored_rows(self) -> int:
        """Return how many rows are quantised at a time; of a file, no more than are mapped."""
        most = self.coarse_bytes // (self.queries.shape[1] + _NUMBERS_BYTES)
        if isinstance(self.docs, NpyRows):
            most = min(most, _MAPPED_BYTES // (self.docs.dtype.itemsize * self.docs.shape[1]))
        return int(max(1, most // blocks.PANEL) * blocks.PANEL)

    def stored_docs(self, axis: Floats32) -> Iterator[tuple[int, RawHandle, CoarseHandle]]:
        """Quantise documents as they are stored, block by block; say how many these hold."""
        stored, signs = inputs.stored_as(self.docs.dtype) or 0, blocks.signs_of(self.docs.shape[1])
        for rows in inputs.raw_windows(self.docs, self.stored_rows):
            block = blocks.raw_docs(self.kernels, rows, stored, self.metric, sizes=self.sizes)
            coarse = self.kernels.coarsen_raw(block, axis, signs, self.threads)
            yield len(rows), block, self.kernels.CoarseBlock(block, *coarse, axis, signs)
            del rows, block, coarse

    def raw_docs(self) -> Iterator[tuple[int, RawHandle]]:
        """Yield the documents as they are stored, block by block, and how many these hold."""
        stored = inputs.stored_as(self.docs.dtype) or 0
        for rows in inputs.raw_windows(self.docs):
            block = blocks.raw_docs(self.kernels, rows, stored, self.metric, sizes=self.sizes)
            yield len(rows), block

    def _quantises(self, n_docs: int, columns: int) -> bool:
        """Tell whether it pays to quantise documents for this search only."""
        least = COARSE_WORK if self.lists else COARSE_WORK // 2
        many = self.n_queries >= COARSE_QUERIES
        return many and self.n_queries * n_docs * columns >= least

    def _is_crowded(self, docs: blocks.Docs, axis: Floats32) -> bool:
        """Tell whether a few queries find too many documents too close for 8 bits."""
        if self.n_queries < COARSE_QUERIES:
            return False
        rows = self.prepared(*self._probes).rows
        return self._leaves_many(self._sample(rows, docs, axis, _sample_size(len(docs))), len(docs))

    def _leaves_many(self, sampled: blocks.Sampled, n_docs: int) -> bool:
        share = self.depth / n_docs
        return blocks.share_left(sampled, share) > MOST_LEFT + 4 * share

    @property
    def _probes(self) -> tuple[int, int]:
        """Return the queries by which a block is judged."""
        middle = max(0, self.n_queries - _PROBES) // 2
        return middle, min(self.n_queries, middle + _PROBES)

    def _sample(
        self, rows: Floats32, docs: blocks.Docs, axis: Floats32, most: int
    ) -> blocks.Sampled:
        return blocks.sample_scores(
            self.kernels, rows, docs.rows, axis, docs.scale, docs.bias, most
        )

    @np.errstate(all="ignore")
    def _tells_apart(
        self, docs: blocks.Docs, axis: Floats32, targets: Ints, scores: Floats
    ) -> bool:
        """Tell whether 8 bits separate most documents from the targets of a few queries."""
        queries = self.prepared(*self._probes)
        has_target = targets[slice(*self._probes)] >= 0
        level, _ = limits_of(scores[slice(*self._probes)], docs.unit, *queries[1:3])
        scored, off = self._sample(queries.rows[has_target], docs, axis, _SAMPLE // 4)
        near = np.abs(scored - level[has_target, None]) <= off
        return len(near) > 0 and bool(np.median(near.mean(axis=1)) <= MOST_LEFT / 2)

    def prepared_docs(self, block: blocks.MeasuredRows) -> blocks.Docs:
        """Prepare a block of documents for the product; in 8 bits where that is sooner."""
        if not isinstance(self.docs, Prepared):
            return self._prepare_docs(block)
        coarse = self.is_coarse(block)
        key = self.engine, self.metric, self.sizes, len(block.rows), coarse and self.depth
        return self.docs.keep(block.first, key, lambda: self._prepare_docs(block))

    def _prepare_docs(self, block: blocks.MeasuredRows) -> blocks.Docs:
        docs = blocks.prepare_docs(self.kernels, block, self.metric, sizes=self.sizes)
        if not self.is_coarse(block):
            return docs
        axis = block.coarse.axis if block.coarse else blocks.axis_of(docs.rows)
        if self._is_crowded(docs, axis):
            return docs
        coarse = block.coarse or blocks.coarsen(self.kernels, docs.rows, axis, self.threads)
        return self._with_codes(docs, coarse)

    def _with_codes(self, docs: blocks.Docs, coarse: blocks.Coarse) -> blocks.Docs:
        signs = blocks.signs_of(docs.rows.shape[1])
        return blocks.Docs(*docs[:-1], coarse=self.kernels.CoarseBlock(docs.block, *coarse, signs))

    def _quantisable(self, block: blocks.MeasuredRows) -> Iterator[blocks.MeasuredRows]:
        """Cut a block into parts that take little memory to quantise."""
        for start in range(0, len(block.rows), self.stored_rows):
            yield block.part(start, start + self.stored_rows)

    def check_docs(self, n_docs: int) -> None:
        """Check what depends on the number of documents, which a stream tells at its end."""
        if self.doc_ids is not None:
            checks.check_lengths(doc_ids=len(self.doc_ids), docs=n_docs)
        if self.n_docs is None:
            self._exclude(n_docs)


def _sample_size(n_docs: int) -> int:
    """Return how many documents judge a block: fewer where it takes less time to search it."""
    return min(_SAMPLE, max(_SAMPLE // 4, n_docs // 32))


def search_settings(*, metric: str, zero: str, exclude: Any, **more: Any) -> dict[str, str]:
    """Collect what can change the answers of a search, for the signature of its numbers.

    `zero` counts under cosine and maxsim only; where it is "error", no row is zero. Of documents
    that tie at the k-th place the first rows are kept, whatever their ids, unless all are:
    `cut:row` says so.
    """
    cut = "row" if "k" in more and not more.get("keep_ties") else None
    return as_settings(
        metric=metric,
        cut=cut,
        zero=zero if zero != "error" and metric in ("cosine", "maxsim") else None,
        exclude=exclude if isinstance(exclude, str | None) else f"pairs-{pair_digest(exclude)}",
        **more,
    )


def plan(
    queries: Any,
    docs: Any,
    *,
    k: int,
    metric: str,
    zero: str,
    exclude: Any = None,
    query_ids: Any = None,
    doc_ids: Any = None,
    threads: int | None = None,
    engine: Engine | None = None,
    lists: bool = False,
    coarse: bool = False,
) -> SearchPlan:
    """Check the inputs of a search and decide how to cut it."""
    name, kernels = inputs.choose_kernels(engine)
    metric_of_search = blocks.Metric.of(metric, zero)
    matrix = inputs.matrix_of(open_rows(queries), "queries")
    n_queries, columns = matrix.shape
    n_docs: int | None = None
    if not isinstance(docs, np.ndarray) and isinstance(docs, Iterator):
        docs = map(open_rows, docs)  # such documents can be read only once
    elif isinstance(docs := open_rows(docs), Prepared):
        inputs.check_columns(docs.shape[1], columns)
        n_docs = len(docs)
    else:
        n_docs = inputs.doc_blocks(docs, columns)[1]
    n_threads = thread_count(threads)
    if n_docs is not None and n_queries * n_docs * columns < _TINY:
        n_threads = 1
    rows = kernels.fused_rows()
    depth = k if (lists or coarse) and k < _MOST_PRUNED and kernels.coarse_rows() else 0
    room = max(4 * depth + 1024, COARSE_ROOM) if depth else 2 * min(k, _MOST_PRUNED) + 256
    if not lists:
        room //= 2  # numbers without scores
    for_each = 8 * room + 16 * (columns + depth)  # bytes of a query, its candidates and its list
    tile = _tile(n_queries, for_each, threads=n_threads, rows=max(rows, 1))
    if not rows:
        tile = min(tile, FEW_QUERIES)
    n_tiles = -(-n_queries // tile)
    spare = max(0, _BYTES - n_threads * tile * for_each)
    search_plan = SearchPlan(
        kernels=kernels,
        engine=name,
        metric=metric_of_search,
        queries=matrix,
        docs=docs,
        n_docs=n_docs,
        query_ids=inputs.check_ids(query_ids, n_queries, "query"),
        doc_ids=inputs.check_ids(doc_ids, n_docs, "doc"),
        exclude=exclude,
        threads=n_threads,
        tile=tile,
        parts=-(-n_threads // n_tiles) if n_tiles < n_threads else 1,
        depth=depth,
        lists=lists,
        coarse_bytes=COARSE_BYTES + min(spare, 3 * COARSE_BYTES // 2),
    )
    if search_plan.raw is None:  # queries and exclusions are refused before anything is searched
        _ = search_plan.measures
    _ = search_plan.excluded
    return search_plan


def _tile(n_queries: int, for_each: int, *, threads: int, rows: int) -> int:
    """Return how many queries to take at a time, each with room for candidates."""
    most = max(rows, min(_MOST_QUERIES, _BYTES // threads // for_each))
    n_tiles = -(-n_queries // most)
    if n_queries >= FEW_QUERIES * threads:
        n_tiles = -(-n_tiles // threads) * threads
    return -(-n_queries // n_tiles // rows) * rows
