"""Cluster: where a job runs, and how: executor, size of blocks, back-pressure, checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from assay.cluster.executors import Executor, RayExecutor, SerialExecutor, ThreadExecutor
from assay.cluster.journal import Journal
from assay.core import checks
from assay.errors import UsageError
from assay.native import Engine
from assay.search.engine.workers import Progress

__all__ = ["Cluster", "open_cluster"]

QUERY_BLOCK: Final = 8192
_WAITING: Final = 8  # results that may wait to be merged, beside those of the workers


@dataclass(frozen=True)
class Cluster:
    """An executor, and how it is used.

    `query_block` queries meet a shard in one task, `in_flight` partial results at the most are
    there at one time (by default four for each worker and 8 more), `checkpoint` is a folder for
    finished blocks, `threads` is for each task. `journal` is filled with timings and bytes.
    """

    executor: Executor = field(default_factory=SerialExecutor)
    query_block: int = QUERY_BLOCK
    in_flight: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    threads: int = 1
    engine: Engine | None = None
    progress: Progress | None = None
    journal: Journal = field(default_factory=Journal)

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.require(self.executor, Executor, "executor", "an Executor such as ThreadExecutor()")
        checks.check_cutoff(self.query_block, "query_block")
        checks.check_cutoff(self.threads, "threads")
        if self.in_flight is not None and checks.check_cutoff(self.in_flight, "in_flight") < 3:
            raise UsageError("in_flight must be at least 3: two results, and what they merge to.")

    @property
    def most_held(self) -> int:
        """How many partial results may be there at one time."""
        return self.in_flight or self.most_held_by(self.executor.workers)

    @staticmethod
    def most_held_by(workers: int) -> int:
        """The same where nothing else is stated."""
        return 4 * workers + _WAITING


@contextmanager
def open_cluster(
    where: str = "auto", *, workers: int | None = None, **how: Any
) -> Iterator[Cluster]:
    """A cluster for a while: "serial", "threads", "auto" or "local" (Ray), or Ray's address.

    The other arguments are those of `Cluster`.

    >>> with open_cluster("threads", workers=2, query_block=64) as cluster:
    ...     cluster.executor.workers
    2
    """
    checks.require(where, str, "A cluster", "'serial', 'threads', 'auto' or an address")
    with _executor(where, workers) as executor:
        yield Cluster(executor, **how)


def _executor(where: str, workers: int | None) -> Executor:
    if where == "serial":
        return SerialExecutor()
    if where == "threads":
        return ThreadExecutor(workers)
    return RayExecutor(where, workers=workers)
