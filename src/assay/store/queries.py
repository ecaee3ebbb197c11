"""Reading a store: runs by filters, one run, arrays, results. Lists of runs load no array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, select, true

from assay.errors import StorageError, UsageError
from assay.runs.results import Aggregate, canonical
from assay.store.codec import Blob, end_of, start_of
from assay.store.run import Run, from_row
from assay.store.schema import AGGREGATES, BLOBS, RUNS, SHOWN, TAGS, WIDE_VALUES

_SHORTEST_UID: Final = 8
_LONGEST_UID: Final = 32
_LONGEST_PART: Final = 1000  # a pattern of SQLite has a limit
_AT_ONCE: Final = 500  # values in one IN (…)
_AGGREGATE: Final = [field.name for field in fields(Aggregate)]
NEWEST_FIRST: Final = (RUNS.c.created.desc(), RUNS.c.id.desc())


def _is(column: str) -> Callable[[Any], ColumnElement[bool]]:
    return lambda value: RUNS.c[column].in_([value] if isinstance(value, str) else list(value))


def _has_tags(tags: str | Iterable[str]) -> ColumnElement[bool]:
    """Return the condition for runs that have every one of the tags."""
    names = [tags] if isinstance(tags, str) else list(tags)
    of_run = exists().where(TAGS.c.run_id == RUNS.c.id).correlate(RUNS)
    return and_(true(), *(of_run.where(TAGS.c.tag == tag) for tag in names))


def _has_measure(measure: str) -> ColumnElement[bool]:
    name = canonical(measure)
    of_run = exists().where(AGGREGATES.c.run_id == RUNS.c.id, AGGREGATES.c.measure == name)
    return of_run.correlate(RUNS)  # and nothing else of a statement around it


def _is_named_like(part: str) -> ColumnElement[bool]:
    if len(part) > _LONGEST_PART:
        raise UsageError(f"Names are searched for up to {_LONGEST_PART:,} letters.")
    return RUNS.c.name.icontains(part, autoescape=True)


_FILTERS: Final[dict[str, Callable[[Any], ColumnElement[bool]]]] = {
    **{
        name: _is(name)
        for name in ("task", "dataset", "model", "name", "status", "batch", "uid", "rerun_of")
    },
    "id": lambda ids: RUNS.c.id.in_([ids] if isinstance(ids, int) else list(ids)),
    "tag": _has_tags,
    "measure": _has_measure,
    "since": lambda time: RUNS.c.created >= start_of(time),
    "until": lambda time: RUNS.c.created < end_of(time),
    "named_like": _is_named_like,
}


def conditions(filters: Mapping[str, Any]) -> ColumnElement[bool]:
    """Return the condition for runs that pass all filters but None."""
    for name in filters:
        if name not in _FILTERS:
            raise UsageError(f"Unknown filter {name!r}. Use {', '.join(_FILTERS)}.")
    active = {name: value for name, value in filters.items() if value is not None}
    return and_(true(), *(_FILTERS[name](value) for name, value in active.items()))


def find_runs(
    connection: Connection,
    *,
    limit: int | None = None,
    offset: int = 0,
    measures: Iterable[str] | None = None,
    **filters: Any,
) -> list[Run]:
    """Return runs that pass all filters but None, newest first.

    With `measures` only the aggregates of these are loaded.
    """
    return _load_runs(
        connection, select_runs([RUNS], **filters).limit(limit).offset(offset), measures
    )


def select_runs(
    columns: Sequence[Any], *, order: Sequence[ColumnElement[Any]] = NEWEST_FIRST, **filters: Any
) -> Select[Any]:
    """Select columns of the runs that pass all filters, newest first."""
    return select(*columns).where(conditions(filters)).order_by(*order)


def find_run(connection: Connection, key: int | str) -> Run:
    """Return one run by its number, uid or first letters of it."""
    runs = _load_runs(connection, select(RUNS).where(_has_key(key)).limit(2))
    if len(runs) == 1:
        return runs[0]
    if runs:
        raise UsageError(f"Several runs have a uid that begins with {key!r}. Pass more letters.")
    last = connection.execute(select(RUNS.c.id).order_by(RUNS.c.id.desc()).limit(1)).scalar()
    have = "the store is empty" if last is None else f"the last one is {last}"
    raise UsageError(f"Unknown run {key!r}; {have}. 'assay runs list' shows them.")


def known_uids(connection: Connection, uids: list[str]) -> set[str]:
    """Return the uids present in the store."""
    stored: set[str] = set()
    for start in range(0, len(uids), _AT_ONCE):
        condition = RUNS.c.uid.in_(uids[start : start + _AT_ONCE])
        stored |= set(connection.execute(select(RUNS.c.uid).where(condition)).scalars())
    return stored


def _has_key(key: int | str) -> ColumnElement[bool]:
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise UsageError(f"{key!r} is not a run. Pass its number or uid.")
    if isinstance(key, str) and not (key.isascii() and key.isdecimal() and len(key) < 8):
        if not _SHORTEST_UID <= len(key) <= _LONGEST_UID or not (key.isascii() and key.isalnum()):
            raise UsageError(
                f"{key!r:.60} is not a run. Pass its number, or {_SHORTEST_UID} or more letters "
                "of its uid."
            )
        return RUNS.c.uid.startswith(key)
    number = int(key)
    return RUNS.c.id == (number if 0 <= number < 2**31 else -1)


def _load_runs(
    connection: Connection, statement: Select[Any], measures: Iterable[str] | None = None
) -> list[Run]:
    rows = connection.execute(statement).all()
    numbers = [row.id for row in rows]
    tags = tags_by_run(connection, numbers)
    columns = select(AGGREGATES.c.run_id, *(AGGREGATES.c[name] for name in _AGGREGATE))
    if measures is not None:
        names = [canonical(name) for name in measures]
        columns = columns.where(AGGREGATES.c.measure.in_(names))
    by_run = rows_by_run(connection, columns.order_by(AGGREGATES.c.position), numbers)
    runs = []
    for row in rows:
        cells = (dict(zip(_AGGREGATE, each, strict=True)) for each in by_run.get(row.id, ()))
        try:
            values = from_row(row._asdict())
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise StorageError(
                f"Run {row.id} in the store is damaged: {error}. Restore a backup."
            ) from None
        aggregates = tuple(map(Aggregate.from_row, cells))
        runs.append(Run(**values, tags=tags.get(row.id, ()), aggregates=aggregates))
    return runs


def tags_by_run(connection: Connection, runs: list[int]) -> dict[int, tuple[str, ...]]:
    """Return the tags of runs that have any, sorted."""
    statement = select(TAGS.c.run_id, TAGS.c.tag).order_by(TAGS.c.tag)
    rows = rows_by_run(connection, statement, runs)
    return {run: tuple(tag for (tag,) in tags) for run, tags in rows.items()}


def rows_by_run(
    connection: Connection, statement: Select[Any], runs: list[int]
) -> dict[int, list[tuple[Any, ...]]]:
    """Return rows by their run, which stands in their first column."""
    by_run: dict[int, list[tuple[Any, ...]]] = {}
    column = statement.selected_columns[0]
    for start in range(0, len(runs), _AT_ONCE):
        batch = statement.where(column.in_(runs[start : start + _AT_ONCE]))
        for row in connection.execute(batch).all():
            by_run.setdefault(row[0], []).append(row[1:])
    return by_run


def read_blobs(
    connection: Connection, run: int, *conditions: ColumnElement[bool], part: str = ""
) -> list[Blob]:
    """Return the arrays of a run, or of a part of it, that meet the conditions."""
    blobs = read_blobs_of(connection, [run], *conditions, part=part)
    return [blob for _, blob in blobs]


def read_blobs_of(
    connection: Connection, runs: list[int], *conditions: ColumnElement[bool], part: str = ""
) -> Iterator[tuple[int, Blob]]:
    """Yield arrays of several runs that meet the conditions, each with its run."""
    columns = [BLOBS.c[field.name] for field in fields(Blob)]
    statement = select(BLOBS.c.run_id, *columns).where(BLOBS.c.part == part, *conditions)
    for run, rows in rows_by_run(connection, statement, runs).items():
        for row in rows:
            yield run, Blob(*row)


def has_results(connection: Connection, run: int) -> bool:
    """Return whether results of any query of the run are stored."""
    return bool(connection.execute(select(exists().where(SHOWN.c.run_id == run))).scalar())


def read_results(
    connection: Connection, run: int, keys: Iterable[str] | None = None
) -> Iterator[Blob]:
    """Yield the results of the queries of a run, or of some."""
    statement = select(SHOWN).where(SHOWN.c.run_id == run).order_by(SHOWN.c.position)
    if keys is not None:
        statement = statement.where(SHOWN.c.query_key.in_(list(keys)))
    for row in connection.execute(statement):
        size, content = row.raw_bytes, row.content
        yield Blob("shown", row.position, row.query_key, "json", 1, size, row.checksum, content)


def read_wide(connection: Connection, run: int) -> dict[str, float | str | None]:
    """Return a run's row under another program's column names, if any."""
    statement = select(WIDE_VALUES).where(WIDE_VALUES.c.run_id == run)
    rows = connection.execute(statement.order_by(WIDE_VALUES.c.position))
    return {row.name: row.number if row.text is None else row.text for row in rows}
