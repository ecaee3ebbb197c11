"""How far long work is: bars on stderr where somebody watches, and the run that --save began.

Each function gives what the work is to call, or None where nobody listens. `listener` is another
one to call: `Saving.listener` lets readers of the store see how far a run is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from assay.core.text import printable

if TYPE_CHECKING:
    from assay.tasks.bench import BenchProgress

__all__ = ["Listener", "progress_bar", "status_line", "system_bars"]

Listener = Callable[[int, int | None], None]
StepListener = Callable[[str, int, int | None], None]


@contextmanager
def progress_bar(what: str, listener: Listener | None = None) -> Iterator[Listener | None]:
    """One bar; to be called with (done, total)."""
    with _draw_bar(what) as drawn:
        yield _call_both(drawn, listener) if drawn and listener else drawn or listener


def _call_both(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    def tell(*progress: Any) -> None:
        first(*progress)
        second(*progress)

    return tell


@contextmanager
def _draw_bar(what: str) -> Iterator[Listener | None]:
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


@contextmanager
def status_line(first: str) -> Iterator[StepListener | None]:
    """One line that says what is being done; to be called with (step, done, total)."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.text import Text

    def words(step: str, done: int, total: int | None) -> Text:
        return Text(printable(f"{step}: {100 * done / total:.0f} %" if total else f"{step} …"))

    with Console(stderr=True).status(Text(f"{first} …")) as status:
        yield lambda step, done, total: status.update(words(step, done, total))


@contextmanager
def system_bars(
    n_systems: int = 0, listener: Callable[..., None] | None = None
) -> Iterator[BenchProgress | None]:
    """A bar for each system of a bench; the listener gets the share of all of them."""
    share = _Share(listener, n_systems).tell if listener and n_systems else None
    with _draw_system_bars() as drawn:
        yield _call_both(drawn, share) if drawn and share else drawn or share


class _Share:
    """How much of all systems is done, in percent; it never goes back."""

    def __init__(self, listener: Callable[..., None], n_systems: int) -> None:
        self._listener = listener
        self._n_systems = n_systems
        self._parts: dict[str, float] = {}

    def tell(self, name: str, phase: str, done: int, total: int | None) -> None:
        part = max(done / total if total else 0.0, self._parts.get(name, 0.0))
        self._parts = dict.fromkeys(self._parts, 1.0) | {name: part}  # one after the other
        share = int(100 * sum(self._parts.values()) / self._n_systems)
        self._listener(share, 100, f"{name}: {phase}")


@contextmanager
def _draw_system_bars() -> Iterator[BenchProgress | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    bar = Progress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.fields[name]}", table_column=None),
        BarColumn(24),
        TextColumn("[dim]{task.fields[phase]}[/]"),
        console=Console(stderr=True, highlight=False),
    )
    with bar:
        yield _SystemBars(bar).tell


class _SystemBars:
    """One line for each system; it is done when the next one begins."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task: Any = None
        self._name = ""
        self._began = 0.0

    def tell(self, name: str, phase: str, done: int, total: int | None) -> None:
        if name != self._name:
            self._name, self._began = name, time.perf_counter()
            self._task = self._bar.add_task("", total=None, name=printable(name), phase="")
        if phase == "searching" and total is not None:
            spent = f"{time.perf_counter() - self._began:.1f} s"
            self._bar.update(self._task, completed=1, total=1, phase=spent)
            return
        self._bar.update(self._task, completed=done, total=total, phase=phase)
