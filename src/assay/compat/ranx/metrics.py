"""ranx's evaluate and compare, and its metrics by Assay's measures, under ranx's names.

`score_queries` takes the names as they are written (`ndcg@10-l2`); the functions of metrics take
ranx's arrays of (document, number) rows. A query without a value counts 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Floats
from assay.compat.ranx.data_structures import Qrels, Report, Run, SystemPairs, sort_docs
from assay.core.conventions import preset
from assay.core.hits import judge
from assay.core.text import did_you_mean
from assay.io.formats import as_judgments, as_ranking
from assay.measures.registry import gain_function
from assay.measures.views import RankView, discount
from assay.scoring import evaluate as scoring
from assay.stats import paired_test, tukey_hsd

Lists = Mapping[str, Mapping[str, float]]

_RULES: Final = preset("ranx").replace(missing="zero")  # the caller has compared the queries
# Measures of Assay with and without a cutoff.
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
    k: int = 0  # 0: no cutoff
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
        scores = scoring.evaluate(run, grades, needed, conventions=_RULES, allow_mismatch=True)
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


_TESTS = {"student": "t", "fisher": "randomisation"}


def evaluate(
    qrels: Any,
    run: Any,
    metrics: str | Sequence[str],
    return_mean: bool = True,
    return_std: bool = False,
    threads: int = 0,
    save_results_in_run: bool = True,
    make_comparable: bool = False,
) -> Any:
    """Return the mean of each metric, or the values of queries.

    `qrels` and `run` are a Qrels and a Run, dicts, or arrays of (document, number) rows; `threads`
    is not used.
    """
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if make_comparable and isinstance(run, Run) and isinstance(qrels, Qrels):
        run.make_comparable(qrels)
    grades, lists = _lists(qrels, ranked=False), _lists(run, ranked=True)
    if grades.keys() != lists.keys():
        raise AssertionError(
            "The queries of qrels and run do not match. Pass make_comparable=True to drop "
            "unjudged queries and count missing ones as empty."
        )
    values = score_queries(grades, lists, names)
    if isinstance(run, Run) and save_results_in_run:
        for metric, of_queries in values.items():
            run.mean_scores[metric] = np.mean(of_queries)
            if return_mean and return_std:
                run.std_scores[metric] = np.std(of_queries)
            run.scores[metric] |= dict(zip(grades, of_queries, strict=True))
    results: dict[str, Any] = dict(values)
    if return_mean and return_std:
        results = {m: {"mean": np.mean(v), "std": np.std(v)} for m, v in values.items()}
    elif return_mean:
        results = {m: np.mean(v) for m, v in values.items()}
    return results[names[0]] if len(names) == 1 else results


def _lists(data: Any, *, ranked: bool) -> Mapping[str, Mapping[str, float]]:
    """Return {query: {document: number}}; ranx reverses ties of plain dicts."""
    if isinstance(data, Qrels | Run):
        return data.in_order()
    if not isinstance(data, Mapping):
        return as_lists(data, ranked=ranked)
    return {query: sort_docs(list(docs.items())[::-1]) for query, docs in data.items()}


def compare(
    qrels: Qrels,
    runs: Sequence[Run],
    metrics: str | Sequence[str],
    stat_test: str = "student",
    n_permutations: int = 1000,
    max_p: float = 0.01,
    random_seed: int = 42,
    threads: int = 0,
    rounding_digits: int = 3,
    show_percentages: bool = False,
    make_comparable: bool = False,
) -> Report:
    """Compare the means of several runs, with a test of every pair.

    Student's test is ranx's. Fisher's tries all permutations where there are few, and draws others
    than ranx; Tukey's is the randomised one, which knows that the systems share their queries.
    """
    if stat_test not in (*_TESTS, "tukey"):
        raise NotImplementedError(f"Unknown test {stat_test!r}. Use student, fisher or tukey.")
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    values: dict[str, dict[str, Floats]] = {}
    for place, run in enumerate(runs, 1):
        of_run = evaluate(qrels, run, names, False, make_comparable=make_comparable)
        values[run.name or f"run_{place}"] = of_run if len(names) > 1 else {names[0]: of_run}
    pairs = [(a, b) for a in values for b in values if a != b]
    comparisons = SystemPairs({frozenset(pair): {} for pair in pairs})
    for metric in names:
        scores = {model: of_run[metric] for model, of_run in values.items()}
        for pair, p in _test_pairs(scores, stat_test, n_permutations, random_seed).items():
            comparisons[pair][metric] = {"p_value": p, "significant": p <= max_p}
    means = {
        model: {m: float(np.mean(of_run[m])) for m in names} for model, of_run in values.items()
    }
    wins = {(a, b): {m: _win_tie_loss(values[a][m], values[b][m]) for m in names} for a, b in pairs}
    how = rounding_digits, show_percentages, stat_test
    return Report(list(values), means, comparisons, names, max_p, wins, *how)


def _test_pairs(
    scores: dict[str, Floats], test: str, resamples: int, seed: int
) -> dict[tuple[str, str], float]:
    """Return the p-value of each pair of systems."""
    models = list(scores)
    places = [(i, j) for i in range(len(models)) for j in range(i)]
    if not places:
        return {}
    if test == "tukey":
        table = tukey_hsd(list(scores.values()), resamples=max(resamples, 10_000), seed=seed).p
        return {(models[i], models[j]): float(table[i, j]) for i, j in places}
    how: dict[str, Any] = {"method": _TESTS[test], "resamples": resamples, "seed": seed}
    pairs = [(models[i], models[j]) for i, j in places]
    return {pair: paired_test(*(scores[model] for model in pair), **how).p for pair in pairs}


def _win_tie_loss(left: Floats, right: Floats) -> dict[str, int]:
    counts = [(left > right).sum(), (left == right).sum(), (left < right).sum()]
    return dict(zip("WTL", map(int, counts), strict=True))
