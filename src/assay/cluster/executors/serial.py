"""SerialExecutor: one task after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from assay.cluster.executors.base import Executor, Handle, Receipt, Ticket, called

__all__ = ["SerialExecutor"]


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
        return Ticket(next(self._numbers), *called(function, *arguments))

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
