"""Run: one evaluation in a store."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from assay.arrays import Floats
from assay.errors import MismatchError, UsageError
from assay.plugins import find_hook
from assay.runs.record import RunRecord, names_of
from assay.runs.results import Aggregate, LazyResults, canonical
from assay.store.codec import (
    COUNT,
    NAME,
    OBJECT,
    SECONDS,
    STEPS,
    TEXT,
    TEXTS,
    TIME,
    TIME_OR_NONE,
    RunColumn,
    column,
)
from assay.store.tables import list_table, summary_page
from assay.tables.table import html_page

if TYPE_CHECKING:
    from assay.runs.results import QueryResults
    from assay.scoring.scores import Scores
    from assay.store.store import Store

_DIGITS: Final = 16


@dataclass(frozen=True)
class Run:
    """What was run, its status and its aggregates; per-query values load on demand.

    `id` counts within one store, `uid` is the same in every copy. `status` is running, finished or
    failed, with a `message`. `origin` says which file a run was imported from. `digest` is over
    all that the run shows, and `digest_from` says since when it vouches for it.
    """

    id: int = field(metadata=column(COUNT, exported=False))
    uid: str = field(metadata=column(NAME))
    batch: str = field(metadata=column(NAME, recorded=True))
    rerun_of: str = field(metadata=column(NAME, recorded=True))
    name: str = field(metadata=column(NAME, recorded=True))
    task: str = field(metadata=column(NAME, recorded=True))
    dataset: str = field(metadata=column(NAME, recorded=True))
    model: str = field(metadata=column(NAME, recorded=True))
    status: str = field(metadata=column(TEXT))
    message: str = field(metadata=column(TEXT))
    created: str = field(metadata=column(TIME))
    updated: str = field(metadata=column(TIME, exported=False))
    finished: str | None = field(metadata=column(TIME_OR_NONE))
    seconds: float | None = field(metadata=column(SECONDS))
    n_queries: int = field(metadata=column(COUNT))
    done: int = field(metadata=column(COUNT, exported=False))
    total: int = field(metadata=column(COUNT, exported=False))
    conventions: str = field(metadata=column(TEXT))
    signature: str = field(metadata=column(TEXT))
    search: str = field(metadata=column(TEXT))
    command: tuple[str, ...] = field(metadata=column(TEXTS, recorded=True))
    folder: str = field(metadata=column(TEXT, recorded=True))
    origin: str = field(metadata=column(TEXT, exported=False))
    git_commit: str = field(metadata=column(TEXT))
    config: dict[str, Any] = field(metadata=column(OBJECT, recorded=True))
    versions: dict[str, Any] = field(metadata=column(OBJECT))
    seeds: dict[str, Any] = field(metadata=column(OBJECT, recorded=True))
    data: dict[str, Any] = field(metadata=column(OBJECT, recorded=True))
    timings: dict[str, float] = field(metadata=column(STEPS, recorded=True))
    notes: str = field(metadata=column(TEXT, recorded=True, sealed=False))
    digest: str = field(default="", metadata=column(TEXT, exported=False, sealed=False))
    digest_from: str = field(default="", metadata=column(TEXT))
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
        raise UsageError(f"Run {self.id} has no such value of {measure!r}. Measures: {have}.")

    def means(self) -> dict[str, float | None]:
        """Return the means over all queries by measure."""
        return {
            aggregate.measure: aggregate.value
            for aggregate in self.aggregates
            if aggregate.is_overall
        }

    @property
    def clusters(self) -> str:
        """The group column that intervals resample as whole groups; empty if query by query."""
        overall = (aggregate for aggregate in self.aggregates if aggregate.is_overall)
        return next((aggregate.clusters for aggregate in overall if aggregate.clusters), "")

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
        """Return what a task stored beside the scores."""
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
        if self.status != "finished" or not self.conventions:
            why = f"is {self.status}" if self.status != "finished" else "has no per-query values"
            raise UsageError(f"Run {self.id} ({self.name!r}) {why}: there is nothing to report on.")
        scores = self.scores()
        means = [mean for mean in self.aggregates if mean.is_overall]
        chance = {mean.measure: mean.chance for mean in means if mean.chance is not None}
        ceiling = {mean.measure: mean.ceiling for mean in means if mean.ceiling is not None}
        recorded = {name: getattr(self, name) for name, each in COLUMNS.items() if each.recorded}
        recorded |= {"batch": "", "rerun_of": ""}  # saved again, it is a run of another batch
        return RunRecord(
            **recorded,
            scores=scores,
            tags=self.tags,
            chance=chance or None,
            ceiling=ceiling or None,
            aggregates=_own_aggregates(self.aggregates, scores),
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
            raise UsageError("This run does not come from a store.")
        return self._store

    def plot(self) -> Any:
        """Plot means with their intervals; needs the extra `report`."""

        means = [
            (aggregate.measure, aggregate)
            for aggregate in self.aggregates
            if aggregate.value is not None and aggregate.is_overall
        ]
        if not means:
            raise UsageError(f"Run {self.id} is {self.status} and has no means to show.")
        return find_hook("plot_aggregates")(means, "mean")

    def _repr_html_(self) -> str:
        return html_page(summary_page(self))


# Everything about the columns of a run follows from this: the schema, rows, exports and imports.
COLUMNS: Final[dict[str, RunColumn]] = {
    each.name: each.metadata["column"] for each in fields(Run) if "column" in each.metadata
}


def _own_aggregates(aggregates: Sequence[Aggregate], scores: Scores) -> list[Aggregate]:
    """Return the aggregates that a task gave, without means of the scores."""
    computed = {
        (str(aggregate), by) for aggregate in scores.measures for by in ("", *scores.groups)
    }
    return [
        aggregate
        for aggregate in aggregates
        if aggregate.subset or (aggregate.measure, aggregate.by_column) not in computed
    ]


def refuse_other_query_sets(runs: Sequence[Run]) -> None:
    """Refuse runs whose queries have the same ids but are not the same queries."""
    by_query_set = {run.query_set: run for run in runs if run.query_set}
    if len(by_query_set) > 1:
        first, second = list(by_query_set.values())[:2]
        raise MismatchError(
            f"Runs {first.id} ({first.name!r}) and {second.id} ({second.name!r}) have different "
            "query sets: queries of the same id differ in what is asked, in their candidates or in "
            "their answers, so the means are not comparable. Compare runs with the same settings."
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


class RunList(list[Run]):
    """A list of runs: a table in a notebook, and a chart of one measure."""

    def plot(self, measure: str | None = None) -> Any:
        """Plot means with their intervals; needs the extra `report`.

        Without a measure it is the first that all of the runs have.
        """
        name = self._shared() if measure is None else canonical(measure)
        means = zip(names_of(self), (_mean(run, name) for run in self), strict=True)
        pairs = [(run, mean) for run, mean in means if mean is not None and mean.value is not None]
        if not pairs:
            raise UsageError(f"None of the {len(self)} runs has a mean of {name!r}.")
        return find_hook("plot_aggregates")(
            sorted(pairs, key=lambda pair: -(pair[1].value or 0.0)), name
        )

    def _shared(self) -> str:
        names = [run.means() for run in self]
        shared = [name for name in names[0] if all(name in each for each in names)] if names else []
        if not shared:
            raise UsageError(f"{len(self)} runs have no measure in common. Name one.")
        return shared[0]

    def _repr_html_(self) -> str:
        return html_page([list_table(self)])


def _mean(run: Run, measure: str) -> Aggregate | None:
    aggregates = (aggregate for aggregate in run.aggregates if aggregate.measure == measure)
    return next((aggregate for aggregate in aggregates if aggregate.is_overall), None)
