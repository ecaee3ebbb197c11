"""Many runs at a glance: groups of them, the first mean of each, what each cost. By SQL alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, and_, case, func, select

from assay.store.queries import NEWEST_FIRST, conditions, read_json, rows_by_run
from assay.store.schema import AGGREGATES, BLOBS, RUNS, TAGS
from assay.store.summaries import MOST_NAMES, are_overall

__all__ = [
    "Headline",
    "RunCosts",
    "RunGroup",
    "costs_of",
    "find_headlines",
    "group_runs",
    "list_group_columns",
    "read_costs",
    "read_means",
]


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
    """Runs that pass the filters by name, task, dataset, model or tag; the newest group first."""
    key = TAGS.c.tag if column == "tag" else RUNS.c[column]
    source = RUNS.join(TAGS, TAGS.c.run_id == RUNS.c.id) if column == "tag" else RUNS
    last = func.max(RUNS.c.created)
    counts = [func.sum(case((RUNS.c.status == one, 1), else_=0)) for one in ("running", "failed")]
    chosen = conditions(filters)
    grouped = select(key, func.count(), *counts, last).select_from(source).where(chosen)
    values = source.join(AGGREGATES, AGGREGATES.c.run_id == RUNS.c.id)
    means = select(key, AGGREGATES.c.measure, func.max(AGGREGATES.c.value)).select_from(values)
    means = means.where(chosen, are_overall(), AGGREGATES.c.measure.in_(list(measures)))
    best: dict[str, dict[str, float | None]] = {}
    for name, measure, value in connection.execute(means.group_by(key, AGGREGATES.c.measure)):
        best.setdefault(name, {})[measure] = value
    rows = connection.execute(grouped.group_by(key).order_by(last.desc()).limit(MOST_NAMES))
    return [
        RunGroup(name, int(number), int(running), int(failed), newest, best.get(name, {}))
        for name, number, running, failed, newest in rows
    ]


@dataclass(frozen=True)
class Headline:
    """The first mean of a finished run: what it is known by."""

    id: int
    uid: str
    name: str
    dataset: str
    created: str
    conventions: str
    measure: str
    value: float | None


def find_headlines(connection: Connection) -> list[Headline]:
    """The first mean of every finished run that has one, the newest first."""
    names = list(Headline.__dataclass_fields__)
    columns = [RUNS.c[name] if name in RUNS.c else AGGREGATES.c[name] for name in names]
    first = and_(AGGREGATES.c.run_id == RUNS.c.id, AGGREGATES.c.position == 0, are_overall())
    chosen = select(*columns).join(AGGREGATES, first).where(RUNS.c.status == "finished")
    return [Headline(*row) for row in connection.execute(chosen.order_by(*NEWEST_FIRST))]


@dataclass(frozen=True)
class RunCosts:
    """What a run cost, where its task stored that; `bytes` are those of vectors or an index."""

    seconds_per_query: float | None = None
    texts_per_second: float | None = None
    bytes: float | None = None

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return any(value is not None for value in vars(self).values())


def read_costs(connection: Connection, runs: list[int]) -> dict[int, RunCosts]:
    """The costs of runs; those of which none are known are left out."""
    chosen = select(RUNS.c.id, RUNS.c.n_queries, RUNS.c.config, RUNS.c.timings)
    rows = rows_by_run(connection, chosen, runs)
    found = {run: _read_costs(*row[0]) for run, row in rows.items()}
    return {run: costs for run, costs in found.items() if costs}


def _read_costs(n_queries: int, config: str, timings: str) -> RunCosts:
    try:
        settings, steps = read_json(config or "{}", dict), read_json(timings or "{}", dict)
    except (ValueError, RecursionError):  # damaged: the page of the run says so
        return RunCosts()
    return costs_of(n_queries, settings, steps)


def costs_of(n_queries: int, settings: dict[str, Any], steps: dict[str, Any]) -> RunCosts:
    """The costs in the settings of a run (a bench), or in the times of its steps (codes)."""
    known = settings.get("costs")
    known = known if isinstance(known, dict) else {}
    search = _number(known.get("search_seconds", steps.get("search")))
    return RunCosts(
        search / n_queries if search and n_queries else None,
        _number(known.get("texts_per_second")),
        _number(known.get("bytes", settings.get("bytes_per_vector"))),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def read_means(
    connection: Connection, runs: list[int], measures: Sequence[str]
) -> dict[int, dict[str, float | None]]:
    """Means over all queries of some measures, by run and measure."""
    chosen = select(AGGREGATES.c.run_id, AGGREGATES.c.measure, AGGREGATES.c.value)
    wanted = chosen.where(are_overall(), AGGREGATES.c.measure.in_(list(measures)))
    return {run: dict(rows) for run, rows in rows_by_run(connection, wanted, runs).items()}


def list_group_columns(connection: Connection, runs: list[int]) -> list[str]:
    """The group columns that the queries of all of these runs have."""
    chosen = select(BLOBS.c.run_id, BLOBS.c.name).where(BLOBS.c.part == "", BLOBS.c.kind == "group")
    found = rows_by_run(connection, chosen.order_by(BLOBS.c.position), runs)
    own = [[name for (name,) in found.get(run, ())] for run in runs]
    return [name for name in own[0] if all(name in each for each in own)] if own else []
