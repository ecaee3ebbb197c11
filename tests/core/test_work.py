"""Parsing that threads do not disturb."""

from __future__ import annotations

import gc
import sys
from threading import Thread

import numpy as np
import pytest

from assay.compat.ir_measures import parse_measure
from assay.core.ids import Ids
from assay.core.work import parse_python
from assay.io.arrays import load_npy
from assay.io.collections import read_answers


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
