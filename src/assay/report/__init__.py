"""Results that people read: tables, charts, reports, and the layouts of other tools."""

from __future__ import annotations

from assay.report.report import Report, make_report
from assay.runs.record import RunRecord

__all__ = ["Report", "RunRecord", "make_report"]
