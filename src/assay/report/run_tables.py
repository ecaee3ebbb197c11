"""Tables over all measures of a report: means with marks, and what stands behind them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from assay.report.tables import Cell, Table
from assay.scores import describe_counts

if TYPE_CHECKING:
    from assay.measures import Measure
    from assay.report.contents import Report

__all__ = ["counts_table", "details_table", "marks_note", "overview_table", "single_table"]

_BETTER: Final = "*"
_WORSE: Final = "†"


def overview_table(report: Report) -> Table:
    """Runs × measures: the highest mean of each in bold, with marks that `marks_note` explains."""
    names = [one.name for one in report.standings_on(report.measures[0])]
    columns = [_column(report, str(measure)) for measure in report.measures]
    rows = [(Cell(name), *(column[name] for column in columns)) for name in names]
    chances = [report.chance_on(measure) for measure in report.measures]
    if not all(map(math.isnan, chances)):
        rows.append((Cell("chance"), *(Cell(chance, "fraction") for chance in chances)))
    return Table(("run", *map(str, report.measures)), tuple(rows))


def _column(report: Report, measure: str) -> dict[str, Cell]:
    """The cells of one measure; nothing is best where all are equal."""
    standings = report.standings_on(measure)
    means = [one.mean.estimate for one in standings if not math.isnan(one.mean.estimate)]
    top = max(means, default=math.nan) if len(set(means)) > 1 else math.nan
    marks = _marks(report, measure)
    cells = {}
    for one in standings:
        mean, mark = one.mean.estimate, marks.get(one.name, "")
        shown = None if math.isnan(mean) else f"{mean:.4f} {mark}".rstrip()
        cells[one.name] = Cell(shown, "figure", mean == top)
    return cells


def _marks(report: Report, measure: str) -> dict[str, str]:
    comparison = report.comparison
    if comparison is None:
        return {}
    if comparison.baseline is None:
        return {one.name: one.letters for one in comparison.standings_on(measure)}
    words = {"better": _BETTER, "worse": _WORSE}
    return {pair.a: words.get(pair.outcome, "") for pair in comparison.pairs_on(measure)}


def marks_note(report: Report) -> str:
    """What the marks behind the means say."""
    comparison = report.comparison
    if comparison is None:
        return ""
    if comparison.baseline is None:
        return "Runs that share a letter on a measure are not separable on it."
    return f"{_BETTER} better and {_WORSE} worse than {comparison.baseline}, by the test below."


def counts_table(report: Report) -> Table:
    """For each run and measure, how many queries stand behind the mean and which need a remark."""
    rows = []
    for run in report.runs:
        mean = run.scores.mean()
        for name, value in mean.items():
            told = describe_counts(mean.counts[name])
            rows.append((Cell(run.name), Cell(name), Cell(value, "fraction"), Cell(told)))
    return Table(("run", "measure", "mean over queries", "queries"), tuple(rows))


def details_table(report: Report) -> Table | None:
    """What is known about each run, a column for each kind of detail; None where nothing is."""
    keys = list(dict.fromkeys(key for run in report.runs for key in run.details))
    if not keys:
        return None
    rows = tuple(
        (Cell(run.name), *(Cell(run.details.get(key)) for key in keys)) for run in report.runs
    )
    return Table(("run", *keys), rows)


def single_table(report: Report, measure: Measure) -> Table:
    """One run alone: its mean, interval, and chance where it is known."""
    one = report.standings_on(measure)[0]
    chance = report.chance_on(measure)
    ends = [Cell(one.mean.low, "fraction"), Cell(one.mean.high, "fraction")]
    row = (Cell(one.name), Cell(one.mean.estimate, "fraction"), *ends, Cell(chance, "fraction"))
    level = f"{100 * one.mean.level:g} %"
    return Table(("run", "mean", f"{level} from", f"{level} to", "chance"), (row,))
