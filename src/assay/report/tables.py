"""Tables over all measures of a report: means with marks, and what stands behind them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from assay.comparison.tables import MOST_PAIRS, pair_table
from assay.runs.leaderboard import Leaderboard
from assay.scoring.scores import describe_counts
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.measures import Measure
    from assay.report.report import Report
    from assay.runs.record import RunRecord

__all__ = [
    "counts_table",
    "marks_note",
    "overview_table",
    "provenance_table",
    "report_page",
    "single_table",
]

_BETTER: Final = "*"
_WORSE: Final = "†"


def overview_table(board: Leaderboard) -> Table:
    """Runs × measures: the highest mean of each in bold, with marks that `marks_note` explains."""
    names = [one.name for one in board.standings_on(board.measures[0])]
    columns = [_column(board, str(measure)) for measure in board.measures]
    rows = [(Cell(name), *(column[name] for column in columns)) for name in names]
    chances = [board.chance_on(measure) for measure in board.measures]
    if not all(map(math.isnan, chances)):
        rows.append((Cell("chance"), *(Cell(chance, "fraction") for chance in chances)))
    return Table(("run", *map(str, board.measures)), tuple(rows))


def _column(board: Leaderboard, measure: str) -> dict[str, Cell]:
    """The cells of one measure; nothing is best where all are equal."""
    standings = board.standings_on(measure)
    means = [one.mean.estimate for one in standings if not math.isnan(one.mean.estimate)]
    top = max(means, default=math.nan) if len(set(means)) > 1 else math.nan
    marks = _marks(board, measure)
    cells = {}
    for one in standings:
        mean, mark = one.mean.estimate, marks.get(one.name, "")
        shown = None if math.isnan(mean) else f"{mean:.4f} {mark}".rstrip()
        cells[one.name] = Cell(shown, "figure", mean == top)
    return cells


def _marks(board: Leaderboard, measure: str) -> dict[str, str]:
    comparison = board.comparison
    if comparison is None:
        return {}
    if comparison.baseline is None:
        return {one.name: one.letters for one in comparison.standings_on(measure)}
    words = {"better": _BETTER, "worse": _WORSE}
    return {pair.a: words.get(pair.outcome, "") for pair in comparison.pairs_on(measure)}


def marks_note(board: Leaderboard) -> str:
    """What the marks behind the means say."""
    comparison = board.comparison
    if comparison is None:
        return ""
    if comparison.baseline is None:
        return "Runs that share a letter on a measure are not separable on it."
    return f"{_BETTER} better and {_WORSE} worse than {comparison.baseline}, by the test below."


def counts_table(board: Leaderboard) -> Table:
    """For each run and measure, how many queries stand behind the mean and which need a remark."""
    rows = []
    for run in board.runs:
        mean = run.scored().mean()
        for name, value in mean.items():
            counts = describe_counts(mean.counts[name])
            rows.append((Cell(run.name), Cell(name), Cell(value, "fraction"), Cell(counts)))
    return Table(("run", "measure", "mean over queries", "queries"), tuple(rows))


def provenance_table(board: Leaderboard) -> Table | None:
    """Where each run comes from, a column for each kind of detail; None where nothing is known."""
    keys = list(dict.fromkeys(key for run in board.runs for key in run.provenance))
    if not keys:
        return None
    rows = tuple(
        (Cell(run.name), *(Cell(run.provenance.get(key)) for key in keys)) for run in board.runs
    )
    return Table(("run", *keys), rows)


def single_table(board: Leaderboard, measure: Measure) -> Table:
    """One run alone: its mean, interval, and chance where it is known."""
    one = board.standings_on(measure)[0]
    chance = board.chance_on(measure)
    ends = [Cell(one.mean.low, "fraction"), Cell(one.mean.high, "fraction")]
    row = (Cell(one.name), Cell(one.mean.estimate, "fraction"), *ends, Cell(chance, "fraction"))
    level = f"{100 * one.mean.level:g} %"
    return Table(("run", "mean", f"{level} from", f"{level} to", "chance"), (row,))


def report_page(report: Report) -> Page:
    """Verdicts first, then means with marks, pairs, disclosures, and how to make it again."""
    page: Page = [Words(verdict, "verdict") for verdict in report.verdicts.values()]
    page += [overview_table(report), Words(marks_note(report))]
    headline = str(report.measures[0])
    comparison = report.comparison
    if comparison is not None and len(comparison.pairs_on(headline)) <= MOST_PAIRS:
        page += [Words(f"Pairs on {headline}"), pair_table(comparison, headline)]
    if comparison is not None and comparison.slices is not None:
        page += comparison.slices.page_on(headline)
    page += [Words(remark, "remark") for remark in report.remarks]
    page += [Words(_provenance_line(run)) for run in report.runs if run.provenance]
    page += [Words(report.method, "method"), Words(report.aligned.signature, "signature")]
    if report.command:
        page += [Words("Make it again:"), Words(report.command, "signature")]
    return page


def _provenance_line(run: RunRecord) -> str:
    """Where a run comes from, in a line; a table of checksums would be too wide for paper."""
    parts = ", ".join(f"{key} {value}" for key, value in run.provenance.items() if value)
    return f"{run.name}: {parts}"
