"""Run blocks of work: serially, in threads or on Ray, all of one behaviour.

An executor runs functions that can be pickled by name. Values stay where they were made: a task
gives a handle, which later tasks take as an argument, and only `fetch` brings a value here.
"""

from __future__ import annotations

import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, takewhile
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, NamedTuple

from assay import errors
from assay.core import checks
from assay.core.checks import thread_count
from assay.errors import AssayError, ClusterError
from assay.search.engine.workers import start_thread

Handle = Any  # of a value: the value itself, or its place in the cluster


class Receipt(NamedTuple):
    """Tell of a finished task: how long it took, where, the size of its value."""

    seconds: float
    n_bytes: int
    worker: str
    fault: tuple[str, str] | None = None  # kind and message of what went wrong

    def check(self) -> None:
        """Raise what the task raised."""
        if self.fault is None:
            return
        kind, message = self.fault
        cls = getattr(errors, kind, None)
        if isinstance(cls, type) and issubclass(cls, AssayError):
            error = cls.__new__(cls)  # the message is complete: nothing is to be added
            error.args = (message,)
            raise error
        if kind == "MemoryError":
            raise MemoryError(message)
        raise ClusterError(f"A task failed on {self.worker} with {kind}: {message}")


class Ticket(NamedTuple):
    """Stand for a task that was handed in."""

    number: int
    value: Handle
    receipt: Handle


class Executor(ABC):
    """Run tasks on `workers` workers; `map` is all that most callers need.

    Example:
        >>> with ThreadExecutor(2) as executor:
        ...     isinstance(executor, Executor)
        True
    """

    workers: int

    def put(self, value: Any) -> Handle:
        """Bring a value to where tasks can read it: here, unless workers are elsewhere."""
        return value

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Ticket:
        """Hand in a task; handles among its arguments become their values."""

    @abstractmethod
    def wait(self, tickets: Sequence[Ticket]) -> list[tuple[Ticket, Receipt]]:
        """Return some tasks that have ended, at least one."""

    def result(self, ticket: Ticket) -> Handle:
        """Return the handle of the value of a task that has ended."""
        return ticket.value

    def fetch(self, handle: Handle) -> Any:
        """Return the value of a handle."""
        return handle

    @abstractmethod
    def close(self) -> None:
        """Drop what is queued, and release the workers."""

    def map(
        self,
        function: Callable[..., Any],
        tasks: Iterable[tuple[Any, ...]],
        *,
        in_flight: int | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Call the function with each tuple of arguments: (number of the task, value), as they end.

        No more than `in_flight` tasks are handed in at a time, by default two for each worker.
        """
        most = checks.check_cutoff(in_flight or 2 * self.workers, "in_flight")
        waiting = enumerate(tasks)
        running: dict[int, tuple[int, Ticket]] = {}
        while True:
            while len(running) < most and (task := next(waiting, None)) is not None:
                ticket = self.submit(function, *task[1])
                running[ticket.number] = task[0], ticket
            if not running:
                return
            for ticket, receipt in self.wait([held for _, held in running.values()]):
                number, _ = running.pop(ticket.number)
                receipt.check()
                yield number, self.fetch(self.result(ticket))

    def __enter__(self) -> Executor:
        """Use the executor for a while."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def call(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Receipt]:
    """Return the value of a call and its receipt; an error becomes part of the receipt."""
    start = time.perf_counter()
    value, fault = None, None
    try:
        value = function(*arguments)
    except Exception as error:  # it is raised again in the process that waits for the task
        fault = type(error).__name__, str(error)
    seconds = time.perf_counter() - start
    return value, Receipt(seconds, int(getattr(value, "n_bytes", 0)), worker_name(), fault)


def worker_name() -> str:
    """Name the machine and the process that this runs in."""
    return f"{socket.gethostname()}:{os.getpid()}"


_LONGEST_SLEEP: Final = 0.02  # seconds


class ThreadExecutor(Executor):
    """Run tasks in threads of this process; kernels release the GIL.

    Whoever waits does so by sleeping: Ctrl-C can leave no lock held.

    Args:
        workers: Number of threads, by default one for each core.

    Raises:
        ClusterError: The system gives no thread.

    Example:
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
            raise ClusterError("No thread available. End other processes, or raise ulimit -u.")

    def _work(self) -> None:
        while (task := self._waiting.get()) is not None:
            number, function, arguments = task
            self._ended[number] = call(function, *arguments)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Ticket:
        """Queue the task."""
        number = next(self._numbers)
        self._waiting.put((number, function, arguments))
        return Ticket(number, None, None)

    def wait(self, tickets: Sequence[Ticket]) -> list[tuple[Ticket, Receipt]]:
        """Return tasks that have ended."""
        start = time.monotonic()
        while not (ended := [ticket for ticket in tickets if ticket.number in self._ended]):
            time.sleep(min(_LONGEST_SLEEP, 0.0002 + (time.monotonic() - start) / 50))
        return [(ticket, self._ended[ticket.number][1]) for ticket in ended]

    def result(self, ticket: Ticket) -> Handle:
        """Return the value."""
        return self._ended.pop(ticket.number)[0]

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
    """Run a task when it is handed in.

    Example:
        >>> with SerialExecutor() as executor:
        ...     sorted(executor.map(pow, [(2, 3), (3, 2)]))
        [(0, 8), (1, 9)]
    """

    workers = 1

    def __init__(self) -> None:
        self._numbers = count()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Ticket:
        """Run the task."""
        return Ticket(next(self._numbers), *call(function, *arguments))

    def wait(self, tickets: Sequence[Ticket]) -> list[tuple[Ticket, Receipt]]:
        """Return all tasks: they have ended."""
        return [(ticket, ticket.receipt) for ticket in tickets]

    def close(self) -> None:
        """Do nothing: nothing waits."""
