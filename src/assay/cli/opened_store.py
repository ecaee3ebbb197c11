"""The store that a command reads, with a word about one that cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from assay.cli import output

if TYPE_CHECKING:
    from assay.store import Store

__all__ = ["opened_store"]


@contextmanager
def opened_store(place: str | None) -> Iterator[Store]:
    """The store, if there is one; say so if it is for reading only."""
    import assay.store

    with assay.store.open(place, create=False) as store:
        if store.only_reads:
            output.narrate(store.only_reads)
        yield store
