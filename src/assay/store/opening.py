"""Open stores lazily, so that importing costs little."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from assay.errors import need

if TYPE_CHECKING:
    from assay.store.store import Store


def open(
    url: str | os.PathLike[str] | None = None, *, create: bool = True, read_only: bool = False
) -> Store:
    """Open a store of runs.

    A store of an older schema is upgraded, after a backup of its file. A store of a newer version
    of Assay opens for reading only: its `read_only_reason` says so.

    Args:
        url: A file of SQLite or the URL of a PostgreSQL database; else the one in ASSAY_STORE, else
            assay.db in this folder.
        create: Whether to create the store where it is absent.
        read_only: Whether to open it without changing anything.

    Returns:
        The store; close it, or use it in a `with` block.

    Raises:
        StorageError: The store is absent and not to be created, damaged, or cannot be reached.
        UsageError: The place is neither a file nor a URL of PostgreSQL.
        MissingPackageError: SQLAlchemy (or psycopg for PostgreSQL) is not installed.

    Example:
        >>> with open("runs.db") as store:  # doctest: +SKIP
        ...     store.runs(dataset="cranfield")
    """
    need("sqlalchemy", "a store of runs", "store")
    from assay.store.database import locate, open_database
    from assay.store.store import Store

    return Store(open_database(locate(url), create=create, read_only=read_only))
