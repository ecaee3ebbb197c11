"""The scores of several systems on the queries they share, and clusters of dependent queries.

Queries of one cluster, such as the keypoints of one scene, are not independent of each other. A
stored run names the group column by which its intervals were resampled, and comparisons of such
runs resample and test the same groups.

The values of systems on many tasks: which tasks and queries all systems have.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Floats, Ints
from assay.core.checks import as_list, check_choice, name_few
from assay.core.conventions import Conventions, join_settings
from assay.core.hits import Hits
from assay.core.ids import Ids
from assay.core.mismatches import check_match
from assay.core.text import did_you_mean
from assay.errors import IdError, MismatchError, UsageError
from assay.io.task_tables import TaskLines
from assay.measures import Measure, parse, parse_many
from assay.scoring.scores import Scores, signature_of
from assay.stats.choices import MISSING

_LEAST_SHARE = 0.5  # of the largest query set; with fewer in common, systems are not compared


@dataclass(frozen=True, eq=False)
class Aligned:
    """Systems × measures × queries, with undefined values as the conventions treat them.

    `sizes` says how many queries each system had (queries that are missing and skipped do not
    count), `clusters` which group each query is in, `slices` which slice, `remarks` what was left
    out on the way, and `hits` where documents stand, under `unjudged: bounds`.
    """

    names: tuple[str, ...]
    measures: tuple[Measure, ...]
    query_ids: Ids
    values: Floats
    clusters: NDArray[Any] | None
    conventions: Conventions
    signature: str
    sizes: tuple[int, ...]
    remarks: tuple[str, ...]
    slices: NDArray[Any] | None = None
    hits: tuple[Hits | None, ...] = ()


def align(
    systems: Sequence[Scores],
    *,
    names: Iterable[str] | None,
    measures: Any,
    by: str | None,
    settings: Mapping[str, Any] | None = None,
    slices: str | None = None,
) -> Aligned:
    """Check that the systems belong together, and take the queries that all of them have.

    `settings` are those of the comparison, for the signature.
    """
    for number, scores in enumerate(systems):
        if not isinstance(scores, Scores):
            raise UsageError(
                f"compare takes Scores, as evaluate() gives them; system {number} is of type "
                f"{type(scores).__name__}."
            )
    labels = _check_names(names, len(systems))
    shared, left_out = _choose_measures(systems, measures, labels)
    for what, column in (("by", by), ("slices", slices)):
        if column is not None and not isinstance(column, str):
            raise UsageError(f"{what} is the name of one group column, a text; found {column!r}.")
    answered = [answered_queries(scores) for scores in systems]
    rows = _shared_rows(systems, answered, labels)
    values = np.stack(
        [
            np.stack([_values_to_average(scores, measure)[places] for measure in shared])
            for scores, places in zip(systems, rows, strict=True)
        ]
    )
    return Aligned(
        names=labels,
        measures=shared,
        query_ids=systems[0].query_ids.take(rows[0]),
        values=values,
        clusters=None if by is None else _shared_clusters(systems, rows, by, labels),
        conventions=systems[0].conventions,
        signature=signature_of(systems, settings, queries=systems[0].query_ids.take(rows[0])),
        sizes=tuple(map(len, answered)),
        remarks=(*left_out, *_remarks(systems, labels, answered, values)),
        slices=None if slices is None else _shared_clusters(systems, rows, slices, labels),
        hits=tuple(scores.hits for scores in systems),
    )


def comparable(measure: Measure) -> bool:
    """Return whether the measure is a mean over queries where higher is better.

    A difference of sums or of geometric means is not a mean of per-query differences.
    """
    return measure.definition.aggregate == "mean" and measure.is_quality


def _check_names(names: Iterable[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(chr(65 + i) if count <= 26 else f"S{i + 1}" for i in range(count))
    if isinstance(names, str):
        raise UsageError(f"names is a list, one name for each system; found the text {names!r}.")
    labels = tuple(as_list(names, "names"))
    odd = next((name for name in labels if not isinstance(name, str)), labels)
    if odd is not labels:
        raise UsageError(f"The name of a system is a text; found {odd!r}.")
    if len(labels) != count:
        raise UsageError(f"There are {count} systems and {len(labels)} names; give one for each.")
    twice = next((name for name in labels if labels.count(name) > 1), None)
    if twice is not None or "" in labels:
        raise UsageError(f"Each system needs a name of its own; {twice or ''!r} is not usable.")
    return labels


def _choose_measures(
    systems: Sequence[Scores], measures: Any, names: tuple[str, ...]
) -> tuple[tuple[Measure, ...], list[str]]:
    """Return the measures to compare, and remarks on those that cannot be, if any."""
    depths = {scores.conventions.depth for scores in systems}
    reach = min(depth or math.inf for depth in depths) if len(depths) > 1 else None
    _check_alike(systems, names, measures is None and reach is None)
    if measures is not None:
        if not isinstance(measures, Measure | Iterable):
            raise UsageError(
                f"measures is a text or a list such as ['nDCG@10']; found {measures!r}."
            )
        named = parse_many(measures)
        bad = [measure for measure in named if not comparable(measure)]
        if bad:
            raise UsageError(_not_comparable(bad[:1]))
        if deep := [measure for measure in named if not _reaches(reach, measure)]:
            raise MismatchError(_too_deep(deep, reach))
        return named, []
    first, *others = (scores.measures for scores in systems)
    shared = [m for m in first if _reaches(reach, m) and all(m in other for other in others)]
    usable = tuple(measure for measure in shared if comparable(measure))
    left_out = [measure for measure in shared if not comparable(measure)]
    deep = [measure for measure in first if measure not in shared]
    if not usable:
        raise (
            MismatchError(_too_deep(deep, reach)) if deep else UsageError(_not_comparable(left_out))
        )
    listed = ", ".join(map(str, left_out))
    remark = f"left out, not being a mean over queries where higher is better: {listed}"
    remarks = [remark] if left_out else []
    return usable, [*remarks, f"left out: {_too_deep(deep, reach)}"] if deep else remarks


def _reaches(reach: float | None, measure: Measure) -> bool:
    """Return whether lists cut at `reach` hold all that the measure looks at; None if all do."""
    return reach is None or (isinstance(measure.cutoff, int) and measure.cutoff <= reach)


def _too_deep(measures: Sequence[Measure], reach: float | None) -> str:
    return (
        f"{', '.join(map(str, measures))}. Some systems retrieved {reach} documents for each query "
        f"and others more, so that they compare on cut-offs up to {reach} only"
    )


def _not_comparable(measures: Sequence[Measure]) -> str:
    named = ", ".join(map(str, measures))
    return (
        f"{named} cannot be compared: it is not a mean over queries where higher is better. "
        "Compare AP in place of GMAP, R or P in place of counts."
    )


def _check_alike(systems: Sequence[Scores], names: tuple[str, ...], same_measures: bool) -> None:
    first = systems[0]
    for name, other in zip(names[1:], systems[1:], strict=True):
        left, right = first.conventions, other.conventions
        # A cut of the lists leaves what stands above it, unless it splits ties that count.
        if left != (right.replace(depth=left.depth) if right.ties == "order" else right):
            choices = [item.name for item in fields(left) if item.compare]
            both = [(key, getattr(left, key), getattr(right, key)) for key in choices]
            unlike = [f"{key} is {here} and {there}" for key, here, there in both if here != there]
            raise MismatchError(
                f"{names[0]!r} and {name!r} follow different conventions: {', '.join(unlike)}. "
                "Score both in the same way."
            )
        if same_measures and set(first.measures) != set(other.measures):
            lists = [", ".join(map(str, each.measures)) for each in (first, other)]
            raise MismatchError(
                f"{names[0]!r} and {name!r} have different measures: {lists[0]}; and {lists[1]}. "
                "Name those to compare with measures=."
            )


def answered_queries(scores: Scores) -> Ids:
    """Return the queries that a system answers, without those that are missing and skipped.

    A run that answers only easy queries must not pass for one that answers all.
    """
    if scores.conventions.missing != "skip" or not scores.missing.any():
        return scores.query_ids
    return scores.query_ids.take(np.flatnonzero(~scores.missing))


def _shared_rows(
    systems: Sequence[Scores], answered: Sequence[Ids], names: tuple[str, ...]
) -> list[Ints]:
    """Return for each system the places of the queries that all systems have, in one order."""
    first = answered[0]
    shared = np.ones(len(first), bool)
    for ids_there in answered[1:]:
        shared &= first.match(ids_there) >= 0
    ids = first.take(np.flatnonzero(shared))
    largest = max(map(len, answered))
    if len(ids) < _LEAST_SHARE * largest:
        sizes = list(zip(names, map(len, answered), strict=True))[:5]
        counts = ", ".join(f"{name!r} has {size}" for name, size in sizes)
        raise MismatchError(
            f"Only {len(ids)} queries are in all {len(systems)} systems, less than half of the "
            f"largest set: {counts}{', …' if len(systems) > 5 else ''}. Score them on the same "
            f"queries.{''.join(f' {words}.' for words in _describe_near(names, answered))}"
        )
    return [ids.match(scores.query_ids) for scores in systems]


def _values_to_average(scores: Scores, measure: Measure) -> Floats:
    """Per query what the mean would count: NaN only where the measure is undefined."""
    rules = scores.conventions
    if "error" in (rules.empty, rules.missing):
        scores.mean()
    values = scores[measure]
    return np.where(np.isnan(values), 0.0, values) if rules.empty == "zero" else values


def _shared_clusters(
    systems: Sequence[Scores], rows: list[Ints], by: str, names: tuple[str, ...]
) -> NDArray[Any]:
    groups: NDArray[Any] | None = None
    for name, scores, places in zip(names, systems, rows, strict=True):
        if by not in scores.groups:
            continue
        column = scores.groups[by][places]
        if groups is None:
            groups = column
        elif (groups != column).any():
            row = int(np.argmax(groups != column))
            query, here, there = scores.query_ids[int(places[row])], groups[row], column[row]
            raise MismatchError(
                f"Query {query!r} is in group '{here}' for one system and in '{there}' for "
                f"{name!r}. A query belongs to one group."
            )
    if groups is None:
        raise UsageError(
            f"No system has a group column {by!r}. Add one with scores.with_groups({by}=…)."
        )
    return groups


def _describe_near(names: tuple[str, ...], answered: Sequence[Ids]) -> list[str]:
    """Return queries that systems would share if their ids were written alike."""
    first = answered[0]
    return [
        remark
        for name, ids in zip(names[1:], answered[1:], strict=True)
        for remark in check_match(
            first, ids, f"queries of {names[0]}", name, allow=True, none=False
        )
    ]


def _remarks(
    systems: Sequence[Scores], names: tuple[str, ...], answered: Sequence[Ids], values: Floats
) -> Iterator[str]:
    """Yield which queries were left out, what is odd about the input, and which systems are equal.

    Of one system, its own remarks say it; of two equal ones, the verdict.
    """
    shared = values.shape[2]
    more = [f"{n} has {len(q)}" for n, q in zip(names, answered, strict=True) if len(q) != shared]
    if more:
        rest = f" and {len(more) - 5} more systems have others" if len(more) > 5 else ""
        listed = ", ".join(more[:5])
        yield f"{shared} queries are in all systems and were compared; {listed}{rest}"
    yield from _describe_near(names, answered)
    if len(names) > 1:
        for name, scores in zip(names, systems, strict=True):
            yield from (f"{name}: {remark}" for remark in scores.remarks)
    alike: dict[bytes, list[str]] = {}
    for name, row in zip(names, values, strict=True):
        alike.setdefault(row.tobytes(), []).append(name)
    copies = [same for same in alike.values() if len(same) > 1 and len(names) > 2]
    yield from (f"{' and '.join(same)} are equal on every query" for same in copies[:5])


def cluster_labels(scores: Scores, clusters: str) -> NDArray[Any] | None:
    """Return the group of each query in the column `clusters`; None without a column."""
    if not isinstance(clusters, str):
        raise UsageError(f"clusters is the name of one group column, a text; found {clusters!r}.")
    if not clusters:
        return None
    if clusters not in scores.groups:
        hint = did_you_mean(clusters, scores.groups)
        have = ", ".join(map(repr, scores.groups)) or "none"
        raise UsageError(
            f"The scores have no group column {clusters!r} to resample by.{hint} They have: {have}."
        )
    return scores.groups[clusters]


def cluster_settings(runs: Iterable[tuple[str, Scores]]) -> dict[str, str]:
    """Return arguments of `compare` for runs given by their cluster column and scores.

    None where queries are resampled one by one; where columns differ, that with the fewest groups.
    """
    counts = {
        clusters: len(np.unique(scores.groups[clusters][~np.isnan(scores.values).all(axis=0)]))
        for clusters, scores in runs
        if clusters in scores.groups
    }
    if not counts:
        return {}
    return {"by": min(counts, key=lambda name: (counts[name], name))}


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
            raise MismatchError(f"Task {task!r}: no query has a value of {shared} in all systems.")
        remarks += [f"{task}: {remark}" for remark in part.remarks]
        if not defined.all():
            gone = int((~defined).sum())
            remarks.append(f"{task}: {shared} is undefined on {gone} queries, left out")
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
        raise UsageError(f"only is a list of tasks; found the text {only!r}.")
    unknown = next((name for name in only if name not in tasks), None)
    if unknown is not None:
        hint = did_you_mean(unknown, tasks)
        raise UsageError(f"There is no task {unknown!r}.{hint} There are: {name_few(list(tasks))}.")
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
        remarks.append(f"{len(names)} {what} left out: {name_few(names)}")
    if rows.sum() < 2 or not columns.any():
        raise MismatchError(
            f"There are {int(rows.sum())} systems on {int(columns.sum())} tasks left to compare; "
            f"two systems and one task are the least{''.join(f' ({text})' for text in remarks)}."
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
        f"{len(short)} of {int(rows.sum())} systems have no value on some tasks: {listed}{more}. "
        f"Means over different tasks cannot be compared. Add them, or choose missing drop-task "
        f"({left_tasks} of {int(columns.sum())} tasks are left) or drop-system ({left_systems} "
        f"systems are left)."
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
    cure = (
        "Add a column of queries, if these are values of queries."
        if lines.means_only
        else "Keep one of the two."
    )
    raise IdError(
        f"{lines.where(second)}: system {system!r}, task {task!r}{what} has a value already, at "
        f"{lines.where(first)}. {cure}"
    )


def _complete(table: Floats, task_of: Ints, tasks: Sequence[str]) -> tuple[Flags, list[str]]:
    """Return the queries that all systems have, and a remark on the tasks that have others."""
    complete = np.asarray(~np.isnan(table).any(axis=0))
    every = np.bincount(task_of, minlength=len(tasks))
    shared = np.bincount(task_of[complete], minlength=len(tasks))
    for place in np.flatnonzero(shared < _LEAST_SHARE * every).tolist():
        raise MismatchError(
            f"Task {tasks[place]!r}: only {shared[place]} of {every[place]} queries have a value "
            "of every system. Score the systems on the same queries."
        )
    short = [
        f"{tasks[i]} ({shared[i]} of {every[i]})" for i in np.flatnonzero(shared < every).tolist()
    ]
    if not short:
        return complete, []
    return complete, [f"queries that not all systems have were left out: {name_few(short)}"]


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
            raise UsageError("The runs have no measure in common that is a mean over queries.")
        return usable[0]
    named = measure if isinstance(measure, Measure) else parse(measure)
    if named not in usable:
        raise UsageError(f"{named} is not a measure of all runs that can be compared: {have}.")
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
