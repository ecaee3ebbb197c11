"""The application: the routes of the pages, and the answer when a page cannot be shown."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assay.core.text import printable
from assay.errors import AssayError, StorageError, UsageError
from assay.report.html import read_asset
from assay.web.edits import EditForm
from assay.web.page import (
    HOME,
    Caches,
    PageRequest,
    PageRoute,
    WebPage,
    csv_response,
    html_response,
    json_response,
)
from assay.web.pages import page_routes
from assay.web.params import QueryParams
from assay.web.security import SecurityMiddleware, allowed_hosts
from assay.web.store_handle import StoreHandle

__all__ = ["make_app"]

_ENDINGS: Final = (".json", ".csv", "")  # the bare path last: it would match the others, too
_TIMEOUT: Final = 0.06  # seconds; then a page is shown without its statistics, and reloads itself
_MEDIA_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def make_app(
    source: StoreHandle,
    *,
    host: str = "127.0.0.1",
    allowed: Iterable[str] = (),
    token: str | None = None,
    allow_edit: bool = False,
) -> Starlette:
    """The dashboard over a store, as an ASGI application; editing it needs a token."""
    if allow_edit and not token:
        raise UsageError("Tags and notes are edited with a token only. Give one.")
    pages = _Pages(source, EditForm(source) if allow_edit else None)
    routes = [
        Route(address, pages.endpoint(route, ending), methods=["GET"])
        for route in page_routes()
        for ending in _ENDINGS
        if (address := _address(route.path, ending))
    ]
    routes.append(Route("/static/{name}", _static, methods=["GET"]))
    if pages.form is not None:
        routes.append(Route("/run/{key}/edit", _answer_errors(pages.form.save), methods=["POST"]))
    hosts = allowed_hosts(host, allowed)
    security = Middleware(SecurityMiddleware, hosts=hosts, token=token, editable=allow_edit)
    app = Starlette(
        routes=routes, middleware=[security], exception_handlers={HTTPException: _no_such_page}
    )
    app.router.redirect_slashes = False
    return app


def _address(path: str, ending: str) -> str:
    """Of a page or its twin; the front page has a name there.

    >>> _address("/", ".json"), _address("/runs", "")
    ('/home.json', '/runs')
    """
    return f"{HOME}{ending}" if path == "/" and ending else f"{path}{ending}"


@dataclass(frozen=True)
class _Pages:
    """What all pages are made from; `form` is there where tags and notes may be edited."""

    source: StoreHandle
    form: EditForm | None
    cache: Caches = field(default_factory=Caches)

    def endpoint(self, route: PageRoute, ending: str) -> Callable[[Request], Response]:
        """What answers for one address."""

        def respond(request: Request) -> Response:
            try:
                return self._respond(route, request, ending)
            except Exception as error:
                return _explain(request, error)

        return respond

    def _respond(self, route: PageRoute, request: Request, ending: str) -> Response:
        params = QueryParams.parse(request.scope["query_string"])
        path, key = request.scope["path"], request.path_params.get("key", "")
        timeout = None if ending else _TIMEOUT
        store, bare = self.source.store(), path.removesuffix(ending)
        page = route.make(PageRequest(store, params, self.cache, bare, key, timeout))
        if ending == ".csv":
            return csv_response(page, params.get("table"))
        if ending == ".json":
            return json_response(page)
        context = {**_shared_context(path), "json_twin": _twin(request)}
        return html_response(page, **context, store=store, secret=self.form and self.form.secret)


def _answer_errors(
    endpoint: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:
            return _explain(request, error)

    return respond


def _explain(request: Request, error: Exception) -> Response:
    """The answer to what went wrong."""
    if isinstance(error, StorageError):
        what = "read" if request.method != "POST" else "changed"
        return _error_response(request, 503, f"The store cannot be {what}", str(error))
    if isinstance(error, HTTPException):
        title = "Not found" if error.status_code == 404 else "Refused"
        return _error_response(request, error.status_code, title, error.detail)
    if isinstance(error, AssayError):
        return _error_response(request, 400, "Invalid request", str(error))
    return _internal_error(request, error)


def _shared_context(path: str) -> dict[str, Any]:
    """What the frame of every page shows."""
    return {"path": path, "menu": [route for route in page_routes() if route.menu]}


def _twin(request: Request) -> str:
    path = request.scope["path"]
    query = request.scope["query_string"].decode("latin-1")
    twin = f"{HOME if path == '/' else path}.json"
    return f"{twin}?{query}" if query else twin


def _error_response(request: Request, status: int, title: str, message: str) -> Response:
    """Why there is no page, in the format in which the page was requested."""
    data = {"error": printable(message), "status": status}
    page = WebPage("error", title, data)
    path = request.scope["path"]
    if path.endswith((".json", ".csv")):
        return json_response(page, status=status)
    return html_response(
        page, status=status, **_shared_context(path), store=None, json_twin="", secret=None
    )


def _no_such_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = "There is no page at this address. Start from the list of runs."
    return _error_response(request, status, "Page not found", message)


def _internal_error(request: Request, error: Exception) -> Response:
    if os.environ.get("ASSAY_TRACEBACK"):
        raise error
    message = f"{type(error).__name__}: {error}"
    print(f"assay: a page failed: {printable(message)}", file=sys.stderr, flush=True)
    return _error_response(
        request,
        500,
        "Internal error",
        "This is a bug in Assay. The terminal in which 'assay serve' runs shows the error; "
        "please report it.",
    )


@cache
def _assets() -> dict[str, bytes]:
    """Everything that pages load, by name; nothing else can be requested."""
    own = files("assay.web") / "assets"
    names = ("dashboard.js", "theme.js", "icon.svg")
    assets = {name: (own / name).read_bytes() for name in names}
    style = read_asset("report.css") + (own / "dashboard.css").read_text("utf-8")
    return {**assets, "dashboard.css": style.encode()}


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    content = _assets().get(name)
    if content is None:
        raise HTTPException(404)
    etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    headers: dict[str, Any] = {"etag": etag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, _MEDIA_TYPES[name.rpartition(".")[2]])
