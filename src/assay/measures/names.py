"""From text to measures: canonical names, and the names other tools and papers use.

Measure objects of ir_measures are recognised by what they have; the package is not imported. The
text of an object would often do, but not always: there `SetF(beta=b)` weighs recall by b and not by
b², `Accuracy@10` is a share of pairs and not of queries, and gains are a dict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, Protocol, TypeGuard

from assay.core.text import did_you_mean, is_decimal, parse_number, parse_whole
from assay.errors import MeasureError, PluginError
from assay.measures import registry


class ForeignMeasure(Protocol):
    """A measure of ir_measures: a name and parameters, the cutoff among them."""

    @property
    def NAME(self) -> Any: ...  # noqa: N802, D102 - their spelling
    @property
    def params(self) -> Any: ...  # noqa: D102


MeasureLike = str | registry.Measure | ForeignMeasure
MeasuresLike = MeasureLike | Iterable[MeasureLike]

# Names that stand for a measure with a parameter set.
_WITH_PARAMS: Final[dict[str, tuple[str, dict[str, registry.Value]]]] = {
    "rbp": ("RBP", {"graded": True, "p": 0.9}),
    "relative_p": ("R", {"cap": True}),
    "recall_cap": ("R", {"cap": True}),
    "r_cap": ("R", {"cap": True}),
    "set_relative_p": ("SetR", {"cap": True}),
    "rbp_resid": ("RBPresid", {"p": 0.9}),
    "ndcg_burges": ("nDCG", {"gain": "exp"}),
    "dcg_burges": ("DCG", {"gain": "exp"}),
    "ndcg_exp": ("nDCG", {"gain": "exp"}),
}

# Names that are refused because they stand for different measures in different places.
_AMBIGUOUS: Final[dict[str, str]] = {
    "recall_at": "R (share of the relevant documents found) or Success (whether any is found)",
    "precision_at": "P (share of the first k that is relevant) or Success (whether any of them is)",
    "label_recall": "P (the hits over k) or R (the hits over all of the label)",
}

_PARAM_ALIASES: Final[dict[str, str]] = {"dcg": "gain"}
_VALUE_ALIASES: Final[dict[str, str]] = {"exp-log2": "exp", "log2": "linear"}

_IPREC = tuple(f"iprec@{step / 10:g}" for step in range(11))
_CUTS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)

# Sets of measures with one name, in the order in which trec_eval prints them.
_OFFICIAL: Final = (
    *("num_ret", "num_rel", "num_rel_ret", "AP", "GMAP", "Rprec", "bpref", "RR", *_IPREC),
    *(f"P@{k}" for k in _CUTS),
)
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "default": ("nDCG@10", "AP", "RR", "P@10", "R@100"),
    "official": _OFFICIAL,
    "all_trec": (
        *_OFFICIAL,
        *(f"R@{k}" for k in _CUTS),
        "infAP",
        *(f"Rprec(mult={mult / 10:g})" for mult in range(2, 21, 2)),
        *("iAP", "nDCG"),
        *(f"{name}@{k}" for name in ("nDCG", "AP", "R(cap=true)") for k in _CUTS),
        *(f"Success@{k}" for k in (1, 5, 10)),
        *("SetP", "SetR(cap=true)", "SetR", "SetF", "num_nonrel_judged_ret"),
        *("RBP(graded=true,p=0.9)", "RBPresid(p=0.9)"),
        *(f"Unjudged@{k}" for k in (5, 10, 20)),
    ),
}

_SHAPE = re.compile(r"\s*([^()@]+?)\s*(?:\(([^()]*)\))?\s*(?:@\s*([^\s@()]+))?\s*")
_TREC_SHAPE = re.compile(r"(.+?)[_.]\s*(\d*\.?\d+(?:\s*,\s*\d*\.?\d+)*)")


def parse_many(measures: MeasuresLike) -> tuple[registry.Measure, ...]:
    """Return measures from names; a name may stand for a group or, as in trec_eval, for many.

    Args:
        measures: One or several names or measures; those of ir_measures are taken as well.

    Returns:
        The measures, each once, in this order.

    Raises:
        MeasureError: If there is no such measure, or a parameter does not fit.

    >>> parse_many(["P_5", "ndcg_cut.10,20"])
    (P@5, nDCG@10, nDCG@20)
    """
    if isinstance(measures, str | registry.Measure) or is_foreign(measures):
        items: list[MeasureLike] = [measures]
    elif isinstance(measures, Iterable) and getattr(measures, "ndim", True):
        items = list(measures)
    else:
        raise MeasureError(f"A measure is a text such as 'nDCG@10', found {measures!r}.")
    registered = tuple(registry.REGISTRY)
    if all(isinstance(item, str) for item in items):
        parsed = _named(tuple(items), registered)
    else:
        parsed = tuple(dict.fromkeys(m for item in items for m in _expand(item, registered)))
    if not parsed:
        raise MeasureError("No measure was given. Name at least one, e.g. nDCG@10.")
    return parsed


def _expand(item: MeasureLike, registered: tuple[str, ...]) -> Sequence[registry.Measure]:
    if isinstance(item, registry.Measure):
        return [item]
    if is_foreign(item):
        return [from_ir_measures(item)]
    return _named((_checked_text(item),), registered)


@lru_cache(1024)
def _named(texts: tuple[str, ...], registered: tuple[str, ...]) -> tuple[registry.Measure, ...]:
    """Return what some texts name, each once, while just these measures are registered."""
    measures: dict[registry.Measure, None] = {}
    for text in texts:
        trec = _trec_list(text.strip())
        parts = GROUPS.get(text.strip().lower()) or re.split(r",(?![^()]*\))", text)
        measures |= dict.fromkeys(map(parse, parts) if trec is None else trec)
    return tuple(measures)


def _checked_text(item: object) -> str:
    if not isinstance(item, str):
        raise MeasureError(f"A measure is a text such as 'nDCG@10', found {item!r}.")
    return item


def parse(measure: MeasureLike) -> registry.Measure:
    """Return a measure from its name; `parse(str(m)) == m`.

    Args:
        measure: Name with parameters and cutoff in any usual spelling, or a measure.

    Returns:
        The measure.

    Raises:
        MeasureError: If there is no such measure, or a parameter does not fit.

    >>> parse("ndcg_cut_10"), parse("MAP"), parse("Acc@1"), parse("AP(rel=2)@100")
    (nDCG@10, AP, Success@1, AP(rel=2)@100)
    """
    if isinstance(measure, registry.Measure):
        return measure
    if is_foreign(measure):
        return from_ir_measures(measure)
    text = _checked_text(measure)
    trec = _trec_list(text.strip())
    if trec is not None and len(trec) == 1:
        return trec[0]
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise MeasureError(
            f"Cannot read the measure {text!r}. Write name(key=value)@cutoff, e.g. AP(rel=2)@100."
        )
    name, inside, cut = shape.groups()
    cutoff: Any = "R" if cut in ("R", "r") else cut and _value(cut)
    if isinstance(cutoff, bool | tuple) or (isinstance(cutoff, str) and cutoff != "R"):
        raise MeasureError(f"Cannot read the cutoff {cut!r} of {text!r}. Write it like @10.")
    canonical, params = _resolve(name, cutoff, text)
    return registry.REGISTRY[canonical].build({**params, **_params(inside, text)}, cutoff)


def _resolve(
    name: str, cutoff: float | str | None, text: str
) -> tuple[str, dict[str, registry.Value]]:
    key = name.strip().lower().replace("-", "_").replace(" ", "_")
    if cutoff == "R":
        if key in ("map", "ap"):
            return "MAP", {}
        if key in ("p", "precision"):
            raise MeasureError(f"{text}: precision at R is called Rprec. Write Rprec.")
    failures: tuple[PluginError, ...] = ()
    if not _is_known(name, key):
        failures = registry.load_measures()
    if name in registry.REGISTRY and name != "MAP":
        return name, {}
    if key in _WITH_PARAMS:
        canonical, params = _WITH_PARAMS[key]
        return canonical, dict(params)
    if key in _names():
        return _names()[key], {}
    raise MeasureError(_unknown(key, name, failures))


def _is_known(name: str, key: str) -> bool:
    return name in registry.REGISTRY or key in _WITH_PARAMS or key in _names()


def _names() -> dict[str, str]:
    """Return every lower-case name and alias, to the canonical name."""
    return _names_of(
        tuple((definition.name, definition.aliases) for definition in registry.REGISTRY.values())
    )


@cache
def _names_of(registered: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, str]:
    """Return the table of names while just these measures are registered."""
    return {key: name for name, aliases in registered for key in registry.spellings(name, aliases)}


def _unknown(key: str, name: str, failures: tuple[PluginError, ...]) -> str:
    names = [*_names(), *_WITH_PARAMS, *GROUPS]
    meant = next((text for stem, text in _AMBIGUOUS.items() if key.startswith(stem)), "")
    stem = key.rstrip("0123456789")
    if stem != key and stem.rstrip("_") in _names():
        meant = f"{_names()[stem.rstrip('_')]}@{key.removeprefix(stem)}"
    near = did_you_mean(key, names, most=3, cutoff=0.5, forms=_names())
    hint = f" Did you mean {meant}?" if meant else near
    broken = "".join(f" {failure}" for failure in failures)
    return f"Unknown measure {name!r}.{hint} 'assay measures' lists all of them.{broken}"


def _params(inside: str | None, text: str) -> dict[str, registry.Value]:
    params: dict[str, registry.Value] = {}
    for part in (inside or "").split(","):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        key = _PARAM_ALIASES.get(key.strip().lower(), key.strip().lower())
        if not equals or not value.strip():
            raise MeasureError(f"Cannot read {part.strip()!r} in {text!r}. Write key=value.")
        if key in params:
            raise MeasureError(f"{key} appears twice in {text!r}. Keep one.")
        params[key] = _value(value.strip())
    return params


def _value(text: str) -> registry.Value:
    if "/" in text or ":" in text:
        rows = [tuple(map(_value, part.split(":"))) for part in text.split("/")]
        return tuple(row[0] if len(row) == 1 else row for row in rows)
    bare = text.strip("'\"")
    if bare.lower() in ("true", "false"):
        return bare.lower() == "true"
    whole = parse_whole(bare)
    if whole is not None:
        return whole
    if is_decimal(bare):
        number = parse_number(bare)
        if number is None or bare.lstrip("+-").isdecimal():
            raise MeasureError(f"The number {bare[:40]!r} is beyond 10^15, or a float's range.")
        return int(number) if number.is_integer() and abs(number) <= 1e15 else number
    return _VALUE_ALIASES.get(bare, bare)


def _trec_list(text: str) -> list[registry.Measure] | None:
    """Read trec_eval's form: `P_5`, `ndcg_cut.10,20`, `ndcg.1=3,2=9`, `Rprec_mult_0.20`."""
    if "@" in text or "(" in text or text in registry.REGISTRY:
        return None
    gains = re.fullmatch(r"ndcg[_.](\d+=[\d.]+(?:,\d+=[\d.]+)*)", text)
    if gains:
        pairs = (pair.split("=") for pair in gains.group(1).split(","))
        table = tuple((_value(grade), _value(gain)) for grade, gain in pairs)
        return [registry.REGISTRY["nDCG"].build({"gains": table}, None)]
    shape = _TREC_SHAPE.fullmatch(text)
    if shape is None or text.lower() in _names():
        return None
    name, numbers = shape.group(1).lower(), [_value(n.strip()) for n in shape.group(2).split(",")]
    return _trec_measures(name, numbers)


def _trec_measures(name: str, numbers: list[registry.Value]) -> list[registry.Measure] | None:
    if name == "rprec_mult":
        return [registry.REGISTRY["Rprec"].build({"mult": number}, None) for number in numbers]
    if name in ("11pt_avg", "11_pt_avg"):
        return [registry.REGISTRY["iAP"].build({"levels": tuple(numbers)}, None)]
    if not _is_known(name, name):
        registry.load_measures()
    if not _is_known(name, name):
        return None
    return [_trec_cut(name, number) for number in numbers]


def _trec_cut(name: str, number: registry.Value) -> registry.Measure:
    canonical, params = _resolve(name, None, name)
    definition = registry.REGISTRY[canonical]
    if definition.cutoff in ("optional", "required") and isinstance(number, float):
        number = int(number)  # trec_eval reads a rank with atol: 23.4 is 23
    if isinstance(number, tuple | str | bool):
        raise MeasureError(f"Cannot read the cutoff {number!r} of {name}. Write it like @10.")
    return definition.build(params, number)


_SAME_NAMES: Final = (
    *("AP", "ERR", "Judged", "P", "R", "RBP", "RR", "Rprec", "infAP"),
    *("SetF", "SetP", "SetR", "Success", "nDCG"),
)
_NAMES: Final = {
    **dict(zip(_SAME_NAMES, _SAME_NAMES, strict=True)),
    "Bpref": "bpref",
    "IPrec": "iprec",
    "NumRel": "num_rel",
    "NumRet": "num_ret",
}
_OF_SUBTOPICS: Final = (
    *("alpha_DCG", "alpha_nDCG", "AP_IA", "ERR_IA", "nERR_IA"),
    *("NRBP", "nNRBP", "P_IA", "StRecall"),
)
# What to use in place of measures that Assay does not have.
INSTEAD: Final = {
    "Accuracy": "Success@k is whether a relevant document is among the first k; or take P or bpref",
    "NumQ": "len(scores.query_ids) is the number of queries",
    "SetAP": "multiply SetP and SetR",
    "SDCG": "nDCG(ideal=judged) is normalised by the judged documents",
    **dict.fromkeys(("BPM", "INST", "INSQ"), "RBP and ERR model a user too"),
    **dict.fromkeys(("NERR8", "NERR9", "NERR10", "NERR11"), "ERR models a user too"),
    **dict.fromkeys(_OF_SUBTOPICS, "it needs subtopics, and here a document has one grade"),
}


def is_foreign(value: object) -> TypeGuard[ForeignMeasure]:
    """Tell whether this is a measure of ir_measures, or looks like one."""
    params = getattr(value, "params", None)
    return isinstance(getattr(value, "NAME", None), str) and isinstance(params, Mapping)


def from_ir_measures(foreign: ForeignMeasure) -> registry.Measure:
    """Return the measure under Assay's name and with its parameters.

    >>> class Set:
    ...     NAME, params = "SetF", {"beta": 4.0, "rel": 2}
    >>> from_ir_measures(Set())
    SetF(beta=2,rel=2)
    """
    if foreign.NAME not in _NAMES:
        instead = INSTEAD.get(foreign.NAME, "'assay measures' lists those that there are")
        raise MeasureError(f"{foreign} of ir_measures is not a measure of Assay: {instead}.")
    params = dict(foreign.params)
    if params.pop("judged_only", False):
        raise MeasureError(
            f"{foreign}: judged_only is a convention here. Pass unjudged='condensed' (--unjudged "
            "condensed), or use assay.compat.ir_measures."
        )
    name, changed = _own(foreign.NAME, params)
    cutoff = changed.pop("recall" if name == "iprec" else "cutoff", None)
    return registry.find_definition(name).build(changed, cutoff)


def _own(name: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and parameters in Assay's words, with the cutoff among them."""
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
