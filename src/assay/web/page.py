"""A page before it is written: its data, its tables, and how both become HTML, JSON or CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from assay.core.text import printable, signed
from assay.errors import UsageError
from assay.store import Store
from assay.tables.table import Table, as_csv
from assay.web.changes import ChangeCache
from assay.web.moments import exact_moment, format_moment
from assay.web.page_table import PageTable
from assay.web.params import QueryParams, address
from assay.web.score_cache import ScoreCache

__all__ = [
    "HOME",
    "SCHEMA_VERSION",
    "Caches",
    "PageRequest",
    "PageRoute",
    "WebPage",
    "csv_response",
    "html_response",
    "json_response",
]

SCHEMA_VERSION: Final = 1
HOME: Final = "/home"  # the front page, where an address needs a name
_NO_STORE: Final = {"cache-control": "no-store"}


@dataclass(frozen=True)
class WebPage:
    """What a page shows: `data` is its JSON twin, `context` is for its template.

    `downloads` makes the tables that are longer in CSV than on the page.
    """

    template: str
    title: str
    data: dict[str, Any]
    tables: Sequence[PageTable] = ()
    context: dict[str, Any] = field(default_factory=dict)
    downloads: Mapping[str, Callable[[], Table]] = field(default_factory=dict)


class Caches(ScoreCache):
    """What was computed from finished runs, which do not change: scores, comparisons, changes."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = ChangeCache()


@dataclass(frozen=True)
class PageRequest:
    """What a page is made from: the store, the parameters, and the scores loaded before.

    `key` is the variable part of the path; `timeout` is how long a reader waits for statistics, in
    seconds, and None waits for the end.
    """

    store: Store
    params: QueryParams
    cache: Caches
    path: str
    key: str = ""
    timeout: float | None = None


@dataclass(frozen=True)
class PageRoute:
    """An address and the function that makes its page; a module of `assay.web.pages` declares one.

    `menu` is its entry in the navigation, the entries in the order of `position`; without one the
    page is reached by links only. JSON and CSV twins are added by themselves.
    """

    path: str
    make: Callable[[PageRequest], WebPage]
    menu: str = ""
    position: int = 0


def _make_printable(value: object) -> object:
    """Everything that a template writes is readable text; what is already markup stays."""
    return value if isinstance(value, Markup) else printable("" if value is None else value)


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("assay.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"address": address}
    made.filters |= {
        "count": lambda number: f"{number:,}",
        "lines": _lines,
        "signed": signed,
        "moment": format_moment,
        "exact_moment": exact_moment,
    }
    return made


def _lines(text: str) -> Markup:
    """A text whose lines stay lines."""
    return Markup("\n").join(printable(line) for line in text.split("\n"))


def html_response(page: WebPage, *, status: int = 200, **context: Any) -> Response:
    """The page for people."""
    tables = {table.name: table for table in page.tables}
    template = _templates().get_template(f"{page.template}.html")
    text = template.render(page=page, data=page.data, tables=tables, **page.context, **context)
    return Response(text.encode(), status, _NO_STORE, "text/html; charset=utf-8")


def json_response(page: WebPage, *, status: int = 200) -> Response:
    """The same data for programs."""
    data = {"schema_version": SCHEMA_VERSION, "page": page.template, **page.data}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, _NO_STORE, "application/json")


def csv_response(page: WebPage, name: str) -> Response:
    """One table of the page with every row and every digit."""
    tables = {one.name: one.table for one in page.tables}
    wanted = name or next(iter(tables), "")
    if wanted not in tables:
        available = ", ".join(tables) or "none"
        raise UsageError(f"This page has no table {name!r}. Tables: {available}.")
    table = page.downloads[wanted]() if wanted in page.downloads else tables[wanted]
    # Names of files may hold what UTF-8 cannot.
    text = f"{as_csv(table)}\n".encode(errors="backslashreplace")
    file = {"content-disposition": f'attachment; filename="{page.template}-{wanted}.csv"'}
    return Response(text, 200, {**_NO_STORE, **file}, "text/csv; charset=utf-8")
