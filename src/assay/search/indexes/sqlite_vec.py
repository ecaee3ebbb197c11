"""`sqlite-vec`: vectors in SQLite by the extension sqlite-vec, which looks at all of them.

It has no inner product, and at most 8192 dimensions. Above 4096 documents for a query, more than
its search gives, the table is sorted by distance instead.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32, Ints
from assay.errors import MissingPackageError, UsageError, need
from assay.io.streams import ScratchFolder
from assay.search.indexes.base import EngineBytes, Exactness, Setup

_MOST_NEAREST: Final = 4096
_MOST_DIMENSIONS: Final = 8192
_DISTANCES: Final = {"cosine": "cosine", "l2": "L2"}


class _SqliteVec:
    exactness: Exactness = "exact"

    def __init__(self, setup: Setup) -> None:
        package = need("sqlite_vec", "The index 'sqlite-vec'", "sqlite-vec")
        self._distance = _distance(setup)
        self._folder = ScratchFolder("index")
        self._file = os.path.join(self._folder.name, "vectors.db")
        try:
            self._database = _connect(self._file, package)
        except BaseException:
            self._folder.cleanup()
            raise
        version = self._database.execute("SELECT vec_version()").fetchone()[0]
        self.version = f"sqlite-vec {version}, SQLite {sqlite3.sqlite_version}"
        self._columns = f"v float[{setup.dimension}] distance_metric={self._distance}"

    def add(self, vectors: Floats32) -> None:
        self._database.execute(f"CREATE VIRTUAL TABLE docs USING vec0({self._columns})")
        with self._database:
            self._database.executemany(
                "INSERT INTO docs (rowid, v) VALUES (?, ?)",
                ((row, vector.tobytes()) for row, vector in enumerate(vectors)),
            )

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        return self.find_among(queries, k, None)

    def find_among(self, queries: Floats32, k: int, among: Ints | None) -> NDArray[Any]:
        some = "" if among is None else f"rowid IN ({','.join(map(str, among))})"
        if k <= _MOST_NEAREST:
            statement = f"SELECT rowid FROM docs WHERE v MATCH ? AND k = ? {some and f'AND {some}'}"
        else:
            order = f"ORDER BY vec_distance_{self._distance}(v, ?) LIMIT ?"
            statement = f"SELECT rowid FROM docs {some and f'WHERE {some}'} {order}"
        neighbours = np.full((len(queries), k), -1, np.int64)
        for row, query in enumerate(queries):
            numbers = self._database.execute(statement, (query.tobytes(), k)).fetchall()
            neighbours[row, : len(numbers)] = [number for (number,) in numbers]
        return neighbours

    def size(self) -> EngineBytes:
        return EngineBytes(disk=os.path.getsize(self._file))

    def close(self) -> None:
        self._database.close()
        self._folder.cleanup()


def _distance(setup: Setup) -> str:
    if setup.argument:
        raise UsageError(f"sqlite-vec takes no argument and has no options: {setup.spec}")
    if setup.metric not in _DISTANCES:
        raise UsageError("sqlite-vec has no inner product. Use metric 'cosine' or 'l2'.")
    if setup.dimension > _MOST_DIMENSIONS:
        raise UsageError(
            f"sqlite-vec holds at most {_MOST_DIMENSIONS} dimensions, found {setup.dimension}."
        )
    return _DISTANCES[setup.metric]


def _connect(file: str, package: Any) -> sqlite3.Connection:
    """Open a database that has the extension."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        database = sqlite3.connect(file)
        database.enable_load_extension(True)
        package.load(database)
        database.enable_load_extension(False)
        return database
    with _extension_for_new_connections(package.loadable_path()):
        return sqlite3.connect(file)


@contextmanager
def _extension_for_new_connections(path: str) -> Iterator[None]:
    """For a Python whose sqlite3 was built without loading: SQLite itself adds the extension."""
    import _sqlite3

    try:
        library = ctypes.PyDLL(_sqlite3.__file__)
        begin, end = library.sqlite3_auto_extension, library.sqlite3_cancel_auto_extension
        entry = ctypes.cast(ctypes.CDLL(_shared_library(path)).sqlite3_vec_init, ctypes.c_void_p)
    except (AttributeError, OSError):
        raise MissingPackageError(
            "sqlite3 with loadable extensions", "The index 'sqlite-vec'", "sqlite-vec"
        ) from None
    begin.argtypes = end.argtypes = [ctypes.c_void_p]
    begin(entry)
    try:
        yield
    finally:
        end(entry)


def _shared_library(path: str) -> str:
    """Return the path with the platform's ending of a library."""
    for ending in ("", ".so", ".dylib", ".dll"):
        if os.path.isfile(path + ending):
            return path + ending
    return path


open_engine = _SqliteVec
