"""What a record holds beside its scores: aggregates, and the results of single queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from assay.arrays import or_none
from assay.core import checks
from assay.errors import UsageError

__all__ = [
    "Aggregate",
    "LazyResults",
    "QueryResults",
    "ResultDoc",
    "check_aggregates",
    "method_text",
    "results_from_data",
    "results_to_data",
]


@dataclass(frozen=True)
class ResultDoc:
    """A document of one query; `score` is None if it was not retrieved, `grade` if not judged."""

    doc: str
    score: float | None
    grade: float | None
    snippet: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be stored."""
        for name in ("doc", "snippet"):
            checks.require(getattr(self, name), str, f"{name} of a result", "a text")
        for name in ("score", "grade"):
            object.__setattr__(self, name, _number(getattr(self, name), name))


@dataclass(frozen=True)
class QueryResults:
    """The text of a query, what was retrieved in rank order, and relevant documents it missed."""

    text: str
    results: tuple[ResultDoc, ...]
    missed: tuple[ResultDoc, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be stored."""
        checks.require(self.text, str, "text of a query", "a text")
        for name in ("results", "missed"):
            found = tuple(getattr(self, name))
            for one in found:
                checks.require(one, ResultDoc, f"every one of {name}", "a ResultDoc")
            object.__setattr__(self, name, found)


class LazyResults(Mapping[str, QueryResults]):
    """The results of queries, read or built when somebody looks at them."""

    def __init__(self, read: Callable[[], Mapping[str, QueryResults]]) -> None:
        self._read = read

    @cached_property
    def _found(self) -> Mapping[str, QueryResults]:
        return self._read()

    def __getitem__(self, query: str) -> QueryResults:
        """The results of one query."""
        return self._found[query]

    def __iter__(self) -> Iterator[str]:
        """The ids of the queries."""
        return iter(self._found)

    def __len__(self) -> int:
        """How many queries there are."""
        return len(self._found)


def _number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise UsageError(f"{name} of a result is a number or None, found {value!r}.")
    if not math.isfinite(value):
        raise UsageError(f"{name} of a result is {value}; it has to be finite, or None.")
    return float(value)


def results_to_data(found: QueryResults) -> dict[str, Any]:
    """Results of a query as plain data: what JSON can hold."""
    return {
        "text": found.text,
        "results": list(map(_row, found.results)),
        "missed": list(map(_row, found.missed)),
    }


def _row(one: ResultDoc) -> list[Any]:
    return [one.doc, one.score, one.grade, one.snippet]


def results_from_data(data: Any) -> QueryResults:
    """Results of a query from plain data, checked."""
    if not isinstance(data, dict) or not {"text", "results", "missed"} <= data.keys():
        raise UsageError(f"Results of a query have text, results and missed, found {data!r:.60}.")
    return QueryResults(data["text"], _docs(data["results"]), _docs(data["missed"]))


def _docs(rows: Any) -> tuple[ResultDoc, ...]:
    if not isinstance(rows, list) or not all(isinstance(r, list) and len(r) == 4 for r in rows):
        raise UsageError("A result is a list of id, score, grade and snippet.")
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
        """Refuse what no column can hold, and take NaN for None."""
        for name in ("measure", "average", "by_column", "subset", "method", "note", "clusters"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(
                    f"{name} of an aggregate is a text, found {getattr(self, name)!r}."
                )
        for name in _NUMBERS:
            object.__setattr__(self, name, _aggregate_number(getattr(self, name), name))
        for name in _COUNTS:
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
                raise UsageError(f"{name} of an aggregate is a count, found {count!r}.")
            object.__setattr__(self, name, int(count))

    @property
    def is_overall(self) -> bool:
        """Whether it is over all queries, not over groups or a part of the data."""
        return not self.by_column and not self.subset

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data; the column that was resampled is part of `method`."""
        data = {**vars(self), "method": method_text(self.method, self.clusters)}
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


def check_aggregates(given: Iterable[object]) -> None:
    """Refuse what is no aggregate."""
    for one in given:
        checks.require(one, Aggregate, "every aggregate", "an Aggregate")


def _aggregate_number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise UsageError(f"{name} of an aggregate is a number or None, found {value!r}.")
    return or_none(float(value))


def method_text(method: str, clusters: str) -> str:
    """The method of an interval with the column that was resampled, for people and JSON.

    >>> method_text("bca", "scene"), method_text("t", "")
    ('bca by scene', 't')
    """
    return f"{method} by {clusters}" if clusters else method
