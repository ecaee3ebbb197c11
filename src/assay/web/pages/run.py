"""One run (numbers, histogram, groups, queries, provenance), and one query of several runs."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from starlette.exceptions import HTTPException

from assay.arrays import or_none
from assay.core.text import bracket
from assay.errors import AssayError, UsageError
from assay.report.svg import histogram
from assay.report.tables import plugin_parts
from assay.runs.record import names_of
from assay.runs.results import QueryResults, ResultDoc
from assay.scoring.output import disclosures
from assay.scoring.scores import Scores
from assay.stats import Interval
from assay.store import Aggregate, Run
from assay.store.summaries import costs_of
from assay.store.tables import position_of, run_data
from assay.tables.svg import Scale
from assay.tables.table import Cell, Table
from assay.web import listing as lists
from assay.web import page as web
from assay.web.caches import Pending
from assay.web.listing import ListColumn, Listing
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.pages.compare import PairQueries, find_comparison
from assay.web.pages.leaderboard import describe_costs

_MOST_GROUPS: Final = 200


def run_page(request: PageRequest) -> WebPage:
    """Show one run."""
    run = web.find_run(request.store, request.key)
    measure = web.choose_measure(request.params, run.measures)
    scores = request.cache.scores(request.store, run)
    status = web.describe_status(run, whole=True)
    progress = web.progress_of(run) if run.status == "running" else None
    views = [
        PluginView(request, number, title, part)
        for number, (title, part) in enumerate(plugin_parts("dashboard_views", run), 1)
    ]
    page = WebPage(
        "run",
        f"Run {run.id}: {run.name}",
        {
            "run": {**run_data(run, per_query=False), "shown_status": status, "progress": progress},
            "remarks": [],
            "views": [view.to_dict() for view in views],
        },
        [
            *([_numbers(request, run)] if run.aggregates else []),
            *(view.listing for view in views if view.listing is not None),
        ],
        {
            "run": run,
            "measure": measure,
            "status": status,
            "notes": web.format_notes(run.notes),
            "facts": _facts(run),
            "verdict": _verdict(run, measure),
            "provenance": _provenance(run),
            "views": views,
            "chart": "",
            "searched": request.params.get("q"),
            "order": {key: request.params.get(key) for key in ("measure", "by", "sort", "order")},
            "column": "",
            "columns": [],
        },
    )
    return page if scores is None or not scores.n_queries else _add_queries(page, request, scores)


class PluginView:
    """A part of the page that a plugin adds: a table, or a text."""

    def __init__(self, request: PageRequest, number: int, title: str, part: Table | str) -> None:
        self.title = title
        self.text = part if isinstance(part, str) else ""
        self.listing: Listing[tuple[Cell, ...]] | None = None
        if isinstance(part, Table):
            self.listing = Listing(
                request, f"view-{number}", title, lists.table_columns(part), part.rows
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        rows = {} if self.listing is None else {"rows": self.listing.row_dicts()}
        return {"title": self.title, "text": self.text, **rows}


def _add_queries(page: WebPage, request: PageRequest, stored: Scores) -> WebPage:
    """Return the page with the values of its queries."""
    scores = _tolerant(stored)
    names = [str(measure) for measure in scores.measures]
    measure = page.context["measure"] if page.context["measure"] in names else names[0]
    values = scores[measure]
    defined = values[~np.isnan(values)].tolist()
    mean = math.fsum(defined) / len(defined) if defined else None
    queries = list_queries(request, scores, page.context["run"])
    column, groups = _groups(request, scores)
    return replace(
        page,
        data={
            **page.data,
            "remarks": list(disclosures(scores)),
            "by": column,
            "queries": queries.to_dict(),
            "groups": groups.row_dicts() if groups else [],
        },
        tables=[*page.tables, *([groups] if groups else []), queries.listing],
        context={
            **page.context,
            "measure": measure,
            "chart": histogram(values, measure, mean),
            "column": column,
            "columns": list(scores.groups),
        },
    )


def _tolerant(scores: Scores) -> Scores:
    """Replace conventions that raise errors: what is stored can be shown."""
    rules = scores.conventions
    changed = rules.replace(
        empty="skip" if rules.empty == "error" else None,
        missing="skip" if rules.missing == "error" else None,
    )
    return replace(scores, conventions=changed)


def list_queries(request: PageRequest, scores: Scores, run: Run) -> lists.QueryListing:
    """Declare the list of the queries of a run: its measures and its groups."""
    names = [str(measure) for measure in scores.measures]
    key = request.params.get_name("sort", ["query", *names])
    order = lists.SortOrder.of(request.params, key if key in names else "query", ["query"])
    measures = [lists.array_column(scores[name], name, "fraction", name) for name in names]
    groups = [lists.array_column(labels, name) for name, labels in scores.groups.items()]
    values = {name: scores[name] for name in names}
    return lists.QueryListing(request, [run], scores.query_ids, values, order, [*measures, *groups])


def _groups(request: PageRequest, scores: Scores) -> tuple[str, Listing[tuple[str, int]] | None]:
    """Return the requested group column, or the first, and the means of its groups."""
    column = request.params.get_name("by", scores.groups) or next(iter(scores.groups), "")
    if column not in scores.groups:
        return "", None
    names, sizes = np.unique(scores.groups[column], return_counts=True)
    groups = sorted(zip(names.tolist(), sizes.tolist(), strict=True), key=lambda group: -group[1])
    means = scores.mean(by=column).groups
    caption = f"Means by {column}"
    if len(groups) > _MOST_GROUPS:
        caption += f": the {_MOST_GROUPS} largest of {len(groups):,} groups"

    def mean_column(measure: str) -> ListColumn[tuple[str, int]]:
        return ListColumn(measure, lambda group: means[group[0]][measure], "fraction")

    columns: list[ListColumn[tuple[str, int]]] = [
        ListColumn(column, lambda group: group[0]),
        ListColumn("queries", lambda group: group[1], "count"),
        *(mean_column(str(measure)) for measure in scores.measures),
    ]
    rows = [group for group in groups[:_MOST_GROUPS] if group[0] in means]
    return column, Listing(request, "groups", caption, columns, rows)


def _verdict(run: Run, measure: str) -> tuple[str, str]:
    """Return a sentence on one mean, and its numbers; nothing without a mean."""
    if run.signature and not run.conventions:  # its numbers are not those of a ranking
        sentence, _, numbers = str(run.details().get("verdict", "")).rstrip(".").partition("; ")
        return sentence, numbers
    means = (row for row in run.aggregates if row.measure == measure and not row.by_column)
    mean = next(means, None)
    if run.status != "finished" or mean is None or mean.value is None:
        return "", ""
    level = Interval.heading(mean.level or 0.95)
    ends = [] if mean.low is None else [f"{level} {bracket(mean.low, mean.high)}"]
    chance = [] if mean.chance is None else [f"a random order reaches {mean.chance:.4f}"]
    return f"{run.name} scores {mean.value:.4f} on {mean.measure}", " · ".join([*ends, *chance])


def _facts(run: Run) -> list[tuple[str, str, str]]:
    """Return name, value and link of what is known at a glance."""
    costs = costs_of(run.n_queries, run.config, run.timings)
    took = "" if run.seconds is None else f"{run.seconds:.1f} s"
    facts = [
        ("task", run.task, web.address("/runs", task=run.task)),
        ("dataset", run.dataset, web.address("/leaderboard", dataset=run.dataset)),
        ("model", lists.show_model(run), web.address("/runs", model=run.model)),
        ("queries", f"{run.n_queries:,}" if run.n_queries else "", ""),
        ("began", f"{web.format_moment(run.created)} UTC", ""),
        ("took", took, ""),
        *((name, text, "") for name, text in describe_costs(costs)),
        *(("tag", tag, web.address("/runs", tag=tag)) for tag in run.tags),
    ]
    return [fact for fact in facts if fact[1]]


def _provenance(run: Run) -> list[tuple[str, str]]:
    """Return how the run was made, and what is needed to reproduce it."""
    facts = [
        ("command", shlex.join(("assay", *run.command)) if run.command else ""),
        ("folder", run.folder),
        ("signature", run.signature),
        ("settings", _format_settings(run.config)),
        ("seeds", _format_settings(run.seeds)),
        ("steps", ", ".join(f"{name} {took:.3g} s" for name, took in run.timings.items())),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())),
        ("commit", run.git_commit),
        ("imported from", run.origin),
        ("uid", run.uid),
        ("began", f"{web.exact_moment(run.created)} UTC"),
        ("digest", f"{run.digest}, since {run.digest_from}" if run.digest else "none"),
        *((f"data {file}", _format_fingerprint(mark)) for file, mark in run.data.items()),
    ]
    return [(name, text) for name, text in facts if text]


def _format_settings(settings: dict[str, Any]) -> str:
    """Write settings, a line each, without those that are not set."""
    unset: tuple[Any, ...] = (None, [], {}, "")
    lines = (f"{k} = {json.dumps(value)}" for k, value in settings.items() if value not in unset)
    return "\n".join(lines)


def _format_fingerprint(mark: Any) -> str:
    if isinstance(mark, dict) and "sha256" in mark:
        size = f"{mark['bytes']:,} bytes, " if isinstance(mark.get("bytes"), int) else ""
        return f"{size}sha256 {mark['sha256']}"
    return str(mark)


def _numbers(request: PageRequest, run: Run) -> Listing[Aggregate]:
    """Declare the list of all aggregates without empty columns, intervals drawn.

    The kind of average stands beside the measure, so that no two rows look alike.
    """
    aggregates = run.aggregates
    ends = (end for row in aggregates for end in (row.value, row.low, row.high))
    scale = Scale.around([0.0, *ends])
    columns: list[ListColumn[Aggregate]] = [
        ListColumn(
            "measure",
            lambda row: row.measure,
            link=lambda row: web.address(f"/run/{run.id}", measure=row.measure),
        ),
        ListColumn(
            "average", lambda r: f"{r.average} by {r.by_column}" if r.by_column else r.average
        ),
        ListColumn("part", lambda row: row.subset),
        ListColumn("value", lambda row: row.value, "fraction"),
        ListColumn("from", lambda row: row.low, "fraction"),
        ListColumn("to", lambda row: row.high, "fraction"),
        ListColumn("chance", lambda row: row.chance, "fraction"),
        ListColumn("ceiling", lambda row: row.ceiling, "fraction"),
        ListColumn("queries", lambda row: row.n, "count"),
        ListColumn("empty", lambda row: row.empty, "count"),
        ListColumn("missing", lambda row: row.missing, "count"),
        ListColumn("tied", lambda row: row.tied, "count"),
    ]
    filled = [
        column
        for i, column in enumerate(columns)
        if i in (0, 1, 3, 4, 5) or any(column.value(row) for row in aggregates)
    ]
    picture = lists.interval_column(filled.index(columns[5]), scale, aggregates)
    return Listing(request, "numbers", "Numbers", filled, aggregates, picture=picture)


# One query: its value in each run and, where runs stored it, what each of them retrieved


def query_page(request: PageRequest) -> WebPage:
    """Show one query in the selected runs."""
    runs = web.find_runs(request.store, request.params)
    query = request.params.get("query")
    if not runs or not query:
        raise UsageError("The address needs a query and one or more runs: /query?run=1&query=ID.")
    names = names_of(runs)
    scores = [request.cache.scores(request.store, run) for run in runs]
    places = [None if s is None else position_of(s.query_ids, query) for s in scores]
    if all(place is None for place in places):
        where = f"run {runs[0].id}" if len(runs) == 1 else "any of these runs"
        raise HTTPException(404, f"Unknown query {query!r} in {where}.")
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
        return web.address(f"/run/{runs[0].id}", **state)
    settings = {name: request.params.get(name) or None for name in ("measure", "baseline")}
    return web.address("/compare", run=[run.id for run in runs], **settings, **state)


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
        values = [_value(s, place, measure) for s, place in zip(scores, places, strict=True)]
        return ListColumn(measure, values.__getitem__, "fraction")

    columns: list[ListColumn[int]] = [
        ListColumn("run", names.__getitem__, link=lambda i: web.address(f"/run/{runs[i].id}")),
        *map(measure_column, measures),
    ]
    return Listing(request, "values", "Values of this query", columns, range(len(runs)))


def _value(scores: Scores | None, place: int | None, measure: str) -> float | None:
    if scores is None or place is None or measure not in map(str, scores.measures):
        return None
    return or_none(scores[measure][place])


def _neighbours(
    request: PageRequest, runs: Sequence[Run], scores: Sequence[Scores | None]
) -> lists.QueryNeighbours | None:
    """Return the queries beside this one in the list that led here, or by their ids."""
    query = request.params.get("query")
    listed = _find_list(request, runs, scores) if "sort" in request.params else None
    neighbours = None if listed is None else listed.neighbours(query)
    if neighbours is not None:
        return neighbours
    every = (lists.find_neighbours(request, s.query_ids, query) for s in scores if s is not None)
    return next(filter(None, every), None)


def _find_list(
    request: PageRequest, runs: Sequence[Run], scores: Sequence[Scores | None]
) -> lists.QueryListing | None:
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
                    **result.doc.to_dict(),
                    "judged": result.judged,
                    "only_here": result.only_here,
                }
                for result in self.results
            ],
            "missed": [doc.to_dict() for doc in self.missed],
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
    return "rank " + " · ".join(f"{place or '–'} in {name}" for name, place in places)


ROUTES: Final = (PageRoute("/run/{key}", run_page), PageRoute("/query", query_page))
