"""Systems on many tasks: means over tasks, who is better, and ranks by mean and by Borda count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from assay import __version__
from assay.arrays import Floats
from assay.comparison.pairs import ComparisonSettings, Pair
from assay.comparison.standings import Standing, rank_systems
from assay.comparison.tables import Compared, SystemBlock, pair_data, pair_table, system_table
from assay.comparison.task_values import TaskValues
from assay.comparison.verdict import describe_test
from assay.core.checks import check_choice, name_few
from assay.core.conventions import as_settings, query_digest, setting_parts
from assay.core.ids import Ids
from assay.errors import MismatchError, UsageError
from assay.io.lines import build_frame
from assay.scoring.scores import SCHEMA_VERSION
from assay.stats import (
    Interval,
    JointPairs,
    TestResult,
    compare_jointly,
    effect,
    intervals,
    rank_intervals,
)
from assay.stats.bounded import constant_ends
from assay.stats.choices import LEVEL, RESAMPLES, UNITS
from assay.stats.ranks import borda_points
from assay.stats.samples import FEWEST
from assay.tables.table import Table


@dataclass(frozen=True, eq=False)
class TaskPair(Pair):
    """Two systems on the mean over tasks; wins, ties and losses count tasks."""

    error: float = math.nan
    _units: tuple[int, str] = (0, "queries")

    @property
    def units(self) -> str:
        """What is resampled: queries (groups of them) within tasks, or tasks."""
        return self._units[1]

    @property
    def n_units(self) -> int:
        """How many there are."""
        return self._units[0]

    @property
    def items(self) -> str:
        """What wins, ties and losses count."""
        return "tasks"

    @property
    def outcome(self) -> str:
        """As of every pair; equal means of all tasks do not make systems identical."""
        outcome = super().outcome
        if outcome == "identical" and self.error > 0:
            return "undecided" if self.untestable else "not separable"
        return outcome

    @property
    def queries_needed(self) -> None:
        """Not guessed: queries could be added to any of the tasks."""

    @property
    def minimum_detectable(self) -> float:
        """Not computed."""
        return math.nan


@dataclass(frozen=True, eq=False, repr=False)
class TaskComparison(Compared):
    """Systems compared on many tasks, each of which weighs the same; made by `compare_tasks`.

    `standings` are best mean first, `pairs` in the order of the systems. `units` says what was
    resampled: queries within these tasks, or tasks.
    """

    names: tuple[str, ...]
    units: str
    settings: ComparisonSettings
    standings: tuple[Standing, ...]
    pairs: tuple[TaskPair, ...]
    _values: TaskValues

    baseline = None  # all pairs are tested
    slices = None

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks."""
        return self._values.tasks

    @property
    def sizes(self) -> dict[str, int]:
        """The number of queries of each task; 1 where only its mean is known."""
        return dict(zip(self.tasks, self._values.sizes.tolist(), strict=True))

    @property
    def task_means(self) -> Floats:
        """Systems × tasks, in the order of `names` and `tasks`."""
        return self._values.means

    @property
    def means_only(self) -> bool:
        """Whether only the means of tasks are known."""
        return self._values.means_only

    @property
    def signature(self) -> str:
        """How the numbers were made: the conventions of scored runs, the tasks, the resampling."""
        settings = self.settings
        tasks = query_digest(Ids.of(list(self.tasks), "task"))
        resampling = as_settings(
            tasks=tasks,
            units=self.units,
            level=settings.level,
            resamples=settings.resamples,
            seed=settings.seed,
        )
        scored = (
            self._values.signature or f"version:{__version__}|queries:{self._values.sizes.sum()}"
        )
        return "|".join([scored, *setting_parts(resampling)])

    @property
    def measure(self) -> str:
        """What is compared, in words."""
        return _describe_measure(self._values)

    @property
    def neighbours(self) -> tuple[int, int]:
        """Of all neighbours by mean: how many are not separable, and how many there are."""
        by_names = {frozenset((pair.a, pair.b)): pair for pair in self.pairs}
        ranked = [standing.name for standing in self.standings]
        beside = [by_names[frozenset(two)] for two in pairwise(ranked)]
        return sum(pair.winner is None for pair in beside), len(beside)

    @cached_property
    def blocks(self) -> tuple[SystemBlock, ...]:
        """One block, in which each task weighs the same."""
        means = {standing.name: standing.mean.estimate for standing in self.standings}
        return (SystemBlock("", self.measure, int(self._values.sizes.sum()), means, self.pairs),)

    @property
    def verdicts(self) -> tuple[str, ...]:
        """Who is first and how surely; then how many neighbours cannot be told apart."""
        return self.sentences_on(self.blocks[0])

    def sentences_on(self, block: SystemBlock) -> tuple[str, ...]:
        """Return the verdict, and how many neighbours cannot be told apart."""
        unclear, every = self.neighbours
        undecided = all(pair.outcome == "undecided" for pair in self.pairs)
        if every < 2 or undecided:
            return (block.verdict,)
        are = "is" if unclear == 1 else "are"
        return (block.verdict, f"{unclear} of {every} neighbours {are} not separable")

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What limits the numbers, a sentence each."""
        return (*self._values.remarks, *task_remarks(self))

    @property
    def method(self) -> str:
        """How p-values and intervals were computed, and what they are about."""
        return method_of_tasks(self)

    def pair(self, a: str, b: str) -> TaskPair:
        """Return two systems by name, in either order."""
        for pair in self.pairs:
            if {a, b} == {pair.a, pair.b}:
                return pair
        raise UsageError(f"There is no pair of {a!r} and {b!r}; systems: {name_few(self.names)}.")

    def table(self) -> Table:
        """Systems with means, intervals, ranks by mean and by Borda count, and group letters."""
        return system_table(self)

    def pair_table(self) -> Table:
        """Return pairs with differences, intervals, p, and tasks won, tied and lost."""
        return pair_table(self)

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return a row per system, best mean first, as a pandas, polars or pyarrow data frame."""
        rows = [self._standing_data(standing) for standing in self.standings]
        plain = [name for name, value in rows[0].items() if not isinstance(value, dict | list)]
        return build_frame({name: [row[name] for row in rows] for name in plain}, backend)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        used = ("level", "resamples", "seed")
        settings = {key: value for key, value in asdict(self.settings).items() if key in used}
        unclear, every = self.neighbours
        return {
            "schema_version": SCHEMA_VERSION,
            "signature": self.signature,
            "measure": self._values.measure,
            "systems": list(self.names),
            "tasks": [{"name": name, "queries": n} for name, n in self.sizes.items()],
            "means_only": self.means_only,
            "units": self.units,
            "family": self.family,
            "settings": settings,
            "verdict": self.verdict,
            "neighbours": {"not_separable": unclear, "all": every},
            "standings": [self._standing_data(standing) for standing in self.standings],
            "pairs": [pair_data(pair) for pair in self.pairs],
            "remarks": list(self.remarks),
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
    if resampled == "tasks":
        joint = compare_jointly(
            values.means, index_pairs, level=level, bounds=values.bounds, **settings.draws
        )
    else:
        n = len(values.tasks)
        joint = compare_jointly(
            values.values,
            index_pairs,
            clusters=values.clusters,
            blocks=values.task_of,
            contrasts=[[1 / n] * n],
            level=level,
            bounds=values.bounds,
            **settings.draws,
        )
    pairs = tuple(_pairs(values, resampled, index_pairs, joint, settings))
    standings = tuple(_standings(values, resampled, pairs, settings))
    return TaskComparison(values.systems, resampled, settings, standings, pairs, values)


def _choose_units(values: TaskValues, units: str | None) -> str:
    """Return queries, unless only means are known; then only tasks can be resampled."""
    if units is None:
        units = "tasks" if values.means_only else "queries"
    units = check_choice(units, UNITS, "units")
    small = [
        task
        for task, n in zip(values.tasks, _unit_counts(values).tolist(), strict=True)
        if n < FEWEST
    ]
    if units == "queries" and values.means_only:
        raise UsageError(
            "Only the means of tasks are known, so queries cannot be resampled. Give the values of "
            "queries, or choose units='tasks'."
        )
    if units == "queries" and small:
        raise MismatchError(
            f"Tasks with fewer than {FEWEST} queries (groups): {name_few(small)}. How sure their "
            "means are is not known: leave them out, or choose units='tasks'."
        )
    return units


def _unit_counts(values: TaskValues) -> Any:
    """Return how many queries, or groups of them, each task has."""
    if values.clusters is None:
        return values.sizes
    units = np.unique(np.stack([values.task_of, values.clusters]), axis=1)
    return np.bincount(units[0], minlength=len(values.tasks))


def _pairs(
    values: TaskValues,
    units: str,
    index_pairs: Sequence[tuple[int, int]],
    joint: JointPairs,
    settings: ComparisonSettings,
) -> Iterator[TaskPair]:
    names, means = values.systems, values.means
    word = "groups" if units == "queries" and values.clusters is not None else units
    n = len(values.tasks) if units == "tasks" else int(_unit_counts(values).sum())
    note = joint.note.replace("queries", word)
    for number, (a, b) in enumerate(index_pairs):
        interval = settings.joint_interval(joint, number, n, note=note)
        difference = interval.estimate
        yield TaskPair(
            _describe_measure(values),
            names[a],
            names[b],
            float(joint.p[number]),
            TestResult(
                float(joint.p_alone[number]),
                difference,
                "randomisation",
                n,
                0,
                note=note,
                **settings.draws,
            ),
            replace(effect(means[a], means[b]), mean_difference=difference),
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
    means = _mean_intervals(values, units, settings)
    ranked = rank_systems(
        values.systems, _describe_measure(values), values.means, means, pairs, settings
    )
    points = borda_points(values.means)
    by_borda = rank_intervals(points, level=1 - settings.level, **settings.draws)
    for standing in ranked:
        i = values.systems.index(standing.name)
        rank = replace(by_borda[i], note=by_borda[i].note.replace("queries", "tasks"))
        yield replace(standing, borda=float(points[i].sum()), borda_rank=rank)


def _mean_intervals(values: TaskValues, units: str, settings: ComparisonSettings) -> list[Interval]:
    """Return intervals of the means over tasks, each for itself."""
    drawn: dict[str, Any] = {"level": 1 - settings.level, **settings.draws}
    if units == "tasks":
        means = intervals(values.means, **drawn)
    else:
        # Scaled so that the plain mean over all queries is the mean over tasks.
        scale = len(values.task_of) / len(values.tasks) / values.sizes[values.task_of]
        rows = values.values * scale
        means = intervals(rows, strata=values.task_of, clusters=values.clusters, **drawn)
    return [_within(mean, values.bounds) for mean in means]


def _within(mean: Interval, bounds: tuple[float, float] | None) -> Interval:
    """Inside the bounds of the measure; never of zero width."""
    if mean.low == mean.high or mean.method == "unseen":
        ends = (math.nan, math.nan)
        if bounds is not None and all(map(math.isfinite, bounds)):
            ends = constant_ends(mean.estimate, mean.n, mean.level, bounds)
        note = "all values of a task are equal, so no variation was seen"
        return replace(mean, low=ends[0], high=ends[1], note=note)
    return mean if bounds is None else mean.within(*bounds)


def _describe_measure(values: TaskValues) -> str:
    n = len(values.tasks)
    over = "one task" if n == 1 else f"{n} tasks"
    return (
        f"the mean of {values.measure} over {over}" if values.measure else f"the mean over {over}"
    )


def task_remarks(comparison: TaskComparison) -> Iterator[str]:
    """Return what limits the numbers, a sentence each."""
    if comparison.means_only:
        yield (
            "only the means of tasks are known, so tasks were resampled: what is said is about "
            "tasks like these, and nothing can be said of how sure the mean on one task is"
        )
    borda = comparison.standings[0].borda_rank
    if borda is not None and borda.note:
        yield f"no intervals of Borda ranks, which always resample tasks: {borda.note}"
    gap = next(
        (standing.mean.note for standing in comparison.standings if math.isnan(standing.mean.low)),
        "",
    )
    if gap:
        yield f"no intervals of means: {gap}"


def method_of_tasks(comparison: TaskComparison) -> str:
    """Return how p-values and intervals were computed, and what they are about."""
    settings, pairs = comparison.settings, comparison.pairs
    span = f"{100 * (1 - settings.level):g} %"
    if comparison.units == "tasks":
        about = "tasks were resampled, so it is about tasks like these"
    else:
        about = f"{pairs[0].units} were resampled within tasks, so it is about these tasks"
    return (
        f"p: {describe_test(settings, len(pairs))} ({comparison.family}), {settings.resamples:,} "
        f"resamples, seed {settings.seed}; {about}. Each task weighs the same. Intervals of "
        f"differences: {span} for all of them together, of the same draws; of means: {span}, each "
        f"for itself. Borda: systems beaten on each task, summed, ties half; its rank intervals "
        f"resample tasks."
    )
