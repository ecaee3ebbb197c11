"""The page of all runs: filter, sort, choose columns, group, select some and compare them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import Connection

from assay.core.text import format_time
from assay.errors import UsageError
from assay.runs.aggregates import canonical
from assay.store.overviews import RunGroup, group_runs
from assay.store.summaries import (
    ORDERS,
    RunSummary,
    count_runs,
    count_statuses,
    find_summaries,
    list_measures,
    list_values,
    order_by_column,
)
from assay.store.tables import list_data
from assay.tables.table import Cell, Table
from assay.web.moments import describe_status, exact_moment, format_moment, progress_of
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable, Paging, sort_links
from assay.web.params import QueryParams, address

__all__ = ["ROUTE", "live_rows", "runs_page"]

_LISTED: Final = ("task", "dataset", "model", "tag")
_FILTERS: Final = ("name", *_LISTED, "status", "measure")
_GROUPS: Final = ("name", "dataset", "tag", "task", "model")
_STATUSES: Final = ("running", "finished", "failed")
_MOST_MEASURES: Final = 4
_TEXTS: Final = ("task", "dataset", "model", "name", "status", "tags")
_CELLS: Final[dict[str, tuple[str, Callable[[RunSummary], Cell]]]] = {
    "name": ("name", lambda run: Cell(run.name)),
    "id": ("run", lambda run: Cell(run.id, "count")),
    "status": ("status", lambda run: Cell(describe_status(run))),
    "task": ("task", lambda run: Cell(run.task)),
    "dataset": ("dataset", lambda run: Cell(run.dataset)),
    "model": ("model", lambda run: Cell(run.model)),
    "n_queries": ("queries", lambda run: Cell(run.n_queries or None, "count")),
    "seconds": ("took", lambda run: Cell(run.seconds, "fraction")),
    "tags": ("tags", lambda run: Cell(" ".join(run.tags))),
    "created": ("began (UTC)", lambda run: Cell(exact_moment(run.created))),
}
_BEFORE: Final = tuple(_CELLS)[:6]  # the measures stand between these and the others
_NOT_AT_FIRST: Final = ("seconds",)


def runs_page(request: PageRequest) -> WebPage:
    """Runs that pass the filters, a page of them, or groups of them."""
    params = request.params
    with request.store.database.reading() as connection:
        choices = {name: list_values(connection, name) for name in _LISTED}
        choices["status"] = list(_STATUSES)
        filters = _filters(params, choices)
        some = {key: filters[key] for key in ("task", "dataset")}
        choices["measure"] = list_measures(connection, **some)
        filters["measure"] = params.get_name("measure", choices["measure"])
        view = _ListView.of(params, filters, choices["measure"])
        context = {
            "choices": choices,
            "filters": filters,
            "counts": count_statuses(connection),
            "view": view,
            "groups": _GROUPS,
            "tasks": [("", "all tasks"), *((task, task) for task in choices["task"])],
            "filtered": any(filters.values()),
            "heads": {key: head for key, (head, _) in _CELLS.items()},
        }
        if view.group:
            return _grouped(request, connection, view, context)
        return _listed(request, connection, view, context)


@dataclass(frozen=True)
class _ListView:
    """What the address says about the list: its order, columns, measures and grouping."""

    filters: dict[str, Any]
    measures: list[str]
    measure: str
    by: str
    descending: bool
    columns: tuple[str, ...]  # empty where nobody chose them
    group: str

    @classmethod
    def of(cls, params: QueryParams, filters: dict[str, Any], measures: list[str]) -> _ListView:
        """From the parameters of the page."""
        measure = canonical(filters["measure"]) if filters["measure"] else ""
        group = params.get_choice("group", ("", *_GROUPS), "")
        orders = ("created", "group", "runs") if group else ORDERS
        by = _sort_key(params, orders, [*measures, *([measure] if measure else [])])
        usual = "up" if by in ("group", *_TEXTS) else "down"
        descending = params.get_choice("order", ("up", "down"), usual) == "down"
        named = [params.get_all("column"), [*_CELLS, *measures]]
        columns = tuple(key for key in dict.fromkeys(named[0]) if key in named[1])
        return cls(filters, measures, measure, by, descending, columns, group)

    def choose_measures(self, usual: Sequence[str]) -> list[str]:
        """The measures to show: those chosen, else the one of the filter and a few of these."""
        if self.columns:
            return [key for key in self.columns if key in self.measures]
        first = [self.measure] if self.measure else []
        return list(dict.fromkeys([*first, *usual]))[:_MOST_MEASURES]


def _sort_key(params: QueryParams, orders: Sequence[str], measures: Sequence[str]) -> str:
    """By what the page is sorted: a column, or a measure."""
    wanted = params.get("sort") or "created"
    if wanted == "value":  # the measure of the filter
        wanted = measures[-1] if params.get("measure") else "created"
    key = wanted if wanted in orders else canonical(wanted)
    if key not in (*orders, *measures):
        raise UsageError(f"sort must be one of {', '.join(orders)} or a measure: {wanted!r:.60}.")
    return key


def _filters(params: QueryParams, choices: dict[str, list[str]]) -> dict[str, Any]:
    filters: dict[str, Any] = {
        name: params.get_name(name, choices.get(name, ())) for name in _FILTERS
    }
    for name in ("since", "until", "named_like"):
        filters[name] = params.get(name) or None
    return filters


def _listed(
    request: PageRequest, connection: Connection, view: _ListView, context: dict[str, Any]
) -> WebPage:
    """The page with a row for each run."""
    total = count_runs(connection, **view.filters)
    paging = Paging.of(request.params, request.path, total)
    known = [*view.measures, view.measure]
    order = order_by_column(view.by, descending=view.descending, measures=known)
    part = {"limit": paging.per_page, "offset": paging.rows.start}
    runs = find_summaries(connection, **part, order=order, **view.filters)
    shown = view.choose_measures(_usual_measures(connection, runs, view))
    columns = _columns(runs, shown, view)

    def whole() -> Table:
        with request.store.database.reading() as again:
            every = find_summaries(again, order=order, measures=shown, **view.filters)
        return _table(every, columns)

    context |= {
        "shown": [key for key, _, _ in columns],
        "live": [run.id for run in runs if run.status == "running"],
    }
    listing = _page_table(request, runs, columns, view, paging)
    data = _data(runs, context["counts"], paging, view)
    return WebPage("runs", "Runs", data, [listing], context, {"runs": whole})


def _usual_measures(
    connection: Connection, runs: Sequence[RunSummary], view: _ListView
) -> Sequence[str]:
    """The measures of the task that most runs of the page are of; those of others say nothing."""
    tasks = Counter(run.task for run in runs if run.means())
    if len(tasks) < 2:
        have = {name for run in runs for name in run.means()}
        return [name for name in view.measures if name in have]
    dataset = view.filters["dataset"]
    return list_measures(connection, task=tasks.most_common(1)[0][0], dataset=dataset)


def _data(
    runs: Sequence[RunSummary], counts: dict[str, int], paging: Paging, view: _ListView
) -> dict[str, Any]:
    return {
        "filters": view.filters,
        "sort": view.by,
        "descending": view.descending,
        "statuses": counts,
        "total": paging.total,
        "number": paging.number,
        "per_page": paging.per_page,
        "runs": live_rows(runs),
    }


def live_rows(runs: Sequence[RunSummary]) -> list[dict[str, Any]]:
    """Runs for JSON with how far they are, which the script of a page follows."""
    rows = list_data(runs)
    for row, run in zip(rows, runs, strict=True):
        row |= {
            "done": run.done,
            "total": run.total,
            "updated": run.updated,
            "shown_status": describe_status(run),
            "progress": progress_of(run) if run.status == "running" else None,
        }
    return rows


ColumnSpec = tuple[str, str, Callable[[RunSummary], Cell]]


def _columns(runs: Sequence[RunSummary], shown: list[str], view: _ListView) -> list[ColumnSpec]:
    """Key, head and cell of each column; those that nobody chose are left out where empty."""
    if view.columns:
        keys = ["name", *(key for key in view.columns if key != "name")]
        return [_column(key) for key in keys]
    filled = [
        key
        for key, (_, cell) in _CELLS.items()
        if key not in _NOT_AT_FIRST
        and (key not in (*_LISTED, "tags") or any(cell(run).value for run in runs))
        and (key != "model" or any(run.model != run.name for run in runs))
    ]
    first = [key for key in filled if key in _BEFORE]
    rest = [key for key in filled if key not in _BEFORE]
    return [_column(key) for key in (*first, *shown, *rest)]


def _column(key: str) -> ColumnSpec:
    if key in _CELLS:
        return key, *_CELLS[key]
    return key, key, lambda run: Cell(run.means().get(key), "fraction")


def _table(runs: Sequence[RunSummary], columns: list[ColumnSpec]) -> Table:
    rows = tuple(tuple(cell(run) for _, _, cell in columns) for run in runs)
    return Table(tuple(head for _, head, _ in columns), rows)


def _page_table(
    request: PageRequest,
    runs: Sequence[RunSummary],
    columns: list[ColumnSpec],
    view: _ListView,
    paging: Paging,
) -> PageTable:
    keys = {i: key for i, (key, _, _) in enumerate(columns)}
    place = {key: i for i, key in keys.items()}
    formats: dict[str, Callable[[Any], str]] = {"created": format_moment, "seconds": format_time}
    return PageTable(
        "runs",
        "Runs",
        _table(runs, columns),
        csv=request.params.address(f"{request.path}.csv", page=None),
        links=[_links(run, place) for run in runs],
        classes=[
            {place["status"]: f"status {run.status}"} if "status" in place else {} for run in runs
        ],
        formats={place[key]: how for key, how in formats.items() if key in place},
        sort_links=sort_links(
            request.params,
            request.path,
            keys,
            by=view.by,
            descending=view.descending,
            texts=_TEXTS,
        ),
        run_ids=[run.id for run in runs],
        run_labels=[f"Compare run {run.id}: {run.name}" for run in runs],
        bars={run.id: (run.done, run.total) for run in runs if run.status == "running"},
        paging=paging,
    )


def _links(run: RunSummary, place: dict[str, int]) -> dict[int, str]:
    links = {place["name"]: address(f"/run/{run.id}")}
    if run.dataset and "dataset" in place:
        links[place["dataset"]] = address("/leaderboard", dataset=run.dataset)
    return links


def _grouped(
    request: PageRequest, connection: Connection, view: _ListView, context: dict[str, Any]
) -> WebPage:
    """The page with a row for each name, dataset, tag, task or model."""
    shown = view.choose_measures(view.measures)
    found = group_runs(connection, view.group, measures=shown, **view.filters)
    groups = sorted(found, key=lambda one: _group_key(one, view.by), reverse=view.descending)
    data = {
        "filters": view.filters,
        "group": view.group,
        "sort": view.by,
        "descending": view.descending,
        "total": len(groups),
        "groups": [asdict(one) for one in groups],
        "runs": [],
    }
    context |= {"shown": [*view.columns] or [*_CELLS, *shown], "live": []}
    listing = _group_table(request, groups, shown, view)
    return WebPage("runs", "Runs", data, [listing], context)


def _group_key(one: RunGroup, by: str) -> tuple[bool, Any]:
    if by in ("group", "runs", "created"):
        return True, {"group": one.name, "runs": one.runs, "created": one.last}[by]
    value = one.best.get(by)
    return value is not None, value or 0.0


def _group_table(
    request: PageRequest, groups: Sequence[RunGroup], shown: Sequence[str], view: _ListView
) -> PageTable:
    rows = tuple(
        (
            Cell(one.name),
            Cell(one.runs, "count"),
            Cell(one.running or None, "count"),
            Cell(one.failed or None, "count"),
            *(Cell(one.best.get(name), "fraction") for name in shown),
            Cell(exact_moment(one.last)),
        )
        for one in groups
    )
    best = [f"best {name}" for name in shown]
    table = Table((view.group, "runs", "running", "failed", *best, "last began (UTC)"), rows)
    last = len(table.columns) - 1
    keys = {0: "group", 1: "runs", **{4 + i: name for i, name in enumerate(shown)}, last: "created"}
    plain = {"group": None, "page": None, "sort": None, "order": None}
    return PageTable(
        "groups",
        f"Runs by {view.group}",
        table,
        csv=request.params.address(f"{request.path}.csv", page=None),
        links=[
            {0: request.params.address(request.path, **plain, **{view.group: one.name})}
            if one.name
            else {}
            for one in groups
        ],
        formats={last: format_moment},
        sort_links=sort_links(
            request.params,
            request.path,
            keys,
            by=view.by,
            descending=view.descending,
            texts=("group",),
        ),
    )


ROUTE: Final = PageRoute("/runs", runs_page, menu="Runs", position=1)
