"""Tables of a report's page: they sort, filter, and can be copied or downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.core.text import guard_formula, printable
from assay.report.chart_data import Row
from assay.report.heat import shade_steps
from assay.report.svg import interval_strip
from assay.stats.ranks import split_letters
from assay.tables.html import (
    Attributes,
    Decoration,
    ExtraColumn,
    cell_text,
    html_table,
    html_text,
    tag,
)
from assay.tables.svg import Scale, percent, svg_text
from assay.tables.table import Cell, Table

__all__ = ["BoardTable", "HeatTable", "MarkedTable", "Sortable", "table_figure"]

# Columns in which less is better, so that the first click shows the smallest.
_SMALL_FIRST: Final = ("rank", "p")
_LONG: Final = 40  # rows; longer tables scroll inside, and print in part
_WIDEST: Final = 6


class Sortable(Decoration):
    """Heads to click; beside what people see, what a program should read where that differs.

    `best` is the column by which the rows are sorted already.
    """

    best: int | None = None

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        """The name as a button."""
        attributes, text = super().head(column, name, left)
        exact = guard_formula(name)
        attributes["data_x"] = exact if exact != printable(name) else None
        attributes["data_up"] = "" if left or name in _SMALL_FIRST else None
        attributes["aria_sort"] = "descending" if column == self.best else None
        return attributes, tag("button", text or "–", type="button")

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """The value, with all digits beside it."""
        exact = cell.exact
        return {
            "class_": None if left else "n",
            "data_x": exact if exact != cell.text else None,
        }, cell_text(cell)


class MarkedTable(Sortable):
    """Marks in a narrow column of their own behind each number, so that decimals align."""

    best = 1

    def __init__(self, marks: Sequence[Sequence[str]], n_runs: int) -> None:
        self._marks = [[_brief(mark) for mark in row] for row in marks]
        self._n_runs = n_runs
        widest = max((len(mark) for row in self._marks for mark in row), default=0)
        self._mark_class = f"m{min(widest, _WIDEST)}"

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """A number and its mark; rows after those of the runs stay last."""
        attributes, text = super().cell(row, column, cell, left)
        if not column:
            return {**attributes, "class_": None if row < self._n_runs else "last"}, text
        mark = tag("i", html_text(self._marks[row][column - 1]), class_=self._mark_class)
        return {**attributes, "data_x": cell.exact}, text + mark


def _brief(letters: str) -> str:
    """Group letters, three or more in a row as a range.

    >>> _brief("abcdfg"), _brief("*")
    ('a–dfg', '*')
    """
    found = split_letters(letters)
    if len(found) < 3 or any(len(one) > 1 for one in found):
        return letters
    parts = [[found[0]]]
    for one in found[1:]:
        if ord(one) == ord(parts[-1][-1]) + 1:
            parts[-1].append(one)
        else:
            parts.append([one])
    return "".join(f"{p[0]}–{p[-1]}" if len(p) > 2 else "".join(p) for p in parts)


class BoardTable(Sortable):
    """A leaderboard: beside each system its interval, and the ends of the scale in the head."""

    best = 1

    def __init__(self, rows: Sequence[Row], chance: float | None) -> None:
        ends = [row[key] for row in rows for key in ("mean", "low", "high")]
        scale = Scale.around(ends).extend([chance])
        strips = [
            interval_strip(
                scale, row["mean"], row["low"], row["high"], chance=chance, first=row["first"]
            )
            for row in rows
        ]
        ticks = [
            svg_text(percent(scale.at(tick)), "75%", f"{tick:g}", class_="middle")
            for tick in scale.ticks(4)
        ]
        words = tag("span", "interval", class_="unseen")
        head = words + tag("svg", "".join(ticks), class_="scale", aria_hidden="true")
        self._strips = ExtraColumn(0, "picture", head, strips)

    def extra_columns(self) -> Sequence[ExtraColumn]:
        """The intervals as pictures."""
        return (self._strips,)

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        """What a phone leaves out is marked."""
        attributes, text = super().head(column, name, left)
        return _wide(attributes, column), text

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """What a phone leaves out is marked."""
        attributes, text = super().cell(row, column, cell, left)
        return _wide(attributes, column), text


def _wide(attributes: Attributes, column: int) -> Attributes:
    """Numbers of intervals and ranks; the picture and the letters say the same."""
    kind = attributes.get("class_") or ""
    return {**attributes, "class_": f"{kind} wide".strip()} if column in (2, 3) else attributes


class HeatTable(Sortable):
    """Numbers on shades from the smallest of the table to the largest."""

    def __init__(self, values: Sequence[Sequence[float]]) -> None:
        self._steps = shade_steps(values)

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """A number on its shade."""
        attributes, text = super().cell(row, column, cell, left)
        step = self._steps[row][column - 1] if column else None
        if step is not None:
            attributes["class_"] = f"n heat s{step}"
        return attributes, text


def table_figure(
    table: Table | str,
    caption: str,
    *,
    file_name: str,
    look: Decoration | None = None,
    kind: str = "",
) -> str:
    """A table, or the markup of one, that can be sorted, copied, and downloaded as CSV.

    `kind` says more of it to the style sheet and the script: `systems` has a row for each run.
    """
    label = html_text(caption)
    inside = table if isinstance(table, str) else html_table(table, look or Sortable())
    long = not isinstance(table, str) and len(table.rows) > _LONG
    return (
        f'<figure class="table{" " if kind else ""}{kind}" data-file="{html_text(file_name)}">'
        f'<figcaption>{label}<span class="tools">'
        f'<button type="button" data-do="copy" aria-label="Copy the table: {label}">Copy</button>'
        f'<button type="button" data-do="csv" aria-label="Download as CSV: {label}">CSV</button>'
        "</span></figcaption>"
        f'<div class="scroll{" long" if long else ""}" tabindex="0" role="region" '
        f'aria-label="{label}">{inside}</div></figure>'
    )
