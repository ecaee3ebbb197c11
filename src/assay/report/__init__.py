"""Results that people read: tables, charts, reports, and the layouts of other tools."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.runs.record import RunRecord

if TYPE_CHECKING:
    from assay.report.report import Report, make_report

__all__ = ["Report", "RunRecord", "make_report"]


if not TYPE_CHECKING:  # else a checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        """Load charts when a report is first made: the layout of trec_eval needs none."""
        if name not in ("Report", "make_report"):
            raise AttributeError(f"module 'assay.report' has no attribute {name!r}")
        return getattr(import_module("assay.report.report"), name)
