"""Qrels, Run and Report."""

from assay.compat.ranx.data_structures.qrels import Qrels
from assay.compat.ranx.data_structures.report import Report
from assay.compat.ranx.data_structures.run import Run

__all__ = ["Qrels", "Report", "Run"]
