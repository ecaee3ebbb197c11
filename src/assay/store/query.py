"""One query of a stored run: its values, its text, what was retrieved and what was missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.arrays import or_none
from assay.core.ids import Ids
from assay.errors import UsageError
from assay.runs.results import QueryResults, ResultDoc
from assay.store.run import Run
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

__all__ = ["StoredQuery", "position_of", "read_query"]


@dataclass(frozen=True)
class StoredQuery:
    """What a run has of one query; `results` is None where texts were not stored."""

    run: Run
    query: str
    values: dict[str, float | None]
    missing: bool
    results: QueryResults | None

    def page(self) -> Page:
        """The query as a page of text and tables."""
        run = f"run {self.run.id}: {self.run.name}"
        page: Page = [Words(f"query {self.query} of {run}", "verdict")]
        if self.results is not None:
            page.append(Words(self.results.text))
        if self.missing:
            page.append(Words("The run has no answer to this query."))
        page.append(_value_table(self.values))
        if self.results is None:
            return [
                *page,
                Words("The retrieved documents are not stored; 'assay bench --save' stores them."),
            ]
        page.append(_result_table(self.results.results))
        if self.results.missed:
            page += [Words("Relevant, but not retrieved:"), _missed_table(self.results.missed)]
        return page

    def to_dict(self) -> dict[str, Any]:
        """The query as plain data for JSON."""
        data = {
            "run": self.run.id,
            "uid": self.run.uid,
            "query": self.query,
            "values": self.values,
            "missing": self.missing,
        }
        if self.results is None:
            return {**data, "text": None, "results": None, "missed": None}
        lists = {"results": self.results.results, "missed": self.results.missed}
        return {
            **data,
            "text": self.results.text,
            **{key: [vars(one) for one in docs] for key, docs in lists.items()},
        }


def read_query(run: Run, query: str) -> StoredQuery:
    """One query of a finished run."""
    if run.status != "finished" or not run.conventions:
        why = f"is {run.status}" if run.status != "finished" else "has no per-query values"
        raise UsageError(f"Run {run.id} ({run.name!r}) {why}: there is no query to show.")
    scores = run.scores()
    place = position_of(scores.query_ids, query)
    if place is None:
        few = ", ".join(
            str(one) for one in scores.query_ids.take(np.arange(min(3, scores.n_queries)))
        )
        raise UsageError(f"There is no query {query!r} in run {run.id}; there are {few}, ….")
    column = scores.values[:, place].tolist()
    values = {
        str(measure): or_none(value) for measure, value in zip(scores.measures, column, strict=True)
    }
    return StoredQuery(run, query, values, bool(scores.missing[place]), run.results(query))


def position_of(ids: Ids, query: str) -> int | None:
    """The position of a query among the ids of a run; None where it is absent."""
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
