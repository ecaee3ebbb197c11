"""Aggregates of a run: means with their intervals, counts, chance and ceiling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from assay.arrays import Floats
from assay.comparison.clusters import labels_of, n_clusters
from assay.core.conventions import Conventions
from assay.errors import MeasureError, UsageError
from assay.measures import Measure, parse
from assay.scoring.scores import Mean, Scores
from assay.stats import Interval, interval_method, intervals

__all__ = ["Aggregate", "aggregates_of", "canonical"]


@dataclass(frozen=True)
class Aggregate:
    """One number of a run with its interval and counts; None where something is not defined.

    `average` is micro (over queries), macro (over the groups of `by_column`) or what a task calls
    its own; `subset` names the part of the data that was averaged, and is empty for all of it.
    `value_skip` and `value_zero` are the value with empty queries left out and counted as 0.
    `low` and `high` are the ends of an interval of this `level` by this `method`; `clusters` is
    the group column that was resampled as whole groups, empty if queries were resampled singly.
    """

    measure: str
    value: float | None
    average: str = "micro"
    by_column: str = ""
    subset: str = ""
    value_skip: float | None = None
    value_zero: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    method: str = ""
    note: str = ""
    chance: float | None = None
    ceiling: float | None = None
    n: int = 0
    empty: int = 0
    missing: int = 0
    tied: int = 0
    groups_left_out: int = 0
    clusters: str = ""

    def __post_init__(self) -> None:
        """Refuse what no column can hold, and take NaN for None."""
        for name in ("measure", "average", "by_column", "subset", "method", "note", "clusters"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(
                    f"{name} of an aggregate is a text, found {getattr(self, name)!r}."
                )
        for name in _NUMBERS:
            object.__setattr__(self, name, _number(getattr(self, name), name))
        for name in _COUNTS:
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
                raise UsageError(f"{name} of an aggregate is a count, found {count!r}.")
            object.__setattr__(self, name, int(count))

    @property
    def method_text(self) -> str:
        """The method of the interval with the column that was resampled, for people and JSON.

        >>> Aggregate("AP", 0.5, method="bca", clusters="scene").method_text
        'bca by scene'
        """
        return f"{self.method} by {self.clusters}" if self.clusters else self.method

    @property
    def is_overall(self) -> bool:
        """Whether it is over all queries, not over groups or a part of the data."""
        return not self.by_column and not self.subset

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data; the column that was resampled is part of `method`."""
        data = {**vars(self), "method": self.method_text}
        del data["clusters"]
        return data

    @classmethod
    def from_row(cls, columns: Mapping[str, Any]) -> Aggregate:
        """An aggregate from a row of a store, which was checked when it was written."""
        made = object.__new__(cls)
        made.__dict__.update(columns)
        return made


_NUMBERS: Final = ("value", "value_skip", "value_zero", "low", "high", "level", "chance", "ceiling")
_COUNTS: Final = ("n", "empty", "missing", "tied", "groups_left_out")


def _number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise UsageError(f"{name} of an aggregate is a number or None, found {value!r}.")
    return None if math.isnan(value) else float(value)


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
    table = _averaged_values(scores)
    labels = labels_of(scores, clusters)
    if labels is None:
        n = int((~np.isnan(table)).sum(axis=1).max(initial=0))
    else:
        n = n_clusters(table, labels)
    found = intervals(table, method=interval_method(n), clusters=labels, **resampling)
    return {
        str(measure): _clip(one, measure) if measure.definition.aggregate == "mean" else None
        for measure, one in zip(scores.measures, found, strict=True)
    }


def _clip(one: Interval, measure: Measure) -> Interval:
    """Ends that the mean of such values can reach."""
    high = measure.definition.high
    return one if high is None else one.within(0.0, high)


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
