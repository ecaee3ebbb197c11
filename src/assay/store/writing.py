"""The statements that change a store. Each is one step of a transaction that the caller holds."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from assay.errors import UsageError
from assay.store.about import About, checked_tags
from assay.store.blobs import Blob
from assay.store.environment import git_commit, versions
from assay.store.imports import Imported
from assay.store.moments import now
from assay.store.numbers import Numbers
from assay.store.plain import as_text
from assay.store.schema import AGGREGATES, BLOBS, RUNS, SHOWN, TAGS

__all__ = [
    "add_blobs",
    "add_imported",
    "add_numbers",
    "add_run",
    "add_tags",
    "change_running",
    "finish_run",
    "first_row",
    "remove_parts",
    "remove_runs",
    "remove_tags",
    "reopen",
    "set_notes",
]


def first_row(about: About) -> dict[str, Any]:
    """The row of a run that begins now."""
    moment = now()
    return {
        "uid": uuid.uuid4().hex,
        "batch": about.batch or uuid.uuid4().hex,
        "rerun_of": about.rerun_of,
        "name": about.name,
        "task": about.task,
        "dataset": about.dataset,
        "model": about.model or about.name,
        "status": "running",
        "created": moment,
        "updated": moment,
        "command": json.dumps(list(about.command)),
        "folder": about.folder,
        "git_commit": git_commit(),
        "config": as_text(about.config or {}, "config"),
        "versions": as_text(versions(), "versions"),
        "seeds": as_text(about.seeds or {}, "seeds"),
        "data": as_text(about.data or {}, "data"),
        "timings": "{}",
        "notes": about.notes,
    }


def add_run(connection: Connection, row: Mapping[str, Any], tags: Iterable[str]) -> int:
    """A new run; gives its number."""
    found = connection.execute(insert(RUNS).returning(RUNS.c.id), dict(row)).scalar_one()
    add_tags(connection, [found], tags)
    return int(found)


def add_imported(connection: Connection, imported: Imported) -> int:
    """A run from a file, as it was there."""
    row = {**imported.row, "status": "running"}  # a finished one takes nothing more
    run = add_run(connection, row, imported.tags)
    add_numbers(connection, run, imported.numbers)
    chosen = update(RUNS).where(RUNS.c.id == run)
    connection.execute(chosen.values(status=imported.row["status"]))
    return run


def change_running(connection: Connection, run: int, **columns: Any) -> None:
    """Change a run that is not finished; finished ones stay as they are."""
    statement = update(RUNS).where(RUNS.c.id == run, RUNS.c.status == "running")
    done = connection.execute(statement.values(updated=now(), **columns))
    if done.rowcount != 1:
        status = connection.execute(select(RUNS.c.status).where(RUNS.c.id == run)).scalar()
        why = f"is {status}" if status else "was deleted"
        raise UsageError(f"Run {run} {why}: only a running one can change.")


def reopen(connection: Connection, run: int) -> None:
    """Let a failed run, or one whose process died, run again."""
    statement = update(RUNS).where(RUNS.c.id == run, RUNS.c.status != "finished")
    connection.execute(statement.values(status="running", message="", updated=now()))


def finish_run(connection: Connection, run: int, numbers: Numbers, **columns: Any) -> None:
    """Store all numbers of a run and call it finished."""
    columns |= numbers.columns or {}
    change_running(connection, run, **columns)
    remove_parts(connection, run)
    add_numbers(connection, run, numbers)
    change_running(connection, run, status="finished", finished=now())  # from here on it stays


def add_numbers(connection: Connection, run: int, numbers: Numbers) -> None:
    """The arrays and aggregates of a run, and what is shown of its queries."""
    add_blobs(connection, run, numbers.blobs)
    _add_shown(connection, run, numbers.shown)
    rows = [{"run_id": run, "position": i, **vars(one)} for i, one in enumerate(numbers.aggregates)]
    if rows:
        connection.execute(insert(AGGREGATES), rows)


def add_blobs(connection: Connection, run: int, blobs: Iterable[Blob], *, part: str = "") -> None:
    """Arrays of a run, or of a part of it."""
    rows = [{"run_id": run, "part": part, **vars(blob)} for blob in blobs]
    if rows:
        connection.execute(insert(BLOBS), rows)


def _add_shown(connection: Connection, run: int, blobs: Iterable[Blob]) -> None:
    rows = [
        {"run_id": run, "query_key": blob.name, "position": blob.position,
         "raw_bytes": blob.raw_bytes, "checksum": blob.checksum, "content": blob.content}
        for blob in blobs
    ]  # fmt: skip
    if rows:
        connection.execute(insert(SHOWN), rows)


def remove_parts(connection: Connection, run: int, part: str | None = None) -> None:
    """Forget the parts of a run, or one of them."""
    chosen = BLOBS.c.part != "" if part is None else BLOBS.c.part == part
    connection.execute(delete(BLOBS).where(BLOBS.c.run_id == run, chosen))


def add_tags(connection: Connection, runs: Iterable[int], tags: Iterable[str]) -> None:
    """Tag runs; what is tagged stays tagged."""
    wanted = set(checked_tags(tags))
    for run in runs:
        has = connection.execute(select(TAGS.c.tag).where(TAGS.c.run_id == run)).scalars()
        new = sorted(wanted - set(has))
        if new:
            connection.execute(insert(TAGS), [{"run_id": run, "tag": tag} for tag in new])


def remove_tags(connection: Connection, runs: Iterable[int], tags: Iterable[str]) -> None:
    """Take tags from runs."""
    statement = delete(TAGS).where(TAGS.c.run_id.in_(list(runs)), TAGS.c.tag.in_(list(tags)))
    connection.execute(statement)


def set_notes(connection: Connection, run: int, notes: str) -> None:
    """Write the notes of a run anew."""
    connection.execute(update(RUNS).where(RUNS.c.id == run).values(notes=notes))


def remove_runs(connection: Connection, runs: Iterable[int]) -> None:
    """Delete runs; the database takes all that belongs to them, and no part alone."""
    connection.execute(delete(RUNS).where(RUNS.c.id.in_(list(runs))))
