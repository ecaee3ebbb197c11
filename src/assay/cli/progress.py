"""How far long work is: a bar on stderr where somebody watches, and the run that --save began."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from assay.core.text import printable

__all__ = ["Progress", "listener", "progress_bar"]

Progress = Callable[[int, int | None], None]

# Who else is told, beside the bar: a store that shows a running run to others.
listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


@contextmanager
def progress_bar(what: str) -> Iterator[Progress | None]:
    """Gives a function to call with (done, total), or None where nobody listens."""
    heard = listener.get()
    with _bar(what) as drawn:
        yield _both(drawn, heard) if drawn and heard else drawn or heard


def _both(first: Progress, second: Progress) -> Progress:
    def tell(done: int, total: int | None) -> None:
        first(done, total)
        second(done, total)

    return tell


@contextmanager
def _bar(what: str) -> Iterator[Progress | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task(printable(what), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
