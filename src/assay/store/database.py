"""Locate, open, create and upgrade stores; their transactions and errors.

A store is a file of SQLite, or a database of PostgreSQL.
"""

from __future__ import annotations

import filecmp
import os
import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    Connection,
    Dialect,
    Engine,
    NullPool,
    QueuePool,
    create_engine,
    event,
    make_url,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.util import LRUCache

from assay.errors import AssayError, StorageError, UsageError, need
from assay.store.schema import (
    FIRST_VERSION,
    VERSION,
    create,
    known_versions,
    newest_version,
    no_version_error,
    upgrade,
    version_of,
)

VARIABLE: Final = "ASSAY_STORE"
DEFAULT: Final = "assay.db"

_POSTGRES: Final = ("postgres", "postgresql", "postgresql+psycopg")


@dataclass(frozen=True)
class Location:
    """A file of SQLite, or the URL of a PostgreSQL database."""

    file: Path | None = None
    url: URL | None = None

    def __str__(self) -> str:
        if self.url is not None:
            return self.url.set(query={}).render_as_string(hide_password=True)
        return str(self.file)


def locate(place: str | os.PathLike[str] | None = None) -> Location:
    """Return the named store, else ASSAY_STORE, else assay.db.

    >>> str(locate("postgresql://me:secret@host/db"))
    'postgresql+psycopg://me:***@host/db'
    """
    address = place if place is not None else os.environ.get(VARIABLE) or DEFAULT
    if not isinstance(address, str | os.PathLike):
        raise UsageError(f"A store must be a file or a URL. Found {type(address).__name__}.")
    text = os.fspath(address)
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError(f"A store is a file or a URL, found {text!r}.")
    return _locate_url(text) if "://" in text else Location(file=Path(text))


def _locate_url(text: str) -> Location:
    scheme = text.partition("://")[0]
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise UsageError(f"Cannot read {scheme}://…. Write scheme://user@host/db.") from None
    if scheme == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UsageError("A store in memory would be lost. Name a file.")
        return Location(file=Path(url.database))
    if scheme not in _POSTGRES:
        raise UsageError(
            f"A store cannot be in {scheme}. Give a file for SQLite, or postgresql://user@host/db."
        )
    return Location(url=url.set(drivername="postgresql+psycopg"))


_ADVICE: Final = {
    "malformed": "it is damaged. Restore a backup, or try 'sqlite3 FILE .recover'",
    "not a database": "it is not an SQLite database. Name another file",
    "locked": "another process is writing to it. Try again",
    "readonly": "it cannot be written. Check the permissions of the file and its folder",
    "unable to open": "it cannot be opened. Check that the folder exists and its permissions",
    "full": "the disk is full. Free space; stored runs are intact",
    "disk I/O": "the disk cannot be read or written. Check space and health",
}


@contextmanager
def storage_errors(place: object) -> Iterator[None]:
    """Turn errors of the database into a StorageError that names the store."""
    try:
        yield
    except AssayError:
        raise
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise StorageError(f"The store {place}: {_explain(error)}.") from error
    except UnicodeDecodeError as error:
        raise StorageError(f"The store {place}: it is damaged ({error}).") from error


def _explain(error: Exception) -> str:
    inner = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    message = " ".join(str(inner).split())[:300].rstrip(".")
    for sign, advice in _ADVICE.items():
        if sign in message and isinstance(inner, sqlite3.Error):
            return f"{advice} ({message})"
    return message


@dataclass(frozen=True)
class Database:
    """An engine and where it leads; `read_only_reason` is empty where it may be written."""

    location: Location
    engine: Engine
    version: str
    read_only_reason: str = ""
    read_options: dict[str, Any] = field(default_factory=dict)
    write_options: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Begin a transaction that sees one state of the store."""
        with storage_errors(self.location), self.engine.connect() as plain:
            connection = plain.execution_options(**self.read_options)
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Begin a transaction that is stored as a whole or not at all."""
        if self.read_only_reason:
            raise StorageError(self.read_only_reason)
        with storage_errors(self.location), self.engine.connect() as plain:
            connection = plain.execution_options(**self.write_options)
            with connection.begin():
                yield connection


_LOCK: Final = 0x6173736179  # PostgreSQL's lock for changes of the schema; any number does


def open_database(location: Location, *, create: bool, read_only: bool) -> Database:
    """Open a store; `create` makes it where there is none, `read_only` changes nothing."""
    with storage_errors(location):
        if location.file is not None:
            return _open_file(location, location.file, create=create, read_only=read_only)
        return _open_server(location, create=create, read_only=read_only)


def _open_file(location: Location, file: Path, *, create: bool, read_only: bool) -> Database:
    version = version_in(file)
    locked = version is not None and not (
        os.access(file, os.W_OK) and os.access(file.absolute().parent, os.W_OK)
    )
    reason = _read_only_reason(location, version, create=create, read_only=read_only or locked)
    if locked and not read_only:
        reason += " Make the file and its folder writable to save runs."
    if version is None:
        with suppress(OSError):  # opening the file says what is wrong
            file.absolute().parent.mkdir(parents=True, exist_ok=True)
    engine = make_engine(file, read_only=bool(reason))
    writes = {WRITES: True}
    if not reason and version != newest_version():
        with (
            _dispose_on_failure(engine),
            engine.connect() as plain,
            plain.execution_options(**writes).begin() as transaction,
        ):
            _upgrade_in_place(transaction.connection, location)
    held = version if reason and version else newest_version()
    return Database(location, engine, held, reason, write_options=writes)


def _open_server(location: Location, *, create: bool, read_only: bool) -> Database:
    need("psycopg", "a store in PostgreSQL", "postgres")
    settings = {"connect_timeout": 10, "client_encoding": "UTF8"}
    engine = create_engine(location.url or "", pool_pre_ping=True, connect_args=settings)
    _close_late_ones(engine)
    with _dispose_on_failure(engine):
        with engine.connect() as connection:
            version = version_of(connection)
        reason = _read_only_reason(location, version, create=create, read_only=read_only)
        if not reason and version != newest_version():
            with engine.begin() as connection:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
                _upgrade_in_place(connection, location)
    reads = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    held = version if reason and version else newest_version()
    return Database(location, engine, held, reason, read_options=reads)


@contextmanager
def _dispose_on_failure(engine: Engine) -> Iterator[None]:
    """Close all connections where opening the store fails."""
    try:
        yield
    except BaseException:
        engine.dispose()
        raise


def _read_only_reason(
    location: Location, version: str | None, *, create: bool, read_only: bool
) -> str:
    """Return why the store must not be written; empty where it may."""
    if version is None and (read_only or not create):
        raise StorageError(
            f"There is no store at {location}. Create one with --save (and --store {location}), as "
            "in assay eval run.txt -r qrels.txt --save."
        )
    if version is not None and version < FIRST_VERSION:
        raise StorageError(
            f"The store {location} has the old schema {version}. Export its runs with that "
            "version (assay runs export -o runs.json), then import them into a new store."
        )
    if version is not None and version not in known_versions():
        return (
            f"The store {location} was written by a newer version of Assay (schema {version}, "
            f"this one has {newest_version()}) and opened read-only. Upgrade Assay to write "
            "to it."
        )
    if read_only and version != newest_version():
        raise StorageError(
            f"The store {location} has the old schema {version}. Upgrade it by opening it for "
            "writing ('assay runs list')."
        )
    return f"The store {location} is open read-only. Open it for writing." if read_only else ""


def _upgrade_in_place(connection: Connection, location: Location) -> None:
    """Create or upgrade a store, unless another process just did."""
    version = version_of(connection)
    if version == newest_version():
        return
    if version is None:
        create(connection)
        return
    if location.file is not None:
        back_up(location.file, version)
    upgrade(connection)


# A store in a file of SQLite

_PATIENCE: Final = 60.0  # seconds that a writer waits for others
WRITES: Final = "assay_writes"


def version_in(file: Path) -> str | None:
    """Return the schema of a file; None where it is absent or empty."""
    if file.exists() and not file.is_file():
        raise StorageError(f"{file} is not a file. Name another.")
    if not file.exists() or not file.stat().st_size:
        return None
    _refuse_truncated(file)
    with closing(_connect(file, "rw")) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if not tables:
            return None
        if not {VERSION.name, "runs"} <= tables:
            raise StorageError(
                f"{file} has no table of runs: another program's database. Name another file."
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
        raise StorageError(f"{file} is not an SQLite database. Name another file.")
    page = struct.unpack(">H", head[16:18])[0]
    changes, pages, valid = (struct.unpack(">I", head[i : i + 4])[0] for i in (24, 28, 92))
    expected = (65536 if page == 1 else page) * pages
    # Checked again: another process may have begun to write since.
    if changes == valid and file.stat().st_size < expected and not _has_log(file):
        raise StorageError(
            f"{file} is truncated: {file.stat().st_size:,} of {expected:,} bytes left. "
            "Restore a backup."
        )


def _has_log(file: Path) -> bool:
    log = Path(f"{file}-wal")
    return log.exists() and log.stat().st_size > 0


def is_sealed(file: Path) -> bool:
    """Return whether the file's folder is read-only without a log.

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
    _close_late_ones(engine)

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


def _close_late_ones(engine: Engine) -> None:
    """Close connections that a thread gives back after the store was closed.

    `dispose` closes those that nobody uses; a later one would go to a pool that nobody asks.
    """

    @event.listens_for(engine, "connect")
    def note_pool(_: Any, record: Any) -> None:
        record.info["pool"] = engine.pool

    @event.listens_for(engine, "checkin")
    def close(connection: Any, record: Any) -> None:
        if connection is not None and record.info.get("pool") is not engine.pool:
            connection.close()


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
    """Copy the store to a free name beside it atomically.

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
