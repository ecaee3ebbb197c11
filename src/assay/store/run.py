"""Run: one evaluation as it lies in a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.clustered import clusters_in
from assay.errors import MismatchError, UsageError
from assay.store.aggregates import Aggregate, canonical

if TYPE_CHECKING:
    from assay.scores import Floats, Scores
    from assay.store.shown import ShownQuery
    from assay.store.store import Store

__all__ = ["Run", "names_of", "refuse_other_questions"]


@dataclass(frozen=True)
class Run:
    """What was run, its aggregates and its state; the per-query values load when asked for.

    `id` counts within one store, `uid` is the same in every copy. `status` is running, finished or
    failed, with a `message`. `origin` says which file a run was imported from.
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
    tags: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    _store: Store | None = field(default=None, repr=False, compare=False)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures, in the order in which they were asked for."""
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
        return {
            one.measure: one.value
            for one in self.aggregates
            if not one.by_column and not one.subset
        }

    @property
    def clusters(self) -> str:
        """The group column by which intervals were drawn; empty if query by query."""
        whole = (one for one in self.aggregates if not one.by_column and not one.subset)
        return next((name for one in whole if (name := clusters_in(one.method))), "")

    @property
    def question(self) -> str:
        """A fingerprint of what was asked (keypoints, pools, truth), where a task stored one."""
        return str(self.config.get("query_set", ""))

    def scores(self) -> Scores:
        """The scores with every value of every query, bit for bit as they were saved."""
        return self._opened().scores_of(self)

    def values(self, measure: str) -> Floats:
        """The values of one measure, in the order of the query ids; quicker than all scores."""
        return self._opened().values_of(self, measure)

    def details(self) -> dict[str, Any]:
        """What a task stored beside the scores."""
        return self._opened().details_of(self)

    @property
    def has_shown(self) -> bool:
        """Whether texts and retrieved documents of any query were stored."""
        return self._opened().has_shown(self)

    def shown(self, query_id: str | int) -> ShownQuery | None:
        """The text of one query and what was retrieved; None where that was not stored."""
        return self._opened().shown_of(self, str(query_id))

    def all_shown(self) -> dict[str, ShownQuery]:
        """What is shown of every query, by query id."""
        return self._opened().all_shown_of(self)

    def within(self, store: Store) -> Run:
        """This run, just read, which finds its values in this store."""
        object.__setattr__(self, "_store", store)
        return self

    def _opened(self) -> Store:
        if self._store is None:
            raise UsageError("This run does not come from a store.")
        return self._store

    def plot(self) -> Any:
        """A chart of the means over queries with their intervals; needs the extra `report`."""
        from assay.store.run_list import plotted

        found = [
            (one.measure, one)
            for one in self.aggregates
            if one.value is not None and not one.by_column and not one.subset
        ]
        if not found:
            raise UsageError(f"Run {self.id} is {self.status} and has no means to show.")
        return plotted(found, "mean")

    def _repr_html_(self) -> str:
        from assay.report.page import html_page
        from assay.report.stored_tables import summary_page

        return html_page(summary_page(self))


def refuse_other_questions(runs: Sequence[Run]) -> None:
    """Refuse runs whose queries are called the same, but ask for something else."""
    known = {run.question: run for run in runs if run.question}
    if len(known) > 1:
        first, second = list(known.values())[:2]
        raise MismatchError(
            f"Runs {first.id} ({first.name!r}) and {second.id} ({second.name!r}) answer different "
            "questions: their keypoints, pools or true matches differ, so their means are not "
            "comparable. Compare runs on one set of keypoints and one tolerance."
        )


def names_of(runs: Sequence[Run]) -> list[str]:
    """Names of runs; those that are equal get the number of their run."""
    counted = Counter(run.name for run in runs)
    return [run.name if counted[run.name] == 1 else f"{run.name} #{run.id}" for run in runs]
