"""How far long work is, on stderr: a bar on a terminal, elsewhere a line every ten seconds.

Nothing is shown of work that takes less than a second, or with --quiet. Each function gives what
the work is to call; `listener` is another one to call: `Saving.listener` lets readers of the store
see how far a run is.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final

import click

from assay.core.text import printable
from assay.core.work import describe_progress, listening, tell

Listener = Callable[[int, int | None], None]

_DISPLAY: Final = "assay.display"
_SOON: Final = 1.0  # seconds after which somebody wants to know
_OFTEN: Final = 0.1  # on a terminal
_SELDOM: Final = 10.0  # elsewhere


@contextmanager
def showing_progress(context: click.Context) -> Iterator[None]:
    """Show the progress of a command, unless it is quiet."""
    display = Display(sys.stderr.isatty(), lambda: bool(context.meta.get("assay.quiet")))
    context.meta[_DISPLAY] = display
    with listening(display.tell):
        try:
            yield
        finally:
            display.close()


def clear_progress() -> None:
    """Remove the bar from the terminal before other output."""
    context = click.get_current_context(silent=True)
    if context is not None and _DISPLAY in context.meta:
        context.meta[_DISPLAY].close()


class Display:
    """One line for what is being done now; it appears once the work takes long."""

    def __init__(self, on_terminal: bool, is_quiet: Callable[[], bool]) -> None:
        self._on_terminal, self._is_quiet = on_terminal, is_quiet
        self._began = time.monotonic()
        self._next = self._began + (_SOON if on_terminal else _SELDOM)
        self._what = ""
        self._since = (self._began, 0)
        self.bar: Any = None

    def tell(self, what: str, done: int, total: int | None) -> None:
        """Show how far the work is, if it is time to."""
        now = time.monotonic()
        if what != self._what or done < self._since[1]:
            self._what, self._since = what, (now, done)
        if now < self._next or self._is_quiet():
            return
        self._next = now + (_OFTEN if self._on_terminal else _SELDOM)
        words = describe_progress(done, total, self._seconds(now, done))
        if self._on_terminal:
            self._draw(what, done, total, words)
        else:
            line = f"{what}: {words}" if words else what
            print(printable(line), file=sys.stderr, flush=True)

    def _seconds(self, now: float, done: int) -> float:
        """Return the time that all of it would have taken at the present rate."""
        since, first = self._since
        return (now - since) * done / (done - first) if done > first else 0.0

    def _draw(self, what: str, done: int, total: int | None, words: str) -> None:
        if self.bar is None:
            self.bar = _make_bar()
            self._task = self.bar.add_task("", total=None, what="", words="")
            self.bar.start()
        line = {"what": printable(what), "words": words}
        self.bar.update(self._task, completed=done, total=total, **line)

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def _make_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.fields[what]}", markup=False),
        BarColumn(24),
        TextColumn("{task.fields[words]}", style="dim", markup=False),
    )
    return Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)


@contextmanager
def reserve_stdout() -> Iterator[None]:
    """Send what models and libraries print to stderr: stdout is for the result."""
    if click.get_current_context(silent=True) is None:
        yield
        return
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(before, 1)
        os.close(before)


@contextmanager
def progress_bar(what: str, listener: Callable[..., None] | None = None) -> Iterator[Listener]:
    """Give what work of one step calls with (done, total); the listener hears `what`, too."""

    def heard(done: int, total: int | None) -> None:
        tell(what, done, total)
        if listener is not None:
            listener(done, total, what)

    with reserve_stdout():
        yield heard
