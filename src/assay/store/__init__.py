"""Runs that last: in a file of SQLite, or in PostgreSQL for a team.

import assay.store
with assay.store.open() as store:
    run = store.save(scores, "bm25", task="retrieval", dataset="cranfield")
    store.run(run.id).scores()
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.errors import need
from assay.runs.aggregates import Aggregate
from assay.runs.record import RunRecord
from assay.runs.results import QueryResults, ResultDoc

if TYPE_CHECKING:
    from assay.store.open_run import RunningRun
    from assay.store.run import Run
    from assay.store.store import Store

__all__ = [
    "Aggregate",
    "QueryResults",
    "ResultDoc",
    "Run",
    "RunRecord",
    "RunningRun",
    "Store",
    "open",
]

_HOME = {"Run": "run", "RunningRun": "open_run", "Store": "store"}


def open(
    url: str | os.PathLike[str] | None = None, *, create: bool = True, only_reads: bool = False
) -> Store:
    """Open a store: a file, a PostgreSQL URL, else ASSAY_STORE, else assay.db in this folder.

    It is made where it is absent (unless `create` is false) and upgraded where its schema is old,
    after a backup of the file. A store of a newer version opens for reading only: its `only_reads`
    says so.
    """
    need("sqlalchemy", "a store of runs", "store")
    from assay.store.database import locate
    from assay.store.opening import open_database
    from assay.store.store import Store

    return Store(open_database(locate(url), create=create, only_reads=only_reads))


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'assay.store' has no attribute {name!r}")
    return getattr(import_module(f"assay.store.{_HOME[name]}"), name)
