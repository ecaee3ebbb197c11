"""A database that is open: transactions for reading and for writing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine

from assay.errors import StorageError
from assay.store.locations import Location
from assay.store.trouble import trouble_named

__all__ = ["Database"]


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
