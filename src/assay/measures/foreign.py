"""Measure objects of ir_measures as measures of Assay, recognised by what they have.

The package is not imported. The text of an object would often do, but not always: there
`SetF(beta=b)` weighs recall by b and not by b², `Accuracy@10` is a share of pairs and not of
queries, and gains are a dict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeGuard

from assay.errors import MeasureError
from assay.measures.registry import Measure, find_definition

__all__ = ["INSTEAD", "ForeignMeasure", "from_ir_measures", "is_foreign"]

_NAMES: Final = {
    "AP": "AP",
    "Bpref": "bpref",
    "ERR": "ERR",
    "IPrec": "iprec",
    "Judged": "Judged",
    "NumRel": "num_rel",
    "NumRet": "num_ret",
    "P": "P",
    "R": "R",
    "RBP": "RBP",
    "RR": "RR",
    "Rprec": "Rprec",
    "SetF": "SetF",
    "SetP": "SetP",
    "SetR": "SetR",
    "Success": "Success",
    "nDCG": "nDCG",
}
# What to use in place of measures that Assay does not have.
INSTEAD: Final = {
    "Accuracy": "Success@k is whether a relevant document is among the first k; or take P or bpref",
    "NumQ": "len(scores.query_ids) is the number of queries",
    "SetAP": "multiply SetP and SetR",
    "infAP": "AP takes what was not judged for not relevant",
    "SDCG": "nDCG(ideal=judged) is normalised by the judged documents",
    **dict.fromkeys(("BPM", "INST", "INSQ"), "RBP and ERR model a user too"),
    **dict.fromkeys(("NERR8", "NERR9", "NERR10", "NERR11"), "ERR models a user too"),
    **dict.fromkeys(
        (
            "alpha_DCG",
            "alpha_nDCG",
            "AP_IA",
            "ERR_IA",
            "nERR_IA",
            "NRBP",
            "nNRBP",
            "P_IA",
            "StRecall",
        ),
        "it needs subtopics, and here a document has one grade",
    ),
}


class ForeignMeasure(Protocol):
    """What a measure of ir_measures has: a name and parameters, the cut-off among them."""

    @property
    def NAME(self) -> Any: ...  # noqa: N802, D102 - their spelling
    @property
    def params(self) -> Any: ...  # noqa: D102


def is_foreign(value: object) -> TypeGuard[ForeignMeasure]:
    """Whether this is a measure of ir_measures, or looks like one."""
    params = getattr(value, "params", None)
    return isinstance(getattr(value, "NAME", None), str) and isinstance(params, Mapping)


def from_ir_measures(given: ForeignMeasure) -> Measure:
    """The same measure under Assay's name and with its parameters.

    >>> class Set:
    ...     NAME, params = "SetF", {"beta": 4.0, "rel": 2}
    >>> from_ir_measures(Set())
    SetF(beta=2,rel=2)
    """
    if given.NAME not in _NAMES:
        instead = INSTEAD.get(given.NAME, "'assay measures' lists those that there are")
        raise MeasureError(f"{given} of ir_measures is not a measure of Assay: {instead}.")
    params = dict(given.params)
    if params.pop("judged_only", False):
        raise MeasureError(
            f"{given}: judged_only is not a property of a measure here. Leave what is not judged "
            "out of the run, or use assay.compat.ir_measures."
        )
    name, changed = _own(given.NAME, params)
    cutoff = changed.pop("recall" if name == "iprec" else "cutoff", None)
    return find_definition(name).build(changed, cutoff)


def _own(name: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and parameters in Assay's words; the cut-off is still among them."""
    if name == "NumRet" and "rel" in params:
        return "num_rel_ret", params
    if name == "SetP" and params.pop("relative", False):
        return "SetR", {**params, "cap": True}
    if name == "SetF" and "beta" in params:
        params["beta"] = math.sqrt(params["beta"])
    if name == "RBP" and "rel" not in params:
        params["graded"] = True
    if name == "nDCG" and "dcg" in params:
        params["gain"] = "exp" if params.pop("dcg") == "exp-log2" else "linear"
    if name == "nDCG" and "gains" in params:
        params["gains"] = tuple(sorted(params["gains"].items()))
    return _NAMES[name], params
