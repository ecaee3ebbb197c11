"""What `assay rank` does with shards: on a cluster, with a checkpoint, for a sample of queries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cli import output
from assay.cli.options import cluster_options, refuse_idle_workers
from assay.cli.progress import progress_bar
from assay.cluster import open_cluster, plan_shards, rank_shards, sample_queries, sampled_recall
from assay.core.ids import Ids, IntegerIds
from assay.io.formats import read_run
from assay.search.engine.vectors import matrix_of
from assay.search.engine.workers import thread_count

if TYPE_CHECKING:
    from assay.cluster import Cluster, Journal, SampledRecall
    from assay.core.ranking import Ranking

__all__ = ["Sharded", "is_sharded", "opened", "shard_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

_ENDINGS = (".json", ".parquet", ".pq", ".safetensors")


def shard_options(command: Command) -> Command:
    """Where blocks run, and how."""
    for option in reversed(
        [
            cluster_options("Run on shards: threads, serial, auto (Ray), or Ray's address."),
            click.option(
                "--checkpoint",
                metavar="DIR",
                help="Keep finished blocks in DIR, and go on from there.",
            ),
            click.option(
                "--dry-run",
                is_flag=True,
                help="Print the plan, the bytes to move and the expected time.",
            ),
            click.option(
                "--query-block",
                type=click.IntRange(min=1),
                metavar="N",
                help="Queries of one task. [8192]",
            ),
            click.option(
                "--in-flight",
                type=click.IntRange(min=3),
                metavar="N",
                help="Partial results that may be there at one time.",
            ),
            click.option(
                "--timings", metavar="FILE", help="Write time and bytes of every task as JSON."
            ),
        ]
    ):
        command = option(command)
    return command


def is_sharded(docs: str, *given: Any) -> bool:
    """Whether documents are shards, or an option asks for what only shards can do."""
    pattern = any(sign in docs for sign in "*?[") or "://" in docs
    return pattern or docs.lower().endswith(_ENDINGS) or any(given)


@dataclass(frozen=True)
class Sharded:
    """A request of `assay rank` on shards."""

    queries: Any
    query_ids: Any
    shards: Any
    k: int
    how: dict[str, Any]  # for rank_shards
    where: str | None
    workers: int | None
    settings: dict[str, Any]  # for Cluster
    timings: str | None

    @property
    def n_workers(self) -> int:
        """How many workers there will be, as far as this process can tell."""
        if self.where in (None, "serial"):
            return thread_count(self.settings.get("threads"))
        return self.workers or thread_count(None)

    def plan(self) -> str:
        """What it will take, a line each."""
        known = {
            key: self.settings[key]
            for key in ("query_block", "in_flight", "engine")
            if key in self.settings
        }
        plan = plan_shards(self.queries, self.shards, self.k, workers=self.n_workers, **known)
        return "\n".join(f"{name:<14} {text}" for name, text in plan.lines())

    def sampled(self, size: int, seed: int) -> Sharded:
        """The same for a random sample of the queries."""
        import numpy as np

        matrix = matrix_of(self.queries, "queries")
        rows = sample_queries(matrix.shape[0], size, seed=seed)
        some = np.concatenate([matrix[row : row + 1] for row in rows])
        ids: Ids = IntegerIds(rows, rising=True)
        if self.query_ids is not None:
            ids = Ids.of(self.query_ids, what="query").take(rows)
        return replace(self, queries=some, query_ids=ids)

    def ranking(self) -> tuple[Ranking, Journal]:
        """Search; what was found, and what it took."""
        with opened(self.where, self.workers, self.settings, self.timings) as cluster:
            found = rank_shards(
                self.queries,
                self.shards,
                self.k,
                query_ids=self.query_ids,
                cluster=cluster,
                **self.how,
            )
            return found, cluster.journal

    def recall_of(self, run: str, size: int, seed: int) -> tuple[SampledRecall, Journal]:
        """How much another run finds of the exact neighbours of sampled queries."""
        approximate = read_run(run)
        with opened(self.where, self.workers, self.settings, self.timings) as cluster:
            found = sampled_recall(
                approximate,
                self.queries,
                self.shards,
                k=self.k,
                sample=size,
                seed=seed,
                metric=self.how["metric"],
                query_ids=self.query_ids,
                cluster=cluster,
            )
            return found, cluster.journal


@contextmanager
def opened(
    where: str | None,
    workers: int | None,
    settings: dict[str, Any],
    timings: str | None,
    what: str = "searching",
) -> Iterator[Cluster]:
    """A cluster with a bar; says at the end what a checkpoint saved, and writes the timings."""
    refuse_idle_workers(where, workers)
    chosen = {key: value for key, value in settings.items() if value is not None}
    if where in (None, "serial"):
        chosen["threads"] = thread_count(settings.get("threads"))
    with progress_bar(what) as progress:
        chosen["progress"] = progress
        with open_cluster(where or "serial", workers=workers, **chosen) as cluster:
            yield cluster
    if cluster.checkpoint is not None:
        output.narrate(f"{cluster.checkpoint}: {cluster.journal.resumption()}")
    if timings is not None:
        output.put(json.dumps(cluster.journal.to_dict(), indent=1), timings)
