"""Store: runs in a database. Opened by `assay.store.open`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import func, select

from assay.arrays import Floats
from assay.core import checks
from assay.errors import UsageError
from assay.runs.aggregates import canonical
from assay.runs.record import HasRecord, RunRecord, fingerprint_files
from assay.runs.results import QueryResults
from assay.scoring.scores import Scores
from assay.store import queries, writing
from assay.store.checking import (
    find_damages,
    name_run,
    read_details,
    read_scores,
    refuse_altered,
)
from assay.store.codec import UNSIGNED, unpack_array
from assay.store.database import Database
from assay.store.exports import export_runs
from assay.store.imports import read_runs
from assay.store.open_run import OpenRun
from assay.store.payload import Payload, key_of, unpack_results
from assay.store.run import Run, RunList
from assay.store.schema import RUNS
from assay.store.summaries import RunSummary, find_summaries, run_frame

__all__ = ["Store"]

Key = int | str


class Store:
    """Runs in a database; close it, or use it in a `with` block.

    A finished run never changes; only its tags and notes do, and it may be deleted.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def read_only_reason(self) -> str:
        """Why the store cannot be written; empty where it can."""
        return self.database.read_only_reason

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
        only = ", for reading only" if self.read_only_reason else ""
        return f"Store({self.database.location}, schema {self.database.version}{only})"

    def save(
        self, record: HasRecord | Scores | None, name: str | None = None, **fields: Any
    ) -> Run:
        """Store a record, or scores under a name, as a finished run.

        The run is on disk when this returns. Keywords are the fields of `RunRecord`: task,
        dataset, chance, clusters and others; they replace those of the record. The files of a
        record are read for their fingerprints.
        """
        given = _as_record(record, name, fields)
        (known,) = fingerprint_files([given])
        row = writing.make_row(known)
        payload = Payload.of(known)
        with self.database.writing() as connection:
            run = writing.add_run(connection, row, known.tags)
            writing.finish_run(connection, run, payload, seconds=known.seconds)
        return self.run(run)

    def save_all(self, records: Iterable[HasRecord], *, seconds: float | None = None) -> list[Run]:
        """Store the records of one evaluation as runs of one batch: all of them or none."""
        made = fingerprint_files(one.record() for one in records)
        if not made:
            return []
        first = self.begin(made[0])
        try:
            return [self.run(run) for run in self.finish_together(first, made, seconds=seconds)]
        except BaseException as error:
            first.fail(error)
            raise

    @contextmanager
    def start_run(
        self, name: str, *, resume: Key | None = None, **fields: Any
    ) -> Iterator[OpenRun]:
        """A run that others see as running until the block ends: then finished, or failed.

        Keywords are the fields of `RunRecord`. `resume` continues a run that did not finish; the
        parts that it saved are still there.
        """
        record = RunRecord.of(name=name, **fields)
        run = self.begin(record) if resume is None else self._resume(record, resume)
        try:
            yield run
            run.finish()
        except BaseException as error:
            run.fail(error)
            raise

    def begin(self, record: RunRecord) -> OpenRun:
        """Add a run with the status running; the caller finishes it or lets it fail."""
        row = writing.make_row(record)
        with self.database.writing() as connection:
            return OpenRun(self, writing.add_run(connection, row, record.tags))

    def finish_together(
        self, first: OpenRun, records: Sequence[RunRecord], *, seconds: float | None
    ) -> list[int]:
        """Finish a run with the first record; the others become runs of the same batch.

        All of them or none; they are on disk when this returns.
        """
        rows = [(one, writing.make_row(one), Payload.of(one)) for one in records]
        with self.database.writing() as connection:
            begun = queries.find_run(connection, first.id)
            shared = {"batch": begun.batch, "created": begun.created}
            runs = [first.id]
            for one, row, _ in rows[1:]:
                runs.append(writing.add_run(connection, {**row, **shared}, one.tags))
            fixed = ("uid", "batch", "status", "created", "updated")
            for run, (one, row, payload) in zip(runs, rows, strict=True):
                known = {key: value for key, value in row.items() if key not in fixed}
                took = one.seconds if seconds is None else seconds
                writing.finish_run(connection, run, payload, seconds=took, **known)
        return runs

    def _resume(self, record: RunRecord, key: Key) -> OpenRun:
        """Continue a run that did not finish, if its settings are the same."""
        row = writing.make_row(record)
        fixed = ("name", "task", "dataset", "model", "config", "seeds", "data")
        with self.database.writing() as connection:
            old = queries.find_run(connection, key)
            if old.status == "finished":
                raise UsageError(f"Run {old.id} is finished: there is nothing to resume.")
            stored = connection.execute(
                select(*(RUNS.c[name] for name in fixed)).where(RUNS.c.id == old.id)
            ).one()
            changed = [name for name in fixed if stored._mapping[name] != row[name]]
            if changed:
                raise UsageError(
                    f"Run {old.id} cannot be resumed: {', '.join(changed)} differs from what was "
                    "stored. Start a new run."
                )
            writing.reopen(connection, old.id)
        return OpenRun(self, old.id)

    def run(self, key: Key) -> Run:
        """One run by its number, or by its uid or the first letters of it."""
        with self.database.reading() as connection:
            return queries.find_run(connection, key).within(self)

    def runs(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        measures: Iterable[str] | None = None,
        **filters: Any,
    ) -> RunList:
        """Runs that pass all filters, newest first; per-query values load on demand.

        Filters are task, dataset, model, name, tag, status, measure, since, until, batch,
        rerun_of, id, uid. With `measures`, only the aggregates of these are loaded.
        """
        with self.database.reading() as connection:
            found = queries.find_runs(
                connection, limit=limit, offset=offset, measures=measures, **filters
            )
        return RunList(run.within(self) for run in found)

    def summaries(self, **filters: Any) -> list[RunSummary]:
        """The same runs as rows of a list, which is quicker: names, status, tags and means.

        With `measures`, only the means of these.
        """
        with self.database.reading() as connection:
            return find_summaries(connection, **filters)

    def to_frame(self, backend: str = "pandas", **filters: Any) -> Any:
        """A table with a row for each run and a column for each measure."""
        return run_frame(self.summaries(**filters), backend)

    def export(self, file: str | os.PathLike[str], **filters: Any) -> int:
        """Write runs to a .json (all of them), .csv or .parquet file (values of every query)."""
        runs = self.runs(**filters)[::-1]
        with self.database.reading() as connection:
            for run in runs:
                refuse_altered(connection, run)
        export_runs(runs, file)
        return len(runs)

    def load(self, file: str | os.PathLike[str]) -> list[Run]:
        """Import the runs of an exported file; those that are already here stay as they are.

        All of them or none: a file with an error changes nothing. Returns the new runs.
        """
        found = read_runs(file)
        with self.database.writing() as connection:
            here = queries.known_uids(connection, [one.row["uid"] for one in found])
            new = [
                writing.add_imported(connection, one) for one in found if one.row["uid"] not in here
            ]
        return self.runs(id=new)[::-1]

    def tag(self, key: Key, *tags: str) -> None:
        """Add tags to a run."""
        with self.database.writing() as connection:
            writing.add_tags(connection, queries.find_run(connection, key).id, tags)

    def untag(self, key: Key, *tags: str) -> None:
        """Take tags from a run."""
        with self.database.writing() as connection:
            writing.remove_tags(connection, queries.find_run(connection, key).id, tags)

    def note(self, key: Key, notes: str) -> None:
        """Replace the notes of a run."""
        if not isinstance(notes, str):
            raise UsageError(f"Notes are a text, found {notes!r}.")
        with self.database.writing() as connection:
            writing.set_notes(connection, queries.find_run(connection, key).id, notes)

    def delete(self, *keys: Key) -> None:
        """Delete runs with all that belongs to them."""
        with self.database.writing() as connection:
            writing.remove_runs(connection, [queries.find_run(connection, k).id for k in keys])

    def scores_of(self, run: Run) -> Scores:
        """The scores of a run, bit for bit as they were saved."""
        with self.database.reading() as connection, name_run(run):
            return read_scores(connection, run)

    def values_of(self, run: Run, measure: str) -> Floats:
        """The values of one measure of a run."""
        name = canonical(measure)
        with self.database.reading() as connection:
            blobs = queries.read_blobs(connection, run.id, kind="values", name=name)
        if not blobs:
            have = ", ".join(run.measures) or "none"
            raise UsageError(f"Run {run.id} has no values of {measure!r}. Measures: {have}.")
        with name_run(run):
            values: Floats = unpack_array(blobs[0])
        return values

    def details_of(self, run: Run) -> dict[str, Any]:
        """What a task stored beside the scores."""
        with self.database.reading() as connection, name_run(run):
            return read_details(connection, run)

    def wide_of(self, run: Run) -> dict[str, float | str | None]:
        """The row of a run under another program's column names, as the view has it."""
        with self.database.reading() as connection:
            return queries.read_wide(connection, run.id)

    def has_results(self, run: Run) -> bool:
        """Whether results of any query of a run are stored."""
        with self.database.reading() as connection:
            return queries.has_results(connection, run.id)

    def results_of(self, run: Run, query: str) -> QueryResults | None:
        """The results of one query; nothing else is read."""
        with self.database.reading() as connection:
            blobs = list(queries.read_results(connection, run.id, [key_of(query)]))
        with name_run(run):
            return unpack_results(blobs[0])[1] if blobs else None

    def all_results_of(self, run: Run) -> dict[str, QueryResults]:
        """The results of every query of a run."""
        with self.database.reading() as connection, name_run(run):
            return dict(map(unpack_results, queries.read_results(connection, run.id)))

    def damages(self, *keys: Key) -> list[str]:
        """A line for each damage of the file and of these runs, or of all of them.

        A run is damaged where it does not match its digest, an array its checksum, or a mean the
        values that it was computed from.
        """
        with self.database.reading() as connection:
            return list(find_damages(connection, keys))

    def unsigned(self) -> list[int]:
        """Runs that came from files without digests: nothing vouches for them before that."""
        chosen = select(RUNS.c.id).where(RUNS.c.digest_from == UNSIGNED).order_by(RUNS.c.id)
        with self.database.reading() as connection:
            return list(connection.execute(chosen).scalars())


def _as_record(
    given: HasRecord | Scores | None, name: str | None, fields: Mapping[str, Any]
) -> RunRecord:
    """The record with these fields; scores become one under their name."""
    if given is None or isinstance(given, Scores):
        return RunRecord.of(scores=given, name=name, **fields)
    if not callable(getattr(given, "record", None)):
        checks.require(given, RunRecord, "what is saved", "a RunRecord, or scores with a name")
    record = given.record()
    named = dict(fields) if name is None else {"name": name, **fields}
    return record.but(**named) if named else record
