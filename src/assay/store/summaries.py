"""Summaries of many runs for lists, leaderboards and trends, without arrays.

Only the columns that are needed are read, so that a list of 1,000 runs takes less than 0.1 s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from assay.errors import UsageError
from assay.io.lines import build_frame
from assay.runs.results import canonical, method_text
from assay.store.codec import read_json
from assay.store.queries import (
    NEWEST_FIRST,
    conditions,
    read_results,
    rows_by_run,
    select_runs,
    tags_by_run,
)
from assay.store.run import key_of, unpack_text
from assay.store.schema import AGGREGATES, BLOBS, RUNS, TAGS


@dataclass(frozen=True)
class NamedRun:
    """A run by its numbers and names."""

    id: int
    uid: str
    name: str
    task: str
    dataset: str
    model: str


@dataclass(frozen=True)
class RunSummary(NamedRun):
    """A row in a list of runs: names, status, tags and means over queries."""

    status: str
    message: str
    created: str
    updated: str
    done: int
    total: int
    seconds: float | None
    n_queries: int
    conventions: str
    tags: tuple[str, ...] = ()
    _means: dict[str, float | None] = field(default_factory=dict)

    def means(self) -> dict[str, float | None]:
        """Return the means over all queries by measure."""
        return dict(self._means)


_COLUMNS: Final = [each.name for each in fields(RunSummary) if each.name in RUNS.c]


def find_summaries(
    connection: Connection,
    *,
    limit: int | None = None,
    offset: int = 0,
    measures: Iterable[str] = (),
    **filters: Any,
) -> list[RunSummary]:
    """Return runs that pass all filters, newest first or by `order`."""
    statement = (
        select_runs([RUNS.c[name] for name in _COLUMNS], **filters).limit(limit).offset(offset)
    )
    rows = connection.execute(statement).all()
    numbers = [row.id for row in rows]
    tags = tags_by_run(connection, numbers)
    means = select(AGGREGATES.c.run_id, AGGREGATES.c.measure, AGGREGATES.c.value).where(
        AGGREGATES.c.by_column == "", AGGREGATES.c.subset == ""
    )
    names = [canonical(name) for name in measures]
    if names:
        means = means.where(AGGREGATES.c.measure.in_(names))
    by_run = rows_by_run(connection, means.order_by(AGGREGATES.c.position), numbers)
    return [
        RunSummary(**row._mapping, tags=tags.get(row.id, ()), _means=dict(by_run.get(row.id, ())))
        for row in rows
    ]


_NAMES: Final = ("status", "task", "dataset", "model", "name")
ORDERS: Final = ("id", "created", *_NAMES, "n_queries", "seconds", "tags")
MOST_NAMES: Final = 500


@dataclass(frozen=True)
class RunMean(NamedRun):
    """The mean of one measure over all queries of one finished run, with its interval."""

    measure: str
    created: str
    n_queries: int
    conventions: str
    git_commit: str
    value: float | None
    low: float | None
    high: float | None
    level: float | None
    method: str
    clusters: str
    chance: float | None
    ceiling: float | None
    n: int
    empty: int
    missing: int
    tied: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; the resampled column is part of `method`."""
        data = {**vars(self), "method": method_text(self.method, self.clusters)}
        return {key: value for key, value in data.items() if key not in ("measure", "clusters")}


def count_runs(connection: Connection, **filters: Any) -> int:
    """Count the runs that pass the filters."""
    statement = select(func.count()).select_from(RUNS).where(conditions(filters))
    return int(connection.execute(statement).scalar_one())


def count_statuses(connection: Connection) -> dict[str, int]:
    """Count runs by status."""
    statement = select(RUNS.c.status, func.count()).group_by(RUNS.c.status)
    return {status: int(number) for status, number in connection.execute(statement)}


def list_values(connection: Connection, column: str) -> list[str]:
    """Return the values of a column: task, dataset, model, tag or measure."""
    columns = {"tag": TAGS.c.tag, "measure": AGGREGATES.c.measure}
    values = columns[column] if column in columns else RUNS.c[column]
    statement = select(values).distinct().order_by(values).limit(MOST_NAMES)
    return [name for name in connection.execute(statement).scalars() if name]


def order_by_column(
    name: str, *, descending: bool, measures: Iterable[str] = ()
) -> Sequence[ColumnElement[Any]]:
    """Return an order by a column or mean; runs without come last."""
    if name not in (*ORDERS, *measures):
        raise UsageError(f"Unknown order {name!r}. Use {', '.join(ORDERS)}.")
    column: ColumnElement[Any]
    if name == "tags":
        first = select(func.min(TAGS.c.tag)).where(TAGS.c.run_id == RUNS.c.id)
        column = first.scalar_subquery()
    elif name in ORDERS:
        column = RUNS.c[name]
    else:
        means = select(AGGREGATES.c.value).where(AGGREGATES.c.run_id == RUNS.c.id)
        column = means.where(_is_overall(name)).limit(1).scalar_subquery()
    turned = column.desc() if descending else column.asc()
    return (turned.nulls_last(), *NEWEST_FIRST)


def _is_overall(measure: str) -> ColumnElement[bool]:
    return and_(AGGREGATES.c.measure == canonical(measure), are_overall())


def are_overall() -> ColumnElement[bool]:
    """Return the condition for means over all queries."""
    return and_(
        AGGREGATES.c.average == "micro", AGGREGATES.c.by_column == "", AGGREGATES.c.subset == ""
    )


def list_datasets(connection: Connection) -> list[tuple[str, int, str]]:
    """Return datasets with finished runs, their number, the last; newest first."""
    last = func.max(RUNS.c.created)
    statement = (
        select(RUNS.c.dataset, func.count(), last)
        .where(RUNS.c.status == "finished")
        .group_by(RUNS.c.dataset)
        .order_by(last.desc())
        .limit(MOST_NAMES)
    )
    return [(name, int(number), newest) for name, number, newest in connection.execute(statement)]


def list_measures(connection: Connection, **filters: Any) -> list[str]:
    """Return the measures of runs: means before counts, those of most runs first."""
    number, place = func.count(), func.min(AGGREGATES.c.position)
    statement = (
        select(AGGREGATES.c.measure)
        .join(RUNS, RUNS.c.id == AGGREGATES.c.run_id)
        .where(conditions(filters), AGGREGATES.c.average == "micro", AGGREGATES.c.subset == "")
        .group_by(AGGREGATES.c.measure)
        .order_by(func.count(AGGREGATES.c.low) == 0, number.desc(), place, AGGREGATES.c.measure)
        .limit(MOST_NAMES)
    )
    return list(connection.execute(statement).scalars())


def read_query_texts(
    connection: Connection, run: int, queries: Sequence[str] | None = None
) -> dict[str, str]:
    """Return the stored texts of all or some queries, by id."""
    keys = None if queries is None else [key_of(query) for query in queries]
    texts = map(unpack_text, read_results(connection, run, keys))
    return {query: text for query, text in texts if text}


def find_means(connection: Connection, measure: str, **filters: Any) -> list[RunMean]:
    """Return one measure of every finished run, newest first."""
    return _read_means(connection, _is_overall(measure), filters)


def find_headlines(connection: Connection) -> list[RunMean]:
    """Return the first mean of every finished run, else its first count; newest first."""
    at = AGGREGATES.c
    place = func.coalesce(func.min(case((at.low.is_not(None), at.position))), 0).label("place")
    first = select(at.run_id, place).where(are_overall()).group_by(at.run_id).subquery().c
    here = at.run_id == first.run_id, at.position == first.place, are_overall()
    return _read_means(connection, and_(*here), {})


def _read_means(
    connection: Connection, condition: ColumnElement[bool], filters: dict[str, Any]
) -> list[RunMean]:
    names = [each.name for each in fields(RunMean)]
    columns = [RUNS.c[name] if name in RUNS.c else AGGREGATES.c[name] for name in names]
    statement = (
        select(*columns)
        .join(AGGREGATES, AGGREGATES.c.run_id == RUNS.c.id)
        .where(conditions({**filters, "status": "finished"}), condition)
        .order_by(*NEWEST_FIRST)
    )
    return [RunMean(*row) for row in connection.execute(statement)]


def query_checksums(connection: Connection, runs: list[int]) -> dict[int, str]:
    """Return a checksum of the query ids of each run."""
    ids = BLOBS.c.part == "", BLOBS.c.kind == "ids"
    statement = select(BLOBS.c.run_id, BLOBS.c.checksum).where(*ids)
    return {run: rows[0][0] for run, rows in rows_by_run(connection, statement, runs).items()}


def run_frame(runs: list[RunSummary], backend: str) -> Any:
    """Return a table of runs with their tags and means."""
    columns: dict[str, Any] = {name: [getattr(run, name) for run in runs] for name in _COLUMNS}
    columns["seconds"] = [math.nan if s is None else s for s in columns["seconds"]]
    columns["tags"] = [" ".join(run.tags) for run in runs]
    means = [run.means() for run in runs]
    for measure in dict.fromkeys(name for each in means for name in each):
        columns[measure] = [math.nan if (v := each.get(measure)) is None else v for each in means]
    return build_frame(columns, backend)


@dataclass(frozen=True)
class RunGroup:
    """Runs that have one value of a column in common, and the best mean of some measures."""

    name: str
    runs: int
    running: int
    failed: int
    last: str
    best: dict[str, float | None] = field(default_factory=dict)


def group_runs(
    connection: Connection, column: str, *, measures: Sequence[str] = (), **filters: Any
) -> list[RunGroup]:
    """Return runs by name, task, dataset, model or tag; newest first."""
    key = TAGS.c.tag if column == "tag" else RUNS.c[column]
    source = RUNS.join(TAGS, TAGS.c.run_id == RUNS.c.id) if column == "tag" else RUNS
    last = func.max(RUNS.c.created)
    counts = [func.sum(case((RUNS.c.status == each, 1), else_=0)) for each in ("running", "failed")]
    condition = conditions(filters)
    grouped = select(key, func.count(), *counts, last).select_from(source).where(condition)
    values = source.join(AGGREGATES, AGGREGATES.c.run_id == RUNS.c.id)
    means = select(key, AGGREGATES.c.measure, func.max(AGGREGATES.c.value)).select_from(values)
    means = means.where(condition, are_overall(), AGGREGATES.c.measure.in_(list(measures)))
    best: dict[str, dict[str, float | None]] = {}
    for name, measure, value in connection.execute(means.group_by(key, AGGREGATES.c.measure)):
        best.setdefault(name, {})[measure] = value
    rows = connection.execute(grouped.group_by(key).order_by(last.desc()).limit(MOST_NAMES))
    return [
        RunGroup(name, int(number), int(running), int(failed), newest, best.get(name, {}))
        for name, number, running, failed, newest in rows
    ]


@dataclass(frozen=True)
class RunCosts:
    """Costs of a run, where its task stored them; `bytes` are those of all vectors or an index."""

    seconds_per_query: float | None = None
    texts_per_second: float | None = None
    bytes: float | None = None
    bytes_per_vector: float | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in vars(self).values())


def read_costs(connection: Connection, runs: list[int]) -> dict[int, RunCosts]:
    """Return the costs of runs that have any."""
    statement = select(RUNS.c.id, RUNS.c.n_queries, RUNS.c.config, RUNS.c.timings)
    rows = rows_by_run(connection, statement, runs)
    costs: dict[int, RunCosts] = {}
    for run, [(n_queries, *texts)] in rows.items():
        # A run whose settings are damaged has no costs here: its page says so.
        with suppress(ValueError, RecursionError):
            settings, steps = (read_json(text or "{}", dict) for text in texts)
            costs[run] = costs_of(n_queries, settings, steps)
    return {run: each for run, each in costs.items() if each}


def costs_of(n_queries: int, settings: dict[str, Any], steps: dict[str, Any]) -> RunCosts:
    """Return the costs in a run's settings or the times of its steps."""
    costs = stored if isinstance(stored := settings.get("costs"), dict) else {}
    search = _number(costs.get("search_seconds", steps.get("search")))
    return RunCosts(
        search / n_queries if search and n_queries else None,
        _number(costs.get("texts_per_second")),
        _number(costs.get("bytes")),
        _number(costs.get("bytes_per_vector", settings.get("bytes_per_vector"))),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def read_means(
    connection: Connection, runs: list[int], measures: Sequence[str]
) -> dict[int, dict[str, float | None]]:
    """Return means over all queries, by run and measure."""
    columns = select(AGGREGATES.c.run_id, AGGREGATES.c.measure, AGGREGATES.c.value)
    statement = columns.where(are_overall(), AGGREGATES.c.measure.in_(list(measures)))
    return {run: dict(rows) for run, rows in rows_by_run(connection, statement, runs).items()}


def list_group_columns(connection: Connection, runs: list[int]) -> list[str]:
    """Return the group columns that all of these runs have."""
    statement = select(BLOBS.c.run_id, BLOBS.c.name).where(
        BLOBS.c.part == "", BLOBS.c.kind == "group"
    )
    by_run = rows_by_run(connection, statement.order_by(BLOBS.c.position), runs)
    names = [[name for (name,) in by_run.get(run, ())] for run in runs]
    return [name for name in names[0] if all(name in each for each in names)] if names else []
