"""Values that one thread computes and all have."""

from __future__ import annotations

import sys
from functools import partial
from threading import Barrier, Thread

import pytest

from assay.vision.scenes import Once


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
