"""Tables of a page with what only a page has: links, sorting, checkboxes, small pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from assay.arrays import Floats, Ints
from assay.tables.html import (
    Attributes,
    Decoration,
    ExtraColumn,
    cell_text,
    html_table,
    html_text,
    tag,
)
from assay.tables.table import Cell, Table
from assay.web.params import QueryParams

__all__ = [
    "PER_PAGE",
    "PageTable",
    "Paging",
    "SortLink",
    "order_by",
    "rows_as_dicts",
    "sort_links",
]

PER_PAGE: Final = 50
_SHORT: Final = 20  # letters that are not broken into lines
_RUNNING: Final = "status running"


@dataclass(frozen=True)
class SortLink:
    """Where a click on the head of a column leads, and how it is sorted now, if it is."""

    href: str
    order: str = ""


@dataclass(frozen=True)
class Paging:
    """Which part of the rows is on the page."""

    number: int
    total: int
    before: str = ""
    after: str = ""
    per_page: int = PER_PAGE

    @property
    def first(self) -> int:
        """The number of the first row on the page."""
        return min((self.number - 1) * self.per_page + 1, self.total)

    @property
    def last(self) -> int:
        """The number of the last row on the page."""
        return min(self.number * self.per_page, self.total)

    @property
    def rows(self) -> slice:
        """The rows on the page."""
        return slice((self.number - 1) * self.per_page, self.number * self.per_page)

    @classmethod
    def of(cls, params: QueryParams, path: str, total: int) -> Paging:
        """The requested part; beyond the last it is the last."""
        last = max(1, -(-total // PER_PAGE))
        number = min(params.get_int("page", 1), last)
        before = params.address(path, page=number - 1) if number > 1 else ""
        after = params.address(path, page=number + 1) if number < last else ""
        return cls(number, total, before, after)


@dataclass(frozen=True)
class PageTable(Decoration):
    """A table with a caption, available as CSV under its name.

    `links` and `classes` (of the style sheet) are by row, then by column; `pictures` stand in a
    column of their own after column `picture_after`; `run_ids` are the values of checkboxes;
    `notes` stand small beside the first cell of each row. `formats` say how the page shows the
    values of a column whose digits are for programs; `bars` are done and total of running runs.
    """

    name: str
    caption: str
    table: Table
    csv: str = ""
    links: Sequence[Mapping[int, str]] = ()
    classes: Sequence[Mapping[int, str]] = ()
    sort_links: Mapping[int, SortLink] = field(default_factory=dict)
    head_links: Mapping[int, str] = field(default_factory=dict)
    pictures: Sequence[Markup] = ()
    picture_after: int = 0
    picture_head: str = ""
    run_ids: Sequence[int] = ()
    run_labels: Sequence[str] = ()
    notes: Sequence[str] = ()
    formats: Mapping[int, Callable[[Any], str]] = field(default_factory=dict)
    bars: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    paging: Paging | None = None

    def html(self) -> Markup:
        """The table element."""
        return Markup(html_table(self.table, self))

    def extra_columns(self) -> Sequence[ExtraColumn]:
        """Checkboxes before the first column, and pictures."""
        columns = []
        if self.run_ids:
            boxes = list(map(_checkbox, self.run_ids, self.run_labels))
            head = tag("span", "select", class_="skip")
            columns.append(ExtraColumn(-1, "pick", head, boxes))
        if self.pictures:
            head = html_text(self.picture_head)
            columns.append(ExtraColumn(self.picture_after, "picture", head, self.pictures))
        return columns

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        """The name of a column, with a link that sorts by it."""
        attributes, text = super().head(column, name, left)
        link = self.sort_links.get(column)
        if column in self.head_links:
            return attributes, tag("a", text or "(no name)", href=self.head_links[column])
        if link is None:
            return attributes, text
        return {**attributes, "aria_sort": link.order or None}, tag("a", text, href=link.href)

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """A value with its link, its classes and what stands beside it."""
        css_class = self.classes[row].get(column, "") if self.classes else ""
        classes = [
            css_class,
            "" if left else "n",
            "name" if column == 0 else "",
            "short" if len(cell.text) <= _SHORT else "",
        ]
        text, exact = self._shown(column, cell)
        if css_class == _RUNNING:  # the page's script follows it
            text = self._follow(self.run_ids[row], text)
        href = self.links[row].get(column, "") if self.links else ""
        if href:
            text = tag("a", text or "(no name)", href=href)
        if column == 0 and self.notes:
            text += " " + tag("span", html_text(self.notes[row]), class_="beside")
        return {"class_": " ".join(filter(None, classes)) or None, "title": exact}, text

    def _shown(self, column: int, cell: Cell) -> tuple[str, str | None]:
        """A value as the page has it, and beside that the exact one."""
        form = self.formats.get(column)
        if form is None or cell.value in (None, ""):
            return cell_text(cell), None
        return html_text(form(cell.value)), cell.text

    def _follow(self, run: int, words: str) -> str:
        done, total = self.bars.get(run, (0, 0))
        bar = tag("progress", "", max=total, value=done) if total else ""
        return tag("span", tag("span", words, data_words="") + bar, data_run=run)


def _checkbox(run: int, label: str) -> str:
    return tag("input", type="checkbox", name="run", value=run, form="choose", aria_label=label)


def sort_links(
    params: QueryParams,
    path: str,
    keys: Mapping[int, str],
    *,
    by: str,
    descending: bool,
    texts: Sequence[str] = (),
) -> dict[int, SortLink]:
    """Links by column; numbers begin with the largest, `texts` with the first letter."""
    links = {}
    for column, key in keys.items():
        is_sorted = key == by
        down = not descending if is_sorted else key not in texts
        href = params.address(path, sort=key, order="down" if down else "up", page=None)
        order = "descending" if descending else "ascending"
        links[column] = SortLink(href, order if is_sorted else "")
    return links


def order_by(values: Floats, *, descending: bool) -> Ints:
    """The order of rows by a value; undefined ones come last, equal ones stay as they were."""
    key = -values if descending else values
    return np.argsort(np.where(np.isnan(key), np.inf, key), kind="stable")


def rows_as_dicts(table: Table) -> list[dict[str, Any]]:
    """The rows of a table as plain data for JSON, by the names of the columns."""
    return [
        {name: _finite(cell.value) for name, cell in zip(table.columns, row, strict=True)}
        for row in table.rows
    ]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
