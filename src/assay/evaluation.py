"""evaluate: from a run and judgments to scores, and `score`, its last step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.conventions import Conventions, preset
from assay.hits import Hits, judge
from assay.measures import Measure, parse_many
from assay.measures.views import Placed, Tied
from assay.measures.worth import WORTH_PARAMS, worth_function
from assay.scores import Scores

__all__ = ["evaluate", "measure_hits", "score"]

Floats = NDArray[np.float64]
Measures = str | Measure | Iterable[str | Measure]


def evaluate(
    run: Any,
    qrels: Any,
    measures: Measures = "default",
    *,
    conventions: str | Conventions = "trec_eval",
    groups: Mapping[str, Any] | None = None,
) -> Scores:
    """Scores of a run against judgments.

    `run` is a `Ranking`, a path, {query: {doc: score}}, a data frame or (query, doc, score)
    tuples; `qrels` likewise with grades. `conventions` is a preset's name, a signature or a
    `Conventions`.

    >>> run = {"q1": {"a": 0.9, "b": 0.4}, "q2": {"a": 0.8, "b": 0.1}}
    >>> qrels = {"q1": {"a": 1}, "q2": {"b": 1}}
    >>> evaluate(run, qrels, ["RR", "P@1"]).mean()
    Mean(micro: RR=0.7500, P@1=0.5000)
    """
    from assay.io.sources import as_judgments, as_ranking

    rules = as_conventions(conventions)
    hits = judge(as_ranking(run, rules), as_judgments(qrels), conventions=rules)
    scores = score(hits, measures, conventions=rules)
    return scores.with_groups(**groups) if groups else scores


def as_conventions(conventions: str | Conventions) -> Conventions:
    """Conventions from a value, a preset's name or a signature."""
    if isinstance(conventions, Conventions):
        return conventions
    return Conventions.parse(conventions)


def score(
    hits: Hits, measures: Measures = "default", *, conventions: str | Conventions | None = None
) -> Scores:
    """Scores of hits: every measure for every query."""
    rules = preset("trec_eval") if conventions is None else as_conventions(conventions)
    wanted = parse_many(measures)
    columns = [measure_hits(hits, measure, rules) for measure in wanted]
    shape = (len(wanted), hits.n_queries)
    return Scores(
        measures=wanted,
        query_ids=hits.query_ids,
        values=np.array([values for values, _ in columns]).reshape(shape),
        tied=np.array([tied for _, tied in columns], dtype=bool).reshape(shape),
        missing=hits.missing,
        conventions=rules,
        extra=hits.extra,
    )


def measure_hits(
    hits: Hits, measure: Measure, rules: Conventions
) -> tuple[Floats, NDArray[np.bool_]]:
    """One measure for every query, NaN where undefined, and which values depend on ties.

    Only queries in which a judged document ties with another are computed again for other orders.
    """
    arguments, worth = _arguments(measure, rules)
    placed = Placed(hits, worth, "order")
    values = measure.definition.function(placed, **arguments)
    tied = np.zeros(hits.n_queries, bool)
    rows = hits.tied_rows
    if len(rows):
        some = hits.select(rows)
        best, worst = _extremes(some, measure, arguments, worth)
        tied[rows] = best != worst
        values = values.copy()
        values[rows] = _under_ties(rules.ties, some, measure, arguments, worth, best, worst,
                                   values[rows])
    defined = _defined(placed, measure.definition.defined)
    return np.where(defined, values, np.nan), tied & defined


def _arguments(measure: Measure, rules: Conventions) -> tuple[dict[str, Any], Any]:
    """What the measure's function is called with, and what a grade is worth to it."""
    definition = measure.definition
    params: dict[str, Any] = {
        key: _from_convention(param.convention, rules) if param.convention else param.default
        for key, param in definition.params.items()
    }
    params.update(measure.params)
    worth = worth_function(definition.worth, params)
    arguments = {key: value for key, value in params.items() if key not in WORTH_PARAMS}
    if definition.cutoff not in ("none", "R"):
        arguments["k"] = measure.cutoff
    return arguments, worth


def _from_convention(name: str, rules: Conventions) -> Any:
    value = getattr(rules, name)
    return value == "min" if name == "recall" else value


def _extremes(
    hits: Hits, measure: Measure, arguments: dict[str, Any], worth: Any
) -> tuple[Floats, Floats]:
    """Largest and smallest value over all orders of tied documents."""
    definition = measure.definition
    if definition.extremes is not None:
        found = definition.extremes(Tied(hits, worth), **arguments)
        if found is not None:
            return found
    best = definition.function(Placed(hits, worth, "best"), **arguments)
    worst = definition.function(Placed(hits, worth, "worst"), **arguments)
    return np.maximum(best, worst), np.minimum(best, worst)


def _under_ties(
    ties: str, hits: Hits, measure: Measure, arguments: dict[str, Any], worth: Any,
    best: Floats, worst: Floats, in_order: Floats,
) -> Floats:  # fmt: skip
    if ties == "order":
        return in_order
    if ties in ("best", "worst"):
        return best if ties == "best" else worst
    if ties == "midrank-up":
        return measure.definition.function(Placed(hits, worth, "midrank-up"), **arguments)
    expected = measure.definition.expected or measure.definition.function
    mean = expected(Tied(hits, worth), **arguments)
    return np.where(best == worst, best, np.clip(mean, worst, best))


def _defined(placed: Placed, rule: str) -> NDArray[np.bool_]:
    if rule == "relevant":
        return placed.n_good > 0
    if rule == "retrieved":
        return placed.n_ret > 0
    return np.ones(placed.n_queries, bool)
