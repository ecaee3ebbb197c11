"""Which text model is better on my data?

    config or options → BenchRequest → BenchPlan → run_bench → BenchResult

`run_bench` takes a collection and the specs of models; `read_config` and `make_request` read a
`bench.toml`; the `explain_…` functions show one query as every system answered it.
"""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
