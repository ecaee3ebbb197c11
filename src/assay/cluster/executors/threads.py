"""ThreadExecutor: tasks in threads of this process; the kernels let each other run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import count
from typing import Any

from assay.cluster.executors.base import Executor, Handle, Receipt, Ticket, called
from assay.engine.workers import thread_count

__all__ = ["ThreadExecutor"]


class ThreadExecutor(Executor):
    """Runs tasks in `workers` threads, by default one for each core.

    >>> with ThreadExecutor(2) as executor:
    ...     sorted(executor.map(pow, [(2, 3), (3, 2)]))
    [(0, 8), (1, 9)]
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = thread_count(workers)
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="assay-block")
        self._numbers = count()

    def put(self, value: Any) -> Handle:
        """The value itself."""
        return value

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Ticket:
        """Queue the task."""
        future = self._pool.submit(called, function, *arguments)
        return Ticket(next(self._numbers), future, future)

    def wait(self, tickets: Sequence[Ticket]) -> list[tuple[Ticket, Receipt]]:
        """Tasks that have ended."""
        ended = wait([ticket.receipt for ticket in tickets], return_when=FIRST_COMPLETED).done
        return [(one, one.receipt.result()[1]) for one in tickets if one.receipt in ended]

    def result(self, ticket: Ticket) -> Handle:
        """The value itself."""
        return ticket.value.result()[0]

    def fetch(self, handle: Handle) -> Any:
        """The value itself."""
        return handle

    def close(self) -> None:
        """Drop what is queued; what runs comes to its end."""
        self._pool.shutdown(wait=True, cancel_futures=True)
