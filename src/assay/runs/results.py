"""Results of one query: its text, what was retrieved, and the relevant documents it missed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core import checks
from assay.errors import UsageError

__all__ = ["QueryResults", "ResultDoc", "results_from_data", "results_to_data"]


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
