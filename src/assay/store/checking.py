"""What is damaged in a store: pages of a file, runs that changed, arrays, means."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, select, text
from sqlalchemy.exc import SQLAlchemyError

from assay.errors import AssayError, StorageError
from assay.runs.aggregates import find_contradictions
from assay.scoring.scores import Scores
from assay.store import queries
from assay.store.codec import unpack_json, unpack_scores
from assay.store.digests import find_altered
from assay.store.payload import unpack_results
from assay.store.run import Run
from assay.store.schema import RUNS

__all__ = ["find_damages", "name_run", "read_details", "read_scores", "refuse_altered"]


def find_damages(connection: Connection, keys: Iterable[int | str] = ()) -> Iterator[str]:
    """A line for each damage of the file and of these runs, or of all of them."""
    if connection.dialect.name == "sqlite":
        for (line,) in connection.execute(text("PRAGMA integrity_check")):
            if line != "ok":
                yield str(line)
        for row in connection.execute(text("PRAGMA foreign_key_check")):
            yield f"a row of {row[0]} belongs to no run"
    known = connection.execute(select(RUNS.c.id).order_by(RUNS.c.id)).scalars().all()
    for key in keys or known:
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
    """The per-query values can be read, and the aggregates are theirs."""
    if run.status == "finished" and run.conventions:
        yield from find_contradictions(run.aggregates, read_scores(connection, run))


def _check_rest(connection: Connection, run: Run) -> Iterator[str]:
    """Details and results of queries can be read."""
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
    """The scores of a run."""
    blobs = queries.read_blobs(connection, run.id)
    return unpack_scores(blobs, run.conventions, search=run.search)


def read_details(connection: Connection, run: Run) -> dict[str, Any]:
    """What a task stored beside the scores of a run."""
    blobs = queries.read_blobs(connection, run.id, kind="details")
    try:
        found: dict[str, Any] = json.loads(unpack_json(blobs[0])) if blobs else {}
    except ValueError as error:
        raise StorageError(f"The details cannot be read: {error}.") from None
    return found


@contextmanager
def name_run(run: Run) -> Iterator[None]:
    """Say which run a damage belongs to."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"Run {run.id} ({run.name!r}): {error}") from None
