"""A list of a page, declared by its columns: filtered, sorted, paged, written as CSV and JSON.

A page declares columns (heading, value, sort key, format, link) and gives the rows; `Listing` does
the rest. `QueryListing` is the list of queries that the pages of runs and comparisons share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.ids import Ids
from assay.core.text import bracket, printable
from assay.report.svg import interval_strip
from assay.stats import Interval
from assay.store import Aggregate, Run
from assay.store.summaries import RunMean, read_query_texts
from assay.tables.html import (
    Attributes,
    Decoration,
    ExtraColumn,
    Markup,
    cell_text,
    html_table,
    html_text,
    tag,
)
from assay.tables.svg import Scale
from assay.tables.table import Cell, Table
from assay.web.page import PageRequest, QueryParams, address, exact_moment, format_moment

PER_PAGE: Final = 50
_SHORT: Final = 20  # letters that are not broken into lines
_RUNNING: Final = "status running"
_LONGEST: Final = 160  # what fits beside an id; the page of the query has the whole text

Row = TypeVar("Row")


@dataclass(frozen=True)
class ListColumn(Generic[Row]):
    """A column of a list.

    Args:
        heading: Its name, on the page and in CSV.
        value: Return the value of a row, or a whole `Cell`.
        kind: Format of the value, one of those of `Cell`.
        key: What `sort=` in the address calls it; empty where the list cannot be sorted by it.
        ascending: Whether the first click begins with the smallest; texts do.
        form: Write a value whose digits are for programs as people read it.
        show: Write a row's value as people read it; empty hides it from them.
        link: Return the address that a cell leads to; empty for none.
        style: Return the class of a cell in the style sheet.
        heading_link: The address that the heading leads to.
    """

    heading: str
    value: Callable[[Row], Any]
    kind: str = "text"
    key: str = ""
    ascending: bool = False
    form: Callable[[Any], str] | None = None
    show: Callable[[Row], str] | None = None
    link: Callable[[Row], str] | None = None
    style: Callable[[Row], str] | None = None
    heading_link: str = ""

    def cell(self, row: Row) -> Cell:
        """Return the cell of a row."""
        value = self.value(row)
        return value if isinstance(value, Cell) else Cell(value, self.kind)


def moment_column(
    heading: str, moment: Callable[[Row], str | None], key: str = ""
) -> ListColumn[Row]:
    """Declare a column of moments: exact for programs, as people say it on the page."""
    return ListColumn(heading, lambda row: exact_moment(moment(row)), key=key, form=format_moment)


def ci_column(mean: Callable[[Row], Any], level: float = 0.95) -> ListColumn[Row]:
    """Declare a column of the ends of intervals, as people read them."""

    def ends(row: Row) -> Cell:
        of_row = mean(row)
        return Cell(bracket(of_row.low, of_row.high) if of_row else None, "figure")

    return ListColumn(Interval.heading(level), ends)


def show_model(run: Any) -> str:
    """Return a run's model without its folders; nothing where the name of the run says it.

    Long names may break behind a colon or a plus, where a zero-width space stands.

    >>> from types import SimpleNamespace as Run
    >>> [show_model(Run(name="e5", model=path)) for path in ("/a/b/e5-base", "org/e5", "e5")]
    ['…/e5-base', 'org/e5', '']
    >>> show_model(Run(name="fused", model="rrf:bm25+e5")).split("\u200b")
    ['rrf:', 'bm25+', 'e5']
    """
    parts = run.model.rstrip("/").split("/")
    shown = f"…/{parts[-1]}" if len(parts) > 2 else str(run.model)
    return "" if run.model == run.name else shown.replace(":", ":\u200b").replace("+", "+\u200b")


def array_column(values: Any, heading: str, kind: str = "text", key: str = "") -> ListColumn[int]:
    """Declare a column of an array, whose rows are positions in it."""
    return ListColumn(heading, lambda i: values[i], kind, key)


def table_columns(
    table: Table, link: Callable[[tuple[Cell, ...]], str] | None = None
) -> list[ListColumn[tuple[Cell, ...]]]:
    """Declare the columns of a finished table; `link` is for names, first or behind a rank."""
    name = int(table.columns[0] == "rank")
    return [
        ListColumn(heading, lambda row, i=i: row[i], link=link if i == name else None)  # type: ignore[misc]
        for i, heading in enumerate(table.columns)
    ]


def interval_column(
    after: int, scale: Scale, means: Sequence[Aggregate | RunMean], first: Sequence[bool] = ()
) -> ExtraColumn:
    """Declare a column of drawn intervals; its heading has their level, if one is known.

    Those that may be the best are marked as `first`.
    """
    level = next((mean.level for mean in means if mean.level), None)
    heading = f"{100 * level:g} % interval" if level else "interval"
    strips = [
        interval_strip(scale, mean.value, mean.low, mean.high, chance=mean.chance, first=marked)
        for mean, marked in zip(means, first or [False] * len(means), strict=True)
    ]
    return ExtraColumn(after, "picture", html_text(heading), strips)


@dataclass(frozen=True)
class SortOrder:
    """The key of the column that a list is sorted by, and in which direction."""

    by: str
    descending: bool

    @classmethod
    def of(cls, params: QueryParams, by: str, ascending: Collection[str]) -> SortOrder:
        """Read the direction from the address; keys in `ascending` begin with the smallest."""
        usual = "up" if by in ascending else "down"
        return cls(by, params.get_choice("order", ("up", "down"), usual) == "down")

    @property
    def word(self) -> str:
        """The direction, as addresses have it."""
        return "down" if self.descending else "up"


@dataclass(frozen=True)
class Paging:
    """The part of the rows on the page, and the addresses of the parts beside it."""

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
    def of(cls, request: PageRequest, total: int) -> Paging:
        """Return the requested part; beyond the last it is the last."""
        last = max(1, -(-total // PER_PAGE))
        number = min(request.params.get_int("page", 1), last)
        before, after = (
            request.params.address(request.path, page=at) if 1 <= at <= last else ""
            for at in (number - 1, number + 1)
        )
        return cls(number, total, before, after)


@dataclass(frozen=True, eq=False)
class Listing(Decoration, Generic[Row]):
    """A list on a page.

    Args:
        request: The request of the page.
        name: Its name in the page and in the addresses of CSV files.
        caption: Its caption.
        columns: Its columns.
        rows: The rows on the page.
        order: How it is sorted, where it can be.
        paging: Which rows these are, where there may be more.
        every: Return all rows for CSV; those on the page without it.
        whole: Return another table for CSV, where programs need other columns.
        run: Return the run of a row, which gets a checkbox to compare it.
        picture: A column of small pictures.
        notes: What stands small beside the first cell of each row.
    """

    request: PageRequest
    name: str
    caption: str
    columns: Sequence[ListColumn[Row]]
    rows: Sequence[Row]
    order: SortOrder | None = None
    paging: Paging | None = None
    every: Callable[[], Sequence[Row]] | None = None
    whole: Callable[[], Table] | None = None
    run: Callable[[Row], Any] | None = None
    picture: ExtraColumn | None = None
    notes: Sequence[str] = ()

    def paged(self) -> Listing[Row]:
        """Return the list with the rows of the requested page, and all of them for CSV."""
        paging = Paging.of(self.request, len(self.rows))
        return replace(self, rows=self.rows[paging.rows], paging=paging, every=lambda: self.rows)

    @cached_property
    def table(self) -> Table:
        """The rows on the page as a table."""
        return self._tabulate(self.rows)

    def download(self) -> Table:
        """Return the table of all rows."""
        if self.whole is not None:
            return self.whole()
        return self.table if self.every is None else self._tabulate(self.every())

    def _tabulate(self, rows: Sequence[Row]) -> Table:
        cells = tuple(tuple(column.cell(row) for column in self.columns) for row in rows)
        return Table(tuple(column.heading for column in self.columns), cells)

    @property
    def csv(self) -> str:
        """The address of the list as CSV."""
        return self.request.csv_address(self.name)

    def state(self) -> dict[str, Any]:
        """Return the number of rows, the page and the order for JSON."""
        state: dict[str, Any] = {"total": len(self.rows)}
        if self.paging is not None:
            state = {"total": self.paging.total, "number": self.paging.number}
        if self.order is not None:
            state |= {"sort": self.order.by, "descending": self.order.descending}
        return state

    def row_dicts(self) -> list[dict[str, Any]]:
        """Return the rows for JSON, by the headings of the columns."""
        return table_dicts(self.table)

    def html(self) -> Markup:
        """Write the table element."""
        return Markup(html_table(self.table, self))

    def extra_columns(self) -> Sequence[ExtraColumn]:
        """Return checkboxes before the first column, and pictures."""
        columns = [self.picture] if self.picture is not None and self.rows else []
        if self.run is not None and self.rows:
            boxes = [_checkbox(self.run(row)) for row in self.rows]
            columns.insert(0, ExtraColumn(-1, "pick", tag("span", "select", class_="skip"), boxes))
        return columns

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        """Write a heading, with a link that sorts by its column."""
        attributes, text = super().head(column, name, left)
        declared = self.columns[column]
        if declared.heading_link:
            return attributes, tag("a", text or "(no name)", href=declared.heading_link)
        if self.order is None or not declared.key:
            return attributes, text
        is_sorted, descending = declared.key == self.order.by, self.order.descending
        down = not descending if is_sorted else not declared.ascending
        href = self.request.params.address(
            self.request.path, sort=declared.key, order="down" if down else "up", page=None
        )
        direction = "descending" if descending else "ascending"
        return {**attributes, "aria_sort": direction if is_sorted else None}, tag(
            "a", text, href=href
        )

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """Write a value with its link, its classes and its note."""
        declared, record = self.columns[column], self.rows[row]
        style = declared.style(record) if declared.style else ""
        classes = [
            style,
            "" if declared.show is None else declared.heading,
            "" if left else "n",
            "name" if column == (self.columns[0].heading == "rank") else "",
            "short" if len(cell.text) <= _SHORT else "",
        ]
        text, exact = cell_text(cell), None
        if declared.form is not None and cell.value not in (None, ""):
            text, exact = html_text(declared.form(cell.value)), cell.text
        if declared.show is not None:
            text, exact = html_text(declared.show(record)), cell.text
        if style == _RUNNING and self.run is not None:  # the page's script follows it
            text = _progress(self.run(record), text)
        href = declared.link(record) if declared.link else ""
        if href:
            text = tag("a", text or "(no name)", href=href)
        if column == 0 and self.notes:
            text += " " + tag("span", html_text(self.notes[row]), class_="beside")
        return {"class_": " ".join(filter(None, classes)) or None, "title": exact}, text


def _checkbox(run: Any) -> str:
    label = f"Compare run {run.id}: {run.name}"
    return tag("input", type="checkbox", name="run", value=run.id, form="choose", aria_label=label)


def _progress(run: Any, words: str) -> str:
    bar = tag("progress", "", max=run.total, value=run.done) if run.total else ""
    return tag("span", tag("span", words, data_words="") + bar, data_run=run.id)


def table_dicts(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table for JSON, by the names of the columns."""
    return [
        {name: _finite(cell.value) for name, cell in zip(table.columns, row, strict=True)}
        for row in table.rows
    ]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class QueryNeighbours:
    """The place of a query in a list, and the addresses of the queries beside it."""

    place: int
    total: int
    before: str
    after: str


@dataclass(frozen=True, eq=False)
class QueryListing:
    """The queries of one or several runs: searched, sorted, and shown with their texts.

    Args:
        request: The request of the page.
        runs: The runs, whose texts of queries are searched.
        query_ids: The ids of all queries.
        values: What the list can be sorted by beside the id, by the key in the address.
        order: How it is sorted.
        columns: The columns after that of the id; a row is the position of a query.
        context: Further parameters of the pages of queries.
    """

    request: PageRequest
    runs: Sequence[Run]
    query_ids: Ids
    values: Mapping[str, Floats]
    order: SortOrder
    columns: Sequence[ListColumn[int]] = ()
    context: Mapping[str, Any] | None = None

    @cached_property
    def positions(self) -> Ints:
        """The queries that were searched for, in order; undefined values come last."""
        positions = np.arange(len(self.query_ids))
        if self.order.by != "query":
            values = self.values[self.order.by]
            keys = -values if self.order.descending else values
            positions = np.argsort(np.where(np.isnan(keys), np.inf, keys), kind="stable")
        elif self.order.descending:
            positions = positions[::-1]
        return self._search(positions)

    def _search(self, positions: Ints) -> Ints:
        """Return the positions of queries with all words of the search in id or text."""
        words = self.request.params.get("q").casefold().split()
        if not words:
            return positions
        loaded = (self.request.cache.texts(self.request.store, run) for run in self.runs)
        texts = next(filter(None, loaded), {})
        queries: Sequence[Any] = self.query_ids.take(positions).to_list()
        lines = (f"{printable(query)} {texts.get(str(query), '')}".casefold() for query in queries)
        matching = [all(word in line for word in words) for line in lines]
        found_positions: Ints = positions[np.asarray(matching, bool)]
        return found_positions

    def link(self, position: int) -> str:
        """Return the address of a query's page, whose neighbours are those of this list."""
        return address(
            "/query",
            run=[run.id for run in self.runs],
            query=self.query_ids[position],
            **(self.context or {}),
            sort=self.order.by,
            order=self.order.word,
            q=self.request.params.get("q") or None,
        )

    @cached_property
    def listing(self) -> Listing[int]:
        """The list on the page."""
        queries: ListColumn[int] = ListColumn(
            "query", lambda i: self.query_ids[i], key="query", ascending=True, link=self.link
        )
        columns = [queries, *self.columns]
        positions = self.positions.tolist()
        listing = Listing(
            self.request, "queries", "Queries", columns, positions, self.order
        ).paged()
        texts = self._read_texts([str(self.query_ids[i]) for i in listing.rows])
        notes = [texts.get(str(self.query_ids[i]), "") for i in listing.rows] if texts else []
        return replace(listing, notes=notes)

    def _read_texts(self, queries: Sequence[str]) -> dict[str, str]:
        """Return the beginnings of the texts of queries, by query id."""
        with self.request.store.database.reading() as connection:
            for run in self.runs:
                texts = read_query_texts(connection, run.id, queries)
                if texts:
                    return {query: _shorten(text) for query, text in texts.items()}
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return the list for JSON."""
        listing = self.listing
        ids = [str(self.query_ids[i]) for i in listing.rows]
        texts = {query: note for query, note in zip(ids, listing.notes, strict=False) if note}
        return {**listing.state(), "rows": listing.row_dicts(), "texts": texts}

    def neighbours(self, query: str) -> QueryNeighbours | None:
        """Return the neighbours of a query; None where it is not in the list."""
        return find_neighbours(self.request, self.query_ids.take(self.positions), query)


def find_neighbours(request: PageRequest, ids: Ids, query: str) -> QueryNeighbours | None:
    """Return the neighbours of a query among ids; None where it is not one of them."""
    queries = ids.to_list()
    place = next((i for i, other in enumerate(queries) if str(other) == query), None)
    if place is None:
        return None
    before, after = (
        request.params.address(request.path, query=queries[at]) if 0 <= at < len(queries) else ""
        for at in (place - 1, place + 1)
    )
    return QueryNeighbours(place + 1, len(queries), before, after)


def _shorten(text: str) -> str:
    """Return the beginning of a text in one line.

    >>> _shorten("two\\nlines")
    'two lines'
    """
    line = " ".join(text[: 2 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[:_LONGEST].rstrip() + "…"
