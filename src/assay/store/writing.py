"""The statements that change a store. Each is one step of a transaction that the caller holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from assay.errors import UsageError
from assay.runs.record import check_tags
from assay.store.codec import Blob, now
from assay.store.digests import seal, seal_marks
from assay.store.imports import ImportedRun
from assay.store.rows import Payload, to_row
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
        raise UsageError(f"Run {run} {why}: only a running run can change.")


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
    _add_results(connection, run, payload.results)
    rows = [
        {"run_id": run, "position": i, **vars(aggregate)}
        for i, aggregate in enumerate(payload.aggregates)
    ]
    if rows:
        connection.execute(insert(AGGREGATES), rows)
    if payload.wide:
        connection.execute(insert(WIDE_VALUES), list(_wide_rows(run, payload.wide)))


def _wide_rows(run: int, wide: Mapping[str, float | str | None]) -> Iterator[dict[str, Any]]:
    for position, (name, value) in enumerate(wide.items()):
        cell = (None, value) if isinstance(value, str) else (value, None)
        row = (run, position, name, *cell)
        yield dict(zip(("run_id", "position", "name", "number", "text"), row, strict=True))


def add_blobs(connection: Connection, run: int, blobs: Iterable[Blob], *, part: str = "") -> None:
    """Add arrays of a run, or of a part of it."""
    rows = [{"run_id": run, "part": part, **vars(blob)} for blob in blobs]
    if rows:
        connection.execute(insert(BLOBS), rows)


def _add_results(connection: Connection, run: int, blobs: Iterable[Blob]) -> None:
    rows = [
        {
            "run_id": run,
            "query_key": blob.name,
            "position": blob.position,
            "raw_bytes": blob.raw_bytes,
            "checksum": blob.checksum,
            "content": blob.content,
        }
        for blob in blobs
    ]
    if rows:
        connection.execute(insert(SHOWN), rows)


def remove_parts(connection: Connection, run: int, part: str | None = None) -> None:
    """Remove the parts of a run, or one of them."""
    condition = BLOBS.c.part != "" if part is None else BLOBS.c.part == part
    connection.execute(delete(BLOBS).where(BLOBS.c.run_id == run, condition))


def add_tags(connection: Connection, run: int, tags: Iterable[str]) -> None:
    """Tag a run; what is tagged stays tagged."""
    _lock(connection, run)
    has = connection.execute(select(TAGS.c.tag).where(TAGS.c.run_id == run)).scalars()
    new = sorted(set(check_tags(tags)) - set(has))
    if new:
        connection.execute(insert(TAGS), [{"run_id": run, "tag": tag} for tag in new])
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
