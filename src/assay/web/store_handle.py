"""The store that is served: opened for reading only, and opened anew when it is no longer the same.

A file may be replaced, upgraded or removed while it is served. An open connection would go on
showing what is no longer there, so every request looks whether the place still holds the same.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Any, Final

import assay.store
from assay.store import Store
from assay.store.database import locate
from assay.store.versions import version_of

__all__ = ["Source"]

_PATIENCE: Final = 3000  # milliseconds; a page should say that a store is locked before one leaves


class Source:
    """A store by its place; `store` gives it as it is now."""

    def __init__(self, place: str | os.PathLike[str] | None = None) -> None:
        self.location = locate(place)
        self._place = place
        self._lock = Lock()
        self._store: Store | None = None
        self._identity: tuple[int, int] | None = None

    def store(self) -> Store:
        """The store, opened for reading; a StorageError says why it cannot be."""
        held = self._store
        changed = held is not None and self._is_another(held)  # may take a while if it is locked
        with self._lock:
            if changed and self._store is held:
                self._close()
            if self._store is None:
                self._identity = self._identified()
                self._store = _opened(self._place)
            return self._store

    def close(self) -> None:
        """Give up all connections."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _is_another(self, store: Store) -> bool:
        if self._identified() != self._identity:
            return True
        with store.database.reading() as connection:
            return version_of(connection) != store.database.version

    def _identified(self) -> tuple[int, int] | None:
        """Which file it is, whatever it holds; None where there is none, and for a server."""
        if self.location.file is None:
            return None
        try:
            found = os.stat(self.location.file)
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _opened(place: str | os.PathLike[str] | None) -> Store:
    from sqlalchemy import event

    store = assay.store.open(place, create=False, only_reads=True)
    if store.database.engine.dialect.name == "sqlite":
        event.listen(store.database.engine, "connect", _wait_less)
    return store


def _wait_less(connection: Any, _: Any) -> None:
    connection.execute(f"PRAGMA busy_timeout={_PATIENCE}")
