"""Summaries of many runs for lists, leaderboards and trends: no array is loaded.

Only the columns that are needed are read, so that a list of 1,000 runs takes less than 0.1 s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from assay.errors import UsageError
from assay.io.frames import build_frame
from assay.runs.aggregates import canonical
from assay.runs.results import method_text
from assay.store.payload import key_of, unpack_text
from assay.store.queries import NEWEST_FIRST, conditions, read_results, rows_by_run, select_runs
from assay.store.schema import AGGREGATES, BLOBS, RUNS, TAGS

__all__ = [
    "MOST_NAMES",
    "ORDERS",
    "RunMean",
    "RunSummary",
    "are_overall",
    "count_runs",
    "count_statuses",
    "find_means",
    "find_summaries",
    "list_datasets",
    "list_measures",
    "list_values",
    "order_by_column",
    "query_checksums",
    "read_query_texts",
    "run_frame",
]


@dataclass(frozen=True)
class RunSummary:
    """A row in a list of runs: names, status, tags and means over queries."""

    id: int
    uid: str
    name: str
    task: str
    dataset: str
    model: str
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
        """Means over all queries by measure."""
        return dict(self._means)


_COLUMNS: Final = [one.name for one in fields(RunSummary) if one.name in RUNS.c]


def find_summaries(
    connection: Connection,
    *,
    limit: int | None = None,
    offset: int = 0,
    measures: Iterable[str] = (),
    **filters: Any,
) -> list[RunSummary]:
    """Runs that pass all filters, newest first (or by `order`), with these measures or with all."""
    chosen = select_runs([RUNS.c[name] for name in _COLUMNS], **filters).limit(limit).offset(offset)
    rows = connection.execute(chosen).all()
    numbers = [row.id for row in rows]
    tags = rows_by_run(connection, select(TAGS.c.run_id, TAGS.c.tag).order_by(TAGS.c.tag), numbers)
    means = select(AGGREGATES.c.run_id, AGGREGATES.c.measure, AGGREGATES.c.value).where(
        AGGREGATES.c.by_column == "", AGGREGATES.c.subset == ""
    )
    wanted = [canonical(name) for name in measures]
    if wanted:
        means = means.where(AGGREGATES.c.measure.in_(wanted))
    found = rows_by_run(connection, means.order_by(AGGREGATES.c.position), numbers)
    return [
        RunSummary(
            **row._mapping,
            tags=tuple(tag for (tag,) in tags.get(row.id, ())),
            _means=dict(found.get(row.id, ())),
        )
        for row in rows
    ]


ORDERS: Final = (
    "id",
    "created",
    "status",
    "task",
    "dataset",
    "model",
    "name",
    "n_queries",
    "seconds",
    "tags",
)
MOST_NAMES: Final = 500


@dataclass(frozen=True)
class RunMean:
    """The mean of one measure over all queries of one finished run, with its interval."""

    id: int
    uid: str
    name: str
    task: str
    dataset: str
    model: str
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
        """All of it as plain data; the column that was resampled is part of `method`."""
        data = {**vars(self), "method": method_text(self.method, self.clusters)}
        del data["clusters"]
        return data


def count_runs(connection: Connection, **filters: Any) -> int:
    """How many runs pass the filters."""
    statement = select(func.count()).select_from(RUNS).where(conditions(filters))
    return int(connection.execute(statement).scalar_one())


def count_statuses(connection: Connection) -> dict[str, int]:
    """How many runs there are of each status."""
    statement = select(RUNS.c.status, func.count()).group_by(RUNS.c.status)
    return {status: int(number) for status, number in connection.execute(statement)}


def list_values(connection: Connection, column: str) -> list[str]:
    """The values of a column that runs have: task, dataset, model, tag or measure."""
    own = {"tag": TAGS.c.tag, "measure": AGGREGATES.c.measure}
    found = own[column] if column in own else RUNS.c[column]
    statement = select(found).distinct().order_by(found).limit(MOST_NAMES)
    return [name for name in connection.execute(statement).scalars() if name]


def order_by_column(
    name: str, *, descending: bool, measures: Iterable[str] = ()
) -> Sequence[ColumnElement[Any]]:
    """An order of runs, by a column or by the mean of a measure; runs without one come last."""
    if name not in (*ORDERS, *measures):
        raise UsageError(f"Runs cannot be sorted by {name!r}; by {', '.join(ORDERS)}.")
    column = _sort_column(name)
    turned = column.desc() if descending else column.asc()
    return (turned.nulls_last(), *NEWEST_FIRST)


def _sort_column(name: str) -> ColumnElement[Any]:
    if name == "tags":
        return select(func.min(TAGS.c.tag)).where(TAGS.c.run_id == RUNS.c.id).scalar_subquery()
    return RUNS.c[name] if name in ORDERS else _mean_of(name)


def _mean_of(measure: str) -> ColumnElement[Any]:
    mean = select(AGGREGATES.c.value).where(AGGREGATES.c.run_id == RUNS.c.id, _is_overall(measure))
    return mean.limit(1).scalar_subquery()


def _is_overall(measure: str) -> ColumnElement[bool]:
    return and_(AGGREGATES.c.measure == canonical(measure), are_overall())


def are_overall() -> ColumnElement[bool]:
    """Means over all queries, not over groups or a part."""
    return and_(
        AGGREGATES.c.average == "micro", AGGREGATES.c.by_column == "", AGGREGATES.c.subset == ""
    )


def list_datasets(connection: Connection) -> list[tuple[str, int, str]]:
    """Datasets with finished runs, how many, and when the last one began; the newest first."""
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
    """The measures that runs have, those of most runs first, else in the order of computation."""
    number, place = func.count(), func.min(AGGREGATES.c.position)
    statement = (
        select(AGGREGATES.c.measure)
        .join(RUNS, RUNS.c.id == AGGREGATES.c.run_id)
        .where(conditions(filters), AGGREGATES.c.average == "micro", AGGREGATES.c.subset == "")
        .group_by(AGGREGATES.c.measure)
        .order_by(number.desc(), place, AGGREGATES.c.measure)
        .limit(MOST_NAMES)
    )
    return list(connection.execute(statement).scalars())


def read_query_texts(
    connection: Connection, run: int, queries: Sequence[str] | None = None
) -> dict[str, str]:
    """The texts of all or some queries of a run, by id; those that were not stored are left out."""
    wanted = None if queries is None else [key_of(query) for query in queries]
    found = map(unpack_text, read_results(connection, run, wanted))
    return {query: text for query, text in found if text}


def find_means(connection: Connection, measure: str, **filters: Any) -> list[RunMean]:
    """One measure of every finished run that passes the filters, the newest first."""
    filters |= {"status": "finished"}
    return [RunMean(*row) for row in connection.execute(_select_means(measure, filters))]


def query_checksums(connection: Connection, runs: list[int]) -> dict[int, str]:
    """A checksum of the query ids of each run: two runs of the same queries have the same."""
    wanted = select(BLOBS.c.run_id, BLOBS.c.checksum).where(
        BLOBS.c.part == "", BLOBS.c.kind == "ids"
    )
    return {run: found[0][0] for run, found in rows_by_run(connection, wanted, runs).items()}


def _select_means(measure: str, filters: dict[str, Any]) -> Select[Any]:
    names = list(RunMean.__dataclass_fields__)
    columns = [RUNS.c[name] if name in RUNS.c else AGGREGATES.c[name] for name in names]
    return (
        select(*columns)
        .join(AGGREGATES, AGGREGATES.c.run_id == RUNS.c.id)
        .where(conditions(filters), _is_overall(measure))
        .order_by(*NEWEST_FIRST)
    )


def run_frame(runs: list[RunSummary], backend: str) -> Any:
    """A row for each run: what it is, its tags, and its means over queries."""
    columns: dict[str, Any] = {name: [getattr(run, name) for run in runs] for name in _COLUMNS}
    columns["seconds"] = [math.nan if s is None else s for s in columns["seconds"]]
    columns["tags"] = [" ".join(run.tags) for run in runs]
    means = [run.means() for run in runs]
    for measure in dict.fromkeys(name for each in means for name in each):
        found = [each.get(measure) for each in means]
        columns[measure] = [math.nan if value is None else value for value in found]
    return build_frame(columns, backend)
