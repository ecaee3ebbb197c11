"""Search among binary codes: the nearest by Hamming distance, and how many at each distance.

Distances are counted, never sorted, so ties are known exactly: equal distances are in the order
of document numbers, and a ranking says where its cut divides them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints, VectorsLike
from assay.core import checks
from assay.core.checks import thread_count
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import MismatchError, ShapeError
from assay.io.mapped import steady_files
from assay.native import Engine
from assay.native.signatures import Kernels
from assay.native.tie_order import nearest_order
from assay.search.engine.codes import Codes, as_codes
from assay.search.engine.exclusion import Excluded, exclusions_of, refuse_short
from assay.search.engine.plan import check_ids, choose_kernels, search_settings
from assay.search.engine.workers import Control, Progress, run

_MOST_QUERIES = 1024  # in one call of a kernel
_FEWEST_QUERIES = 64  # for each thread; with fewer, the threads share out the documents
_FEWEST_DOCS = 4096  # in one share of the documents
_WORK_BYTES = 128 << 20  # for all threads together
_LARGEST_DOC = 2**31 - 2


class _Nearest(NamedTuple):
    """What a kernel found for a block of queries."""

    counts: Ints
    docs: NDArray[np.int32]
    distances: NDArray[np.int32]
    tie_split: NDArray[np.uint8]


class _CodeSearch(NamedTuple):
    queries: Codes
    docs: Codes
    k: int
    keep_ties: bool
    excluded: Excluded
    kernels: Kernels


def rank_codes(
    queries: Codes | VectorsLike,
    docs: Codes | VectorsLike,
    k: int,
    *,
    exclude: Any = None,
    query_ids: Iterable[object] | None = None,
    doc_ids: Iterable[object] | None = None,
    keep_ties: bool = False,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """Rank for each query the `k` documents at the smallest Hamming distance.

    Codes are `Codes`, or arrays that `pack_codes` takes. The score is minus the distance; equal
    ones are in the order of document numbers. `keep_ties` keeps all documents at the k-th
    distance. `exclude` is "self" (by id, or by row number where there are no ids) or a list of
    (query, document) pairs. `engine` is "native" or "numpy", with the same bytes from both.

    >>> rank_codes([[1, 1, 0]], [[0, 0, 1], [1, 1, 1], [1, 1, 0]], 2).row(0)
    [(2, 0.0), (1, -1.0)]
    """
    k = checks.check_cutoff(k)
    packed = _comparable(queries, docs)
    n_queries, n_docs = len(packed[0]), len(packed[1])
    named_queries = check_ids(query_ids, n_queries, "query")
    named_docs = check_ids(doc_ids, n_docs, "doc")
    unwanted = exclusions_of(
        exclude,
        n_queries=n_queries,
        n_docs=n_docs,
        query_ids=named_queries,
        doc_ids=named_docs,
    )
    name, kernels = choose_kernels(engine)
    request = _CodeSearch(*packed, min(k, n_docs), bool(keep_ties), unwanted, kernels)
    with steady_files(*packed):
        nearest = _search(request, thread_count(threads), progress)
        barred = np.diff(unwanted.offsets)
        lengths = np.concatenate([part.counts for part in nearest])
        refuse_short(lengths, np.minimum(request.k, n_docs - barred))
    offsets, numbers, scores = _join_blocks(nearest)
    tie_split = (
        None if keep_ties else np.concatenate([part.tie_split for part in nearest]).astype(bool)
    )
    return Ranking(
        Ids.count(n_queries) if named_queries is None else named_queries,
        Ids.count(n_docs) if named_docs is None else named_docs,
        offsets,
        numbers,
        scores,
        n_docs=n_docs,
        has_ids=named_queries is not None and named_docs is not None,
        tie_split=tie_split,
        search=f"{name}-certified",
        settings=search_settings(
            metric="hamming",
            zero="error",
            exclude=exclude,
            k=min(k, n_docs),
            keep_ties=keep_ties,
            n_docs=n_docs,
        ),
    )


def distance_histogram(
    queries: Any,
    docs: Any,
    *,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Ints:
    """Count for each query the documents at each distance: queries × (bits + 1).

    >>> distance_histogram([[1, 1, 0]], [[0, 0, 1], [1, 1, 1], [1, 1, 0]]).tolist()
    [[1, 1, 0, 1]]
    """
    left, right = _comparable(queries, docs)
    _, kernels = choose_kernels(engine)
    workers = thread_count(threads)
    counts = np.zeros((len(left), left.bits + 1), np.int64)
    block = _block_size(len(left), workers, _table_bytes(left.bits))

    def count(rows: slice, control: Control) -> None:
        kernels.count_code_distances(
            left.packed[rows], right.packed, left.bits, counts[rows], *control
        )

    tasks = [partial(count, rows) for rows in _cut(len(left), block)]
    with steady_files(left, right):
        run(tasks, threads=workers, progress=progress, total=len(left) * len(right))
    return counts


def _comparable(queries: Any, docs: Any) -> tuple[Codes, Codes]:
    left = as_codes(queries, "queries")
    right = left if docs is queries else as_codes(docs, "docs")
    if left.bits != right.bits:
        raise MismatchError(
            f"Queries have {left.bits} bits and docs have {right.bits}; only codes of one length "
            "can be compared."
        )
    if len(right) > _LARGEST_DOC:
        raise ShapeError(f"docs has {len(right)} rows; up to {_LARGEST_DOC} can be numbered.")
    return left, right


def _search(request: _CodeSearch, threads: int, progress: Progress | None) -> list[_Nearest]:
    """Search by blocks of queries and, where queries are few, by shares of the documents."""
    n_queries, n_docs = len(request.queries), len(request.docs)
    few = n_queries < _FEWEST_QUERIES * threads
    shares = min(threads, -(-n_docs // _FEWEST_DOCS)) if few else 1
    state = _table_bytes(request.queries.bits) + 8 * (request.k + min(request.k, 1 << 16))
    blocks = _cut(n_queries, _block_size(n_queries, 1 if few else threads, state * shares))
    ranges = _cut(n_docs, -(-n_docs // shares))
    lists: list[list[_Nearest | None]] = [[None] * len(ranges) for _ in blocks]

    def search(block: int, share: int, control: Control) -> None:
        lists[block][share] = _find(request, blocks[block], ranges[share], control)

    tasks = [partial(search, b, s) for b in range(len(blocks)) for s in range(len(ranges))]
    run(tasks, threads=threads, progress=progress, total=n_queries * n_docs)
    return [
        merge_shares([part for part in parts if part is not None], request.k, request.keep_ties)
        for parts in lists
    ]


def _find(request: _CodeSearch, rows: slice, share: slice, control: Control) -> _Nearest:
    nearest = request.kernels.find_nearest_codes(
        request.queries.packed[rows],
        request.docs.packed[share],
        request.queries.bits,
        request.k,
        request.keep_ties,
        share.start,
        *request.excluded.part(rows.start, rows.stop),
        *control,
    )
    return _Nearest(*nearest)


def _table_bytes(bits: int) -> int:
    """Memory of a kernel for each query: counts by distance, and tables to look up."""
    return 4 * (bits + 1) + 2 * bits


def _block_size(n_queries: int, threads: int, state: int) -> int:
    """Queries of one task: few enough for the memory, and shared out evenly."""
    most = max(8, min(_MOST_QUERIES, _WORK_BYTES // (threads * state)))
    rounds = -(-n_queries // (most * threads))
    return -(-n_queries // (rounds * threads * 8)) * 8


def _cut(count: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def merge_shares(parts: Sequence[_Nearest], k: int, keep_ties: bool) -> _Nearest:
    """Join what was found in consecutive shares of the documents: the same as in one search."""
    if len(parts) == 1:
        return parts[0]
    rows = [_merge_row(row, k, keep_ties) for row in zip(*map(_rows_of, parts), strict=True)]
    return _Nearest(
        np.array([len(docs) for docs, _, _ in rows], np.int64),
        np.concatenate([docs for docs, _, _ in rows]),
        np.concatenate([distances for _, distances, _ in rows]),
        np.array([tie_split for _, _, tie_split in rows], np.uint8),
    )


_Row = tuple[NDArray[np.int32], NDArray[np.int32], bool]


def _rows_of(part: _Nearest) -> list[_Row]:
    ends = np.cumsum(part.counts)[:-1]
    docs, distances = np.split(part.docs, ends), np.split(part.distances, ends)
    return list(zip(docs, distances, part.tie_split.astype(bool).tolist(), strict=True))


def _merge_row(shares: Sequence[_Row], k: int, keep_ties: bool) -> _Row:
    docs = np.concatenate([docs for docs, _, _ in shares])
    distances = np.concatenate([distances for _, distances, _ in shares])
    order = nearest_order(distances)  # shares are in the order of document numbers
    if len(order) < k:
        return docs[order], distances[order], False
    last = distances[order[k - 1]]
    within = int(np.count_nonzero(distances <= last))
    # A share that was cut at this very distance knows of more such documents.
    more = any(tie_split and near[-1] == last for _, near, tie_split in shares)
    first = order[: within if keep_ties else k]
    return docs[first], distances[first], not keep_ties and (within > k or more)


def _join_blocks(parts: list[_Nearest]) -> tuple[Ints, NDArray[np.int32], NDArray[np.float64]]:
    """All rows in one; what was joined is given back at once, so that nothing is there twice."""
    counts = np.concatenate([np.zeros(1, np.int64), *(part.counts for part in parts)])
    offsets = np.cumsum(counts, dtype=np.int64)
    docs, scores = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.float64)
    start = 0
    for place, part in enumerate(parts):
        inside = slice(start, start + len(part.docs))
        docs[inside], scores[inside] = part.docs, -part.distances
        parts[place] = part._replace(docs=part.docs[:0].copy(), distances=part.distances[:0].copy())
        start = inside.stop
    return offsets, docs, scores
