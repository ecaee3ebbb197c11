"""One evaluation as a record that every task makes, and that stores and reports take."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.runs.record import RunRecord
from assay.runs.results import Aggregate, QueryResults, ResultDoc

if TYPE_CHECKING:
    from assay.runs.leaderboard import Leaderboard, rank_records

__all__ = ["Aggregate", "Leaderboard", "QueryResults", "ResultDoc", "RunRecord", "rank_records"]


def __getattr__(name: str) -> Any:
    """Load comparisons when they are first used: `assay eval` needs none."""
    if name not in ("Leaderboard", "rank_records"):
        raise AttributeError(f"module 'assay.runs' has no attribute {name!r}")
    return getattr(import_module("assay.runs.leaderboard"), name)
