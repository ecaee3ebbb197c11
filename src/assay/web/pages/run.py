"""One run: its numbers, a histogram of the values of queries, groups, every query, provenance."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace
from typing import Any, Final

import numpy as np

from assay.report.svg import histogram, interval_strip
from assay.report.tables import plugin_parts
from assay.scoring.output import disclosures
from assay.scoring.scores import Scores
from assay.store import Aggregate, Run
from assay.store.summaries import costs_of
from assay.store.tables import run_data
from assay.tables.svg import Scale
from assay.tables.table import Cell, Table
from assay.web.listing import (
    ListColumn,
    Listing,
    QueryListing,
    SortOrder,
    interval_column,
    table_columns,
)
from assay.web.page import (
    PageRequest,
    PageRoute,
    WebPage,
    address,
    choose_measure,
    describe_status,
    exact_moment,
    find_run,
    format_moment,
    format_notes,
    progress_of,
)
from assay.web.pages.leaderboard import describe_costs

_MOST_GROUPS: Final = 200


def run_page(request: PageRequest) -> WebPage:
    """Show one run."""
    run = find_run(request.store, request.key)
    measure = choose_measure(request.params, run.measures)
    scores = request.cache.scores(request.store, run)
    status = describe_status(run, whole=True)
    progress = progress_of(run) if run.status == "running" else None
    views = [
        PluginView(request, number, title, part)
        for number, (title, part) in enumerate(plugin_parts("dashboard_views", run), 1)
    ]
    page = WebPage(
        "run",
        f"Run {run.id}: {run.name}",
        {
            "run": {
                **run_data(run, per_query=False),
                "shown_status": status,
                "progress": progress,
            },
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
            "notes": format_notes(run.notes),
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
            self.listing = Listing(request, f"view-{number}", title, table_columns(part), part.rows)

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
    changed = rules.but(
        empty="skip" if rules.empty == "error" else None,
        missing="skip" if rules.missing == "error" else None,
    )
    return replace(scores, conventions=changed)


def list_queries(request: PageRequest, scores: Scores, run: Run) -> QueryListing:
    """Declare the list of the queries of a run: its measures and its groups."""
    names = [str(measure) for measure in scores.measures]
    key = request.params.get_name("sort", ["query", *names])
    order = SortOrder.of(request.params, key if key in names else "query", ["query"])
    measures = [_array_column(scores[name], name, "fraction", name) for name in names]
    groups = [_array_column(labels, name) for name, labels in scores.groups.items()]
    values = {name: scores[name] for name in names}
    return QueryListing(request, [run], scores.query_ids, values, order, [*measures, *groups])


def _array_column(values: Any, heading: str, kind: str = "text", key: str = "") -> ListColumn[int]:
    return ListColumn(heading, lambda i: values[i], kind, key)


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


def _verdict(run: Run, measure: str) -> str:
    means = (row for row in run.aggregates if row.measure == measure and not row.by_column)
    mean = next(means, None)
    if run.status != "finished" or mean is None or mean.value is None:
        return ""
    ends = "" if mean.low is None else f" [{mean.low:.4f}, {mean.high:.4f}]"
    chance = "" if mean.chance is None else f"; a random order reaches {mean.chance:.4f}"
    return f"{run.name} reaches {mean.value:.4f}{ends} on {mean.measure}{chance}"


def _facts(run: Run) -> list[tuple[str, str, str]]:
    """Return name, value and link of what is known at a glance."""
    costs = costs_of(run.n_queries, run.config, run.timings)
    took = "" if run.seconds is None else f"{run.seconds:.1f} s"
    facts = [
        ("task", run.task, address("/runs", task=run.task)),
        ("dataset", run.dataset, address("/leaderboard", dataset=run.dataset)),
        ("model", run.model, address("/runs", model=run.model)),
        ("queries", f"{run.n_queries:,}" if run.n_queries else "", ""),
        ("began", f"{format_moment(run.created)} UTC", ""),
        ("took", took, ""),
        *((name, text, "") for name, text in describe_costs(costs)),
        *(("tag", tag, address("/runs", tag=tag)) for tag in run.tags),
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
        ("began", f"{exact_moment(run.created)} UTC"),
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
    """Declare the list of all aggregates without empty columns, intervals drawn."""
    aggregates = run.aggregates
    ends = (end for row in aggregates for end in (row.value, row.low, row.high))
    scale = Scale.around([0.0, *ends])
    strips = [
        interval_strip(scale, row.value, row.low, row.high, chance=row.chance) for row in aggregates
    ]
    columns: list[ListColumn[Aggregate]] = [
        ListColumn(
            "measure",
            lambda row: row.measure,
            link=lambda row: address(f"/run/{run.id}", measure=row.measure),
        ),
        ListColumn("value", lambda row: row.value, "fraction"),
        ListColumn("from", lambda row: row.low, "fraction"),
        ListColumn("to", lambda row: row.high, "fraction"),
        ListColumn("chance", lambda row: row.chance, "fraction"),
        ListColumn("ceiling", lambda row: row.ceiling, "fraction"),
        ListColumn(
            "average", lambda r: f"{r.average} by {r.by_column}" if r.by_column else r.average
        ),
        ListColumn("part", lambda row: row.subset),
        ListColumn("queries", lambda row: row.n, "count"),
        ListColumn("empty", lambda row: row.empty, "count"),
        ListColumn("missing", lambda row: row.missing, "count"),
        ListColumn("tied", lambda row: row.tied, "count"),
    ]
    filled = [
        column
        for i, column in enumerate(columns)
        if i < 4 or any(column.value(row) for row in aggregates)
    ]
    picture = interval_column(3, aggregates, strips)
    return Listing(request, "numbers", "Numbers", filled, aggregates, picture=picture)


ROUTES: Final = (PageRoute("/run/{key}", run_page),)
