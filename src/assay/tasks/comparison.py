"""Systems on many tasks: means over tasks, who is better, and ranks by mean and by Borda count."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np

from assay import __version__
from assay.arrays import Floats
from assay.comparison.alignment import Aligned
from assay.comparison.compare import Comparison
from assay.comparison.pairs import ComparisonSettings, Pair
from assay.comparison.paper import paper_page, paper_table
from assay.comparison.standings import Standing, SystemBlock, pair_data, rank_systems
from assay.comparison.verdict import describe_test
from assay.core.checks import check_choice, name_few
from assay.core.conventions import Conventions, as_settings, query_digest, setting_parts
from assay.core.ids import Ids
from assay.errors import MismatchError, UsageError
from assay.io.lines import build_frame
from assay.measures import Measure
from assay.runs.record import HasRecord
from assay.scoring.scores import Scores
from assay.stats import Interval, JointPairs, compare_jointly, effect, intervals, rank_intervals
from assay.stats.bounded import constant_ends
from assay.stats.choices import LEVEL, RESAMPLES, UNITS
from assay.stats.samples import FEWEST, SAME, finite_or_nan
from assay.tables.table import Cell, Page, Table, Words
from assay.tasks.tables import TaskLines, join_lines, read_mteb, read_task_lines, task_lines
from assay.tasks.values import ScoredTasks, TaskValues, values_of_lines, values_of_scores

_FEW_TASKS: Final = 8  # that fit beside each other on a page


@dataclass(frozen=True, eq=False)
class TaskPair(Pair):
    """Two systems on the mean over tasks; wins, ties and losses count tasks."""

    error: float = math.nan
    _units: tuple[int, str] = (0, "queries")

    @property
    def units(self) -> str:
        """Resampling unit: queries (or groups) within tasks, or tasks."""
        return self._units[1]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self._units[0]

    @property
    def items(self) -> str:
        """Unit of wins, ties and losses."""
        return "tasks"

    @property
    def outcome(self) -> str:
        """Outcome of the pair; equal task means are not identity."""
        outcome = super().outcome
        if outcome == "identical" and self.error > 0:
            return "undecided" if self.untestable else "not separable"
        return outcome

    @property
    def doubt(self) -> str:
        """Not looked for: the differences of queries are not there."""
        return ""

    @property
    def minimum_detectable(self) -> float:
        """Not computed."""
        return math.nan


@dataclass(frozen=True, eq=False, repr=False)
class TaskComparison(Comparison):
    """Systems compared on many tasks, each of which weighs the same; made by `compare_tasks`.

    It is a comparison whose queries are tasks: `values_on` and `differences` are of their means.
    `units` says what was resampled: queries within these tasks, or tasks.
    """

    units: str = field(kw_only=True)
    values: TaskValues = field(kw_only=True)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks."""
        return self.values.tasks

    @property
    def sizes(self) -> dict[str, int]:
        """The number of queries of each task; 1 where only its mean is known."""
        return dict(zip(self.tasks, self.values.sizes.tolist(), strict=True))

    @property
    def task_means(self) -> Floats:
        """Systems × tasks, in the order of `names` and `tasks`."""
        return self.values.means

    @property
    def means_only(self) -> bool:
        """Whether only the means of tasks are known."""
        return self.values.means_only

    @property
    def sample(self) -> str:
        """Number of tasks, and of queries where they were resampled, in words."""
        tasks = "1 task" if len(self.tasks) == 1 else f"{len(self.tasks):,} tasks"
        return (
            tasks if self.units == "tasks" else f"{sum(self.sizes.values()):,} queries of {tasks}"
        )

    @property
    def measure(self) -> str:
        """Compared measure, in words."""
        return str(self.measures[0])

    @property
    def neighbours(self) -> tuple[int, int]:
        """Pairs of neighbours by mean: those without a significant difference, and all."""
        by_names = {frozenset((pair.a, pair.b)): pair for pair in self.pairs}
        ranked = [standing.name for standing in self.standings]
        beside = [by_names[frozenset(two)] for two in pairwise(ranked)]
        return sum(pair.winner is None for pair in beside), len(beside)

    @property
    def verdicts(self) -> tuple[str, ...]:  # type: ignore[override]  # of one block, not by measure
        """Verdict, then the number of neighbours without a significant difference."""
        return self.sentences_on(self.blocks[0])

    def sentences_on(self, block: SystemBlock) -> tuple[str, ...]:
        """Return the verdict, and the number of indistinguishable neighbours."""
        unclear, every = self.neighbours
        undecided = all(pair.outcome == "undecided" for pair in self.pairs)
        if every < 2 or undecided:
            return (block.verdict,)
        said = "Both" if every == 2 else f"All {every}"
        said = f"{unclear} of {every}" if unclear else said
        fate = "differ" if not unclear else "does not differ" if unclear == 1 else "do not differ"
        said += f" neighbouring pairs of the ranking {fate} significantly"
        return (block.verdict, said)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Limits of the numbers, one sentence each."""
        remarks = list(self.aligned.remarks)
        if self.means_only:
            remarks.append(
                "only task means are known, so tasks were resampled: intervals generalise to "
                "similar tasks and ignore the uncertainty within each task"
            )
        borda = self.standings[0].borda_rank
        if borda is not None and borda.note:
            remarks.append(f"no intervals of Borda ranks (they resample tasks): {borda.note}")
        notes = [row.mean.note for row in self.standings if math.isnan(row.mean.low)]
        remarks += [f"no intervals of means: {note}" for note in notes[:1] if note]
        return tuple(remarks)

    @property
    def method(self) -> str:
        """Method of p-values and intervals, and their scope."""
        settings, pairs = self.settings, self.pairs
        span = f"{100 * (1 - settings.level):g} %"
        about = "tasks were resampled: results generalise to similar tasks"
        if self.units != "tasks":
            about = f"{pairs[0].units} were resampled within tasks: results hold for these tasks"
        return (
            f"p: {describe_test(settings, len(pairs), family=self.family)}, {settings.resamples:,} "
            f"resamples, seed {settings.seed}; {about}. Each task weighs the same. Intervals of "
            f"differences are simultaneous ({span} jointly); intervals of means are individual "
            f"{span}. Borda: systems beaten on each task, summed, ties half; its rank intervals "
            f"resample tasks."
        )

    def paper(self, extra: Iterable[Words | Table] = ()) -> Page:
        """Return the table of a paper: the tasks if few, and the mean with superscripts."""
        columns: dict[str, dict[str, Cell]] = {}
        for task, means in zip(self.tasks, self.task_means.T, strict=True):
            if len(self.tasks) <= _FEW_TASKS:
                cells = [Cell(float(mean), "fraction", mean == means.max()) for mean in means]
                columns[task] = dict(zip(self.names, cells, strict=True))
        of = f" {self.values.measure}" if self.values.measure else ""
        caption = f"Mean{of} of {len(self.names)} systems over {self.sample}."
        table = paper_table(self, caption=caption, label="tab:tasks", columns=columns)
        renamed = replace(table, columns=(*table.columns[:-1], "Mean"))
        return paper_page(renamed, self.page(), extra)

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return a row per system, best mean first, as a pandas, polars or pyarrow data frame."""
        rows = [self._standing_data(standing) for standing in self.standings]
        plain = [name for name, value in rows[0].items() if not isinstance(value, dict | list)]
        return build_frame({name: [row[name] for row in rows] for name in plain}, backend)

    def _results(self) -> dict[str, Any]:
        unclear, every = self.neighbours
        return {
            "measure": self.values.measure,
            "systems": list(self.names),
            "tasks": [{"name": name, "queries": n} for name, n in self.sizes.items()],
            "means_only": self.means_only,
            "units": self.units,
            "family": self.family,
            "settings": {"level": self.settings.level, **self.settings.draws},
            "verdict": self.verdict,
            "neighbours": {"not_separable": unclear, "all": every},
            "standings": [self._standing_data(standing) for standing in self.standings],
            "pairs": [pair_data(pair) for pair in self.pairs],
        }

    def _standing_data(self, standing: Standing) -> dict[str, Any]:
        row = self.task_means[self.names.index(standing.name)].tolist()
        return {**standing.to_dict(), "tasks": dict(zip(self.tasks, row, strict=True))}


def compare_task_values(
    values: TaskValues,
    *,
    units: str | None = None,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> TaskComparison:
    """Compare systems on the mean of their means on tasks; see `compare_tasks`.

    Queries are units within their tasks: unit contributions are d / (T · n_t), and the variance of
    a mean is the sum of the variances of the tasks' means over T². Tasks are units as they are:
    their means differ by what tasks and what queries do.
    """
    settings = ComparisonSettings(level=level, resamples=resamples, seed=seed)
    resampled = _choose_units(values, units)
    index_pairs = list(combinations(range(len(values.systems)), 2))
    table, n = values.means, len(values.tasks)
    options: dict[str, Any] = {"level": level, "bounds": values.bounds, **settings.draws}
    if resampled == "queries":
        blocks = {"blocks": values.task_of, "contrasts": [[1 / n] * n]}
        table, options = values.values, {**options, **blocks, "clusters": values.clusters}
    joint = compare_jointly(table, index_pairs, **options)
    over = "one task" if len(values.tasks) == 1 else f"{len(values.tasks)} tasks"
    measure = Measure(f"the mean{f' of {values.measure}' if values.measure else ''} over {over}")
    pairs = tuple(_pairs(values, str(measure), resampled, index_pairs, joint, settings))
    standings = tuple(_standings(values, resampled, pairs, settings))
    aligned = _as_queries(values, measure, resampled, settings)
    return TaskComparison(
        values.systems,
        (measure,),
        None,
        settings,
        standings,
        pairs,
        aligned,
        units=resampled,
        values=values,
    )


def _as_queries(
    values: TaskValues, measure: Measure, units: str, settings: ComparisonSettings
) -> Aligned:
    """Return the means of tasks as the values of queries.

    The signature holds the conventions of scored runs, the tasks, and the resampling.
    """
    tasks = Ids.of(list(values.tasks), "task")
    drawn = {"level": settings.level, **settings.draws}
    parts = setting_parts(as_settings(tasks=query_digest(tasks), units=units, **drawn))
    scored = values.signature or f"version:{__version__}|queries:{values.sizes.sum()}"
    return Aligned(
        names=values.systems,
        measures=(measure,),
        query_ids=tasks,
        values=values.means[:, None],
        clusters=None,
        conventions=Conventions(),
        signature="|".join([scored, *parts]),
        sizes=(len(tasks),) * len(values.systems),
        remarks=values.remarks,
    )


def _choose_units(values: TaskValues, units: str | None) -> str:
    """Return queries, unless only means are known; then only tasks can be resampled."""
    if units is None:
        units = "tasks" if values.means_only else "queries"
    units = check_choice(units, UNITS, "units")
    sizes = zip(values.tasks, values.unit_counts.tolist(), strict=True)
    small = [task for task, n in sizes if n < FEWEST]
    if units == "queries" and values.means_only:
        raise UsageError("Only task means are known. Pass values per query, or units='tasks'.")
    if units == "queries" and small:
        raise MismatchError(
            f"Tasks with fewer than {FEWEST} queries (groups): {name_few(small)}, too few to "
            "resample. Omit them, or pass units='tasks'."
        )
    return units


def _pairs(
    values: TaskValues,
    measure: str,
    units: str,
    index_pairs: Sequence[tuple[int, int]],
    joint: JointPairs,
    settings: ComparisonSettings,
) -> Iterator[TaskPair]:
    names, means = values.systems, values.means
    word = "groups" if units == "queries" and values.clusters is not None else units
    n = len(values.tasks) if units == "tasks" else int(values.unit_counts.sum())
    note = joint.note.replace("queries", word)
    for number, (a, b) in enumerate(index_pairs):
        interval = settings.joint_interval(joint, number, n, note=note)
        yield TaskPair(
            measure,
            names[a],
            names[b],
            float(joint.p[number]),
            settings.joint_test(joint, number, interval),
            replace(effect(means[a], means[b]), mean_difference=interval.estimate),
            settings,
            len(index_pairs),
            float(joint.smallest[number]),
            joint.level_of_one,
            interval,
            (means[a], means[b]),
            None,
            error=float(joint.errors[number]),
            _units=(n, word),
        )


def _standings(
    values: TaskValues, units: str, pairs: Sequence[TaskPair], settings: ComparisonSettings
) -> Iterator[Standing]:
    drawn: dict[str, Any] = {"level": 1 - settings.level, **settings.draws}
    if units == "tasks":
        means = intervals(values.means, **drawn)
    else:
        # Scaled so that the plain mean over all queries is the mean over tasks.
        scale = len(values.task_of) / len(values.tasks) / values.sizes[values.task_of]
        rows = values.values * scale
        means = intervals(rows, strata=values.task_of, clusters=values.clusters, **drawn)
    means = [_within(mean, values.bounds) for mean in means]
    ranked = rank_systems(values.systems, pairs[0].measure, values.means, means, pairs, settings)
    points = borda_points(values.means)
    by_borda = rank_intervals(points, **drawn)
    for standing in ranked:
        i = values.systems.index(standing.name)
        rank = replace(by_borda[i], note=by_borda[i].note.replace("queries", "tasks"))
        yield replace(standing, borda=float(points[i].sum()), borda_rank=rank)


def _within(mean: Interval, bounds: tuple[float, float] | None) -> Interval:
    """Clip to the bounds of the measure, without zero width."""
    if mean.low == mean.high or mean.method == "unseen":
        ends = (math.nan, math.nan)
        if bounds is not None and all(map(math.isfinite, bounds)):
            ends = constant_ends(mean.estimate, mean.n, mean.level, bounds)
        note = "all values of a task are equal: no variation observed"
        return replace(mean, low=ends[0], high=ends[1], note=note)
    return mean if bounds is None else mean.within(*bounds)


def borda_points(values: Any) -> Floats:
    """Return how many other systems each beats on each task (systems × tasks); a tie is half a win.

    Their sum over tasks is the Borda count (de Borda 1781), by which the leaderboards of mteb rank:
    number of systems − mean rank (`_borda_count` in mteb/benchmarks/_create_table.py). Means that
    differ only by rounding tie.

    >>> borda_points([[0.5, 0.2], [0.4, 0.2], [0.1, 0.3]]).tolist()
    [[2.0, 0.5], [1.0, 0.5], [0.0, 2.0]]
    """
    table = finite_or_nan(values, "values", dimensions=2)
    points = np.empty(table.shape)
    for task, column in enumerate(table.T):
        gaps = column[:, None] - column
        tied = np.abs(gaps) <= SAME * np.maximum(np.abs(column[:, None]), np.abs(column))
        points[:, task] = ((gaps > 0) & ~tied).sum(axis=1) + (tied.sum(axis=1) - 1) / 2
    return points


def compare_tasks(
    source: Any,
    *,
    units: str | None = None,
    missing: str = "refuse",
    only: Collection[str] = (),
    measure: str | Measure | None = None,
    split: str = "test",
    languages: Collection[str] = (),
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> TaskComparison:
    """Compare systems on the mean over many tasks of equal weight.

    Args:
        source: A table with columns system, task, query and value (a path, several paths, a data
            frame, records; without query, values are means of tasks), folders of results of mteb,
            runs of a store or records, whose datasets are the tasks, or {system: {task: Scores}}.
        units: What is resampled: "queries" within tasks, which says who is better on these tasks,
            or "tasks", which says who is better on tasks like these, and is all that means allow.
        missing: What happens where a system lacks a task: "refuse", "drop-task" or "drop-system".
        only: The tasks to take.
        measure: One measure of runs.
        split: The split of results of mteb.
        languages: Languages of results of mteb, such as "eng".
        level: Significance level.
        resamples: Number of resamples.
        seed: Seed of the draws.

    Returns:
        The comparison: verdicts, standings, pairs and tables.

    Raises:
        UsageError: The source is of no known kind.
        MismatchError: The systems have no tasks in common.

    Example:
        >>> rows = [(s, t, q, v + q % 3 / 10) for s, v in (("new", 0.6), ("old", 0.2))
        ...         for t in ("NQ", "FiQA") for q in range(9)]
        >>> table = [dict(zip(("system", "task", "query", "value"), row)) for row in rows]
        >>> compare_tasks(table).standings[0].name
        'new'
    """
    selection: dict[str, Any] = {"missing": missing, "only": only}
    scored = _scores_of(source)
    if scored is not None:
        in_order = dict(sorted(scored.items()))  # as those of a table
        values = values_of_scores(in_order, measure=measure, **selection)
    else:
        lines = _lines_of(source, {"split": split, "only": only, "languages": languages})
        values = values_of_lines(
            lines.in_order(), measure="" if measure is None else str(measure), **selection
        )
    return compare_task_values(values, units=units, level=level, resamples=resamples, seed=seed)


def _scores_of(source: Any) -> ScoredTasks | None:
    """Return the scores of runs or of a dictionary; None for anything else."""
    if isinstance(source, Mapping):
        return _of_mapping(source)
    plain = isinstance(source, list | tuple) and len(source) > 0
    if plain and all(callable(getattr(run, "record", None)) for run in source):
        return _of_records(source)
    return None


def _lines_of(source: Any, of_mteb: Mapping[str, Any]) -> TaskLines:
    """Return the lines of tables, of records, or of folders of mteb."""
    paths = [source] if isinstance(source, str | os.PathLike) else source
    if (
        not isinstance(paths, list | tuple)
        or not paths
        or not all(isinstance(path, str | os.PathLike) for path in paths)
    ):
        return task_lines(source)
    folders = [path for path in paths if os.path.isdir(path)]
    if not folders:
        return join_lines([read_task_lines(path) for path in paths])
    if len(folders) < len(paths):
        raise UsageError("Tables and folders of mteb results are mixed. Pass one kind.")
    return read_mteb(folders, **of_mteb)


def _of_mapping(source: Mapping[Any, Any]) -> dict[str, dict[str, tuple[Scores, str]]]:
    scored: dict[str, dict[str, tuple[Scores, str]]] = {}
    for system, tasks in source.items():
        if not isinstance(system, str) or not isinstance(tasks, Mapping):
            raise UsageError("Invalid dictionary. Pass {system: {task: Scores}}.")
        for task, scores in tasks.items():
            if not isinstance(task, str) or not isinstance(scores, Scores):
                raise UsageError(
                    f"{system!r} holds {type(scores).__name__} for the task {task!r}. Pass "
                    "Scores, as evaluate() returns them."
                )
            scored.setdefault(task, {})[system] = (scores, "")
    if not scored:
        raise UsageError("No systems. Pass {system: {task: Scores}}.")
    return scored


def _of_records(runs: Iterable[HasRecord]) -> dict[str, dict[str, tuple[Scores, str]]]:
    """Return scores by dataset and name; a name has one run on a dataset."""
    scored: dict[str, dict[str, tuple[Scores, str]]] = {}
    places: dict[tuple[str, str], str] = {}
    for run in runs:
        record = run.record()
        place = f"run {run.id}" if hasattr(run, "id") else f"run {record.name!r}"
        if not record.dataset:
            raise MismatchError(
                f"{place.capitalize()} names no dataset (the task). Save runs with --dataset."
            )
        cell = (record.dataset, record.name)
        if cell in places:
            raise MismatchError(
                f"{record.name!r} has two runs on {record.dataset!r}: {places[cell]} and "
                f"{place}. Pass one of them."
            )
        places[cell] = place
        scored.setdefault(record.dataset, {})[record.name] = (record.scored(), record.clusters)
    return scored
