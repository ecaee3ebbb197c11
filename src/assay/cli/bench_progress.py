"""Progress of a bench: on a terminal a bar for each contestant, for others how far all are."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from assay.cli.progress import Progress as Listener
from assay.cli.progress import listener
from assay.report.tables import printable

if TYPE_CHECKING:
    from assay.tasks.bench_search import Watch

__all__ = ["bench_bars"]


@contextmanager
def bench_bars(contestants: int = 0) -> Iterator[Watch | None]:
    """Gives what a bench calls while it works, or None where nobody listens.

    With the number of contestants, the run that --save began says how far all of them are.
    """
    heard = listener.get()
    share = _Share(heard, contestants).watch if heard and contestants else None
    with _terminal_bars() as drawn:
        yield _both(drawn, share) if drawn and share else drawn or share


def _both(first: Watch, second: Watch) -> Watch:
    def watch(what: str, done: int, total: int | None) -> None:
        first(what, done, total)
        second(what, done, total)

    return watch


class _Share:
    """How much of all contestants is done, in percent; it never goes back."""

    def __init__(self, heard: Listener, contestants: int) -> None:
        self._heard = heard
        self._contestants = contestants
        self._parts: dict[str, float] = {}

    def watch(self, what: str, done: int, total: int | None) -> None:
        name = what.rpartition(": ")[0]
        part = max(done / total if total else 0.0, self._parts.get(name, 0.0))
        self._parts = dict.fromkeys(self._parts, 1.0) | {name: part}  # one after the other
        self._heard(int(100 * sum(self._parts.values()) / self._contestants), 100)


@contextmanager
def _terminal_bars() -> Iterator[Watch | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True, highlight=False)
    bar = Progress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.fields[name]}", table_column=None),
        BarColumn(24),
        TextColumn("[dim]{task.fields[phase]}[/]"),
        console=console,
    )
    with bar:
        yield _Bars(bar).watch


class _Bars:
    """One line for each contestant; it is done when the next one begins."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task: Any = None
        self._name = ""
        self._began = 0.0

    def watch(self, what: str, done: int, total: int | None) -> None:
        name, _, phase = what.rpartition(": ")
        if name != self._name:
            self._name, self._began = name, time.perf_counter()
            self._task = self._bar.add_task("", total=None, name=printable(name), phase="")
        if phase == "searching" and total is not None:
            spent = f"{time.perf_counter() - self._began:.1f} s"
            self._bar.update(self._task, completed=1, total=1, phase=spent)
            return
        self._bar.update(self._task, completed=done, total=total, phase=phase)
