"""rank and rerank: the exact best k documents of each query, by canonical scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Bytes, Floats, Floats32, Ints, Ints32, VectorsLike, offsets_of, rows_of
from assay.core import checks
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import ValueRangeError
from assay.io.arrays import open_rows
from assay.io.mapped import steady_files
from assay.native import Engine
from assay.native.signatures import BestK, CoarseHandle, DocHandle, QueryHandle
from assay.search.engine.blas_scan import one_blas_thread, scan_top
from assay.search.engine.blocks import ZERO_SCORE, Docs, MeasuredRows, prepare_docs
from assay.search.engine.exclusion import Excluded, refuse_short
from assay.search.engine.plan import SearchPlan, plan, search_settings
from assay.search.engine.prepared import Prepared
from assay.search.engine.workers import Control, Progress, Task, only_forward, run

_MOST_DOCS: Final = 2**31 - 1  # documents are numbered in int32


class _Lists(NamedTuple):
    """Ragged rows of documents and scores in rank order; `tie_split`: does the cut split a tie."""

    offsets: Ints
    docs: Ints32
    scores: Floats
    tie_split: Bytes


def rank(
    queries: VectorsLike,
    docs: VectorsLike | Prepared,
    k: int,
    *,
    metric: Literal["cosine", "dot", "l2"] = "cosine",
    exclude: Any = None,
    query_ids: Iterable[object] | None = None,
    doc_ids: Iterable[object] | None = None,
    keep_ties: bool = False,
    zero: Literal["error", "drop", "last"] = "error",
    floors: Any = None,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """The k best documents of each query, exactly: score descending, then row ascending.

    Scores are the exact ones rounded to float64: the same bytes for any number of threads, any
    cut into blocks, and both engines. Under "l2" a score is minus the squared distance.

    `docs` is an array, a memory map, the path of a .npy file, or an iterator of blocks of rows.
    `exclude` is "self" (the document with the query's id; without ids, of its row) or pairs of
    (query, document), by id where there are ids. With `keep_ties`, documents that tie with the
    k-th are kept too. `zero` says what to do with all-zero rows under cosine: refuse them, drop
    them, or rank them last. `floors` are scores, one for each query, that k documents elsewhere
    reach: what scores less is not looked for. `progress(done, total)` is called meanwhile.

    >>> rank([[1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]], 2).row(0)
    [(1, 1.0), (2, 0.7071067811865476)]
    """
    k = min(checks.check_cutoff(k), _MOST_DOCS)
    queries, docs = open_rows(queries), open_rows(docs)
    with steady_files(queries, docs) as watch:
        ready = plan(
            queries,
            map(watch.block, map(open_rows, docs)) if isinstance(docs, Iterator) else docs,
            k=k,
            metric=metric,
            zero=zero,
            exclude=exclude,
            query_ids=query_ids,
            doc_ids=doc_ids,
            threads=threads,
            engine=engine,
            lists=True,
        )
        depth = k if keep_ties else k + 1  # one more tells whether the cut divides a tie
        certain = _as_floors(floors, ready.n_queries)
        tops, n_docs, n_zero = _find(ready, depth, bool(keep_ties), certain, progress)
        lists = _join_lists(tops, n_docs if keep_ties else k)
        if ready.metric.name == "cosine" and zero == "last" and ready.n_zero:
            lists = _with_zero_queries_last(ready, lists, n_docs if keep_ties else k, n_docs)
        if certain is None and len(lists.docs) < ready.n_queries * min(k, n_docs):
            _refuse_short_lists(ready, lists, k, n_docs, n_zero)
    settings = search_settings(
        metric=metric,
        zero=zero,
        exclude=exclude,
        k=min(k, n_docs),
        keep_ties=keep_ties,
        n_docs=n_docs,
        floors=None if floors is None else "given",
    )
    return _as_ranking(ready, lists, n_docs, settings=settings, zero_rows=(ready.n_zero, n_zero))


def _find(
    ready: SearchPlan,
    k: int,
    keep_ties: bool,
    floors: Floats | None,
    progress: Progress | None,
) -> tuple[list[list[BestK]], int, int]:
    """What each block of queries finds; the number of documents, and of zero rows among them."""

    def nothing() -> list[list[BestK]]:
        return [
            [_new_top(ready, tile, k, keep_ties, floors) for _ in range(ready.parts)]
            for tile in ready.tiles()
        ]

    progress = only_forward(progress)  # what is begun again does not go back
    if ready.raw is not None and ready.n_docs is not None:
        tops = nothing()
        if _search_raw(ready, ready.raw, tops[0], progress):
            return tops, ready.n_docs, 0
    elif ready.stored_axis is not None and ready.n_docs is not None:
        tops = nothing()
        if _search_stored(ready, ready.stored_axis, tops, progress):
            return tops, ready.n_docs, 0
    tops = nothing()
    return tops, *_search(ready, k, tops, progress)


def _search_raw(
    ready: SearchPlan, queries: QueryHandle, tops: list[BestK], progress: Progress | None
) -> bool:
    """Search documents as they are stored; False where they must be measured before."""
    ready.check_docs(ready.n_docs or 0)
    control = Control.new()
    for n_docs, block in ready.raw_docs():
        tasks = [
            partial(_scan, ready, top, queries, ready.excluded, block, part)
            for top, part in zip(tops, ready.ranges(n_docs), strict=True)
        ]
        run_on(ready, tasks, control, progress)
        if block.is_odd():
            return False
    return True


def _search_stored(
    ready: SearchPlan, axis: Floats32, tops: list[list[BestK]], progress: Progress | None
) -> bool:
    """Search documents that are quantised as they are stored; False as above."""
    ready.check_docs(ready.n_docs or 0)
    control = Control.new()
    for n_docs, block, coarse in ready.stored_docs(axis):
        if block.is_odd():
            return False
        tasks = [
            partial(_scan_coarse, ready, top, tile, coarse, part)
            for tile, parts in zip(ready.tiles(), tops, strict=True)
            for top, part in zip(parts, ready.ranges(n_docs), strict=True)
        ]
        run_on(ready, tasks, control, progress)
    return True


def _as_floors(values: Any, n_queries: int) -> Floats | None:
    """One number for each query, not finite where there is no floor."""
    if values is None:
        return None
    floors = np.ascontiguousarray(values, np.float64)
    checks.check_lengths(floors=floors.size, queries=n_queries)
    return floors


def _new_top(
    ready: SearchPlan, tile: tuple[int, int], k: int, keep_ties: bool, floors: Floats | None
) -> BestK:
    top = ready.kernels.TopK(tile[1] - tile[0], k, keep_ties)
    if floors is not None:
        top.seed(floors[slice(*tile)])
    return top


def _search(
    ready: SearchPlan, k: int, tops: list[list[BestK]], progress: Progress | None
) -> tuple[int, int]:
    """Let every block of queries meet every block of documents; their number, and of zero rows."""
    control, n_docs, n_zero = Control.new(), 0, 0
    for block in ready.blocks():
        docs = ready.prepared_docs(block)
        ranges = ready.ranges(len(docs))
        tasks = [
            partial(_meet, ready, k, top, tile, docs, part)
            for tile, parts in zip(ready.tiles(), tops, strict=True)
            for top, part in zip(parts, ranges, strict=True)
        ]
        run_on(ready, tasks, control, progress)
        n_docs += len(docs)
        n_zero += int(block.zero.sum())
    ready.check_docs(n_docs)
    return n_docs, n_zero


def run_on(
    ready: SearchPlan,
    tasks: Sequence[Task],
    control: Control,
    progress: Progress | None,
) -> None:
    """Run tasks; numpy's BLAS is held at one thread where it does the products.

    What one thread does in a moment, it does here: to start another would take longer.
    """
    if ready.threads == 1 and progress is None and ready.is_short and ready.fused:
        for task in tasks:
            task(control)
        return
    call = partial(
        run,
        tasks,
        threads=ready.threads,
        progress=progress,
        total=ready.total,
        control=control,
    )
    if ready.fused:
        call()
    else:
        with one_blas_thread():
            call()


def _scan(
    ready: SearchPlan,
    top: BestK,
    queries: QueryHandle,
    excluded: Excluded,
    docs: DocHandle,
    part: tuple[int, int],
    control: Control,
) -> None:
    top.scan(ready.metric.code, queries, docs, *excluded, *part, *control)


def _scan_coarse(
    ready: SearchPlan,
    top: BestK,
    tile: tuple[int, int],
    docs: CoarseHandle,
    part: tuple[int, int],
    control: Control,
) -> None:
    queries, excluded = ready.prepared(*tile).block, ready.excluded.part(*tile)
    top.scan_coarse(ready.metric.code, queries, docs, *excluded, *part, *control)


def _meet(
    ready: SearchPlan,
    k: int,
    top: BestK,
    tile: tuple[int, int],
    docs: Docs,
    part: tuple[int, int],
    control: Control,
) -> None:
    """Search one range of documents for one block of queries."""
    if docs.coarse is not None:
        _scan_coarse(ready, top, tile, docs.coarse, part, control)
        return
    queries = ready.prepared(*tile)
    excluded = ready.excluded.part(*tile)
    if ready.fused:
        _scan(ready, top, queries.block, excluded, docs.block, part, control)
        return
    scan_top(
        top,
        k,
        metric=ready.metric,
        queries=queries,
        docs=docs,
        excluded=excluded,
        start=part[0],
        stop=part[1],
        control=control,
    )


def _join_lists(tops: list[list[BestK]], most: int) -> _Lists:
    """What each block of queries found, one after the other; blocks are given up as they go."""
    pieces = []
    while tops:
        top, *rest = tops.pop(0)
        for other in rest:
            top.absorb(other)
        pieces.append(top.result(most))
    if len(pieces) == 1:
        return _Lists(*pieces[0])
    lengths = np.concatenate([np.diff(offsets) for offsets, *_ in pieces])
    tie_split = np.concatenate([piece[-1] for piece in pieces])
    docs, scores = np.empty(lengths.sum(), np.int32), np.empty(lengths.sum())
    start = 0
    while pieces:
        _, some_docs, some_scores, _ = pieces.pop(0)
        inside = slice(start, start + len(some_docs))
        docs[inside], scores[inside] = some_docs, some_scores
        start = inside.stop
    return _Lists(offsets_of(lengths), docs, scores, tie_split)


def _with_zero_queries_last(ready: SearchPlan, lists: _Lists, most: int, n_docs: int) -> _Lists:
    """Queries without direction: all documents tie, in the order of their rows."""
    docs, scores, tie_split = [], [], lists.tie_split.copy()
    for query, (start, end) in enumerate(pairwise(lists.offsets)):
        if not ready.measures.zero[query]:
            docs.append(lists.docs[start:end])
            scores.append(lists.scores[start:end])
            continue
        barred = ready.excluded.part(query, query + 1).docs
        first = np.setdiff1d(np.arange(min(n_docs, most + len(barred))), barred)[:most]
        docs.append(first.astype(np.int32))
        scores.append(np.full(len(first), ZERO_SCORE))
        tie_split[query] = n_docs - len(barred) > most
    offsets = offsets_of([len(row) for row in docs])
    return _Lists(offsets, np.concatenate(docs), np.concatenate(scores), tie_split)


def _refuse_short_lists(ready: SearchPlan, lists: _Lists, k: int, n_docs: int, n_zero: int) -> None:
    """Refuse an exact search that contradicts itself: fewer documents than there are to find."""
    dropped = ready.metric.name == "cosine" and ready.metric.zero == "drop"
    barred = np.diff(ready.excluded.offsets) if len(ready.excluded.docs) else 0
    least = np.minimum(k, n_docs - (n_zero if dropped else 0) - barred)
    if dropped and ready.n_zero:
        least = np.where(ready.measures.zero, 0, least)
    refuse_short(np.diff(lists.offsets), least)


def _refuse_infinite(scores: Floats) -> None:
    if 0 in np.isfinite(scores).tobytes():  # sooner than `all` where there are few
        raise ValueRangeError(
            "Some scores are beyond the range of float64 (1.8e308). Scale the vectors down."
        )


def _as_ranking(ready: SearchPlan, lists: _Lists, n_docs: int, **more: Any) -> Ranking:
    _refuse_infinite(lists.scores)
    named = ready.query_ids is not None and ready.doc_ids is not None
    return Ranking(
        ready.query_ids or Ids.count(ready.n_queries),
        ready.doc_ids or Ids.count(n_docs),
        lists.offsets,
        lists.docs,
        lists.scores,
        n_docs=n_docs,
        has_ids=named,
        tie_split=lists.tie_split.astype(bool) if 1 in lists.tie_split.tobytes() else None,
        search=f"{ready.engine}-certified",
        **more,
    )


def rerank(
    ranking: Ranking,
    queries: Any,
    *,
    docs: Any,
    metric: Literal["cosine", "dot", "l2"] = "cosine",
    zero: Literal["error", "drop", "last"] = "error",
    threads: int | None = None,
    engine: Engine | None = None,
) -> Ranking:
    """The documents of each row, ordered again by the scores that `rank` gives them.

    `queries` and `docs` are the vectors of the ranking's queries and documents, in its order.

    >>> found = Ranking.from_arrays([[2, 0]], n_docs=3)
    >>> rerank(found, [[1.0, 0.0]], docs=[[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).row(0)
    [(0, 1.0), (2, 0.0)]
    """
    checks.require(ranking, Ranking, "ranking", "a Ranking")
    queries, docs = open_rows(queries), open_rows(docs)
    with steady_files(queries, docs):
        ready = plan(
            queries,
            docs,
            k=1,
            metric=metric,
            zero=zero,
            exclude=None,
            query_ids=None,
            doc_ids=None,
            threads=threads,
            engine=engine,
        )
        checks.check_lengths(queries=ready.n_queries, **{"rows of the ranking": len(ranking)})
        checks.check_lengths(docs=ready.n_docs or 0, **{"documents of the ranking": ranking.n_docs})
        scores, empty = _score_ranking(ready, ranking)
    _refuse_infinite(scores)
    ranked = ~empty if zero == "drop" else np.ones(len(scores), bool)
    return replace(
        ranking,
        offsets=offsets_of(ranked)[ranking.offsets],
        given_docs=ranking.docs[ranked],
        given_scores=scores[ranked],
        in_order=False,
        tie_split=None,
        search=f"{ready.engine}-certified",
        settings={
            **ranking.settings,
            **search_settings(metric=metric, zero=zero, exclude=ranking.settings.get("exclude")),
        },
    )


def _score_ranking(ready: SearchPlan, ranking: Ranking) -> tuple[Floats, NDArray[np.bool_]]:
    """The score of every result, and which have none because a vector is all zero."""
    scores = np.zeros(len(ranking.docs))
    cosine = ready.metric.name == "cosine"
    empty = ready.measures.zero[rows_of(ranking.offsets)] & cosine
    for block in ready.blocks():
        docs = prepare_docs(ready.kernels, block, ready.metric, sizes=ready.sizes)
        for start, stop in ready.tiles():
            inside = slice(int(ranking.offsets[start]), int(ranking.offsets[stop]))
            local = ranking.docs[inside].astype(np.int64) - block.first
            here = np.flatnonzero((local >= 0) & (local < len(docs)))
            offsets = np.searchsorted(here, ranking.offsets[start : stop + 1] - inside.start)
            scores[inside][here] = _pair_scores(ready, (start, stop), docs, offsets, local[here])
            empty[inside][here] |= _is_zero(block, local[here]) & cosine
    scores[empty] = ZERO_SCORE
    return scores, empty


@np.errstate(all="ignore")
def _pair_scores(
    ready: SearchPlan, tile: tuple[int, int], docs: Docs, offsets: Ints, local: Ints
) -> Floats:
    queries = ready.prepared(*tile).block
    return ready.kernels.pair_scores(
        ready.metric.code, queries, docs.block, offsets.astype(np.int64), local.astype(np.uint32)
    )


def _is_zero(block: MeasuredRows, local: Ints) -> NDArray[np.bool_]:
    return block.zero[local]
