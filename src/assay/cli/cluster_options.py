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
from assay.cli.settings import option
from assay.core.on_demand import OnDemand
from assay.plugins import find_hook

if TYPE_CHECKING:
    from assay.core.checks import thread_count
    from assay.core.consent import Consent
else:
    thread_count = OnDemand("assay.core.checks").thread_count


def cluster_options(words: str) -> Callable[[Decorated], Decorated]:
    """--cluster and --workers; `words` say in the help what --cluster is for."""
    return options.add_options(
        option(
            "--cluster",
            "where",
            metavar="WHERE",
            help=words,
            section="Machines",
            allow="assay.cli.cluster_options:allow_cluster",
        ),
        option(
            "--workers",
            type=click.IntRange(min=1),
            metavar="N",
            help="With --cluster: number of workers. [all cores]",
            section="Machines",
        ),
    )


def allow_cluster(
    values: list[str], params: Mapping[str, Any], consent: Consent, place: str
) -> None:
    """Refuse a cluster elsewhere that a stored command names, without consent."""
    for where in values:
        if where not in ("serial", "threads", "auto", "local"):
            consent.check_code(f"the cluster {where!r}", place)


def refuse_idle_workers(where: str | None, workers: int | None) -> None:
    """Reject --workers without --cluster."""
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
) -> Iterator[Any]:
    """A cluster with a bar; says at the end what a checkpoint saved, and writes the timings.

    Without an address, blocks run in this process. `settings` are those of `Cluster`.
    """
    refuse_idle_workers(where, workers)
    options = {key: value for key, value in (settings or {}).items() if value is not None}
    if where in (None, "serial"):
        options["threads"] = thread_count(options.get("threads"))
    with progress_bar(what, listener) as progress:
        options["progress"] = progress
        with find_hook("open_cluster")(where or "serial", workers=workers, **options) as cluster:
            yield cluster
    if cluster.checkpoint is not None:
        output.narrate(f"{cluster.checkpoint}: {cluster.journal.resumption()}")
    if timings is not None:
        output.put(json.dumps(cluster.journal.to_dict(), indent=1), timings)
