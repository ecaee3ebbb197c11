"""What a list of runs shows of each: a thousand of them in the time of a glance.

Settings, versions and intervals are not read; `Run` has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from sqlalchemy import Connection, select

from assay.store.aggregates import canonical
from assay.store.reading import rows_by_run, select_runs
from assay.store.schema import AGGREGATES, RUNS, TAGS

__all__ = ["RunLine", "find_lines"]


@dataclass(frozen=True)
class RunLine:
    """A run in a list: what it is called, its state, its tags and its means over queries."""

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


_COLUMNS: Final = [one.name for one in fields(RunLine) if one.name in RUNS.c]


def find_lines(
    connection: Connection,
    *,
    limit: int | None = None,
    offset: int = 0,
    measures: Iterable[str] = (),
    **filters: Any,
) -> list[RunLine]:
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
        RunLine(
            **row._mapping,
            tags=tuple(tag for (tag,) in tags.get(row.id, ())),
            _means=dict(found.get(row.id, ())),
        )
        for row in rows
    ]
