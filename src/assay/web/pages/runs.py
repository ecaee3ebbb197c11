"""The page of all runs: filter, sort, select two or more and compare them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from assay.runs.aggregates import canonical
from assay.store import Run
from assay.store.summaries import (
    ORDERS,
    RunSummary,
    count_runs,
    count_statuses,
    find_summaries,
    list_values,
    order_by_column,
)
from assay.store.tables import list_data, most_common
from assay.tables.table import Cell, Table
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable, Paging, sort_links
from assay.web.params import QueryParams, address

__all__ = ["ROUTE", "describe_status", "runs_page"]

_FILTERS: Final = ("task", "dataset", "model", "tag", "status", "measure")
_STATUSES: Final = ("running", "finished", "failed")
_MOST_MEASURES: Final = 4
_TEXTS: Final = ("task", "dataset", "model", "name", "status")
_SILENT: Final = 600  # seconds without a sign of progress after which a run counts as silent


def runs_page(request: PageRequest) -> WebPage:
    """Runs that pass the filters, a page of them."""
    params = request.params
    with request.store.database.reading() as connection:
        choices = {name: list_values(connection, name) for name in _FILTERS if name != "status"}
        choices["status"] = list(_STATUSES)
        filters = _filters(params, choices)
        measure = canonical(filters["measure"]) if filters["measure"] else ""
        total = count_runs(connection, **filters)
        paging = Paging.of(params, request.path, total)
        by, descending = _order(params, measure)
        order = order_by_column(by, descending=descending, measure=measure)
        runs = find_summaries(
            connection, limit=paging.per_page, offset=paging.rows.start, order=order, **filters
        )
        counts = count_statuses(connection)
    shown = _choose_measures(runs, measure)
    listing = _page_table(request, runs, shown, measure, paging, by, descending)
    return WebPage(
        "runs",
        "Runs",
        _data(runs, filters, counts, paging, by, descending),
        [listing],
        {
            "choices": choices,
            "filters": filters,
            "counts": counts,
            "by": by,
            "descending": descending,
            "filtered": any(filters.values()),
            "live": [run.id for run in runs if run.status == "running"],
        },
        {"runs": lambda: _whole_table(request, order, filters, shown, measure)},
    )


def _filters(params: QueryParams, choices: dict[str, list[str]]) -> dict[str, Any]:
    filters: dict[str, Any] = {name: params.get_name(name, choices[name]) for name in _FILTERS}
    for name in ("since", "until", "named_like"):
        filters[name] = params.get(name) or None
    return filters


def _order(params: QueryParams, measure: str) -> tuple[str, bool]:
    """By what the runs are sorted, and whether the largest comes first."""
    by = params.get_choice("sort", ORDERS, "created")
    if by == "value" and not measure:
        by = "created"
    usual = "up" if by in _TEXTS else "down"
    return by, params.get_choice("order", ("up", "down"), usual) == "down"


def _choose_measures(runs: Sequence[RunSummary], measure: str) -> list[str]:
    common = [name for name in most_common([run.means() for run in runs]) if name != measure]
    return [*([measure] if measure else []), *common][:_MOST_MEASURES]


def _data(
    runs: Sequence[RunSummary],
    filters: dict[str, Any],
    counts: dict[str, int],
    paging: Paging,
    by: str,
    descending: bool,
) -> dict[str, Any]:
    rows = list_data(runs)
    for row, run in zip(rows, runs, strict=True):
        row |= {
            "done": run.done,
            "total": run.total,
            "updated": run.updated,
            "shown_status": describe_status(run),
        }
    return {
        "filters": filters,
        "sort": by,
        "descending": descending,
        "statuses": counts,
        "total": paging.total,
        "number": paging.number,
        "per_page": paging.per_page,
        "runs": rows,
    }


def describe_status(run: Run | RunSummary) -> str:
    """The status of a run: its progress, and how long it has shown none."""
    if run.status != "running":
        return run.status
    far = f" {100 * run.done / run.total:.0f} %" if run.total else ""
    silent = _seconds_since(run.updated)
    return f"running{far}" + (
        f", silent for {_format_duration(silent)}" if silent > _SILENT else ""
    )


def _seconds_since(moment: str) -> float:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    except ValueError:
        return 0.0


def _format_duration(seconds: float) -> str:
    """A length of time.

    >>> _format_duration(700), _format_duration(8000), _format_duration(200000)
    ('11 min', '2 h', '2 days')
    """
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    return f"{seconds // 3600:.0f} h" if seconds < 172800 else f"{seconds // 86400:.0f} days"


def _page_table(
    request: PageRequest,
    runs: Sequence[RunSummary],
    shown: list[str],
    measure: str,
    paging: Paging,
    by: str,
    descending: bool,
) -> PageTable:
    columns = _columns(runs, shown, measure)
    keys = {i: key for i, (_, key, _) in enumerate(columns) if key}
    place = {key: i for i, key in keys.items()}
    table = _table(runs, columns)
    marks = [{place["status"]: f"status {run.status}"} for run in runs]
    links = [
        {
            place["name"]: address(f"/run/{run.id}"),
            **(
                {place["dataset"]: address("/leaderboard", dataset=run.dataset)}
                if run.dataset and "dataset" in place
                else {}
            ),
        }
        for run in runs
    ]
    return PageTable(
        "runs",
        "Runs",
        table,
        csv=request.params.address(f"{request.path}.csv", page=None),
        links=links,
        classes=marks,
        sort_links=sort_links(
            request.params, request.path, keys, by=by, descending=descending, texts=_TEXTS
        ),
        run_ids=[run.id for run in runs],
        run_labels=[f"Compare run {run.id}: {run.name}" for run in runs],
        paging=paging,
    )


ColumnSpec = tuple[str, str, Any]


def _columns(runs: Sequence[RunSummary], shown: list[str], measure: str) -> list[ColumnSpec]:
    """Name, sort key and cell of each column; those that are empty for all runs are left out."""
    columns: list[ColumnSpec] = [
        ("name", "name", lambda run: Cell(run.name)),
        ("run", "id", lambda run: Cell(run.id, "count")),
        ("status", "status", lambda run: Cell(describe_status(run))),
    ]
    for name in ("task", "dataset", "model"):
        if any(getattr(run, name) for run in runs):
            columns.append((name, name, lambda run, name=name: Cell(getattr(run, name))))
    for name in shown:
        key = "value" if name == measure else ""
        columns.append((name, key, lambda run, name=name: Cell(run.means().get(name), "fraction")))
    columns.append(("queries", "n_queries", lambda run: Cell(run.n_queries or None, "count")))
    if any(run.tags for run in runs):
        columns.append(("tags", "", lambda run: Cell(" ".join(run.tags))))
    began = ("began (UTC)", "created", lambda run: Cell(run.created[:16].replace("T", " ")))
    return [*columns, began]


def _table(runs: Sequence[RunSummary], columns: list[ColumnSpec]) -> Table:
    rows = tuple(tuple(cell(run) for _, _, cell in columns) for run in runs)
    return Table(tuple(name for name, _, _ in columns), rows)


def _whole_table(
    request: PageRequest, order: Any, filters: dict[str, Any], shown: list[str], measure: str
) -> Table:
    """All runs that pass the filters, for CSV."""
    with request.store.database.reading() as connection:
        runs = find_summaries(connection, order=order, measures=shown, **filters)
    return _table(runs, _columns(runs, shown, measure))


ROUTE: Final = PageRoute("/runs", runs_page, menu="Runs", position=1)
