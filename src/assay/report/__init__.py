"""Results that people read: tables, charts, reports, and the layouts of other tools."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.report.contents import Report, make_report
    from assay.report.report_run import ReportRun

__all__ = ["Report", "ReportRun", "make_report"]

_HOME = {"Report": "contents", "ReportRun": "report_run", "make_report": "contents"}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: tables must not wait for reports."""
    if name not in _HOME:
        raise AttributeError(f"module 'assay.report' has no attribute {name!r}")
    return getattr(import_module(f"assay.report.{_HOME[name]}"), name)
