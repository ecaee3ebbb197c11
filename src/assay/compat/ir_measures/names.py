"""Measures of ir_measures from their texts, and from trec_eval's names."""

from __future__ import annotations

import ast
from typing import Final

from assay.compat.ir_measures.measures import Measure, registry
from assay.compat.pytrec_eval import PARAMETER_SHAPE, default_parameters, supported_nicknames
from assay.core.text import did_you_mean

__all__ = ["parse_measure", "parse_trec_measure"]


def parse_measure(measure: str | Measure) -> Measure:
    """A measure from its text, such as `nDCG(dcg='exp-log2')@10`.

    >>> parse_measure("MAP(rel=2)@100")
    AP(rel=2)@100
    """
    if not isinstance(measure, str):
        return measure
    try:
        node, at = ast.parse(measure.strip(), mode="eval").body, []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            at, node = [ast.literal_eval(node.right)], node.left
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        params = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        call, params = ast.Call(ast.Constant(""), [], []), {}
    if not isinstance(call.func, ast.Name) or call.args:
        raise ValueError(f"{measure!r:.80} is not a measure: write name(key=value)@cutoff.")
    if call.func.id not in registry:
        hint = did_you_mean(call.func.id, registry)
        raise NameError(f"There is no measure {call.func.id}.{hint}")
    found = registry[call.func.id](**params)
    return found @ at[0] if at else found


# Names of trec_eval, and the measures of ir_measures that they are.
_TREC: Final = {
    "P": "P",
    "Rprec": "Rprec",
    "bpref": "Bpref",
    "iprec_at_recall": "IPrec",
    "map": "AP",
    "map_cut": "AP",
    "ndcg": "nDCG",
    "ndcg_cut": "nDCG",
    "num_q": "NumQ",
    "num_rel": "NumRel",
    "num_rel_ret": "NumRelRet",
    "num_ret": "NumRet",
    "recall": "R",
    "recip_rank": "RR",
    "set_F": "SetF",
    "set_P": "SetP",
    "set_map": "SetAP",
    "set_recall": "SetR",
    "set_relative_P": "SetRelP",
    "success": "Success",
}


def parse_trec_measure(measure: str) -> list[Measure]:
    """The measures that trec_eval's name stands for: `P_5,10`, `ndcg_cut.10`, `official`.

    >>> parse_trec_measure("P.5,10")
    [P@5, P@10]
    """
    if measure in supported_nicknames:
        names = sorted(name for name in supported_nicknames[measure] if name in _TREC)
        return [one for name in names for one in parse_trec_measure(name)]
    shape = PARAMETER_SHAPE.fullmatch(measure)
    name, numbers = (measure, None) if measure in _TREC or shape is None else shape.groups()
    if name not in _TREC:
        raise ValueError(f"{measure} is not a name of trec_eval for which there is a measure.")
    found = registry[_TREC[name]]
    given = default_parameters.get(name, ()) if numbers is None else numbers.split(",")
    key = "beta" if name == "set_F" else found.AT_PARAM
    if given and name not in (*default_parameters, "set_F"):
        raise ValueError(f"{name} takes no number, found {measure}.")
    number = found.SUPPORTED_PARAMS[key].dtype or str if given else str
    return [found(**{key: number(one)}) for one in given] or [found]
