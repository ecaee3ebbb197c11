"""Store: runs in a database, opened by `assay.store.open`; OpenRun: a run while it runs."""

# ruff: noqa: E402

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from assay.arrays import Floats
from assay.core import checks
from assay.core.text import mask_secrets
from assay.errors import AssayError, StorageError, UsageError, need
from assay.runs.record import HasRecord, RunRecord, check_name, fingerprint_files
from assay.runs.results import QueryResults, canonical
from assay.scoring.scores import Scores

need("sqlalchemy", "a store of runs", "store")  # its message comes before an ImportError

from sqlalchemy import Connection, func, select

from assay.store import codec, queries, writing
from assay.store.database import Database
from assay.store.files import export_runs, read_runs
from assay.store.run import Payload, Run, RunList, key_of, start_values, to_row, unpack_results
from assay.store.schema import BLOBS, RUNS
from assay.store.summaries import RunSummary, find_summaries, run_frame

Key = int | str


class Store:
    """Runs in a database; close it, or use it in a `with` block.

    A finished run never changes; only its tags and notes do, and it may be deleted.

    Args:
        database: The database, as `assay.store.open` opens it.

    Example:
        with assay.store.open("runs.db") as store:
            run = store.save(scores, "bm25", dataset="cranfield", tags=["paper"])
            store.runs(dataset="cranfield", tag="paper")
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def read_only_reason(self) -> str:
        """Why the store cannot be written; empty where it can."""
        return self.database.read_only_reason

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.database.engine.dispose()

    def __len__(self) -> int:
        with self.database.reading() as connection:
            return int(connection.execute(select(func.count()).select_from(RUNS)).scalar_one())

    def __repr__(self) -> str:
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
        described = _as_record(record, name, fields)
        (fingerprinted,) = fingerprint_files([described])
        row = start_values(fingerprinted)
        payload = Payload.of(fingerprinted)
        with self.database.writing() as connection:
            run = writing.add_run(connection, row, fingerprinted.tags)
            writing.finish_run(connection, run, payload, seconds=fingerprinted.seconds)
        return self.run(run)

    def save_all(self, records: Iterable[HasRecord], *, seconds: float | None = None) -> list[Run]:
        """Store the records of one evaluation as runs of one batch: all of them or none."""
        fingerprinted = fingerprint_files(record.record() for record in records)
        if not fingerprinted:
            return []
        first = self.begin(fingerprinted[0])
        try:
            runs = self.finish_together(first, fingerprinted, seconds=seconds)
            return [self.run(run) for run in runs]
        except BaseException as error:
            first.fail(error)
            raise

    @contextmanager
    def start_run(
        self, name: str, *, resume: Key | None = None, **fields: Any
    ) -> Iterator[OpenRun]:
        """Start a run that others see as running until the block ends.

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
        row = start_values(record)
        with self.database.writing() as connection:
            return OpenRun(self, writing.add_run(connection, row, record.tags))

    def finish_together(
        self, first: OpenRun, records: Sequence[RunRecord], *, seconds: float | None
    ) -> list[int]:
        """Finish a run with the first record; other records become runs of the same batch.

        All of them or none; they are on disk when this returns.
        """
        rows = [(record, start_values(record), Payload.of(record)) for record in records]
        with self.database.writing() as connection:
            begun = queries.find_run(connection, first.id)
            shared = {"batch": begun.batch, "created": begun.created}
            siblings = [
                writing.add_run(connection, {**row, **shared}, record.tags)
                for record, row, _ in rows[1:]
            ]
            runs = [first.id, *siblings]
            fixed = ("uid", "batch", "status", "created", "updated")
            for run, (record, row, payload) in zip(runs, rows, strict=True):
                values = {key: value for key, value in row.items() if key not in fixed}
                took = record.seconds if seconds is None else seconds
                writing.finish_run(connection, run, payload, seconds=took, **values)
        return runs

    def _resume(self, record: RunRecord, key: Key) -> OpenRun:
        """Continue a run that did not finish, if its settings are the same."""
        row = to_row(start_values(record))
        fixed = ("name", "task", "dataset", "model", "config", "seeds", "data")
        with self.database.writing() as connection:
            old = queries.find_run(connection, key)
            if old.status == "finished":
                raise UsageError(f"Run {old.id} is finished. Start a new run.")
            stored = connection.execute(
                select(*(RUNS.c[name] for name in fixed)).where(RUNS.c.id == old.id)
            ).one()
            changed = [name for name in fixed if stored._mapping[name] != row[name]]
            if changed:
                raise UsageError(
                    f"Run {old.id} cannot be resumed: {', '.join(changed)} changed. Start a "
                    "new run."
                )
            writing.reopen(connection, old.id)
        return OpenRun(self, old.id)

    def run(self, key: Key) -> Run:
        """Return one run by its number, uid or first letters of it."""
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
        """Return runs that pass all filters, newest first.

        Filters are task, dataset, model, name, tag, status, measure, since, until, batch,
        rerun_of, id, uid. With `measures`, only the aggregates of these are loaded.
        """
        settings = {"limit": limit, "offset": offset, "measures": measures, **filters}
        with self.database.reading() as connection:
            return RunList(run.within(self) for run in queries.find_runs(connection, **settings))

    def summaries(self, **filters: Any) -> list[RunSummary]:
        """Return runs as rows of a list: names, status, tags and means.

        With `measures`, only the means of these.
        """
        with self.database.reading() as connection:
            return find_summaries(connection, **filters)

    def to_frame(self, backend: str = "pandas", **filters: Any) -> Any:
        """Return a table with a row per run and a column per measure."""
        return run_frame(self.summaries(**filters), backend)

    def export(self, file: str | os.PathLike[str], **filters: Any) -> int:
        """Write runs to a .json (all of them), .csv or .parquet file (values of every query)."""
        runs = self.runs(**filters)[::-1]
        with self.database.reading() as connection:
            for run in runs:
                writing.refuse_altered(connection, run)
        export_runs(runs, file)
        return len(runs)

    def load(self, file: str | os.PathLike[str]) -> list[Run]:
        """Import the runs of an exported file; those that are already here stay as they are.

        All of them or none: a file with an error changes nothing. Returns the new runs.
        """
        imported = read_runs(file)
        with self.database.writing() as connection:
            here = queries.known_uids(connection, [run.values["uid"] for run in imported])
            new = [
                writing.add_imported(connection, run)
                for run in imported
                if run.values["uid"] not in here
            ]
        return self.runs(id=new)[::-1]

    def tag(self, key: Key, *tags: str) -> None:
        """Add tags to a run."""
        self._edit(key, writing.add_tags, tags)

    def untag(self, key: Key, *tags: str) -> None:
        """Remove tags from a run."""
        self._edit(key, writing.remove_tags, tags)

    def note(self, key: Key, notes: str) -> None:
        """Replace the notes of a run."""
        if not isinstance(notes, str):
            raise UsageError(f"Notes must be text. Found {notes!r}.")
        self._edit(key, writing.set_notes, notes)

    def _edit(self, key: Key, change: Callable[[Connection, int, Any], None], value: Any) -> None:
        with self.database.writing() as connection:
            change(connection, queries.find_run(connection, key).id, value)

    def delete(self, *keys: Key) -> None:
        """Delete runs with all that belongs to them."""
        with self.database.writing() as connection:
            writing.remove_runs(connection, [queries.find_run(connection, k).id for k in keys])

    def scores_of(self, run: Run) -> Scores:
        """Return the scores of a run, bit for bit as they were saved."""
        with self.database.reading() as connection, writing.name_run(run):
            return writing.read_scores(connection, run)

    def values_of(self, run: Run, measure: str) -> Floats:
        """Return the values of one measure of a run."""
        name = canonical(measure)
        with self.database.reading() as connection:
            is_measure = BLOBS.c.kind == "values", BLOBS.c.name == name
            blobs = queries.read_blobs(connection, run.id, *is_measure)
        if not blobs:
            have = ", ".join(run.measures) or "none"
            raise UsageError(f"Run {run.id} has no values of {measure!r}. Measures: {have}.")
        with writing.name_run(run):
            values: Floats = codec.unpack_array(blobs[0])
        return values

    def details_of(self, run: Run) -> dict[str, Any]:
        """Return a task's details, stored with the scores."""
        with self.database.reading() as connection, writing.name_run(run):
            return writing.read_details(connection, run)

    def wide_of(self, run: Run) -> dict[str, float | str | None]:
        """Return the row of a run under another program's column names."""
        with self.database.reading() as connection:
            return queries.read_wide(connection, run.id)

    def has_results(self, run: Run) -> bool:
        """Return whether results of any query of a run are stored."""
        with self.database.reading() as connection:
            return queries.has_results(connection, run.id)

    def results_of(self, run: Run, query: str) -> QueryResults | None:
        """Return the results of one query; nothing else is read."""
        with self.database.reading() as connection:
            blobs = list(queries.read_results(connection, run.id, [key_of(query)]))
        with writing.name_run(run):
            return unpack_results(blobs[0])[1] if blobs else None

    def all_results_of(self, run: Run) -> dict[str, QueryResults]:
        """Return the results of every query of a run."""
        with self.database.reading() as connection, writing.name_run(run):
            return dict(map(unpack_results, queries.read_results(connection, run.id)))

    def damages(self, *keys: Key) -> list[str]:
        """Return a line for each damage of the file and of runs.

        A run is damaged where it does not match its digest, an array its checksum, or a mean the
        values that it was computed from.
        """
        with self.database.reading() as connection:
            return list(writing.find_damages(connection, keys))

    def unsigned(self) -> list[int]:
        """Return the runs that came from files without digests."""
        statement = (
            select(RUNS.c.id).where(RUNS.c.digest_from == codec.UNSIGNED).order_by(RUNS.c.id)
        )
        with self.database.reading() as connection:
            return list(connection.execute(statement).scalars())


class OpenRun:
    """A run with the status `running`, made by `Store.start_run`.

    Call `set_result` with the scores before the `with` block ends. Long work may save its parts
    on the way (`save_part`, `load_part`), for another attempt after a failure.

    Args:
        store: The store that has the run.
        run: The number of the run.

    Example:
        with store.start_run("bm25", dataset="cranfield") as run:
            run.progress(0, 2, "searching")
            run.set_result(scores)
    """

    def __init__(self, store: Store, run: int) -> None:
        self._store = store
        self.id = run
        self._began = time.perf_counter()
        self._payload = Payload()
        self._timings: dict[str, float] = {}

    def set_result(self, scores: Scores | None, **fields: Any) -> None:
        """Set the numbers of the run; they are stored when the block ends.

        Keywords are the fields of `RunRecord` that hold numbers: aggregates, chance, ceiling,
        clusters, resampling, results, details.
        """
        self._payload = Payload.of(RunRecord.of(name="run", scores=scores, **fields))

    def progress(self, done: int, total: int, now: str = "") -> None:
        """Report progress and the current step to other readers."""
        self._update(done=int(done), total=int(total), message=now)

    def set_name(self, name: str) -> None:
        """Name the run and its model, where that was not known when it began."""
        check_name(name, "name")
        self._update(name=name, model=name)

    def set_dataset(self, dataset: str) -> None:
        """Name the dataset, where it was not known when the run began."""
        check_name(dataset, "dataset")
        self._update(dataset=dataset)

    def _update(self, **values: Any) -> None:
        with self._store.database.writing() as connection:
            writing.update_running(connection, self.id, **values)

    def add_timing(self, name: str, seconds: float) -> None:
        """Store the seconds of a step."""
        self._timings[name] = float(seconds)

    def save_part(self, part: str, scores: Scores) -> Scores:
        """Store the scores of a finished part, so that a later attempt need not compute them."""
        check_name(part, "part")
        checks.require(scores, Scores, "scores", "a Scores")
        head = {"conventions": scores.conventions.signature(), "search": scores.search}
        blobs = [*codec.pack_scores(scores), codec.pack_json("head", codec.json_text(head, "head"))]
        with self._store.database.writing() as connection:
            writing.update_running(connection, self.id)
            writing.remove_parts(connection, self.id, part)
            writing.add_blobs(connection, self.id, blobs, part=part)
        return scores

    def load_part(self, part: str) -> Scores | None:
        """Return the scores of a part stored earlier; None without any.

        A part whose checksum does not match counts as absent: it has to be computed again.
        """
        with self._store.database.reading() as connection:
            blobs = queries.read_blobs(connection, self.id, part=part)
        heads = [blob for blob in blobs if blob.kind == "head"]
        if not heads:
            return None
        try:
            head = json.loads(codec.unpack_json(heads[0]))
            return codec.unpack_scores(blobs, head["conventions"], search=head["search"])
        except (AssayError, ValueError, KeyError):
            return None

    def finish(self) -> None:
        """Store the result; all of it is on disk when this returns."""
        seconds = time.perf_counter() - self._began
        with self._store.database.writing() as connection:
            writing.finish_run(
                connection, self.id, self._payload, seconds=seconds, timings=self._timings
            )

    def fail(self, error: BaseException) -> None:
        """Mark the run as failed, with the reason. Saved parts stay, for another attempt."""
        words = str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else "")
        message = words if isinstance(error, AssayError) else f"{type(error).__name__}: {words}"
        # The first error matters more than one of the store: then the run stays visible as running.
        with suppress(StorageError, UsageError):
            self._update(status="failed", message=mask_secrets(message))


def _as_record(
    source: HasRecord | Scores | None, name: str | None, fields: Mapping[str, Any]
) -> RunRecord:
    """Return the record with these fields; scores get a name."""
    if source is None or isinstance(source, Scores):
        return RunRecord.of(scores=source, name=name, **fields)
    if not callable(getattr(source, "record", None)):
        checks.require(source, RunRecord, "what is saved", "a RunRecord, or scores with a name")
    record = source.record()
    named = dict(fields) if name is None else {"name": name, **fields}
    return record.replace(**named) if named else record
