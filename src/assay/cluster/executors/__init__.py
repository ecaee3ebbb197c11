"""Where blocks run: one file for each executor, all of one behaviour."""

from assay.cluster.executors.base import Executor
from assay.cluster.executors.ray import RayExecutor
from assay.cluster.executors.serial import SerialExecutor
from assay.cluster.executors.threads import ThreadExecutor

__all__ = ["Executor", "RayExecutor", "SerialExecutor", "ThreadExecutor"]
