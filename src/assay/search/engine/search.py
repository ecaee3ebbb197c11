"""rank and rerank: the exact best k documents of each query, by canonical scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import (
    Bytes,
    Floats,
    Floats32,
    IdsLike,
    Ints,
    Ints32,
    VectorsLike,
    offsets_of,
    rows_of,
)
from assay.core import checks
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import UsageError, ValueRangeError
from assay.io.arrays import open_rows
from assay.io.mapped import steady_files
from assay.native import Engine
from assay.search.engine.blocks import ZERO_SCORE, Docs, Queries, prepare_docs
from assay.search.engine.inputs import Excluded, refuse_short
from assay.search.engine.plan import SearchPlan, plan, search_settings
from assay.search.engine.prepared import Prepared
from assay.search.engine.sparse import rank_sparse
from assay.search.engine.sparse_vectors import SparseVectors, is_sparse
from assay.search.engine.token_vectors import TokenVectors, is_tokens
from assay.search.engine.tokens import TokenSearch, rank_tokens, score_ragged
from assay.search.engine.workers import Control, Progress, Task, one_blas_thread, only_forward, run

if TYPE_CHECKING:
    from assay.native.signatures import BestK, CoarseHandle, DocHandle, QueryHandle

_MOST_DOCS: Final = 2**31 - 1  # documents are numbered in int32
_TILE: Final = 1 << 21  # scores at a time
_DECIDED: Final = 1 << 23  # elements of candidates between two looks at the wish to stop


class RankedLists(NamedTuple):
    """Hold ragged rows of documents and scores in rank order.

    `tie_split` says where the cut divides a tie.
    """

    offsets: Ints
    docs: Ints32
    scores: Floats
    tie_split: Bytes


def rank(
    queries: VectorsLike | SparseVectors | TokenVectors,
    docs: VectorsLike | Prepared | SparseVectors | TokenVectors,
    k: int,
    *,
    metric: Literal["cosine", "dot", "l2", "maxsim"] = "cosine",
    exclude: Any = None,
    query_ids: IdsLike | None = None,
    doc_ids: IdsLike | None = None,
    keep_ties: bool = False,
    zero: Literal["error", "drop", "last"] = "error",
    floors: Any = None,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """Rank the k best documents of each query exactly: by score, then by row.

    Scores are the exact ones rounded to float64: the same bytes for any number of threads, any
    cut into blocks, and both engines. Under "l2" a score is minus the squared distance.

    Args:
        queries: Vectors of the queries: an array, a memory map or the path of a .npy file; or
            sparse ones, in whatever `read_sparse` takes; for "maxsim" token vectors, in whatever
            `read_tokens` takes.
        docs: Vectors of the documents, likewise, or an iterator of blocks of rows.
        k: Number of documents for each query.
        metric: How vectors are compared; sparse ones by "cosine" or "dot", token vectors by
            "maxsim", the sum over query tokens of the largest product with a document token.
        exclude: "self" (the document with the query's id; without ids, of its row) or pairs of
            (query, document), by id where there are ids.
        query_ids: Ids of the queries, or a text file with one a line; by default row numbers.
        doc_ids: Ids of the documents, likewise.
        keep_ties: Keep all documents that tie with the k-th.
        zero: Refuse all-zero rows under cosine, drop them, or rank them last; under "maxsim"
            refuse queries without tokens, or let them find nothing ("drop").
        floors: A score for each query that k documents elsewhere reach; documents that score
            less are not looked for.
        threads: Number of threads, by default one for each core.
        engine: Compiled kernels or their numpy twins; by default the compiled ones, if installed.
        progress: Function that is called with (done, total) meanwhile.

    Returns:
        The ranking, with its scores and the settings of the search.

    Raises:
        AssayError: Vectors, ids or options do not fit, or a file changed during the search.

    Example:
        >>> rank([[1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]], 2).row(0)
        [(1, 1.0), (2, 0.7071067811865476)]
    """
    k = min(checks.check_cutoff(k), _MOST_DOCS)
    keep_ties = checks.check_flag(keep_ties, "keep_ties")
    certain = None
    if floors is not None:
        certain = checks.exact_scores(checks.real_matrix([floors], "floors"), "floors").ravel()
    if isinstance(metric, str) and metric == "maxsim":
        return rank_tokens(
            queries,
            docs,
            k,
            exclude=exclude,
            query_ids=query_ids,
            doc_ids=doc_ids,
            keep_ties=keep_ties,
            zero=zero,
            floors=certain,
            threads=threads,
            engine=engine,
            progress=progress,
        )
    if is_tokens(queries) or is_tokens(docs):
        raise UsageError("Token vectors are compared by metric='maxsim'.")
    if is_sparse(queries) or is_sparse(docs):
        if zero != "error":
            raise UsageError("Sparse vectors are searched with zero='error'.")
        return rank_sparse(
            queries,
            docs,
            k,
            metric=metric,
            exclude=exclude,
            query_ids=query_ids,
            doc_ids=doc_ids,
            keep_ties=keep_ties,
            floors=certain,
            threads=threads,
            engine=engine,
            progress=progress,
        )
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
        if certain is not None:
            checks.check_lengths(floors=certain.size, queries=ready.n_queries)
        tops, n_docs, n_zero = _find(ready, depth, keep_ties, certain, progress)
        lists = join_lists(tops, n_docs if keep_ties else k)
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
    ready: SearchPlan, k: int, keep_ties: bool, floors: Floats | None, progress: Progress | None
) -> tuple[list[list[BestK]], int, int]:
    """Search for each block of queries; count the documents, and the zero rows among them."""

    def start_lists() -> list[list[BestK]]:
        tops = []
        for start, stop in ready.tiles():
            parts = [ready.kernels.TopK(stop - start, k, keep_ties) for _ in range(ready.parts)]
            if floors is not None:
                for top in parts:
                    top.seed(floors[start:stop])
            tops.append(parts)
        return tops

    progress = only_forward(progress)  # what is begun again does not go back
    tops = start_lists()
    complete = None  # False where rows turn out to need measuring before
    if ready.raw is not None:
        complete = search_raw(ready, ready.raw, tops[0], progress)
    elif ready.stored_axis is not None:
        complete = _search_stored(ready, ready.stored_axis, tops, progress)
    if complete:
        return tops, ready.n_docs or 0, 0
    if complete is False:
        tops = start_lists()
    return tops, *search_measured(ready, k, tops, progress)


def search_raw(
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
        if block.needs_rescaling():
            return False
    return True


def _search_stored(
    ready: SearchPlan, axis: Floats32, tops: list[list[BestK]], progress: Progress | None
) -> bool:
    """Search documents that are quantised as stored; False where they must be measured before."""
    ready.check_docs(ready.n_docs or 0)
    control = Control.new()
    for n_docs, block, coarse in ready.stored_docs(axis):
        if block.needs_rescaling():
            return False
        tasks = [
            partial(_scan_coarse, ready, top, tile, coarse, part)
            for tile, parts in zip(ready.tiles(), tops, strict=True)
            for top, part in zip(parts, ready.ranges(n_docs), strict=True)
        ]
        run_on(ready, tasks, control, progress)
        del block, coarse, tasks  # before the next block is quantised
    return True


def search_measured(
    ready: SearchPlan, k: int, tops: list[list[BestK]], progress: Progress | None
) -> tuple[int, int]:
    """Search every block of documents for every block of queries; count documents and zero rows."""
    control, n_docs, n_zero = Control.new(), 0, 0
    for block in ready.measured_blocks():
        docs = ready.prepared_docs(block)
        ranges = ready.ranges(len(docs))
        tasks = [
            partial(_search_part, ready, k, top, tile, docs, part)
            for tile, parts in zip(ready.tiles(), tops, strict=True)
            for top, part in zip(parts, ranges, strict=True)
        ]
        run_on(ready, tasks, control, progress)
        n_docs += len(docs)
        n_zero += int(block.zero.sum())
        del docs, tasks
    ready.check_docs(n_docs)
    return n_docs, n_zero


def run_on(
    ready: SearchPlan, tasks: Sequence[Task], control: Control, progress: Progress | None
) -> None:
    """Run tasks; numpy's BLAS is held at one thread where it does the products."""
    if ready.threads == 1 and progress is None and ready.is_short and ready.fused:
        for task in tasks:  # to start another thread would take longer than to search
            task(control)
        return
    with nullcontext() if ready.fused else one_blas_thread():
        run(tasks, threads=ready.threads, progress=progress, total=ready.total, control=control)


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


def _search_part(
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
    queries, excluded = ready.prepared(*tile), ready.excluded.part(*tile)
    if ready.fused:
        _scan(ready, top, queries.block, excluded, docs.block, part, control)
    else:
        _scan_tiles(top, k, ready.metric.code, queries, docs, excluded, part, control)


def join_lists(tops: list[list[BestK]], most: int) -> RankedLists:
    """Join the lists of all blocks of queries; each block is released as it is joined."""
    pieces = []
    while tops:
        top, *rest = tops.pop(0)
        for other in rest:
            top.absorb(other)
        pieces.append(top.result(most))
    if len(pieces) == 1:
        return RankedLists(*pieces[0])
    lengths = np.concatenate([np.diff(offsets) for offsets, *_ in pieces])
    tie_split = np.concatenate([piece[-1] for piece in pieces])
    docs, scores = np.empty(lengths.sum(), np.int32), np.empty(lengths.sum())
    start = 0
    while pieces:
        _, some_docs, some_scores, _ = pieces.pop(0)
        inside = slice(start, start + len(some_docs))
        docs[inside], scores[inside] = some_docs, some_scores
        start = inside.stop
    return RankedLists(offsets_of(lengths), docs, scores, tie_split)


def _with_zero_queries_last(
    ready: SearchPlan, lists: RankedLists, most: int, n_docs: int
) -> RankedLists:
    """Give queries without direction all documents as ties, in the order of their rows."""
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
    return RankedLists(offsets, np.concatenate(docs), np.concatenate(scores), tie_split)


def _refuse_short_lists(
    ready: SearchPlan, lists: RankedLists, k: int, n_docs: int, n_zero: int
) -> None:
    """Refuse an exact search that contradicts itself: fewer documents than there are to find."""
    dropped = ready.metric.name == "cosine" and ready.metric.zero == "drop"
    barred = np.diff(ready.excluded.offsets) if len(ready.excluded.docs) else 0
    least = np.minimum(k, n_docs - (n_zero if dropped else 0) - barred)
    if dropped and ready.n_zero:
        least = np.where(ready.measures.zero, 0, least)
    refuse_short(np.diff(lists.offsets), least)


def _refuse_infinite(scores: Floats) -> None:
    if 0 in np.isfinite(scores).tobytes():  # sooner than `all` where there are few
        raise ValueRangeError("Some scores exceed float64 (1.8e308). Scale the vectors down.")


def _as_ranking(ready: SearchPlan, lists: RankedLists, n_docs: int, **more: Any) -> Ranking:
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
    metric: Literal["cosine", "dot", "l2", "maxsim"] = "cosine",
    zero: Literal["error", "drop", "last"] = "error",
    threads: int | None = None,
    engine: Engine | None = None,
) -> Ranking:
    """Order the documents of each row again by the scores that `rank` gives them.

    Args:
        ranking: The ranking to order again.
        queries: Vectors of the ranking's queries, in its order; token vectors for "maxsim".
        docs: Vectors of the ranking's documents, likewise; those without tokens are dropped.
        metric: How vectors are compared.
        zero: Refuse all-zero rows under cosine, drop them, or rank them last.
        threads: Number of threads, by default one for each core.
        engine: Compiled kernels or their numpy twins.

    Returns:
        The same documents with exact scores, in their order.

    Raises:
        AssayError: Vectors and ranking do not fit.

    Example:
        >>> ranking = Ranking.from_arrays([[2, 0]], n_docs=3)
        >>> rerank(ranking, [[1.0, 0.0]], docs=[[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).row(0)
        [(0, 1.0), (2, 0.0)]
    """
    checks.require(ranking, Ranking, "ranking", "a Ranking")
    options: dict[str, Any] = {"zero": zero, "threads": threads, "engine": engine}
    ready: SearchPlan | TokenSearch
    if isinstance(metric, str) and metric == "maxsim":
        ready = TokenSearch.new(queries, docs, **options)
        _check_fit(ranking, len(ready.queries), len(ready.docs))
        with steady_files(ready.queries, ready.docs):
            scores = score_ragged(ready, ranking.offsets, ranking.docs.astype(np.int64))
        ranked = np.isfinite(scores)
    else:
        queries, docs = open_rows(queries), open_rows(docs)
        with steady_files(queries, docs):
            ready = plan(queries, docs, k=1, metric=metric, **options)
            _check_fit(ranking, ready.n_queries, ready.n_docs or 0)
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


def _check_fit(ranking: Ranking, n_queries: int, n_docs: int) -> None:
    checks.check_lengths(queries=n_queries, **{"rows of the ranking": len(ranking)})
    checks.check_lengths(docs=n_docs, **{"documents of the ranking": ranking.n_docs})


@np.errstate(all="ignore")
def _score_ranking(ready: SearchPlan, ranking: Ranking) -> tuple[Floats, NDArray[np.bool_]]:
    """Score every result; say which have no score because a vector is all zero."""
    scores = np.zeros(len(ranking.docs))
    cosine = ready.metric.name == "cosine"
    empty = ready.measures.zero[rows_of(ranking.offsets)] & cosine
    for block in ready.measured_blocks():
        docs = prepare_docs(ready.kernels, block, ready.metric, sizes=ready.sizes)
        for start, stop in ready.tiles():
            inside = slice(int(ranking.offsets[start]), int(ranking.offsets[stop]))
            local = ranking.docs[inside].astype(np.int64) - block.first
            here = np.flatnonzero((local >= 0) & (local < len(docs)))
            offsets = np.searchsorted(here, ranking.offsets[start : stop + 1] - inside.start)
            scores[inside][here] = ready.kernels.pair_scores(
                ready.metric.code,
                ready.prepared(start, stop).block,
                docs.block,
                offsets.astype(np.int64),
                local[here].astype(np.uint32),
            )
            empty[inside][here] |= block.zero[local[here]] & cosine
    scores[empty] = ZERO_SCORE
    return scores, empty


# Without a fused kernel numpy's BLAS computes tiles of scores, of which candidates are selected.
# The certified margin is the same, and the same canonical scores decide.


class _Tile(NamedTuple):
    """Hold scores of all queries with the documents from `start` on, and their bounds."""

    start: int
    scores: Floats32
    bound: Floats32


def _score_tiles(
    queries: Queries, docs: Docs, part: tuple[int, int], control: Control
) -> Iterator[_Tile]:
    step = max(64, _TILE // max(len(queries.rows), docs.rows.shape[1] // 2))
    for first in range(*part, step):
        if control.stop[0]:
            return
        rows = slice(first, min(first + step, part[1]))
        scaled = docs.rows[rows] * docs.scale[rows, None]
        with np.errstate(all="ignore"):  # NaN stands for queries without direction
            scores = queries.rows @ scaled.T
            scores += docs.bias[rows]
        yield _Tile(first, scores, docs.bound[rows])
        control.add(scores.size)


def _scan_tiles(
    top: BestK,
    k: int,
    metric_code: int,
    queries: Queries,
    docs: Docs,
    excluded: Excluded,
    part: tuple[int, int],
    control: Control,
) -> None:
    """Search a part of a block of documents by numpy's products."""
    barred_offsets, barred = excluded.within(docs.first, len(docs))
    barred_rows = np.repeat(np.arange(len(queries.rows)), np.diff(barred_offsets))
    for tile in _score_tiles(queries, docs, part, control):
        place = barred.astype(np.int64) - tile.start
        inside = (place >= 0) & (place < tile.scores.shape[1])
        tile.scores[barred_rows[inside], place[inside]] = -np.inf
        floors = top.floors(queries.block, docs.block)
        if tile.scores.shape[1] > k:  # the k-th best of what the documents score at least
            lows = np.partition(tile.scores - tile.bound, -k, axis=1)[:, -k]
            floors = np.fmax(floors, lows)
        possible = tile.scores + tile.bound >= floors[:, None]
        possible &= tile.scores > -np.inf
        for candidates in _list_candidates(possible, tile.start, docs, control):
            top.decide(metric_code, queries.block, docs.block, *candidates)


def _list_candidates(
    selected: NDArray[np.bool_], start: int, docs: Docs, control: Control
) -> Iterator[tuple[Ints, NDArray[np.uint32]]]:
    """Yield selected cells as ragged rows of document numbers, some of them at a time."""
    offsets = offsets_of(selected.sum(axis=1))
    numbers = (np.nonzero(selected)[1] + start).astype(np.uint32)
    step = max(1, _DECIDED // docs.rows.shape[1])
    for first in range(0, len(numbers), step):
        if control.stop[0]:
            return
        yield offsets.clip(first, first + step) - first, numbers[first : first + step]


def candidates_near(
    low: Floats32,
    high: Floats32,
    above: Ints,
    *,
    queries: Queries,
    docs: Docs,
    part: tuple[int, int],
    control: Control,
) -> Iterator[tuple[Ints, NDArray[np.uint32]]]:
    """Count documents that are certainly above; yield those too close to tell."""
    for tile in _score_tiles(queries, docs, part, control):
        certain = tile.scores > high[:, None] + tile.bound
        above += certain.sum(axis=1)
        near = (tile.scores >= low[:, None] - tile.bound) & ~certain
        yield from _list_candidates(near, tile.start, docs, control)
