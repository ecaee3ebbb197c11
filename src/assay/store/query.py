"""One query of a stored run: its values, its text, what was retrieved and what was missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core.ids import Ids
from assay.errors import UsageError
from assay.runs.results import QueryResults, ResultDoc
from assay.store.run import Run
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

__all__ = ["StoredQuery", "place_of", "stored_query"]


@dataclass(frozen=True)
class StoredQuery:
    """What a run has of one query; `shown` is None where texts were not stored."""

    run: Run
    query: str
    values: dict[str, float | None]
    missing: bool
    shown: QueryResults | None

    def page(self) -> Page:
        """The same for people."""
        run = f"run {self.run.id}: {self.run.name}"
        page: Page = [Words(f"query {self.query} of {run}", "verdict")]
        if self.shown is not None:
            page.append(Words(self.shown.text))
        if self.missing:
            page.append(Words("The run has no answer to this query."))
        page.append(_value_table(self.values))
        if self.shown is None:
            return [*page, Words("What was retrieved is not stored; 'assay bench --save' does.")]
        page.append(_result_table(self.shown.results))
        if self.shown.missed:
            page += [Words("Relevant, but not retrieved:"), _missed_table(self.shown.missed)]
        return page

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        data = {
            "run": self.run.id,
            "uid": self.run.uid,
            "query": self.query,
            "values": self.values,
            "missing": self.missing,
        }
        if self.shown is None:
            return {**data, "text": None, "results": None, "missed": None}
        lists = {"results": self.shown.results, "missed": self.shown.missed}
        return {
            **data,
            "text": self.shown.text,
            **{key: [vars(one) for one in docs] for key, docs in lists.items()},
        }


def stored_query(run: Run, query: str) -> StoredQuery:
    """One query of a finished run."""
    if run.status != "finished" or not run.conventions:
        why = f"is {run.status}" if run.status != "finished" else "has no values of queries"
        raise UsageError(f"Run {run.id} ({run.name!r}) {why}: there is no query to show.")
    scores = run.scores()
    place = place_of(scores.query_ids, query)
    if place is None:
        few = ", ".join(
            str(one) for one in scores.query_ids.take(np.arange(min(3, scores.n_queries)))
        )
        raise UsageError(f"There is no query {query!r} in run {run.id}; there are {few}, ….")
    column = scores.values[:, place].tolist()
    values = {
        str(measure): None if np.isnan(value) else value
        for measure, value in zip(scores.measures, column, strict=True)
    }
    return StoredQuery(run, query, values, bool(scores.missing[place]), run.results(query))


def place_of(ids: Ids, query: str) -> int | None:
    """Where a query stands among the ids of a run; None where it does not."""
    if ids.kind == "integer":
        digits = query.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
            return None
        found = np.flatnonzero(ids.numbers == int(query))
        return int(found[0]) if len(found) else None
    try:
        place = int(Ids.of([query], "query").match(ids)[0])
    except ValueError:  # what no id can be is no id
        return None
    return None if place < 0 else place


def _value_table(values: dict[str, float | None]) -> Table:
    row = tuple(Cell(value, "fraction") for value in values.values())
    return Table(tuple(values), (row,))


def _result_table(docs: Sequence[ResultDoc]) -> Table:
    rows = tuple(
        (
            Cell(rank, "count"),
            Cell(one.doc),
            Cell(one.score, "fraction"),
            _grade(one),
            Cell(one.snippet),
        )
        for rank, one in enumerate(docs, 1)
    )
    return Table(("rank", "document", "score", "judged", "text"), rows)


def _missed_table(docs: Sequence[ResultDoc]) -> Table:
    rows = tuple((Cell(one.doc), _grade(one), Cell(one.snippet)) for one in docs)
    return Table(("document", "judged", "text"), rows)


def _grade(one: ResultDoc) -> Cell:
    return Cell(None if one.grade is None else f"{one.grade:g}", "figure")
