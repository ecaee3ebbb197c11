"""The store that is served: opened read-only, and reopened when it has been replaced.

A file may be replaced, upgraded or removed while it is served. An open connection would go on
showing the old one, so every request checks whether the file is still the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

import assay.store
from assay.store import Store
from assay.store.database import locate
from assay.store.migrations import version_of

__all__ = ["StoreHandle"]

_BUSY_TIMEOUT: Final = 3000  # milliseconds; then the page says that the store is locked


class StoreHandle:
    """A store by its location; `store` opens it, or opens it again."""

    def __init__(self, place: str | os.PathLike[str] | None = None) -> None:
        self.location = locate(place)
        self._place = place
        self._lock = Lock()
        self._store: Store | None = None
        self._identity: tuple[int, int] | None = None

    def store(self) -> Store:
        """The store, opened for reading; a StorageError says why it cannot be opened."""
        held = self._store
        changed = held is not None and self._was_replaced(held)  # may take a while if it is locked
        with self._lock:
            if changed and self._store is held:
                self._close()
            if self._store is None:
                self._identity = self._identify()
                self._store = _open_store(self._place)
            return self._store

    @contextmanager
    def editable(self) -> Iterator[Store]:
        """The store opened for writing, for the length of one edit."""
        self.store()  # what cannot be shown is not edited, and never upgraded from here
        with assay.store.open(self._place, create=False) as store:
            yield store

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _was_replaced(self, store: Store) -> bool:
        if self._identify() != self._identity:
            return True
        with store.database.reading() as connection:
            return version_of(connection) != store.database.version

    def _identify(self) -> tuple[int, int] | None:
        """Which file it is; None where there is none, and for a database server."""
        if self.location.file is None:
            return None
        try:
            found = os.stat(self.location.file)
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _open_store(place: str | os.PathLike[str] | None) -> Store:
    from sqlalchemy import event

    store = assay.store.open(place, create=False, read_only=True)
    if store.database.engine.dialect.name == "sqlite":
        event.listen(store.database.engine, "connect", _set_busy_timeout)
    return store


def _set_busy_timeout(connection: Any, _: Any) -> None:
    connection.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT}")
