"""Tables as plain text, Markdown, CSV and TSV.

A cell holds its value; only the layouts for people round it. Text from outside (names, ids) is
shown with its control characters escaped, so that it can neither move the cursor nor colour a line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.core.text import guard_formula, printable, signed

UNDEFINED = "–"

_MARKDOWN = re.compile(r"([\\`*_\[\]<>|])")


@dataclass(frozen=True)
class Cell:
    """A value and its format.

    Its kind is text, fraction, difference (with a sign), percent, count or figure (ready to print).
    """

    value: str | float | int | None
    kind: str = "text"
    best: bool = False

    @property
    def text(self) -> str:
        """The value as people read it: rounded, and safe to print."""
        if self.value is None or (isinstance(self.value, float) and math.isnan(self.value)):
            return UNDEFINED
        if self.kind == "fraction":
            return f"{self.value:.4f}"
        if self.kind == "difference":
            return signed(float(self.value))
        if self.kind == "percent":
            return f"{100 * float(self.value):.2f}"
        if self.kind == "count":
            return f"{float(self.value):.0f}"
        return printable(self.value)

    @property
    def exact(self) -> str:
        """The value as programs read it: every digit, and empty where undefined."""
        if self.value is None or (isinstance(self.value, float) and math.isnan(self.value)):
            return ""
        if self.kind == "count":
            return f"{float(self.value):.0f}"
        if self.kind in ("text", "figure"):
            return guard_formula(str(self.value))
        return repr(float(self.value))


@dataclass(frozen=True)
class Table:
    """Rows of cells under column names; text columns stand left, numbers right.

    The last `n_optional` columns are left out where there is no room for them.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    n_optional: int = 0

    @property
    def left(self) -> tuple[bool, ...]:
        """Which columns are text."""
        return tuple(
            all(row[i].kind == "text" for row in self.rows) for i in range(len(self.columns))
        )


def columns_of(table: Table, numbers: Iterable[int]) -> Table:
    """Return some columns of a table, in the order given."""
    keep = list(numbers)
    rows = tuple(tuple(row[i] for i in keep) for row in table.rows)
    return Table(tuple(table.columns[i] for i in keep), rows)


def as_text(table: Table) -> str:
    """Return columns padded with spaces; one line for each row, so that grep and awk can read it.

    >>> print(as_text(Table(("run", "AP"), ((Cell("a"), Cell(0.25, "fraction")),))))
    run      AP
    a    0.2500
    """
    grid = [[printable(name) for name in table.columns]]
    grid += [[cell.text for cell in row] for row in table.rows]
    widths = [max(len(line[i]) for line in grid) for i in range(len(table.columns))]
    left = table.left
    return "\n".join(_pad(line, widths, left) for line in grid)


def _pad(line: Sequence[str], widths: Sequence[int], left: Sequence[bool]) -> str:
    cells = [
        text.ljust(width) if to_left else text.rjust(width)
        for text, width, to_left in zip(line, widths, left, strict=True)
    ]
    return "  ".join(cells).rstrip()


def as_markdown(table: Table) -> str:
    """Return a Markdown table with the best value of each column in bold.

    >>> print(as_markdown(Table(("run", "AP"), ((Cell("a"), Cell(0.25, "fraction", True)),))))
    | run | AP |
    |:---|---:|
    | a | **0.2500** |
    """
    head = [markdown_text(name) for name in table.columns]
    rule = "|" + "|".join(":---" if left else "---:" for left in table.left) + "|"
    body = [[_markdown_cell(cell) for cell in row] for row in table.rows]
    lines = [f"| {' | '.join(line)} |" for line in [head, *body]]
    return "\n".join([lines[0], rule, *lines[1:]])


def markdown_text(text: object) -> str:
    """Return the text with everything escaped that Markdown would take for markup."""
    return _MARKDOWN.sub(r"\\\1", printable(text))


def _markdown_cell(cell: Cell) -> str:
    text = markdown_text(cell.text) if cell.kind == "text" else cell.text
    return f"**{text}**" if cell.best else text


def as_csv(table: Table, delimiter: str = ",") -> str:
    """Return every digit.

    A name that a spreadsheet would take for a formula gets a leading quote.
    """
    import csv
    from io import StringIO

    buffer = StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow([guard_formula(name) for name in table.columns])
    writer.writerows([cell.exact for cell in row] for row in table.rows)
    return buffer.getvalue().rstrip("\n")
