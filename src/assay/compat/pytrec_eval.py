"""pytrec_eval's names and shapes over Assay's scoring: `import assay.compat.pytrec_eval as ...`.

The numbers are those of trec_eval (ties by descending id, scores as 32-bit floats). The families of
preferences and of several assessors are not there; asking for one says so.
Source: pytrec_eval 0.5 (Van Gysel and de Rijke, SIGIR 2018), its module and its tests.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Final, TypeVar

import numpy as np

from assay.compat.trec_eval import at_level, trec_only_values
from assay.core.conventions import preset
from assay.core.text import did_you_mean
from assay.errors import FormatError
from assay.measures import parse_many
from assay.scoring.evaluate import evaluate
from assay.scoring.output import trec_name
from assay.scoring.scores import Scores

Run = Mapping[str, Mapping[str, float]]
Qrel = Mapping[str, Mapping[str, int]]

_CUTS: Final = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
# Measures that take a parameter, and those that a bare name stands for.
default_parameters: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("P", "recall", "ndcg_cut", "map_cut", "relative_P"), _CUTS),
    "success": ("1", "5", "10"),
    "iprec_at_recall": tuple(f"{level / 10:.2f}" for level in range(11)),
    "Rprec_mult": tuple(f"{mult / 10:.2f}" for mult in range(2, 21, 2)),
}
_PLAIN: Final = {
    *("11pt_avg", "Rprec", "bpref", "map", "ndcg", "num_nonrel_judged_ret", "num_rel"),
    *("num_rel_ret", "num_ret", "recip_rank", "set_F", "set_P", "set_recall", "set_relative_P"),
}
PARAMETER_SHAPE: Final = re.compile(r"(.+?)[._](\d+(?:\.\d+)?(?:,\d+(?:\.\d+)?)*)")
_SAME: Final = {"Rprec_mult_1.00": "Rprec"}
_LEAST: Final = 1e-5  # what trec_eval takes for 0 in geometric means


def _logarithm(name: str) -> Callable[[Mapping[str, float]], float]:
    return lambda values: math.log(max(values[name], _LEAST))


# Values of a query that follow from others: what they need, and how.
_DERIVED: Final[dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, float]], float]]]] = {
    "runid": ((), lambda _: 0.0),
    "relstring": ((), lambda _: 0.0),
    "num_q": ((), lambda _: 1.0),
    "gm_map": (("map",), _logarithm("map")),
    "gm_bpref": (("bpref",), _logarithm("bpref")),
    "set_map": (("set_P", "set_recall"), lambda values: values["set_P"] * values["set_recall"]),
    "utility": (("num_ret", "num_rel_ret"), lambda v: 2 * v["num_rel_ret"] - v["num_ret"]),
}
_ONLY_THERE: Final = frozenset({"G", "Rndcg", "binG", "infAP", "ndcg_rel"})
supported_measures: Final = frozenset({*_PLAIN, *default_parameters, *_DERIVED, *_ONLY_THERE})
_SET: Final = frozenset(name for name in supported_measures if name.startswith("set_"))
_COUNTS: Final = frozenset({"runid", "num_q", "num_ret", "num_rel", "num_rel_ret"})
_OFFICIAL: Final = {"map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P"}
supported_nicknames: Final[dict[str, frozenset[str]]] = {
    "official": _COUNTS | _OFFICIAL,
    "set": _COUNTS | _SET | {"utility"},
    "all_trec": supported_measures,
}


class RelevanceEvaluator:
    """Judgments and measures, against which runs are evaluated query by query."""

    def __init__(
        self,
        query_relevance: Qrel,
        measures: Iterable[str],
        relevance_level: int = 1,
        judged_docs_only_flag: bool = False,
    ) -> None:
        _refuse_other_than_dicts(query_relevance, "query_relevance", int)
        self._qrels = {query: grades for query, grades in query_relevance.items() if grades}
        self._level, self._judged_only = relevance_level, judged_docs_only_flag
        self._names = _expand(measures)

    def evaluate(self, scores: Run) -> dict[str, dict[str, float]]:
        """Return the measures of each judged query in the run."""
        _refuse_other_than_dicts(scores, "scores", float)
        run = {query: scores[query] for query in scores if query in self._qrels}
        if not run:
            return {}
        if self._judged_only:
            run = {query: keep_judged(docs, self._qrels[query]) for query, docs in run.items()}
        qrels = {query: self._qrels[query] for query in run}
        names = [name for name in self._names if name in _ONLY_THERE]
        rules = preset("trec_eval_9")
        only = trec_only_values(qrels, run, names, rules=rules, level=self._level) if names else {}
        return self._name_values(self._score(run, qrels), only, list(run))

    def _score(self, run: Run, qrels: Qrel) -> Scores | None:
        """Score under trec_eval's conventions; None where no measure needs it."""
        shared = (name for name in self._names if name not in _ONLY_THERE)
        needed = dict.fromkeys(
            part for name in shared for part in _DERIVED.get(name, ((name,),))[0]
        )
        parsed = (parse_many(_SAME.get(name, name))[0] for name in needed)
        measures = tuple(at_level(measure, self._level) for measure in parsed)
        if not measures:
            return None
        return evaluate(run, qrels, measures, conventions="trec_eval_9", allow_mismatch=True)

    def _name_values(
        self, scores: Scores | None, only: Mapping[str, Mapping[str, float]], queries: list[str]
    ) -> dict[str, dict[str, float]]:
        measures = {} if scores is None else {trec_name(item): item for item in scores.measures}
        rows = {} if scores is None else {id_: row for row, id_ in enumerate(scores.query_ids)}
        results: dict[str, dict[str, float]] = {}
        for query in queries:
            values = {
                name: float(np.nan_to_num(scores[measure][rows[query]]))
                for name, measure in measures.items()
                if scores is not None
            }
            values |= {name: by_query[query] for name, by_query in only.items()}
            for name in self._names:
                if name in _DERIVED:
                    values[name] = _DERIVED[name][1](values)
            results[query] = {name: values[_SAME.get(name, name)] for name in self._names}
        return results


def keep_judged(docs: Mapping[str, float], judged: Mapping[str, int]) -> dict[str, float]:
    """Keep graded documents: trec_eval takes those below 0 for not judged."""
    return {doc: score for doc, score in docs.items() if judged.get(doc, -1) >= 0}


def _refuse_other_than_dicts(data: object, name: str, kind: type) -> None:
    """Raise pytrec_eval's TypeErrors for other than dictionaries of dictionaries."""
    if not isinstance(data, Mapping):
        raise TypeError(f"{name} must be a dictionary of dictionaries, found {type(data)}.")
    for query, docs in data.items():
        if not isinstance(query, str) or not isinstance(docs, Mapping):
            raise TypeError(f"{name} must map query ids (str) to dictionaries, found {query!r}.")
        for doc, value in docs.items():
            if not isinstance(doc, str):
                raise TypeError(f"{name}[{query!r}] must have text for ids, found {doc!r}.")
            if kind is int and not isinstance(value, int | np.integer):
                raise TypeError(f"{name}[{query!r}][{doc!r}] must be an int, found {value!r}.")


def _expand(measures: Iterable[str]) -> list[str]:
    """Write out nicknames and default parameters, as results name them.

    A name without parameters adds none where the same name has some.
    """
    nicknames = (sorted(supported_nicknames.get(name, {name})) for name in measures)
    spelt = list(chain.from_iterable(nicknames))
    with_numbers = {shape[1] for name in spelt if (shape := PARAMETER_SHAPE.fullmatch(name))}
    bare = (_with_parameters(name) for name in spelt if name not in with_numbers)
    return list(dict.fromkeys(chain.from_iterable(bare)))


def _with_parameters(name: str) -> list[str]:
    if name in default_parameters:
        return [f"{name}_{parameter}" for parameter in default_parameters[name]]
    if name in supported_measures:
        return [name]
    shape = PARAMETER_SHAPE.fullmatch(name)
    if shape is None or shape[1] not in default_parameters:
        raise ValueError(f"unsupported measure {name}.{did_you_mean(name, supported_measures)}")
    numbers = shape[2].split(",")
    if shape[1] in ("iprec_at_recall", "Rprec_mult"):  # as trec_eval prints them
        numbers = [f"{float(number):.2f}" for number in numbers]
    return [f"{shape[1]}_{number}" for number in numbers]


def compute_aggregated_measure(measure: str, values: Iterable[float]) -> float:
    """Return the sum of counts, a geometric mean, or the mean."""
    numbers = np.asarray(list(values), np.float64)
    if measure.startswith("num_"):
        return float(numbers.sum())
    mean = float(numbers.sum() / len(numbers)) if len(numbers) else math.nan
    return math.exp(mean) if measure.startswith("gm_") else mean


Number = TypeVar("Number", int, float)


def parse_run(f_run: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return a TREC run from its lines."""
    return _parse(f_run, 6, 4, float)


def parse_qrel(f_qrel: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return TREC judgments from their lines."""
    return _parse(f_qrel, 4, 3, int)


def _parse(
    lines: Iterable[str], width: int, place: int, number_of: Callable[[str], Number]
) -> dict[str, dict[str, Number]]:
    lists: dict[str, dict[str, Number]] = {}
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if len(parts) != width:
            raise FormatError(f"line {number} has {len(parts)} columns, not {width}.")
        docs = lists.setdefault(parts[0], {})
        if parts[2] in docs:  # an AssertionError there, too
            raise AssertionError(f"line {number} names {parts[2]} twice for {parts[0]}.")
        try:
            docs[parts[2]] = number_of(parts[place])
        except ValueError:
            what = "a whole number" if number_of is int else "a number"
            raise FormatError(f"line {number} has {parts[place][:40]!r} for {what}.") from None
    return lists
