"""Which text model is better on my data?

    config or options → BenchRequest → BenchPlan → run_bench → BenchResult

`run_bench` takes a collection and the specs of models; `read_config` and `make_request` read a
`bench.toml`; the `explain_…` functions show one query as every system answered it.
"""

from assay.tasks.bench.chunk_aggregation import ChunkAggregation
from assay.tasks.bench.config import SCHEMA, BenchRequest, make_request, read_config
from assay.tasks.bench.evaluate import MEASURES, run_bench
from assay.tasks.bench.explain import Answers, explain_bench, explain_rankings, explain_runs
from assay.tasks.bench.findings import disagreements, failures
from assay.tasks.bench.plan import BenchPlan, Fusion, Model, Rerank
from assay.tasks.bench.result import BenchResult, System, write_runs
from assay.tasks.bench.search import BenchProgress, Costs, SearchResult

__all__ = [
    "MEASURES",
    "SCHEMA",
    "Answers",
    "BenchPlan",
    "BenchProgress",
    "BenchRequest",
    "BenchResult",
    "ChunkAggregation",
    "Costs",
    "Fusion",
    "Model",
    "Rerank",
    "SearchResult",
    "System",
    "disagreements",
    "explain_bench",
    "explain_rankings",
    "explain_runs",
    "failures",
    "make_request",
    "read_config",
    "run_bench",
    "write_runs",
]
