"""Damage in a store: digests of runs, and what else tells that a run is not as it was stored.

The digest covers every sealed column of a run, its aggregates, the wide row, and names, sizes and
checksums of its arrays and results. Notes and tags, which may change, have a digest of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from assay.errors import AssayError, StorageError
from assay.runs.results import find_contradictions
from assay.scoring.scores import Scores
from assay.store import queries
from assay.store.codec import digest_lines, unpack_json, unpack_scores
from assay.store.rows import unpack_results
from assay.store.run import COLUMNS, Run
from assay.store.schema import AGGREGATES, BLOBS, RUNS, SHOWN, TAGS, WIDE_VALUES

_ROW: Final = [RUNS.c[name] for name, column in COLUMNS.items() if column.sealed]
_PARTS: Final = (
    (AGGREGATES, AGGREGATES.c.position),
    (WIDE_VALUES, WIDE_VALUES.c.name),
    (BLOBS, BLOBS.c.kind, BLOBS.c.position),
    (SHOWN, SHOWN.c.query_key),
)


def seal(connection: Connection, run: int, **final: Any) -> None:
    """Store the digests of a run, with these last changes of its row: a finished one takes none."""
    digest = digest_lines(_content(connection, run, final))
    values = {"digest": digest, "marks": digest_lines(_marks(connection, run)), **final}
    connection.execute(update(RUNS).where(RUNS.c.id == run).values(**values))


def seal_marks(connection: Connection, run: int) -> None:
    """Store the digest of the notes and tags of a run."""
    marks = digest_lines(_marks(connection, run))
    connection.execute(update(RUNS).where(RUNS.c.id == run).values(marks=marks))


def find_altered(connection: Connection, run: int) -> Iterator[str]:
    """Yield what of a run is not as it was stored."""
    stored = connection.execute(select(RUNS.c.digest, RUNS.c.marks).where(RUNS.c.id == run)).one()
    if stored.digest != digest_lines(_content(connection, run, {})):
        yield "it does not match its digest"
    if stored.marks != digest_lines(_marks(connection, run)):
        yield "its notes or tags do not match their digest"


def _content(connection: Connection, run: int, final: dict[str, Any]) -> Iterator[Any]:
    row = connection.execute(select(*_ROW).where(RUNS.c.id == run)).one()
    yield {**row._mapping, **final}
    for table, *order in _PARTS:
        columns = [column for column in table.c if column.name != "content"]
        statement = select(*columns).where(table.c.run_id == run).order_by(*order)
        if table is BLOBS:  # parts of a run that is running are not shown
            statement = statement.where(BLOBS.c.part == "")
        yield table.name
        yield from map(list, connection.execute(statement))


def _marks(connection: Connection, run: int) -> Iterator[Any]:
    yield connection.execute(select(RUNS.c.notes).where(RUNS.c.id == run)).scalar_one()
    yield sorted(connection.execute(select(TAGS.c.tag).where(TAGS.c.run_id == run)).scalars())


def find_damages(connection: Connection, keys: Iterable[int | str] = ()) -> Iterator[str]:
    """Yield a line for each damage of the file and of runs."""
    if connection.dialect.name == "sqlite":
        for (line,) in connection.execute(text("PRAGMA integrity_check")):
            if line != "ok":
                yield str(line)
        for row in connection.execute(text("PRAGMA foreign_key_check")):
            yield f"a row of {row[0]} belongs to no run"
    numbers = connection.execute(select(RUNS.c.id).order_by(RUNS.c.id)).scalars().all()
    for key in keys or numbers:
        yield from _damages_of(connection, key)


def _damages_of(connection: Connection, key: int | str) -> Iterator[str]:
    try:
        run = queries.find_run(connection, key)
    except (StorageError, SQLAlchemyError) as error:
        yield f"Run {key}: {error!s:.300}"
        return
    for check in (_check_digests, _check_scores, _check_rest):
        try:
            with name_run(run):
                for line in check(connection, run):
                    yield f"Run {run.id} ({run.name!r}): {line}."
        except (AssayError, SQLAlchemyError) as error:
            yield f"{error!s:.300}"


def _check_digests(connection: Connection, run: Run) -> Iterator[str]:
    return find_altered(connection, run.id)


def _check_scores(connection: Connection, run: Run) -> Iterator[str]:
    """Check that per-query values are readable and match the aggregates."""
    if run.status == "finished" and run.conventions:
        yield from find_contradictions(run.aggregates, read_scores(connection, run))


def _check_rest(connection: Connection, run: Run) -> Iterator[str]:
    """Check that details and results of queries are readable."""
    if run.status == "finished":
        read_details(connection, run)
        for blob in queries.read_results(connection, run.id):
            unpack_results(blob)
    yield from ()


def refuse_altered(connection: Connection, run: Run) -> None:
    """Refuse a run that is not as it was stored, before it gets a digest elsewhere."""
    for line in find_altered(connection, run.id):
        raise StorageError(f"Run {run.id} ({run.name!r}): {line}: it is damaged.")


def read_scores(connection: Connection, run: Run) -> Scores:
    """Return the scores of a run."""
    blobs = queries.read_blobs(connection, run.id)
    return unpack_scores(blobs, run.conventions, search=run.search)


def read_details(connection: Connection, run: Run) -> dict[str, Any]:
    """Return what a task stored beside the scores of a run."""
    blobs = queries.read_blobs(connection, run.id, kind="details")
    try:
        details: dict[str, Any] = json.loads(unpack_json(blobs[0])) if blobs else {}
    except ValueError as error:
        raise StorageError(f"The details cannot be read: {error}.") from None
    return details


@contextmanager
def name_run(run: Run) -> Iterator[None]:
    """Say which run a damage belongs to."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"Run {run.id} ({run.name!r}): {error}") from None
