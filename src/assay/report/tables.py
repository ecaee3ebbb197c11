"""Tables over all measures of a report: means with marks, and what stands behind them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from assay.errors import PluginError, error_text
from assay.plugins import find_hooks
from assay.runs.leaderboard import Leaderboard
from assay.scoring.scores import describe_counts
from assay.stats.choices import MOST_PAIRS
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.measures import Measure
    from assay.report.report import Report
    from assay.runs.record import RunRecord


_BETTER: Final = "*"
_WORSE: Final = "†"


def means_table(board: Leaderboard) -> tuple[Table, list[list[str]]]:
    """Return runs × measures with the best in bold, and the marks of each row.

    `marks_note` explains the marks. The last row is chance, where it is known.
    """
    names = [standing.name for standing in board.standings_on(board.measures[0])]
    columns = [_column(board, str(measure)) for measure in board.measures]
    rows = [(Cell(name), *(column[name] for column in columns)) for name in names]
    each = [_marks(board, str(measure)) for measure in board.measures]
    marks = [[column_marks.get(name, "") for column_marks in each] for name in names]
    chances = [board.chance_on(measure) for measure in board.measures]
    if not all(map(math.isnan, chances)):
        rows.append((Cell("chance"), *(Cell(chance, "fraction") for chance in chances)))
        marks.append([""] * len(chances))
    return Table(("run", *map(str, board.measures)), tuple(rows)), marks


def overview_table(board: Leaderboard) -> Table:
    """Return the table of means with each mark behind its mean."""
    table, marks = means_table(board)
    rows = [
        (row[0], *map(_with_mark, row[1:], signs))
        for row, signs in zip(table.rows, marks, strict=True)
    ]
    return Table(table.columns, tuple(rows))


def _with_mark(cell: Cell, mark: str) -> Cell:
    return Cell(f"{cell.text} {mark}", "figure", cell.best) if mark else cell


def _column(board: Leaderboard, measure: str) -> dict[str, Cell]:
    """Return the cells of one measure; nothing is best where all are equal."""
    means = {row.name: row.mean.estimate for row in board.standings_on(measure)}
    values = {mean for mean in means.values() if not math.isnan(mean)}
    top = max(values) if len(values) > 1 else math.nan
    return {name: Cell(mean, "fraction", mean == top) for name, mean in means.items()}


def _marks(board: Leaderboard, measure: str) -> dict[str, str]:
    comparison = board.comparison
    if comparison is None:
        return {}
    if comparison.baseline is None:
        return {row.name: row.letters for row in comparison.standings_on(measure)}
    words = {"better": _BETTER, "worse": _WORSE}
    return {pair.a: words.get(pair.outcome, "") for pair in comparison.pairs_on(measure)}


def marks_note(board: Leaderboard) -> str:
    """Explain the marks behind the means."""
    comparison = board.comparison
    if comparison is None:
        return ""
    if comparison.baseline is None:
        return "Runs that share a letter on a measure are not separable on it."
    return f"{_BETTER} better and {_WORSE} worse than {comparison.baseline}, by the test below."


def counts_table(board: Leaderboard) -> Table:
    """Return how many queries stand behind which means; what is alike, once."""
    counted: dict[str, list[tuple[str, str]]] = {}
    for run in board.runs:
        counts = run.scored().mean().counts
        alike: dict[str, list[str]] = {}
        for name in counts:
            alike.setdefault(describe_counts(counts[name]), []).append(name)
        whole = len(alike) == 1
        counted[run.name] = [("all" if whole else ", ".join(m), text) for text, m in alike.items()]
    first, *rest = counted.values()
    if rest and all(pairs == first for pairs in rest):
        counted = {"all": first}
    rows = tuple(
        (Cell(run), *map(Cell, pair)) for run, entries in counted.items() for pair in entries
    )
    return Table(("run", "measures", "queries"), rows)


def provenance_table(board: Leaderboard) -> Table | None:
    """Return where each run comes from; None where nothing is known."""
    keys = list(dict.fromkeys(key for run in board.runs for key in run.provenance))
    if not keys:
        return None
    rows = tuple(
        (Cell(run.name), *(Cell(run.provenance.get(key)) for key in keys)) for run in board.runs
    )
    return Table(("run", *keys), rows)


def single_table(board: Leaderboard, measure: Measure) -> Table:
    """Return one run alone: its mean, interval, and chance where it is known."""
    standing, mean = board.standings_on(measure)[0], board.standings_on(measure)[0].mean
    numbers = (mean.estimate, mean.low, mean.high, board.chance_on(measure))
    row = (Cell(standing.name), *(Cell(number, "fraction") for number in numbers))
    level = f"{100 * mean.level:g} %"
    return Table(("run", "mean", f"{level} from", f"{level} to", "chance"), (row,))


def report_page(report: Report) -> Page:
    """Lay out verdicts, means with marks, pairs, disclosures, and the command."""
    page: Page = [Words(verdict, "verdict") for verdict in report.verdicts.values()]
    page += [overview_table(report), Words(marks_note(report))]
    headline = str(report.measures[0])
    comparison = report.comparison
    if comparison is not None and len(comparison.pairs_on(headline)) <= MOST_PAIRS:
        page += [Words(f"Pairs on {headline}"), comparison.pair_table(headline)]
    if comparison is not None and comparison.slices is not None:
        page += comparison.slices.page_on(headline)
    for title, part in report.plugin_sections:
        page += [Words(title), part if isinstance(part, Table) else Words(part)]
    page += [Words(remark, "remark") for remark in report.remarks]
    page += [Words(_provenance_line(run)) for run in report.runs if run.provenance]
    page += [Words(report.method, "method"), Words(report.aligned.signature, "signature")]
    if report.command:
        page += [Words("Make it again:"), Words(report.command, "signature")]
    return page


def plugin_parts(hook: str, subject: Any) -> list[tuple[str, Table | str]]:
    """Return what plugins add to a page: titles, each with a table or a text.

    Args:
        hook: `report_sections` or `dashboard_views`.
        subject: What the functions of the hook get: the records, or the run.

    Raises:
        PluginError: A plugin fails, or returns something else.
    """
    parts: list[tuple[str, Table | str]] = []
    for function in find_hooks(hook):
        name = f"{function.__module__}.{function.__qualname__} ({hook})"
        try:
            answer = [(str(title), part) for title, part in function(subject)]
        except Exception as error:  # whatever another package raises
            raise PluginError(
                f"The plugin function {name} failed: {error_text(error)}. "
                "Repair or uninstall its package."
            ) from error
        for title, part in answer:
            if not isinstance(part, Table | str):
                raise PluginError(
                    f"The plugin function {name} returns {type(part).__name__} for {title!r}, not "
                    "a table or a text. Repair or uninstall its package."
                )
        parts += answer
    return parts


def _provenance_line(run: RunRecord) -> str:
    """Describe where a run comes from in a line; a table would be too wide."""
    parts = ", ".join(f"{key} {value}" for key, value in run.provenance.items() if value)
    return f"{run.name}: {parts}"
