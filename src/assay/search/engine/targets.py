"""Rank the target of each query, with no list and no sort: among vectors, or in scores.

Among vectors, what certainly scores above the target is counted where it is found; the few
documents that the product cannot tell from it are decided by canonical scores. The product is of
8-bit numbers where these tell most documents from the targets.

A matrix of scores or logits is read once, without a copy, in blocks of rows, so it may be a file
larger than memory. Scores are compared as float32 where that holds them exactly (float16, bfloat16,
float32, integers up to 16 bits), else as float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.arrays import Floats, IdsLike, Ints, VectorsLike, offsets_of
from assay.core import checks
from assay.core.conventions import Settings
from assay.core.hits import Hits, judge_ranks
from assay.core.ids import Ids
from assay.errors import IdError, MismatchError, ShapeError, UsageError, ValueRangeError
from assay.io.arrays import NpyRows, open_rows
from assay.io.mapped import CopiedRows, steady_files
from assay.native import Engine
from assay.native.twins.search import limits_of
from assay.search.engine.blocks import Docs, MeasuredRows
from assay.search.engine.inputs import Excluded, choose_kernels
from assay.search.engine.plan import SearchPlan, plan, search_settings
from assay.search.engine.prepared import Prepared
from assay.search.engine.search import candidates_near, run_on
from assay.search.engine.sparse import SparseSearch, count_sparse_targets
from assay.search.engine.sparse_vectors import SparseVectors, is_sparse
from assay.search.engine.token_vectors import TokenVectors
from assay.search.engine.tokens import TokenSearch, check_targets, count_token_targets, score_ragged
from assay.search.engine.workers import Control, Progress, run

if TYPE_CHECKING:
    from assay.native.signatures import Kernels

BLOCK_BYTES = 16 << 20  # of widened scores: enough to keep a thread busy, little to hold
WORTH_THREADS = 32 << 20  # less is read sooner than threads are started


@dataclass(frozen=True, eq=False)
class TargetRanks:
    """Count for each query the documents that stand before its target, and say why.

    Args:
        above: Documents that score higher; −1 where a query has no target, here and below.
        tied: Other documents that score the same.
        before: Tied documents with a lower number.
        n_docs: Documents that were looked at.
        search: Engine of the search.
        settings: Settings of the search.

    Example:
        >>> ranks = TargetRanks(np.array([1, -1]), np.array([2, -1]), np.array([1, -1]), n_docs=9)
        >>> ranks.rank.tolist(), ranks.has_target.tolist()
        ([3, 0], [True, False])
    """

    above: Ints
    tied: Ints
    before: Ints
    n_docs: int
    search: str = ""
    settings: Settings = field(default_factory=dict)

    @property
    def has_target(self) -> NDArray[np.bool_]:
        """Tell which queries have a target."""
        return self.above >= 0

    @property
    def rank(self) -> Ints:
        """Return the target's rank under the tie rule, from 1; 0 where there is no target."""
        return np.where(self.has_target, self.above + self.before + 1, 0)

    def hits(self, query_ids: Any = None) -> Hits:
        """Return hits for measures; the queries are numbered from 0 unless they have ids."""
        hits = judge_ranks(
            self.above + 1,
            tied=np.maximum(self.tied, 0),
            placed=self.rank,
            n_docs=self.n_docs,
            has_target=self.has_target,
            query_ids=query_ids,
        )
        return replace(hits, search=self.search, settings=self.settings)

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.above)

    def __repr__(self) -> str:
        """Show sizes in one line."""
        return f"TargetRanks({len(self)} queries, {self.n_docs} docs)"


@dataclass(frozen=True)
class _Counts:
    """Hold the targets with their canonical scores, and what was counted so far."""

    targets: Ints
    scores: Floats
    above: Ints
    tied: Ints
    before: Ints

    @classmethod
    def new(cls, targets: Ints, scores: Floats) -> _Counts:
        """Start with nothing counted."""
        return cls(targets, scores, *(np.zeros(len(targets), np.int64) for _ in range(3)))

    def part(self, start: int, stop: int) -> tuple[NDArray[Any], ...]:
        """Return views of some queries, in the order that the kernels take."""
        arrays = (self.targets, self.scores, self.above, self.tied, self.before)
        return tuple(array[start:stop] for array in arrays)


def target_ranks(
    queries: VectorsLike | SparseVectors | TokenVectors,
    docs: VectorsLike | Prepared | SparseVectors | TokenVectors,
    targets: ArrayLike | Iterable[object],
    *,
    metric: Literal["cosine", "dot", "l2", "maxsim"] = "cosine",
    exclude: Any = None,
    query_ids: IdsLike | None = None,
    doc_ids: IdsLike | None = None,
    zero: Literal["error", "drop", "last"] = "error",
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> TargetRanks:
    """Count for each query the documents that score above its target or tie with it.

    Args:
        queries: Vectors of the queries: an array, a memory map or the path of a .npy file; or
            sparse ones, in whatever `read_sparse` takes; for "maxsim" token vectors, in whatever
            `read_tokens` takes.
        docs: Vectors of the documents, likewise; they are read twice.
        targets: A document id for each query where `doc_ids` are given, else a row number;
            −1 or None is no target.
        metric: How vectors are compared.
        exclude: "self" or pairs of (query, document), as for `rank`.
        query_ids: Ids of the queries, or a text file with one a line; by default row numbers.
        doc_ids: Ids of the documents, likewise.
        zero: Refuse all-zero rows under cosine, or rank them last.
        threads: Number of threads, by default one for each core.
        engine: Compiled kernels or their numpy twins.
        progress: Function that is called with (done, total) meanwhile.

    Returns:
        The counts, from which ranks and measures follow.

    Raises:
        AssayError: Vectors, targets, ids or options do not fit.

    Example:
        >>> ranks = target_ranks([[1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]], [2])
        >>> ranks.rank.tolist()
        [2]
    """
    if isinstance(docs, Iterator):
        raise UsageError(
            "target_ranks reads documents twice. Pass an array, a memory map, a .npy path or "
            "a list of blocks instead of an iterator."
        )
    if checks.check_choice(zero, ("error", "drop", "last"), "zero") == "drop":
        raise UsageError("target_ranks takes zero='error' or 'last': a dropped target has no rank.")
    options: dict[str, Any] = {"exclude": exclude, "query_ids": query_ids, "doc_ids": doc_ids}
    options |= {"threads": threads, "engine": engine}
    if isinstance(metric, str) and metric == "maxsim":
        search = TokenSearch.new(queries, docs, zero=zero, **options)
        with steady_files(search.queries, search.docs):
            numbers = _number_targets(targets, search.doc_ids, len(search.queries))
            counts = _count_token_targets(search, numbers, progress)
    elif is_sparse(queries) or is_sparse(docs):
        sparse = SparseSearch(queries, docs, metric=metric, **options)
        return _sparse_target_ranks(sparse, targets, metric, zero, exclude, progress)
    else:
        queries, docs = open_rows(queries), open_rows(docs)
        with steady_files(queries, docs):
            ready = plan(queries, docs, k=1, metric=metric, zero=zero, coarse=True, **options)
            numbers = _number_targets(targets, ready.doc_ids, ready.n_queries)
            counts = _count_targets(ready, numbers, progress)
    settings = search_settings(metric=metric, zero=zero, exclude=exclude, n_docs=counts.n_docs)
    return replace(counts, settings=settings)


def _number_targets(targets: Any, doc_ids: Ids | None, n_queries: int) -> Ints:
    if doc_ids is None:
        numbers = row_targets(targets)
    else:
        numbers = _match_targets(checks.as_list(targets, "targets"), doc_ids)
    checks.check_lengths(targets=len(numbers), queries=n_queries)
    return numbers


def _sparse_target_ranks(
    ready: SparseSearch,
    targets: Any,
    metric: str,
    zero: str,
    exclude: Any,
    progress: Progress | None,
) -> TargetRanks:
    if zero != "error":
        raise UsageError("Sparse vectors are searched with zero='error'.")
    numbers = _number_targets(targets, ready.doc_ids, ready.n_queries)
    checks.check_numbers(numbers[numbers >= 0], ready.n_docs, "targets")
    refuse_excluded_targets(ready.excluded, numbers)
    counts = count_sparse_targets(ready, numbers, progress)
    above, tied, before = (np.where(numbers < 0, -1, count) for count in counts)
    settings = search_settings(
        metric=f"sparse-{metric}", zero=zero, exclude=exclude, n_docs=ready.n_docs
    )
    n_docs = ready.n_docs - count_excluded(ready.excluded)
    return TargetRanks(above, tied, before, n_docs, ready.engine, settings)


def _count_token_targets(
    search: TokenSearch, targets: Ints, progress: Progress | None
) -> TargetRanks:
    checks.check_numbers(targets[targets >= 0], len(search.docs), "targets")
    check_targets(search.docs, targets)
    refuse_excluded_targets(search.excluded, targets)
    there = targets >= 0
    scores = np.zeros(len(targets))
    scores[there] = score_ragged(search, offsets_of(there), targets[there])
    counts = count_token_targets(search, targets, scores, progress)
    for array in counts:
        array[~there] = -1
    n_docs = len(search.docs) - count_excluded(search.excluded)
    return TargetRanks(*counts, n_docs, search=f"{search.engine}-certified")


def row_targets(targets: Any) -> Ints:
    """Check row numbers of targets but for the number of documents; −1 means none."""
    array = checks.plain_array(targets, "targets")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ShapeError(
            f"targets must be one row number per query, found shape {array.shape} of "
            f"{array.dtype}. Ids need doc_ids."
        )
    rows = array.astype(np.int64)
    if rows.size and rows.min() < -1:
        row = int(np.argmin(rows))
        raise ValueRangeError(f"targets row {row} is {rows[row]}. Use −1 for no target.")
    return rows


def _match_targets(targets: list[Any], doc_ids: Ids) -> Ints:
    numbers = np.full(len(targets), -1, np.int64)
    named = [row for row, target in enumerate(targets) if target is not None]
    numbers[named] = Ids.of([targets[row] for row in named], what="target").match(doc_ids)
    for row in named:
        if numbers[row] < 0:
            raise IdError(
                f"Target {targets[row]!r} of query row {row} is not a document. Pass ids of docs."
            )
    return numbers


def _count_targets(ready: SearchPlan, targets: Ints, progress: Progress | None) -> TargetRanks:
    counts = _Counts.new(targets, np.zeros(len(targets)))
    first, n_docs = _score_targets(ready, counts)
    ready.check_docs(n_docs)
    checks.check_numbers(targets[targets >= 0], n_docs, "targets")
    refuse_infinite(counts.scores)
    refuse_excluded_targets(ready.excluded, targets)
    control = Control.new()
    for docs in _to_count(ready, counts, first):
        _count_block(ready, counts, docs, control, progress)
        del docs
    if ready.metric.name == "cosine":
        # All documents tie for a query of zeros, which the product cannot find.
        nowhere = ready.measures.zero
        counts.tied[nowhere] += n_docs - 1
        counts.before[nowhere] += counts.targets[nowhere]
    for array in (counts.above, counts.tied, counts.before):
        array[targets < 0] = -1
    return TargetRanks(
        counts.above,
        counts.tied,
        counts.before,
        n_docs - count_excluded(ready.excluded),
        search=f"{ready.engine}-certified",
    )


def target_scores(queries: Any, docs: Any, targets: Ints, **options: Any) -> Floats:
    """Score targets canonically among some documents; 0 where the target is −1."""
    if options["metric"] == "maxsim":
        search = TokenSearch.new(queries, docs, **_without_metric(options))
        check_targets(search.docs, targets)
        return score_ragged(search, np.arange(len(targets) + 1), targets)
    queries, docs = open_rows(queries), open_rows(docs)
    counts = _Counts.new(targets, np.zeros(len(targets)))
    with steady_files(queries, docs):
        _score_targets(plan(queries, docs, k=1, **options), counts)
    return counts.scores


def count_against(
    queries: Any, docs: Any, targets: Ints, *, scores: Floats, exclude: Any, **options: Any
) -> tuple[Ints, Ints, Ints]:
    """Count some documents against targets whose scores are known: above, tied, before.

    A target that is not among these documents has a number beyond theirs, so that all that tie
    with it count as before it.
    """
    if options["metric"] == "maxsim":
        search = TokenSearch.new(queries, docs, exclude=exclude, **_without_metric(options))
        return count_token_targets(search, targets, scores)
    queries, docs = open_rows(queries), open_rows(docs)
    counts, control = _Counts.new(targets, scores), Control.new()
    with steady_files(queries, docs):
        ready = plan(queries, docs, k=1, exclude=exclude, coarse=True, **options)
        for block in _to_count(ready, counts, None):
            _count_block(ready, counts, block, control, None)
            del block
    return counts.above, counts.tied, counts.before


def _without_metric(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != "metric"}


_Block = tuple[MeasuredRows, Docs]


def _to_count(ready: SearchPlan, counts: _Counts, first: _Block | None) -> Iterator[Docs]:
    """Yield all documents, block by block; `first` if one block holds all."""
    blocks = ((block, ready.prepared_docs(block)) for block in ready.measured_blocks())
    for block, docs in [first] if first is not None else blocks:
        yield from ready.counted_docs(block, docs, counts.targets, counts.scores)


def _score_targets(ready: SearchPlan, counts: _Counts) -> tuple[_Block | None, int]:
    """Score every target canonically; return a block that holds all documents, and their number."""
    n_docs, seen, first = 0, 0, None
    for block in ready.measured_blocks():
        docs = ready.prepared_docs(block)
        for start, stop in ready.tiles():
            local = counts.targets[start:stop] - block.first
            here = (local >= 0) & (local < len(docs))
            if not here.any():
                continue
            offsets = offsets_of(here)
            scores = ready.kernels.pair_scores(
                ready.metric.code,
                ready.prepared(start, stop).block,
                docs.block,
                offsets,
                local[here].astype(np.uint32),
            )
            counts.scores[start:stop][here] = scores
        n_docs, seen, first = n_docs + len(docs), seen + 1, (block, docs)
    return (first if seen == 1 else None), n_docs


def refuse_infinite(scores: Floats) -> None:
    """Refuse targets whose score float64 cannot hold."""
    if not np.isfinite(scores).all():
        query = int(np.argmax(~np.isfinite(scores)))
        raise ValueRangeError(
            f"The target score of query row {query} exceeds float64 (1.8e308). Scale the "
            "vectors down."
        )


def refuse_excluded_targets(excluded: Excluded, targets: Ints) -> None:
    """Refuse a target that its query must not find."""
    queries = np.repeat(np.arange(len(targets)), np.diff(excluded.offsets))
    barred = targets[queries] == excluded.docs
    if barred.any():
        query = int(queries[np.argmax(barred)])
        raise UsageError(
            f"The target of query row {query} is document {targets[query]}, which is excluded "
            "for it. Remove the exclusion, or set −1."
        )


def count_excluded(excluded: Excluded) -> int:
    """Count the documents that each query passes over; 0 where queries differ."""
    counts = np.diff(excluded.offsets)
    return int(counts[0]) if (counts == counts[0]).all() else 0


def _count_block(
    ready: SearchPlan, counts: _Counts, docs: Docs, control: Control, progress: Progress | None
) -> None:
    """Count one block of documents; parts of it that are met separately count separately."""
    jobs = []
    for tile in ready.tiles():
        targets, scores, *totals = counts.part(*tile)
        for part in ready.ranges(len(docs)):
            jobs.append((tile, part, (targets, scores, *map(np.zeros_like, totals))))
    run_on(ready, [partial(_count_part, ready, docs, *job) for job in jobs], control, progress)
    for (start, stop), _, (_, _, *parts) in jobs:
        for total, count in zip((counts.above, counts.tied, counts.before), parts, strict=True):
            total[start:stop] += count
    for start, stop in ready.tiles():
        _take_back_excluded(ready, counts, docs, start, stop)


def _take_back_excluded(
    ready: SearchPlan, counts: _Counts, docs: Docs, start: int, stop: int
) -> None:
    excluded = ready.excluded.part(start, stop).within(docs.first, len(docs))
    if not len(excluded[1]):
        return
    targets, scores, above, tied, before = counts.part(start, stop)
    queries = ready.prepared(start, stop).block
    counted = targets, scores, *excluded, above, tied, before
    ready.kernels.decide_targets(ready.metric.code, queries, docs.block, *counted, -1)


def _count_part(
    ready: SearchPlan,
    docs: Docs,
    tile: tuple[int, int],
    part: tuple[int, int],
    arrays: tuple[NDArray[Any], ...],
    control: Control,
) -> None:
    """Count one range of documents for one block of queries."""
    targets, scores, above, tied, before = arrays
    code, queries = ready.metric.code, ready.prepared(*tile)
    if ready.fused:
        arguments = targets, scores, *part, above, tied, before, *control
        if docs.coarse is None:
            ready.kernels.count_targets(code, queries.block, docs.block, *arguments)
        else:
            ready.kernels.count_coarse_targets(code, queries.block, docs.coarse, *arguments)
        return
    low, high = limits_of(scores, docs.unit, queries.weight, queries.shift)
    low[targets < 0] = high[targets < 0] = np.inf
    for candidates in candidates_near(
        low, high, above, queries=queries, docs=docs, part=part, control=control
    ):
        ready.kernels.decide_targets(
            code, queries.block, docs.block, targets, scores, *candidates, above, tied, before, 1
        )


def target_ranks_from_scores(
    scores: ArrayLike,
    targets: ArrayLike,
    *,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> TargetRanks:
    """Return the rank of the target column in each row of scores; higher is better.

    −Inf marks a class that was masked out: it ranks after every number and ties with the other
    −Inf of its row, also at a target.

    Args:
        scores: Rows × columns of any float or integer type and layout, or a memory map.
        targets: A column number for each row; −1, or a masked entry, is a row without a target.
        threads: Number of threads, by default one for each core.
        engine: Compiled kernels or their numpy twins.
        progress: Function that is called with (done, total) meanwhile.

    Returns:
        The counts, from which ranks and measures follow.

    Raises:
        AssayError: Scores hold NaN or +Inf, or targets do not fit them.

    Example:
        >>> ranks = target_ranks_from_scores([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0]], [2, 1])
        >>> ranks.rank.tolist(), ranks.tied.tolist()
        ([2, 2], [0, 1])
    """
    return _count_scores(scores, targets, None, threads, engine, progress)


def ranks_and_best(
    scores: Any,
    targets: Any,
    *,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> tuple[TargetRanks, Ints]:
    """Rank targets as `target_ranks_from_scores`; name the first column of each row, too."""
    matrix = score_matrix(scores)
    best = np.empty(len(matrix), np.int64)
    return _count_scores(matrix, targets, best, threads, engine, progress), best


def _count_scores(
    scores: Any,
    targets: Any,
    best: Ints | None,
    threads: int | None,
    engine: Engine | None,
    progress: Progress | None,
) -> TargetRanks:
    matrix = score_matrix(scores)
    columns = target_columns(targets, *matrix.shape)
    above, tied, before = (np.empty(len(matrix), np.int64) for _ in range(3))
    name, kernels = choose_kernels(engine)
    work = _ScoreCounts(kernels, matrix, columns, (above, tied, before, best))
    tasks = [partial(work.count, rows) for rows in _row_blocks(matrix)]
    count = checks.thread_count(threads)
    with steady_files(matrix):
        if progress is None and (count == 1 or matrix.nbytes < WORTH_THREADS):
            control = Control.new()
            for task in tasks:
                task(control)
        else:
            run(tasks, threads=count, progress=progress, total=len(matrix))
        if work.bad_cells:
            row, column = min(work.bad_cells)
            raise ValueRangeError(
                f"scores hold {float(matrix[row : row + 1][0, column])} at row {row}, column "
                f"{column}. Remove or replace it; only -inf is allowed, for classes that were "
                "masked out."
            )
    return TargetRanks(above, tied, before, matrix.shape[1], search=f"{name}-certified")


@dataclass(frozen=True, eq=False)
class _ScoreCounts:
    """Hold what all threads share; each block of rows fills its part of the outputs."""

    kernels: Kernels
    matrix: NDArray[Any]
    targets: Ints
    outputs: tuple[Ints, Ints, Ints, Ints | None]
    bad_cells: list[tuple[int, int]] = field(default_factory=list)

    def count(self, rows: slice, control: Control) -> None:
        """Count the ranks of one block."""
        if control.stop[0]:
            return
        above, tied, before, best = self.outputs
        block, targets = _as_comparable(self.matrix[rows]), self.targets[rows]
        masked = masked_targets(block, targets)
        row, column = self.kernels.count_score_ranks(
            block,
            np.where(masked, -1, targets),
            above[rows],
            tied[rows],
            before[rows],
            None if best is None else best[rows],
        )
        if row >= 0:
            self.bad_cells.append((rows.start + row, column))  # a list takes one thread at a time
        if masked.any():
            _count_masked(block, targets, masked, [count[rows] for count in (above, tied, before)])
        control.add(rows.stop - rows.start)


def masked_targets(matrix: NDArray[Any], targets: Ints) -> NDArray[np.bool_]:
    """Tell which rows have −Inf at their target: the model ruled the right column out."""
    masked = np.zeros(len(targets), bool)
    for rows in _row_blocks(matrix):
        block = matrix[rows]
        scores = block[np.arange(len(block)), np.maximum(targets[rows], 0)]
        masked[rows] = (targets[rows] >= 0) & (scores == -np.inf)
    return masked


def _count_masked(
    block: NDArray[Any], targets: Ints, masked: NDArray[np.bool_], counts: list[Ints]
) -> None:
    """Count targets of −Inf: above stands every number, level with it every other −Inf."""
    last = block[masked] == -np.inf
    sooner = np.arange(block.shape[1]) < targets[masked][:, None]
    above, tied, before = counts
    above[masked] = block.shape[1] - last.sum(axis=1)
    tied[masked] = last.sum(axis=1) - 1
    before[masked] = (last & sooner).sum(axis=1)


def _row_blocks(matrix: NDArray[Any]) -> list[slice]:
    width = matrix.shape[1] * _compared_as(matrix.dtype).itemsize
    step = max(1, BLOCK_BYTES // width)
    return [slice(i, min(i + step, len(matrix))) for i in range(0, len(matrix), step)]


def _compared_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the kernel's type that holds every value of this type exactly."""
    narrow = dtype.itemsize <= (2 if dtype.kind in "iu" else 4)
    return np.dtype(np.float32 if narrow else np.float64)


def _as_comparable(block: NDArray[Any]) -> NDArray[Any]:
    """Return the block as the kernel takes it: in place where it is float32 or float64."""
    dtype = _compared_as(block.dtype)
    side_by_side = block.strides[1] == dtype.itemsize and block.strides[0] > 0
    if block.dtype == dtype and block.dtype.isnative and side_by_side and block.flags.aligned:
        return block
    if block.dtype.kind in "iu" and dtype == np.float64:
        return np.ascontiguousarray(checks.exact_scores(block, "scores"))
    return np.ascontiguousarray(block, dtype)


def score_matrix(scores: Any) -> NDArray[Any]:
    """Check scores: an array of rows × columns, or of a file, never copied."""
    if isinstance(scores, NpyRows):
        score_matrix(scores.stand_in)
        return cast("NDArray[Any]", scores)
    array = checks.plain_array(scores.array if isinstance(scores, CopiedRows) else scores, "scores")
    if not (array.dtype.name == "bfloat16" and array.ndim == 2 and array.size):
        array = checks.real_matrix(array, "scores")
        if array.dtype.itemsize > 8:
            raise ValueRangeError(f"scores are {array.dtype}. Pass float64 or narrower.")
    return cast("NDArray[Any]", open_rows(array))


def target_columns(targets: Any, rows: int, columns: int) -> Ints:
    """Check targets: a column number, or −1 for none, for each row."""
    masked = isinstance(targets, np.ma.MaskedArray)
    plain = targets.filled(-1) if masked else checks.plain_array(targets, "targets")
    if plain.ndim != 1 or plain.dtype.kind not in "iu":
        raise ShapeError(
            f"targets must be one column number for each row (−1 for none), found shape "
            f"{plain.shape} of {plain.dtype}."
        )
    if len(plain) != rows:
        raise MismatchError(f"scores have {rows} rows, targets {len(plain)}. Pass one per row.")
    outside = (plain < -1) | (plain >= columns)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueRangeError(
            f"The target of row {row} is {plain[row]}; columns are 0 to {columns - 1}, "
            "and −1 means no target."
        )
    return np.ascontiguousarray(plain, np.int64)
