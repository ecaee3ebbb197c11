"""The page of all runs: filter, sort, tick two or more and compare them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from assay.runs.aggregates import canonical
from assay.store import Run
from assay.store.summaries import ORDERS, RunLine, count_runs, find_lines, in_order, known, statuses
from assay.store.tables import list_data, most_common
from assay.tables.table import Cell, Table
from assay.web.page import Page, View
from assay.web.page_table import Paging, Sheet, sorting
from assay.web.params import Asked, address

__all__ = ["runs_page", "shown_status"]

_FILTERS: Final = ("task", "dataset", "model", "tag", "status", "measure")
_STATUSES: Final = ("running", "finished", "failed")
_MOST_MEASURES: Final = 4
_TEXTS: Final = ("task", "dataset", "model", "name", "status")
_SILENT: Final = 600  # seconds after which a running run is said to be silent


def runs_page(view: View) -> Page:
    """Runs that pass the filters, a page of them."""
    asked = view.asked
    with view.store.database.reading() as connection:
        choices = {name: known(connection, name) for name in _FILTERS if name != "status"}
        choices["status"] = list(_STATUSES)
        filters = _filters(asked, choices)
        measure = canonical(filters["measure"]) if filters["measure"] else ""
        total = count_runs(connection, **filters)
        paging = Paging.of(asked, view.path, total)
        by, descending = _order(asked, measure)
        order = in_order(by, descending=descending, measure=measure)
        runs = find_lines(
            connection, limit=paging.per_page, offset=paging.rows.start, order=order, **filters
        )
        counts = statuses(connection)
    shown = _shown_measures(runs, measure)
    sheet = _sheet(view, runs, shown, measure, paging, by, descending)
    return Page(
        "runs",
        "Runs",
        _data(runs, filters, counts, paging, by, descending),
        [sheet],
        {
            "choices": choices,
            "filters": filters,
            "counts": counts,
            "by": by,
            "descending": descending,
            "filtered": any(filters.values()),
            "live": [run.id for run in runs if run.status == "running"],
        },
        {"runs": lambda: _whole_table(view, order, filters, shown, measure)},
    )


def _filters(asked: Asked, choices: dict[str, list[str]]) -> dict[str, Any]:
    filters: dict[str, Any] = {name: asked.named(name, choices[name]) for name in _FILTERS}
    for name in ("since", "until", "named_like"):
        filters[name] = asked.one(name) or None
    return filters


def _order(asked: Asked, measure: str) -> tuple[str, bool]:
    """By what the runs are sorted, and whether the largest comes first."""
    by = asked.choice("sort", ORDERS, "created")
    if by == "value" and not measure:
        by = "created"
    usual = "up" if by in _TEXTS else "down"
    return by, asked.choice("order", ("up", "down"), usual) == "down"


def _shown_measures(runs: Sequence[RunLine], measure: str) -> list[str]:
    common = [name for name in most_common([run.means() for run in runs]) if name != measure]
    return [*([measure] if measure else []), *common][:_MOST_MEASURES]


def _data(
    runs: Sequence[RunLine],
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
            "shown_status": shown_status(run),
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


def shown_status(run: Run | RunLine) -> str:
    """The state of a run in words: how far it is, and whether it has gone silent."""
    if run.status != "running":
        return run.status
    far = f" {100 * run.done / run.total:.0f} %" if run.total else ""
    silent = _seconds_since(run.updated)
    return f"running{far}" + (f", silent for {_spoken(silent)}" if silent > _SILENT else "")


def _seconds_since(moment: str) -> float:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    except ValueError:
        return 0.0


def _spoken(seconds: float) -> str:
    """A length of time.

    >>> _spoken(700), _spoken(8000), _spoken(200000)
    ('11 min', '2 h', '2 days')
    """
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    return f"{seconds // 3600:.0f} h" if seconds < 172800 else f"{seconds // 86400:.0f} days"


def _sheet(
    view: View,
    runs: Sequence[RunLine],
    shown: list[str],
    measure: str,
    paging: Paging,
    by: str,
    descending: bool,
) -> Sheet:
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
    return Sheet(
        "runs",
        "Runs",
        table,
        csv=view.asked.but(f"{view.path}.csv", page=None),
        links=links,
        marks=marks,
        heads=sorting(view.asked, view.path, keys, by=by, descending=descending, texts=_TEXTS),
        picks=[run.id for run in runs],
        pick_labels=[f"Compare run {run.id}: {run.name}" for run in runs],
        paging=paging,
    )


Column = tuple[str, str, Any]


def _columns(runs: Sequence[RunLine], shown: list[str], measure: str) -> list[Column]:
    """Name, sort key and cell of each column; those that are empty for all runs are left out."""
    columns: list[Column] = [
        ("name", "name", lambda run: Cell(run.name)),
        ("run", "id", lambda run: Cell(run.id, "count")),
        ("status", "status", lambda run: Cell(shown_status(run))),
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


def _table(runs: Sequence[RunLine], columns: list[Column]) -> Table:
    rows = tuple(tuple(cell(run) for _, _, cell in columns) for run in runs)
    return Table(tuple(name for name, _, _ in columns), rows)


def _whole_table(
    view: View, order: Any, filters: dict[str, Any], shown: list[str], measure: str
) -> Table:
    """All runs that pass the filters, for CSV."""
    with view.store.database.reading() as connection:
        runs = find_lines(connection, order=order, measures=shown, **filters)
    return _table(runs, _columns(runs, shown, measure))
