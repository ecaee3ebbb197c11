"""Options of clusters, and a cluster with a progress bar: for rank, encode and bench."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.options import Decorated
from assay.cli.progress import Listener, progress_bar
from assay.cluster import open_cluster
from assay.search.engine.workers import thread_count

if TYPE_CHECKING:
    from assay.cluster import Cluster

__all__ = ["cluster_options", "open_cluster_with_bar", "refuse_idle_workers"]


def cluster_options(words: str) -> Callable[[Decorated], Decorated]:
    """--cluster and --workers; `words` say in the help what --cluster is for."""
    return options.add_options(
        click.option("--cluster", "where", metavar="WHERE", help=words),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            metavar="N",
            help="With --cluster: number of workers. [all cores]",
        ),
    )


def refuse_idle_workers(where: str | None, workers: int | None) -> None:
    """Workers are those of a cluster."""
    if where is None and workers is not None:
        raise click.UsageError("--workers changes nothing without --cluster. Add it.")


@contextmanager
def open_cluster_with_bar(
    what: str,
    where: str | None,
    workers: int | None,
    *,
    timings: str | None = None,
    listener: Listener | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Cluster]:
    """A cluster with a bar; says at the end what a checkpoint saved, and writes the timings.

    Without an address, blocks run in this process. `settings` are those of `Cluster`.
    """
    refuse_idle_workers(where, workers)
    chosen = {key: value for key, value in (settings or {}).items() if value is not None}
    if where in (None, "serial"):
        chosen["threads"] = thread_count(chosen.get("threads"))
    with progress_bar(what, listener) as progress:
        chosen["progress"] = progress
        with open_cluster(where or "serial", workers=workers, **chosen) as cluster:
            yield cluster
    if cluster.checkpoint is not None:
        output.narrate(f"{cluster.checkpoint}: {cluster.journal.resumption()}")
    if timings is not None:
        output.put(json.dumps(cluster.journal.to_dict(), indent=1), timings)
