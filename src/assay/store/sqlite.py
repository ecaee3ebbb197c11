"""A store in a file of SQLite."""

from __future__ import annotations

import filecmp
import os
import sqlite3
import struct
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Dialect,
    Engine,
    NullPool,
    QueuePool,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.util import LRUCache

from assay.errors import StorageError
from assay.store.migrations import no_version_error
from assay.store.schema import VERSION

_PATIENCE: Final = 60.0  # seconds that a writer waits for others
WRITES: Final = "assay_writes"


def version_in(file: Path) -> str | None:
    """Return the schema of a file; None where it is absent or empty."""
    if file.exists() and not file.is_file():
        raise StorageError(f"{file} is not a file. Name a file for the store.")
    if not file.exists() or not file.stat().st_size:
        return None
    _refuse_truncated(file)
    with closing(_connect(file, "rw")) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if not tables:
            return None
        if not {VERSION.name, "runs"} <= tables:
            raise StorageError(
                f"{file} is a database of another program: it has no table of runs. "
                "Name another file for the store."
            )
        row = connection.execute(f"SELECT version_num FROM {VERSION.name}").fetchone()
        if row is None:
            raise no_version_error(file)
        return str(row[0])


def _refuse_truncated(file: Path) -> None:
    """Refuse a file that is shorter than its first page says.

    Where there is a write-ahead log, it may hold the missing pages.
    """
    if _has_log(file):
        return
    with open(file, "rb") as stream:
        head = stream.read(100)
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise StorageError(f"{file} is not an SQLite database. Name another file for the store.")
    page = struct.unpack(">H", head[16:18])[0]
    changes, pages, valid = (struct.unpack(">I", head[i : i + 4])[0] for i in (24, 28, 92))
    expected = (65536 if page == 1 else page) * pages
    # Checked again: another process may have begun to write since.
    if changes == valid and file.stat().st_size < expected and not _has_log(file):
        raise StorageError(
            f"{file} is truncated: {file.stat().st_size:,} of {expected:,} bytes are there. "
            "Restore a backup."
        )


def _has_log(file: Path) -> bool:
    log = Path(f"{file}-wal")
    return log.exists() and log.stat().st_size > 0


def is_sealed(file: Path) -> bool:
    """Return whether the file's folder is read-only and without a log.

    SQLite keeps notes for readers beside the file, too; without them it reads such a file only if
    it is told that the file will not change meanwhile.
    """
    beside = not os.access(file.absolute().parent, os.W_OK)
    return beside and file.exists() and not Path(f"{file}-wal").exists()


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    access = "ro&immutable=1" if is_sealed(file) else mode
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?mode={access}",
        uri=True,
        timeout=_PATIENCE,
        isolation_level=None,  # transactions begin where we say, and hold changes of tables, too
        check_same_thread=False,
    )


def make_engine(file: Path, *, read_only: bool) -> Engine:
    """Return connections to the file, which is made where it is absent."""
    mode = "ro" if read_only else "rwc"
    # A sealed file is opened anew for each transaction: another user may be able to write it.
    pool = NullPool if is_sealed(file) else QueuePool
    dialect, compiled = _shared()

    def connect() -> Any:
        return _connect(file, mode)

    engine = Engine(pool(connect, dialect=dialect), dialect, make_url("sqlite://"))
    engine.update_execution_options(compiled_cache=compiled)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        if not read_only:
            _keep_log(connection)
        # FULL: a commit waits until the log is on disk.
        for setting in ("synchronous=FULL", "foreign_keys=ON", f"query_only={int(read_only)}"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(WRITES)
        # A writer takes its turn at once; one that began by reading might have to give up.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@cache
def _shared() -> tuple[Dialect, LRUCache[Any, Any]]:
    """Return the dialect and compiled statements that all stores share."""
    memory = create_engine("sqlite://")
    memory.connect().close()  # it learns what this SQLite can do
    memory.dispose()
    return memory.dialect, LRUCache(500)


def _keep_log(connection: sqlite3.Connection) -> None:
    """Write ahead to a log, so that readers need not wait for a writer.

    The change to it needs the file for itself and does not wait, so we do.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def back_up(file: Path, version: str) -> Path:
    """Copy the store to a free name beside it, whole or not at all.

    Where the last upgrade failed, its copy is there and equal, and stays the only one.
    """
    number = 1
    while (copy := Path(f"{file}.schema-{version}.backup-{number}")).exists():
        number += 1
    last = Path(f"{file}.schema-{version}.backup-{number - 1}")
    beside = Path(f"{copy}.part")
    beside.unlink(missing_ok=True)
    try:
        with closing(_connect(file, "ro")) as source, closing(sqlite3.connect(beside)) as target:
            source.backup(target)
        if last.exists() and filecmp.cmp(last, beside, shallow=False):
            return last
        with open(beside, "rb") as stream:
            os.fsync(stream.fileno())
        os.replace(beside, copy)
    finally:
        beside.unlink(missing_ok=True)
    return copy
