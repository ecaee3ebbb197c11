"""The executors of one process."""

from __future__ import annotations

import pytest

from assay.cluster import SerialExecutor, ThreadExecutor
from tests.cluster.executor_suite import ExecutorSuite


class TestSerial(ExecutorSuite):
    @pytest.fixture
    def executor(self):
        with SerialExecutor() as executor:
            yield executor


class TestThreads(ExecutorSuite):
    @pytest.fixture
    def executor(self):
        with ThreadExecutor(3) as executor:
            yield executor
