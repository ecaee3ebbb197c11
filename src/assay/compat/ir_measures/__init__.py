"""ir_measures' names and shapes over Assay: `import assay.compat.ir_measures as ir_measures`.

Each measure has the conventions of the package that ir_measures takes it from, ties among them;
see `providers`. What Assay does not compute (diversity, C/W/L but for RBP, Compat, infAP) has its
name, and says when used that it is not there. Source: ir_measures 0.4.3.
"""

from __future__ import annotations

from assay.compat.ir_measures import measures, providers, util
from assay.compat.ir_measures.measures import *  # noqa: F403
from assay.compat.ir_measures.names import parse_measure, parse_trec_measure
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

accuracy = providers.registry["accuracy"]
compat = providers.registry["compat"]
cwl_eval = providers.registry["cwl_eval"]
gdeval = providers.registry["gdeval"]
judged = providers.registry["judged"]
msmarco = providers.registry["msmarco"]
pyndeval = providers.registry["pyndeval"]
pytrec_eval = providers.registry["pytrec_eval"]
ranx = providers.registry["ranx"]
runtime = providers.registry["runtime"]
trectools = providers.registry["trectools"]

evaluator = DefaultPipeline.evaluator
iter_calc = DefaultPipeline.iter_calc
calc_aggregate = DefaultPipeline.calc_aggregate
calc = DefaultPipeline.calc
run_inputs = DefaultPipeline.run_inputs
qrel_inputs = DefaultPipeline.qrel_inputs

__all__ = [
    "CalcResults",
    "DefaultPipeline",
    "Evaluator",
    "GenericQrel",
    "GenericScoredDoc",
    "Metric",
    "Provider",
    "Qrel",
    "ScoredDoc",
    "accuracy",
    "calc",
    "calc_aggregate",
    "compat",
    "convert_trec_name",
    "cwl_eval",
    "define",
    "define_byquery",
    "evaluator",
    "gdeval",
    "iter_calc",
    "judged",
    "measures",
    "msmarco",
    "parse_measure",
    "parse_trec_measure",
    "parse_trec_qrels",
    "parse_trec_run",
    "providers",
    "pyndeval",
    "pytrec_eval",
    "qrel_inputs",
    "ranx",
    "read_trec_qrels",
    "read_trec_run",
    "run_inputs",
    "runtime",
    "trectools",
    "util",
]
__all__ += measures.__all__
globals().update({name: one for name, one in measures.registry.items() if not name.isascii()})
