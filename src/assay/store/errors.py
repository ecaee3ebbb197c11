"""What databases complain about, in our own words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from assay.errors import AssayError, StorageError

__all__ = ["trouble_named"]

_ADVICE = {
    "malformed": "it is damaged. Restore a backup; 'sqlite3 FILE .recover' may save some of it",
    "not a database": "it is not an SQLite database. Name another file",
    "locked": "another process has been writing to it for too long. Try again",
    "readonly": "it cannot be written. Check the permissions of the file and its folder",
    "unable to open": "it cannot be opened. Check that the folder exists and its permissions",
    "full": "the disk is full. Nothing that was stored before is lost",
    "disk I/O": "the disk cannot be read or written. Check that it is not full, and its health",
}


@contextmanager
def trouble_named(place: object) -> Iterator[None]:
    """Turn errors of the database into a StorageError that names the store."""
    try:
        yield
    except AssayError:
        raise
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise StorageError(f"The store {place}: {_words(error)}.") from error
    except UnicodeDecodeError as error:
        raise StorageError(f"The store {place}: it is damaged ({error}).") from error


def _words(error: Exception) -> str:
    inner = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    found = " ".join(str(inner).split())[:300].rstrip(".")
    for sign, advice in _ADVICE.items():
        if sign in found and isinstance(inner, sqlite3.Error):
            return f"{advice} ({found})"
    return found
