"""A store of runs: in a file of SQLite, or in PostgreSQL for a team.

import assay.store
with assay.store.open() as store:
    run = store.save(scores, "bm25", task="retrieval", dataset="cranfield")
    store.run(run.id).scores()
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from assay.errors import need

if TYPE_CHECKING:
    from assay.runs.record import RunRecord
    from assay.runs.results import Aggregate, QueryResults, ResultDoc
    from assay.store.open_run import OpenRun
    from assay.store.run import Run
    from assay.store.store import Store

__all__ = ["Aggregate", "OpenRun", "QueryResults", "ResultDoc", "Run", "RunRecord", "Store", "open"]

# Loaded on first use, so that `import assay.store` loads neither numpy nor sqlalchemy.
_HOME: Final = {
    "Aggregate": "assay.runs.aggregates",
    "OpenRun": "assay.store.open_run",
    "QueryResults": "assay.runs.results",
    "ResultDoc": "assay.runs.results",
    "Run": "assay.store.run",
    "RunRecord": "assay.runs.record",
    "Store": "assay.store.store",
}


def open(
    url: str | os.PathLike[str] | None = None, *, create: bool = True, read_only: bool = False
) -> Store:
    """Open a store: a file, a PostgreSQL URL, else ASSAY_STORE, else assay.db in this folder.

    It is created where it is absent (unless `create` is false) and upgraded where its schema is
    old, after a backup of the file. A store of a newer version opens for reading only: its
    `read_only_reason` says so.
    """
    need("sqlalchemy", "a store of runs", "store")
    from assay.store.database import locate
    from assay.store.opening import open_database
    from assay.store.store import Store

    return Store(open_database(locate(url), create=create, read_only=read_only))


if not TYPE_CHECKING:  # else a checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'assay.store' has no attribute {name!r}")
        return getattr(import_module(_HOME[name]), name)
