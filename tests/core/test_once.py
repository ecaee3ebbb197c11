"""Values that one thread computes and all have."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from assay.core.once import Once


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
