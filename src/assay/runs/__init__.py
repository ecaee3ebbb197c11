"""One evaluation as a record that every task makes, and that stores and reports take."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.runs.record import RunRecord

if TYPE_CHECKING:
    from assay.runs.leaderboard import Leaderboard, rank_records
    from assay.runs.results import Aggregate, QueryResults, ResultDoc

__all__ = ["Aggregate", "Leaderboard", "QueryResults", "ResultDoc", "RunRecord", "rank_records"]


if not TYPE_CHECKING:  # else a checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        """Load comparisons and results when they are first used: `assay eval` needs none."""
        if name not in __all__:
            raise AttributeError(f"module 'assay.runs' has no attribute {name!r}")
        home = "leaderboard" if name in ("Leaderboard", "rank_records") else "results"
        return getattr(import_module(f"assay.runs.{home}"), name)
