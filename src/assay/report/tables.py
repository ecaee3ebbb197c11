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
    "means_table",
    "overview_table",
    "provenance_table",
    "report_page",
    "single_table",
]

_BETTER: Final = "*"
_WORSE: Final = "†"


def means_table(board: Leaderboard) -> tuple[Table, list[list[str]]]:
    """Runs × measures, the highest mean of each in bold, and the marks of each row beside it.

    `marks_note` explains the marks. The last row is chance, where it is known.
    """
    names = [one.name for one in board.standings_on(board.measures[0])]
    columns = [_column(board, str(measure)) for measure in board.measures]
    rows = [(Cell(name), *(column[name] for column in columns)) for name in names]
    each = [_marks(board, str(measure)) for measure in board.measures]
    marks = [[found.get(name, "") for found in each] for name in names]
    chances = [board.chance_on(measure) for measure in board.measures]
    if not all(map(math.isnan, chances)):
        rows.append((Cell("chance"), *(Cell(chance, "fraction") for chance in chances)))
        marks.append([""] * len(chances))
    return Table(("run", *map(str, board.measures)), tuple(rows)), marks


def overview_table(board: Leaderboard) -> Table:
    """The same with each mark behind its mean."""
    table, marks = means_table(board)
    rows = [
        (row[0], *map(_with_mark, row[1:], own)) for row, own in zip(table.rows, marks, strict=True)
    ]
    return Table(table.columns, tuple(rows))


def _with_mark(cell: Cell, mark: str) -> Cell:
    return Cell(f"{cell.text} {mark}", "figure", cell.best) if mark else cell


def _column(board: Leaderboard, measure: str) -> dict[str, Cell]:
    """The cells of one measure; nothing is best where all are equal."""
    standings = board.standings_on(measure)
    means = [one.mean.estimate for one in standings if not math.isnan(one.mean.estimate)]
    top = max(means, default=math.nan) if len(set(means)) > 1 else math.nan
    return {
        one.name: Cell(one.mean.estimate, "fraction", one.mean.estimate == top) for one in standings
    }


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
    """How many queries stand behind which means, and which need a remark; what is alike, once."""
    told: dict[str, list[tuple[str, str]]] = {}
    for run in board.runs:
        counts = run.scored().mean().counts
        alike: dict[str, list[str]] = {}
        for name in counts:
            alike.setdefault(describe_counts(counts[name]), []).append(name)
        whole = len(alike) == 1
        told[run.name] = [("all" if whole else ", ".join(m), text) for text, m in alike.items()]
    first, *others = told.values()
    if others and all(one == first for one in others):
        told = {"all": first}
    rows = tuple((Cell(run), *map(Cell, pair)) for run, found in told.items() for pair in found)
    return Table(("run", "measures", "queries"), rows)


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
