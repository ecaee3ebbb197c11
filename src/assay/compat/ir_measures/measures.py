"""ir_measures' measures as objects: `nDCG(dcg="exp-log2") @ 10` is a value that can be a key.

What each computes is said by the providers; here stand the names, the parameters and the way in
which a measure is written. Source: ir_measures 0.4.3 (MacAvaney, Macdonald and Ounis, ECIR 2022).
"""

# ruff: noqa: N816 - the names are theirs

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from assay.compat.ir_measures.util import CalcResults, Metric
from assay.compat.pytrec_eval import PARAMETER_SHAPE, default_parameters, supported_nicknames
from assay.core.text import did_you_mean
from assay.core.work import parse_python

NOT_PROVIDED: Final[Any] = object()


class ParamInfo:
    """The type, the choices and the default of one parameter."""

    def __init__(
        self,
        dtype: type | None = None,
        required: bool = False,
        choices: Any = NOT_PROVIDED,
        default: Any = NOT_PROVIDED,
        desc: str | None = None,
    ) -> None:
        self.dtype, self.required, self.choices = dtype, required, choices
        self.default, self.desc = default, desc

    def validate(self, value: Any) -> bool:
        """Return whether a measure may have this value."""
        if value is NOT_PROVIDED:
            return not self.required
        fits = self.dtype is None or isinstance(value, self.dtype)
        return fits and (self.choices is NOT_PROVIDED or value in self.choices)


class MeanAgg:
    """Running mean."""

    def __init__(self, default: float = float("nan")) -> None:
        self.sum, self.count, self.default = 0.0, 0, default

    def add(self, value: float) -> None:
        """Count the value of one more query."""
        self.sum += value
        self.count += 1

    def result(self) -> float:
        """Return the mean so far."""
        return self.sum / self.count if self.count else self.default


class SumAgg:
    """Running sum."""

    def __init__(self) -> None:
        self.sum: float = 0

    def add(self, value: float) -> None:
        """Count the value of one more query."""
        self.sum += value

    def result(self) -> float:
        """Return the sum so far."""
        return self.sum


class Measure:
    """A measure with parameters; two that are written alike are equal."""

    NAME: str | None = None
    AT_PARAM: ClassVar[str] = "cutoff"
    SUPPORTED_PARAMS: ClassVar[dict[str, ParamInfo]] = {}
    DEFAULT: ClassVar[float] = 0.0  # of a query that the run does not hold
    AGGREGATOR: ClassVar[type[MeanAgg] | type[SumAgg]] = MeanAgg
    PIPELINE: ClassVar[Any] = None  # set by `providers`, which needs measures

    def __init__(self, **params: Any) -> None:
        self.params = params

    def validate_params(self) -> None:
        """Raise an AssertionError for a parameter that the measure does not take."""
        unknown = sorted(self.params.keys() - self.SUPPORTED_PARAMS.keys())
        if unknown:
            raise AssertionError(f"{self.NAME} does not take {', '.join(unknown)}. Omit it.")
        for key, info in self.SUPPORTED_PARAMS.items():
            value = self.params.get(key, NOT_PROVIDED)
            if not info.validate(value):
                text = "nothing" if value is NOT_PROVIDED else repr(value)
                raise AssertionError(f"{self.NAME} cannot have {text} for {key}.")

    def __call__(self, **params: Any) -> Measure:
        """Return the measure with other parameters."""
        return type(self)(**{**self.params, **params})

    def __matmul__(self, value: Any) -> Measure:
        return self(**{self.AT_PARAM: value})

    def __getitem__(self, key: str) -> Any:
        return self.params.get(key, self.SUPPORTED_PARAMS[key].default)

    def __repr__(self) -> str:
        inside = ",".join(
            f"{key}={_written(value)}"
            for key, value in self.params.items()
            if key != self.AT_PARAM and not self._is_default(key, value)
        )
        at = f"@{self.params[self.AT_PARAM]}" if self.AT_PARAM in self.params else ""
        return f"{self.NAME}{f'({inside})' if inside else ''}{at}"

    def _is_default(self, key: str, value: Any) -> bool:
        return key in self.SUPPORTED_PARAMS and bool(value == self.SUPPORTED_PARAMS[key].default)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Measure) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def aggregator(self) -> MeanAgg | SumAgg:
        """Return an aggregator, which makes one number of the queries' values."""
        return self.AGGREGATOR()

    def iter_calc(self, qrels: Any, run: Any) -> Iterator[Metric]:
        """Return the value of each query."""
        return self.evaluator(qrels).iter_calc(run)  # type: ignore[no-any-return]

    def calc_aggregate(self, qrels: Any, run: Any) -> float:
        """Return one number for all queries."""
        return self.evaluator(qrels).calc_aggregate(run)[self]  # type: ignore[no-any-return]

    def calc(self, qrels: Any, run: Any) -> CalcResults:
        """Return one number for all queries, and the value of each."""
        results = self.evaluator(qrels).calc(run)
        return CalcResults(results.aggregated[self], results.per_query)

    def evaluator(self, qrels: Any) -> Any:
        """Return an evaluator of runs by this measure."""
        return self.PIPELINE.evaluator([self], qrels)


BaseMeasure = Measure
registry: dict[str, Measure] = {}


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{entry}" for key, entry in sorted(value.items())) + "}"
    return repr(value)


def register(measure: Measure, aliases: Iterable[str] = (), name: str | None = None) -> None:
    """Make a measure known to `parse_measure`."""
    for alias in (name or str(measure.NAME), *aliases):
        if alias in registry:
            raise AssertionError(f"The alias {alias} is taken. Choose another.")
        registry[alias] = measure


_CUT, _NEEDED_CUT = ParamInfo(int), ParamInfo(int, required=True)
_REL, _ANY_REL = ParamInfo(int, default=1), ParamInfo(int)
_JUDGED_ONLY = ParamInfo(bool, default=False)
_RANKED: Final = {"cutoff": _CUT, "rel": _REL, "judged_only": _JUDGED_ONLY}
_AT_RANK: Final = {**_RANKED, "cutoff": _NEEDED_CUT}
_SET: Final = {"rel": _REL, "judged_only": _JUDGED_ONLY}
_GRADES: Final = {"min_rel": ParamInfo(int, default=0), "max_rel": ParamInfo(int, required=True)}
_TOTAL: Final = {"T": ParamInfo(float, default=1.0), **_GRADES}
_HALF = ParamInfo(float, default=0.5)


def _measure(
    name: str,
    params: dict[str, ParamInfo],
    *aliases: str,
    at: str = "cutoff",
    aggregator: type[MeanAgg] | type[SumAgg] = MeanAgg,
) -> Measure:
    fields = {"NAME": name, "SUPPORTED_PARAMS": params, "AT_PARAM": at, "AGGREGATOR": aggregator}
    measure: Measure = type(f"_{name}", (Measure,), {**fields, "__name__": name})()
    register(measure, aliases)
    return measure


AP = MAP = _measure("AP", _RANKED, "MAP")
RR = MRR = _measure("RR", _RANKED, "MRR")
P = Precision = _measure("P", _AT_RANK, "Precision")
R = Recall = _measure("R", _AT_RANK, "Recall")
Success = _measure("Success", _AT_RANK)
Rprec = RPrec = _measure("Rprec", _SET, "RPrec")
Bpref = BPref = _measure("Bpref", {"rel": _REL}, "BPref")
nDCG = NDCG = _measure(
    "nDCG",
    {
        "cutoff": _CUT,
        "dcg": ParamInfo(str, choices=("log2", "exp-log2"), default="log2"),
        "gains": ParamInfo(dict),
        "judged_only": _JUDGED_ONLY,
    },
    "NDCG",
)
ERR = _measure("ERR", {"cutoff": _CUT})
RBP = _measure("RBP", {"cutoff": _CUT, "p": ParamInfo(float, default=0.8), "rel": _ANY_REL})
Judged = _measure("Judged", {"cutoff": _CUT})
IPrec = _measure("IPrec", {"recall": ParamInfo(float, required=True), **_SET}, at="recall")
SetP = _measure("SetP", {**_SET, "relative": ParamInfo(bool, default=False)})
SetRelP = SetP(relative=True)
SetR = _measure("SetR", {"rel": _REL})
SetF = _measure("SetF", {**_SET, "beta": ParamInfo(float, default=1.0)})
SetAP = _measure("SetAP", _SET)
NumQ = _measure("NumQ", {}, aggregator=SumAgg)
NumRel = _measure("NumRel", {"rel": _REL}, aggregator=SumAgg)
NumRet = _measure("NumRet", {"rel": _ANY_REL}, aggregator=SumAgg)
NumRelRet = NumRet(rel=1)
register(SetRelP, name="SetRelP")
register(NumRelRet, name="NumRelRet")
Accuracy = _measure("Accuracy", {"cutoff": _CUT, "rel": _REL})

# What no provider here computes, so that asking for it can say so.
infAP = _measure("infAP", {"rel": _REL})
Compat = _measure(
    "Compat", {"p": ParamInfo(float, default=0.95), "normalize": ParamInfo(bool, default=True)}
)
BPM = _measure("BPM", {"cutoff": _NEEDED_CUT, **_TOTAL})
SDCG = _measure("SDCG", {"cutoff": _NEEDED_CUT, "dcg": ParamInfo(str, default="log2"), **_GRADES})
NERR8 = _measure("NERR8", {"cutoff": _NEEDED_CUT, **_GRADES})
NERR9 = _measure("NERR9", {"cutoff": _NEEDED_CUT, **_GRADES})
NERR10 = _measure("NERR10", {"p": ParamInfo(float, default=0.9), **_GRADES})
NERR11 = _measure("NERR11", _TOTAL)
INST = _measure("INST", _TOTAL)
INSQ = _measure("INSQ", _TOTAL)
ERR_IA = _measure("ERR_IA", _RANKED)
nERR_IA = _measure("nERR_IA", _RANKED)
P_IA = _measure("P_IA", _RANKED)
AP_IA = MAP_IA = _measure("AP_IA", _SET, "MAP_IA")
StRecall = _measure("StRecall", {"cutoff": _CUT, "rel": _REL})
alpha_DCG = _measure("alpha_DCG", {**_RANKED, "alpha": _HALF}, "\u03b1_DCG")
alpha_nDCG = _measure("alpha_nDCG", {**_RANKED, "alpha": _HALF}, "\u03b1_nDCG")
NRBP = _measure("NRBP", {"rel": _REL, "alpha": _HALF, "beta": _HALF})
nNRBP = _measure("nNRBP", {"rel": _REL, "alpha": _HALF, "beta": _HALF})
globals().update(registry)  # the two names that begin with a Greek letter


def parse_measure(measure: str | Measure) -> Measure:
    """Return a measure from its text, such as `nDCG(dcg='exp-log2')@10`.

    >>> parse_measure("MAP(rel=2)@100")
    AP(rel=2)@100
    """
    if not isinstance(measure, str):
        return measure
    try:
        node, at = parse_python(lambda: ast.parse(measure.strip(), mode="eval")).body, []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            at, node = [ast.literal_eval(node.right)], node.left
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        params = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        call, params = ast.Call(ast.Constant(""), [], []), {}
    if not isinstance(call.func, ast.Name) or call.args:
        raise ValueError(f"{measure!r:.80} is not a measure. Write name(key=value)@cutoff.")
    if call.func.id not in registry:
        hint = did_you_mean(call.func.id, registry)
        raise NameError(f"Unknown measure {call.func.id}.{hint}")
    parsed = registry[call.func.id](**params)
    return parsed @ at[0] if at else parsed


# Names of trec_eval, and the measures of ir_measures that they are.
_TREC: Final = {
    **{"P": "P", "Rprec": "Rprec", "bpref": "Bpref", "iprec_at_recall": "IPrec", "recall": "R"},
    **{"map": "AP", "map_cut": "AP", "ndcg": "nDCG", "ndcg_cut": "nDCG", "recip_rank": "RR"},
    **{"num_q": "NumQ", "num_rel": "NumRel", "num_rel_ret": "NumRelRet", "num_ret": "NumRet"},
    **{"set_F": "SetF", "set_P": "SetP", "set_map": "SetAP", "set_recall": "SetR"},
    **{"set_relative_P": "SetRelP", "success": "Success"},
}


def parse_trec_measure(measure: str) -> list[Measure]:
    """Return the measures that trec_eval's name stands for: `P_5,10`, `ndcg_cut.10`, `official`.

    >>> parse_trec_measure("P.5,10")
    [P@5, P@10]
    """
    if measure in supported_nicknames:
        names = sorted(name for name in supported_nicknames[measure] if name in _TREC)
        return [item for name in names for item in parse_trec_measure(name)]
    shape = PARAMETER_SHAPE.fullmatch(measure)
    name, numbers = (measure, None) if measure in _TREC or shape is None else shape.groups()
    if name not in _TREC:
        raise ValueError(f"{measure} is not a supported name of trec_eval. Choose another.")
    base = registry[_TREC[name]]
    parameters = default_parameters.get(name, ()) if numbers is None else numbers.split(",")
    key = "beta" if name == "set_F" else base.AT_PARAM
    if parameters and name not in (*default_parameters, "set_F"):
        raise ValueError(f"{name} takes no number. Correct {measure}.")
    number = base.SUPPORTED_PARAMS[key].dtype or str if parameters else str
    return [base(**{key: number(text)}) for text in parameters] or [base]


__all__ = ["BaseMeasure", "MeanAgg", "Measure", "ParamInfo", "SumAgg", "parse_measure"]
__all__ += ["parse_trec_measure", "register", "registry"]
__all__ += list(registry)
