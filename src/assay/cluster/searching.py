"""rank_shards and rank_code_shards: the exact best k of each query in a corpus of shards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from secrets import token_hex
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from assay.cluster.corpus import Corpus, Piece, survey
from assay.cluster.floors import find_floors, remember_scores
from assay.cluster.flow import Flow
from assay.cluster.merging import Arrays, Lists, join_blocks, lists_of, merge_lists
from assay.cluster.requests import (
    SearchRequest,
    check_queries,
    make_request,
    open_checkpoint,
    wanted_ids,
)
from assay.cluster.settings import Cluster
from assay.core import checks
from assay.core.conventions import Settings
from assay.core.ids import Ids, IntegerIds
from assay.core.ranking import Ranking
from assay.errors import MismatchError
from assay.io.arrays import open_rows
from assay.io.mapped import steady_files
from assay.native import Engine
from assay.search.engine.blocks import Metric
from assay.search.engine.code_search import rank_codes
from assay.search.engine.codes import Codes, as_codes
from assay.search.engine.exclusion import refuse_short
from assay.search.engine.plan import check_ids, choose_kernels, search_settings
from assay.search.engine.search import rank
from assay.search.engine.vectors import check_columns

_LARGEST_DOC: Final = np.iinfo(np.int32).max
_MOST_NUMBERED: Final = 1 << 27  # documents that are all numbered here: a gigabyte


@dataclass(frozen=True)
class ListTask(ABC):
    """Searching by lists: what all kinds of search do with their partial results."""

    k: int
    keep_ties: bool
    threads: int
    engine: Engine | None

    @abstractmethod
    def search(
        self, queries: Any, piece: Piece, barred: NDArray[np.int64] | None, block: int
    ) -> Lists:
        """A block of queries in one shard; `barred` are pairs that must not meet."""

    def merge(self, *parts: Lists) -> Lists:
        """The best of some shards."""
        return merge_lists(parts, self.k, keep_ties=self.keep_ties)

    def finish(self, part: Lists, *extra: Any) -> Any:
        """The lists themselves."""
        return part

    def restore(self, arrays: Arrays) -> Lists:
        """Lists from a checkpoint."""
        return Lists.of(arrays)


@dataclass(frozen=True)
class VectorTask(ListTask):
    """Search among vectors."""

    metric: Literal["cosine", "dot", "l2"]
    zero: Literal["error", "drop", "last"]
    job: str  # known to no other, so that what a worker remembers is of this search

    def search(
        self, queries: Any, piece: Piece, barred: NDArray[np.int64] | None, block: int
    ) -> Lists:
        """A block of queries in one shard."""
        with piece.open() as content:
            ranking = rank(
                queries,
                content.docs,
                self.k,
                metric=self.metric,
                zero=self.zero,
                exclude=barred,
                keep_ties=self.keep_ties,
                floors=find_floors(self.job, block, piece.first),
                threads=self.threads,
                engine=self.engine,
            )
            lists = lists_of(ranking, piece.first, content.ids)
        remember_scores(self.job, block, piece.first, lists, self.k)
        return lists


@dataclass(frozen=True)
class CodeTask(ListTask):
    """Search among binary codes; `bits` where the shards hold packed bytes."""

    query_bits: int
    bits: int | None

    def search(
        self, queries: Any, piece: Piece, barred: NDArray[np.int64] | None, block: int
    ) -> Lists:
        """A block of packed queries in one shard."""
        with piece.open() as content:
            ranking = rank_codes(
                Codes(queries, self.query_bits),
                codes_of(content.docs, self.bits),
                self.k,
                exclude=barred,
                keep_ties=self.keep_ties,
                threads=self.threads,
                engine=self.engine,
            )
            return lists_of(ranking, piece.first, content.ids)


def codes_of(docs: Any, bits: int | None) -> Codes:
    """The codes of a shard."""
    rows = open_rows(docs)
    return as_codes(rows, "docs") if bits is None else Codes(rows, bits)


@dataclass(frozen=True, eq=False)
class ShardSearch:
    """A job that is ready to run: what workers do, for which blocks."""

    request: SearchRequest
    work: ListTask
    cluster: Cluster
    kind: str
    engine: str
    settings: Settings

    def blocks(self, work: ListTask | None = None, **extras: Any) -> list[Any]:
        """The result of every block; another `work` may finish blocks in another way."""
        job = {"kind": self.kind, **asdict(self.work)}
        for irrelevant in ("threads", "engine", "job"):  # none changes a byte
            job.pop(irrelevant, None)
        flow = Flow(
            self.cluster,
            work or self.work,
            self.request.corpus.pieces,
            self.request.sizes,
            self.request.block,
            lambda block, shard: (self.request.pairs(block, shard), block),
            checkpoint=open_checkpoint(self.cluster, self.request, job),
            **extras,
        )
        with steady_files(self.request.queries):
            return flow.in_order()

    def ranking(self) -> Ranking:
        """All blocks as one ranking."""
        lists = join_blocks(self.blocks())
        if getattr(self.work, "zero", "error") != "drop":
            there = self.request.corpus.n_docs - np.diff(self.request.excluded.offsets)
            refuse_short(lists.lengths, np.minimum(self.work.k, there))
        docs, names = number_docs(lists, self.request.corpus)
        return Ranking(
            self.request.names,
            names,
            lists.offsets,
            docs,
            lists.scores,
            n_docs=self.request.corpus.n_docs,
            has_ids=self.request.has_ids,
            tie_split=lists.tie_split if self._knows_tie_split(lists) else None,
            search=f"{self.engine}-certified",
            settings=self.settings,
        )

    def _knows_tie_split(self, lists: Lists) -> bool:
        """As the engine does: rankings of vectors only where there is something to tell."""
        return bool(lists.tie_split.any()) if self.kind == "vectors" else not self.work.keep_ties


def rank_shards(
    queries: Any,
    shards: Any,
    k: int,
    *,
    metric: Literal["cosine", "dot", "l2"] = "cosine",
    exclude: Any = None,
    query_ids: Any = None,
    keep_ties: bool = False,
    zero: Literal["error", "drop", "last"] = "error",
    cluster: Cluster | None = None,
) -> Ranking:
    """The exact best k documents of each query in a corpus of shards: the bytes of `rank`.

    `shards` is a manifest, a pattern or a list of files, in any order; ids come from the files.
    Where documents have ids, the ranking names only those that were found. `cluster` says where
    this runs and how; the other arguments are those of `rank`.
    """
    return prepare_search(
        queries,
        shards,
        k,
        metric=metric,
        exclude=exclude,
        query_ids=query_ids,
        keep_ties=keep_ties,
        zero=zero,
        cluster=cluster,
    ).ranking()


def prepare_search(
    queries: Any,
    shards: Any,
    k: int,
    *,
    metric: Any,
    exclude: Any,
    query_ids: Any,
    keep_ties: bool,
    zero: Any,
    cluster: Cluster | None,
) -> ShardSearch:
    """Check everything that can be checked before the search, and look at the shards."""
    cluster = cluster or Cluster()
    k = min(checks.check_cutoff(k), _LARGEST_DOC)
    metric_of_search = Metric.of(metric, zero)
    name, _ = choose_kernels(cluster.engine)
    ids = None if query_ids is None else Ids.of(query_ids, what="query")
    matrix = check_queries(queries, metric_of_search, cluster, ids)
    check_ids(ids, matrix.shape[0], "query")
    corpus = survey(
        cluster.executor, shards, wanted_ids(ids, exclude), hashed=cluster.checkpoint is not None
    )
    check_columns(corpus.columns, matrix.shape[1])
    request = make_request(matrix, query_ids=ids, exclude=exclude, corpus=corpus, cluster=cluster)
    work = VectorTask(
        k, bool(keep_ties), cluster.threads, cluster.engine, metric, zero, job=token_hex(8)
    )
    settings = search_settings(
        metric=metric,
        zero=zero,
        exclude=exclude,
        k=min(k, corpus.n_docs),
        keep_ties=keep_ties,
        n_docs=corpus.n_docs,
    )
    return ShardSearch(request, work, cluster, "vectors", name, settings)


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
    """The k documents at the smallest Hamming distance, in a corpus of shards of codes.

    Shards hold {0, 1}, booleans or ±1; with `bits`, packed bytes of codes of that many bits. The
    other arguments are those of `rank_codes` and `rank_shards`.
    """
    cluster = cluster or Cluster()
    k = min(checks.check_cutoff(k), _LARGEST_DOC)
    left = as_codes(queries, "queries")
    name, _ = choose_kernels(cluster.engine)
    ids = check_ids(query_ids, len(left), "query")
    corpus = survey(
        cluster.executor, shards, wanted_ids(ids, exclude), hashed=cluster.checkpoint is not None
    )
    _check_bits(left.bits, bits, corpus)
    request = make_request(
        left.packed, query_ids=ids, exclude=exclude, corpus=corpus, cluster=cluster
    )
    work = CodeTask(k, bool(keep_ties), cluster.threads, cluster.engine, left.bits, bits)
    settings = search_settings(
        metric="hamming",
        zero="error",
        exclude=exclude,
        k=min(k, corpus.n_docs),
        keep_ties=keep_ties,
        n_docs=corpus.n_docs,
    )
    return ShardSearch(request, work, cluster, "codes", name, settings).ranking()


def _check_bits(query_bits: int, bits: int | None, corpus: Corpus) -> None:
    n_bits = corpus.columns if bits is None else checks.check_cutoff(bits, "bits")
    if n_bits != query_bits:
        raise MismatchError(
            f"Queries have {query_bits} bits and docs have {n_bits}; only codes of one length can "
            "be compared. Packed shards need bits=."
        )


def number_docs(lists: Lists, corpus: Corpus) -> tuple[NDArray[np.int32], Ids]:
    """Numbers of documents, and the ids that they number.

    Where there are ids, or too many documents, these are the documents that were found.
    """
    if lists.ids is not None:
        checks.check_unique(lists.ids, "doc")
        return np.searchsorted(lists.rows, lists.docs).astype(np.int32), lists.ids
    if corpus.n_docs <= _MOST_NUMBERED:
        return lists.docs.astype(np.int32), Ids.count(corpus.n_docs)
    rows, docs = np.unique(lists.docs, return_inverse=True)
    return docs.astype(np.int32), IntegerIds(rows, rising=True, numbered=True)
