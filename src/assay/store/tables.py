"""Stored runs as tables, pages and plain data."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from assay.runs.aggregates import canonical
from assay.store.run import Run
from assay.store.summaries import RunSummary
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table, columns_of

__all__ = ["list_data", "list_table", "most_common", "run_data", "run_page", "summary_page"]

_MOST_MEASURES: Final = 5
_NOT_IN_DATA: Final = ("_store", "aggregates")


def list_table(runs: Sequence[Run | RunSummary], measures: Iterable[str] = ()) -> Table:
    """A row for each run; with these measures, or with those that most of the runs have."""
    means = [run.means() for run in runs]
    names = [canonical(name) for name in measures] or most_common(means)
    rows = tuple(
        (
            Cell(run.id, "count"),
            Cell(run.created[:16].replace("T", " ")),
            Cell(run.status),
            Cell(run.task),
            Cell(run.dataset),
            Cell(run.name),
            Cell(run.n_queries, "count"),
            *(Cell(mean.get(name), "fraction") for name in names),
            Cell(" ".join(run.tags)),
        )
        for run, mean in zip(runs, means, strict=True)
    )
    columns = ("id", "began (UTC)", "status", "task", "dataset", "name", "queries", *names, "tags")
    return Table(columns, rows)


def most_common(means: Sequence[dict[str, float | None]]) -> list[str]:
    """The measures that most runs have, a few of them."""
    counted = Counter(name for mean in means for name in mean)
    return [name for name, _ in counted.most_common(_MOST_MEASURES)]


def list_data(runs: Sequence[Run | RunSummary]) -> list[dict[str, Any]]:
    """Plain data of runs, without the settings behind them."""
    keys = (
        "id",
        "uid",
        "name",
        "task",
        "dataset",
        "model",
        "status",
        "message",
        "created",
        "n_queries",
        "tags",
    )
    return [{**{key: getattr(run, key) for key in keys}, "means": run.means()} for run in runs]


def run_data(run: Run, *, per_query: bool) -> dict[str, Any]:
    """Plain data of one run."""
    data = {key: value for key, value in vars(run).items() if key not in _NOT_IN_DATA}
    data["aggregates"] = [one.to_dict() for one in run.aggregates]
    if per_query:
        data["per_query"] = run.scores().to_dict()["per_query"]
    return data


def run_page(run: Run, *, per_query: bool) -> Page:
    """What a run is, its numbers, and how they came about."""
    page: Page = [Words(f"run {run.id}: {run.name}, {run.status}", "verdict"), _facts(run)]
    if run.aggregates:
        page.append(_aggregate_table(run))
    if per_query:
        page.append(_query_table(run))
    return [*page, Words(run.signature, "signature")]


def summary_page(run: Run) -> Page:
    """What a notebook shows of a run."""
    words = [run.dataset, run.status, run.message, run.created[:16].replace("T", " "), *run.tags]
    page: Page = [Words(f"run {run.id}: {', '.join(filter(None, (run.name, *words)))}", "verdict")]
    if run.aggregates:
        page.append(_without_blanks(_aggregate_table(run)))
    return [*page, Words(run.signature, "signature")]


def _without_blanks(table: Table) -> Table:
    """The columns that hold something in any row."""
    kept = (i for i in range(len(table.columns)) if any(row[i].value for row in table.rows))
    return columns_of(table, kept)


def _facts(run: Run) -> Table:
    facts = {
        "uid": run.uid,
        "message": run.message,
        "progress": f"{run.done} of {run.total}" if run.status == "running" and run.total else "",
        "task": run.task,
        "dataset": run.dataset,
        "model": run.model,
        "began": run.created,
        "finished": run.finished or "",
        "seconds": "" if run.seconds is None else f"{run.seconds:.3f}",
        "queries": str(run.n_queries or ""),
        "intervals resample": f"whole groups by {run.clusters}" if run.clusters else "",
        "tags": " ".join(run.tags),
        "notes": run.notes,
        "command": shlex.join(("assay", *run.command)) if run.command else "",
        "folder": run.folder,
        "commit": run.git_commit,
        "imported from": run.origin,
        "digest": f"{run.digest}, since {run.digest_from}" if run.digest else "none",
        "seeds": ", ".join(f"{key} {value}" for key, value in run.seeds.items()),
        "versions": ", ".join(f"{key} {value}" for key, value in run.versions.items()),
        **{
            f"data {file}": f"sha256 {mark.get('sha256', mark)}"
            if isinstance(mark, dict)
            else str(mark)
            for file, mark in run.data.items()
        },
    }
    return Table(("", ""), tuple((Cell(k), Cell(v)) for k, v in facts.items() if v))


def _aggregate_table(run: Run) -> Table:
    rows = tuple(
        (
            Cell(one.measure),
            Cell(one.value, "fraction"),
            Cell(one.low, "fraction"),
            Cell(one.high, "fraction"),
            Cell(one.chance, "fraction"),
            Cell(f"{one.average} {one.by_column}".strip()),
            Cell(one.subset),
            Cell(one.n, "count"),
            Cell(one.empty, "count"),
            Cell(one.missing, "count"),
            Cell(one.tied, "count"),
        )
        for one in run.aggregates
    )
    columns = (
        "measure",
        "value",
        "low",
        "high",
        "chance",
        "average",
        "subset",
        "n",
        "empty",
        "missing",
        "tied",
    )
    return Table(columns, rows)


def _query_table(run: Run) -> Table:
    scores = run.scores()
    names = tuple(map(str, scores.measures))
    rows = tuple(
        (Cell(query), *(Cell(value, "fraction") for value in values))
        for query, values in zip(scores.query_ids, scores.values.T.tolist(), strict=True)
    )
    return Table(("query", *names), rows)
