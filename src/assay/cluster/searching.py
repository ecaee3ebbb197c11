"""Rank the exact best k of each query in a corpus of shards, of vectors or codes.

Scores are canonical, the exact values rounded once, so that lists of shards searched anywhere
merge to the bytes of one search. Any order of merging gives the same lists.

What a worker has found in some shards spares it work in the next ones. A document that scores less
than the k-th best of other shards is not among the best k of all. So a worker remembers the k best
scores of the blocks of queries that it is at, and a search takes the k-th as its floor. Which
shards a worker has seen depends on the moment; what is left out never matters, so the merged lists
do not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from secrets import token_hex
from threading import Lock
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, offsets_of, rows_of
from assay.cluster.executors import ThreadExecutor
from assay.cluster.jobs import SearchRequest, check_queries, cut, make_request
from assay.cluster.settings import Cluster
from assay.cluster.shards import Corpus, Piece
from assay.core import checks
from assay.core.conventions import Settings
from assay.core.ids import Ids, IntegerIds, TextIds
from assay.core.ranking import Ranking, sort_rows
from assay.errors import MismatchError, UsageError
from assay.io.arrays import open_rows
from assay.native import Engine
from assay.search.engine.codes import Codes, as_codes, rank_codes
from assay.search.engine.inputs import check_columns, check_ids, choose_kernels, refuse_short
from assay.search.engine.plan import search_settings
from assay.search.engine.search import rank
from assay.search.engine.sparse import rank_sparse
from assay.search.engine.sparse_vectors import SparseVectors, is_sparse, read_sparse

Arrays = Mapping[str, NDArray[Any]]

_LARGEST_DOC: Final = np.iinfo(np.int32).max
_MOST_BLOCKS: Final = 2  # of queries; the scores of one are half as many bytes as its lists
_DEEPEST: Final = 2048  # lists beyond this hold much of a shard anyway
MOST_NUMBERED: Final = 1 << 27  # documents that are all numbered here: a gigabyte


@dataclass(frozen=True)
class ListTask(ABC):
    """Search by lists: what all kinds of search do with their partial results."""

    k: int
    keep_ties: bool
    threads: int
    engine: Engine | None

    @abstractmethod
    def search(
        self, queries: Any, piece: Piece, barred: NDArray[np.int64] | None, block: int, shard: int
    ) -> Lists:
        """Search a block of queries in one shard; `barred` are pairs that must not meet."""

    def merge(self, *parts: Lists) -> Lists:
        """Merge the best of some shards."""
        return merge_lists(parts, self.k, keep_ties=self.keep_ties)

    def finish(self, part: Lists, *extra: Any) -> Any:
        """Return the lists."""
        return part

    def restore(self, arrays: Arrays) -> Lists:
        """Restore lists from a checkpoint."""
        return Lists.of(arrays)


@dataclass(frozen=True)
class VectorTask(ListTask):
    """Search among vectors."""

    metric: Literal["cosine", "dot", "l2", "maxsim"]
    zero: Literal["error", "drop", "last"]
    job: str  # known to no other, so that what a worker remembers is of this search
    parts: int  # of a block of queries, searched one after the other

    def search(
        self, queries: Any, piece: Piece, barred: NDArray[np.int64] | None, block: int, shard: int
    ) -> Lists:
        """Search a block of queries in one shard.

        Threads that are at different shards begin with different parts of the block, and so have
        floors for the other parts.
        """
        with piece.open() as content:
            rank_rows: Any = partial(rank, zero=self.zero)
            if isinstance(queries, SparseVectors) or isinstance(content.docs, SparseVectors):
                rank_rows = partial(rank_sparse, part=True)
            parts = cut(len(queries), -(-len(queries) // self.parts))
            by_part: dict[int, Lists] = {}
            for number in np.roll(np.arange(len(parts)), -shard).tolist():
                start, stop = parts[number]
                key = block * self.parts + number
                pairs = None
                if barred is not None:
                    inside = (barred[:, 0] >= start) & (barred[:, 0] < stop)
                    pairs = barred[inside] - np.array([start, 0])
                ranking = rank_rows(
                    queries[start:stop],
                    content.docs,
                    self.k,
                    metric=self.metric,
                    exclude=pairs,
                    keep_ties=self.keep_ties,
                    floors=find_floors(self.job, key, piece.first),
                    threads=self.threads,
                    engine=self.engine,
                )
                lists = lists_of(ranking, piece.first, content.ids)
                remember_scores(self.job, key, piece.first, lists, self.k, self.parts)
                by_part[number] = lists
        return join_blocks([by_part[number] for number in range(len(parts))])


@dataclass(frozen=True)
class CodeTask(ListTask):
    """Search among binary codes; `bits` where the shards hold packed bytes."""

    query_bits: int
    bits: int | None

    def search(
        self, queries: Any, piece: Piece, barred: NDArray[np.int64] | None, block: int, shard: int
    ) -> Lists:
        """Search a block of packed queries in one shard."""
        with piece.open() as content:
            rows = open_rows(content.docs)
            docs = as_codes(rows, "docs") if self.bits is None else Codes(rows, self.bits)
            ranking = rank_codes(
                Codes(queries, self.query_bits),
                docs,
                self.k,
                exclude=barred,
                keep_ties=self.keep_ties,
                threads=self.threads,
                engine=self.engine,
            )
            return lists_of(ranking, piece.first, content.ids)


@dataclass(frozen=True, eq=False)
class ShardSearch:
    """Hold a job that is ready to run: what workers do, for which blocks."""

    request: SearchRequest
    work: ListTask
    cluster: Cluster
    kind: str
    engine: str
    settings: Settings

    def blocks(self, work: ListTask | None = None, **extras: Any) -> list[Any]:
        """Return the result of every block; another `work` may finish them differently."""
        job = {"kind": self.kind, **asdict(self.work)}
        for irrelevant in ("threads", "engine", "job", "parts"):  # none changes a byte
            job.pop(irrelevant, None)
        return self.request.run(
            self.cluster,
            work or self.work,
            job,
            lambda block, shard: (self.request.pairs(block, shard), block, shard),
            **extras,
        )

    def ranking(self) -> Ranking:
        """Return all blocks as one ranking."""
        lists = join_blocks(self.blocks())
        # Documents without tokens are never retrieved, and the survey does not count them.
        may_be_short = getattr(self.work, "metric", "") == "maxsim"
        if getattr(self.work, "zero", "error") != "drop" and not may_be_short:
            there = self.request.corpus.n_docs - np.diff(self.request.excluded.offsets)
            refuse_short(lists.lengths, np.minimum(self.work.k, there))
        docs, names = number_docs(lists, self.request.corpus)
        split_known = not self.work.keep_ties
        if self.kind == "vectors":  # as the engine does: only where there is something to tell
            split_known = bool(lists.tie_split.any())
        return Ranking(
            self.request.names,
            names,
            lists.offsets,
            docs,
            lists.scores,
            n_docs=self.request.corpus.n_docs,
            has_ids=self.request.has_ids,
            tie_split=lists.tie_split if split_known else None,
            search=f"{self.engine}-certified",
            settings=self.settings,
        )


def rank_shards(
    queries: Any,
    shards: Any,
    k: int,
    *,
    metric: Literal["cosine", "dot", "l2", "maxsim"] = "cosine",
    exclude: Any = None,
    query_ids: Any = None,
    keep_ties: bool = False,
    zero: Literal["error", "drop", "last"] = "error",
    cluster: Cluster | None = None,
) -> Ranking:
    """Rank the exact best k documents of each query in a corpus of shards, as `rank` does.

    The bytes are those of `rank`. Where documents have ids, the ranking names only those that
    were found.

    Args:
        queries: Vectors of the queries; sparse ones where the shards are, token vectors for
            "maxsim".
        shards: A manifest, a pattern or a list of files, in any order; ids come from the files.
        k: Number of documents for each query.
        metric: How vectors are compared.
        exclude: Documents that a query must not find, as for `rank`.
        query_ids: Ids of the queries.
        keep_ties: Keep all documents that tie with the k-th.
        zero: Refuse all-zero rows under cosine, drop them, or rank them last.
        cluster: Where this runs, and how; by default here.

    Returns:
        The ranking.

    Raises:
        AssayError: Queries, shards or options do not fit, or a worker failed.

    Example:
        rank_shards(queries, "docs-*.npy", 10, cluster=Cluster(ThreadExecutor()))
    """
    options = metric, zero, exclude, query_ids, keep_ties
    return prepare_search(queries, shards, k, *options, cluster or Cluster()).ranking()


def prepare_search(
    queries: Any,
    shards: Any,
    k: int,
    metric: Any,
    zero: Any,
    exclude: Any,
    query_ids: Any,
    keep_ties: bool,
    cluster: Cluster,
    lookup: Mapping[str, Ids] | None = None,
) -> ShardSearch:
    """Check everything that can be checked before the search, and look at the shards.

    Ids of documents in `lookup` are found there, too.
    """
    k = min(checks.check_cutoff(k), _LARGEST_DOC)
    name, _ = choose_kernels(cluster.engine)
    sparse, matrix = is_sparse(queries), queries
    if sparse:
        if zero != "error":
            raise UsageError("Sparse vectors are searched with zero='error'.")
        matrix = read_sparse(queries, "queries")
        ids = check_ids(query_ids, len(matrix), "query")
    else:
        matrix, ids = check_queries(queries, query_ids, metric, zero, cluster)

    def check(corpus: Corpus) -> None:
        if not sparse or matrix.names is None:
            check_columns(corpus.columns, matrix.shape[1])

    request = make_request(matrix, ids, shards, exclude, cluster, check=check, requested=lookup)
    # Documents of tokens are scored exactly at a cost that repeating the rest does not reach, and
    # threads of one process see each other's floors.
    together = metric == "maxsim" and isinstance(cluster.executor, ThreadExecutor)
    parts = cluster.executor.workers if together else 1
    how = metric, zero, token_hex(8), parts
    work = VectorTask(k, bool(keep_ties), cluster.threads, cluster.engine, *how)
    metric = f"sparse-{metric}" if sparse else metric
    return _prepare(request, work, cluster, name, metric, zero, exclude)


def _prepare(
    request: SearchRequest,
    work: ListTask,
    cluster: Cluster,
    engine: str,
    metric: str,
    zero: str,
    exclude: Any,
) -> ShardSearch:
    n_docs = request.corpus.n_docs
    settings = search_settings(
        metric=metric,
        zero=zero,
        exclude=exclude,
        k=min(work.k, n_docs),
        keep_ties=work.keep_ties,
        n_docs=n_docs,
    )
    kind = "codes" if metric == "hamming" else "vectors"
    return ShardSearch(request, work, cluster, kind, engine, settings)


def rank_code_shards(
    queries: Any,
    shards: Any,
    k: int,
    *,
    bits: int | None = None,
    exclude: Any = None,
    query_ids: Any = None,
    keep_ties: bool = False,
    cluster: Cluster | None = None,
) -> Ranking:
    """Rank the k documents at the smallest Hamming distance in a corpus of shards.

    Args:
        queries: Codes of the queries, as `rank_codes` takes them.
        shards: A manifest, a pattern or a list of files, which hold {0, 1}, booleans or ±1.
        k: Number of documents for each query.
        bits: Number of bits, where the shards hold packed bytes.
        exclude: Documents that a query must not find, as for `rank`.
        query_ids: Ids of the queries.
        keep_ties: Keep all documents at the k-th distance.
        cluster: Where this runs, and how; by default here.

    Returns:
        The ranking.

    Raises:
        AssayError: Queries, shards or options do not fit, or a worker failed.

    Example:
        rank_code_shards(codes, "codes-*.npy", 10, bits=256)
    """
    cluster = cluster or Cluster()
    k = min(checks.check_cutoff(k), _LARGEST_DOC)
    left = as_codes(queries, "queries")
    name, _ = choose_kernels(cluster.engine)
    ids = check_ids(query_ids, len(left), "query")

    def check(corpus: Corpus) -> None:
        n_bits = corpus.columns if bits is None else checks.check_cutoff(bits, "bits")
        if n_bits != left.bits:
            raise MismatchError(
                f"Queries have {left.bits} bits and docs have {n_bits}. Use codes of one "
                "length; packed shards need bits=."
            )

    request = make_request(left.packed, ids, shards, exclude, cluster, check=check)
    work = CodeTask(k, bool(keep_ties), cluster.threads, cluster.engine, left.bits, bits)
    return _prepare(request, work, cluster, name, "hamming", "error", exclude).ranking()


def number_docs(lists: Lists, corpus: Corpus) -> tuple[NDArray[np.int32], Ids]:
    """Return numbers of documents, and the ids that they number.

    Where there are ids, or too many documents, these are the documents that were found.
    """
    if lists.ids is not None:
        checks.check_unique(lists.ids, "doc")
        return np.searchsorted(lists.rows, lists.docs).astype(np.int32), lists.ids
    if corpus.n_docs <= MOST_NUMBERED:
        return lists.docs.astype(np.int32), Ids.count(corpus.n_docs)
    rows, docs = np.unique(lists.docs, return_inverse=True)
    return docs.astype(np.int32), IntegerIds(rows, rising=True, numbered=True)


class Lists(NamedTuple):
    """Hold ragged rows in rank order; documents are numbered through the whole corpus.

    `tie_split` marks rows whose cut runs through a tie. `ids` names the documents `rows`, which are
    all that the lists hold, ascending.
    """

    lengths: Ints
    docs: Ints
    scores: NDArray[np.float64]
    tie_split: NDArray[np.bool_]
    rows: Ints
    ids: Ids | None

    @property
    def n_bytes(self) -> int:
        """Return the bytes that travel."""
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def offsets(self) -> Ints:
        """Return where each row begins and ends."""
        return offsets_of(self.lengths)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return plain arrays, for a file."""
        named = {name: getattr(self, name) for name in self._fields if name != "ids"}
        if self.ids is None:
            return named
        if self.ids.kind == "integer":
            return {**named, "id_numbers": self.ids.numbers}
        blob, offsets = self.ids.utf8
        return {**named, "id_bytes": blob, "id_offsets": offsets}

    @classmethod
    def of(cls, arrays: Arrays) -> Lists:
        """Restore lists from plain arrays."""
        ids: Ids | None = None
        if "id_numbers" in arrays:
            ids = IntegerIds(arrays["id_numbers"])
        elif "id_bytes" in arrays:
            ids = TextIds(arrays["id_bytes"], arrays["id_offsets"])
        return cls(**{name: arrays[name] for name in cls._fields if name != "ids"}, ids=ids)


def lists_of(ranking: Ranking, first: int, ids: Ids | None) -> Lists:
    """Return the lists of one shard, whose documents are numbered from `first` on."""
    rows = np.zeros(0, np.int64)
    if ids is not None:
        rows = np.unique(ranking.docs, return_counts=True)[0].astype(np.int64)
        ids = ids.take(rows)
    tie_split = ranking.tie_split
    return Lists(
        ranking.lengths,
        ranking.docs.astype(np.int64) + first,
        ranking.scores,
        np.zeros(len(ranking), bool) if tie_split is None else tie_split,
        rows + first,
        ids,
    )


def merge_lists(parts: Sequence[Lists], k: int, *, keep_ties: bool) -> Lists:
    """Merge lists of different shards to the best k; with `keep_ties` all that tie with them."""
    if len(parts) == 1:
        return parts[0]
    lengths, docs, scores = _side_by_side(_prune(parts, k))
    offsets = offsets_of(lengths)
    by_rank = sort_rows(offsets, scores, docs)
    docs, scores = docs[by_rank], scores[by_rank]
    places = np.arange(len(docs)) - np.repeat(offsets[:-1], lengths)
    full = np.flatnonzero(lengths >= k)
    last = np.full(len(lengths), -np.inf)  # the score of the k-th, where there is one
    last[full] = scores[offsets[full] + k - 1]
    tied = scores == np.repeat(last, lengths)
    inside = (places < k) | (tied & keep_ties)
    tie_split = np.zeros(len(lengths), bool)
    if not keep_ties:
        tie_split[rows_of(offsets)[tied & ~inside]] = True
        for part in parts:  # a shard that was cut at this very score knows of more
            tie_split |= part.tie_split & (_last_scores(part) == last)
    lengths = np.bincount(rows_of(offsets)[inside], minlength=len(lengths)).astype(np.int64)
    docs = docs[inside]
    return Lists(lengths, docs, scores[inside], tie_split, *_ids_of_docs(parts, docs))


def _prune(parts: Sequence[Lists], k: int) -> list[Lists]:
    """Drop what cannot be among the best k, which is most of it.

    If every one of p parts holds ⌈k/p⌉ documents that score at least x, at least k do in all.
    """
    place = -(-k // len(parts)) - 1
    least = np.min([_scores_at(part, place) for part in parts], axis=0)
    pruned = []
    for part in parts:
        near = part.scores >= np.repeat(least, part.lengths)
        lengths = np.add.reduceat(np.append(near, False), part.offsets[:-1]) * (part.lengths > 0)
        pruned.append(
            part._replace(lengths=lengths, docs=part.docs[near], scores=part.scores[near])
        )
    return pruned


def _scores_at(part: Lists, place: int) -> NDArray[np.float64]:
    """Return the score at one place of each row; −∞ where a row is shorter."""
    scores = np.full(len(part.lengths), -np.inf)
    longer = part.lengths > place
    scores[longer] = part.scores[part.offsets[:-1][longer] + place]
    return scores


def _side_by_side(parts: Sequence[Lists]) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Put what all parts found into each row."""
    lengths = np.sum([part.lengths for part in parts], axis=0).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    docs, scores = np.empty(lengths.sum(), np.int64), np.empty(lengths.sum())
    for part in parts:
        inside = np.arange(len(part.docs)) - np.repeat(part.offsets[:-1], part.lengths)
        at = np.repeat(starts, part.lengths) + inside
        docs[at], scores[at] = part.docs, part.scores
        starts = starts + part.lengths
    return lengths, docs, scores


def _last_scores(part: Lists) -> NDArray[np.float64]:
    """Return the last score of each row; NaN, which equals nothing, where a row is empty."""
    last = np.full(len(part.lengths), np.nan)
    some = part.lengths > 0
    last[some] = part.scores[part.offsets[1:][some] - 1]
    return last


def _ids_of_docs(parts: Sequence[Lists], docs: Ints) -> tuple[Ints, Ids | None]:
    """Return numbers and ids of the documents that are left."""
    if parts[0].ids is None:
        return np.zeros(0, np.int64), None
    rows = np.concatenate([part.rows for part in parts])
    ids = Ids.concat([part.ids for part in parts if part.ids is not None])
    numbers = np.unique(docs, return_counts=True)[0]
    by_row = np.argsort(rows, kind="stable")
    return numbers, ids.take(by_row[np.searchsorted(rows[by_row], numbers)])


def join_blocks(blocks: Sequence[Lists]) -> Lists:
    """Join blocks of different queries, one after the other."""
    flat = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("lengths", "docs", "scores", "tie_split")
    )
    lengths, docs, scores, tie_split = flat
    rows, ids = np.zeros(0, np.int64), None
    if blocks[0].ids is not None:
        every = np.concatenate([block.rows for block in blocks])
        rows, first = np.unique(every, return_index=True)
        ids = Ids.concat([block.ids for block in blocks if block.ids is not None]).take(first)
    return Lists(lengths, docs, scores, tie_split, rows, ids)


@dataclass
class _Seen:
    """Remember the k best scores of each query of a block, and the shards they are of."""

    shards: set[int] = field(default_factory=set)
    best: Floats | None = None


_LOCK: Final = Lock()
_SEEN: Final[OrderedDict[tuple[str, int], _Seen]] = OrderedDict()


def find_floors(job: str, block: int, shard: int) -> Floats | None:
    """Return the k-th best score of each query so far; none for a shard already seen."""
    with _LOCK:
        seen = _SEEN.get((job, block))
        if seen is None or seen.best is None or shard in seen.shards:
            return None
        floors: Floats = seen.best.min(axis=1)
        return floors


def remember_scores(job: str, block: int, shard: int, lists: Lists, k: int, parts: int = 1) -> None:
    """Note what was found in a shard, once: a task may be run again."""
    if k > _DEEPEST:
        return
    scores = np.full((len(lists.lengths), k), -np.inf)  # where fewer documents were found
    rows = np.repeat(np.arange(len(scores)), lists.lengths)
    places = np.arange(len(rows)) - lists.offsets[rows]
    inside = places < k
    scores[rows[inside], places[inside]] = lists.scores[inside]
    with _LOCK:
        seen = _SEEN.setdefault((job, block), _Seen())
        _SEEN.move_to_end((job, block))
        while len(_SEEN) > _MOST_BLOCKS * parts:
            _SEEN.popitem(last=False)
        if shard in seen.shards:
            return
        seen.shards.add(shard)
        if seen.best is not None:
            scores = np.partition(np.hstack([seen.best, scores]), k, axis=1)[:, k:]
        seen.best = scores
