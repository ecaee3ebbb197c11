"""--cluster and --workers, which are the same wherever work can leave this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["refuse_workers_alone", "where_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


def where_options(words: str) -> Callable[[Command], Command]:
    """Both options; `words` say in the help what --cluster is for."""

    def add(command: Command) -> Command:
        workers = click.option("--workers", type=click.IntRange(min=1), metavar="N",
                               help="With --cluster: how many workers. [all cores]")  # fmt: skip
        return click.option("--cluster", "where", metavar="WHERE", help=words)(workers(command))

    return add


def refuse_workers_alone(where: str | None, workers: int | None) -> None:
    """Workers are those of a cluster."""
    if where is None and workers is not None:
        raise click.UsageError("--workers changes nothing without --cluster. Add it.")
