"""Values that one thread computes and all have; parsing that threads do not disturb."""

from __future__ import annotations

import gc
import sys
from functools import partial
from threading import Barrier, Thread

import numpy as np
import pytest

from assay.compat.ir_measures import parse_measure
from assay.core.ids import Ids
from assay.core.work import Once, parse_python
from assay.io.arrays import load_npy
from assay.io.collections import read_answers


def test_several_threads_compute_a_value_once():
    values, calls, start = Once(), [], Barrier(4)
    found = []

    def ask():
        start.wait()
        found.append(values.get("a", lambda: calls.append(1) or object()))

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert len(set(map(id, found))) == 1


def test_a_failure_is_tried_again_and_what_is_forgotten_computed_again():
    values = Once()
    with pytest.raises(ZeroDivisionError):
        values.get(1, lambda: 1 / 0)
    assert (values.get(1, lambda: "x"), values.get(2, lambda: "y")) == ("x", "y")
    values.forget(lambda key: key == 1)
    assert (values.get(1, lambda: "new"), values.get(2, lambda: "new")) == ("new", "y")


@pytest.mark.parametrize("turn", range(8))
def test_values_are_added_while_others_are_forgotten(turn):
    """Forgetting walks over all values, which no other thread may change then."""
    values, before = Once(), sys.getswitchinterval()
    sums = [partial(sum, range(key)) for key in range(400)]
    adding = [
        Thread(target=lambda: [values.get(key, one) for key, one in enumerate(sums)])
        for _ in range(3)
    ]
    sys.setswitchinterval(1e-6)
    try:
        for thread in adding:
            thread.start()
        while any(thread.is_alive() for thread in adding):
            values.forget(lambda key: key % 2 == 1)
    finally:
        sys.setswitchinterval(before)
        for thread in adding:
            thread.join()
    assert values.get(20, lambda: -1) == sum(range(20))


class Garbage:
    """Run Python code when it is collected, so that another thread may come in between."""

    def __init__(self):
        self.cycle = self

    def __del__(self):
        for _ in range(200):
            pass


@pytest.fixture
def disturbed():
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.parametrize("reader", ["npy", "answers", "measure"])
def test_threads_that_parse_side_by_side_do_not_disturb_each_other(reader, disturbed, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    (tmp_path / "a.csv").write_text("query,answers\nq1,\"['yes', 'no']\"\n")
    read = {
        "npy": lambda: load_npy(tmp_path / "a.npy").tolist(),
        "answers": lambda: read_answers(tmp_path / "a.csv", Ids.of(["q1"]), ["?"]),
        "measure": lambda: str(parse_measure("AP(rel=2)@100")),
    }[reader]
    expected, wrong = read(), []

    def repeat():
        for _ in range(100):
            Garbage()
            try:
                wrong.extend([value] if (value := read()) != expected else [])
            except Exception as error:
                wrong.append(error)

    def work(depth):  # the depth of the stack is what the interpreter confuses
        work(depth - 1) if depth else repeat()

    threads = [Thread(target=work, args=(5 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_parse_that_keeps_failing_says_so():
    calls = []

    def parse():
        calls.append(1)
        raise SystemError("depth")

    with pytest.raises(SystemError, match="depth"):
        parse_python(parse)
    assert len(calls) > 1
