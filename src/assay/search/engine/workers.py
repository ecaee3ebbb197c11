"""Run kernels in threads, with progress and a prompt end on Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.core import checks

Progress = Callable[[int, int | None], object]

_LONGEST_SLEEP: Final = 0.05  # seconds
_COUNTING: Final = Lock()


class Control(NamedTuple):
    """Hold what a task shares with the thread that waits: a flag to stop, and units done."""

    stop: NDArray[np.int32]
    done: NDArray[np.int64]

    @classmethod
    def new(cls) -> Control:
        """Start with nothing done and no wish to stop."""
        return cls(np.zeros(1, np.int32), np.zeros(1, np.int64))

    def add(self, units: int) -> None:
        """Count work that was done."""
        with _COUNTING:
            self.done[0] += units


Task = Callable[[Control], None]


def only_forward(progress: Progress | None) -> Progress | None:
    """Keep progress from going back while work that was given up is done again."""
    if progress is None:
        return None
    checks.require(progress, Callable, "progress", "a function of (done, total)")
    most = 0

    def tell(done: int, total: int | None) -> None:
        nonlocal most
        most = max(most, done)
        progress(most, total)

    return tell


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
    This thread shares no lock with the others, so that Ctrl-C can never leave one held.
    """
    control = control or Control.new()
    waiting: SimpleQueue[Task] = SimpleQueue()
    for task in tasks:
        waiting.put(task)
    errors: list[BaseException] = []
    ended: list[bool] = []
    workers: list[Thread] = []
    try:
        for _ in range(min(checks.thread_count(threads), len(tasks))):
            worker = Thread(target=_work, args=(waiting, control, errors, ended), daemon=True)
            if not start_thread(worker):
                break
            workers.append(worker)
        if tasks and not workers:
            _work(waiting, control, errors, [])
        _watch(ended, len(workers), control, progress, total)
    except BaseException:
        control.stop[0] = 1
        raise
    finally:
        for worker in workers:
            worker.join()
    if errors:
        raise errors[0]
    if progress is not None:
        progress(int(control.done[0]), total)


def start_thread(thread: Thread) -> bool:
    """Start a thread; False where the system gives no more of them (`ulimit -u`)."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def _work(
    waiting: SimpleQueue[Task], control: Control, errors: list[BaseException], ended: list[bool]
) -> None:
    """Take one task after the other, until none is left or the search is stopped."""
    try:
        while not control.stop[0]:
            waiting.get_nowait()(control)
    except Empty:
        pass
    except BaseException as error:  # it is raised again in the thread that waits
        errors.append(error)
        control.stop[0] = 1
    ended.append(True)


def _watch(
    ended: list[bool], count: int, control: Control, progress: Progress | None, total: int | None
) -> None:
    """Wait by sleeping: an interrupted `Thread.join` takes a thread that still runs for ended."""
    start = time.monotonic()
    while len(ended) < count:
        time.sleep(min(_LONGEST_SLEEP, 0.0002 + (time.monotonic() - start) / 50))
        if progress is not None:
            progress(int(control.done[0]), total)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Hold BLAS at one thread: the tiles have threads of their own."""
    limits: AbstractContextManager[Any] = _pools().limit(limits=1, user_api="blas")
    return limits


@cache  # looking for the libraries takes longer than the search of a small block
def _pools() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
