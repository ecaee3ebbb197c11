"""The rows of a table as HTML: there are thousands of cells, for which templates are too slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from assay.report.html_parts import html_text
from assay.report.tables import Cell
from assay.web.sheets import Sheet

__all__ = ["table_rows"]

_SHORT: Final = 20  # letters that are not broken into lines


def table_rows(sheet: Sheet) -> Markup:
    """All rows; whatever a cell holds stands there as text."""
    left = sheet.table.left
    count = len(sheet.table.rows)
    rows = (f"<tr>{''.join(_cells(sheet, number, left))}</tr>" for number in range(count))
    return Markup("\n".join(rows))


def _cells(sheet: Sheet, row: int, left: tuple[bool, ...]) -> Iterator[str]:
    if sheet.picks:
        yield (
            f'<td class="pick"><input type="checkbox" name="run" value="{sheet.picks[row]}" '
            f'form="choose" aria-label="{html_text(sheet.pick_labels[row])}"></td>'
        )
    for column, cell in enumerate(sheet.table.rows[row]):
        shown = cell.shown
        mark = sheet.mark(row, column)
        kinds = [mark] if mark else []
        kinds += [] if left[column] else ["n"]
        kinds += ["name"] if column == 0 else []
        kinds += ["short"] if len(shown) <= _SHORT else []
        yield f'<td class="{" ".join(kinds)}">{_content(sheet, row, column, cell, shown)}</td>'
        if sheet.pictures and column == sheet.pictured:
            yield f'<td class="picture">{sheet.pictures[row]}</td>'


def _content(sheet: Sheet, row: int, column: int, cell: Cell, shown: str) -> str:
    text = html_text(shown)
    if sheet.mark(row, column) == "status running":  # the page's script follows it
        return f'<span data-run="{sheet.picks[row]}"><span data-words>{text}</span></span>'
    href = sheet.link(row, column)
    if href:
        text = f'<a href="{html_text(href)}">{text or "(no name)"}</a>'
    if cell.best:
        text = f"<strong>{text}</strong>"
    if column == 0 and sheet.notes:
        text += f' <span class="beside">{html_text(sheet.notes[row])}</span>'
    return text
