"""The application: which address shows which page, and what is said when one cannot be shown."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from assay.core.text import printable
from assay.errors import AssayError, StorageError
from assay.report.html import asset as report_asset
from assay.web.page import Page, View, csv_answer, html_answer, json_answer
from assay.web.pages.compare import compared_page
from assay.web.pages.leaderboard import board_page
from assay.web.pages.query import query_page
from assay.web.pages.run import run_page
from assay.web.pages.runs import runs_page
from assay.web.pages.trends import trend_page
from assay.web.params import Asked
from assay.web.score_cache import Values
from assay.web.security import Guard, hosts_for
from assay.web.store_handle import Source

__all__ = ["make_app"]

_PAGES: Final[dict[str, Callable[[View], Page]]] = {
    "/runs": runs_page,
    "/leaderboard": board_page,
    "/compare": compared_page,
    "/query": query_page,
    "/trends": trend_page,
}
_PATIENCE: Final = 0.1  # seconds; then a page is shown without its statistics, and asks again
_KINDS: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def make_app(
    source: Source,
    *,
    host: str = "127.0.0.1",
    allowed: Iterable[str] = (),
    token: str | None = None,
) -> Starlette:
    """The dashboard over a store, as an ASGI application."""
    values = Values()

    def answer(make: Callable[[View], Page], ending: str) -> Callable[[Request], Response]:
        return lambda request: _answered(make, source, values, request, ending)

    routes = [Route("/", _home, methods=["GET"])]
    routes += [
        Route(f"{path}{ending}", answer(make, ending), methods=["GET"])
        for path, make in _PAGES.items()
        for ending in ("", ".json", ".csv")
    ]
    routes += [
        Route(f"/run/{{key}}{ending}", answer(run_page, ending), methods=["GET"])
        for ending in (".json", ".csv", "")
    ]
    routes.append(Route("/static/{name}", _static, methods=["GET"]))
    guard = Middleware(Guard, hosts=hosts_for(host, allowed), token=token)
    app = Starlette(
        routes=routes, middleware=[guard], exception_handlers={HTTPException: _not_there}
    )
    app.router.redirect_slashes = False
    return app


def _answered(
    make: Callable[[View], Page], source: Source, values: Values, request: Request, ending: str
) -> Response:
    try:
        return _written(make, source, values, request, ending)
    except StorageError as error:
        return _complaint(request, 503, "The store cannot be read", str(error))
    except HTTPException as error:
        return _complaint(request, error.status_code, "There is no such thing", error.detail)
    except AssayError as error:
        return _complaint(request, 400, "This cannot be shown", str(error))
    except Exception as error:
        return _our_fault(request, error)


def _written(
    make: Callable[[View], Page], source: Source, values: Values, request: Request, ending: str
) -> Response:
    asked = Asked.of(request.scope["query_string"])
    path, key = request.scope["path"], request.path_params.get("key", "")
    patience = None if ending else _PATIENCE
    store = source.store()
    page = make(View(store, asked, values, path.removesuffix(ending), key, patience))
    if ending == ".csv":
        return csv_answer(page, asked.one("table"))
    if ending == ".json":
        return json_answer(page)
    return html_answer(page, store=store, path=path, json_twin=_twin(path, request))


def _twin(path: str, request: Request) -> str:
    query = request.scope["query_string"].decode("latin-1")
    return f"{path}.json?{query}" if query else f"{path}.json"


def _complaint(request: Request, status: int, title: str, message: str) -> Response:
    """Why there is no page, in the form in which the page was asked for."""
    data = {"error": printable(message), "status": status}
    page = Page("error", title, data)
    path = request.scope["path"]
    if path.endswith((".json", ".csv")):
        return json_answer(page, status=status)
    return html_answer(page, status=status, store=None, path=path, json_twin="")


def _home(request: Request) -> Response:
    return RedirectResponse("/runs", 303)


def _not_there(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _complaint(
        request,
        status,
        "There is no such page",
        "There is no page at this address. Begin at the list of runs.",
    )


def _our_fault(request: Request, error: Exception) -> Response:
    if os.environ.get("ASSAY_TRACEBACK"):
        raise error
    what = f"{type(error).__name__}: {error}"
    print(f"assay: a page failed: {printable(what)}", file=sys.stderr, flush=True)
    return _complaint(
        request,
        500,
        "This is a fault of Assay",
        "The page could not be made. Where 'assay serve' runs it says why. Please report it.",
    )


@cache
def _assets() -> dict[str, bytes]:
    """Everything that pages load, by name; nothing else can be asked for."""
    from importlib.resources import files

    own = files("assay.web") / "assets"
    names = ("dashboard.js", "theme.js", "icon.svg")
    found = {name: (own / name).read_bytes() for name in names}
    style = report_asset("report.css") + (own / "dashboard.css").read_text("utf-8")
    return {**found, "dashboard.css": style.encode()}


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    content = _assets().get(name)
    if content is None:
        raise HTTPException(404)
    mark = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    headers: dict[str, Any] = {"etag": mark, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, _KINDS[name.rpartition(".")[2]])
