"""A page: the request that asks for it, its data and lists, and how both are written.

The parameters of a request are looked up and checked, never trusted. A page becomes HTML by its
template, JSON by its data, and CSV by its lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import Response

from assay.core.text import printable, signed
from assay.core.work import describe_progress
from assay.errors import UsageError
from assay.runs.results import canonical
from assay.store import Run, Store
from assay.store.summaries import RunSummary
from assay.tables.html import Markup, html_text
from assay.tables.table import as_csv
from assay.web.caches import Caches

if TYPE_CHECKING:
    from assay.web.listing import Listing

SCHEMA_VERSION: Final = 1
HOME: Final = "/home"  # the front page, where an address needs a name
_NO_STORE: Final = {"cache-control": "no-store"}
_MOST_PARAMETERS: Final = 200
_MOST_DIGITS: Final = 6  # of the number of a page
_UTF8: Final = "surrogatepass"  # names may hold halves of surrogate pairs
_SILENT: Final = 600  # seconds without a sign of progress after which a run counts as silent


class QueryParams:
    """The parameters of one request, in order.

    >>> params = QueryParams.parse(b"run=3&run=4&page=2")
    >>> params.get_all("run"), params.get_int("page", 1), params.get("sort", "id")
    (['3', '4'], 2, 'id')
    """

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs

    @classmethod
    def parse(cls, query: bytes) -> QueryParams:
        """Parse the part of an address after its question mark."""
        text = query.decode("latin-1")
        if text.count("&") >= _MOST_PARAMETERS:
            raise UsageError(f"An address has at most {_MOST_PARAMETERS} parameters.")
        try:
            return cls(parse_qsl(text, keep_blank_values=True, errors=_UTF8))
        except UnicodeDecodeError:
            raise UsageError("The address holds text that is not UTF-8.") from None

    def get_all(self, name: str) -> list[str]:
        """Return all values of a parameter."""
        return [value for key, value in self.pairs if key == name]

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a parameter."""
        return next(iter(self.get_all(name)), default)

    def __contains__(self, name: str) -> bool:
        """Check for a parameter, which may be empty."""
        return bool(self.get_all(name))

    def get_int(self, name: str, default: int) -> int:
        """Return a positive integer."""
        text = self.get(name)
        if not text:
            return default
        digits = text.lstrip("0") if text.isascii() and text.isdecimal() else ""
        if not digits or len(digits) > _MOST_DIGITS:
            raise UsageError(f"{name} must be a positive integer, found {text!r:.60}.")
        return int(digits)

    def get_choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """Return one of some words."""
        text, words = self.get(name) or default, list(choices)
        if text not in words:
            raise UsageError(f"{name} must be one of {', '.join(words)}; found {text!r}.")
        return text

    def get_name(self, name: str, names: Iterable[str]) -> str | None:
        """Return the name that a form sent; None where there is no such parameter.

        A form cannot send every character, so it sends what people see.
        """
        text = self.get(name)
        if not text:
            return None
        choices = list(names)
        if text in choices:
            return text
        return next((choice for choice in choices if printable(choice) == text), text)

    def address(self, path: str, **changes: Any) -> str:
        """Return the address of a page with some parameters changed; None drops one.

        >>> QueryParams.parse(b"a=1&b=2").address("/x", b=3)
        '/x?a=1&b=3'
        """
        rest = [(key, value) for key, value in self.pairs if key not in changes]
        return _join(path, [*rest, *_flatten(changes)])


def address(path: str, **parameters: Any) -> str:
    """Return the address of a page.

    >>> address("/compare", run=[1, 2], measure="nDCG@10", baseline=None)
    '/compare?run=1&run=2&measure=nDCG%4010'
    """
    return _join(path, _flatten(parameters))


def _flatten(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for key, value in parameters.items():
        several = value if isinstance(value, list | tuple) else [value]
        pairs += [(key, str(item)) for item in several if item is not None]
    return pairs


def _join(path: str, pairs: list[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(pairs, errors=_UTF8)}" if pairs else path


def find_run(store: Store, key: str) -> Run:
    """Return a run by its number or uid; one that is not there is a 404."""
    try:
        return store.run(key)
    except UsageError as error:
        raise HTTPException(404, str(error)) from None


def find_runs(store: Store, params: QueryParams) -> list[Run]:
    """Return the runs that the address names, each once, in its order."""
    runs = [find_run(store, key) for key in params.get_all("run") if key]
    return list({run.id: run for run in runs}.values())


def choose_measure(params: QueryParams, measures: Sequence[str]) -> str:
    """Return the requested measure, else the first; empty where there is none.

    A form that changes the dataset still names the measure of the last one.
    """
    name = params.get_name("measure", measures)
    measure = None if name is None else canonical(name)
    return measure if measure and measure in measures else next(iter(measures), "")


def choose_dataset(params: QueryParams, names: Sequence[str]) -> str:
    """Return the requested dataset, which may have no name, else the first."""
    if "dataset" not in params:
        return next(iter(names), "")
    name = params.get_name("dataset", names) or ""
    if name not in names:
        raise HTTPException(404, f"No finished run of the dataset {name!r}.")
    return name


@dataclass(frozen=True)
class WebPage:
    """A page: `data` is its JSON twin, `context` is for its template."""

    template: str
    title: str
    data: dict[str, Any]
    tables: Sequence[Listing[Any]] = ()
    context: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PageRequest:
    """A request: the store, the parameters, and the scores loaded before.

    `key` is the variable part of the path; `timeout` is how long a reader waits for statistics, in
    seconds, and None waits for the end.
    """

    store: Store
    params: QueryParams
    cache: Caches
    path: str
    key: str = ""
    timeout: float | None = None

    def csv_address(self, table: str) -> str:
        """Return the address of one table of the page as CSV."""
        path = HOME if self.path == "/" else self.path
        return self.params.address(f"{path}.csv", table=table, page=None)


@dataclass(frozen=True)
class PageRoute:
    """An address and the function that makes its page, as a module of `assay.web.pages` has it.

    `menu` is its entry in the navigation, the entries in the order of `position`; without one the
    page is reached by links only. JSON and CSV twins are added by themselves.
    """

    path: str
    make: Callable[[PageRequest], WebPage]
    menu: str = ""
    position: int = 0


def _make_printable(value: object) -> object:
    """Return readable text for everything that a template writes, but markup as it is."""
    return value if hasattr(value, "__html__") else printable("" if value is None else value)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("assay.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"address": address}
    environment.filters |= {
        "count": lambda number: f"{number:,}",
        "lines": _lines,
        "signed": signed,
        "moment": format_moment,
    }
    return environment


def _lines(text: str) -> Markup:
    """Escape a text whose lines stay lines; a signature may be broken behind each part."""
    return Markup("\n".join(html_text(line) for line in text.split("\n")).replace("|", "|<wbr>"))


def html_response(page: WebPage, *, status: int = 200, **context: Any) -> Response:
    """Write the page for people."""
    tables = {table.name: table for table in page.tables}
    template = _templates().get_template(f"{page.template}.html")
    text = template.render(page=page, data=page.data, tables=tables, **page.context, **context)
    return Response(text.encode(), status, _NO_STORE, "text/html; charset=utf-8")


def json_response(page: WebPage, *, status: int = 200) -> Response:
    """Write the data of the page for programs."""
    data = {"schema_version": SCHEMA_VERSION, "page": page.template, **page.data}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, _NO_STORE, "application/json")


def csv_response(page: WebPage, name: str) -> Response:
    """Write one list of the page, the first without a name, with every row and every digit."""
    listings = {listing.name: listing for listing in page.tables}
    listing = listings.get(name or next(iter(listings), ""))
    if listing is None:
        available = ", ".join(listings) or "none"
        raise UsageError(f"This page has no table {name!r}. Tables: {available}.")
    # Names of files may hold what UTF-8 cannot.
    text = f"{as_csv(listing.download())}\n".encode(errors="backslashreplace")
    file = {"content-disposition": f'attachment; filename="{page.template}-{listing.name}.csv"'}
    return Response(text, 200, {**_NO_STORE, **file}, "text/csv; charset=utf-8")


def exact_moment(text: str | None) -> str:
    """Format a stored moment to the minute, in UTC.

    >>> exact_moment("2026-11-16T04:36:59.123456Z")
    '2026-11-16 04:36'
    """
    return (text or "")[:16].replace("T", " ")


def format_moment(text: str | None, now: datetime | None = None) -> str:
    """Format a stored moment as people say it, in UTC.

    >>> day = datetime(2026, 11, 17, 9, tzinfo=UTC)
    >>> [format_moment(f"{at}:59Z", day) for at in ("2026-11-17T04:36", "2026-11-16T04:36")]
    ['today 04:36', 'yesterday 04:36']
    >>> [format_moment(f"{at}:59Z", day) for at in ("2026-03-02T04:36", "2025-03-02T04:36")]
    ['2 Mar 04:36', '2 Mar 2025']
    """
    try:
        moment = datetime.fromisoformat(text or "").replace(tzinfo=UTC)
    except ValueError:
        return exact_moment(text)
    today = now or datetime.now(UTC)
    clock = f"{moment:%H:%M}"
    days = (today.date() - moment.date()).days
    if days in (0, 1):
        return f"{('today', 'yesterday')[days]} {clock}"
    if moment.year == today.year:
        return f"{moment.day} {moment:%b} {clock}"
    return f"{moment.day} {moment:%b} {moment.year}"


def format_notes(notes: str) -> str:
    r"""Format notes for a form: lines stay lines, other control characters are escaped.

    >>> format_notes("a\nb\x00")
    'a\nb\\x00'
    """
    return "\n".join(map(printable, notes.splitlines()))


def progress_of(run: Run | RunSummary) -> dict[str, Any]:
    """Return how far a run is: share, count, rate, time left and what it does.

    Unknown values are None; the rate is the mean since the run began.
    """
    took = _seconds_between(run.created, run.updated)
    rate = run.done / took if run.done and took > 0 else None
    live = bool(rate and run.total) and _seconds_between(run.updated) <= _SILENT
    return {
        "done": run.done,
        "total": run.total,
        "percent": 100 * run.done / run.total if run.total else None,
        "rate": rate,
        "seconds_left": (run.total - run.done) / rate if live and rate else None,
        "now": run.message,
    }


def describe_status(run: Run | RunSummary, *, whole: bool = False) -> str:
    """Describe the status of a run: its progress, and for how long it has been silent."""
    if run.status != "running":
        return run.status
    silent = _seconds_between(run.updated)
    took = 0.0 if silent > _SILENT else _seconds_between(run.created, run.updated)
    words = describe_progress(run.done, run.total or None, took).split(", ")
    if not whole:  # the share, and the time left
        words = [*words[:1], *(word for word in words[1:] if word.endswith(" left"))]
    if silent > _SILENT:
        words.append(f"silent for {_format_duration(silent)}")
    now = f": {run.message}" if whole and run.message else ""
    return f"running {', '.join(filter(None, words))}".strip() + now


def _seconds_between(first: str, last: str | None = None) -> float:
    """Return the seconds from one stored moment to another, or to now."""
    try:
        end = datetime.now(UTC) if last is None else datetime.fromisoformat(last)
        return (end - datetime.fromisoformat(first)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _format_duration(seconds: float) -> str:
    """Format a length of time.

    >>> _format_duration(700), _format_duration(8000), _format_duration(200000)
    ('11 min', '2 h', '2 days')
    """
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    return f"{seconds // 3600:.0f} h" if seconds < 172800 else f"{seconds // 86400:.0f} days"
