"""Tables of a page with what only a page has: links, sorting, small pictures, boxes to tick."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from assay.tables.table import Table
from assay.web.params import Asked

__all__ = ["PER_PAGE", "Head", "Paging", "Sheet", "by_number", "plain_rows", "sorting"]

PER_PAGE: Final = 50


@dataclass(frozen=True)
class Head:
    """How a column is sorted: where a click leads, and how it is sorted now, if it is."""

    href: str
    order: str = ""


@dataclass(frozen=True)
class Paging:
    """Which part of the rows is shown."""

    number: int
    total: int
    before: str = ""
    after: str = ""
    per_page: int = PER_PAGE

    @property
    def first(self) -> int:
        """The number of the first row that is shown."""
        return min((self.number - 1) * self.per_page + 1, self.total)

    @property
    def last(self) -> int:
        """The number of the last row that is shown."""
        return min(self.number * self.per_page, self.total)

    @property
    def rows(self) -> slice:
        """The rows that are shown."""
        return slice((self.number - 1) * self.per_page, self.number * self.per_page)

    @classmethod
    def of(cls, asked: Asked, path: str, total: int) -> Paging:
        """The part that is asked for; beyond the last it is the last."""
        last = max(1, -(-total // PER_PAGE))
        number = min(asked.number("page", 1), last)
        before = asked.but(path, page=number - 1) if number > 1 else ""
        after = asked.but(path, page=number + 1) if number < last else ""
        return cls(number, total, before, after)


@dataclass(frozen=True)
class Sheet:
    """A table with a caption, which can be had as CSV under its name.

    `links` and `marks` (a class of the style sheet) are by row, then by column; `pictures` stand in
    a column of their own after column `pictured`; `picks` are the values of boxes to tick; `notes`
    stand small beside the first cell of each row.
    """

    name: str
    caption: str
    table: Table
    csv: str = ""
    links: Sequence[Mapping[int, str]] = ()
    marks: Sequence[Mapping[int, str]] = ()
    heads: Mapping[int, Head] = field(default_factory=dict)
    pictures: Sequence[Markup] = ()
    pictured: int = 0
    picture_head: str = ""
    picks: Sequence[int] = ()
    pick_labels: Sequence[str] = ()
    notes: Sequence[str] = ()
    paging: Paging | None = None

    def link(self, row: int, column: int) -> str:
        """Where a cell leads; empty where it leads nowhere."""
        return self.links[row].get(column, "") if self.links else ""

    def mark(self, row: int, column: int) -> str:
        """The class of a cell."""
        return self.marks[row].get(column, "") if self.marks else ""


def sorting(
    asked: Asked,
    path: str,
    keys: Mapping[int, str],
    *,
    by: str,
    descending: bool,
    texts: Sequence[str] = (),
) -> dict[int, Head]:
    """Heads by column; numbers begin with the largest, `texts` with the first letter."""
    heads = {}
    for column, key in keys.items():
        now = key == by
        turned = not descending if now else key not in texts
        href = asked.but(path, sort=key, order="down" if turned else "up", page=None)
        heads[column] = Head(href, ("descending" if descending else "ascending") if now else "")
    return heads


def by_number(values: NDArray[np.float64], *, descending: bool) -> NDArray[np.int64]:
    """The order of rows by a value; undefined ones come last, equal ones stay as they were."""
    key = -values if descending else values
    return np.argsort(np.where(np.isnan(key), np.inf, key), kind="stable")


def plain_rows(table: Table) -> list[dict[str, Any]]:
    """The rows of a table as plain data for JSON, by the names of the columns."""
    return [
        {name: _defined(cell.value) for name, cell in zip(table.columns, row, strict=True)}
        for row in table.rows
    ]


def _defined(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
