"""Store: runs that last. Made by `assay.store.open`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import func, select

from assay.errors import StorageError, UsageError
from assay.scores import Floats, Scores
from assay.store import reading, writing
from assay.store.about import About
from assay.store.aggregates import Aggregate, canonical
from assay.store.blobs import unpacked, unpacked_json
from assay.store.database import Database
from assay.store.lines import RunLine, find_lines
from assay.store.numbers import Numbers
from assay.store.packing import unpack_scores
from assay.store.run import Run
from assay.store.run_list import RunList
from assay.store.running import RunningRun
from assay.store.schema import RUNS
from assay.store.shown import ShownQuery, key_of, unpack_shown

__all__ = ["Store"]

Key = int | str


class Store:
    """Runs in a database; close it, or use it in a `with` block.

    `only_reads` says why the store cannot be written, and is empty where it can.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def only_reads(self) -> str:
        """Why nothing can be saved here; empty if it can."""
        return self.database.only_reads

    def __enter__(self) -> Store:
        """The store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Give up all connections."""
        self.database.engine.dispose()

    def __len__(self) -> int:
        """How many runs there are."""
        with self.database.reading() as connection:
            return int(connection.execute(select(func.count()).select_from(RUNS)).scalar_one())

    def __repr__(self) -> str:
        """Where the store is."""
        only = ", for reading only" if self.only_reads else ""
        return f"Store({self.database.location}, schema {self.database.version}{only})"

    def save(
        self,
        scores: Scores | None,
        name: str,
        *,
        aggregates: Iterable[Aggregate] = (),
        chance: Mapping[str, float] | None = None,
        ceiling: Mapping[str, float] | None = None,
        details: Mapping[str, Any] | None = None,
        shown: Mapping[str, ShownQuery] | None = None,
        seconds: float | None = None,
        timings: Mapping[str, float] | None = None,
        clusters: str = "",
        **about: Any,
    ) -> Run:
        """Store scores as a finished run; `about` is what `About` describes: task, dataset, …

        The run is on disk when this returns. With `seconds`, how long it took to compute; with
        `shown`, the text of queries by their id and what was retrieved for them. `clusters` names
        a group column of the scores whose queries are not independent of each other, such as the
        scene of keypoints: intervals, and comparisons of such runs, then draw whole groups.
        """
        known = About.of(name=name, **about)
        numbers = Numbers.of(
            scores, aggregates=aggregates, chance=chance, ceiling=ceiling, details=details,
            shown=shown, timings=timings, clusters=clusters,
        )  # fmt: skip
        row = writing.first_row(known)
        with self.database.writing() as connection:
            run = writing.add_run(connection, row, known.tags)
            writing.finish_run(connection, run, numbers, seconds=seconds)
        return self.run(run)

    @contextmanager
    def running(
        self, name: str, *, resume: Key | None = None, **about: Any
    ) -> Iterator[RunningRun]:
        """A run that others see as running until the block ends: then finished, or failed.

        `resume` takes up a run that did not finish; its kept parts are still there.
        """
        known = About.of(name=name, **about)
        run = self._begun(known) if resume is None else self._resumed(known, resume)
        try:
            yield run
            run.finish()
        except BaseException as error:
            run.fail(error)
            raise

    def _begun(self, about: About) -> RunningRun:
        return RunningRun(self, self.begin(about))

    def begin(self, about: About) -> int:
        """Add a run that is running; gives its number."""
        row = writing.first_row(about)
        with self.database.writing() as connection:
            return writing.add_run(connection, row, about.tags)

    def finish_together(
        self, first: int, results: Sequence[tuple[About, Numbers]], *, seconds: float
    ) -> list[int]:
        """Finish a running run with the first result; the others become runs of the same batch.

        All of them or none; they are on disk when this returns.
        """
        rows = [(about, writing.first_row(about), numbers) for about, numbers in results]
        with self.database.writing() as connection:
            begun = reading.find_run(connection, first)
            shared = {"batch": begun.batch, "created": begun.created}
            runs = [first]
            for about, row, _ in rows[1:]:
                runs.append(writing.add_run(connection, {**row, **shared}, about.tags))
            kept = ("uid", "batch", "status", "created", "updated")
            for run, (_, row, numbers) in zip(runs, rows, strict=True):
                known = {key: value for key, value in row.items() if key not in kept}
                writing.finish_run(connection, run, numbers, seconds=seconds, **known)
        return runs

    def fail(self, run: int, error: BaseException) -> None:
        """Say why a running run has no result."""
        RunningRun(self, run).fail(error)

    def _resumed(self, about: About, key: Key) -> RunningRun:
        """The same run goes on, if it is about the same."""
        row = writing.first_row(about)
        fixed = ("name", "task", "dataset", "model", "config", "seeds", "data")
        with self.database.writing() as connection:
            old = reading.find_run(connection, key)
            if old.status == "finished":
                raise UsageError(f"Run {old.id} is finished: there is nothing to resume.")
            stored = connection.execute(
                select(*(RUNS.c[name] for name in fixed)).where(RUNS.c.id == old.id)
            ).one()
            changed = [name for name in fixed if stored._mapping[name] != row[name]]
            if changed:
                raise UsageError(
                    f"Run {old.id} cannot be resumed: {', '.join(changed)} is not what it was. "
                    "Begin a new run."
                )
            writing.reopen(connection, old.id)
        return RunningRun(self, old.id)

    def run(self, key: Key) -> Run:
        """One run by its number, or by its uid or the first letters of it."""
        with self.database.reading() as connection:
            return reading.find_run(connection, key).within(self)

    def runs(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        shown: Iterable[str] | None = None,
        **filters: Any,
    ) -> RunList:
        """Runs, newest first, that pass all filters: task, dataset, model, name, tag, status,
        measure, since, until, batch, rerun_of, id, uid.

        Values of queries are not loaded; with `shown`, only the aggregates of these measures are.
        """
        with self.database.reading() as connection:
            found = reading.find_runs(
                connection, limit=limit, offset=offset, shown=shown, **filters
            )
        return RunList(run.within(self) for run in found)

    def lines(self, **filters: Any) -> list[RunLine]:
        """The same runs as a list shows them, quicker: names, state, tags and means.

        With `measures`, only the means of these.
        """
        with self.database.reading() as connection:
            return find_lines(connection, **filters)

    def to_frame(self, backend: str = "pandas", **filters: Any) -> Any:
        """A table with a row for each run and a column for each measure."""
        from assay.store.frames import run_frame

        return run_frame(self.lines(**filters), backend)

    def export(self, file: str | os.PathLike[str], **filters: Any) -> int:
        """Write runs to a .json (all of them), .csv or .parquet file (values of every query)."""
        from assay.store.exports import export_runs

        runs = self.runs(**filters)[::-1]
        export_runs(runs, file)
        return len(runs)

    def load(self, file: str | os.PathLike[str]) -> list[Run]:
        """Take over the runs of an exported file; those that are already here stay as they are.

        All of them or none: a file with a flaw changes nothing. Gives the new runs.
        """
        from assay.store.imports import read_runs

        found = read_runs(file)
        with self.database.writing() as connection:
            here = reading.known_uids(connection, [one.row["uid"] for one in found])
            new = [
                writing.add_imported(connection, one) for one in found if one.row["uid"] not in here
            ]
        return self.runs(id=new)[::-1]

    def tag(self, key: Key, *tags: str) -> None:
        """Add tags to a run."""
        with self.database.writing() as connection:
            writing.add_tags(connection, [reading.find_run(connection, key).id], tags)

    def untag(self, key: Key, *tags: str) -> None:
        """Take tags from a run."""
        with self.database.writing() as connection:
            writing.remove_tags(connection, [reading.find_run(connection, key).id], tags)

    def note(self, key: Key, notes: str) -> None:
        """Write the notes of a run anew."""
        if not isinstance(notes, str):
            raise UsageError(f"Notes are a text, found {notes!r}.")
        with self.database.writing() as connection:
            writing.set_notes(connection, reading.find_run(connection, key).id, notes)

    def delete(self, *keys: Key) -> None:
        """Delete runs with all that belongs to them."""
        with self.database.writing() as connection:
            writing.remove_runs(connection, [reading.find_run(connection, k).id for k in keys])

    def scores_of(self, run: Run) -> Scores:
        """The scores of a run, bit for bit as they were saved."""
        with self.database.reading() as connection:
            blobs = reading.read_blobs(connection, run.id)
        with _named(run):
            return unpack_scores(blobs, run.conventions, search=run.search)

    def values_of(self, run: Run, measure: str) -> Floats:
        """The values of one measure of a run."""
        name = canonical(measure)
        with self.database.reading() as connection:
            blobs = reading.read_blobs(connection, run.id, kind="values", name=name)
        if not blobs:
            have = ", ".join(run.measures) or "none"
            raise UsageError(f"Run {run.id} has no values of {measure!r}. Measures: {have}.")
        with _named(run):
            values: Floats = unpacked(blobs[0])
        return values

    def details_of(self, run: Run) -> dict[str, Any]:
        """What a task stored beside the scores."""
        with self.database.reading() as connection:
            blobs = reading.read_blobs(connection, run.id, kind="details")
        with _named(run):
            found: dict[str, Any] = json.loads(unpacked_json(blobs[0])) if blobs else {}
        return found

    def has_shown(self, run: Run) -> bool:
        """Whether anything is shown of any query of a run."""
        with self.database.reading() as connection:
            return reading.has_shown(connection, run.id)

    def shown_of(self, run: Run, query: str) -> ShownQuery | None:
        """What is shown of one query; nothing else is read."""
        with self.database.reading() as connection:
            blobs = list(reading.read_shown(connection, run.id, [key_of(query)]))
        with _named(run):
            return unpack_shown(blobs[0])[1] if blobs else None

    def all_shown_of(self, run: Run) -> dict[str, ShownQuery]:
        """What is shown of every query of a run."""
        with self.database.reading() as connection, _named(run):
            return dict(map(unpack_shown, reading.read_shown(connection, run.id)))

    def damages(self) -> list[str]:
        """Everything that is broken: pages of the file, arrays that miss their checksum."""
        from assay.store.checking import damages

        return list(damages(self))


@contextmanager
def _named(run: Run) -> Iterator[None]:
    """Say which run a damaged array belongs to."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"Run {run.id} ({run.name!r}): {error}") from None
