"""Runs of the store and their names, for completion in a shell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from assay import store

if TYPE_CHECKING:
    import click

    from assay.store.summaries import RunSummary


def _summaries(context: click.Context) -> list[RunSummary]:
    """Return the runs of the store; none where there is no store to read."""
    with suppress(Exception), store.open(context.params.get("store"), create=False) as opened:
        return opened.summaries()
    return []


def _offer(context: click.Context, attribute: str) -> Iterator[str]:
    for summary in _summaries(context):
        value: Any = getattr(summary, attribute)
        yield from value if isinstance(value, tuple) else [value]


def offer_runs(context: click.Context) -> Iterator[str]:
    """Yield the numbers of runs, each with its name and dataset behind a tab."""
    for summary in _summaries(context):
        yield f"{summary.id}\t{summary.name} {summary.dataset}"


def offer_datasets(context: click.Context) -> Iterator[str]:
    """Yield the datasets of the runs."""
    return _offer(context, "dataset")


def offer_tags(context: click.Context) -> Iterator[str]:
    """Yield the tags of the runs."""
    return _offer(context, "tags")


def offer_tasks(context: click.Context) -> Iterator[str]:
    """Yield the tasks of the runs."""
    return _offer(context, "task")


def offer_names(context: click.Context) -> Iterator[str]:
    """Yield the names of the runs."""
    return _offer(context, "name")
