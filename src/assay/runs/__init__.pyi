from assay.runs.leaderboard import Leaderboard as Leaderboard
from assay.runs.leaderboard import rank_records as rank_records
from assay.runs.record import RunRecord as RunRecord
from assay.runs.results import Aggregate as Aggregate
from assay.runs.results import QueryResults as QueryResults
from assay.runs.results import ResultDoc as ResultDoc
