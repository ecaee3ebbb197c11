"""One run: its numbers, a histogram of the values of queries, groups, every query, provenance."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from assay.arrays import Ints
from assay.report.svg import histogram, interval_strip
from assay.scoring.output import disclosures
from assay.scoring.scores import Scores
from assay.store import Aggregate, Run
from assay.store.overviews import costs_of
from assay.store.tables import run_data
from assay.tables.svg import Scale
from assay.tables.table import Cell, Table
from assay.web.costs import describe_costs
from assay.web.edits import shown_notes
from assay.web.moments import describe_status, exact_moment, format_moment, progress_of
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable, Paging, order_by, rows_as_dicts, sort_links
from assay.web.params import QueryParams, address, choose_measure, find_run
from assay.web.query_list import find_queries, read_texts, row_notes

__all__ = ["ROUTE", "list_queries", "run_page"]

_MOST_GROUPS: Final = 200


def run_page(request: PageRequest) -> WebPage:
    """One run."""
    run = find_run(request.store, request.key)
    measure = choose_measure(request.params, run.measures)
    scores = request.cache.scores(request.store, run)
    own = {**run_data(run, per_query=False), "shown_status": describe_status(run, whole=True)}
    own["progress"] = progress_of(run) if run.status == "running" else None
    page = WebPage(
        "run",
        f"Run {run.id}: {run.name}",
        {"run": own, "remarks": []},
        [_numbers(run)] if run.aggregates else [],
        {
            "run": run,
            "measure": measure,
            "status": own["shown_status"],
            "notes": shown_notes(run.notes),
            "facts": _facts(run),
            "verdict": _verdict(run, measure),
            "provenance": _provenance(run),
            "chart": "",
            "searched": request.params.get("q"),
            "order": {key: request.params.get(key) for key in ("measure", "by", "sort", "order")},
            "column": "",
            "columns": [],
        },
    )
    return page if scores is None or not scores.n_queries else _add_queries(page, request, scores)


def _add_queries(page: WebPage, request: PageRequest, stored: Scores) -> WebPage:
    """The page with the values of its queries."""
    scores = _tolerant(stored)
    names = [str(one) for one in scores.measures]
    measure = page.context["measure"] if page.context["measure"] in names else names[0]
    positions = list_queries(request, scores, page.context["run"])
    listing, queries = _queries(request, page.context["run"], scores, positions)
    column, groups = _groups(request, scores)
    return replace(
        page,
        data={
            **page.data,
            "remarks": list(disclosures(scores)),
            "by": column,
            "queries": queries,
            "groups": rows_as_dicts(groups.table) if groups else [],
        },
        tables=[*page.tables, *([groups] if groups else []), listing],
        context={
            **page.context,
            "measure": measure,
            "chart": _chart(scores, measure),
            "column": column,
            "columns": list(scores.groups),
        },
        downloads={"queries": partial(_table, scores, positions)},
    )


def _queries(
    request: PageRequest, run: Run, scores: Scores, positions: Ints
) -> tuple[PageTable, dict[str, Any]]:
    """The queries on this page, as a table and as data."""
    names = [str(one) for one in scores.measures]
    by, descending = _order(request.params, names)
    paging = Paging.of(request.params, request.path, len(positions))
    table = _table(scores, positions[paging.rows])
    texts = read_texts(request.store, [run], [row[0].value for row in table.rows])
    keys = dict(enumerate(["query", *names]))
    links = sort_links(
        request.params, request.path, keys, by=by, descending=descending, texts=["query"]
    )
    data = {
        "total": paging.total,
        "number": paging.number,
        "sort": by,
        "descending": descending,
        "rows": rows_as_dicts(table),
        "texts": texts,
    }
    return _page_table(request, table, texts, paging, links), data


def _tolerant(scores: Scores) -> Scores:
    """The same under conventions that raise no error: what is stored can be shown."""
    rules = scores.conventions
    changed = rules.but(
        empty="skip" if rules.empty == "error" else None,
        missing="skip" if rules.missing == "error" else None,
    )
    return replace(scores, conventions=changed)


def _order(params: QueryParams, names: list[str]) -> tuple[str, bool]:
    by = params.get_name("sort", ["query", *names]) or "query"
    by = by if by in names else "query"
    return by, params.get_choice(
        "order", ("up", "down"), "up" if by == "query" else "down"
    ) == "down"


def list_queries(request: PageRequest, scores: Scores, run: Run) -> Ints:
    """The queries that the address searches for, in the order that it asks for."""
    order = _positions(scores, *_order(request.params, [str(one) for one in scores.measures]))
    return find_queries(request, [run], scores.query_ids, order)


def _positions(scores: Scores, by: str, descending: bool) -> Ints:
    """The order of the queries."""
    if by != "query":
        return order_by(scores[by], descending=descending)
    positions = np.arange(scores.n_queries)
    return positions[::-1] if descending else positions


def _table(scores: Scores, positions: Ints) -> Table:
    ids: Sequence[Any] = scores.query_ids.take(positions).to_list()
    groups = [column[positions].tolist() for column in scores.groups.values()]
    values = scores.values[:, positions].T.tolist()
    rows = tuple(
        (
            Cell(query),
            *(Cell(value, "fraction") for value in own),
            *(Cell(group[row]) for group in groups),
        )
        for row, (query, own) in enumerate(zip(ids, values, strict=True))
    )
    return Table(("query", *map(str, scores.measures), *scores.groups), rows)


def _page_table(
    request: PageRequest, table: Table, texts: dict[str, str], paging: Paging, heads: Any
) -> PageTable:
    return PageTable(
        "queries",
        "Queries",
        table,
        csv=request.params.address(f"{request.path}.csv", table="queries", page=None),
        links=[{0: _link(request, row[0].value)} for row in table.rows],
        sort_links=heads,
        paging=paging,
        notes=row_notes(texts, [row[0].value for row in table.rows]),
    )


def _link(request: PageRequest, query: Any) -> str:
    """The page of a query, whose neighbours are those of this list."""
    kept = {key: request.params.get(key) or None for key in ("sort", "order", "q")}
    return address("/query", run=request.key, query=query, **kept)


def _chart(scores: Scores, measure: str) -> Any:
    values = scores[measure]
    known = values[~np.isnan(values)].tolist()
    return histogram(values, measure, math.fsum(known) / len(known) if known else None)


def _groups(request: PageRequest, scores: Scores) -> tuple[str, PageTable | None]:
    """The requested group column, or the first, and the means of its groups."""
    columns = list(scores.groups)
    column = request.params.get_name("by", columns) or next(iter(columns), "")
    if column not in columns:
        return "", None
    names, sizes = np.unique(scores.groups[column], return_counts=True)
    largest = sorted(zip(names.tolist(), sizes.tolist(), strict=True), key=lambda one: -one[1])
    means = scores.mean(by=column).groups
    rows = tuple(
        (
            Cell(group),
            Cell(size, "count"),
            *(Cell(value, "fraction") for value in means[group].values()),
        )
        for group, size in largest[:_MOST_GROUPS]
        if group in means
    )
    caption = f"Means by {column}"
    if len(largest) > _MOST_GROUPS:
        caption += f": the {_MOST_GROUPS} largest of {len(largest):,} groups"
    table = Table((column, "queries", *map(str, scores.measures)), rows)
    return column, PageTable(
        "groups", caption, table, csv=address(f"{request.path}.csv", table="groups", by=column)
    )


def _verdict(run: Run, measure: str) -> str:
    found = [one for one in run.aggregates if one.measure == measure and not one.by_column]
    if run.status != "finished" or not found or found[0].value is None:
        return ""
    one = found[0]
    ends = "" if one.low is None else f" [{one.low:.4f}, {one.high:.4f}]"
    chance = "" if one.chance is None else f"; a random order reaches {one.chance:.4f}"
    return f"{run.name} reaches {one.value:.4f}{ends} on {one.measure}{chance}"


def _facts(run: Run) -> list[tuple[str, str, str]]:
    """Name, value and link of what is known at a glance."""
    known = costs_of(run.n_queries, run.config, run.timings)
    took = "" if run.seconds is None else f"{run.seconds:.1f} s"
    facts = [
        ("task", run.task, address("/runs", task=run.task)),
        ("dataset", run.dataset, address("/leaderboard", dataset=run.dataset)),
        ("model", run.model, address("/runs", model=run.model)),
        ("queries", f"{run.n_queries:,}" if run.n_queries else "", ""),
        ("began", f"{format_moment(run.created)} UTC", ""),
        ("took", took, ""),
        *((name, text, "") for name, text in describe_costs(known)),
        *(("tag", tag, address("/runs", tag=tag)) for tag in run.tags),
    ]
    return [fact for fact in facts if fact[1]]


def _provenance(run: Run) -> list[tuple[str, str]]:
    """How the run was made, and what is needed to reproduce it."""
    made = [
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
        ("began", f"{exact_moment(run.created)} UTC"),
        ("digest", f"{run.digest}, since {run.digest_from}" if run.digest else "none"),
        *((f"data {file}", _format_fingerprint(mark)) for file, mark in run.data.items()),
    ]
    return [(name, text) for name, text in made if text]


def _format_settings(settings: dict[str, Any]) -> str:
    """Settings, a line each, without those that are not set."""
    unset: tuple[Any, ...] = (None, [], {}, "")
    given = {key: value for key, value in settings.items() if value not in unset}
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in given.items())


def _format_fingerprint(mark: Any) -> str:
    if isinstance(mark, dict) and "sha256" in mark:
        size = f"{mark['bytes']:,} bytes, " if isinstance(mark.get("bytes"), int) else ""
        return f"{size}sha256 {mark['sha256']}"
    return str(mark)


def _numbers(run: Run) -> PageTable:
    """Every aggregate, with its interval drawn."""
    ones = run.aggregates
    scale = Scale.around([0.0, *(end for one in ones for end in (one.value, one.low, one.high))])
    rows = tuple(_aggregate_row(one) for one in ones)
    columns = (
        "measure",
        "value",
        "from",
        "to",
        "chance",
        "ceiling",
        "average",
        "part",
        "queries",
        "empty",
        "missing",
        "tied",
    )
    kept = [i for i, _ in enumerate(columns) if i < 4 or any(row[i].value for row in rows)]
    table = Table(tuple(columns[i] for i in kept), tuple(tuple(r[i] for i in kept) for r in rows))
    level = next((one.level for one in ones if one.level), None)
    return PageTable(
        "numbers",
        "Numbers",
        table,
        csv=address(f"/run/{run.id}.csv", table="numbers"),
        links=[{0: address(f"/run/{run.id}", measure=one.measure)} for one in ones],
        pictures=[
            interval_strip(scale, one.value, one.low, one.high, chance=one.chance) for one in ones
        ],
        picture_after=3,
        picture_head=f"{100 * level:g} % interval" if level else "interval",
    )


def _aggregate_row(one: Aggregate) -> tuple[Cell, ...]:
    numbers = (one.value, one.low, one.high, one.chance, one.ceiling)
    average = f"{one.average} by {one.by_column}" if one.by_column else one.average
    counts = (one.n, one.empty, one.missing, one.tied)
    return (
        Cell(one.measure),
        *(Cell(number, "fraction") for number in numbers),
        Cell(average),
        Cell(one.subset),
        *(Cell(count, "count") for count in counts),
    )


ROUTE: Final = PageRoute("/run/{key}", run_page)
