from assay.runs.record import RunRecord as RunRecord
from assay.runs.results import Aggregate as Aggregate
from assay.runs.results import QueryResults as QueryResults
from assay.runs.results import ResultDoc as ResultDoc
from assay.store.opening import open as open  # noqa: A004
from assay.store.run import Run as Run
from assay.store.store import OpenRun as OpenRun
from assay.store.store import Store as Store
