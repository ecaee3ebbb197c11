"""The application: the store that is served, its pages, edits of tags and notes, and errors.

A file may be replaced, upgraded or removed while it is served. An open connection would go on
showing the old one, so every request checks whether the file is still the same.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import Any, Final

from sqlalchemy import event
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

import assay.store
from assay.core.text import printable
from assay.errors import AssayError, StorageError, UsageError
from assay.report.report import read_asset
from assay.store import Store
from assay.store.database import locate
from assay.store.schema import version_of
from assay.web import page as web
from assay.web.caches import Caches
from assay.web.page import PageRequest, PageRoute, QueryParams, WebPage
from assay.web.pages import page_routes
from assay.web.security import EDITED, SecurityMiddleware, allowed_hosts, equal_texts

_ENDINGS: Final = (".json", ".csv", "")  # the bare path last: it would match the others, too
_TIMEOUT: Final = 0.06  # seconds; then a page is shown without its statistics, and reloads itself
_MEDIA_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
BUSY_TIMEOUT: Final = 3000  # milliseconds; then the page says that the store is locked
_MOST_BYTES: Final = 100_000
_FORM: Final = "application/x-www-form-urlencoded"


class StoreHandle:
    """A store by its location; `store` opens it, or opens it again."""

    def __init__(self, place: str | os.PathLike[str] | None = None) -> None:
        self.location = locate(place)
        self._place = place
        self._lock = Lock()
        self._store: Store | None = None
        self._identity: tuple[int, int] | None = None

    def store(self) -> Store:
        """Return the store, opened for reading, and reopened when it was replaced."""
        opened = self._store
        # Outside of the lock: it may take a while where the database is locked.
        changed = opened is not None and self._was_replaced(opened)
        with self._lock:
            if changed and self._store is opened:
                self._close()
            if self._store is None:
                self._identity = self._identify()
                self._store = _open_store(self._place)
            return self._store

    @contextmanager
    def editable(self) -> Iterator[Store]:
        """Open the store for writing, for the length of one edit."""
        self.store()  # what cannot be shown is not edited, and never upgraded from here
        with assay.store.open(self._place, create=False) as store:
            yield store

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _was_replaced(self, store: Store) -> bool:
        if self._identify() != self._identity:
            return True
        with store.database.reading() as connection:
            return version_of(connection) != store.database.version

    def _identify(self) -> tuple[int, int] | None:
        """Return device and inode of the file; None without one, and for a server."""
        if self.location.file is None:
            return None
        try:
            status = os.stat(self.location.file)
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _open_store(place: str | os.PathLike[str] | None) -> Store:
    store = assay.store.open(place, create=False, read_only=True)
    if store.database.engine.dialect.name == "sqlite":
        pragma = f"PRAGMA busy_timeout={BUSY_TIMEOUT}"
        event.listen(
            store.database.engine, "connect", lambda connection, _: connection.execute(pragma)
        )
    return store


class EditForm:
    """Take what the form of a run's page sends.

    The form carries a `secret` of this server, which a page of another site can neither read nor
    guess, beside the token and the origin that every request is checked for.
    """

    def __init__(self, source: StoreHandle) -> None:
        self._source = source
        self.secret = secrets.token_urlsafe(24)

    async def save(self, request: Request) -> Response:
        """Change the run, and go back to its page."""
        params = await _read_form(request)
        if not equal_texts(params.get("secret"), self.secret):
            raise HTTPException(403, "The form is not of this server. Load the page again.")
        run = await run_in_threadpool(self._change, request.path_params["key"], params)
        return RedirectResponse(f"/run/{run}", 303, {"cache-control": "no-store"})

    def _change(self, key: str, params: QueryParams) -> int:
        with self._source.editable() as store:
            run = web.find_run(store, key)
            # A form cannot send every character, so tags are known by what people see of them.
            ticked = params.get_all("remove")
            removed = [tag for tag in run.tags if printable(tag) in ticked]
            added = [tag.strip() for tag in params.get("add").split(",") if tag.strip()]
            if removed:
                store.untag(run.id, *removed)
            if added:
                store.tag(run.id, *added)
            notes = "\n".join(params.get("notes").splitlines())
            if notes != web.format_notes(run.notes):
                store.note(run.id, notes)
        return run.id


async def _read_form(request: Request) -> QueryParams:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise HTTPException(415, f"A form is sent as {_FORM}.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, f"Tags and notes take up to {_MOST_BYTES:,} bytes.")
    if not body.isascii():
        raise UsageError("The form holds bytes that no form sends.")
    return QueryParams.parse(body)


def make_app(
    source: StoreHandle,
    *,
    host: str = "127.0.0.1",
    allowed: Iterable[str] = (),
    token: str | None = None,
    allow_edit: bool = False,
) -> Starlette:
    """Make the dashboard over a store, as an ASGI application.

    Args:
        source: The store.
        host: The address that the server listens on.
        allowed: Further host names that requests may use.
        token: What requests must carry; None lets everyone in.
        allow_edit: Whether pages of runs change tags and notes.

    Returns:
        The application.

    Raises:
        UsageError: Editing without a token.
    """
    if allow_edit and not token:
        raise UsageError("Editing tags and notes requires a token. Set ASSAY_TOKEN.")
    pages = _Pages(source, EditForm(source) if allow_edit else None)
    routes = [
        Route(_address(route.path, ending), pages.endpoint(route, ending), methods=["GET"])
        for route in page_routes()
        for ending in _ENDINGS
    ]
    routes.append(Route("/static/{name}", _static, methods=["GET"]))
    if pages.form is not None:
        routes.append(Route("/run/{key}/edit", _answer_errors(pages.form.save), methods=["POST"]))
    hosts, posts = allowed_hosts(host, allowed), EDITED if allow_edit else None
    security = Middleware(SecurityMiddleware, hosts=hosts, token=token, posts=posts)
    app = Starlette(
        routes=routes, middleware=[security], exception_handlers={HTTPException: _no_such_page}
    )
    app.router.redirect_slashes = False
    return app


def _address(path: str, ending: str) -> str:
    """Return the address of a page or its twin; the front page has a name there.

    >>> _address("/", ".json"), _address("/runs", "")
    ('/home.json', '/runs')
    """
    return f"{web.HOME}{ending}" if path == "/" and ending else f"{path}{ending}"


@dataclass(frozen=True)
class _Pages:
    """Answer requests for pages; there is a `form` where tags and notes may be edited."""

    source: StoreHandle
    form: EditForm | None
    cache: Caches = field(default_factory=Caches)

    def endpoint(self, route: PageRoute, ending: str) -> Callable[[Request], Response]:
        """Return the function that answers for one address."""

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
            return web.csv_response(page, params.get("table"))
        if ending == ".json":
            return web.json_response(page)
        query = request.scope["query_string"].decode("latin-1")
        twin = f"{_address(path, '.json')}?{query}" if query else _address(path, ".json")
        context = {**_shared_context(path), "json_twin": twin, "store": store}
        return web.html_response(page, **context, secret=self.form and self.form.secret)


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
    """Answer with what went wrong."""
    if isinstance(error, StorageError):
        what = "read" if request.method != "POST" else "changed"
        return _error_response(request, 503, f"The store cannot be {what}", str(error))
    if isinstance(error, HTTPException):
        title = "Not found" if error.status_code == 404 else "Refused"
        return _error_response(request, error.status_code, title, error.detail)
    if isinstance(error, AssayError):
        return _error_response(request, 400, "Invalid request", str(error))
    if os.environ.get("ASSAY_TRACEBACK"):
        raise error
    message = f"{type(error).__name__}: {error}"
    print(f"assay: a page failed: {printable(message)}", file=sys.stderr, flush=True)
    advice = "The terminal in which 'assay serve' runs shows the error; please report it."
    return _error_response(request, 500, "Internal error", f"This is a bug in Assay. {advice}")


def _shared_context(path: str) -> dict[str, Any]:
    """Return what the frame of every page shows."""
    return {"path": path, "menu": [route for route in page_routes() if route.menu]}


def _error_response(request: Request, status: int, title: str, message: str) -> Response:
    """Say why there is no page, in the requested format."""
    data = {"error": printable(message), "status": status}
    page = WebPage("error", title, data)
    path = request.scope["path"]
    if path.endswith((".json", ".csv")):
        return web.json_response(page, status=status)
    return web.html_response(
        page, status=status, **_shared_context(path), store=None, json_twin="", secret=None
    )


def _no_such_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = "No page at this address. Start from the list of runs."
    return _error_response(request, status, "Page not found", message)


@cache
def _assets() -> dict[str, bytes]:
    """Read everything that pages load, by name; nothing else can be requested."""
    folder = files("assay.web") / "assets"
    names = ("dashboard.js", "theme.js", "icon.svg")
    assets = {name: (folder / name).read_bytes() for name in names}
    style = read_asset("report.css") + (folder / "dashboard.css").read_text("utf-8")
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
