"""Runs of a store as runs of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from assay import checks
from assay.errors import MeasureError, UsageError
from assay.report.report_run import ReportRun
from assay.store.run import Run, names_of

if TYPE_CHECKING:
    from assay.measures import Measure
    from assay.scores import Scores

__all__ = ["as_report_runs", "only_measures", "shared_measures", "stored_report_run"]

_DIGITS: Final = 16


def stored_report_run(run: Run, *, name: str | None = None) -> ReportRun:
    """The run with its values, the chance beside them, and what the store knows of it."""
    if run.status != "finished" or not run.conventions:
        why = f"is {run.status}" if run.status != "finished" else "has no values of queries"
        raise UsageError(f"Run {run.id} ({run.name!r}) {why}: there is nothing to report on.")
    chance = {
        one.measure: one.chance
        for one in run.aggregates
        if one.chance is not None and not one.by_column and not one.subset
    }
    return ReportRun(
        name or run.name, run.scores(), chance or None, details=_details(run), dataset=run.dataset,
        clusters=run.clusters, question=run.question,
    )  # fmt: skip


def _details(run: Run) -> dict[str, str]:
    import shlex

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


def as_report_runs(runs: Sequence[ReportRun | Run]) -> list[ReportRun]:
    """The same with every stored run made one of a report, under a name of its own."""
    for run in runs:
        if not isinstance(run, Run):
            checks.require(run, ReportRun, "every run", "a ReportRun, or a run of a store")
    stored = [run for run in runs if isinstance(run, Run)]
    names = dict(zip((run.uid for run in stored), names_of(stored), strict=True))
    taken = {run.name for run in runs if isinstance(run, ReportRun)}
    for run in stored:
        if run.name in taken:
            names[run.uid] = f"{run.name} #{run.id}"
    made = [
        stored_report_run(run, name=names[run.uid]) if isinstance(run, Run) else run for run in runs
    ]
    if not stored or len({run.scores.measures for run in made}) == 1:
        return made
    measures = shared_measures([run.scores for run in made])
    return [replace(run, scores=only_measures(run.scores, measures)) for run in made]


def shared_measures(scores: Sequence[Scores]) -> tuple[Measure, ...]:
    """The measures that all have, in the order of the first."""
    found = tuple(m for m in scores[0].measures if all(m in each.measures for each in scores))
    if not found:
        lists = " and ".join(", ".join(map(str, each.measures)) for each in scores[:2])
        raise UsageError(f"The runs have no measure in common: {lists}. Name others.")
    return found


def only_measures(scores: Scores, measures: Iterable[Measure]) -> Scores:
    """The scores of some of the measures."""
    wanted = tuple(measures)
    absent = [measure for measure in wanted if measure not in scores.measures]
    if absent:
        have = ", ".join(map(str, scores.measures))
        raise MeasureError(f"{absent[0]} was not stored; these were: {have}.")
    places = [scores.measures.index(measure) for measure in wanted]
    return replace(scores, measures=wanted, values=scores.values[places], tied=scores.tied[places])
