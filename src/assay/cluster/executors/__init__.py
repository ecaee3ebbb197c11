"""Where blocks run: one file for each executor, all of one behaviour."""

from assay.cluster.executors.base import Executor
from assay.cluster.executors.local import SerialExecutor, ThreadExecutor
from assay.cluster.executors.ray import RayExecutor

__all__ = ["Executor", "RayExecutor", "SerialExecutor", "ThreadExecutor"]
