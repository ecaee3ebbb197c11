"""Run: one evaluation in a store."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from assay.arrays import Floats
from assay.display import plot_aggregates
from assay.errors import MismatchError, UsageError
from assay.runs.aggregates import canonical
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate, LazyResults
from assay.tables.page import html_page

if TYPE_CHECKING:
    from assay.runs.results import QueryResults
    from assay.scoring.scores import Scores
    from assay.store.store import Store

_DIGITS: Final = 16

__all__ = ["Run", "RunList", "names_of", "refuse_other_query_sets"]


@dataclass(frozen=True)
class Run:
    """What was run, its status and its aggregates; per-query values load on demand.

    `id` counts within one store, `uid` is the same in every copy. `status` is running, finished or
    failed, with a `message`. `origin` says which file a run was imported from. `digest` is over
    all that the run shows, and `digest_from` says since when it vouches for it.
    """

    id: int
    uid: str
    batch: str
    rerun_of: str
    name: str
    task: str
    dataset: str
    model: str
    status: str
    message: str
    created: str
    updated: str
    finished: str | None
    seconds: float | None
    n_queries: int
    done: int
    total: int
    conventions: str
    signature: str
    search: str
    command: tuple[str, ...]
    folder: str
    origin: str
    git_commit: str
    config: dict[str, Any]
    versions: dict[str, Any]
    seeds: dict[str, Any]
    data: dict[str, Any]
    timings: dict[str, float]
    notes: str
    digest: str = ""
    digest_from: str = ""
    tags: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    _store: Store | None = field(default=None, repr=False, compare=False)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures, in the order in which they were computed."""
        return tuple(dict.fromkeys(one.measure for one in self.aggregates))

    def aggregate(
        self, measure: str, *, average: str = "micro", by: str = "", subset: str = ""
    ) -> Aggregate:
        """One aggregate, the mean over queries unless another is named."""
        wanted = (canonical(measure), average, by, subset)
        for one in self.aggregates:
            if (one.measure, one.average, one.by_column, one.subset) == wanted:
                return one
        have = ", ".join(self.measures) or "none"
        raise UsageError(f"Run {self.id} has no such value of {measure!r}. Measures: {have}.")

    def means(self) -> dict[str, float | None]:
        """Means over all queries by measure."""
        return {one.measure: one.value for one in self.aggregates if one.is_overall}

    @property
    def clusters(self) -> str:
        """The group column that intervals resample as whole groups; empty if query by query."""
        overall = (one for one in self.aggregates if one.is_overall)
        return next((one.clusters for one in overall if one.clusters), "")

    @property
    def query_set(self) -> str:
        """A fingerprint of the queries, their candidates and answers, where a task stored one."""
        return str(self.config.get("query_set", ""))

    def scores(self) -> Scores:
        """The scores with every value of every query, bit for bit as they were saved."""
        return self._open_store().scores_of(self)

    def values(self, measure: str) -> Floats:
        """The values of one measure, in the order of the query ids; quicker than all scores."""
        return self._open_store().values_of(self, measure)

    def details(self) -> dict[str, Any]:
        """What a task stored beside the scores."""
        return self._open_store().details_of(self)

    def wide(self) -> dict[str, float | str | None]:
        """The row under another program's column names, where a task stored one."""
        return self._open_store().wide_of(self)

    @property
    def has_results(self) -> bool:
        """Whether texts and retrieved documents of any query were stored."""
        return self._open_store().has_results(self)

    def results(self, query_id: str | int) -> QueryResults | None:
        """The text of one query and what was retrieved; None where that was not stored."""
        return self._open_store().results_of(self, str(query_id))

    def all_results(self) -> dict[str, QueryResults]:
        """The results of every query, by query id."""
        return self._open_store().all_results_of(self)

    def record(self) -> RunRecord:
        """The run with its values, the chance beside them, and what the store knows of it."""
        if self.status != "finished" or not self.conventions:
            why = f"is {self.status}" if self.status != "finished" else "has no per-query values"
            raise UsageError(f"Run {self.id} ({self.name!r}) {why}: there is nothing to report on.")
        scores = self.scores()
        known = [one for one in self.aggregates if one.is_overall]
        chance = {one.measure: one.chance for one in known if one.chance is not None}
        ceiling = {one.measure: one.ceiling for one in known if one.ceiling is not None}
        return RunRecord(
            self.name,
            scores,
            task=self.task,
            dataset=self.dataset,
            model=self.model,
            config=self.config,
            seeds=self.seeds,
            data=self.data,
            tags=self.tags,
            notes=self.notes,
            command=self.command,
            folder=self.folder,
            timings=self.timings,
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
        """This run, just read, which finds its values in this store."""
        object.__setattr__(self, "_store", store)
        return self

    def _open_store(self) -> Store:
        if self._store is None:
            raise UsageError("This run does not come from a store.")
        return self._store

    def plot(self) -> Any:
        """A chart of the means over queries with their intervals; needs the extra `report`."""

        found = [
            (one.measure, one)
            for one in self.aggregates
            if one.value is not None and one.is_overall
        ]
        if not found:
            raise UsageError(f"Run {self.id} is {self.status} and has no means to show.")
        return plot_aggregates(found, "mean")

    def _repr_html_(self) -> str:
        from assay.store.tables import summary_page

        return html_page(summary_page(self))


def _own_aggregates(given: Sequence[Aggregate], scores: Scores) -> list[Aggregate]:
    """Those that a task gave; means of the scores are computed from them again."""
    computed = {(str(one), by) for one in scores.measures for by in ("", *scores.groups)}
    return [one for one in given if one.subset or (one.measure, one.by_column) not in computed]


def refuse_other_query_sets(runs: Sequence[Run]) -> None:
    """Refuse runs whose queries have the same ids but are not the same queries."""
    known = {run.query_set: run for run in runs if run.query_set}
    if len(known) > 1:
        first, second = list(known.values())[:2]
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
    found = {
        "stored run": f"{run.id} ({run.uid[:8]})",
        "began (UTC)": run.created[:16].replace("T", " "),
        "dataset": run.dataset,
        "model": run.model if run.model != run.name else "",
        "command": shlex.join(("assay", *run.command)) if run.command else "",
        "files with SHA-256": ", ".join(files),
        "Assay": str(run.versions.get("assay", "")),
        "commit": run.git_commit[:_DIGITS],
    }
    return {key: value for key, value in found.items() if value}


def names_of(runs: Sequence[Run]) -> list[str]:
    """Names of runs; those that are equal get the number of their run."""
    counted = Counter(run.name for run in runs)
    return [run.name if counted[run.name] == 1 else f"{run.name} #{run.id}" for run in runs]


class RunList(list[Run]):
    """A list of runs: a table in a notebook, and a chart of one measure."""

    def plot(self, measure: str | None = None) -> Any:
        """A chart of the means of one measure, the best first; needs the extra `report`.

        Without a measure it is the first that all of the runs have.
        """
        name = self._shared() if measure is None else canonical(measure)
        means = zip(names_of(self), (_mean(run, name) for run in self), strict=True)
        found = [(run, mean) for run, mean in means if mean is not None and mean.value is not None]
        if not found:
            raise UsageError(f"None of the {len(self)} runs has a mean of {name!r}.")
        return plot_aggregates(sorted(found, key=lambda one: -(one[1].value or 0.0)), name)

    def _shared(self) -> str:
        names = [run.means() for run in self]
        found = [name for name in names[0] if all(name in each for each in names)] if names else []
        if not found:
            raise UsageError(f"{len(self)} runs have no measure in common. Name one.")
        return found[0]

    def _repr_html_(self) -> str:
        from assay.store.tables import list_table

        return html_page([list_table(self)])


def _mean(run: Run, measure: str) -> Aggregate | None:
    found = (one for one in run.aggregates if one.measure == measure)
    return next((one for one in found if one.is_overall), None)
