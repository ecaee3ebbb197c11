"""The statements that change a store. Each is one step of a transaction that the caller holds."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from assay.errors import UsageError
from assay.io.fingerprints import git_commit, versions
from assay.runs.record import RunRecord, check_tags
from assay.store.codec import SAVED, Blob, json_text
from assay.store.digests import seal, seal_marks
from assay.store.imports import ImportedRun
from assay.store.payload import Payload
from assay.store.schema import AGGREGATES, BLOBS, RUNS, SHOWN, TAGS, WIDE_VALUES
from assay.store.timestamps import now

__all__ = [
    "add_blobs",
    "add_imported",
    "add_payload",
    "add_run",
    "add_tags",
    "finish_run",
    "make_row",
    "remove_parts",
    "remove_runs",
    "remove_tags",
    "reopen",
    "set_notes",
    "update_running",
]


def make_row(record: RunRecord) -> dict[str, Any]:
    """The row of a run that begins now, as running."""
    created = now()
    return {
        "uid": uuid.uuid4().hex,
        "batch": record.batch or uuid.uuid4().hex,
        "rerun_of": record.rerun_of,
        "name": record.name,
        "task": record.task,
        "dataset": record.dataset,
        "model": record.model or record.name,
        "status": "running",
        "created": created,
        "updated": created,
        "command": json.dumps(list(record.command)),
        "folder": record.folder,
        "git_commit": git_commit(),
        "config": json_text(record.config, "config"),
        "versions": json_text(versions(), "versions"),
        "seeds": json_text(record.seeds, "seeds"),
        "data": json_text(record.data, "data"),
        "timings": "{}",
        "notes": record.notes,
        "digest_from": SAVED,
    }


def add_run(connection: Connection, row: Mapping[str, Any], tags: Iterable[str]) -> int:
    """Add a run; returns its number."""
    found = int(connection.execute(insert(RUNS).returning(RUNS.c.id), dict(row)).scalar_one())
    add_tags(connection, found, tags)
    seal(connection, found)
    return found


def add_imported(connection: Connection, imported: ImportedRun) -> int:
    """A run from a file, as it was there."""
    row = {**imported.row, "status": "running"}  # a finished one takes nothing more
    run = add_run(connection, row, imported.tags)
    add_payload(connection, run, imported.payload)
    seal(connection, run, status=imported.row["status"])
    return run


def update_running(connection: Connection, run: int, **columns: Any) -> None:
    """Change a run that is not finished; finished ones stay as they are."""
    _update(connection, run, columns)
    seal(connection, run)


def _update(connection: Connection, run: int, columns: Mapping[str, Any]) -> None:
    statement = update(RUNS).where(RUNS.c.id == run, RUNS.c.status == "running")
    done = connection.execute(statement.values(updated=now(), **columns))
    if done.rowcount != 1:
        status = connection.execute(select(RUNS.c.status).where(RUNS.c.id == run)).scalar()
        why = f"is {status}" if status else "was deleted"
        raise UsageError(f"Run {run} {why}: only a running run can change.")


def reopen(connection: Connection, run: int) -> None:
    """Let a failed run, or one whose process died, run again."""
    statement = update(RUNS).where(RUNS.c.id == run, RUNS.c.status != "finished")
    connection.execute(statement.values(status="running", message="", updated=now()))
    seal(connection, run)


def finish_run(connection: Connection, run: int, payload: Payload, **columns: Any) -> None:
    """Store all numbers of a run and call it finished."""
    _update(connection, run, {"message": "", **columns, **(payload.columns or {})})
    remove_parts(connection, run)
    add_payload(connection, run, payload)
    seal(connection, run, status="finished", finished=now())  # now final


def add_payload(connection: Connection, run: int, payload: Payload) -> None:
    """The arrays and aggregates of a run, and the results of its queries."""
    add_blobs(connection, run, payload.blobs)
    _add_results(connection, run, payload.results)
    rows = [{"run_id": run, "position": i, **vars(one)} for i, one in enumerate(payload.aggregates)]
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
    """Arrays of a run, or of a part of it."""
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
    """Forget the parts of a run, or one of them."""
    chosen = BLOBS.c.part != "" if part is None else BLOBS.c.part == part
    connection.execute(delete(BLOBS).where(BLOBS.c.run_id == run, chosen))


def add_tags(connection: Connection, run: int, tags: Iterable[str]) -> None:
    """Tag a run; what is tagged stays tagged."""
    _lock(connection, run)
    has = connection.execute(select(TAGS.c.tag).where(TAGS.c.run_id == run)).scalars()
    new = sorted(set(check_tags(tags)) - set(has))
    if new:
        connection.execute(insert(TAGS), [{"run_id": run, "tag": tag} for tag in new])
        seal_marks(connection, run)


def _lock(connection: Connection, run: int) -> None:
    """Keep others from the run until the end: a digest is over what all of them wrote."""
    connection.execute(select(RUNS.c.id).where(RUNS.c.id == run).with_for_update())


def remove_tags(connection: Connection, run: int, tags: Iterable[str]) -> None:
    """Take tags from a run."""
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
