"""ir_measures' names and shapes over Assay: `import assay.compat.ir_measures as ir_measures`.

Each measure has the conventions of the package that ir_measures takes it from, ties among them;
see `providers`. What Assay does not compute (diversity, C/W/L but for RBP, Compat) has its
name, and says when used that it is not there. Source: ir_measures 0.4.3.
"""

# ruff: noqa: F401 - what is imported here is offered

from __future__ import annotations

from assay.compat.ir_measures import providers
from assay.compat.ir_measures.measures import *  # noqa: F403
from assay.compat.ir_measures.measures import parse_trec_measure
from assay.compat.ir_measures.providers import (
    DefaultPipeline,
    Evaluator,
    Provider,
    define,
    define_byquery,
)
from assay.compat.ir_measures.util import (
    CalcResults,
    Metric,
    Qrel,
    ScoredDoc,
    read_trec_qrels,
    read_trec_run,
)

GenericQrel, GenericScoredDoc = Qrel, ScoredDoc
convert_trec_name = parse_trec_measure
parse_trec_qrels, parse_trec_run = read_trec_qrels, read_trec_run

_of = providers.registry.__getitem__
accuracy, compat, cwl_eval, gdeval = map(_of, ("accuracy", "compat", "cwl_eval", "gdeval"))
judged, msmarco, pyndeval = map(_of, ("judged", "msmarco", "pyndeval"))
pytrec_eval, ranx, runtime, trectools = map(_of, ("pytrec_eval", "ranx", "runtime", "trectools"))

evaluator, iter_calc = DefaultPipeline.evaluator, DefaultPipeline.iter_calc
calc, calc_aggregate = DefaultPipeline.calc, DefaultPipeline.calc_aggregate
run_inputs, qrel_inputs = DefaultPipeline.run_inputs, DefaultPipeline.qrel_inputs

__all__ = [name for name in globals() if name[0] != "_" and name != "annotations"]
