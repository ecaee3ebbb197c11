"""An upgrade that kills its own process: python -m tests.store.upgrade_driver PLACE COUNT...

One process loads the program and forks one child for each count; the child opens the store and dies
by SIGKILL just before it executes the statement of that number, or before it commits.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sqlalchemy import Engine, event

import assay.store
from tests.store.next_schema import add_revision


def open_and_die(place: str, count: int) -> None:
    """Open the store; the statement of this number is never executed."""
    seen = 0

    @event.listens_for(Engine, "before_cursor_execute")
    def count_statement(*_: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            os.kill(os.getpid(), signal.SIGKILL)

    @event.listens_for(Engine, "commit")
    def count_commit(_: Any) -> None:
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    assay.store.open(place).close()


def main(place: str, counts: list[int]) -> None:
    """Print how many of the children were killed."""
    add_revision()
    killed = 0
    for count in counts:
        child = os.fork()
        if not child:
            try:
                open_and_die(place, count)
            finally:
                os._exit(0)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(killed)


if __name__ == "__main__":
    main(sys.argv[1], list(map(int, sys.argv[2:])))
