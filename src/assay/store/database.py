"""Where a store is, its transactions, and errors of the database as errors of the store."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from assay.errors import AssayError, StorageError, UsageError

__all__ = ["DEFAULT", "VARIABLE", "Database", "Location", "locate", "storage_errors"]

VARIABLE: Final = "ASSAY_STORE"
DEFAULT: Final = "assay.db"

_POSTGRES: Final = ("postgres", "postgresql", "postgresql+psycopg")


@dataclass(frozen=True)
class Location:
    """A file of SQLite, or the URL of a PostgreSQL database."""

    file: Path | None = None
    url: URL | None = None

    def __str__(self) -> str:
        """For messages: never with a password."""
        if self.url is not None:
            return self.url.set(query={}).render_as_string(hide_password=True)
        return str(self.file)


def locate(place: str | os.PathLike[str] | None = None) -> Location:
    """The store that is named, else the one in ASSAY_STORE, else assay.db in this folder.

    >>> str(locate("postgresql://me:secret@host/db"))
    'postgresql+psycopg://me:***@host/db'
    """
    given = place if place is not None else os.environ.get(VARIABLE) or DEFAULT
    if not isinstance(given, str | os.PathLike):
        raise UsageError(f"A store is a file or a URL, found {type(given).__name__}.")
    text = os.fspath(given)
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
        """A transaction that sees one state of the store, whatever others write meanwhile."""
        with storage_errors(self.location), self.engine.connect() as plain:
            connection = plain.execution_options(**self.read_options)
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is on disk when the block ends, or has never been."""
        if self.read_only_reason:
            raise StorageError(self.read_only_reason)
        with storage_errors(self.location), self.engine.connect() as plain:
            connection = plain.execution_options(**self.write_options)
            with connection.begin():
                yield connection
