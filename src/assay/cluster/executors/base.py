"""Executor: where blocks of work run. Serial, threads and Ray are interchangeable.

An executor runs functions that can be pickled by name. Values stay where they were made: a task
gives a handle, which later tasks take as an argument, and only `fetch` brings a value here.
"""

from __future__ import annotations

import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from assay import errors
from assay.core import checks
from assay.errors import AssayError, ClusterError

Handle = Any  # of a value: the value itself, or its place in the cluster


class Receipt(NamedTuple):
    """What is known of a finished task: how long it took, where, the size of its value."""

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
    """A task that was handed in."""

    number: int
    value: Handle
    receipt: Handle


class Executor(ABC):
    """Runs tasks on `workers` workers; `map` is all that most callers need."""

    workers: int

    @abstractmethod
    def put(self, value: Any) -> Handle:
        """Bring a value to where tasks can read it."""

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Ticket:
        """Hand in a task; handles among its arguments become their values."""

    @abstractmethod
    def wait(self, tickets: Sequence[Ticket]) -> list[tuple[Ticket, Receipt]]:
        """Some tasks that have ended, at least one."""

    @abstractmethod
    def result(self, ticket: Ticket) -> Handle:
        """The handle of the value of a task that has ended."""

    @abstractmethod
    def fetch(self, handle: Handle) -> Any:
        """The value of a handle."""

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
    """The value of a call and its receipt; an error becomes part of the receipt."""
    start = time.perf_counter()
    value, fault = None, None
    try:
        value = function(*arguments)
    except Exception as error:  # it is raised again in the process that waits for the task
        fault = type(error).__name__, str(error)
    seconds = time.perf_counter() - start
    return value, Receipt(seconds, int(getattr(value, "n_bytes", 0)), worker_name(), fault)


def worker_name() -> str:
    """The machine and the process that this runs in."""
    return f"{socket.gethostname()}:{os.getpid()}"
