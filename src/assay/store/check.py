"""Looking for damage: what the database says of itself, and the checksum of every array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import text

from assay.errors import AssayError, StorageError
from assay.store.queries import find_runs

if TYPE_CHECKING:
    from assay.store.run import Run
    from assay.store.store import Store

__all__ = ["damages"]


def damages(store: Store) -> Iterator[str]:
    """A line for each damage."""
    with store.database.reading() as connection:
        if store.database.location.file is not None:
            for (line,) in connection.execute(text("PRAGMA integrity_check")):
                if line != "ok":
                    yield str(line)
            for row in connection.execute(text("PRAGMA foreign_key_check")):
                yield f"a row of {row[0]} belongs to no run"
        for run in find_runs(connection):
            if run.status == "finished":
                yield from _damages_of(run, store, has_scores=bool(run.conventions))


def _damages_of(run: Run, store: Store, *, has_scores: bool) -> Iterator[str]:
    readers: list[Callable[[Run], object]] = [store.details_of, store.all_results_of]
    if has_scores:
        readers.insert(0, partial(_check_scores, store))
    for read in readers:
        try:
            read(run)
        except AssayError as error:
            yield str(error)


def _check_scores(store: Store, run: Run) -> None:
    """The values of queries can be read, and every measure of them has an aggregate."""
    lost = [name for name in map(str, store.scores_of(run).measures) if name not in run.measures]
    if lost:
        raise StorageError(f"Run {run.id} ({run.name!r}): no aggregate of {', '.join(lost)}.")
