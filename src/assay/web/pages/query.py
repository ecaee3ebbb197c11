"""One query: its value in each run and, where runs stored it, what each of them retrieved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from starlette.exceptions import HTTPException

from assay.errors import UsageError
from assay.runs.results import QueryResults, ResultDoc
from assay.scoring.scores import Scores
from assay.store import Run, Store
from assay.store.query import place_of
from assay.store.run import names_of
from assay.store.summaries import query_texts
from assay.tables.table import Cell, Table
from assay.web.page import Page, View
from assay.web.page_table import Sheet, plain_rows
from assay.web.params import address, find_runs

__all__ = ["beside", "query_page", "texts_of"]

_LONGEST: Final = 160  # what fits beside an id; the page of the query has all


def texts_of(store: Store, runs: Sequence[Run], queries: Sequence[Any]) -> dict[str, str]:
    """The beginnings of the texts of queries, by query id."""
    names = [str(query) for query in queries]
    with store.database.reading() as connection:
        for run in runs:
            found = query_texts(connection, run.id, names)
            if found:
                return {query: _shortened(text) for query, text in found.items()}
    return {}


def beside(texts: dict[str, str], queries: Sequence[Any]) -> list[str]:
    """A text for each row of a table of queries; nothing where there are none at all."""
    return [texts.get(str(query), "") for query in queries] if texts else []


def _shortened(text: str) -> str:
    """The beginning of a text in one line.

    >>> _shortened("two\\nlines")
    'two lines'
    """
    line = " ".join(text[: 2 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[:_LONGEST].rstrip() + "…"


def query_page(view: View) -> Page:
    """What the chosen runs make of one query."""
    runs = find_runs(view.store, view.asked)
    query = view.asked.one("query")
    if not runs or not query:
        raise UsageError("Name a query and one or more runs: /query?run=1&query=ID.")
    names = names_of(runs)
    scores = [view.values.scores(view.store, run) for run in runs]
    places = [None if own is None else place_of(own.query_ids, query) for own in scores]
    if all(place is None for place in places):
        raise HTTPException(404, f"There is no query {query!r} in {_spoken(runs)}.")
    shown = [run.results(query) for run in runs]
    columns = _columns(names, runs, shown)
    sheet = _sheet(view, names, runs, scores, places)
    text = next((one.text for one in shown if one is not None and one.text), "")
    before, after = _neighbours(view, scores, places)
    return Page(
        "query",
        f"Query {query}",
        {
            "query": query,
            "text": text,
            "runs": [run.id for run in runs],
            "values": plain_rows(sheet.table),
            "retrieved": [one.data() for one in columns],
        },
        [sheet],
        {
            "query": query,
            "text": text,
            "columns": columns,
            "runs": runs,
            "before": before,
            "after": after,
            "back": _back(view, runs),
            "missing": _missing(names, scores, places),
        },
    )


def _spoken(runs: Sequence[Run]) -> str:
    return f"run {runs[0].id}" if len(runs) == 1 else "any of these runs"


def _back(view: View, runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return address(f"/run/{runs[0].id}")
    measure = view.asked.one("measure") or None
    return address("/compare", run=[run.id for run in runs], measure=measure)


def _sheet(
    view: View,
    names: Sequence[str],
    runs: Sequence[Run],
    scores: Sequence[Scores | None],
    places: Sequence[int | None],
) -> Sheet:
    """A row for each run, a column for each measure; the best of each in bold if they differ."""
    measures = list(dict.fromkeys(str(m) for own in scores if own for m in own.measures))
    values = [
        [_value(own, place, name) for name in measures]
        for own, place in zip(scores, places, strict=True)
    ]
    best = [_best([row[i] for row in values]) for i in range(len(measures))]
    rows = tuple(
        (
            Cell(name),
            *(Cell(v, "fraction", v is not None and v == best[i]) for i, v in enumerate(row)),
        )
        for name, row in zip(names, values, strict=True)
    )
    return Sheet(
        "values",
        "Values of this query",
        Table(("run", *measures), rows),
        csv=view.asked.but(f"{view.path}.csv", table="values"),
        links=[{0: address(f"/run/{run.id}")} for run in runs],
    )


def _value(scores: Scores | None, place: int | None, measure: str) -> float | None:
    if scores is None or place is None or measure not in map(str, scores.measures):
        return None
    value = float(scores[measure][place])
    return None if np.isnan(value) else value


def _best(values: Sequence[float | None]) -> float | None:
    known = {value for value in values if value is not None}
    return max(known) if len(known) > 1 else None


def _missing(
    names: Sequence[str], scores: Sequence[Scores | None], places: Sequence[int | None]
) -> list[str]:
    """Runs that have no answer to this query."""
    return [
        name
        for name, own, place in zip(names, scores, places, strict=True)
        if own is None or place is None or bool(own.missing[place])
    ]


def _neighbours(
    view: View, scores: Sequence[Scores | None], places: Sequence[int | None]
) -> tuple[str, str]:
    """The queries before and after this one, in the first run that has it."""
    found = [(own, p) for own, p in zip(scores, places, strict=True) if own and p is not None]
    scores_, place = found[0]
    ids = scores_.query_ids
    before = view.asked.but(view.path, query=ids[place - 1]) if place else ""
    after = view.asked.but(view.path, query=ids[place + 1]) if place + 1 < len(ids) else ""
    return before, after


@dataclass(frozen=True)
class Retrieved:
    """A document in the list of one run, and what the lists of the others say about it."""

    rank: int
    doc: ResultDoc
    elsewhere: str
    only_here: bool

    @property
    def judged(self) -> str:
        """The judgment in words."""
        if self.doc.grade is None:
            return "not judged"
        return f"relevant ({self.doc.grade:g})" if self.doc.grade > 0 else "not relevant"

    @property
    def kind(self) -> str:
        """The class of the style sheet."""
        if self.doc.grade is None:
            return "unjudged"
        return "relevant" if self.doc.grade > 0 else "irrelevant"


@dataclass(frozen=True)
class Column:
    """What one run retrieved; `stored` is false where it kept no texts."""

    name: str
    run: Run
    stored: bool
    results: tuple[Retrieved, ...] = ()
    missed: tuple[ResultDoc, ...] = ()

    def data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "run": self.run.id,
            "name": self.name,
            "stored": self.stored,
            "results": [
                {
                    "rank": one.rank,
                    **vars(one.doc),
                    "judged": one.judged,
                    "only_here": one.only_here,
                }
                for one in self.results
            ],
            "missed": [vars(one) for one in self.missed],
        }


def _columns(
    names: Sequence[str], runs: Sequence[Run], shown: Sequence[QueryResults | None]
) -> list[Column]:
    ranks = [
        {} if one is None else {doc.doc: rank for rank, doc in enumerate(one.results, 1)}
        for one in shown
    ]
    return [
        Column(name, run, False)
        if own is None
        else Column(name, run, True, _results(number, own, names, ranks, shown), own.missed)
        for number, (name, run, own) in enumerate(zip(names, runs, shown, strict=True))
    ]


def _results(
    number: int,
    own: QueryResults,
    names: Sequence[str],
    ranks: Sequence[Mapping[str, int]],
    shown: Sequence[QueryResults | None],
) -> tuple[Retrieved, ...]:
    """The results of one run, each with its rank in the others."""
    others = [i for i, one in enumerate(shown) if one is not None and i != number]
    found = []
    for rank, doc in enumerate(own.results, 1):
        known = [(names[i], ranks[i].get(doc.doc)) for i in others]
        only = bool(others) and all(place is None for _, place in known)
        found.append(Retrieved(rank, doc, _elsewhere(known, only), only))
    return tuple(found)


def _elsewhere(known: Sequence[tuple[str, int | None]], only: bool) -> str:
    """Where the other runs have the document."""
    if only:
        return "only here"
    if len(known) == 1:
        return f"there {known[0][1]}"
    return ", ".join(f"{name}: {'–' if place is None else place}" for name, place in known)
