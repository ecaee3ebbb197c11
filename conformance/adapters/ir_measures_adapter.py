"""ir_measures with the providers that are installed; most values come from pytrec_eval.

ERR and nDCG with exponential gains come from gdeval, which takes numbered queries only.
"""

from __future__ import annotations

from subprocess import CalledProcessError
from typing import Any

import ir_measures
from conformance_run import TREC_EVAL, UnsupportedError

OWN = {name: choice for name, choice in TREC_EVAL.items() if name != "gain"}


def evaluate(case: dict[str, Any]) -> dict[str, Any]:
    """Values and mean of a case."""
    for name, own in OWN.items():
        if case["conventions"][name] != own:
            raise UnsupportedError(f"{name}: {case['conventions'][name]}")
    measure = _measure(case)
    names = {query: str(number) for number, query in enumerate({**case["qrels"], **case["run"]}, 1)}
    qrels = [
        ir_measures.Qrel(names[query], doc, grade)
        for query, grades in case["qrels"].items()
        for doc, grade in grades.items()
    ]
    run = [
        ir_measures.ScoredDoc(names[query], doc, score)
        for query, rows in case["run"].items()
        for doc, score in rows
    ]
    try:
        found = {one.query_id: one.value for one in ir_measures.iter_calc([measure], qrels, run)}
        mean = ir_measures.calc_aggregate([measure], qrels, run)[measure]
    except ValueError as error:
        if "nsupported measures" in str(error):
            raise UnsupportedError(str(error)) from None
        raise
    except CalledProcessError:
        raise RuntimeError("gdeval cannot read the judgments") from None
    values = {query: found.get(names[query]) for query in case["qrels"]}
    by_gdeval = str(measure).startswith(("ERR", "nDCG(dcg"))  # which prints five decimals
    return {"per_query": values, "mean": mean, **({"digits": 5} if by_gdeval else {})}


def _measure(case: dict[str, Any]) -> Any:
    given, exponential = case["measure"], case["conventions"]["gain"] == "exp"
    name, params = given["name"], {key: given[key] for key in ("rel", "p") if key in given}
    known = {"bpref": "Bpref", "iprec": "IPrec"}
    found = getattr(ir_measures, known.get(name, name), None)
    if found is None:
        raise UnsupportedError(f"no such measure: {name}")
    if name == "nDCG" and exponential:
        params["dcg"] = "exp-log2"
    measure = found(**params) if params else found
    cutoff = given.get("k", given.get("recall"))
    return measure if cutoff is None else measure @ cutoff
