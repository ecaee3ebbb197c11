"""Rank the one target of each query in a corpus of shards.

Targets are scored first, each in the shard that holds it; then every shard counts what stands
above the targets and ties with them. Counts add up, so nothing is sorted and little travels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.cluster.jobs import SearchRequest, check_queries, contiguous, distinct, make_request
from assay.cluster.settings import Cluster
from assay.cluster.shards import Corpus, Piece
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import IdError, UsageError
from assay.io.arrays import open_rows
from assay.io.mapped import steady_files
from assay.native import Engine
from assay.search.engine.inputs import check_columns, choose_kernels, matrix_of
from assay.search.engine.plan import search_settings
from assay.search.engine.targets import (
    TargetRanks,
    count_against,
    count_excluded,
    refuse_excluded_targets,
    refuse_infinite,
    row_targets,
    target_scores,
)
from assay.search.engine.token_vectors import TokenVectors


class TargetCounts(NamedTuple):
    """Hold documents above each target, tied with it, and of these those before it."""

    above: Ints
    tied: Ints
    before: Ints

    @property
    def n_bytes(self) -> int:
        """Return the bytes that travel."""
        return sum(array.nbytes for array in self)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return plain arrays, for a file."""
        return self._asdict()


@dataclass(frozen=True)
class TargetTask:
    """Count documents against targets."""

    metric: str
    zero: str
    threads: int
    engine: Engine | None

    def score(self, queries: Any, piece: Piece, rows: Ints, targets: Ints) -> Floats:
        """Score targets canonically in one shard; `rows` are the rows that hold them."""
        with piece.open() as content:
            if isinstance(content.docs, TokenVectors):
                docs: Any = content.docs[rows]
            else:
                matrix = matrix_of(open_rows(content.docs), "docs")
                docs = np.stack([matrix[row : row + 1][0] for row in rows])
            return target_scores(queries, docs, targets, **vars(self))

    def search(
        self, queries: Any, piece: Piece, targets: Ints, scores: Floats, barred: Any
    ) -> TargetCounts:
        """Count one shard against the targets, numbered through the whole corpus."""
        inside = (targets >= piece.first) & (targets < piece.first + piece.rows)
        local = np.where(inside, targets - piece.first, piece.rows)
        local[targets < 0] = -1
        with piece.open() as content:
            above, tied, before = count_against(
                queries, content.docs, local, scores=scores, exclude=barred, **vars(self)
            )
        before[targets < piece.first] = 0  # the target stands in a shard before this one
        return TargetCounts(above, tied, before)

    def merge(self, *parts: TargetCounts) -> TargetCounts:
        """Add up counts."""
        return TargetCounts(*(np.sum(counts, axis=0) for counts in zip(*parts, strict=True)))

    def finish(self, part: TargetCounts) -> TargetCounts:
        """Return the counts."""
        return part

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> TargetCounts:
        """Restore counts from a checkpoint."""
        return TargetCounts(**arrays)


def target_rank_shards(
    queries: Any,
    shards: Any,
    targets: Any,
    *,
    metric: Literal["cosine", "dot", "l2", "maxsim"] = "cosine",
    exclude: Any = None,
    query_ids: Any = None,
    zero: Literal["error", "last"] = "error",
    cluster: Cluster | None = None,
) -> TargetRanks:
    """Count for each query the documents of all shards above its target or tied with it.

    Args:
        queries: Vectors of the queries.
        shards: A manifest, a pattern or a list of files, in any order.
        targets: A document id for each query where the shards have ids, else a row number of the
            whole corpus; −1 or None is no target.
        metric: How vectors are compared.
        exclude: Documents that a query must not find, as for `rank`.
        query_ids: Ids of the queries.
        zero: Refuse all-zero rows under cosine, or rank them last.
        cluster: Where this runs, and how; by default here.

    Returns:
        The counts of `target_ranks`.

    Raises:
        AssayError: Queries, shards, targets or options do not fit, or a worker failed.

    Example:
        target_rank_shards(queries, "docs-*.npy", targets).hits()
    """
    if zero not in ("error", "last"):
        raise UsageError("target_rank_shards takes zero='error' or 'last'.")
    cluster = cluster or Cluster()
    name, _ = choose_kernels(cluster.engine)
    matrix, ids = check_queries(queries, query_ids, metric, zero, cluster)
    named = checks.as_list(targets, "targets")
    checks.check_lengths(targets=len(named), queries=matrix.shape[0])
    targets_named = distinct([target for target in named if target is not None], "targets")
    requested = {"target": Ids.of(targets_named, what="target")}

    def check(corpus: Corpus) -> None:
        check_columns(corpus.columns, matrix.shape[1])

    request = make_request(matrix, ids, shards, exclude, cluster, check=check, requested=requested)
    numbers = _match_targets(named, targets_named, request.corpus)
    refuse_excluded_targets(request.excluded, numbers)
    work = TargetTask(metric, zero, cluster.threads, cluster.engine)
    with steady_files(matrix):
        counts = _count_targets(work, request, numbers, cluster)
        if metric == "cosine":
            # All documents tie for a query of zeros, which no product can find.
            nowhere = np.concatenate(
                [~np.asarray(matrix[a:b]).astype(bool).any(axis=1) for a, b in request.blocks]
            )
            counts.tied[nowhere] += request.corpus.n_docs - 1
            counts.before[nowhere] += numbers[nowhere]
    for array in counts:
        array[numbers < 0] = -1
    n_docs = request.corpus.n_docs - count_excluded(request.excluded)
    settings = search_settings(metric=metric, zero=zero, exclude=exclude, n_docs=n_docs)
    return TargetRanks(*counts, n_docs, search=f"{name}-certified", settings=settings)


def _match_targets(named: list[Any], targets_named: list[Any], corpus: Corpus) -> Ints:
    """Return the targets as document numbers, −1 for none."""
    if not corpus.id_kind:
        numbers = row_targets([-1 if target is None else target for target in named])
        checks.check_numbers(numbers[numbers >= 0], corpus.n_docs, "targets")
        return numbers
    place = dict(zip(targets_named, corpus.found["target"].tolist(), strict=True))
    numbers = np.array([-1 if target is None else place[target] for target in named], np.int64)
    for row, target in enumerate(named):
        if target is not None and numbers[row] < 0:
            raise IdError(
                f"The target {target!r} of query row {row} is not a document. Pass ids of docs."
            )
    return numbers


def _count_targets(
    work: TargetTask, request: SearchRequest, targets: Ints, cluster: Cluster
) -> TargetCounts:
    scores = _score_targets(work, request, targets, cluster)
    refuse_infinite(scores)

    def extra(block: int, shard: int) -> tuple[Any, ...]:
        inside = slice(*request.blocks[block])
        return targets[inside], scores[inside], request.pairs(block, shard)

    job = {"kind": "targets", "metric": work.metric, "zero": work.zero}
    blocks = request.run(cluster, work, job, extra, digested=(targets,))
    return TargetCounts(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def _score_targets(
    work: TargetTask, request: SearchRequest, targets: Ints, cluster: Cluster
) -> Floats:
    """Score every target in the shard that holds it."""
    scores = np.zeros(len(targets))
    shard_of = np.where(targets < 0, -1, request.corpus.shard_of(targets))
    pairs = [
        (start + np.flatnonzero(shard_of[start:stop] == shard), shard)
        for start, stop in request.blocks
        for shard in np.unique(shard_of[start:stop])
        if shard >= 0
    ]

    def tasks() -> Iterator[tuple[Any, ...]]:
        """Yield some queries, and the rows of a shard that are their targets."""
        for queries, shard in pairs:
            piece = request.corpus.pieces[shard]
            rows, local = np.unique(targets[queries] - piece.first, return_inverse=True)
            first, last = int(queries[0]), int(queries[-1])
            vectors = contiguous(request.queries[first : last + 1][queries - first])
            yield vectors, piece, rows, local.astype(np.int64)

    for number, block_scores in cluster.executor.map(work.score, tasks()):
        scores[pairs[number][0]] = block_scores
    return scores
