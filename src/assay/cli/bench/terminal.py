"""A bench on a terminal: leaderboard with intervals drawn, costs, findings. Only here, rich."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from assay.comparison.tables import power_note
from assay.core.text import printable
from assay.report.terminal import SEVERITY_STYLES, print_blocks, print_signature
from assay.tables.page import Words
from assay.tasks.bench.tables import describe_search, further_pages

if TYPE_CHECKING:
    from assay.comparison.compare import Standing
    from assay.report.report import Report
    from assay.tables.table import Table
    from assay.tasks.bench.explain import Answers
    from assay.tasks.bench.result import BenchResult

__all__ = [
    "interval_picture",
    "print_answers",
    "print_bench",
    "print_costs",
    "print_leaderboard",
    "print_steps",
    "print_title",
]

_NARROWEST: Final = 12
_WIDEST: Final = 32


def print_bench(result: BenchResult, report: Report) -> None:
    """Everything that a bench has to say."""
    console = Console(highlight=False, markup=False, emoji=False)
    print_leaderboard(console, result, report)
    print_costs(console, result)
    _print_indexes(console, result, report)
    _print_findings(console, result, report)
    if report.comparison is not None:
        console.print(Text(power_note(report.comparison, str(report.measures[0])), style="dim"))
    for line in describe_search(result):
        console.print(Text(printable(line), style="dim"))
    console.print(Text(report.method, style="dim"))
    print_signature(console, report.aligned.signature)


def print_leaderboard(console: Console, result: BenchResult, report: Report) -> None:
    """The verdict on the first measure, the leaderboard, and the verdicts on the others."""
    verdicts = list(report.verdicts.values())
    console.print()
    console.print(Text(printable(verdicts[0]), style="bold"))
    table = result.leaderboard(report)
    width = console.width - _width(table, {2}) - 3  # the interval is drawn instead
    if width >= _NARROWEST:
        console.print(_drawn(table, report, min(width, _WIDEST)))
    else:
        print_blocks(console, table)
    for verdict in verdicts[1:]:
        console.print(Text(printable(verdict)))


def _width(table: Table, without: set[int]) -> int:
    """How wide a table is without some of its columns."""
    shown = [i for i in range(len(table.columns)) if i not in without]
    cells = [
        max(cell_len(printable(table.columns[i])), *(cell_len(row[i].text) for row in table.rows))
        for i in shown
    ]
    return sum(cells) + 3 * len(cells)


def _drawn(table: Table, report: Report, width: int) -> RichTable:
    standings = {one.name: one for one in report.standings_on(report.measures[0])}
    low, high = _scale(list(standings.values()))
    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    head = _scale_head(low, high, table.columns[2], width)
    for number, name in enumerate(table.columns):
        if number == 2:
            made.add_column(Text(head, style="dim"), no_wrap=True)
        else:
            made.add_column(
                Text(printable(name)),
                justify="left" if number in (0, 3) else "right",
                overflow="fold",
            )
    for number, row in enumerate(table.rows, 1):
        last = number == len(table.rows)  # a random order
        one = None if last else standings[str(row[0].value)]
        style = "dim" if one is None else "bold green" if row[1].best else ""
        cells = [
            Text(cell.text, style="bold green" if cell.best else style if one is None else "")
            for cell in row
        ]
        cells[0] = Text(row[0].text, style=style)
        cells[2] = Text("") if one is None else _picture(one, low, high, width, style)
        made.add_row(*cells)
    return made


def _scale(standings: list[Standing]) -> tuple[float, float]:
    """From the lowest end of an interval to the highest, to two digits."""
    ends = [
        value
        for one in standings
        for value in (one.mean.low, one.mean.high, one.mean.estimate)
        if not math.isnan(value)
    ]
    low, high = math.floor(100 * min(ends)) / 100, math.ceil(100 * max(ends)) / 100
    return (low, high) if low < high else (max(low - 0.01, 0.0), high + 0.01)


def _scale_head(low: float, high: float, title: str, width: int) -> str:
    """Both ends of the scale, and what is drawn on it where there is room."""
    room = width - 8
    words = next((some for some in (title, title.partition(" i")[0]) if len(some) <= room - 2), "")
    return f"{low:.2f}{words:^{room}}{high:.2f}"


def _picture(one: Standing, low: float, high: float, width: int, style: str) -> Text:
    ends = (one.mean.low, one.mean.estimate, one.mean.high)
    line = interval_picture(*ends, low=low, high=high, width=width)
    text = Text(line)
    text.stylize(style or "cyan")
    return text


def interval_picture(
    start: float, mean: float, stop: float, *, low: float, high: float, width: int
) -> str:
    """A mean and its interval in one line of characters, on a scale from low to high.

    >>> interval_picture(0.2, 0.5, 0.8, low=0.0, high=1.0, width=11)
    '  ├──●──┤  '
    """

    def at(value: float) -> int:
        return min(max(round((value - low) / (high - low) * (width - 1)), 0), width - 1)

    line = [" "] * width
    if not math.isnan(start):
        for place in range(at(start), at(stop) + 1):
            line[place] = "─"
        line[at(start)], line[at(stop)] = "├", "┤"
    if not math.isnan(mean):
        line[at(mean)] = "●"
    return "".join(line)


def print_costs(console: Console, result: BenchResult) -> None:
    """What each system costs."""
    print_blocks(console, result.cost_table())


def _print_indexes(console: Console, result: BenchResult, report: Report) -> None:
    """What tuned weights, rerankers, indexes and answers have to say."""
    for block in further_pages(result, report):
        if isinstance(block, Words):
            console.print(Text(printable(block.text)))
        else:
            print_blocks(console, block)


def _print_findings(console: Console, result: BenchResult, report: Report) -> None:
    """A line or two for each finding and remark."""
    for finding in result.diagnosis.findings:
        words = str(finding).removeprefix(f"{finding.severity}: ")
        grid = RichTable.grid(padding=(0, 1))
        sign = {"error": "✗", "warning": "!", "note": "·"}[finding.severity]
        grid.add_row(Text(sign, style=SEVERITY_STYLES[finding.severity]), Text(printable(words)))
        console.print(grid)
    for remark in report.run_remarks:
        console.print(Text(f"· {printable(remark)}"))
    if result.diagnosis.findings or report.run_remarks:
        console.print()


def print_answers(answers: Answers) -> None:
    """One query: its relevant documents and where they landed, then what each system retrieved."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(Text(printable(answers.query), style="bold"), Text(printable(answers.text)))
    if answers.relevant:
        _print_cut(console, answers.relevant_table())
    else:
        console.print(Text("No document is known to be relevant.", style="dim"))
    for name, one in answers.by_system.items():
        values = answers.values.get(name, {})
        shown = "  ".join(f"{key} {value:.4f}" for key, value in values.items())
        console.print(Text(printable(name), style="bold"), Text(shown, style="dim"))
        if one.results:
            _print_cut(console, answers.table(name))
        else:
            console.print(Text("It retrieved nothing.", style="dim"))


def _print_cut(console: Console, table: Table) -> None:
    """A table whose last column, a text, is cut where the line ends."""
    last = len(table.columns) - 1
    room = max(console.width - _width(table, {last}) - 2, 10)
    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name, left in zip(table.columns, table.left, strict=True):
        made.add_column(Text(printable(name)), justify="left" if left else "right", no_wrap=True)
    for row in table.rows:
        marks = " ".join(cell.text for cell in row if cell.kind == "text")
        style = "green" if "✓" in marks else "red" if "✗" in marks else ""
        cells = [Text(cell.text, style=style) for cell in row[:last]]
        text = Text(row[last].text, style="dim")
        text.truncate(room, overflow="ellipsis")
        made.add_row(*cells, text)
    console.print(made)


def print_title(title: str, words: str) -> None:
    """A title between two lines, and a paragraph below it."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.print()
    console.rule(Text(f" {title} ", style="bold"), style="green", characters="━")
    console.print()
    console.print(Text(words))


def print_steps(steps: Mapping[str, str]) -> None:
    """What to do next: a few words, and what to type below them."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.rule(style="green", characters="━")
    for what, how_to in steps.items():
        console.print(Text(printable(what), style="bold"))
        console.print(Text(f"  {printable(how_to)}", style="cyan"), soft_wrap=True)
