"""Digests of stored runs: what a run shows is what was stored, or the run is named as damaged.

The digest covers every column of a run, its aggregates, the wide row, and names, sizes and
checksums of its arrays and results. Notes and tags, which may change, have a digest of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, select, update
from sqlalchemy.exc import SQLAlchemyError

from assay.errors import StorageError
from assay.store.codec import UPGRADED, digest_lines
from assay.store.schema import AGGREGATES, BLOBS, RUNS, SHOWN, TAGS, WIDE_VALUES

__all__ = [
    "find_altered",
    "seal",
    "seal_marks",
    "seal_unsealed",
]

_OWN: Final = ("digest", "marks", "notes")
_ROW: Final = [column for column in RUNS.c if column.name not in _OWN]
_PARTS: Final = (
    (AGGREGATES, AGGREGATES.c.position),
    (WIDE_VALUES, WIDE_VALUES.c.name),
    (BLOBS, BLOBS.c.kind, BLOBS.c.position),
    (SHOWN, SHOWN.c.query_key),
)


def seal(connection: Connection, run: int, **final: Any) -> None:
    """Store the digests of a run, with these last changes of its row: a finished one takes none."""
    digest = digest_lines(_content(connection, run, final))
    found = {"digest": digest, "marks": digest_lines(_marks(connection, run)), **final}
    connection.execute(update(RUNS).where(RUNS.c.id == run).values(**found))


def seal_marks(connection: Connection, run: int) -> None:
    """Store the digest of the notes and tags of a run."""
    marks = digest_lines(_marks(connection, run))
    connection.execute(update(RUNS).where(RUNS.c.id == run).values(marks=marks))


def seal_unsealed(connection: Connection) -> None:
    """Digests for the runs of a store that had none; they say that they are not older."""
    chosen = select(RUNS.c.id).where(RUNS.c.digest == "")
    for run in connection.execute(chosen).scalars().all():
        connection.execute(update(RUNS).where(RUNS.c.id == run).values(digest_from=UPGRADED))
        try:
            seal(connection, run)
        except (StorageError, SQLAlchemyError):
            continue  # it is damaged, and has no digest: a check names it


def find_altered(connection: Connection, run: int) -> Iterator[str]:
    """What of a run is not as it was stored."""
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
        chosen = select(*columns).where(table.c.run_id == run).order_by(*order)
        if table is BLOBS:  # parts of a run that is running are not shown
            chosen = chosen.where(BLOBS.c.part == "")
        yield table.name
        yield from map(list, connection.execute(chosen))


def _marks(connection: Connection, run: int) -> Iterator[Any]:
    yield connection.execute(select(RUNS.c.notes).where(RUNS.c.id == run)).scalar_one()
    yield sorted(connection.execute(select(TAGS.c.tag).where(TAGS.c.run_id == run)).scalars())
