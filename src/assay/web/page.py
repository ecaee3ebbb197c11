"""A page before it is written: its data, its tables, and how both become HTML, JSON or CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from assay.core.text import printable
from assay.errors import UsageError
from assay.report.html import html_text
from assay.tables.table import Cell, as_csv
from assay.web.page_table import Sheet
from assay.web.params import Asked, address

__all__ = [
    "SCHEMA_VERSION",
    "Page",
    "View",
    "csv_answer",
    "html_answer",
    "json_answer",
    "table_rows",
]

SCHEMA_VERSION: Final = 1
_NOT_KEPT: Final = {"cache-control": "no-store"}


@dataclass(frozen=True)
class Page:
    """What a page shows: `data` is its JSON twin, `sheets` its tables, `more` is for the eye.

    `downloads` makes the tables that are longer in CSV than on the page.
    """

    template: str
    title: str
    data: dict[str, Any]
    sheets: Sequence[Sheet] = ()
    more: dict[str, Any] = field(default_factory=dict)
    downloads: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """What a page is made from: the store, what is asked for, and what was computed before.

    `patience` is how long a reader waits for statistics, in seconds; None waits for the end.
    """

    store: Any
    asked: Asked
    values: Any
    path: str
    key: str = ""
    patience: float | None = None


def _seen(value: object) -> object:
    """Everything that a template writes is readable text; what is already markup stays."""
    return value if isinstance(value, Markup) else printable("" if value is None else value)


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("assay.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"address": address, "table_rows": table_rows}
    made.filters |= {"count": lambda number: f"{number:,}", "moment": _moment}
    return made


def _moment(text: str | None) -> str:
    """A moment as people read it, in UTC.

    >>> _moment("2026-11-16T04:36:59.123456Z")
    '2026-11-16 04:36'
    """
    return (text or "")[:16].replace("T", " ")


def html_answer(page: Page, *, status: int = 200, **about: Any) -> Response:
    """The page for people."""
    sheets = {sheet.name: sheet for sheet in page.sheets}
    template = _templates().get_template(f"{page.template}.html")
    text = template.render(page=page, data=page.data, sheets=sheets, **page.more, **about)
    return Response(text.encode(), status, _NOT_KEPT, "text/html; charset=utf-8")


def json_answer(page: Page, *, status: int = 200) -> Response:
    """The same data for programs."""
    data = {"schema_version": SCHEMA_VERSION, "page": page.template, **page.data}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, _NOT_KEPT, "application/json")


def csv_answer(page: Page, name: str) -> Response:
    """One table of the page with every row and every digit."""
    tables = {sheet.name: sheet.table for sheet in page.sheets}
    wanted = name or next(iter(tables), "")
    if wanted not in tables:
        have = ", ".join(tables) or "none"
        raise UsageError(f"This page has no table {name!r}. Tables: {have}.")
    table = page.downloads[wanted]() if wanted in page.downloads else tables[wanted]
    # Names of files may hold what UTF-8 cannot.
    text = f"{as_csv(table)}\n".encode(errors="backslashreplace")
    file = {"content-disposition": f'attachment; filename="{page.template}-{wanted}.csv"'}
    return Response(text, 200, {**_NOT_KEPT, **file}, "text/csv; charset=utf-8")


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
