"""Results of a record besides scores: means with intervals, counts, single queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.arrays import or_none
from assay.comparison.alignment import cluster_labels
from assay.core import checks
from assay.core.conventions import Conventions
from assay.errors import MeasureError, UsageError
from assay.measures import parse
from assay.scoring.scores import Scores
from assay.stats import Interval, intervals

if TYPE_CHECKING:
    from assay.runs.record import RunRecord


@dataclass(frozen=True)
class ResultDoc:
    """A document of one query; `score` is None if it was not retrieved, `grade` if not judged.

    `chunk` is the part that matched: its number from 1, and the characters where it begins and ends
    in the document; None where documents are whole.
    """

    doc: str
    score: float | None
    grade: float | None
    snippet: str = ""
    chunk: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("doc", "snippet"):
            checks.require(getattr(self, name), str, f"{name} of a result", "a text")
        for name in ("score", "grade"):
            number = _number(getattr(self, name), f"{name} of a result")
            if number is not None and not math.isfinite(number):
                raise UsageError(f"{name} of a result must be finite or None, found {number}.")
            object.__setattr__(self, name, number)
        if self.chunk is not None:
            numbers = checks.check_numbers(self.chunk, 1 << 62, "chunk of a result").tolist()
            if len(numbers) != 3:
                raise UsageError(f"chunk of a result must be number, start, end, found {numbers}.")
            object.__setattr__(self, "chunk", tuple(numbers))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; a chunk, where there is one."""
        return {key: value for key, value in vars(self).items() if key != "chunk" or value}

    @property
    def shown(self) -> str:
        """The snippet, after its place in the document."""
        if self.chunk is None:
            return self.snippet
        number, start, end = self.chunk
        return f"[chunk {number}, characters {start}–{end}] {self.snippet}"


@dataclass(frozen=True)
class QueryResults:
    """The text of a query, what was retrieved in rank order, and relevant documents it missed."""

    text: str
    results: tuple[ResultDoc, ...]
    missed: tuple[ResultDoc, ...] = ()

    def __post_init__(self) -> None:
        checks.require(self.text, str, "text of a query", "a text")
        for name in ("results", "missed"):
            docs = tuple(getattr(self, name))
            for doc in docs:
                checks.require(doc, ResultDoc, f"every one of {name}", "a ResultDoc")
            object.__setattr__(self, name, docs)


class LazyResults(Mapping[str, QueryResults]):
    """The results of queries, read or built when somebody looks at them."""

    def __init__(self, read: Callable[[], Mapping[str, QueryResults]]) -> None:
        self._read = read

    @cached_property
    def _found(self) -> Mapping[str, QueryResults]:
        return self._read()

    def __getitem__(self, query: str) -> QueryResults:
        return self._found[query]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _number(value: Any, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise UsageError(f"{what} must be a number or None, found {value!r}.")
    return float(value)


def results_to_data(results: QueryResults) -> dict[str, Any]:
    """Return results of a query as plain data: what JSON can hold."""
    lists = {
        name: [
            [doc.doc, doc.score, doc.grade, doc.snippet, *([doc.chunk] if doc.chunk else [])]
            for doc in docs
        ]
        for name, docs in (("results", results.results), ("missed", results.missed))
    }
    return {"text": results.text, **lists}


def results_from_data(data: Any) -> QueryResults:
    """Return results of a query from plain data, checked."""
    if not isinstance(data, dict) or not {"text", "results", "missed"} <= data.keys():
        raise UsageError(f"Results need text, results and missed, found {data!r:.60}.")
    return QueryResults(data["text"], _docs(data["results"]), _docs(data["missed"]))


def _docs(rows: Any) -> tuple[ResultDoc, ...]:
    if not isinstance(rows, list) or any(type(r) is not list or len(r) not in (4, 5) for r in rows):
        raise UsageError("A result must be [id, score, grade, snippet], perhaps with a chunk.")
    return tuple(ResultDoc(*row) for row in rows)


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
        for name in ("measure", "average", "by_column", "subset", "method", "note", "clusters"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(
                    f"{name} of an aggregate must be a text, found {getattr(self, name)!r}."
                )
        for name in _NUMBERS:
            number = _number(getattr(self, name), f"{name} of an aggregate")
            object.__setattr__(self, name, None if number is None else or_none(number))
        for name in _COUNTS:
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
                raise UsageError(f"{name} of an aggregate must be a count, found {count!r}.")
            object.__setattr__(self, name, int(count))

    @property
    def is_overall(self) -> bool:
        """Whether it is over all queries, not over groups or a part of the data."""
        return not self.by_column and not self.subset

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data.

        The column that was resampled is part of `method`.
        """
        data = {**vars(self), "method": method_text(self.method, self.clusters)}
        del data["clusters"]
        return data

    @classmethod
    def of_interval(cls, measure: str, span: Interval, **facts: Any) -> Aggregate:
        """Return an estimate with its interval; `facts` are further fields, which count first."""
        ends = {key: getattr(span, key) for key in ("low", "high", "level", "method", "note", "n")}
        return cls(measure, **{"value": span.estimate, **ends, **facts})

    @classmethod
    def from_row(cls, columns: Mapping[str, Any]) -> Aggregate:
        """Return an aggregate from a row of a store, which was checked when it was written."""
        aggregate = object.__new__(cls)
        aggregate.__dict__.update(columns)
        return aggregate


_NUMBERS: Final = ("value", "value_skip", "value_zero", "low", "high", "level", "chance", "ceiling")
_COUNTS: Final = ("n", "empty", "missing", "tied", "groups_left_out")


def check_aggregates(aggregates: Iterable[object]) -> None:
    """Refuse what is no aggregate."""
    for aggregate in aggregates:
        checks.require(aggregate, Aggregate, "every aggregate", "an Aggregate")


def method_text(method: str, clusters: str) -> str:
    """Return the method of an interval with the column that was resampled, for people and JSON.

    >>> method_text("bca", "scene"), method_text("t", "")
    ('bca by scene', 't')
    """
    return f"{method} by {clusters}" if clusters else method


def canonical(measure: str) -> str:
    """Return the canonical name of a measure; a name that is no measure's stays as it is.

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
    """Return means over queries with intervals, and means over the groups of each column.

    Intervals resample whole groups of the column `clusters`; `resampling` may set their level,
    number of resamples and seed.
    """
    means = list(_average(scores, None))
    spans = _interval_fields(scores, clusters, resampling or {})
    means = [
        replace(
            aggregate,
            chance=None if chance is None else chance.get(aggregate.measure),
            ceiling=None if ceiling is None else ceiling.get(aggregate.measure),
            **spans[aggregate.measure],
        )
        for aggregate in means
    ]
    return [*means, *chain.from_iterable(_average(scores, column) for column in scores.groups)]


def aggregates_of_record(record: RunRecord) -> list[Aggregate]:
    """Return all aggregates of a record: those of its scores, then its own."""
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
    skip, zero = (
        mean if rules.empty == empty else scores.mean(by=by, empty=empty, missing=rules.missing)
        for empty in ("skip", "zero")
    )
    for name, value in mean.items():
        counts = mean.counts[name]
        yield Aggregate(
            name,
            value,
            average=mean.average,
            by_column=by or "",
            value_skip=skip[name],
            value_zero=zero[name],
            **asdict(counts),
        )


_MEANS: Final = ("value", "value_skip", "value_zero")

_ROUNDING: Final = 1e-9  # the order of a sum may differ from machine to machine


def find_contradictions(stored: Sequence[Aggregate], scores: Scores) -> Iterator[str]:
    """Find stored means or counts that contradict their values."""
    by_key = {_key(each): each for each in reversed(stored)}  # of equal keys the first counts
    for computed in chain.from_iterable(_average(scores, by) for by in (None, *scores.groups)):
        recorded = by_key.get(_key(computed))
        if recorded is None:
            if computed.is_overall:
                yield f"no aggregate of {computed.measure}"
            continue
        for name in (*_MEANS, *_COUNTS):
            left, right = getattr(recorded, name), getattr(computed, name)
            some = left is not None and right is not None
            if left is not right and not (
                some and math.isclose(left, right, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
            ):
                what = " ".join(filter(None, _key(computed)))
                yield f"{name} of {what} is {left}, but the values of its queries give {right}"


def _key(aggregate: Aggregate) -> tuple[str, str, str, str]:
    return aggregate.measure, aggregate.average, aggregate.by_column, aggregate.subset


def _without_errors(rules: Conventions) -> Conventions:
    """Return conventions that refuse nothing: computed values can always be stored."""
    return rules.replace(
        empty="skip" if rules.empty == "error" else None,
        missing="skip" if rules.missing == "error" else None,
    )


def _interval_fields(
    scores: Scores, clusters: str, resampling: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the interval of each plain mean, as fields; sums and geometric means have none."""
    means = intervals(
        scores.averaged(_without_errors(scores.conventions)),
        clusters=cluster_labels(scores, clusters),
        bounds=[measure.bounds for measure in scores.measures],
        **resampling,
    )
    keys = ("low", "high", "level", "note", "method")
    return {
        str(measure): {**{key: getattr(mean, key) for key in keys}, "clusters": clusters}
        if measure.definition.aggregate == "mean"
        else {}
        for measure, mean in zip(scores.measures, means, strict=True)
    }
