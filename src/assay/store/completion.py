"""Runs of the store and their names, for completion in a shell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def _offer(attribute: str) -> Callable[[click.Context], Iterator[str]]:
    def offer(context: click.Context) -> Iterator[str]:
        for summary in _summaries(context):
            value: Any = getattr(summary, attribute)
            yield from value if isinstance(value, tuple) else [value]

    return offer


def offer_runs(context: click.Context) -> Iterator[str]:
    """Yield the numbers of runs, each with its name and dataset behind a tab."""
    for summary in _summaries(context):
        yield f"{summary.id}\t{summary.name} {summary.dataset}"


# Each yields what the runs of the store have.
offer_datasets = _offer("dataset")
offer_tags = _offer("tags")
offer_tasks = _offer("task")
offer_names = _offer("name")
