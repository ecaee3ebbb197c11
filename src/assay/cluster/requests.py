"""What all kinds of jobs share: checked queries, exclusions, blocks, and the checkpoint's job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.cluster.checkpoint import ShardCheckpoint
from assay.cluster.corpus import Corpus
from assay.cluster.settings import Cluster
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import IdError, ShapeError, UsageError
from assay.io.arrays import open_rows
from assay.io.fingerprints import digest_of_arrays
from assay.search.engine.blocks import Metric, measure_rows
from assay.search.engine.inputs import (
    Excluded,
    Rows,
    Vectors,
    check_ids,
    choose_kernels,
    exclusions_of,
    matrix_of,
    widen,
)


def cut(count: int, most: int) -> list[tuple[int, int]]:
    """Blocks of at most `most`, all of about one size.

    >>> cut(10, 4)
    [(0, 3), (3, 6), (6, 10)]
    """
    n_blocks = -(-count // most)
    edges = [count * block // n_blocks for block in range(n_blocks + 1)]
    return list(pairwise(edges))


def check_queries(queries: Any, metric: Metric, cluster: Cluster, ids: Ids | None) -> Vectors:
    """Queries that can be searched for; NaN, Inf and zero rows are named before work begins."""
    matrix = matrix_of(open_rows(queries), "queries")
    _, kernels = choose_kernels(cluster.engine)
    for start, stop in cut(matrix.shape[0], cluster.query_block):
        rows = Rows(widen(matrix[start:stop], "queries"), start, "queries")
        measure_rows(kernels, rows, metric, ids=ids, threads=cluster.threads)
    return matrix


def wanted_ids(query_ids: Ids | None, exclude: Any) -> dict[str, Ids]:
    """Ids of documents that must be found in the shards before the search."""
    requested = {} if query_ids is None else {"query": query_ids}
    if exclude is None or isinstance(exclude, str) or query_ids is None:
        return requested
    named = distinct([doc for _, doc in _listed_pairs(exclude)], "exclude")
    return {**requested, "excluded": Ids.of(named, what="doc")} if named else requested


def find_excluded(
    exclude: Any, *, n_queries: int, query_ids: Ids | None, corpus: Corpus
) -> Excluded:
    """What `exclude` asks for, by document numbers of the whole corpus."""
    if exclude is not None and (query_ids is None) != (not corpus.id_kind):
        raise UsageError(
            "exclude goes by id where both sides have ids, by row where neither has. Give query "
            "ids and shards with ids, or none."
        )
    if query_ids is None or exclude is None:
        return exclusions_of(exclude, n_queries, corpus.n_docs, None, None)
    if isinstance(exclude, str):
        if exclude != "self":
            raise UsageError(f"exclude must be None, 'self' or a list of pairs, found {exclude!r}.")
        self_docs = corpus.found["query"]
        there = np.flatnonzero(self_docs >= 0)
        pairs = np.stack([there, self_docs[there]], axis=1)
    else:
        pairs = _pairs_by_id(exclude, query_ids, corpus)
    return exclusions_of(pairs, n_queries, corpus.n_docs, None, None)


def distinct(ids: list[Any], what: str) -> list[Any]:
    """Each id once, in the order in which they come first."""
    try:
        return list(dict.fromkeys(ids))
    except TypeError:
        raise IdError(f"{what} must name documents by ids: text or whole numbers.") from None


def _listed_pairs(exclude: Any) -> list[list[Any]]:
    """Pairs (query id, doc id), one by one."""
    pairs = checks.as_list(exclude, "exclude")
    listed = [checks.as_list(pair, "a pair in exclude") for pair in pairs]
    if any(len(pair) != 2 for pair in listed):
        raise ShapeError("exclude must hold pairs (query id, doc id).")
    return listed


def _pairs_by_id(exclude: Any, query_ids: Ids, corpus: Corpus) -> Ints:
    listed = _listed_pairs(exclude)
    if not listed:
        return np.empty((0, 2), np.int64)
    queries = Ids.of([pair[0] for pair in listed], what="query").match(query_ids)
    place = {doc: row for row, doc in enumerate(distinct([doc for _, doc in listed], "exclude"))}
    docs = corpus.found["excluded"][[place[pair[1]] for pair in listed]]
    for side, numbers in enumerate((queries, docs)):
        if (numbers < 0).any():
            what = ("query", "doc")[side]
            stranger = listed[int(np.argmax(numbers < 0))][side]
            raise IdError(f"exclude names the {what} {stranger!r}, which is not among the {what}s.")
    return np.stack([queries, docs], axis=1)


@dataclass(frozen=True, eq=False)
class SearchRequest:
    """Checked queries, cut into blocks, and what they must not find."""

    queries: Any  # has len() and slices; a block of it is what workers get
    query_ids: Ids | None
    corpus: Corpus
    excluded: Excluded
    blocks: list[tuple[int, int]]

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.blocks[-1][1]

    @property
    def names(self) -> Ids:
        """Ids of the queries; their numbers where they have none."""
        return Ids.count(self.n_queries) if self.query_ids is None else self.query_ids

    @property
    def has_ids(self) -> bool:
        """Whether queries and documents have ids."""
        return self.query_ids is not None and bool(self.corpus.id_kind)

    @property
    def sizes(self) -> list[int]:
        """Queries of each block."""
        return [stop - start for start, stop in self.blocks]

    def block(self, number: int) -> NDArray[Any]:
        """The queries of a block."""
        start, stop = self.blocks[number]
        return np.ascontiguousarray(self.queries[start:stop])

    def pairs(self, block: int, shard: int) -> Ints | None:
        """What a block must not find in a shard: (query, document), counted from their first."""
        piece = self.corpus.pieces[shard]
        offsets, docs = self.excluded.part(*self.blocks[block]).within(piece.first, piece.rows)
        if not len(docs):
            return None
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        return np.stack([rows, docs.astype(np.int64)], axis=1)


def open_checkpoint(
    cluster: Cluster, request: SearchRequest, job: Mapping[str, Any], *more: NDArray[Any]
) -> ShardCheckpoint | None:
    """The checkpoint of a request, where one is wanted."""
    if cluster.checkpoint is None:
        return None
    digests = [digest_of_arrays(request.block(block)) for block in range(len(request.blocks))]
    excluded = digest_of_arrays(request.excluded.offsets, request.excluded.docs, *more)
    shards = [
        {"path": str(piece.shard.path), "rows": piece.rows, "sha256": sha256}
        for piece, sha256 in zip(request.corpus.pieces, request.corpus.sha256, strict=True)
    ]
    about = {**job, "query_blocks": request.blocks, "queries": digests, "excluded": excluded}
    return ShardCheckpoint(cluster.checkpoint, {**about, "shards": shards})


def make_request(
    queries: Any, *, query_ids: Any, exclude: Any, corpus: Corpus, cluster: Cluster
) -> SearchRequest:
    """A request for queries that were checked."""
    n_queries = queries.shape[0]
    ids = check_ids(query_ids, n_queries, "query")
    barred = find_excluded(exclude, n_queries=n_queries, query_ids=ids, corpus=corpus)
    return SearchRequest(queries, ids, corpus, barred, cut(n_queries, cluster.query_block))
