"""Run: one evaluation in a store, and its rows there: fields, packed numbers and results."""

from __future__ import annotations

import hashlib
import json
import shlex
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from assay.arrays import Floats
from assay.core import checks
from assay.errors import MismatchError, StorageError, UsageError
from assay.io.fingerprints import git_commit, versions
from assay.plugins import find_hook
from assay.runs.record import RunRecord, names_of
from assay.runs.results import (
    Aggregate,
    LazyResults,
    QueryResults,
    aggregates_of_record,
    canonical,
    results_from_data,
    results_to_data,
)
from assay.scoring.scores import Scores
from assay.store import codec
from assay.store.codec import RunColumn, column
from assay.store.tables import list_table, summary_page
from assay.tables.table import Page, Shown

if TYPE_CHECKING:
    from assay.store.store import Store


_DIGITS: Final = 16


@dataclass(frozen=True, repr=False)
class Run(Shown):
    """What was run, its status and its aggregates; per-query values load on demand.

    `id` counts within one store, `uid` is the same in every copy. `status` is running, finished or
    failed, with a `message`. `origin` says which file a run was imported from. `digest` is over
    all that the run shows, and `digest_from` says since when it vouches for it.

    Example:
        run = store.run(1)
        run.means()["nDCG@10"], run.scores()
    """

    id: int = field(metadata=column(codec.COUNT, exported=False))
    uid: str = field(metadata=column(codec.NAME))
    batch: str = field(metadata=column(codec.NAME, recorded=True))
    rerun_of: str = field(metadata=column(codec.NAME, recorded=True))
    name: str = field(metadata=column(codec.NAME, recorded=True))
    task: str = field(metadata=column(codec.NAME, recorded=True))
    dataset: str = field(metadata=column(codec.NAME, recorded=True))
    model: str = field(metadata=column(codec.NAME, recorded=True))
    status: str = field(metadata=column(codec.TEXT))
    message: str = field(metadata=column(codec.TEXT))
    created: str = field(metadata=column(codec.TIME))
    updated: str = field(metadata=column(codec.TIME, exported=False))
    finished: str | None = field(metadata=column(codec.TIME_OR_NONE))
    seconds: float | None = field(metadata=column(codec.SECONDS))
    n_queries: int = field(metadata=column(codec.COUNT))
    done: int = field(metadata=column(codec.COUNT, exported=False))
    total: int = field(metadata=column(codec.COUNT, exported=False))
    conventions: str = field(metadata=column(codec.TEXT))
    signature: str = field(metadata=column(codec.TEXT))
    search: str = field(metadata=column(codec.TEXT))
    command: tuple[str, ...] = field(metadata=column(codec.TEXTS, recorded=True))
    folder: str = field(metadata=column(codec.TEXT, recorded=True))
    origin: str = field(metadata=column(codec.TEXT, exported=False))
    git_commit: str = field(metadata=column(codec.TEXT))
    config: dict[str, Any] = field(metadata=column(codec.OBJECT, recorded=True))
    versions: dict[str, Any] = field(metadata=column(codec.OBJECT))
    seeds: dict[str, Any] = field(metadata=column(codec.OBJECT, recorded=True))
    data: dict[str, Any] = field(metadata=column(codec.OBJECT, recorded=True))
    timings: dict[str, float] = field(metadata=column(codec.STEPS, recorded=True))
    notes: str = field(metadata=column(codec.TEXT, recorded=True, sealed=False))
    digest: str = field(default="", metadata=column(codec.TEXT, exported=False, sealed=False))
    digest_from: str = field(default="", metadata=column(codec.TEXT))
    tags: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    _store: Store | None = field(default=None, repr=False, compare=False)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures, in the order in which they were computed."""
        return tuple(dict.fromkeys(aggregate.measure for aggregate in self.aggregates))

    def aggregate(
        self, measure: str, *, average: str = "micro", by: str = "", subset: str = ""
    ) -> Aggregate:
        """Return one aggregate, the mean over queries unless another is named."""
        key = (canonical(measure), average, by, subset)
        for aggregate in self.aggregates:
            if (aggregate.measure, aggregate.average, aggregate.by_column, aggregate.subset) == key:
                return aggregate
        have = ", ".join(self.measures) or "none"
        raise UsageError(f"Run {self.id} has no value of {measure!r}. Measures: {have}.")

    def means(self) -> dict[str, float | None]:
        """Return the means over all queries by measure."""
        return {mean.measure: mean.value for mean in self.aggregates if mean.is_overall}

    @property
    def clusters(self) -> str:
        """The group column that intervals resample as whole groups; empty if query by query."""
        columns = (mean.clusters for mean in self.aggregates if mean.is_overall)
        return next(filter(None, columns), "")

    @property
    def query_set(self) -> str:
        """A fingerprint of the queries, their candidates and answers, where a task stored one."""
        return str(self.config.get("query_set", ""))

    def scores(self) -> Scores:
        """Return the scores, bit for bit as they were saved."""
        return self._open_store().scores_of(self)

    def values(self, measure: str) -> Floats:
        """Return the values of one measure by query; quicker than scores."""
        return self._open_store().values_of(self, measure)

    def details(self) -> dict[str, Any]:
        """Return a task's details, stored with the scores."""
        return self._open_store().details_of(self)

    def wide(self) -> dict[str, float | str | None]:
        """Return the row under another program's column names, if stored."""
        return self._open_store().wide_of(self)

    @property
    def has_results(self) -> bool:
        """Whether texts and retrieved documents of any query were stored."""
        return self._open_store().has_results(self)

    def results(self, query_id: str | int) -> QueryResults | None:
        """Return one query's text and retrieved documents; None if not stored."""
        return self._open_store().results_of(self, str(query_id))

    def all_results(self) -> dict[str, QueryResults]:
        """Return the results of every query, by query id."""
        return self._open_store().all_results_of(self)

    def record(self) -> RunRecord:
        """Return the run as a record, with its values and chance."""
        if self.status != "finished" or not (self.conventions or self.aggregates):
            why = f"is {self.status}" if self.status != "finished" else "has no per-query values"
            raise UsageError(f"Run {self.id} ({self.name!r}) {why}. Choose another run.")
        scores = self.scores() if self.conventions else None
        means = [mean for mean in self.aggregates if mean.is_overall]
        chance = {mean.measure: mean.chance for mean in means if mean.chance is not None}
        ceiling = {mean.measure: mean.ceiling for mean in means if mean.ceiling is not None}
        recorded = {name: getattr(self, name) for name, each in COLUMNS.items() if each.recorded}
        recorded |= {"batch": "", "rerun_of": ""}  # saved again, it is a run of another batch
        computed = scores and {
            (str(measure), by) for measure in scores.measures for by in ("", *scores.groups)
        }
        return RunRecord(
            **recorded,
            scores=scores,
            tags=self.tags,
            chance=chance or None,
            ceiling=ceiling or None,
            # Those that a task gave; means of the scores are computed again.
            aggregates=[
                aggregate
                for aggregate in self.aggregates
                if aggregate.subset
                or (aggregate.measure, aggregate.by_column) not in (computed or ())
            ],
            clusters=self.clusters,
            results=LazyResults(self.all_results),
            details=self.details(),
            wide=self.wide(),
            seconds=self.seconds,
            provenance=_provenance(self),
        )

    def within(self, store: Store) -> Run:
        """Return this run, which finds its values in this store."""
        object.__setattr__(self, "_store", store)
        return self

    def _open_store(self) -> Store:
        if self._store is None:
            raise UsageError("This run is not stored. Open it from a store.")
        return self._store

    def plot(self) -> Any:
        """Plot means with their intervals; needs the extra `report`."""
        overall = [mean for mean in self.aggregates if mean.is_overall]
        means = [(mean.measure, mean) for mean in overall if mean.value is not None]
        if not means:
            raise UsageError(f"Run {self.id} is {self.status} and has no means. Choose another.")
        return find_hook("plot_aggregates")(means, "mean")

    def page(self) -> Page:
        """Return facts, means and signature."""
        return summary_page(self)


# Everything about the columns of a run follows from this: the schema, rows, exports and imports.
COLUMNS: Final[dict[str, RunColumn]] = {
    each.name: each.metadata["column"] for each in fields(Run) if "column" in each.metadata
}


def refuse_other_query_sets(runs: Sequence[Run]) -> None:
    """Reject runs whose queries differ despite equal ids."""
    by_query_set = {run.query_set: run for run in runs if run.query_set}
    if len(by_query_set) > 1:
        first, second = list(by_query_set.values())[:2]
        raise MismatchError(
            f"Runs {first.id} ({first.name!r}) and {second.id} ({second.name!r}) have "
            "different query sets: equal ids stand for different queries, candidates or "
            "answers. Compare runs with the same settings."
        )


def _provenance(run: Run) -> dict[str, str]:
    files = (
        f"{file} {str(mark.get('sha256', ''))[:_DIGITS]}".strip()
        for file, mark in run.data.items()
        if isinstance(mark, dict)
    )
    facts = {
        "stored run": f"{run.id} ({run.uid[:8]})",
        "began (UTC)": run.created[:16].replace("T", " "),
        "dataset": run.dataset,
        "model": run.model if run.model != run.name else "",
        "command": shlex.join(("assay", *run.command)) if run.command else "",
        "files with SHA-256": ", ".join(files),
        "Assay": str(run.versions.get("assay", "")),
        "commit": run.git_commit[:_DIGITS],
    }
    return {key: value for key, value in facts.items() if value}


class RunList(Shown, list[Run]):
    """A list of runs: a table in a notebook, and a chart of one measure."""

    def plot(self, measure: str | None = None) -> Any:
        """Plot means with their intervals; needs the extra `report`.

        Without a measure it is the first that all of the runs have.
        """
        if measure is None:
            means = [run.means() for run in self]
            shared = [each for each in means[0] if all(each in m for m in means)] if means else []
            if not shared:
                raise UsageError(f"{len(self)} runs share no measure. Choose other runs.")
            measure = shared[0]
        name = canonical(measure)
        pairs = [
            (label, mean)
            for label, run in zip(names_of(self), self, strict=True)
            for mean in run.aggregates
            if mean.measure == name and mean.is_overall and mean.value is not None
        ]
        if not pairs:
            raise UsageError(f"None of the {len(self)} runs has a mean of {name!r}.")
        return find_hook("plot_aggregates")(
            sorted(pairs, key=lambda pair: -(pair[1].value or 0.0)), name
        )

    def page(self) -> Page:
        """Return a row per run."""
        return [list_table(self)]


# A record as the rows of a store: the row of its run, and its numbers and results, packed


def start_values(record: RunRecord) -> dict[str, Any]:
    """Return the fields of a run that begins now with this record."""
    created = codec.now()
    return {
        **{name: getattr(record, name) for name, column in COLUMNS.items() if column.recorded},
        "uid": uuid.uuid4().hex,
        "batch": record.batch or uuid.uuid4().hex,
        "model": record.model or record.name,
        "status": "running",
        "created": created,
        "updated": created,
        "git_commit": git_commit(),
        "versions": versions(),
        "digest_from": codec.SAVED,
    }


def to_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that hold these fields of a run."""
    return {name: COLUMNS[name].kind.write(value, name) for name, value in values.items()}


def from_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run that these cells hold."""
    return {
        name: row[name] if column.kind.read is None else column.kind.read(row[name])
        for name, column in COLUMNS.items()
    }


@dataclass(frozen=True)
class Payload:
    """Scores and details as arrays, aggregates, results of queries, and columns of the run.

    `columns` are those that say how the numbers were computed: conventions, signature, search.
    `wide` is the row under another program's column names.
    """

    blobs: tuple[codec.Blob, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    results: tuple[codec.Blob, ...] = ()
    wide: Mapping[str, float | str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, record: RunRecord) -> Payload:
        """Compute means, counts and intervals of the scores, and pack all of the record."""
        blobs = [] if record.scores is None else list(codec.pack_scores(record.scores))
        if record.details:
            blobs.append(codec.pack_json("details", codec.json_text(record.details, "details")))
        columns = score_columns(record.scores)
        if record.scores is None and "signature" in record.details:
            columns |= {"signature": str(record.details["signature"])}
            columns |= {"n_queries": max((number.n for number in record.aggregates), default=0)}
        if record.timings:
            columns["timings"] = record.timings
        results = tuple(pack_results(record.results))
        return cls(tuple(blobs), tuple(aggregates_of_record(record)), columns, results, record.wide)


def score_columns(scores: Scores | None) -> dict[str, Any]:
    """Return the fields that say how scores were computed."""
    if scores is None:
        return {}
    return {
        "n_queries": scores.n_queries,
        "conventions": scores.conventions.signature(),
        "signature": scores.signature,
        "search": scores.search,
    }


def key_of(query: str) -> str:
    """Return the key of a query: ids may be too long for an index."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()


def pack_results(results: Mapping[str, QueryResults]) -> Iterable[codec.Blob]:
    """Yield a JSON text for each query, to be read alone."""
    checks.require(results, Mapping, "results", "a dictionary from query id to QueryResults")
    for position, (query, result) in enumerate(results.items()):
        checks.require(query, str, "a query id of results", "a text")
        checks.require(result, QueryResults, f"results[{query!r}]", "a QueryResults")
        yield codec.pack_json(
            "shown", json.dumps([query, results_to_data(result)]), position, key_of(query)
        )


def unpack_results(blob: codec.Blob) -> tuple[str, QueryResults]:
    """Return the query and its results."""
    query, data = _unpack_query(blob)
    try:
        return query, results_from_data(data)
    except (ValueError, TypeError, UsageError):
        raise _unreadable() from None


def unpack_text(blob: codec.Blob) -> tuple[str, str]:
    """Return the query and its text alone, which is quicker."""
    query, data = _unpack_query(blob)
    text = data.get("text") if isinstance(data, dict) else None
    return query, text if isinstance(text, str) else ""


def _unpack_query(blob: codec.Blob) -> tuple[str, Any]:
    try:
        query, data = json.loads(codec.unpack_json(blob))
    except (ValueError, TypeError):
        raise _unreadable() from None
    if not isinstance(query, str) or key_of(query) != blob.name:
        raise StorageError(f"The results of query {query!r} are damaged. Restore a backup.")
    return query, data


def _unreadable() -> StorageError:
    return StorageError("The results of a query are damaged. Restore a backup.")
