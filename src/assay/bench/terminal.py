"""A bench on a terminal: leaderboard with intervals drawn, costs, findings. Only here, rich."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from assay.cli.terminal import print_blocks, print_page
from assay.comparison.verdict import verdict_words
from assay.core.text import printable
from assay.stats import Interval

if TYPE_CHECKING:
    from assay.bench.explain import Answers
    from assay.bench.result import BenchResult
    from assay.comparison.standings import Standing
    from assay.tables.table import Page, Table


_NARROWEST: Final = 12
_WIDEST: Final = 32


def print_bench(result: BenchResult, report: Any, page: Page) -> None:
    """Print verdicts, the leaderboard with intervals drawn, costs, and the rest."""
    print_board(result, report)
    tables = 1 + len(result.tables_of_costs())
    print_page(page[len(list(verdict_words(report.verdicts.values()))) + tables :])


def _open_console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def print_board(result: BenchResult, report: Any) -> None:
    """Print the leaderboard with intervals drawn, and what each system costs."""
    console = _open_console()
    print_leaderboard(console, result, report)
    for table in result.tables_of_costs():
        print_blocks(console, table)


def print_leaderboard(console: Console, result: BenchResult, report: Any) -> None:
    """Print the verdicts and the leaderboard."""
    console.print()
    print_page(list(verdict_words(report.verdicts.values())))
    table = result.leaderboard(report)
    standings = report.standings_on(report.measures[0])
    place = table.columns.index(Interval.heading(standings[0].mean.level))
    width = console.width - _width(table, {place}) - 3  # the interval is drawn instead
    if width >= _NARROWEST:
        console.print(_drawn(table, standings, place, min(width, _WIDEST)))
    else:
        print_blocks(console, table)
    if table.note:
        console.print(Text(table.note, style="dim"))


def _width(table: Table, without: set[int]) -> int:
    """Return the width of a table without some columns."""
    texts = [map(printable, table.columns), *((cell.text for cell in row) for row in table.rows)]
    widths = [max(map(cell_len, column)) for column in zip(*texts, strict=True)]
    return sum(width + 3 for place, width in enumerate(widths) if place not in without)


def _drawn(table: Table, standings: Sequence[Standing], place: int, width: int) -> RichTable:
    """Return the leaderboard with pictures in the column of intervals."""
    low, high = _scale([standing.mean for standing in standings])
    room, title = width - 8, table.columns[place]
    words = next((some for some in (title, title.partition(" i")[0]) if len(some) <= room - 2), "")
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for number, (name, left) in enumerate(zip(table.columns, table.left, strict=True)):
        if number == place:
            scale = Text(f"{low:.2f}{words:^{room}}{high:.2f}", style="dim")
            drawn.add_column(scale, no_wrap=True)
        else:
            justify: Any = "left" if left else "right"
            drawn.add_column(Text(printable(name)), justify=justify, overflow="fold")
    *rows, chance = table.rows
    for row, standing in zip(rows, standings, strict=True):
        style = "bold green" if standing.leads else ""
        cells = [Text(cell.text, style="bold green" if cell.best else "") for cell in row]
        cells[0] = Text(row[0].text, style=style)
        ends = standing.mean.low, standing.mean.estimate, standing.mean.high
        picture = interval_picture(*ends, low=low, high=high, width=width)
        cells[place] = Text(picture, style=style or "cyan")
        drawn.add_row(*cells)
    drawn.add_row(*(Text(cell.text, style="dim") for cell in chance))
    return drawn


def _scale(means: Sequence[Interval]) -> tuple[float, float]:
    """Return the lowest and the highest end of the intervals, to two digits."""
    ends = [end for mean in means for end in (mean.low, mean.high, mean.estimate)]
    defined = [end for end in ends if not math.isnan(end)]
    low, high = math.floor(100 * min(defined)) / 100, math.ceil(100 * max(defined)) / 100
    return (low, high) if low < high else (max(low - 0.01, 0.0), high + 0.01)


def interval_picture(
    start: float, mean: float, stop: float, *, low: float, high: float, width: int
) -> str:
    """Return a mean and its interval in one line of characters, on a scale from low to high.

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


def print_answers(answers: Answers) -> None:
    """Print one query: its relevant documents, then what each system retrieved."""
    console = _open_console()
    console.print(Text(printable(answers.query), style="bold"), Text(printable(answers.text)))
    if answers.relevant:
        _print_cut(console, answers.relevant_table())
    else:
        console.print(Text("No document is judged relevant.", style="dim"))
    for name, results in answers.by_system.items():
        values = answers.values.get(name, {})
        numbers = "  ".join(f"{key} {value:.4f}" for key, value in values.items())
        console.print(Text(printable(name), style="bold"), Text(numbers, style="dim"))
        if results.results:
            _print_cut(console, answers.table(name))
        else:
            console.print(Text("No results.", style="dim"))


def _print_cut(console: Console, table: Table) -> None:
    """Print a table whose last column is cut where the line ends."""
    last = len(table.columns) - 1
    room = max(console.width - _width(table, {last}) - 2, 10)
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name, left in zip(table.columns, table.left, strict=True):
        drawn.add_column(Text(printable(name)), justify="left" if left else "right", no_wrap=True)
    for row in table.rows:
        marks = " ".join(cell.text for cell in row if cell.kind == "text")
        style = "green" if "✓" in marks else "red" if "✗" in marks else ""
        cells = [Text(cell.text, style=style) for cell in row[:last]]
        text = Text(row[last].text, style="dim")
        text.truncate(room, overflow="ellipsis")
        drawn.add_row(*cells, text)
    console.print(drawn)


def print_title(title: str, words: str) -> None:
    """Print a title between two lines, and a paragraph below it."""
    console = _open_console()
    console.print()
    console.rule(Text(f" {title} ", style="bold"), style="green", characters="━")
    console.print()
    console.print(Text(words))


def print_steps(steps: Mapping[str, str]) -> None:
    """Print next steps: a description and a command each."""
    console = _open_console()
    console.rule(style="green", characters="━")
    for what, how_to in steps.items():
        console.print(Text(printable(what), style="bold"))
        console.print(Text(f"  {printable(how_to)}", style="cyan"), soft_wrap=True)
