"""target_ranks: where the one target of each query stands, with no list and no sort.

What certainly scores above the target is counted where it is found; the few documents that the
product cannot tell from it are decided by canonical scores. The product is of 8-bit numbers where
these tell most documents from the targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.arrays import Floats, Ints, VectorsLike, offsets_of
from assay.core import checks
from assay.core.conventions import Settings
from assay.core.hits import Hits, judge_ranks
from assay.core.ids import Ids
from assay.errors import IdError, ShapeError, UsageError, ValueRangeError
from assay.io.arrays import open_rows
from assay.io.mapped import steady_files
from assay.native import Engine
from assay.native.twins.search import limits_of
from assay.search.engine.blas_scan import candidates_near
from assay.search.engine.blocks import Docs, MeasuredRows, Queries
from assay.search.engine.exclusion import Excluded
from assay.search.engine.plan import SearchPlan, plan, search_settings
from assay.search.engine.prepared import Prepared
from assay.search.engine.search import run_on
from assay.search.engine.workers import Control, Progress


@dataclass(frozen=True, eq=False)
class TargetRanks:
    """For each query how many documents stand before its target, and why.

    `above` score higher, `tied` others score the same, and `before` of these have a lower document
    number; −1 in all three where a query has no target. `n_docs` documents were looked at;
    `search` and `settings` say how.

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
        """Which queries have a target."""
        return self.above >= 0

    @property
    def rank(self) -> Ints:
        """The target's rank under the tie rule, from 1; 0 where there is no target."""
        return np.where(self.has_target, self.above + self.before + 1, 0)

    def hits(self, query_ids: Any = None) -> Hits:
        """What measures need; the queries are numbered from 0 unless they have ids."""
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
        """How many queries there are."""
        return len(self.above)

    def __repr__(self) -> str:
        """Sizes in one line."""
        return f"TargetRanks({len(self)} queries, {self.n_docs} docs)"


@dataclass(frozen=True)
class _Counts:
    """The targets with their canonical scores, and what was counted so far."""

    targets: Ints
    scores: Floats
    above: Ints
    tied: Ints
    before: Ints

    @classmethod
    def new(cls, targets: Ints, scores: Floats) -> _Counts:
        """Nothing counted yet."""
        return cls(targets, scores, *(np.zeros(len(targets), np.int64) for _ in range(3)))

    def part(self, start: int, stop: int) -> tuple[NDArray[Any], ...]:
        """Views of some queries, in the order that the kernels take."""
        arrays = (self.targets, self.scores, self.above, self.tied, self.before)
        return tuple(array[start:stop] for array in arrays)


def target_ranks(
    queries: VectorsLike,
    docs: VectorsLike | Prepared,
    targets: ArrayLike | Iterable[object],
    *,
    metric: Literal["cosine", "dot", "l2"] = "cosine",
    exclude: Any = None,
    query_ids: Iterable[object] | None = None,
    doc_ids: Iterable[object] | None = None,
    zero: Literal["error", "drop", "last"] = "error",
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> TargetRanks:
    """For each query how many documents score above its target, and how many tie with it.

    `targets` are document ids where `doc_ids` are given, else row numbers; −1 or None is no
    target. `docs` must allow two passes: an array, a memory map or a path. The other arguments
    are those of `rank`.

    >>> ranks = target_ranks([[1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]], [2])
    >>> ranks.rank.tolist()
    [2]
    """
    if isinstance(docs, Iterator):
        raise UsageError(
            "target_ranks reads the documents twice, and an iterator can be read once. Give an "
            "array, a memory map, the path of a .npy file, or a list of blocks."
        )
    if zero == "drop":
        raise UsageError("target_ranks takes zero='error' or 'last': a dropped target has no rank.")
    queries, docs = open_rows(queries), open_rows(docs)
    with steady_files(queries, docs):
        ready = plan(
            queries,
            docs,
            k=1,
            metric=metric,
            zero=zero,
            exclude=exclude,
            query_ids=query_ids,
            doc_ids=doc_ids,
            threads=threads,
            engine=engine,
            coarse=True,
        )
        counts = _count_targets(ready, _targets(targets, ready), progress)
    settings = search_settings(metric=metric, zero=zero, exclude=exclude, n_docs=counts.n_docs)
    return replace(counts, settings=settings)


def _targets(targets: Any, ready: SearchPlan) -> Ints:
    """Document numbers, −1 for none."""
    if ready.doc_ids is None:
        numbers = row_targets(targets)
    else:
        numbers = _numbers_of(checks.as_list(targets, "targets"), ready.doc_ids)
    checks.check_lengths(targets=len(numbers), queries=ready.n_queries)
    return numbers


def row_targets(targets: Any) -> Ints:
    """Row numbers of targets, checked but for the number of documents; −1 for none."""
    array = checks.plain_array(targets, "targets")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ShapeError(
            f"targets must be one row number per query, found shape {array.shape} of "
            f"{array.dtype}. Ids need doc_ids."
        )
    rows = array.astype(np.int64)
    if rows.size and rows.min() < -1:
        row = int(np.argmin(rows))
        raise ValueRangeError(f"targets row {row} is {rows[row]}; −1 marks no target.")
    return rows


def _numbers_of(targets: list[Any], doc_ids: Ids) -> Ints:
    numbers = np.full(len(targets), -1, np.int64)
    named = [row for row, target in enumerate(targets) if target is not None]
    numbers[named] = Ids.of([targets[row] for row in named], what="target").match(doc_ids)
    for row in named:
        if numbers[row] < 0:
            raise IdError(f"The target {targets[row]!r} of query row {row} is not among the docs.")
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
    _level_without_direction(ready, counts, n_docs)
    no_target = targets < 0
    for array in (counts.above, counts.tied, counts.before):
        array[no_target] = -1
    return TargetRanks(
        counts.above,
        counts.tied,
        counts.before,
        n_docs - excluded_everywhere(ready.excluded),
        search=f"{ready.engine}-certified",
    )


def target_scores(queries: Any, docs: Any, targets: Ints, **options: Any) -> Floats:
    """Canonical scores of targets among some documents; 0 where the target is −1."""
    queries, docs = open_rows(queries), open_rows(docs)
    counts = _Counts.new(targets, np.zeros(len(targets)))
    with steady_files(queries, docs):
        ready = plan(queries, docs, k=1, exclude=None, query_ids=None, doc_ids=None, **options)
        _score_targets(ready, counts)
    return counts.scores


def count_against(
    queries: Any, docs: Any, targets: Ints, *, scores: Floats, exclude: Any, **options: Any
) -> tuple[Ints, Ints, Ints]:
    """Count some documents against targets whose scores are known: above, tied, before.

    A target that is not among these documents has a number beyond theirs, so that all that tie
    with it count as before it.
    """
    queries, docs = open_rows(queries), open_rows(docs)
    counts, control = _Counts.new(targets, scores), Control.new()
    with steady_files(queries, docs):
        ready = plan(
            queries,
            docs,
            k=1,
            exclude=exclude,
            query_ids=None,
            doc_ids=None,
            coarse=True,
            **options,
        )
        for block in _to_count(ready, counts, None):
            _count_block(ready, counts, block, control, None)
    return counts.above, counts.tied, counts.before


_Block = tuple[MeasuredRows, Docs]


def _to_count(ready: SearchPlan, counts: _Counts, first: _Block | None) -> Iterator[Docs]:
    """All documents, block by block; `first` if one block holds all."""
    blocks = ((block, ready.prepared_docs(block)) for block in ready.blocks())
    for block, docs in [first] if first is not None else blocks:
        yield from ready.counted_docs(block, docs, counts.targets, counts.scores)


def _score_targets(ready: SearchPlan, counts: _Counts) -> tuple[_Block | None, int]:
    """Score every target canonically; the documents, if one block holds all; how many there are."""
    n_docs, seen, first = 0, 0, None
    for block in ready.blocks():
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
            f"The score of the target of query row {query} is beyond the range of float64 "
            "(1.8e308). Scale the vectors down."
        )


def _level_without_direction(ready: SearchPlan, counts: _Counts, n_docs: int) -> None:
    """Under cosine all documents tie for a query of zeros, which the product cannot find."""
    if ready.metric.name == "cosine":
        nowhere = ready.measures.zero
        counts.tied[nowhere] += n_docs - 1
        counts.before[nowhere] += counts.targets[nowhere]


def refuse_excluded_targets(excluded: Excluded, targets: Ints) -> None:
    """Refuse a target that its query must not find."""
    queries = np.repeat(np.arange(len(targets)), np.diff(excluded.offsets))
    barred = targets[queries] == excluded.docs
    if barred.any():
        query = int(queries[np.argmax(barred)])
        raise UsageError(
            f"The target of query row {query} is document {targets[query]}, which is excluded for "
            "it. Leave the target in, or give that query none."
        )


def excluded_everywhere(excluded: Excluded) -> int:
    """How many documents each query passes over, where that is the same number for all."""
    counts = np.diff(excluded.offsets)
    return int(counts[0]) if (counts == counts[0]).all() else 0


def _count_block(
    ready: SearchPlan, counts: _Counts, docs: Docs, control: Control, progress: Progress | None
) -> None:
    """Count one block of documents; parts of it that are met separately count separately."""
    jobs = [
        (tile, part, _fresh(counts, tile))
        for tile in ready.tiles()
        for part in ready.ranges(len(docs))
    ]
    run_on(ready, [partial(_meet, ready, docs, *job) for job in jobs], control, progress)
    for (start, stop), _, (_, _, *bounds) in jobs:
        for total, part in zip((counts.above, counts.tied, counts.before), bounds, strict=True):
            total[start:stop] += part
    for start, stop in ready.tiles():
        _take_back_excluded(ready, counts, docs, start, stop)


def _fresh(counts: _Counts, tile: tuple[int, int]) -> tuple[NDArray[Any], ...]:
    targets, scores, *bounds = counts.part(*tile)
    return (targets, scores, *(np.zeros_like(array) for array in bounds))


def _take_back_excluded(
    ready: SearchPlan, counts: _Counts, docs: Docs, start: int, stop: int
) -> None:
    excluded = ready.excluded.part(start, stop).within(docs.first, len(docs))
    if not len(excluded[1]):
        return
    targets, scores, above, tied, before = counts.part(start, stop)
    queries = ready.prepared(start, stop).block
    ready.kernels.decide_targets(
        ready.metric.code,
        queries,
        docs.block,
        targets,
        scores,
        *excluded,
        above,
        tied,
        before,
        -1,
    )


def _meet(
    ready: SearchPlan,
    docs: Docs,
    tile: tuple[int, int],
    part: tuple[int, int],
    arrays: tuple[NDArray[Any], ...],
    control: Control,
) -> None:
    """Count one range of documents for one block of queries."""
    if not ready.fused:
        _meet_tiles(ready, docs, ready.prepared(*tile), part, arrays, control)
        return
    targets, scores, above, tied, before = arrays
    arguments = targets, scores, *part, above, tied, before, *control
    code, queries = ready.metric.code, ready.prepared(*tile).block
    if docs.coarse is None:
        ready.kernels.count_targets(code, queries, docs.block, *arguments)
    else:
        ready.kernels.count_coarse_targets(code, queries, docs.coarse, *arguments)


def _meet_tiles(
    ready: SearchPlan,
    docs: Docs,
    queries: Queries,
    part: tuple[int, int],
    arrays: tuple[NDArray[Any], ...],
    control: Control,
) -> None:
    """The same by numpy's products."""
    targets, scores, above, tied, before = arrays
    low, high = limits_of(scores, docs.unit, queries.weight, queries.shift)
    low[targets < 0] = high[targets < 0] = np.inf
    near = candidates_near(
        low, high, above, queries=queries, docs=docs, start=part[0], stop=part[1], control=control
    )
    code = ready.metric.code
    for candidates in near:
        ready.kernels.decide_targets(
            code, queries.block, docs.block, targets, scores, *candidates, above, tied, before, 1
        )
