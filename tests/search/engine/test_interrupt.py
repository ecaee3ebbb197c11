"""Ctrl-C and exceptions end a search soon, and reach the caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from assay.search.engine import rank, target_ranks
from assay.search.engine.workers import run
from tests.waiting import PATIENCE

_LONG_SEARCH = """
import sys
import numpy as np
from assay.search.engine import rank, target_ranks

engine, work = sys.argv[1:]
rng = np.random.default_rng(0)
queries = rng.standard_normal((2000, 32)).astype(np.float32)
docs = rng.standard_normal((20_000, 32)).astype(np.float32)
if work == "duplicates":
    docs[:] = docs[0]

def endless():
    while True:
        yield docs

def progress(done, total):
    print("running", done, total, flush=True)

try:
    if work == "targets":
        queries = np.concatenate([queries] * 50)
        targets = np.arange(len(queries)) % len(docs)
        target_ranks(queries, [docs] * 4, targets, engine=engine, progress=progress)
    else:
        rank(queries, endless(), 500, engine=engine, progress=progress)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("work", ["best", "duplicates", "targets"])
def test_ctrl_c_ends_a_long_search(work, engine):
    command = [sys.executable, "-c", _LONG_SEARCH, engine, work]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as search:
        try:
            assert search.stdout is not None
            first = search.stdout.readline()
            search.send_signal(signal.SIGINT)
            *lines, last = [first, *search.stdout.read().splitlines()]
            assert search.wait(PATIENCE) == 0
        finally:
            search.kill()
    assert last == "interrupted"
    _, done, total = lines[-1].split()
    assert total == "None" or int(done) < int(total), "it went on to the end"


class EnoughError(Exception):
    """Raised by a progress callback."""


def test_an_exception_of_the_callback_stops_the_search(engine):
    queries, docs = np.random.default_rng(0).standard_normal((2, 50, 8)).astype(np.float32)
    calls = []

    def progress(done, total):
        calls.append((done, total))
        raise EnoughError

    with pytest.raises(EnoughError):
        rank(queries, docs, 3, engine=engine, progress=progress)
    with pytest.raises(EnoughError):
        rank(queries, iter([docs] * 3), 3, engine=engine, progress=progress)
    with pytest.raises(EnoughError):
        target_ranks(queries, docs, np.arange(50), engine=engine, progress=progress)
    assert [total for _, total in calls] == [2500, None, 2500]


def test_progress_ends_at_its_total(engine):
    queries, docs = np.random.default_rng(0).standard_normal((2, 90, 8)).astype(np.float32)
    for search in (
        lambda progress: rank(queries, docs, 3, engine=engine, progress=progress),
        lambda progress: target_ranks(
            queries, docs, np.arange(90), engine=engine, progress=progress
        ),
    ):
        calls: list[tuple[int, int | None]] = []
        search(lambda done, total, calls=calls: calls.append((done, total)))
        assert calls[-1] == (8100, 8100)
        assert calls == sorted(calls)


def test_an_exception_of_the_documents_reaches_the_caller(engine):
    docs = np.ones((5, 4), np.float32)

    def broken():
        yield docs
        raise EnoughError

    with pytest.raises(EnoughError):
        rank(docs, broken(), 2, engine=engine)


def test_an_exception_of_one_task_stops_the_others():
    stopped = []

    def fails(control):
        raise EnoughError

    def waits(control):
        while not control.stop[0]:
            pass
        stopped.append(True)

    with pytest.raises(EnoughError):
        run([waits, fails], threads=2)
    assert stopped == [True]


def test_progress_never_goes_back_where_a_search_begins_again(monkeypatch):
    """Stored rows that turn out to need measuring are searched a second time."""
    engine = sys.modules["assay.search.engine.search"]
    whole = engine.search_measured

    def begin_again(ready, k, tops, progress):
        progress(1, ready.total)
        return whole(ready, k, tops, progress)

    monkeypatch.setattr(engine, "search_raw", _give_up_halfway)
    monkeypatch.setattr(engine, "search_measured", begin_again)
    docs = np.random.default_rng(3).standard_normal((5000, 32)).astype(np.float32)
    steps = []
    found = rank(docs[:2], docs, 5, progress=lambda done, total: steps.append((done, total)))
    assert steps[:2] == [(5000, 10000), (5000, 10000)]
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1] == (10000, 10000)
    assert found.docs[[0, 5]].tolist() == [0, 1]


def _give_up_halfway(ready, queries, tops, progress):
    progress(ready.total // 2, ready.total)
    return False
