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

if TYPE_CHECKING:
    from assay.store.about import About
    from assay.store.aggregates import Aggregate
    from assay.store.run import Run
    from assay.store.running import RunningRun
    from assay.store.shown import ShownDoc, ShownQuery
    from assay.store.store import Store

__all__ = ["About", "Aggregate", "Run", "RunningRun", "ShownDoc", "ShownQuery", "Store", "open"]

_HOME = {"About": "about", "Aggregate": "aggregates", "Run": "run", "RunningRun": "running",
         "ShownDoc": "shown", "ShownQuery": "shown", "Store": "store"}  # fmt: skip


def open(
    url: str | os.PathLike[str] | None = None, *, create: bool = True, only_reads: bool = False
) -> Store:
    """Open a store: a file, a PostgreSQL URL, else ASSAY_STORE, else assay.db in this folder.

    It is made where it is absent (unless `create` is false) and upgraded where its schema is old,
    after a backup of the file. A store of a newer version opens for reading only: its `only_reads`
    says so.
    """
    from assay.io.packages import need

    need("sqlalchemy", "a store of runs", "store")
    from assay.store.locations import locate
    from assay.store.opening import open_database
    from assay.store.store import Store

    return Store(open_database(locate(url), create=create, only_reads=only_reads))


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'assay.store' has no attribute {name!r}")
    return getattr(import_module(f"assay.store.{_HOME[name]}"), name)
