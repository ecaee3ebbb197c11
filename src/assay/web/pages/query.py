"""One query: its value in each run and, where runs stored it, what each of them retrieved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.exceptions import HTTPException

from assay.arrays import or_none
from assay.errors import AssayError, UsageError
from assay.runs.record import names_of
from assay.runs.results import QueryResults, ResultDoc
from assay.scoring.scores import Scores
from assay.store import Run
from assay.store.tables import position_of
from assay.tables.table import Cell
from assay.web.caches import Pending
from assay.web.listing import ListColumn, Listing, QueryListing, QueryNeighbours, find_neighbours
from assay.web.page import PageRequest, PageRoute, WebPage, address, find_runs
from assay.web.pages.compare import PairQueries, find_comparison
from assay.web.pages.run import list_queries


def query_page(request: PageRequest) -> WebPage:
    """Show one query in the selected runs."""
    runs = find_runs(request.store, request.params)
    query = request.params.get("query")
    if not runs or not query:
        raise UsageError("The address needs a query and one or more runs: /query?run=1&query=ID.")
    names = names_of(runs)
    scores = [request.cache.scores(request.store, run) for run in runs]
    places = [None if s is None else position_of(s.query_ids, query) for s in scores]
    if all(place is None for place in places):
        where = f"run {runs[0].id}" if len(runs) == 1 else "any of these runs"
        raise HTTPException(404, f"There is no query {query!r} in {where}.")
    results = [run.results(query) for run in runs]
    columns = _run_results(names, runs, results)
    values = _listing(request, names, runs, scores, places)
    text = next((result.text for result in results if result is not None and result.text), "")
    return WebPage(
        "query",
        f"Query {query}",
        {
            "query": query,
            "text": text,
            "runs": [run.id for run in runs],
            "values": values.row_dicts(),
            "retrieved": [column.to_dict() for column in columns],
        },
        [values],
        {
            "query": query,
            "text": text,
            "columns": columns,
            "runs": runs,
            "beside": _neighbours(request, runs, scores),
            "back": _back(request, runs),
            "missing": [
                name
                for name, s, place in zip(names, scores, places, strict=True)
                if s is None or place is None or bool(s.missing[place])
            ],
        },
    )


def _back(request: PageRequest, runs: Sequence[Run]) -> str:
    """Return the address of the list that led here."""
    state = {name: request.params.get(name) or None for name in ("sort", "order", "q")}
    if len(runs) == 1:
        return address(f"/run/{runs[0].id}", **state)
    settings = {name: request.params.get(name) or None for name in ("measure", "baseline")}
    return address("/compare", run=[run.id for run in runs], **settings, **state)


def _listing(
    request: PageRequest,
    names: Sequence[str],
    runs: Sequence[Run],
    scores: Sequence[Scores | None],
    places: Sequence[int | None],
) -> Listing[int]:
    """Declare a row for each run and a column for each measure."""
    measures = dict.fromkeys(str(measure) for s in scores if s for measure in s.measures)

    def measure_column(measure: str) -> ListColumn[int]:
        """Mark the best value, where they differ."""
        values = [_value(s, place, measure) for s, place in zip(scores, places, strict=True)]
        defined = {value for value in values if value is not None}
        best = max(defined) if len(defined) > 1 else None
        cells = [Cell(v, "fraction", v is not None and v == best) for v in values]
        return ListColumn(measure, cells.__getitem__)

    columns: list[ListColumn[int]] = [
        ListColumn("run", names.__getitem__, link=lambda i: address(f"/run/{runs[i].id}")),
        *map(measure_column, measures),
    ]
    return Listing(request, "values", "Values of this query", columns, range(len(runs)))


def _value(scores: Scores | None, place: int | None, measure: str) -> float | None:
    if scores is None or place is None or measure not in map(str, scores.measures):
        return None
    return or_none(scores[measure][place])


def _neighbours(
    request: PageRequest, runs: Sequence[Run], scores: Sequence[Scores | None]
) -> QueryNeighbours | None:
    """Return the queries beside this one in the list that led here, or by their ids."""
    query = request.params.get("query")
    listed = _find_list(request, runs, scores) if "sort" in request.params else None
    neighbours = None if listed is None else listed.neighbours(query)
    if neighbours is not None:
        return neighbours
    every = (find_neighbours(request, s.query_ids, query) for s in scores if s is not None)
    return next(filter(None, every), None)


def _find_list(
    request: PageRequest, runs: Sequence[Run], scores: Sequence[Scores | None]
) -> QueryListing | None:
    """Return the list of queries that led here; None where it is not known any more."""
    if len(runs) == 1:
        return None if scores[0] is None else list_queries(request, scores[0], runs[0])
    try:
        comparison = find_comparison(request, runs, request.params.get("measure"))
        if isinstance(comparison, Pending):
            return None
        return PairQueries(request, comparison, runs).queries
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
        """The class of the style sheet."""
        if self.doc.grade is None:
            return "unjudged"
        return "relevant" if self.doc.grade > 0 else "irrelevant"


@dataclass(frozen=True)
class RunResults:
    """The results of one run; `stored` is false where its results were not stored."""

    name: str
    run: Run
    stored: bool
    results: tuple[ShownDoc, ...] = ()
    missed: tuple[ResultDoc, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "run": self.run.id,
            "name": self.name,
            "stored": self.stored,
            "results": [
                {
                    "rank": result.rank,
                    **vars(result.doc),
                    "judged": result.judged,
                    "only_here": result.only_here,
                }
                for result in self.results
            ],
            "missed": [vars(doc) for doc in self.missed],
        }


def _run_results(
    names: Sequence[str], runs: Sequence[Run], results: Sequence[QueryResults | None]
) -> list[RunResults]:
    ranks = [
        None if result is None else {doc.doc: rank for rank, doc in enumerate(result.results, 1)}
        for result in results
    ]
    return [
        RunResults(name, run, False)
        if result is None
        else RunResults(name, run, True, _shown_docs(number, result, names, ranks), result.missed)
        for number, (name, run, result) in enumerate(zip(names, runs, results, strict=True))
    ]


def _shown_docs(
    number: int,
    result: QueryResults,
    names: Sequence[str],
    ranks: Sequence[Mapping[str, int] | None],
) -> tuple[ShownDoc, ...]:
    """Return the results of one run, each with its rank in the other runs."""
    peers = [
        (name, ranked)
        for i, (name, ranked) in enumerate(zip(names, ranks, strict=True))
        if ranked is not None and i != number
    ]
    docs = []
    for rank, doc in enumerate(result.results, 1):
        places = [(name, ranked.get(doc.doc)) for name, ranked in peers]
        only = bool(peers) and all(place is None for _, place in places)
        docs.append(ShownDoc(rank, doc, _elsewhere(places, only), only))
    return tuple(docs)


def _elsewhere(places: Sequence[tuple[str, int | None]], only: bool) -> str:
    """Say where the other runs have the document."""
    if only:
        return "only here"
    if len(places) == 1:
        return f"there {places[0][1]}"
    return ", ".join(f"{name}: {'–' if place is None else place}" for name, place in places)


ROUTES: Final = (PageRoute("/query", query_page),)
