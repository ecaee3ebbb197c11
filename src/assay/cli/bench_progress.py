"""Progress of a bench on a terminal: a bar for each contestant, a tick when it is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from assay.report.tables import printable

if TYPE_CHECKING:
    from assay.tasks.bench_search import Watch

__all__ = ["bench_bars"]


@contextmanager
def bench_bars() -> Iterator[Watch | None]:
    """Gives what a bench calls while it works, or None where there is no terminal."""
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
