"""Estimate the cost of a search over shards before it runs.

A query in a shard costs a fixed time, for its list, and a time for each document, which is the
product. Both are measured here and now, on small random vectors of the same width.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from assay.cluster.executors import SerialExecutor
from assay.cluster.jobs import cut
from assay.cluster.settings import QUERY_BLOCK, Cluster
from assay.cluster.shards import survey
from assay.core import checks
from assay.errors import UsageError
from assay.io.arrays import open_rows
from assay.native import Engine
from assay.search.engine.inputs import check_columns, matrix_of
from assay.search.engine.search import rank
from assay.search.engine.token_vectors import is_tokens

_QUERIES: Final = 1008  # one block of the engine
_PRODUCTS: Final = 1 << 31  # multiplications of the larger measurement
_ENTRY: Final = 16  # bytes of a document's number and score
_WINDOW: Final = 64 << 20  # bytes of a shard that are mapped at a time
_WORK_SPACE: Final = 512 << 20  # the engine's bound


class Rates(NamedTuple):
    """Hold seconds of one core for each query in each shard, and each (query, document)."""

    per_list: float
    per_pair: float


def measure_rates(columns: int, k: int, *, engine: Engine | None = None) -> Rates:
    """Measure the engine on this machine, by two sizes; a second or less."""
    large = min(1 << 16, max(2048, _PRODUCTS // (_QUERIES * columns)))
    small = large // 4
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((_QUERIES, columns), dtype=np.float32)
    docs = rng.standard_normal((large, columns), dtype=np.float32)
    times = [
        min(_seconds(queries, docs[:rows], k, engine) for _ in range(2)) for rows in (small, large)
    ]
    per_pair = max(times[1] - times[0], times[1] / 4) / (large - small) / _QUERIES
    return Rates(max(0.0, times[1] / _QUERIES - per_pair * large), per_pair)


def _seconds(queries: Any, docs: Any, k: int, engine: Engine | None) -> float:
    """Measure the time of a core, whatever else the machine is doing."""
    start = time.process_time()
    rank(queries, docs, k, threads=1, engine=engine)
    return time.process_time() - start


@dataclass(frozen=True)
class ShardPlan:
    """Tell sizes of a search, bytes to read and move, and the expected time.

    `plan_shards` makes one.

    Example:
        plan_shards(queries, "docs-*.npy", 10).seconds
    """

    n_queries: int
    n_docs: int
    columns: int
    k: int
    n_blocks: int
    n_shards: int
    corpus_bytes: int
    workers: int
    most_held: int
    rates: Rates
    largest_shard: int  # rows
    row_bytes: int

    @property
    def n_tasks(self) -> int:
        """Count searches: every block of queries in every shard."""
        return self.n_blocks * self.n_shards

    @property
    def flops(self) -> float:
        """Count multiplications and additions of the product."""
        return 2.0 * self.n_queries * self.n_docs * self.columns

    @property
    def bytes_read(self) -> int:
        """Return the bytes to read: every shard once for each block of queries."""
        return self.n_blocks * self.corpus_bytes

    @property
    def query_bytes(self) -> int:
        """Return the bytes of queries, to every worker."""
        return self.n_queries * self.columns * 4 * self.workers

    @property
    def list_bytes(self) -> int:
        """Return the bytes of partial lists; each is made once, and merged once."""
        rows = min(self.k, -(-self.n_docs // self.n_shards))
        return self.n_queries * self.n_shards * rows * _ENTRY

    @property
    def held_bytes(self) -> int:
        """Return the most bytes of partial lists that are there at one time."""
        return self.most_held * -(-self.n_queries // self.n_blocks) * self.k * _ENTRY

    @property
    def worker_bytes(self) -> int:
        """Return the memory of a worker beside Python: work space, a window, its lists."""
        lists = -(-self.n_queries // self.n_blocks) * self.k * _ENTRY * 2
        window = min(_WINDOW, self.largest_shard * self.row_bytes)
        return min(_WORK_SPACE, 2 * window + lists) + lists

    @property
    def seconds(self) -> float:
        """Return the expected time, if all workers are like this machine and have work."""
        rows = self.n_docs / self.n_shards
        task = self.n_queries / self.n_blocks
        each = task * (self.rates.per_list + self.rates.per_pair * rows)
        rounds = -(-self.n_tasks // self.workers)
        return each * rounds

    def lines(self) -> list[tuple[str, str]]:
        """Return the plan as lines of text."""
        lines = [
            ("queries", f"{self.n_queries:,} × {self.columns}, {self.n_blocks} blocks"),
            ("documents", f"{self.n_docs:,} in {self.n_shards} shards, {_size(self.corpus_bytes)}"),
            ("tasks", f"{self.n_tasks:,} searches on {self.workers} workers"),
            ("operations", f"{self.flops:.3g}"),
            ("to read", f"{_size(self.bytes_read)}: every shard for every block of queries"),
            ("to move", f"{_size(self.query_bytes)} of queries, {_size(self.list_bytes)} of lists"),
            ("held", f"{self.most_held} lists at most, {_size(self.held_bytes)}"),
            ("memory", f"{_size(self.worker_bytes)} for each worker"),
            ("expected time", _duration(self.seconds)),
        ]
        if self.n_tasks < self.workers:
            idle = f"{self.workers - self.n_tasks} workers are idle"
            lines.append(("note", f"{idle}: use more shards or a smaller --query-block"))
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        derived = [key for key, value in vars(type(self)).items() if isinstance(value, property)]
        values = {key: value for key, value in vars(self).items() if key != "rates"}
        return {**values, **self.rates._asdict(), **{key: getattr(self, key) for key in derived}}


def plan_shards(
    queries: Any,
    shards: Any,
    k: int,
    *,
    workers: int = 1,
    query_block: int = QUERY_BLOCK,
    in_flight: int | None = None,
    engine: Engine | None = None,
) -> ShardPlan:
    """Survey the shards, measure this machine, and estimate the cost of a search.

    Args:
        queries: Vectors of the queries.
        shards: A manifest, a pattern or a list of files, in any order.
        k: Number of documents for each query.
        workers: Number of workers.
        query_block: Number of queries of one task.
        in_flight: Number of partial results that may be there at one time.
        engine: Compiled kernels or their numpy twins.

    Returns:
        The plan.

    Raises:
        AssayError: Queries and shards do not fit.

    Example:
        plan_shards(queries, "docs-*.npy", 10, workers=8).lines()
    """
    k, workers = checks.check_cutoff(k), checks.check_cutoff(workers, "workers")
    cluster = Cluster(query_block=query_block, in_flight=in_flight)
    if is_tokens(queries):
        raise UsageError("Plans need one vector per document. Search without --dry-run.")
    matrix = matrix_of(open_rows(queries), "queries")
    corpus = survey(SerialExecutor(), shards, hashed=False, verified=False)
    check_columns(corpus.columns, matrix.shape[1])
    return ShardPlan(
        n_queries=matrix.shape[0],
        n_docs=corpus.n_docs,
        columns=corpus.columns,
        k=min(k, corpus.n_docs),
        n_blocks=len(cut(matrix.shape[0], query_block)),
        n_shards=len(corpus.pieces),
        corpus_bytes=corpus.n_bytes,
        workers=workers,
        most_held=cluster.in_flight or Cluster.most_held_by(workers),
        rates=measure_rates(corpus.columns, min(k, corpus.n_docs), engine=engine),
        largest_shard=max(piece.rows for piece in corpus.pieces),
        row_bytes=corpus.n_bytes // corpus.n_docs,
    )


def _size(n_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n_bytes < 1000 or unit == "TB":
            return f"{n_bytes:.3g} {unit}" if n_bytes < 1000 else f"{n_bytes:,.0f} {unit}"
        n_bytes /= 1000
    return ""


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
