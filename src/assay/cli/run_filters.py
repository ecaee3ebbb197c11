"""Options that choose runs of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["filter_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--task", metavar="NAME", help="Only this task: retrieval, …"),
    click.option("--dataset", metavar="NAME", help="Only this dataset."),
    click.option("--model", metavar="NAME", help="Only this model."),
    click.option("--name", metavar="NAME", help="Only runs of this name."),
    click.option("--tag", multiple=True, metavar="TAG", help="Only with all these tags."),
    click.option("--since", metavar="DATE", help="Only from this day on (UTC)."),
    click.option("--until", metavar="DATE", help="Only up to this day."),
)


def filter_options(command: Command) -> Command:
    """Which runs are meant: task, dataset, model, name, tag, since, until."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
