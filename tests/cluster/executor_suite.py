"""What every executor does; each is put to the same tests."""

from __future__ import annotations

import re

import numpy as np
import pytest

from assay.cluster import Executor
from assay.errors import ClusterError, MissingPackageError, ShapeError, UsageError, install_command
from tests.cluster import tasks


class ExecutorSuite:
    """Tests of an executor, which the fixture `executor` gives."""

    def test_maps_every_task_once(self, executor: Executor):
        found = sorted(executor.map(tasks.squared, ((number,) for number in range(20))))
        assert found == [(number, number * number) for number in range(20)]

    def test_maps_nothing(self, executor: Executor):
        assert list(executor.map(tasks.squared, [])) == []

    def test_takes_tasks_only_as_it_needs_them(self, executor: Executor):
        """Back-pressure: no more are handed in than are allowed to be there."""
        taken = []

        def source():
            for number in range(50):
                taken.append(number)
                yield (number,)

        results = executor.map(tasks.squared, source(), in_flight=3)
        assert taken == []
        for done, _ in enumerate(results, 1):
            assert len(taken) <= done + 3

    def test_a_handle_is_an_argument(self, executor: Executor):
        here = executor.put(np.arange(5.0))
        made = executor.submit(tasks.ones, 100_000)
        ((ended, receipt),) = executor.wait([made])
        receipt.check()
        both = executor.submit(tasks.total, here, executor.result(ended))
        ((ended, receipt),) = executor.wait([both])
        assert executor.fetch(executor.result(ended)) == 10 + 100_000

    def test_a_receipt_tells_time_and_place(self, executor: Executor):
        ((_, receipt),) = executor.wait([executor.submit(tasks.squared, 3)])
        assert receipt.seconds >= 0
        assert receipt.fault is None
        assert ":" in receipt.worker

    def test_our_errors_come_back_as_they_are(self, executor: Executor):
        with pytest.raises(ShapeError, match=r"^x has no shape\.$"):
            list(executor.map(tasks.refuse, [("x",)]))
        with pytest.raises(MissingPackageError, match=re.escape(install_command("none"))):
            list(executor.map(tasks.lack, [()]))

    def test_other_errors_tell_where_they_happened(self, executor: Executor):
        with pytest.raises(ClusterError, match="RuntimeError: odd"):
            list(executor.map(tasks.crash, [()]))

    def test_works_after_an_error(self, executor: Executor):
        with pytest.raises(ShapeError):
            list(executor.map(tasks.refuse, [("x",)] * 5))
        assert list(executor.map(tasks.squared, [(4,)])) == [(0, 16)]

    @pytest.mark.parametrize("in_flight", [-1, 2.5])
    def test_a_wrong_number_in_flight(self, executor: Executor, in_flight):
        with pytest.raises(UsageError, match="in_flight"):
            list(executor.map(tasks.squared, [(1,)], in_flight=in_flight))
