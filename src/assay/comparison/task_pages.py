"""Tables and text of comparisons on many tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from assay.comparison.tables import MOST_PAIRS, ends_text, outcome_data, pair_cells, rank_text
from assay.comparison.verdict import describe_test
from assay.stats.ranks import split_letters
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.comparison.tasks import TaskComparison, TaskPair

__all__ = [
    "method_of_tasks",
    "standings_table",
    "task_data_table",
    "task_page",
    "task_pair_data",
    "task_pair_table",
    "task_remarks",
]


def standings_table(comparison: TaskComparison) -> Table:
    """A row for each system, best first; those that may be the best are marked."""
    standings = comparison.standings
    top = set(split_letters(standings[0].letters))
    rows = tuple(
        (
            Cell(one.name),
            Cell(one.mean.estimate, "fraction", bool(top & set(split_letters(one.letters)))),
            Cell(ends_text(one.mean.low, one.mean.high), "figure"),
            Cell(rank_text(one.rank), "figure"),
            Cell(f"{one.borda:g}", "figure"),
            Cell(rank_text(one.borda_rank), "figure"),
            Cell(one.letters or None),
        )
        for one in standings
    )
    head = f"{100 * (1 - comparison.settings.level):g} % interval"
    columns = ("system", "mean", head, "rank", "Borda", "Borda rank", "group letters")
    return Table(columns, rows)


def task_pair_table(comparison: TaskComparison) -> Table:
    """A row for each pair, the better mean first."""
    place = {one.name: number for number, one in enumerate(comparison.standings)}
    found = sorted(comparison.pairs, key=lambda pair: sorted((place[pair.a], place[pair.b])))
    rows = tuple(
        pair_cells(pair, min(pair.a, pair.b, key=lambda name: place[name]))[:-1] for pair in found
    )
    span = f"simultaneous {100 * (1 - comparison.settings.level):g} % interval"
    return Table(("pair", "difference", span, "p", "tasks W/T/L"), rows, n_optional=1)


def task_data_table(comparison: TaskComparison) -> Table:
    """Everything about each pair, every digit, for CSV."""
    texts = ("a", "b", "outcome")
    numbers = ("difference", "low", "high", "p", "p_uncorrected")
    counts = ("tasks_won", "tasks_tied", "tasks_lost")
    rows = tuple(
        (
            Cell(pair.a),
            Cell(pair.b),
            Cell(pair.outcome),
            Cell(pair.difference, "fraction"),
            Cell(pair.interval.low, "fraction"),
            Cell(pair.interval.high, "fraction"),
            Cell(pair.p, "fraction"),
            Cell(pair.test.p, "fraction"),
            Cell(pair.effect.wins, "count"),
            Cell(pair.effect.ties, "count"),
            Cell(pair.effect.losses, "count"),
        )
        for pair in comparison.pairs
    )
    return Table((*texts, *numbers, *counts), rows)


def task_page(comparison: TaskComparison) -> Page:
    """Verdict and tables, then remarks, method and signature."""
    page: Page = [Words(sentence, "verdict") for sentence in comparison.verdicts]
    page.append(standings_table(comparison))
    if len(comparison.pairs) <= MOST_PAIRS:
        page.append(task_pair_table(comparison))
    page += [Words(remark, "remark") for remark in comparison.remarks]
    return [*page, Words(comparison.method, "method"), Words(comparison.signature, "signature")]


def task_remarks(comparison: TaskComparison) -> Iterator[str]:
    """What limits the numbers, a sentence each."""
    if comparison.means_only:
        yield (
            "only the means of tasks are known, so tasks were resampled: what is said is about "
            "tasks like these, and nothing can be said of how sure the mean on one task is"
        )
    note = comparison.standings[0].borda_rank.note
    if note:
        yield f"no intervals of Borda ranks, which always resample tasks: {note}"
    gap = next((one.mean.note for one in comparison.standings if math.isnan(one.mean.low)), "")
    if gap:
        yield f"no intervals of means: {gap}"


def method_of_tasks(comparison: TaskComparison) -> str:
    """How p-values and intervals were computed, and what they are about."""
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


def task_pair_data(pair: TaskPair) -> dict[str, Any]:
    """Plain data of one pair."""
    return {
        **outcome_data(pair),
        "tasks_won": pair.effect.wins,
        "tasks_tied": pair.effect.ties,
        "tasks_lost": pair.effect.losses,
        "note": pair.test.note,
    }
