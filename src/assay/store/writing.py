"""The statements that change a store, and the digests that tell whether anything else did.

Each statement is one step of a transaction that the caller holds. The digest of a run covers every
sealed column, its aggregates, the wide row, and names, sizes and checksums of its arrays and
results. Notes and tags, which may change, have a digest of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, insert, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from assay.errors import AssayError, StorageError, UsageError
from assay.runs.record import check_tags
from assay.runs.results import find_contradictions
from assay.scoring.scores import Scores
from assay.store import queries
from assay.store.codec import Blob, digest_lines, now, unpack_json, unpack_scores
from assay.store.files import ImportedRun
from assay.store.run import COLUMNS, Payload, Run, to_row, unpack_results
from assay.store.schema import AGGREGATES, BLOBS, RUNS, SHOWN, TAGS, WIDE_VALUES


def add_run(connection: Connection, values: Mapping[str, Any], tags: Iterable[str]) -> int:
    """Add a run with these fields and return its number."""
    statement = insert(RUNS).returning(RUNS.c.id)
    run = int(connection.execute(statement, to_row(values)).scalar_one())
    add_tags(connection, run, tags)
    seal(connection, run)
    return run


def add_imported(connection: Connection, imported: ImportedRun) -> int:
    """Add a run from a file, as it was there, and return its number."""
    values = {**imported.values, "status": "running"}  # a finished one takes nothing more
    run = add_run(connection, values, imported.tags)
    add_payload(connection, run, imported.payload)
    seal(connection, run, status=imported.values["status"])
    return run


def update_running(connection: Connection, run: int, **values: Any) -> None:
    """Change fields of a run that is not finished; finished ones stay as they are."""
    _update(connection, run, values)
    seal(connection, run)


def _update(connection: Connection, run: int, values: Mapping[str, Any]) -> None:
    statement = update(RUNS).where(RUNS.c.id == run, RUNS.c.status == "running")
    done = connection.execute(statement.values(updated=now(), **to_row(values)))
    if done.rowcount != 1:
        status = connection.execute(select(RUNS.c.status).where(RUNS.c.id == run)).scalar()
        why = f"is {status}" if status else "was deleted"
        raise UsageError(f"Run {run} {why}. Only running runs can change.")


def reopen(connection: Connection, run: int) -> None:
    """Let a failed run, or one whose process died, run again."""
    statement = update(RUNS).where(RUNS.c.id == run, RUNS.c.status != "finished")
    connection.execute(statement.values(status="running", message="", updated=now()))
    seal(connection, run)


def finish_run(connection: Connection, run: int, payload: Payload, **values: Any) -> None:
    """Store all numbers of a run and call it finished."""
    _update(connection, run, {"message": "", **values, **payload.columns})
    remove_parts(connection, run)
    add_payload(connection, run, payload)
    seal(connection, run, status="finished", finished=now())  # now final


def add_payload(connection: Connection, run: int, payload: Payload) -> None:
    """Add the arrays, aggregates and results of queries of a run."""
    add_blobs(connection, run, payload.blobs)
    stored = ("position", "raw_bytes", "checksum", "content")
    results = [
        {"query_key": blob.name, **{name: getattr(blob, name) for name in stored}}
        for blob in payload.results
    ]
    _add_rows(connection, SHOWN, run, results)
    aggregates = [{"position": i, **vars(each)} for i, each in enumerate(payload.aggregates)]
    _add_rows(connection, AGGREGATES, run, aggregates)
    cells = [
        {"name": name, "number": None, "text": value}
        if isinstance(value, str)
        else {"name": name, "number": value, "text": None}
        for name, value in payload.wide.items()
    ]
    wide = [{"position": i, **cell} for i, cell in enumerate(cells)]
    _add_rows(connection, WIDE_VALUES, run, wide)


def add_blobs(connection: Connection, run: int, blobs: Iterable[Blob], *, part: str = "") -> None:
    """Add arrays of a run, or of a part of it."""
    _add_rows(connection, BLOBS, run, [{"part": part, **vars(blob)} for blob in blobs])


def _add_rows(connection: Connection, table: Table, run: int, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table), [{"run_id": run, **row} for row in rows])


def remove_parts(connection: Connection, run: int, part: str | None = None) -> None:
    """Remove the parts of a run, or one of them."""
    condition = BLOBS.c.part != "" if part is None else BLOBS.c.part == part
    connection.execute(delete(BLOBS).where(BLOBS.c.run_id == run, condition))


def add_tags(connection: Connection, run: int, tags: Iterable[str]) -> None:
    """Add tags to a run."""
    _lock(connection, run)
    has = connection.execute(select(TAGS.c.tag).where(TAGS.c.run_id == run)).scalars()
    new = sorted(set(check_tags(tags)) - set(has))
    if new:
        _add_rows(connection, TAGS, run, [{"tag": tag} for tag in new])
        seal_marks(connection, run)


def _lock(connection: Connection, run: int) -> None:
    """Lock the run to the end: its digest covers all writers."""
    connection.execute(select(RUNS.c.id).where(RUNS.c.id == run).with_for_update())


def remove_tags(connection: Connection, run: int, tags: Iterable[str]) -> None:
    """Remove tags from a run."""
    _lock(connection, run)
    connection.execute(delete(TAGS).where(TAGS.c.run_id == run, TAGS.c.tag.in_(list(tags))))
    seal_marks(connection, run)


def set_notes(connection: Connection, run: int, notes: str) -> None:
    """Replace the notes of a run."""
    connection.execute(update(RUNS).where(RUNS.c.id == run).values(notes=notes))
    seal_marks(connection, run)


def remove_runs(connection: Connection, runs: Iterable[int]) -> None:
    """Delete runs; the database takes all that belongs to them, and no part alone."""
    connection.execute(delete(RUNS).where(RUNS.c.id.in_(list(runs))))


# Digests, and what else tells that a run is not as it was stored

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


def find_altered(connection: Connection, run: Run) -> Iterator[str]:
    """Yield the altered parts of a run."""
    statement = select(RUNS.c.digest, RUNS.c.marks).where(RUNS.c.id == run.id)
    stored = connection.execute(statement).one()
    if stored.digest != digest_lines(_content(connection, run.id, {})):
        yield "digest mismatch"
    if stored.marks != digest_lines(_marks(connection, run.id)):
        yield "digest mismatch of notes or tags"


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
            yield f"a row of {row[0]} without a run"
    numbers = connection.execute(select(RUNS.c.id).order_by(RUNS.c.id)).scalars().all()
    for key in keys or numbers:
        yield from _damages_of(connection, key)


def _damages_of(connection: Connection, key: int | str) -> Iterator[str]:
    try:
        run = queries.find_run(connection, key)
    except (StorageError, SQLAlchemyError) as error:
        yield f"Run {key}: {error!s:.300}"
        return
    for check in (find_altered, _check_scores, _check_rest):
        try:
            with name_run(run):
                for line in check(connection, run):
                    yield f"Run {run.id} ({run.name!r}): {line}."
        except (AssayError, SQLAlchemyError) as error:
            yield f"{error!s:.300}"


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
    """Reject an altered run before it gets a new digest."""
    for line in find_altered(connection, run):
        raise StorageError(f"Run {run.id} ({run.name!r}): {line}. Restore a backup.")


def read_scores(connection: Connection, run: Run) -> Scores:
    """Return the scores of a run."""
    blobs = queries.read_blobs(connection, run.id)
    return unpack_scores(blobs, run.conventions, search=run.search)


def read_details(connection: Connection, run: Run) -> dict[str, Any]:
    """Return a task's details, stored with a run's scores."""
    blobs = queries.read_blobs(connection, run.id, BLOBS.c.kind == "details")
    try:
        details: dict[str, Any] = json.loads(unpack_json(blobs[0])) if blobs else {}
    except ValueError as error:
        raise StorageError(f"Cannot read the details: {error}. Restore a backup.") from None
    return details


@contextmanager
def name_run(run: Run) -> Iterator[None]:
    """Say which run a damage belongs to."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"Run {run.id} ({run.name!r}): {error}") from None
