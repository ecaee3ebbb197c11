"""Where a store is: a file, or a database by its URL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError

from assay.errors import StorageError, UsageError
from assay.store.errors import trouble_named

__all__ = ["DEFAULT", "VARIABLE", "Database", "Location", "locate"]

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
    return _database(text) if "://" in text else Location(file=Path(text))


def _database(text: str) -> Location:
    scheme = text.partition("://")[0]
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise UsageError(f"The store's URL ({scheme}://…) cannot be read.") from None
    if scheme == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UsageError("A store in memory would not last. Name a file.")
        return Location(file=Path(url.database))
    if scheme not in _POSTGRES:
        raise UsageError(
            f"A store cannot be in {scheme}. Give a file for SQLite, or postgresql://user@host/db."
        )
    return Location(url=url.set(drivername="postgresql+psycopg"))


@dataclass(frozen=True)
class Database:
    """An engine, where it leads, and why it may be for reading only."""

    location: Location
    engine: Engine
    version: str
    only_reads: str = ""
    read_options: dict[str, Any] = field(default_factory=dict)
    write_options: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the store, whatever others write meanwhile."""
        with trouble_named(self.location), self.engine.connect() as plain:
            connection = plain.execution_options(**self.read_options)
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is on disk when the block ends, or has never been."""
        if self.only_reads:
            raise StorageError(self.only_reads)
        with trouble_named(self.location), self.engine.connect() as plain:
            connection = plain.execution_options(**self.write_options)
            with connection.begin():
                yield connection
