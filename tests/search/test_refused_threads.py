"""Where the system gives no thread, the work is done by those there are."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread

import pytest

from assay.cluster.executors import ThreadExecutor
from assay.errors import ClusterError
from assay.search.engine.workers import run


@pytest.fixture(params=[0, 1])
def few_threads(request, monkeypatch):
    """So many threads start, and no more."""
    given = iter(range(request.param))
    start = Thread.start

    def refuse(self):
        if next(given, None) is None:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(Thread, "start", refuse)
    return request.param


def test_tasks_run_with_what_there_is(few_threads):
    done = []
    run([lambda control, n=n: done.append(n) for n in range(20)], threads=4)
    assert sorted(done) == list(range(20))


def test_an_error_in_a_task_is_raised_without_threads(few_threads):
    def fail(control):
        raise KeyError("x")

    with pytest.raises(KeyError):
        run([fail], threads=4)


def test_an_executor_without_any_thread_is_refused(few_threads):
    if few_threads == 0:
        with pytest.raises(ClusterError, match="ulimit -u"):
            ThreadExecutor(3)
    else:
        with ThreadExecutor(3) as executor:
            assert executor.workers == 1
            assert sorted(executor.map(pow, [(2, 3), (3, 2)])) == [(0, 8), (1, 9)]


KERNEL = """
import os, resource, numpy as np
from assay.native import kernels
rows = np.arange(400_001, dtype=np.int64)
scores = np.tile([3.0, 1.0, 2.0, 1.0], 100_000)
offsets = np.arange(0, 400_001, 4)
kernels().order_rows(offsets[:3], scores[:8], None)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
os.setgid(65534); os.setuid(65534)
print(kernels().order_rows(offsets, scores, None)[:4].tolist())
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="drops privileges")
def test_kernels_work_without_threads():
    done = subprocess.run(
        [sys.executable, "-c", KERNEL], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("[0, 2, 1, 3]\n", 0), done.stderr
