"""compare_tasks: systems on many tasks, from tables, stored runs, or results of mteb."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from assay.comparison.task_values import ScoredTasks, values_of_lines, values_of_scores
from assay.comparison.tasks import TaskComparison, compare_task_values
from assay.errors import MismatchError, UsageError
from assay.io.mteb import read_mteb
from assay.io.task_tables import TaskLines, join_lines, read_task_lines, task_lines
from assay.measures import Measure
from assay.runs.record import HasRecord
from assay.scoring.scores import Scores

__all__ = ["compare_tasks"]


def compare_tasks(
    source: Any,
    *,
    units: str | None = None,
    missing: str = "refuse",
    only: Collection[str] = (),
    measure: str | Measure | None = None,
    split: str = "test",
    languages: Collection[str] = (),
    level: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> TaskComparison:
    """Compare systems on the mean over many tasks, in which each task weighs the same.

    `source` is a table with columns system, task, query and value (a path, several paths, a data
    frame, records; without query, values are means of tasks), folders of results of mteb, runs of a
    store or records, whose datasets are the tasks, or {system: {task: Scores}}.

    `units` is what is resampled: "queries" within tasks, which says who is better on these tasks,
    or "tasks", which says who is better on tasks like these, and is all that means allow. `missing`
    is what happens where a system lacks a task: "refuse", "drop-task" or "drop-system". `only`
    names the tasks to take, `measure` one measure of runs, `split` and `languages` (such as "eng")
    the results of mteb to read.

    >>> rows = [(s, t, q, v + q % 3 / 10) for s, v in (("new", 0.6), ("old", 0.2))
    ...         for t in ("NQ", "FiQA") for q in range(9)]
    >>> table = [dict(zip(("system", "task", "query", "value"), row)) for row in rows]
    >>> compare_tasks(table).standings[0].name
    'new'
    """
    chosen: dict[str, Any] = {"missing": missing, "only": only}
    scored = _scores_of(source)
    if scored is not None:
        in_order = dict(sorted(scored.items()))  # as those of a table
        values = values_of_scores(in_order, measure=measure, **chosen)
    else:
        lines = _lines_of(source, {"split": split, "only": only, "languages": languages})
        values = values_of_lines(
            lines.in_order(), measure="" if measure is None else str(measure), **chosen
        )
    return compare_task_values(values, units=units, level=level, resamples=resamples, seed=seed)


def _scores_of(source: Any) -> ScoredTasks | None:
    """The scores of runs or of a dictionary; None for anything else."""
    if isinstance(source, Mapping):
        return _of_mapping(source)
    plain = isinstance(source, list | tuple) and len(source) > 0
    if plain and all(callable(getattr(run, "record", None)) for run in source):
        return _of_records(source)
    return None


def _lines_of(source: Any, of_mteb: Mapping[str, Any]) -> TaskLines:
    """The lines of tables, of records, or of folders of mteb."""
    paths = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(paths, list | tuple) or not paths or not all(map(_is_path, paths)):
        return task_lines(source)
    folders = [path for path in paths if os.path.isdir(path)]
    if not folders:
        return join_lines([read_task_lines(path) for path in paths])
    if len(folders) < len(paths):
        raise UsageError("Give tables, or folders of results of mteb, but not both.")
    return read_mteb(folders, **of_mteb)


def _is_path(item: Any) -> bool:
    return isinstance(item, str | os.PathLike)


def _of_mapping(source: Mapping[Any, Any]) -> dict[str, dict[str, tuple[Scores, str]]]:
    found: dict[str, dict[str, tuple[Scores, str]]] = {}
    for system, own in source.items():
        if not isinstance(system, str) or not isinstance(own, Mapping):
            raise UsageError("A dictionary holds {system: {task: Scores}}.")
        for task, scores in own.items():
            if not isinstance(task, str) or not isinstance(scores, Scores):
                raise UsageError(
                    f"{system!r} holds {type(scores).__name__} for the task {task!r}; give Scores, "
                    "as evaluate() gives them."
                )
            found.setdefault(task, {})[system] = (scores, "")
    if not found:
        raise UsageError("There are no systems; a dictionary holds {system: {task: Scores}}.")
    return found


def _of_records(runs: Iterable[HasRecord]) -> dict[str, dict[str, tuple[Scores, str]]]:
    """Scores by dataset and name; a name has one run on a dataset."""
    found: dict[str, dict[str, tuple[Scores, str]]] = {}
    places: dict[tuple[str, str], str] = {}
    for run in runs:
        record = run.record()
        place = f"run {run.id}" if hasattr(run, "id") else f"run {record.name!r}"
        if not record.dataset:
            raise MismatchError(
                f"{place.capitalize()} names no dataset, which is its task here. Save runs with a "
                "dataset."
            )
        cell = (record.dataset, record.name)
        if cell in places:
            raise MismatchError(
                f"{record.name!r} has two runs on {record.dataset!r}: {places[cell]} and {place}. "
                "Choose one of them."
            )
        places[cell] = place
        found.setdefault(record.dataset, {})[record.name] = (record.scored(), record.clusters)
    return found
