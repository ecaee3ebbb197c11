"""Opening a store: made where it is absent, led to the newest schema where it is old."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, Engine, create_engine, event, text

from assay.errors import StorageError, need
from assay.store import sqlite
from assay.store.database import Database, Location
from assay.store.errors import trouble_named
from assay.store.versions import known_versions, newest_version, upgrade, version_of

__all__ = ["open_database"]

_LOCK: Final = 0x6173736179  # PostgreSQL's lock for changes of the schema; any number does


def open_database(location: Location, *, create: bool, only_reads: bool) -> Database:
    """Open a store; `create` makes it where there is none, `only_reads` changes nothing at all."""
    with trouble_named(location):
        if location.file is not None:
            return _open_file(location, create=create, only_reads=only_reads)
        return _open_server(location, create=create, only_reads=only_reads)


def _open_file(location: Location, *, create: bool, only_reads: bool) -> Database:
    file = location.file
    if file is None:
        raise TypeError("a location without a file")
    version = sqlite.version_in(file)
    locked = version is not None and not (
        os.access(file, os.W_OK) and os.access(file.absolute().parent, os.W_OK)
    )
    why = _why_only_read(location, version, create=create, only_reads=only_reads or locked)
    if locked and not only_reads:
        why += " To save runs, the file and its folder must be writable."
    engine = sqlite.make_engine(file, only_reads=bool(why))
    writes = {sqlite.WRITES: True}
    if not why and version != newest_version():
        with (
            _disposed_on_failure(engine),
            engine.connect() as plain,
            plain.execution_options(**writes).begin() as transaction,
        ):
            _lead_to_newest(transaction.connection, location)
    held = version if why and version else newest_version()
    return Database(location, engine, held, why, write_options=writes)


def _open_server(location: Location, *, create: bool, only_reads: bool) -> Database:
    need("psycopg", "a store in PostgreSQL", "postgres")
    if location.url is None:
        raise TypeError("a location without a URL")
    engine = create_engine(location.url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    _keep_utf8(engine)
    with _disposed_on_failure(engine):
        with engine.connect() as connection:
            version = version_of(connection)
        why = _why_only_read(location, version, create=create, only_reads=only_reads)
        if not why and version != newest_version():
            with engine.begin() as connection:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
                _lead_to_newest(connection, location)
    reads = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    held = version if why and version else newest_version()
    return Database(location, engine, held, why, read_options=reads)


@contextmanager
def _disposed_on_failure(engine: Engine) -> Iterator[None]:
    """Leave no connection behind where nobody gets the store."""
    try:
        yield
    except BaseException:
        engine.dispose()
        raise


def _keep_utf8(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def prepare(connection: object, _: object) -> None:
        connection.execute("SET client_encoding TO 'UTF8'")  # type: ignore[attr-defined]
        connection.commit()  # type: ignore[attr-defined]


def _why_only_read(
    location: Location, version: str | None, *, create: bool, only_reads: bool
) -> str:
    """Why the store must not be written; empty where it may be."""
    if version is None and (only_reads or not create):
        raise StorageError(f"There is no store at {location}. Saving a run makes one.")
    if version is not None and version not in known_versions():
        return (
            f"The store {location} was written by a newer version of Assay (schema {version}, "
            f"this one knows {newest_version()}): it is open for reading only, and nothing was "
            "changed. Upgrade Assay to write to it."
        )
    if only_reads and version != newest_version():
        raise StorageError(
            f"The store {location} has the old schema {version}, and it was to be opened without "
            "changing it. Open it once for writing ('assay runs list' does) to upgrade it."
        )
    return f"The store {location} is open for reading only." if only_reads else ""


def _lead_to_newest(connection: Connection, location: Location) -> None:
    """Upgrade inside one transaction; another process may have done it since we looked."""
    version = version_of(connection)
    if version == newest_version():
        return
    if version is not None and location.file is not None:
        sqlite.back_up(location.file, version)
    upgrade(connection)
