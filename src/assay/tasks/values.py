"""The values of systems on many tasks: which tasks and queries all systems have."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from assay.arrays import Flags, Floats, Ints
from assay.comparison.alignment import LEAST_SHARE, Aligned, align, cluster_settings, comparable
from assay.core.checks import check_choice, name_few
from assay.core.conventions import join_settings
from assay.core.text import did_you_mean
from assay.errors import IdError, MismatchError, UsageError
from assay.measures import Measure, parse
from assay.scoring.scores import Scores
from assay.stats.choices import MISSING
from assay.tasks.tables import TaskLines

# The scores of each system on each task, and the column of dependent queries, if any.
ScoredTasks = Mapping[str, Mapping[str, tuple[Scores, str]]]


@dataclass(frozen=True, eq=False)
class TaskValues:
    """Systems × queries of all tasks, without gaps; `task_of` is the task of each query.

    Of tasks that have only means, the mean is the only query. `clusters` are groups of dependent
    queries, `bounds` the least and the largest value of the measure where it is known.
    """

    systems: tuple[str, ...]
    tasks: tuple[str, ...]
    values: Floats
    task_of: Ints
    measure: str
    clusters: Ints | None = None
    bounds: tuple[float, float] | None = None
    signature: str = ""
    remarks: tuple[str, ...] = ()

    @cached_property
    def sizes(self) -> Ints:
        """The number of queries of each task."""
        return np.bincount(self.task_of, minlength=len(self.tasks))

    @cached_property
    def unit_counts(self) -> Ints:
        """The number of queries, or of groups of them, of each task."""
        if self.clusters is None:
            return self.sizes
        units = np.unique(np.stack([self.task_of, self.clusters]), axis=1)
        return np.bincount(units[0], minlength=len(self.tasks))

    @property
    def means_only(self) -> bool:
        """Whether every task has one value of each system."""
        return bool((self.sizes == 1).all())

    @cached_property
    def means(self) -> Floats:
        """Systems × tasks."""
        sums = [np.bincount(self.task_of, row, len(self.tasks)) for row in self.values]
        return np.array(sums) / self.sizes


def values_of_lines(
    lines: TaskLines, *, missing: str = "refuse", only: Collection[str] = (), measure: str = ""
) -> TaskValues:
    """Return the values of a table, on the tasks and queries that all systems have."""
    present = np.zeros((len(lines.systems), len(lines.tasks)), bool)
    present[lines.system, lines.task] = True
    selection = _choose(present, lines.systems, lines.tasks, missing, only)
    inside = selection.rows[lines.system] & selection.columns[lines.task]
    system = (np.cumsum(selection.rows) - 1)[lines.system[inside]]
    task = (np.cumsum(selection.columns) - 1)[lines.task[inside]]
    keys = task * max(len(lines.queries), 1) + lines.query[inside]
    columns, column = np.unique(keys, return_inverse=True)
    _refuse_duplicates(lines, np.flatnonzero(inside), system * len(columns) + column)
    table = np.full((len(selection.systems), len(columns)), np.nan)
    table[system, column] = lines.values[inside]
    task_of = columns // max(len(lines.queries), 1)
    complete, remarks = _complete(table, task_of, selection.tasks)
    return TaskValues(
        selection.systems,
        selection.tasks,
        table[:, complete],
        task_of[complete],
        measure,
        remarks=(*lines.remarks, *selection.remarks, *remarks),
    )


def values_of_scores(
    scored: ScoredTasks,
    *,
    missing: str = "refuse",
    only: Collection[str] = (),
    measure: str | Measure | None = None,
) -> TaskValues:
    """Return the values of scored systems, on one measure that all of them have."""
    tasks = list(scored)
    systems = list(dict.fromkeys(name for runs in scored.values() for name in runs))
    present = np.array([[name in scored[task] for task in tasks] for name in systems], bool)
    selection = _choose(present, systems, tasks, missing, only)
    scores = [scored[task][name][0] for task in selection.tasks for name in selection.systems]
    shared = _choose_measure(scores, measure)
    parts = [_align(task, scored[task], selection.systems, shared) for task in selection.tasks]
    values, groups, remarks = [], [], []
    for task, part in zip(selection.tasks, parts, strict=True):
        defined = ~np.isnan(part.values[:, 0]).any(axis=0)
        if not defined.any():
            raise MismatchError(
                f"Task {task!r}: no query has a value of {shared} in all systems. Omit it."
            )
        remarks += [f"{task}: {remark}" for remark in part.remarks]
        if not defined.all():
            gone = int((~defined).sum())
            remarks.append(f"{task}: {shared} is undefined on {gone} queries (omitted)")
        values.append(part.values[:, 0, defined])
        groups.append(None if part.clusters is None else part.clusters[defined])
    lengths = [each.shape[1] for each in values]
    signatures = [
        dict(entry.partition(":")[::2] for entry in part.signature.split("|")) for part in parts
    ]
    conventions = [{**signature, "queries": ""} for signature in signatures]
    if any(each != conventions[0] for each in conventions):
        remarks.append("the tasks were scored under different conventions")
    return TaskValues(
        selection.systems,
        selection.tasks,
        np.concatenate(values, axis=1),
        np.repeat(np.arange(len(parts)), lengths),
        str(shared),
        _number_groups(groups, lengths),
        shared.bounds,
        # What differs, as the queries do, is listed in the order of tasks.
        "|".join(f"{key}:{value}" for key, value in join_settings(signatures).items()),
        (*selection.remarks, *remarks),
    )


# Systems and tasks


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The systems (rows) and tasks (columns) to compare."""

    systems: tuple[str, ...]
    tasks: tuple[str, ...]
    rows: Flags
    columns: Flags
    remarks: tuple[str, ...]


def _choose(
    present: Flags,
    systems: Sequence[str],
    tasks: Sequence[str],
    missing: str,
    only: Collection[str],
) -> _Chosen:
    """Settle what happens to systems without a task; `only` names the tasks that are wanted."""
    missing = check_choice(missing, MISSING, "missing")
    if isinstance(only, str):
        raise UsageError(f"only is the text {only!r}. Pass a list of tasks.")
    unknown = next((name for name in only if name not in tasks), None)
    if unknown is not None:
        hint = did_you_mean(unknown, tasks)
        raise UsageError(f"Unknown task {unknown!r}.{hint} Known: {name_few(list(tasks))}.")
    columns = np.array([not only or task in only for task in tasks], bool)
    rows = np.asarray(present[:, columns].any(axis=1))
    gaps = ~present & rows[:, None] & columns
    remarks = []
    if gaps.any():
        if missing == "refuse":
            raise MismatchError(_describe_gaps(gaps, rows, columns, systems, tasks))
        if missing == "drop-task":
            short, what, every = gaps.any(axis=0), "tasks without a value of all systems", tasks
            columns &= ~short
        else:
            short, what, every = gaps.any(axis=1), "systems without a value of all tasks", systems
            rows &= ~short
        names = [every[i] for i in np.flatnonzero(short).tolist()]
        remarks.append(f"{len(names)} {what} omitted: {name_few(names)}")
    if rows.sum() < 2 or not columns.any():
        raise MismatchError(
            f"Only {int(rows.sum())} systems on {int(columns.sum())} tasks left. Two systems "
            f"and one task are needed{''.join(f' ({text})' for text in remarks)}."
        )
    return _Chosen(
        tuple(systems[i] for i in np.flatnonzero(rows).tolist()),
        tuple(tasks[i] for i in np.flatnonzero(columns).tolist()),
        rows,
        columns,
        tuple(remarks),
    )


def _describe_gaps(
    gaps: Flags, rows: Flags, columns: Flags, systems: Sequence[str], tasks: Sequence[str]
) -> str:
    short = np.flatnonzero(gaps.any(axis=1)).tolist()
    listed = "; ".join(
        f"{systems[i]!r} lacks {name_few([tasks[j] for j in np.flatnonzero(gaps[i]).tolist()], 3)}"
        for i in short[:5]
    )
    more = f"; and {len(short) - 5} more" if len(short) > 5 else ""
    left_tasks = int((columns & ~gaps.any(axis=0)).sum())
    left_systems = int((rows & ~gaps.any(axis=1)).sum())
    return (
        f"{len(short)} of {int(rows.sum())} systems have no value on some tasks: "
        f"{listed}{more}. Add them, or pass missing drop-task ({left_tasks} of "
        f"{int(columns.sum())} tasks are left) or drop-system ({left_systems} systems are "
        "left)."
    )


# Queries


def _refuse_duplicates(lines: TaskLines, rows: Ints, cells: Ints) -> None:
    order = np.argsort(cells, kind="stable")
    again = np.flatnonzero(np.diff(cells[order]) == 0)
    if not len(again):
        return
    first, second = (int(rows[order[again[0] + i]]) for i in (0, 1))
    system, task = lines.systems[lines.system[second]], lines.tasks[lines.task[second]]
    what = "" if lines.means_only else f", query {lines.queries[lines.query[second]]!r}"
    cure = "Add a query column for values per query." if lines.means_only else "Keep one."
    raise IdError(
        f"{lines.where(second)}: system {system!r}, task {task!r}{what} already has a value "
        f"at {lines.where(first)}. {cure}"
    )


def _complete(table: Floats, task_of: Ints, tasks: Sequence[str]) -> tuple[Flags, list[str]]:
    """Return the queries that all systems have, and a remark on the tasks that have others."""
    complete = np.asarray(~np.isnan(table).any(axis=0))
    every = np.bincount(task_of, minlength=len(tasks))
    shared = np.bincount(task_of[complete], minlength=len(tasks))
    for place in np.flatnonzero(shared < LEAST_SHARE * every).tolist():
        raise MismatchError(
            f"Task {tasks[place]!r}: only {shared[place]} of {every[place]} queries have "
            "values of all systems. Score all systems on the same queries."
        )
    short = [
        f"{tasks[i]} ({shared[i]} of {every[i]})" for i in np.flatnonzero(shared < every).tolist()
    ]
    if not short:
        return complete, []
    return complete, [f"queries missing in some systems were omitted: {name_few(short)}"]


# Scores


def _choose_measure(scores: Sequence[Scores], measure: str | Measure | None) -> Measure:
    """Return the named measure, or the first that all have and that is a mean."""
    usable = [
        candidate
        for candidate in scores[0].measures
        if all(candidate in system.measures for system in scores) and comparable(candidate)
    ]
    have = ", ".join(map(str, usable)) or "none"
    if measure is None:
        if not usable:
            raise UsageError("The runs share no mean over queries. Save a common measure.")
        return usable[0]
    named = measure if isinstance(measure, Measure) else parse(measure)
    if named not in usable:
        raise UsageError(f"{named} is not a mean of all runs. Known: {have}.")
    return named


def _align(
    task: str, scored: Mapping[str, tuple[Scores, str]], systems: Sequence[str], measure: Measure
) -> Aligned:
    runs = [scored[name] for name in systems]
    by = cluster_settings((clusters, scores) for scores, clusters in runs).get("by")
    try:
        return align([scores for scores, _ in runs], names=systems, measures=[measure], by=by)
    except MismatchError as error:
        raise MismatchError(f"Task {task!r}: {error}") from None


def _number_groups(groups: Sequence[Any], lengths: Sequence[int]) -> Ints | None:
    """Return numbers of groups over all tasks; None where no task has any."""
    if all(group is None for group in groups):
        return None
    numbers, next_one = [], 0
    for group, length in zip(groups, lengths, strict=True):
        codes = np.arange(length) if group is None else np.unique(group, return_inverse=True)[1]
        numbers.append(codes + next_one)
        next_one += length
    return np.concatenate(numbers).astype(np.int64)
