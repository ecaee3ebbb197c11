"""Writers that are killed, in processes of their own: python -m tests.store.crash_driver …

One process loads the program and forks the writers, so that a round takes little time. A writer
reports a run only after `save` has returned; whatever it reported must be there afterwards.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable

from sqlalchemy import create_engine

import assay.store
from assay import Scores
from assay.store.database import locate
from tests.store.places import make_scores, same_scores


def load_what_writers_need(place: str) -> None:
    """Once, before the forks: each writer would import it anew."""
    if (url := locate(place).url) is not None:
        create_engine(url)
    with tempfile.TemporaryDirectory() as folder, assay.store.open(f"{folder}/x.db") as store:
        store.save(scores_of(0), "x")
        store.run(1).scores()


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
    finally:
        os._exit(1)


def scores_of(seed: int) -> Scores:
    """What a run with this name holds: few queries or many.

    In between a bootstrap would take most of the time, and few kills would hit the storing.
    """
    return make_scores(seed, 6000 if seed % 3 == 0 else 5)


def write_until_killed(place: str, log: str, first: int, ready: int) -> None:
    """Save runs by both ways, without end; seed and number of a finished run go to the log."""
    report = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with assay.store.open(place) as store:
        os.write(ready, b"x")
        for seed in range(first, first + 10**6):
            scores = scores_of(seed)
            if seed % 2:
                number = store.save(scores, str(seed), tags=["saved"]).id
            else:
                with store.start_run(str(seed)) as run:
                    run.progress(1, 2)
                    run.save_part("half", scores)
                    run.set_result(scores)
                number = run.id
            os.write(report, f"{seed} {number}\n".encode())
            os.write(ready, b"x")


def check(place: str, log: str) -> int:
    """Everything that was reported is there, whatever else is there is whole or visibly not."""
    reported = {}
    if os.path.exists(log):
        with open(log, encoding="ascii") as lines:
            reported = {int(number): int(seed) for seed, number in map(str.split, lines)}
    with assay.store.open(place) as store:
        damages = store.damages()
        runs = {run.id: run for run in store.runs()}
        for run in runs.values():
            if run.status == "finished" and not same_scores(run.scores(), scores_of(int(run.name))):
                damages.append(f"run {run.id} has other values")
            if run.status == "running" and run.aggregates:
                damages.append(f"run {run.id} is half finished")
    whole = {(run.id, run.name) for run in runs.values() if run.status == "finished"}
    lost = [number for number, seed in reported.items() if (number, str(seed)) not in whole]
    if damages or lost:
        sys.exit(f"lost: {lost}, damages: {damages}")
    return len(reported)


def kill(place: str, log: str, rounds: int, seed: int) -> None:
    """Start a writer and kill it, again and again."""
    rng = random.Random(seed)
    pace = 0.02
    for number in range(rounds):
        heard, ready = os.pipe()
        child = _forked(lambda: write_until_killed(place, log, number * 10**6, ready))  # noqa: B023
        os.close(ready)
        wanted = rng.randrange(6)  # 0: it may die while it opens the store
        for _ in range(wanted):
            began = time.perf_counter()
            os.read(heard, 1)
            pace = time.perf_counter() - began
        select.select([], [], [], rng.uniform(0.0, 1.5 * pace))  # any moment is a good one
        os.kill(child, signal.SIGKILL)
        os.close(heard)
        os.waitpid(child, 0)
        if number % 10 == 9:
            check(place, log)
    print(check(place, log))


def write_together(place: str, log: str, writers: int, each: int) -> None:
    """Several writers at once, from the making of the store on, and a reader beside them."""
    gate, opened = os.pipe()
    heard, saved = os.pipe()

    def work(first: int) -> None:
        os.close(opened)
        os.read(gate, 1)  # all writers are there when it is closed
        with assay.store.open(place) as store:
            for seed in range(first, first + each):
                store.save(scores_of(seed), str(seed), tags=[f"writer {first}"])
                os.write(saved, b"x")
        os._exit(0)

    children = [_forked(lambda: work(number * 1000)) for number in range(writers)]  # noqa: B023
    os.close(opened)
    os.close(saved)
    _read_along(place, heard)
    codes = [os.waitpid(child, 0)[1] for child in children]
    if any(codes):
        sys.exit(f"exit codes of the writers: {codes}")
    check(place, log)
    with assay.store.open(place) as store:
        print(len(store))


def _read_along(place: str, heard: int) -> None:
    """Read while they write: the number of runs only grows, and every one of them is whole."""
    before = 0
    while os.read(heard, 1):  # until all writers have ended
        with assay.store.open(place, create=False, read_only=True) as store:
            for run in store.runs(limit=3):
                run.scores()
            if len(store) < before:
                sys.exit("a run has gone")
            before = len(store)


if __name__ == "__main__":
    what, where, report, *numbers = sys.argv[1:]
    load_what_writers_need(where)
    {"kill": kill, "together": write_together}[what](where, report, *map(int, numbers))
