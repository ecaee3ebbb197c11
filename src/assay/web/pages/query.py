"""One query: its value in each run and, where runs stored it, what each of them retrieved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from starlette.exceptions import HTTPException

from assay.arrays import Ints, or_none
from assay.core.ids import Ids
from assay.errors import AssayError, UsageError
from assay.runs.results import QueryResults, ResultDoc
from assay.scoring.scores import Scores
from assay.store import Run
from assay.store.query import position_of
from assay.store.run import names_of
from assay.tables.table import Cell, Table
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable, rows_as_dicts
from assay.web.pages.compare import QueryTable, find_comparison
from assay.web.pages.run import list_queries
from assay.web.params import address, find_runs
from assay.web.query_list import QueryNeighbours, neighbours_of
from assay.web.score_cache import Pending

__all__ = ["ROUTE", "query_page"]


def query_page(request: PageRequest) -> WebPage:
    """One query in the selected runs."""
    runs = find_runs(request.store, request.params)
    query = request.params.get("query")
    if not runs or not query:
        raise UsageError("The address needs a query and one or more runs: /query?run=1&query=ID.")
    names = names_of(runs)
    scores = [request.cache.scores(request.store, run) for run in runs]
    places = [None if own is None else position_of(own.query_ids, query) for own in scores]
    if all(place is None for place in places):
        raise HTTPException(404, f"There is no query {query!r} in {_name_runs(runs)}.")
    results = [run.results(query) for run in runs]
    columns = _run_results(names, runs, results)
    values = _page_table(request, names, runs, scores, places)
    text = next((one.text for one in results if one is not None and one.text), "")
    beside = _neighbours(request, runs, scores)
    return WebPage(
        "query",
        f"Query {query}",
        {
            "query": query,
            "text": text,
            "runs": [run.id for run in runs],
            "values": rows_as_dicts(values.table),
            "retrieved": [one.data() for one in columns],
        },
        [values],
        {
            "query": query,
            "text": text,
            "columns": columns,
            "runs": runs,
            "beside": beside,
            "back": _back(request, runs),
            "missing": _runs_without_results(names, scores, places),
        },
    )


def _name_runs(runs: Sequence[Run]) -> str:
    return f"run {runs[0].id}" if len(runs) == 1 else "any of these runs"


def _back(request: PageRequest, runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return address(f"/run/{runs[0].id}", **_kept(request, "sort", "order", "q"))
    kept = _kept(request, "measure", "baseline", "sort", "order", "q")
    return address("/compare", run=[run.id for run in runs], **kept)


def _kept(request: PageRequest, *names: str) -> dict[str, str | None]:
    return {name: request.params.get(name) or None for name in names}


def _page_table(
    request: PageRequest,
    names: Sequence[str],
    runs: Sequence[Run],
    scores: Sequence[Scores | None],
    places: Sequence[int | None],
) -> PageTable:
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
    return PageTable(
        "values",
        "Values of this query",
        Table(("run", *measures), rows),
        csv=request.params.address(f"{request.path}.csv", table="values"),
        links=[{0: address(f"/run/{run.id}")} for run in runs],
    )


def _value(scores: Scores | None, place: int | None, measure: str) -> float | None:
    if scores is None or place is None or measure not in map(str, scores.measures):
        return None
    return or_none(scores[measure][place])


def _best(values: Sequence[float | None]) -> float | None:
    known = {value for value in values if value is not None}
    return max(known) if len(known) > 1 else None


def _runs_without_results(
    names: Sequence[str], scores: Sequence[Scores | None], places: Sequence[int | None]
) -> list[str]:
    """Runs that have no results for this query."""
    return [
        name
        for name, own, place in zip(names, scores, places, strict=True)
        if own is None or place is None or bool(own.missing[place])
    ]


def _neighbours(
    request: PageRequest, runs: Sequence[Run], scores: Sequence[Scores | None]
) -> QueryNeighbours | None:
    """The queries beside this one: in the list that led here, or in the order of their ids."""
    query = request.params.get("query")
    listed = _listed(request, runs, scores) if "sort" in request.params else None
    found = None if listed is None else neighbours_of(request, query, *listed)
    if found is not None:
        return found
    every = (
        neighbours_of(request, query, one.query_ids, np.arange(len(one.query_ids)))
        for one in scores
        if one is not None
    )
    return next((one for one in every if one is not None), None)


def _listed(
    request: PageRequest, runs: Sequence[Run], scores: Sequence[Scores | None]
) -> tuple[Ids, Ints] | None:
    """The list of queries that led here; None where it is not known, or not any more."""
    if len(runs) == 1:
        own = scores[0]
        return None if own is None else (own.query_ids, list_queries(request, own, runs[0]))
    try:
        found = find_comparison(request, runs, request.params.get("measure"))
        if isinstance(found, Pending):
            return None
        return found.query_ids, QueryTable.of(request, found, runs).positions
    except AssayError:
        return None


@dataclass(frozen=True)
class ShownDoc:
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
        """The class of the style table_."""
        if self.doc.grade is None:
            return "unjudged"
        return "relevant" if self.doc.grade > 0 else "irrelevant"


@dataclass(frozen=True)
class RunResults:
    """What one run retrieved; `stored` is false where its results were not stored."""

    name: str
    run: Run
    stored: bool
    results: tuple[ShownDoc, ...] = ()
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


def _run_results(
    names: Sequence[str], runs: Sequence[Run], results: Sequence[QueryResults | None]
) -> list[RunResults]:
    ranks = [
        {} if one is None else {doc.doc: rank for rank, doc in enumerate(one.results, 1)}
        for one in results
    ]
    return [
        RunResults(name, run, False)
        if own is None
        else RunResults(
            name, run, True, _shown_docs(number, own, names, ranks, results), own.missed
        )
        for number, (name, run, own) in enumerate(zip(names, runs, results, strict=True))
    ]


def _shown_docs(
    number: int,
    own: QueryResults,
    names: Sequence[str],
    ranks: Sequence[Mapping[str, int]],
    results: Sequence[QueryResults | None],
) -> tuple[ShownDoc, ...]:
    """The results of one run, each with its rank in the others."""
    others = [i for i, one in enumerate(results) if one is not None and i != number]
    docs = []
    for rank, doc in enumerate(own.results, 1):
        known = [(names[i], ranks[i].get(doc.doc)) for i in others]
        only = bool(others) and all(place is None for _, place in known)
        docs.append(ShownDoc(rank, doc, _elsewhere(known, only), only))
    return tuple(docs)


def _elsewhere(known: Sequence[tuple[str, int | None]], only: bool) -> str:
    """Where the other runs have the document."""
    if only:
        return "only here"
    if len(known) == 1:
        return f"there {known[0][1]}"
    return ", ".join(f"{name}: {'–' if place is None else place}" for name, place in known)


ROUTE: Final = PageRoute("/query", query_page)
