"""HTML of a table: one writer, one place where text is escaped.

It lies with the tables and not with the reports because values far below a report show themselves
in notebooks. Whoever shows a table passes a `Decoration`: notebooks set alignment, reports add
sorting and exact values, the dashboard adds links, checkboxes and small pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from assay.core.text import printable

if TYPE_CHECKING:  # a table is laid out here, and pages of tables ask for that
    from assay.tables.table import Cell, Table

Attributes = dict[str, Any]


class Markup(str):
    """Mark finished HTML, which templates insert without escaping it.

    Unlike the class of markupsafe it is part of the core. Text that is derived from it (`+`,
    slices) is a plain string again and therefore escaped.

    >>> type(Markup("<b>") + "<i>").__name__
    'str'
    """

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def html_text(text: object) -> str:
    r"""Escape text for HTML, including attributes.

    >>> html_text("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    return escape(printable(text))


def tag(name: str, content: str | None = None, /, **attributes: Any) -> str:
    """Return an element of HTML or SVG; attributes are escaped here, the content is markup already.

    An underscore stands for a hyphen, a trailing one for nothing; None leaves an attribute out.

    >>> tag("td", "a", class_="n", data_x="<", title=None)
    '<td class="n" data-x="&lt;">a</td>'
    >>> tag("rect", x=0.5, width="100%")
    '<rect x="0.5" width="100%"/>'
    """
    written = ""
    for key, value in attributes.items():
        if value is not None:
            text = f"{value:g}" if isinstance(value, float) else html_text(value)
            written += f' {key.rstrip("_").replace("_", "-")}="{text}"'
    return f"<{name}{written}/>" if content is None else f"<{name}{written}>{content}</{name}>"


@dataclass(frozen=True)
class ExtraColumn:
    """A column beside the data: checkboxes, small pictures. Its cells are markup.

    It stands after the data column with the number `after`; -1 is before the first.
    """

    after: int
    css_class: str
    head: str
    cells: Sequence[str]


class Decoration:
    """Extra columns and attributes of a table; this one marks columns of numbers.

    `head` and `cell` give the attributes of an element and its content as markup.
    """

    def extra_columns(self) -> Sequence[ExtraColumn]:
        """Return columns beside the data."""
        return ()

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        """Return the head of a column; `left` if it holds text."""
        return {"scope": "col", "class_": None if left else "n"}, html_text(name)

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """Return one cell of the data."""
        return {"class_": None if left else "n"}, cell_text(cell)


def cell_text(cell: Cell) -> str:
    """Return a value as markup, the best of its column in bold.

    >>> from assay.tables.table import Cell
    >>> cell_text(Cell(0.5, "fraction", best=True))
    '<strong>0.5000</strong>'
    """
    text = escape(cell.text)
    return f"<strong>{text}</strong>" if cell.best else text


_PLAIN: Final = Decoration()


def html_table(table: Table, decoration: Decoration = _PLAIN) -> str:
    """Return one table element."""
    left, extra = table.left, decoration.extra_columns()
    head = [
        _element("th", decoration.head(column, name, left[column]))
        for column, name in enumerate(table.columns)
    ]
    extra_head = {
        each.after: tag("th", each.head, class_=each.css_class, scope="col") for each in extra
    }
    rows = []
    for row, cells in enumerate(table.rows):
        written = [
            _element("td", decoration.cell(row, column, cell, left[column]))
            for column, cell in enumerate(cells)
        ]
        beside = {each.after: tag("td", each.cells[row], class_=each.css_class) for each in extra}
        rows.append(f"<tr>{_put_between(written, beside)}</tr>")
    first, body = _put_between(head, extra_head), "\n".join(rows)
    return f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"


def _element(name: str, parts: tuple[Attributes, str]) -> str:
    return tag(name, parts[1], **parts[0])


def _put_between(cells: Sequence[str], extra: dict[int, str]) -> str:
    """Join the cells of a row, each with the extra one that stands after it."""
    after = [f"{cell}{extra.get(column, '')}" for column, cell in enumerate(cells)]
    return "".join([extra.get(-1, ""), *after])


class _InlineAlignment(Decoration):
    """Notebooks bring style sheets of their own, so cells carry their alignment themselves."""

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        return _align(left), html_text(name)

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        return _align(left), cell_text(cell)


def _align(left: bool) -> Attributes:
    return {"style": f"text-align:{'left' if left else 'right'}"}


def as_html(table: Table) -> str:
    """Return the table for a notebook, the best values in bold.

    >>> from assay.tables.table import Cell, Table
    >>> as_html(Table(("run",), ((Cell("<b>"),),))).partition("<tbody>")[2]
    '<tr><td style="text-align:left">&lt;b&gt;</td></tr></tbody></table>'
    """
    return html_table(table, _InlineAlignment())
