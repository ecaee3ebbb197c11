"""Set where a job runs and how, and note what was computed where and how long it took."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from assay.cli.progress import reserve_stdout
from assay.cluster.executors import Executor, SerialExecutor, ThreadExecutor
from assay.cluster.ray import RayExecutor
from assay.core import checks
from assay.errors import UsageError
from assay.native import Engine
from assay.search.engine.workers import Progress

QUERY_BLOCK: Final = 8192
_WAITING: Final = 8  # results that may wait to be merged, beside those of the workers


class Step(NamedTuple):
    """Note a finished task; a shard of −1 stands for a task that is not about one shard."""

    kind: str  # "search", "merge", "finish" or "encode"
    block: int
    shard: int
    seconds: float
    bytes_read: int
    bytes_made: int
    worker: str


@dataclass
class Journal:
    """Note all tasks of a job.

    Of `blocks` pairs of query block and shard, `resumed` were found in the checkpoint and
    `computed` were searched now; `recomputed` of these had been started before and were lost with
    the driver, `damaged` were in the checkpoint but not sound. `most_held` is the largest number of
    partial results that were there at one time.

    Example:
        >>> Journal(blocks=4, resumed=1, computed=3).resumption()
        '1 of 4 blocks taken from the checkpoint, 3 computed (0 for the second time)'
    """

    steps: list[Step] = field(default_factory=list)
    blocks: int = 0
    resumed: int = 0
    computed: int = 0
    recomputed: int = 0
    damaged: int = 0
    most_held: int = 0

    def totals(self) -> dict[str, dict[str, float]]:
        """Add up for each kind of task: how many, seconds of all workers, bytes read and made."""
        totals: dict[str, dict[str, float]] = {}
        for step in self.steps:
            total = totals.setdefault(
                step.kind, {"tasks": 0, "seconds": 0, "bytes_read": 0, "bytes_made": 0}
            )
            total["tasks"] += 1
            for name in ("seconds", "bytes_read", "bytes_made"):
                total[name] += getattr(step, name)
        return totals

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        counts = {name: value for name, value in vars(self).items() if name != "steps"}
        steps = [step._asdict() for step in self.steps]
        return {**counts, "totals": self.totals(), "tasks": steps}

    def resumption(self) -> str:
        """Say how many blocks came from the checkpoint, as a sentence."""
        damaged = f", {self.damaged} of them damaged in the checkpoint" if self.damaged else ""
        return (
            f"{self.resumed} of {self.blocks} blocks taken from the checkpoint, {self.computed} "
            f"computed ({self.recomputed} for the second time{damaged})"
        )


@dataclass(frozen=True)
class Cluster:
    """Set an executor, and how it is used.

    Args:
        executor: Where tasks run.
        query_block: Number of queries that meet a shard in one task.
        in_flight: Number of partial results that may be there at one time, by default four for
            each worker and 8 more.
        checkpoint: Folder for finished blocks.
        threads: Number of threads of each task.
        engine: Compiled kernels or their numpy twins.
        progress: Function that is called with (done, total) meanwhile.
        journal: Is filled with timings and bytes.

    Raises:
        UsageError: A setting has the wrong type or range.

    Example:
        >>> Cluster(query_block=64).most_held
        12
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
            raise UsageError("in_flight is below 3 (two results and their merge). Use 3 or more.")

    @property
    def most_held(self) -> int:
        """Return how many partial results may be there at one time."""
        return self.in_flight or self.most_held_by(self.executor.workers)

    @staticmethod
    def most_held_by(workers: int) -> int:
        """Return how many may be there where nothing else is stated."""
        return 4 * workers + _WAITING


@contextmanager
def open_cluster(
    where: str = "auto", *, workers: int | None = None, **how: Any
) -> Iterator[Cluster]:
    """Open a cluster for a while.

    Args:
        where: "serial", "threads", "auto" or "local" (Ray), or Ray's address.
        workers: Number of workers, by default one for each core.
        **how: Further arguments of `Cluster`.

    Yields:
        The cluster.

    Raises:
        AssayError: The cluster cannot be reached or a setting is wrong.

    Example:
        >>> with open_cluster("threads", workers=2, query_block=64) as cluster:
        ...     cluster.executor.workers
        2
    """
    checks.require(where, str, "A cluster", "'serial', 'threads', 'auto' or an address")
    executor: Executor
    if where == "serial":
        executor = SerialExecutor()
    elif where == "threads":
        executor = ThreadExecutor(workers)
    else:
        with reserve_stdout(), RayExecutor(where, workers=workers) as executor:
            yield Cluster(executor, **how)
        return
    with executor:
        yield Cluster(executor, **how)
