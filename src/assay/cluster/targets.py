"""target_rank_shards: the rank of the one target of each query in a corpus of shards.

Targets are scored first, each in the shard that holds it; then every shard counts what stands
above the targets and ties with them. Counts add up, so nothing is sorted and little travels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.cluster.jobs import (
    Flow,
    SearchRequest,
    check_queries,
    distinct,
    make_request,
    open_checkpoint,
    wanted_ids,
)
from assay.cluster.settings import Cluster
from assay.cluster.shards import Corpus, Piece, survey
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import IdError, UsageError
from assay.io.arrays import open_rows
from assay.io.mapped import steady_files
from assay.native import Engine
from assay.search.engine.blocks import Metric
from assay.search.engine.inputs import check_columns, check_ids, choose_kernels, matrix_of
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


class TargetCounts(NamedTuple):
    """Documents above each target, tied with it, and of these those before it."""

    above: Ints
    tied: Ints
    before: Ints

    @property
    def n_bytes(self) -> int:
        """Bytes that travel."""
        return sum(array.nbytes for array in self)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, for a file."""
        return self._asdict()


@dataclass(frozen=True)
class TargetTask:
    """Counting against targets."""

    metric: str
    zero: str
    threads: int
    engine: Engine | None

    def score(self, queries: Any, piece: Piece, rows: Ints, targets: Ints) -> Floats:
        """Canonical scores of targets in one shard; `rows` are the rows that hold them."""
        with piece.open() as content:
            docs = np.stack(
                [matrix_of(open_rows(content.docs), "docs")[row : row + 1][0] for row in rows]
            )
            return target_scores(queries, docs, targets, **self._options())

    def search(
        self, queries: Any, piece: Piece, targets: Ints, scores: Floats, barred: Any
    ) -> TargetCounts:
        """Count one shard against the targets, numbered through the whole corpus."""
        inside = (targets >= piece.first) & (targets < piece.first + piece.rows)
        local = np.where(inside, targets - piece.first, piece.rows)
        local[targets < 0] = -1
        with piece.open() as content:
            above, tied, before = count_against(
                queries, content.docs, local, scores=scores, exclude=barred, **self._options()
            )
        before[targets < piece.first] = 0  # the target stands in a shard before this one
        return TargetCounts(above, tied, before)

    def merge(self, *parts: TargetCounts) -> TargetCounts:
        """Counts add up."""
        return TargetCounts(*(np.sum(counts, axis=0) for counts in zip(*parts, strict=True)))

    def finish(self, part: TargetCounts) -> TargetCounts:
        """The counts themselves."""
        return part

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> TargetCounts:
        """Counts from a checkpoint."""
        return TargetCounts(**arrays)

    def _options(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "zero": self.zero,
            "threads": self.threads,
            "engine": self.engine,
        }


def target_rank_shards(
    queries: Any,
    shards: Any,
    targets: Any,
    *,
    metric: Literal["cosine", "dot", "l2"] = "cosine",
    exclude: Any = None,
    query_ids: Any = None,
    zero: Literal["error", "last"] = "error",
    cluster: Cluster | None = None,
) -> TargetRanks:
    """For each query how many documents of all shards score above its target, and how many tie.

    `targets` are document ids where the shards have ids, else row numbers of the whole corpus;
    −1 or None means no target. The arguments are those of `target_ranks` and `rank_shards`.
    """
    if zero not in ("error", "last"):
        raise UsageError("target_rank_shards takes zero='error' or 'last'.")
    cluster = cluster or Cluster()
    name, _ = choose_kernels(cluster.engine)
    ids = None if query_ids is None else Ids.of(query_ids, what="query")
    matrix = check_queries(queries, Metric.of(metric, zero), cluster, ids)
    check_ids(ids, matrix.shape[0], "query")
    named = checks.as_list(targets, "targets")
    checks.check_lengths(targets=len(named), queries=matrix.shape[0])
    targets_named = distinct([target for target in named if target is not None], "targets")
    requested = {**wanted_ids(ids, exclude), "target": Ids.of(targets_named, what="target")}
    corpus = survey(cluster.executor, shards, requested, hashed=cluster.checkpoint is not None)
    check_columns(corpus.columns, matrix.shape[1])
    request = make_request(matrix, query_ids=ids, exclude=exclude, corpus=corpus, cluster=cluster)
    numbers = _numbers(named, targets_named, corpus)
    refuse_excluded_targets(request.excluded, numbers)
    work = TargetTask(metric, zero, cluster.threads, cluster.engine)
    with steady_files(matrix):
        counts = _count_targets(work, request, numbers, cluster)
        levelled = _level_zero_queries(
            counts, matrix, request, numbers, search=f"{name}-certified", metric=metric
        )
    settings = search_settings(metric=metric, zero=zero, exclude=exclude, n_docs=levelled.n_docs)
    return replace(levelled, settings=settings)


def _numbers(named: list[Any], targets_named: list[Any], corpus: Corpus) -> Ints:
    """The targets as document numbers, −1 for none."""
    if not corpus.id_kind:
        numbers = row_targets([-1 if target is None else target for target in named])
        checks.check_numbers(numbers[numbers >= 0], corpus.n_docs, "targets")
        return numbers
    place = dict(zip(targets_named, corpus.found["target"].tolist(), strict=True))
    numbers = np.array([-1 if target is None else place[target] for target in named], np.int64)
    for row, target in enumerate(named):
        if target is not None and numbers[row] < 0:
            raise IdError(f"The target {target!r} of query row {row} is not among the docs.")
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
    flow = Flow(
        cluster,
        work,
        request.corpus.pieces,
        request.sizes,
        request.block,
        extra,
        checkpoint=open_checkpoint(cluster, request, job, targets),
    )
    return TargetCounts(*(np.concatenate(parts) for parts in zip(*flow.in_order(), strict=True)))


def _score_targets(
    work: TargetTask, request: SearchRequest, targets: Ints, cluster: Cluster
) -> Floats:
    """The score of every target, from the shard that holds it."""
    scores = np.zeros(len(targets))
    shard_of = np.where(targets < 0, -1, request.corpus.shard_of(targets))
    pairs = [
        (start + np.flatnonzero(shard_of[start:stop] == shard), shard)
        for start, stop in request.blocks
        for shard in np.unique(shard_of[start:stop])
        if shard >= 0
    ]
    tasks = (_scoring_arguments(request, targets, queries, shard) for queries, shard in pairs)
    for number, block_scores in cluster.executor.map(work.score, tasks):
        scores[pairs[number][0]] = block_scores
    return scores


def _scoring_arguments(
    request: SearchRequest, targets: Ints, queries: Ints, shard: int
) -> tuple[Any, ...]:
    """Arguments of one task: some queries, and the rows of a shard that are their targets."""
    piece = request.corpus.pieces[shard]
    rows, local = np.unique(targets[queries] - piece.first, return_inverse=True)
    first, last = int(queries[0]), int(queries[-1])
    vectors = np.ascontiguousarray(request.queries[first : last + 1][queries - first])
    return vectors, piece, rows, local.astype(np.int64)


def _level_zero_queries(
    counts: TargetCounts,
    matrix: Any,
    request: SearchRequest,
    targets: Ints,
    *,
    search: str,
    metric: str,
) -> TargetRanks:
    """Under cosine all documents tie for a query of zeros, which no product can find."""
    n_docs = request.corpus.n_docs
    if metric == "cosine":
        nowhere = np.concatenate(
            [~np.asarray(matrix[a:b]).astype(bool).any(axis=1) for a, b in request.blocks]
        )
        counts.tied[nowhere] += n_docs - 1
        counts.before[nowhere] += targets[nowhere]
    for array in counts:
        array[targets < 0] = -1
    return TargetRanks(*counts, n_docs - count_excluded(request.excluded), search=search)
