"""The page of all runs: filter, sort, choose columns, group, select some and compare them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import Connection

from assay.core.text import format_time
from assay.errors import UsageError
from assay.runs.results import canonical
from assay.store.summaries import (
    ORDERS,
    RunGroup,
    RunSummary,
    count_runs,
    count_statuses,
    find_summaries,
    group_runs,
    list_measures,
    list_values,
    order_by_column,
)
from assay.store.tables import list_data
from assay.web.listing import ListColumn, Listing, Paging, SortOrder, moment_column
from assay.web.page import (
    PageRequest,
    PageRoute,
    QueryParams,
    WebPage,
    address,
    describe_status,
    progress_of,
)

_LISTED: Final = ("task", "dataset", "model", "tag")
_FILTERS: Final = ("name", *_LISTED, "status", "measure")
_GROUPS: Final = ("name", "dataset", "tag", "task", "model")
_STATUSES: Final = ("running", "finished", "failed")
_MOST_MEASURES: Final = 4
_NOT_AT_FIRST: Final = ("seconds",)


def _leaderboard_link(run: RunSummary) -> str:
    return address("/leaderboard", dataset=run.dataset) if run.dataset else ""


# The columns of every list of runs by their keys; texts begin with the first letter.
RUN_COLUMNS: Final[dict[str, ListColumn[RunSummary]]] = {
    column.key: column
    for column in (
        ListColumn[RunSummary](
            "name",
            lambda run: run.name,
            key="name",
            ascending=True,
            link=lambda run: address(f"/run/{run.id}"),
        ),
        ListColumn("run", lambda run: run.id, "count", "id"),
        ListColumn[RunSummary](
            "status",
            describe_status,
            key="status",
            ascending=True,
            style=lambda run: f"status {run.status}",
        ),
        ListColumn("task", lambda run: run.task, key="task", ascending=True),
        ListColumn(
            "dataset",
            lambda run: run.dataset,
            key="dataset",
            ascending=True,
            link=_leaderboard_link,
        ),
        ListColumn("model", lambda run: run.model, key="model", ascending=True),
        ListColumn("queries", lambda run: run.n_queries or None, "count", "n_queries"),
        ListColumn("took", lambda run: run.seconds, "fraction", "seconds", form=format_time),
        ListColumn("tags", lambda run: " ".join(run.tags), key="tags", ascending=True),
        moment_column("began (UTC)", lambda run: run.created, "created"),
    )
}
_BEFORE: Final = tuple(RUN_COLUMNS)[:6]  # the measures stand between these and the others
_ASCENDING: Final = {"group", *(key for key, column in RUN_COLUMNS.items() if column.ascending)}


def runs_page(request: PageRequest) -> WebPage:
    """Show runs that pass the filters, a page of them, or groups of them."""
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
            "heads": {key: column.heading for key, column in RUN_COLUMNS.items()},
        }
        if view.group:
            return _list_groups(request, connection, view, context)
        return _list_runs(request, connection, view, context)


@dataclass(frozen=True)
class _ListView:
    """The list as the address describes it: order, columns, measures and grouping."""

    filters: dict[str, Any]
    measures: list[str]
    measure: str
    order: SortOrder
    columns: tuple[str, ...]  # empty where nobody chose them
    group: str

    @classmethod
    def of(cls, params: QueryParams, filters: dict[str, Any], measures: list[str]) -> _ListView:
        """Read the parameters of the page."""
        measure = canonical(filters["measure"]) if filters["measure"] else ""
        group = params.get_choice("group", ("", *_GROUPS), "")
        orders = ("created", "group", "runs") if group else ORDERS
        by = _sort_key(params, orders, [*measures, *([measure] if measure else [])])
        order = SortOrder.of(params, by, _ASCENDING)
        keys = dict.fromkeys(params.get_all("column"))
        columns = tuple(key for key in keys if key in (*RUN_COLUMNS, *measures))
        return cls(filters, measures, measure, order, columns, group)

    def choose_measures(self, usual: Sequence[str]) -> list[str]:
        """Return the measures to show: those chosen, else that of the filter and a few."""
        if self.columns:
            return [key for key in self.columns if key in self.measures]
        first = [self.measure] if self.measure else []
        return list(dict.fromkeys([*first, *usual]))[:_MOST_MEASURES]


def _sort_key(params: QueryParams, orders: Sequence[str], measures: Sequence[str]) -> str:
    """Return what the page is sorted by: a column, or a measure."""
    text = params.get("sort") or "created"
    if text == "value":  # the measure of the filter
        text = measures[-1] if params.get("measure") else "created"
    key = text if text in orders else canonical(text)
    if key not in (*orders, *measures):
        raise UsageError(f"sort must be one of {', '.join(orders)} or a measure: {text!r:.60}.")
    return key


def _filters(params: QueryParams, choices: dict[str, list[str]]) -> dict[str, Any]:
    filters: dict[str, Any] = {
        name: params.get_name(name, choices.get(name, ())) for name in _FILTERS
    }
    for name in ("since", "until", "named_like"):
        filters[name] = params.get(name) or None
    return filters


def _list_runs(
    request: PageRequest, connection: Connection, view: _ListView, context: dict[str, Any]
) -> WebPage:
    """Make the page with a row for each run."""
    paging = Paging.of(request, count_runs(connection, **view.filters))
    order = order_by_column(
        view.order.by, descending=view.order.descending, measures=[*view.measures, view.measure]
    )
    part = {"limit": paging.per_page, "offset": paging.rows.start}
    runs = find_summaries(connection, **part, order=order, **view.filters)
    measures = view.choose_measures(_usual_measures(connection, runs, view))

    def every() -> list[RunSummary]:
        with request.store.database.reading() as again:
            return find_summaries(again, order=order, measures=measures, **view.filters)

    listing = Listing(
        request,
        "runs",
        "Runs",
        _columns(runs, measures, view),
        runs,
        view.order,
        paging,
        every,
        run=lambda run: run,
    )
    context |= {
        "shown": [column.key for column in listing.columns],
        "live": [run.id for run in runs if run.status == "running"],
    }
    data = {
        "filters": view.filters,
        "statuses": context["counts"],
        **listing.state(),
        "per_page": paging.per_page,
        "runs": live_rows(runs),
    }
    return WebPage("runs", "Runs", data, [listing], context)


def _usual_measures(
    connection: Connection, runs: Sequence[RunSummary], view: _ListView
) -> Sequence[str]:
    """Return the measures of the task that most runs of the page are of."""
    tasks = Counter(run.task for run in runs if run.means())
    if len(tasks) < 2:
        have = {name for run in runs for name in run.means()}
        return [name for name in view.measures if name in have]
    dataset = view.filters["dataset"]
    return list_measures(connection, task=tasks.most_common(1)[0][0], dataset=dataset)


def live_rows(runs: Sequence[RunSummary]) -> list[dict[str, Any]]:
    """Return runs for JSON with their progress, which the script of a page follows."""
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


def _columns(
    runs: Sequence[RunSummary], measures: list[str], view: _ListView
) -> list[ListColumn[RunSummary]]:
    """Return the chosen columns, else the usual ones without those that are empty."""
    if view.columns:
        return [_column(key) for key in dict.fromkeys(["name", *view.columns])]
    filled = [
        key
        for key, column in RUN_COLUMNS.items()
        if key not in _NOT_AT_FIRST
        and (key not in (*_LISTED, "tags") or any(column.value(run) for run in runs))
        and (key != "model" or any(run.model != run.name for run in runs))
    ]
    first = [key for key in filled if key in _BEFORE]
    rest = [key for key in filled if key not in _BEFORE]
    return [_column(key) for key in (*first, *measures, *rest)]


def _column(key: str) -> ListColumn[RunSummary]:
    """Return a column of every list, or that of a measure."""
    return RUN_COLUMNS.get(key) or ListColumn(
        key, lambda run: run.means().get(key), "fraction", key=key
    )


def _list_groups(
    request: PageRequest, connection: Connection, view: _ListView, context: dict[str, Any]
) -> WebPage:
    """Make the page with a row for each name, dataset, tag, task or model."""
    measures = view.choose_measures(view.measures)
    groups = group_runs(connection, view.group, measures=measures, **view.filters)
    groups.sort(key=lambda group: _group_key(group, view.order.by), reverse=view.order.descending)
    listing = _group_listing(request, groups, measures, view)
    data = {
        "filters": view.filters,
        "group": view.group,
        **listing.state(),
        "groups": [asdict(group) for group in groups],
        "runs": [],
    }
    context |= {"shown": [*view.columns] or [*RUN_COLUMNS, *measures], "live": []}
    return WebPage("runs", "Runs", data, [listing], context)


def _group_key(group: RunGroup, by: str) -> tuple[bool, Any]:
    if by in ("group", "runs", "created"):
        return True, {"group": group.name, "runs": group.runs, "created": group.last}[by]
    value = group.best.get(by)
    return value is not None, value or 0.0


def _group_listing(
    request: PageRequest, groups: Sequence[RunGroup], measures: Sequence[str], view: _ListView
) -> Listing[RunGroup]:
    reset = {"group": None, "page": None, "sort": None, "order": None}

    def link(group: RunGroup) -> str:
        if not group.name:
            return ""
        return request.params.address(request.path, **reset, **{view.group: group.name})

    def best(measure: str) -> ListColumn[RunGroup]:
        heading = f"best {measure}"
        return ListColumn(heading, lambda group: group.best.get(measure), "fraction", measure)

    columns: list[ListColumn[RunGroup]] = [
        ListColumn(view.group, lambda group: group.name, key="group", ascending=True, link=link),
        ListColumn("runs", lambda group: group.runs, "count", "runs"),
        ListColumn("running", lambda group: group.running or None, "count"),
        ListColumn("failed", lambda group: group.failed or None, "count"),
        *map(best, measures),
        moment_column("last began (UTC)", lambda group: group.last, "created"),
    ]
    return Listing(request, "groups", f"Runs by {view.group}", columns, groups, view.order)


ROUTES: Final = (PageRoute("/runs", runs_page, menu="Runs", position=1),)
