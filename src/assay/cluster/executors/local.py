"""Executors in this process: SerialExecutor, and ThreadExecutor (kernels release the GIL)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count, takewhile
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

from assay.cluster.executors.base import Executor, Handle, Receipt, Ticket, call
from assay.core.checks import thread_count
from assay.errors import ClusterError
from assay.search.engine.workers import start_thread

_LONGEST_SLEEP: Final = 0.02  # seconds


class ThreadExecutor(Executor):
    """Runs tasks in `workers` threads, by default one for each core.

    Whoever waits does so by sleeping: Ctrl-C can leave no lock held.

    >>> with ThreadExecutor(2) as executor:
    ...     sorted(executor.map(pow, [(2, 3), (3, 2)]))
    [(0, 8), (1, 9)]
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = thread_count(workers)
        self._numbers = count()
        self._waiting: SimpleQueue[tuple[int, Callable[..., Any], tuple[Any, ...]] | None]
        self._waiting = SimpleQueue()
        self._ended: dict[int, tuple[Any, Receipt]] = {}
        threads = (Thread(target=self._work, daemon=True) for _ in range(self.workers))
        self._threads = list(takewhile(start_thread, threads))
        self.workers = len(self._threads)
        if not self._threads:
            raise ClusterError(
                "The system gives no thread to this process. End some others, or raise the limit "
                "of processes (ulimit -u)."
            )

    def _work(self) -> None:
        while (task := self._waiting.get()) is not None:
            number, function, arguments = task
            self._ended[number] = call(function, *arguments)

    def put(self, value: Any) -> Handle:
        """The value itself."""
        return value

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Ticket:
        """Queue the task."""
        number = next(self._numbers)
        self._waiting.put((number, function, arguments))
        return Ticket(number, None, None)

    def wait(self, tickets: Sequence[Ticket]) -> list[tuple[Ticket, Receipt]]:
        """Tasks that have ended."""
        start = time.monotonic()
        while not (ended := [ticket for ticket in tickets if ticket.number in self._ended]):
            time.sleep(min(_LONGEST_SLEEP, 0.0002 + (time.monotonic() - start) / 50))
        return [(ticket, self._ended[ticket.number][1]) for ticket in ended]

    def result(self, ticket: Ticket) -> Handle:
        """The value itself."""
        return self._ended.pop(ticket.number)[0]

    def fetch(self, handle: Handle) -> Any:
        """The value itself."""
        return handle

    def close(self) -> None:
        """Drop what is queued; what runs comes to its end."""
        try:
            while True:
                self._waiting.get_nowait()
        except Empty:
            for _ in self._threads:
                self._waiting.put(None)
        for thread in self._threads:
            thread.join()


class SerialExecutor(Executor):
    """Runs a task when it is handed in.

    >>> with SerialExecutor() as executor:
    ...     sorted(executor.map(pow, [(2, 3), (3, 2)]))
    [(0, 8), (1, 9)]
    """

    workers = 1

    def __init__(self) -> None:
        self._numbers = count()

    def put(self, value: Any) -> Handle:
        """The value itself."""
        return value

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Ticket:
        """Run the task."""
        return Ticket(next(self._numbers), *call(function, *arguments))

    def wait(self, tickets: Sequence[Ticket]) -> list[tuple[Ticket, Receipt]]:
        """All tasks: they have ended."""
        return [(ticket, ticket.receipt) for ticket in tickets]

    def result(self, ticket: Ticket) -> Handle:
        """The value itself."""
        return ticket.value

    def fetch(self, handle: Handle) -> Any:
        """The value itself."""
        return handle

    def close(self) -> None:
        """Nothing waits."""
