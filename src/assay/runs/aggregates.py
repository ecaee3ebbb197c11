"""Aggregates of a run: means with their intervals, counts, chance and ceiling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import isclose
from typing import Any, Final

import numpy as np

from assay.arrays import Floats
from assay.comparison.alignment import cluster_labels
from assay.core.conventions import Conventions
from assay.errors import MeasureError
from assay.measures import parse
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.scoring.scores import Mean, Scores
from assay.stats import Interval, intervals

__all__ = ["aggregates_of", "aggregates_of_record", "canonical", "find_contradictions"]


def canonical(measure: str) -> str:
    """The canonical name of a measure; a name that is no measure's stays as it is.

    >>> canonical("ndcg_cut_10"), canonical("mean_precision")
    ('nDCG@10', 'mean_precision')
    """
    try:
        return str(parse(measure))
    except (MeasureError, ValueError):  # also a number with too many digits
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


def aggregates_of_record(record: RunRecord) -> list[Aggregate]:
    """All aggregates of a record: those of its scores, then its own."""
    if record.scores is None:
        return list(record.aggregates)
    computed = aggregates_of(
        record.scores,
        chance=record.chance_means(),
        ceiling=record.ceiling_means(),
        clusters=record.clusters,
        resampling=record.resampling,
    )
    return [*computed, *record.aggregates]


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


_MEANS: Final = ("value", "value_skip", "value_zero")
_COUNTS: Final = ("n", "empty", "missing", "tied", "groups_left_out")
_ROUNDING: Final = 1e-9  # the order of a sum may differ from machine to machine


def find_contradictions(stored: Sequence[Aggregate], scores: Scores) -> Iterator[str]:
    """Where stored means or counts are not those of the values that they were computed from."""
    found = {_key(one): one for one in reversed(stored)}  # of equal keys the first is the computed
    for own in chain.from_iterable(_average(scores, by) for by in (None, *scores.groups)):
        kept = found.get(_key(own))
        if kept is None:
            if own.is_overall:
                yield f"no aggregate of {own.measure}"
            continue
        for name in (*_MEANS, *_COUNTS):
            left, right = getattr(kept, name), getattr(own, name)
            if not _agree(left, right):
                what = " ".join(filter(None, (own.measure, own.average, own.by_column)))
                yield f"{name} of {what} is {left}, but the values of its queries give {right}"


def _key(one: Aggregate) -> tuple[str, str, str, str]:
    return one.measure, one.average, one.by_column, one.subset


def _agree(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return isclose(left, right, rel_tol=_ROUNDING, abs_tol=_ROUNDING)


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
