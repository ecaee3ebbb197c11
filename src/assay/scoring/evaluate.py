"""evaluate: from a run and judgments to scores, at once (`score`) or in batches (`Stream`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core import checks
from assay.core.conventions import Choices, Conventions, as_conventions, check_keywords, preset
from assay.core.hits import Hits, judge
from assay.core.ids import Ids
from assay.core.object_join import judge_objects
from assay.core.text import Remark
from assay.errors import MeasureError, UsageError
from assay.io.formats import QrelsLike, RunLike, as_judgments, as_ranking, read_questions
from assay.measures import Measure, MeasuresLike, parse_many
from assay.measures.registry import GAIN_PARAMS, Definition, gain_function
from assay.measures.views import Gain, RankView, TieView
from assay.scoring.scores import Scores

_FAR = 10  # times the longest list
_CHOSEN_BY_JUDGE = ("tiebreak", "scores", "self_match", "unjudged", "depth")


def evaluate(
    run: RunLike,
    qrels: QrelsLike,
    measures: MeasuresLike = "default",
    *,
    conventions: str | Conventions = "trec_eval",
    groups: Mapping[str, Any] | None = None,
    allow_mismatch: bool = False,
    queries: str | os.PathLike[str] | None = None,
    **choices: Unpack[Choices],
) -> Scores:
    """Return scores of a run against judgments.

    Args:
        run: A `Ranking`, a path, {query: {doc: score}}, a data frame or (query, doc, score)
            tuples.
        qrels: Judgments, likewise with grades.
        measures: Names of measures, or of a group of them.
        conventions: The name of a preset, a signature or a `Conventions`.
        groups: Group columns by name: {column: {query id: group}}.
        allow_mismatch: Continue despite ids that do not fit, such as `1` and `01`.
        queries: A file with ids and texts of the queries, where run or judgments have their texts.
        **choices: Single choices of the conventions: `ties="expected"`.

    Returns:
        Every measure for every query.

    Raises:
        MismatchError: Ids do not fit.
        MeasureError: A measure is unknown.

    Example:
        >>> run = {"q1": {"a": 0.9, "b": 0.4}, "q2": {"a": 0.8, "b": 0.1}}
        >>> qrels = {"q1": {"a": 1}, "q2": {"b": 1}}
        >>> evaluate(run, qrels, ["RR", "P@1"]).mean()
        Mean(micro: RR=0.7500, P@1=0.5000)
    """
    check_keywords(evaluate, choices)
    checks.check_flag(allow_mismatch, "allow_mismatch")
    rules = as_conventions(conventions, **choices)
    questions = read_questions(queries)
    hits = None if questions else judge_objects(run, qrels, rules, allow_mismatch=allow_mismatch)
    if hits is None:
        hits = judge(
            as_ranking(run, rules, questions),
            as_judgments(qrels, questions),
            conventions=rules,
            allow_mismatch=allow_mismatch,
        )
    scores = score(hits, measures, conventions=rules)
    if groups is None:
        return scores
    checks.require(groups, Mapping, "groups", "{column: {query id: group}}")
    return scores.with_groups(**groups)


def score(
    hits: Hits, measures: MeasuresLike = "default", *, conventions: str | Conventions | None = None
) -> Scores:
    """Score hits: every measure for every query.

    What `judge` decided (tie-break, precision, self matches, depth) stays as it was, and the
    signature says so.

    Args:
        hits: What `judge` returns.
        measures: Names of measures, or of a group of them.
        conventions: As of `evaluate`; by default those of the hits.

    Returns:
        Every measure for every query.

    Example:
        >>> from assay import judge_ranks
        >>> score(judge_ranks([1, 2]), "RR").mean()["RR"]
        0.75
    """
    checks.require(hits, Hits, "hits", "what judge() returns")
    rules = _rules(hits, conventions)
    parsed = parse_many(measures)
    views = _Views(hits)
    values = np.empty((len(parsed), hits.n_queries))
    tied = np.zeros(values.shape, bool)
    for measure, row, flags in zip(parsed, values, tied, strict=True):
        _fill(views, measure, rules, row, flags)
    return Scores(
        measures=parsed,
        query_ids=hits.query_ids,
        values=values,
        tied=tied,
        missing=hits.missing,
        conventions=rules,
        extra=hits.extra,
        search=hits.search,
        settings=hits.settings,
        hits=hits if hits.ranking is not None else None,
        remarks=(*hits.remarks, *_too_small_grades(hits, parsed), *_short_lists(hits, parsed)),
    )


def _too_small_grades(hits: Hits, measures: tuple[Measure, ...]) -> list[str]:
    """Warn of grades such as 0.5, which the threshold 1 does not count as relevant."""
    some = hits.pool_grade[(hits.pool_grade > 0) & (hits.pool_grade < 1)]
    if not len(some):
        return []
    limits: dict[Measure, Any] = {
        measure: dict(measure.params).get("rel", measure.definition.params["rel"].default)
        for measure in measures
        if "rel" in measure.definition.params
    }
    blind = [str(m) for m, limit in limits.items() if some.min() < limit <= 1]
    if not blind:
        return []
    return [
        f"grades between 0 and 1, such as {some.min():g}, are not relevant to "
        f"{blind[0]}{' and others' if len(blind) > 1 else ''}: set rel (--rel) to the smallest "
        "relevant grade"
    ]


def _short_lists(hits: Hits, measures: tuple[Measure, ...]) -> Iterator[str]:
    """Warn of cutoffs that no list reaches, where relevant documents may lie beyond the ends.

    Lists of one length are cut there; lists of many lengths may hold all that a system matches,
    so they count only where the cutoff is far away. A list of the whole collection, or of all that
    a run names, is not short.
    """
    longest = int(hits.n_ret.max(initial=0))
    deep = [m for m in measures if isinstance(m.cutoff, int) and m.cutoff > longest > 0]
    deep = [m for m in deep if not m.is_order_free and m.definition.gain != "judged"]
    present, rules = ~hits.missing, hits.conventions
    if not deep or (rules and (0 < rules.depth <= longest or rules.unjudged == "condensed")):
        return
    if 2 * np.count_nonzero(hits.n_ret[present] == longest) < np.count_nonzero(present):
        deep = [measure for measure in deep if int(measure.cutoff or 0) >= _FAR * longest]
    relevant = np.bincount(
        hits.pool_row, hits.pool_count * (hits.pool_grade > 0), minlength=hits.n_queries
    ) - np.bincount(hits.row, hits.grade > 0, minlength=hits.n_queries)
    open_ended = present & (relevant > 0) & ((hits.n_docs <= 0) | (hits.n_ret < hits.n_docs))
    if deep and open_ended.any() and hits.coverage is not None:
        open_ended &= hits.n_ret < hits.coverage.n_named
    if deep and open_ended.any():
        yield Remark(
            f"{', '.join(map(str, deep))}: the longest list has {longest} documents, so values "
            f"may be too low: rank deeper, or use cutoffs up to {longest}",
            f"lists end at rank {longest}: {deep[0]} may be too low",
            f"lists of {{}} systems end before rank {deep[0].cutoff}: {deep[0]} may be too low",
        )


def _rules(hits: Hits, conventions: str | Conventions | None) -> Conventions:
    """Return the conventions given, with the choices that were made when the hits were judged."""
    judged = hits.conventions
    if conventions is None:
        return judged or preset("trec_eval")
    rules = as_conventions(conventions)
    if judged is None or judged is rules:
        return rules
    return rules.replace(**{name: getattr(judged, name) for name in _CHOSEN_BY_JUDGE})


class _Views:
    """The views of some hits; measures with the same gains share them."""

    def __init__(self, hits: Hits) -> None:
        self.hits = hits
        self.ranked = cache(lambda gain, ties: RankView(hits, gain, ties))  # each at one rank
        self.tied = cache(lambda gain: TieView(hits, gain))  # whole tie groups

    @cached_property
    def of_tied_queries(self) -> _Views:
        """Views of only those queries in which a judged document ties with another."""
        return _Views(self.hits.select(self.hits.tied_rows))


def _fill(
    views: _Views, measure: Measure, rules: Conventions, values: Floats, tied: NDArray[np.bool_]
) -> None:
    """Set one measure for every query, NaN where undefined, and which values depend on ties.

    Only queries in which a judged document ties with another are computed again for other orders.
    """
    arguments, gain = call_of(measure, rules)
    _refuse_grade_zero(views.hits, measure, gain)
    view = views.ranked(gain, "order")
    definition = measure.definition
    values[:] = definition.function(view, **arguments)
    rows = views.hits.tied_rows
    if len(rows):
        some = views.of_tied_queries
        best, worst = _extremes(some, definition, arguments, gain)
        tied[rows] = best != worst
        if rules.ties in ("best", "worst"):
            values[rows] = best if rules.ties == "best" else worst
        elif rules.ties != "order":
            if rules.ties == "midrank-up":
                between = definition.function(some.ranked(gain, "midrank-up"), **arguments)
            else:
                between = definition.expectation(some.tied(gain), **arguments)
            # Rounding, and mean gains in ERR, may lead a hair beyond what any order can give.
            values[rows] = np.where(best == worst, best, np.clip(between, worst, best))
    if views.hits.tie_split is not None and "size-only" not in definition.laws:
        tied |= views.hits.tie_split
    needs = definition.defined
    if needs in ("relevant", "retrieved"):
        empty = view.pool.without_good if needs == "relevant" else np.flatnonzero(view.n_ret <= 0)
        if len(empty):
            values[empty], tied[empty] = np.nan, False


def call_of(measure: Measure, rules: Conventions) -> tuple[dict[str, Any], Gain]:
    """Return the arguments of the measure's function, and its function from grades to gains."""
    return _call(measure.definition, measure, rules)


@lru_cache(1024)
def _call(
    definition: Definition, measure: Measure, rules: Conventions
) -> tuple[dict[str, Any], Gain]:
    params: dict[str, Any] = {}
    for key, param in definition.params.items():
        value = getattr(rules, param.convention) if param.convention else param.default
        params[key] = value == "min" if param.convention == "recall" else value
    params.update(measure.params)
    gains = {key: params[key] for key in GAIN_PARAMS if key in params}
    gain = gain_function(definition.gain, **gains)
    arguments = {key: value for key, value in params.items() if key not in GAIN_PARAMS}
    if definition.cutoff not in ("none", "R"):
        arguments["k"] = measure.cutoff
    return arguments, gain


def _refuse_grade_zero(hits: Hits, measure: Measure, gain: Gain) -> None:
    """Refuse to count grade 0: labels and targets list relevant documents only."""
    if hits.exhaustive and measure.definition.gain != "judged" and gain(np.zeros(1))[0] > 0:
        raise MeasureError(
            f"{measure} counts documents of grade 0, but labels and targets have no grades. Omit "
            "rel= and gains=, or pass graded judgments."
        )


def _extremes(
    views: _Views, definition: Definition, arguments: dict[str, Any], gain: Gain
) -> tuple[Floats, Floats]:
    """Return the largest and smallest value over all orders of tied documents."""
    if definition.extremes is not None:
        extremes = definition.extremes(views.tied(gain), **arguments)
        if extremes is not None:
            return extremes
    best = definition.function(views.ranked(gain, "best"), **arguments)
    worst = definition.function(views.ranked(gain, "worst"), **arguments)
    return np.maximum(best, worst), np.minimum(best, worst)


class Stream:
    """Collects the scores of batches; a thin shell around `score` and `Scores.merge`.

    With `number=True` the queries of each batch, numbered from 0, are numbered on from the last
    batch; otherwise every query keeps its id, and an id may come once.

    >>> from assay import judge_ranks
    >>> stream = Stream("RR", number=True)
    >>> for ranks in ([1, 2], [4]):
    ...     stream.add_hits(judge_ranks(ranks))
    >>> round(stream.scores().mean()["RR"], 4)
    0.5833
    """

    def __init__(
        self,
        measures: MeasuresLike = "default",
        *,
        conventions: str | Conventions = "trec_eval",
        number: bool = False,
        **choices: Unpack[Choices],
    ) -> None:
        check_keywords(Stream, choices)
        self._measures = parse_many(measures)
        self._rules = as_conventions(conventions, **choices)
        self._number = number
        self._parts: list[Scores] = []
        self._seen = 0

    def add(self, run: RunLike, qrels: QrelsLike, *, allow_mismatch: bool = False) -> None:
        """Evaluate one batch of queries: a run and its judgments, as for `evaluate`."""
        ranking, judgments = as_ranking(run, self._rules), as_judgments(qrels)
        hits = judge(ranking, judgments, conventions=self._rules, allow_mismatch=allow_mismatch)
        self.add_hits(hits)

    def add_hits(self, hits: Hits) -> None:
        """Evaluate one batch of queries that is judged already."""
        checks.require(hits, Hits, "hits", "what judge() returns")
        if self._number:
            if hits.query_ids.kind != "integer":
                raise UsageError("number=True is for queries without ids. Omit it.")
            hits = replace(hits, query_ids=Ids.count(hits.n_queries, self._seen))
        self._seen += hits.n_queries
        self._parts.append(score(hits, self._measures, conventions=self._rules))

    def scores(self) -> Scores:
        """Return the scores of all batches so far."""
        if not self._parts:
            raise UsageError("This Stream is empty. Add a batch first.")
        return Scores.merge(*self._parts)
