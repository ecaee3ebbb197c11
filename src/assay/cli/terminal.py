"""Tables on a terminal: coloured, cut into blocks that fit its width. Only here rich is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from assay.core.text import printable
from assay.tables.table import Table, column_widths, drop_optional, explain_bold, split_columns

if TYPE_CHECKING:
    from assay.inspect.check import CheckReport
    from assay.inspect.explain import Explanation
    from assay.tables.table import Page


_GAP = 3


def print_blocks(console: Console, table: Table) -> None:
    """Print a table, in blocks of columns where it is too wide."""
    for part in split_columns(table, console.width, cell_len, _GAP):
        console.print(_rich(part))


def print_signature(console: Console, signature: str) -> None:
    """Print the signature in one piece: the terminal itself breaks the line."""
    console.print(Text(printable(signature), style="dim"), soft_wrap=True)


def _rich(table: Table) -> RichTable:
    grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(table.columns))
    for name, left in zip(table.columns, table.left, strict=True):
        grid.add_column(Text(printable(name)), justify="left" if left else "right", overflow="fold")
    for row in table.rows:
        grid.add_row(*[Text(cell.text, style="bold green" if cell.best else "") for cell in row])
    return grid


def print_page(page: Page) -> None:
    """Print words and tables; drop optional columns where there is no room."""
    console = Console(highlight=False, markup=False, emoji=False)
    for part in explain_bold(page):
        if isinstance(part, Table):
            widths = column_widths(part, cell_len)
            print_blocks(console, drop_optional(part, console.width, widths, _GAP))
        elif part.role == "signature":
            print_signature(console, part.text)
        elif part.text:
            style = _STYLES.get(part.role, "dim")
            if part.role == "verdict" and part is not page[0]:
                console.print()
            console.print(Text(printable(part.text), style=style))


_STYLES = {"verdict": "bold", "numbers": "", "remark": "yellow", "next": "cyan"}


SEVERITY_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}


def print_findings(report: CheckReport) -> None:
    """Print the findings of a check, a paragraph each."""
    console = Console(highlight=False, markup=False, emoji=False)
    for finding in report.findings:
        words = str(finding).removeprefix(f"{finding.severity}: ")
        label = Text(f"{finding.severity:<8}", style=SEVERITY_STYLES[finding.severity])
        grid = RichTable.grid(padding=(0, 1))
        grid.add_row(label, Text(printable(words)))
        console.print(grid)
        console.print()
    if not report.findings:
        console.print(Text("Nothing found.", style="bold green"))
    elif report.signature:
        print_signature(console, report.signature)


def print_explanation(explanation: Explanation) -> None:
    """Print a derivation: table of ranks, lines of working, the result in bold."""
    console = Console(highlight=False, markup=False, emoji=False)
    if explanation.lines:
        console.print(_rich(explanation.table()))
    for line in (*explanation.notes, *explanation.working):
        console.print(Text(printable(line)))
    for line in explanation.closing():
        console.print(
            Text(printable(line), style="bold green" if explanation.exact else "bold red")
        )
    print_signature(console, explanation.signature)
