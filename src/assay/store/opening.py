"""Opening a store: created where it is absent, upgraded where its schema is old."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, Engine, create_engine, event, text

from assay.errors import StorageError, need
from assay.store import migrations, sqlite
from assay.store.database import Database, Location, storage_errors
from assay.store.digests import seal_unsealed
from assay.store.migrations import known_versions, newest_version, upgrade, version_of

__all__ = ["open_database"]

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
    """Why the store must not be written; empty where it may be."""
    if version is None and (read_only or not create):
        raise StorageError(
            f"There is no store at {location}. Saving a run creates one: add --save (and "
            f"--store {location}) to a command, as in assay eval run.txt -r qrels.txt --save."
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
    """Inside one transaction; another process may have done it since we looked."""
    version = version_of(connection)
    if version == newest_version():
        return
    if version is None:
        migrations.create(connection)
        return
    if location.file is not None:
        sqlite.back_up(location.file, version)
    upgrade(connection)
    seal_unsealed(connection)
