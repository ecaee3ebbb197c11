"""One evaluation as a record that every task makes, and that stores and reports take."""

from assay.runs.aggregates import Aggregate
from assay.runs.leaderboard import Leaderboard, rank_records
from assay.runs.record import RunRecord
from assay.runs.results import QueryResults, ResultDoc

__all__ = ["Aggregate", "Leaderboard", "QueryResults", "ResultDoc", "RunRecord", "rank_records"]
