"""Systems on many tasks: means over tasks, who is better, and ranks by mean and by Borda count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np

from assay import __version__
from assay.arrays import Floats, or_none
from assay.comparison.pairs import ComparisonSettings, Pair, shown_better
from assay.comparison.task_pages import (
    method_of_tasks,
    standings_table,
    task_page,
    task_pair_data,
    task_pair_table,
    task_remarks,
)
from assay.comparison.task_values import TaskValues
from assay.comparison.verdict import verdict_of_all
from assay.core.checks import check_choice, name_few
from assay.core.ids import Ids
from assay.core.settings import as_settings, query_digest, setting_parts
from assay.errors import MismatchError, UsageError
from assay.io.frames import build_frame
from assay.scoring.scores import SCHEMA_VERSION
from assay.stats import (
    Interval,
    JointPairs,
    RankInterval,
    TestResult,
    compact_letters,
    compare_jointly,
    effect,
    intervals,
    rank_intervals,
)
from assay.stats.bounded import constant_ends
from assay.stats.ranks import borda_points, ranks_of
from assay.stats.samples import FEWEST
from assay.tables.page import Page, html_page, latex_page, text_page
from assay.tables.table import Table

__all__ = ["UNITS", "TaskComparison", "TaskPair", "TaskStanding", "compare_task_values"]

UNITS: Final = ("queries", "tasks")


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
        found = super().outcome
        if found == "identical" and self.error > 0:
            return "undecided" if self.untestable else "not separable"
        return found

    @property
    def queries_needed(self) -> None:
        """Not guessed: queries could be added to any of the tasks."""

    @property
    def minimum_detectable(self) -> float:
        """Not computed."""
        return math.nan


@dataclass(frozen=True)
class TaskStanding:
    """One system: its mean over tasks and two ranks with intervals, and its group letters.

    `borda` is the number of systems that it beats, summed over tasks, ties counted half.
    """

    name: str
    mean: Interval
    rank: RankInterval
    borda: float
    borda_rank: RankInterval
    letters: str


@dataclass(frozen=True, eq=False)
class TaskComparison:
    """Systems compared on many tasks, each of which weighs the same; made by `compare_tasks`.

    `standings` are best mean first, `pairs` in the order of the systems. `units` says what was
    resampled: queries within these tasks, or tasks.
    """

    units: str
    settings: ComparisonSettings
    standings: tuple[TaskStanding, ...]
    pairs: tuple[TaskPair, ...]
    _values: TaskValues

    @property
    def names(self) -> tuple[str, ...]:
        """The systems, in the order in which they were given."""
        return self._values.systems

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
        made = as_settings(
            tasks=tasks,
            units=self.units,
            level=settings.level,
            resamples=settings.resamples,
            seed=settings.seed,
        )
        scored = (
            self._values.signature or f"version:{__version__}|queries:{self._values.sizes.sum()}"
        )
        return "|".join([scored, *setting_parts(made)])

    @property
    def measure(self) -> str:
        """What is compared, in words."""
        return _describe_measure(self._values)

    @property
    def neighbours(self) -> tuple[int, int]:
        """Of all neighbours by mean: how many are not separable, and how many there are."""
        by_names = {frozenset((pair.a, pair.b)): pair for pair in self.pairs}
        ranked = [one.name for one in self.standings]
        beside = [by_names[frozenset(two)] for two in pairwise(ranked)]
        return sum(pair.winner is None for pair in beside), len(beside)

    @property
    def verdict(self) -> str:
        """Who is first and how surely; then how many neighbours cannot be told apart."""
        return "\n".join(self.verdicts)

    @cached_property
    def verdicts(self) -> tuple[str, ...]:
        """The same, a sentence each."""
        first = verdict_of_all(self.measure, [one.name for one in self.standings], self.pairs)
        unclear, every = self.neighbours
        undecided = all(pair.outcome == "undecided" for pair in self.pairs)
        if every < 2 or undecided:
            return (first,)
        are = "is" if unclear == 1 else "are"
        return (first, f"{unclear} of {every} neighbours {are} not separable")

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What limits the numbers, a sentence each."""
        return (*self._values.remarks, *task_remarks(self))

    @property
    def family(self) -> str:
        """The pairs that share one error rate, in words."""
        n = len(self.pairs)
        return "one pair" if n == 1 else f"all {n} pairs of {len(self.names)} systems"

    @property
    def method(self) -> str:
        """How p-values and intervals were computed, and what they are about."""
        return method_of_tasks(self)

    def pair(self, a: str, b: str) -> TaskPair:
        """Two systems by name, in either order."""
        for pair in self.pairs:
            if {a, b} == {pair.a, pair.b}:
                return pair
        raise UsageError(f"There is no pair of {a!r} and {b!r}; systems: {name_few(self.names)}.")

    def table(self) -> Table:
        """Systems with means, intervals, ranks by mean and by Borda count, and group letters."""
        return standings_table(self)

    def pair_table(self) -> Table:
        """Pairs with differences, intervals, p, and tasks won, tied and lost."""
        return task_pair_table(self)

    def page(self) -> Page:
        """Verdict, tables and the method as words and tables."""
        return task_page(self)

    def to_frame(self, backend: str = "pandas") -> Any:
        """A row per system, best mean first, as a pandas, polars or pyarrow data frame."""
        rows = [self._standing_data(one) for one in self.standings]
        plain = [name for name, value in rows[0].items() if not isinstance(value, dict | list)]
        return build_frame({name: [row[name] for row in rows] for name in plain}, backend)

    def to_latex(self) -> str:
        """Verdict, tables and the method, for a paper."""
        return latex_page(self.page())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; undefined numbers are None."""
        kept = ("level", "resamples", "seed")
        settings = {key: value for key, value in asdict(self.settings).items() if key in kept}
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
            "standings": [self._standing_data(one) for one in self.standings],
            "pairs": [task_pair_data(pair) for pair in self.pairs],
            "remarks": list(self.remarks),
        }

    def _standing_data(self, one: TaskStanding) -> dict[str, Any]:
        row = self.task_means[self.names.index(one.name)].tolist()
        return {
            "name": one.name,
            "mean": or_none(one.mean.estimate),
            "low": or_none(one.mean.low),
            "high": or_none(one.mean.high),
            "rank": or_none(one.rank.rank),
            "rank_low": or_none(one.rank.low),
            "rank_high": or_none(one.rank.high),
            "borda": one.borda,
            "borda_rank": or_none(one.borda_rank.rank),
            "borda_rank_low": or_none(one.borda_rank.low),
            "borda_rank_high": or_none(one.borda_rank.high),
            "letters": one.letters,
            "tasks": dict(zip(self.tasks, row, strict=True)),
        }

    def __repr__(self) -> str:
        """Verdict, tables and the method, as plain text."""
        return text_page(self.page())

    def _repr_html_(self) -> str:
        return html_page(self.page())


def compare_task_values(
    found: TaskValues,
    *,
    units: str | None = None,
    level: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> TaskComparison:
    """Compare systems on the mean of their means on tasks; see `compare_tasks`.

    Queries are units within their tasks: unit contributions are d / (T · n_t), and the variance of
    a mean is the sum of the variances of the tasks' means over T². Tasks are units as they are:
    their means differ by what tasks and what queries do.
    """
    settings = ComparisonSettings(level=level, resamples=resamples, seed=seed)
    chosen = _choose_units(found, units)
    drawn: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    wanted = list(combinations(range(len(found.systems)), 2))
    if chosen == "tasks":
        joint = compare_jointly(found.means, wanted, level=level, bounds=found.bounds, **drawn)
    else:
        n = len(found.tasks)
        joint = compare_jointly(
            found.values,
            wanted,
            clusters=found.clusters,
            blocks=found.task_of,
            contrasts=[[1 / n] * n],
            level=level,
            bounds=found.bounds,
            **drawn,
        )
    pairs = tuple(_pairs(found, chosen, wanted, joint, settings))
    return TaskComparison(
        chosen, settings, tuple(_standings(found, chosen, pairs, settings)), pairs, found
    )


def _choose_units(found: TaskValues, units: str | None) -> str:
    """Queries, unless only means are known; then only tasks can be resampled."""
    if units is None:
        units = "tasks" if found.means_only else "queries"
    units = check_choice(units, UNITS, "units")
    small = [
        task
        for task, n in zip(found.tasks, _unit_counts(found).tolist(), strict=True)
        if n < FEWEST
    ]
    if units == "queries" and found.means_only:
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


def _unit_counts(found: TaskValues) -> Any:
    """How many queries, or groups of them, each task has."""
    if found.clusters is None:
        return found.sizes
    units = np.unique(np.stack([found.task_of, found.clusters]), axis=1)
    return np.bincount(units[0], minlength=len(found.tasks))


def _pairs(
    found: TaskValues,
    units: str,
    wanted: Sequence[tuple[int, int]],
    joint: JointPairs,
    settings: ComparisonSettings,
) -> Iterator[TaskPair]:
    names, means = found.systems, found.means
    drawn: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    word = "groups" if units == "queries" and found.clusters is not None else units
    n = len(found.tasks) if units == "tasks" else int(_unit_counts(found).sum())
    note = joint.note.replace("queries", word)
    for number, (a, b) in enumerate(wanted):
        difference = float(joint.differences[number])
        ends = (float(joint.low[number]), float(joint.high[number]))
        yield TaskPair(
            _describe_measure(found),
            names[a],
            names[b],
            float(joint.p[number]),
            TestResult(
                float(joint.p_alone[number]), difference, "randomisation", n, 0, note=note, **drawn
            ),
            replace(effect(means[a], means[b]), mean_difference=difference),
            settings,
            len(wanted),
            float(joint.smallest[number]),
            joint.level_of_one,
            Interval(difference, *ends, 1 - settings.level, "max-t", n, note=note, **drawn),
            (means[a], means[b]),
            None,
            error=float(joint.errors[number]),
            _units=(n, word),
        )


def _standings(
    found: TaskValues, units: str, pairs: Sequence[TaskPair], settings: ComparisonSettings
) -> Iterator[TaskStanding]:
    level, drawn = 1 - settings.level, (settings.resamples, settings.seed)
    means = _mean_intervals(found, units, settings)
    order = sorted(range(len(means)), key=lambda i: -means[i].estimate)
    better = shown_better(found.systems, pairs)
    undecided = all(pair.outcome == "undecided" for pair in pairs)
    note = pairs[0].untestable if undecided else ""
    n, unknown = len(found.tasks), (math.nan,) * 3
    ranks = ranks_of(found.means, better, RankInterval(*unknown, level, n, 0, *drawn, note))
    points = borda_points(found.means)
    by_borda = rank_intervals(points, level=level, resamples=drawn[0], seed=drawn[1])
    shown = better[np.ix_(order, order)]
    letters = [""] * len(order) if undecided else compact_letters(shown | shown.T)
    for place, i in enumerate(order):
        borda = replace(by_borda[i], note=by_borda[i].note.replace("queries", "tasks"))
        yield TaskStanding(
            found.systems[i], means[i], ranks[i], float(points[i].sum()), borda, letters[place]
        )


def _mean_intervals(found: TaskValues, units: str, settings: ComparisonSettings) -> list[Interval]:
    """Intervals of the means over tasks, each for itself."""
    drawn: dict[str, Any] = {
        "level": 1 - settings.level,
        "resamples": settings.resamples,
        "seed": settings.seed,
    }
    if units == "tasks":
        made = intervals(found.means, **drawn)
    else:
        # Scaled so that the plain mean over all queries is the mean over tasks.
        scale = len(found.task_of) / len(found.tasks) / found.sizes[found.task_of]
        rows = found.values * scale
        made = intervals(rows, strata=found.task_of, clusters=found.clusters, **drawn)
    return [_within(one, found.bounds) for one in made]


def _within(one: Interval, bounds: tuple[float, float] | None) -> Interval:
    """Inside the bounds of the measure; never of zero width."""
    if one.low == one.high or one.method == "unseen":
        ends = (math.nan, math.nan)
        if bounds is not None and all(map(math.isfinite, bounds)):
            ends = constant_ends(one.estimate, one.n, one.level, bounds)
        note = "all values of a task are equal, so no variation was seen"
        return replace(one, low=ends[0], high=ends[1], note=note)
    return one if bounds is None else one.within(*bounds)


def _describe_measure(found: TaskValues) -> str:
    n = len(found.tasks)
    over = "one task" if n == 1 else f"{n} tasks"
    return f"the mean of {found.measure} over {over}" if found.measure else f"the mean over {over}"
