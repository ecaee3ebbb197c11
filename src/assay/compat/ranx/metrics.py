"""ranx's metrics by Assay's measures: values of queries under ranx's names.

`score_queries` takes the names as they are written (`ndcg@10-l2`); the functions take ranx's arrays
of (document, number) rows. A query without a value counts 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Floats
from assay.core.conventions import preset
from assay.core.hits import judge
from assay.core.text import did_you_mean
from assay.io.formats import as_judgments, as_ranking
from assay.measures.registry import gain_function
from assay.measures.views import RankView, discount
from assay.scoring.evaluate import evaluate

Lists = Mapping[str, Mapping[str, float]]

_RULES: Final = preset("ranx").but(missing="zero")  # the caller has compared the queries
# Measures of Assay with and without a cut-off.
_NAMES: Final = {
    "hits": ("num_rel_ret(rel={rel})@{k}", "num_rel_ret(rel={rel})"),
    "hit_rate": ("Success(rel={rel})@{k}", "Success(rel={rel})@1000000000"),
    "precision": ("P(rel={rel})@{k}", "SetP(rel={rel})"),
    "recall": ("R(rel={rel})@{k}", "SetR(rel={rel})"),
    "r-precision": ("Rprec(rel={rel})", "Rprec(rel={rel})"),
    "mrr": ("RR(rel={rel})@{k}", "RR(rel={rel})"),
    "map": ("AP(rel={rel})@{k}", "AP(rel={rel})"),
    "ndcg": ("nDCG(gain=linear)@{k}", "nDCG(gain=linear)"),
    "ndcg_burges": ("nDCG(gain=exp)@{k}", "nDCG(gain=exp)"),
    "bpref": ("bpref(rel={rel})", "bpref(rel={rel})"),
    "rbp": ("", "RBP(graded=true,p={p})"),
}
_GAINS: Final = {"dcg": "linear", "dcg_burges": "exp"}
_F1_PARTS: Final = ("precision", "recall")
_SHAPE: Final = re.compile(
    r"(rbp[.@](?P<p>\d+)|(?P<name>[a-z_0-9-]+?)(@(?P<k>\d+))?)(-l(?P<rel>\d+))?"
)


class _Metric(NamedTuple):
    name: str
    k: int = 0  # 0: no cut-off
    rel: int = 1
    p: str = ""

    def measure(self) -> str:
        """Return the name of Assay's measure."""
        shape = _NAMES[self.name][0 if self.k else 1]
        return shape.format(k=self.k, rel=self.rel, p=self.p)

    def parts(self) -> list[str]:
        """Return the names of Assay's measures that it is computed from."""
        if self.name in _GAINS:
            return []
        if self.name == "f1":
            return [self._replace(name=part).measure() for part in _F1_PARTS]
        return [self.measure()]


def _parse(text: str) -> _Metric:
    shape = _SHAPE.fullmatch(text)
    names = [*_NAMES, *_GAINS, "f1"]
    name = "" if shape is None else shape["name"] or "rbp"
    if shape is None or name not in names or text == "rbp":
        example = " Write rbp.95 for a persistence of 0.95." if text.startswith("rbp") else ""
        raise ValueError(
            f"Metric {text} is not one of {', '.join(names)}.{example or did_you_mean(name, names)}"
        )
    return _Metric(name, int(shape["k"] or 0), int(shape["rel"] or 1), f"0.{shape['p']}")


def score_queries(qrels: Lists, run: Lists, metrics: Iterable[str]) -> dict[str, Floats]:
    """Return the values of each metric, in the judgments' order."""
    parsed = {text: _parse(text) for text in metrics}
    values: dict[str, Floats] = {}
    for rel in dict.fromkeys(metric.rel for metric in parsed.values()):
        # What ranx does not count as relevant is judged and has no gain, below 0 or not.
        grades = {
            query: {doc: grade if grade >= rel else 0 for doc, grade in docs.items()}
            for query, docs in qrels.items()
        }
        some = {text: metric for text, metric in parsed.items() if metric.rel == rel}
        values |= _score_level(grades, run, some)
    return {text: values[text] for text in parsed}


def _score_level(grades: Lists, run: Lists, parsed: dict[str, _Metric]) -> dict[str, Floats]:
    needed = list(dict.fromkeys(part for metric in parsed.values() for part in metric.parts()))
    if needed and grades:
        scores = evaluate(run, grades, needed, conventions=_RULES, allow_mismatch=True)
        rows = {query: row for row, query in enumerate(scores.query_ids)}
        order = [rows[query] for query in grades]
        values = {
            part: np.nan_to_num(scores[measure])[order]
            for part, measure in zip(needed, scores.measures, strict=True)
        }
    else:
        values = {part: np.zeros(0) for part in needed}
    return {text: _value(metric, values, grades, run) for text, metric in parsed.items()}


def _value(metric: _Metric, values: dict[str, Floats], grades: Lists, run: Lists) -> Floats:
    if metric.name in _GAINS:
        return _dcg(metric, grades, run)
    parts = [values[part] for part in metric.parts()]
    if metric.name == "f1":
        total = parts[0] + parts[1]
        return np.divide(2 * parts[0] * parts[1], total, out=np.zeros_like(total), where=total > 0)
    if metric.name == "rbp":  # ranx does not divide grades by the highest of the query
        return parts[0] * [max(1, *docs.values(), 1) for docs in grades.values()]
    return parts[0]


def _dcg(metric: _Metric, grades: Lists, run: Lists) -> Floats:
    """Return the sum over which nDCG divides by the ideal one."""
    if not grades:
        return np.zeros(0)
    hits = judge(
        as_ranking(run, _RULES), as_judgments(grades), conventions=_RULES, allow_mismatch=True
    )
    view = RankView(hits, gain_function("graded", gain=_GAINS[metric.name], gains=()), "order")
    rows = {query: row for row, query in enumerate(hits.query_ids)}
    return view.weigh(discount, metric.k or None)[[rows[query] for query in grades]]


def as_lists(rows: Any, *, ranked: bool) -> dict[str, dict[str, float]]:
    """Turn rows of (document, number) into dicts.

    A run's are ranked as they stand.

    A document that a run names again keeps its first place, and the later one is nobody's.
    """
    lists: dict[str, dict[str, float]] = {}
    for query, lines in enumerate(rows):
        docs: dict[str, float] = {}
        for place, (doc, number) in enumerate(np.asarray(lines).tolist()):
            key = f"{doc}#{place}" if ranked and str(doc) in docs else str(doc)
            docs[key] = -float(place) if ranked else number
        lists[str(query)] = docs
    return lists


def _score_arrays(text: str, qrels: Any, run: Any) -> Floats:
    lists = as_lists(qrels, ranked=False), as_lists(run, ranked=True)
    return score_queries(*lists, [text])[text]


def _metric_function(name: str) -> Any:
    def function(qrels: Any, run: Any, k: int = 0, rel_lvl: int = 1) -> Floats:
        return _score_arrays(f"{name}@{k}-l{rel_lvl}", qrels, run)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The value of {name} for each query."
    return function


hits = _metric_function("hits")
hit_rate = _metric_function("hit_rate")
precision = _metric_function("precision")
recall = _metric_function("recall")
f1 = _metric_function("f1")
r_precision = _metric_function("r-precision")
reciprocal_rank = _metric_function("mrr")
average_precision = _metric_function("map")
dcg = _metric_function("dcg")
dcg_burges = _metric_function("dcg_burges")
ndcg = _metric_function("ndcg")
ndcg_burges = _metric_function("ndcg_burges")
bpref = _metric_function("bpref")


def rank_biased_precision(qrels: Any, run: Any, p: float, rel_lvl: int = 1) -> Floats:
    """Return the value of RBP with this persistence for each query."""
    digits = f"{p:.15f}".removeprefix("0.").rstrip("0")
    return _score_arrays(f"rbp.{digits or 0}-l{rel_lvl}", qrels, run)
