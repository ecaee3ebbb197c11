"""Threads for work that the kernels do, with progress and a prompt end on Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay import checks

__all__ = ["Control", "Progress", "Task", "run", "thread_count"]

Progress = Callable[[int, int | None], object]

_SECONDS_BETWEEN_LOOKS: Final = 0.05
_COUNTING: Final = Lock()
_MOST_THREADS: Final = 1024  # the answer is the same for any number; kernels count them in 32 bits


class Control(NamedTuple):
    """What a task shares with the thread that waits for it: a flag to stop, and units done."""

    stop: NDArray[np.int32]
    done: NDArray[np.int64]

    @classmethod
    def new(cls) -> Control:
        """Nothing done, no wish to stop."""
        return cls(np.zeros(1, np.int32), np.zeros(1, np.int64))

    def add(self, units: int) -> None:
        """Say that work was done."""
        with _COUNTING:
            self.done[0] += units


Task = Callable[[Control], None]


def thread_count(threads: int | None) -> int:
    """How many threads to use: all cores that this process may use, unless told otherwise."""
    if threads is not None:
        return min(checks.check_cutoff(threads, "threads"), _MOST_THREADS)
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def run(
    tasks: Sequence[Task],
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    total: int | None = None,
    control: Control | None = None,
) -> None:
    """Run tasks in threads; `progress(done, total)` is called from this thread.

    An exception in a task, in `progress`, or Ctrl-C stops the others within one block of work.
    """
    control = control or Control.new()
    with ThreadPoolExecutor(max_workers=thread_count(threads)) as pool:
        futures: list[Future[None]] = []
        try:
            futures.extend(pool.submit(task, control) for task in tasks)
            _wait_for(futures, control, progress, total)
        except BaseException:
            control.stop[0] = 1
            for future in futures:
                future.cancel()
            raise


def _wait_for(
    futures: list[Future[None]], control: Control, progress: Progress | None, total: int | None
) -> None:
    waiting = set(futures)
    while waiting:
        finished, waiting = wait(waiting, _SECONDS_BETWEEN_LOOKS, FIRST_EXCEPTION)
        for future in finished:
            future.result()
        if progress is not None:
            progress(int(control.done[0]), total)
