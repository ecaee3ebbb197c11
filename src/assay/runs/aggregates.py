"""Aggregates of a run: means with their intervals, counts, chance and ceiling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.arrays import Floats
from assay.comparison.alignment import cluster_labels
from assay.core.conventions import Conventions
from assay.errors import MeasureError
from assay.measures import parse
from assay.runs.results import Aggregate
from assay.scoring.scores import Mean, Scores
from assay.stats import Interval, intervals

__all__ = ["aggregates_of", "canonical"]


def canonical(measure: str) -> str:
    """The canonical name of a measure; a name that is no measure's stays as it is.

    >>> canonical("ndcg_cut_10"), canonical("mean_precision")
    ('nDCG@10', 'mean_precision')
    """
    try:
        return str(parse(measure))
    except MeasureError:
        return measure


def aggregates_of(
    scores: Scores,
    *,
    chance: Mapping[str, float] | None = None,
    ceiling: Mapping[str, float] | None = None,
    clusters: str = "",
    resampling: Mapping[str, Any] | None = None,
) -> list[Aggregate]:
    """Means over queries with intervals, and means over the groups of each column.

    Intervals resample whole groups of the column `clusters`; `resampling` may set their level,
    number of resamples and seed.
    """
    means = list(_average(scores, None))
    spans = _intervals(scores, clusters, resampling or {})
    means = [
        replace(
            one,
            chance=None if chance is None else chance.get(one.measure),
            ceiling=None if ceiling is None else ceiling.get(one.measure),
            **_interval_fields(spans[one.measure], clusters),
        )
        for one in means
    ]
    return [*means, *(one for column in scores.groups for one in _average(scores, column))]


def _average(scores: Scores, by: str | None) -> Iterator[Aggregate]:
    rules = _without_errors(scores.conventions)
    mean = scores.mean(by=by, empty=rules.empty, missing=rules.missing)
    skip, zero = (_mean_with_empty(scores, mean, rules, by, empty) for empty in ("skip", "zero"))
    for name, value in mean.items():
        counts = mean.counts[name]
        yield Aggregate(
            name,
            value,
            average=mean.average,
            by_column=by or "",
            value_skip=skip[name],
            value_zero=zero[name],
            n=counts.n,
            empty=counts.empty,
            missing=counts.missing,
            tied=counts.tied,
            groups_left_out=counts.groups_left_out,
        )


def _mean_with_empty(
    scores: Scores, mean: Mean, rules: Conventions, by: str | None, empty: str
) -> Mean:
    if rules.empty == empty:
        return mean
    return scores.mean(by=by, empty=empty, missing=rules.missing)


def _without_errors(rules: Conventions) -> Conventions:
    """Conventions that refuse nothing: what was computed can be stored."""
    return rules.but(
        empty="skip" if rules.empty == "error" else None,
        missing="skip" if rules.missing == "error" else None,
    )


def _intervals(
    scores: Scores, clusters: str, resampling: Mapping[str, Any]
) -> dict[str, Interval | None]:
    """An interval for each plain mean; sums and geometric means have none."""
    found = intervals(
        _averaged_values(scores),
        clusters=cluster_labels(scores, clusters),
        bounds=[measure.bounds for measure in scores.measures],
        **resampling,
    )
    return {
        str(measure): one if measure.definition.aggregate == "mean" else None
        for measure, one in zip(scores.measures, found, strict=True)
    }


def _averaged_values(scores: Scores) -> Floats:
    """The values that the mean is made of; NaN where it leaves a query out."""
    rules = _without_errors(scores.conventions)
    table: Floats = np.array(scores.values)
    if rules.empty == "zero":
        table[np.isnan(table)] = 0.0
    if rules.missing == "skip":
        table[:, scores.missing] = np.nan
    return table


def _interval_fields(interval: Interval | None, clusters: str) -> dict[str, Any]:
    if interval is None:
        return {}
    keys = ("low", "high", "level", "note")
    found = {key: getattr(interval, key) for key in keys}
    return {**found, "method": interval.method, "clusters": clusters}
