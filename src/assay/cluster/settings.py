"""Cluster: where a job runs, and how; Journal: what was computed where, and how long it took."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from assay.cluster.executors import Executor, SerialExecutor, ThreadExecutor
from assay.cluster.ray import RayExecutor
from assay.core import checks
from assay.errors import UsageError
from assay.native import Engine
from assay.search.engine.workers import Progress

QUERY_BLOCK: Final = 8192
_WAITING: Final = 8  # results that may wait to be merged, beside those of the workers


class Step(NamedTuple):
    """One finished task; a shard of −1 stands for a task that is not about one shard."""

    kind: str  # "search", "merge", "finish" or "encode"
    block: int
    shard: int
    seconds: float
    bytes_read: int
    bytes_made: int
    worker: str


@dataclass
class Journal:
    """All tasks of a job.

    Of `blocks` pairs of query block and shard, `resumed` were found in the checkpoint and
    `computed` were searched now; `recomputed` of these had been started before and were lost with
    the driver, `damaged` were in the checkpoint but not sound. `most_held` is the largest number of
    partial results that were there at one time.
    """

    steps: list[Step] = field(default_factory=list)
    blocks: int = 0
    resumed: int = 0
    computed: int = 0
    recomputed: int = 0
    damaged: int = 0
    most_held: int = 0

    def totals(self) -> dict[str, dict[str, float]]:
        """For each kind of task: how many, seconds of all workers, bytes read and made."""
        kinds = dict.fromkeys(step.kind for step in self.steps)
        return {kind: _total([step for step in self.steps if step.kind == kind]) for kind in kinds}

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        counts = {name: value for name, value in vars(self).items() if name != "steps"}
        steps = [step._asdict() for step in self.steps]
        return {**counts, "totals": self.totals(), "tasks": steps}

    def resumption(self) -> str:
        """How many blocks came from the checkpoint, as a sentence."""
        damaged = f", {self.damaged} of them damaged in the checkpoint" if self.damaged else ""
        return (
            f"{self.resumed} of {self.blocks} blocks taken from the checkpoint, {self.computed} "
            f"computed ({self.recomputed} for the second time{damaged})"
        )


def _total(steps: list[Step]) -> dict[str, float]:
    return {
        "tasks": len(steps),
        "seconds": sum(step.seconds for step in steps),
        "bytes_read": sum(step.bytes_read for step in steps),
        "bytes_made": sum(step.bytes_made for step in steps),
    }


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
