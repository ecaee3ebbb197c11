"""Where a store is; how it is opened, created or upgraded; its transactions and errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from assay.errors import AssayError, StorageError, UsageError, need
from assay.store import sqlite
from assay.store.migrations import (
    FIRST_VERSION,
    create,
    known_versions,
    newest_version,
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
        raise UsageError(f"A store is a file or a URL, found {type(address).__name__}.")
    text = os.fspath(address)
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError(f"A store is a file or a URL, found {text!r}.")
    return _locate_url(text) if "://" in text else Location(file=Path(text))


def _locate_url(text: str) -> Location:
    scheme = text.partition("://")[0]
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise UsageError(f"The store's URL ({scheme}://…) cannot be read.") from None
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
    "malformed": "it is damaged. Restore a backup; 'sqlite3 FILE .recover' may save some of it",
    "not a database": "it is not an SQLite database. Name another file",
    "locked": "another process has been writing to it for too long. Try again",
    "readonly": "it cannot be written. Check the permissions of the file and its folder",
    "unable to open": "it cannot be opened. Check that the folder exists and its permissions",
    "full": "the disk is full. Nothing that was stored before is lost",
    "disk I/O": "the disk cannot be read or written. Check that it is not full, and its health",
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
            return _open_file(location, create=create, read_only=read_only)
        return _open_server(location, create=create, read_only=read_only)


def _open_file(location: Location, *, create: bool, read_only: bool) -> Database:
    file = location.file
    if file is None:
        raise TypeError("a location without a file")
    version = sqlite.version_in(file)
    locked = version is not None and not (
        os.access(file, os.W_OK) and os.access(file.absolute().parent, os.W_OK)
    )
    reason = _read_only_reason(location, version, create=create, read_only=read_only or locked)
    if locked and not read_only:
        reason += " To save runs, the file and its folder must be writable."
    engine = sqlite.make_engine(file, read_only=bool(reason))
    writes = {sqlite.WRITES: True}
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
    if location.url is None:
        raise TypeError("a location without a URL")
    engine = create_engine(location.url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    _set_utf8(engine)
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


def _set_utf8(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def prepare(connection: object, _: object) -> None:
        connection.execute("SET client_encoding TO 'UTF8'")  # type: ignore[attr-defined]
        connection.commit()  # type: ignore[attr-defined]


def _read_only_reason(
    location: Location, version: str | None, *, create: bool, read_only: bool
) -> str:
    """Return why the store must not be written; empty where it may."""
    if version is None and (read_only or not create):
        raise StorageError(
            f"There is no store at {location}. Saving a run creates one: add --save (and "
            f"--store {location}) to a command, as in assay eval run.txt -r qrels.txt --save."
        )
    if version is not None and version < FIRST_VERSION:
        raise StorageError(
            f"The store {location} has the old schema {version}, from before the first release. "
            "Export its runs with that version (assay runs export -o runs.json), then import them "
            "into a new store."
        )
    if version is not None and version not in known_versions():
        return (
            f"The store {location} was written by a newer version of Assay (schema {version}, "
            f"this one has {newest_version()}): it is open for reading only, and nothing was "
            "changed. Upgrade Assay to write to it."
        )
    if read_only and version != newest_version():
        raise StorageError(
            f"The store {location} has the old schema {version}, and it was to be opened without "
            "changing it. Open it once for writing ('assay runs list' does) to upgrade it."
        )
    return f"The store {location} is open for reading only." if read_only else ""


def _upgrade_in_place(connection: Connection, location: Location) -> None:
    """Create or upgrade a store, unless another process just did."""
    version = version_of(connection)
    if version == newest_version():
        return
    if version is None:
        create(connection)
        return
    if location.file is not None:
        sqlite.back_up(location.file, version)
    upgrade(connection)
