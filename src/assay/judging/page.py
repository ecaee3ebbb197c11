"""The page for labelling: a local server, for one labeller or several by name.

It listens on this machine alone and wants the token of its address, as `assay serve` does where
pages may be edited. The page holds no label: each is on disk before the server answers.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from assay.errors import AssayError
from assay.judging.plugin import read_asset
from assay.judging.session import LabelSession
from assay.web.security import SecurityMiddleware, allowed_hosts
from assay.web.server import listen, run_server

_ASSETS: Final = {"/": "label.html", "/label.js": "label.js", "/label.css": "label.css"}
_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_LARGEST: Final = 1 << 16  # bytes of a request
Sessions = Callable[[str], LabelSession]


def make_label_app(
    open_session: Sessions,
    guidelines: Mapping[int, str],
    *,
    token: str,
    by: str = "",
    status: Callable[[], str] = str,
) -> Starlette:
    """Make the page as an ASGI application.

    Args:
        open_session: Opens the session of a labeller.
        guidelines: What each grade means.
        token: What requests must carry.
        by: The labeller, where the page does not ask for a name.
        status: Says what is known so far.

    Returns:
        The application.
    """
    sessions: dict[str, LabelSession] = {}
    lock = Lock()

    def session_of(name: str) -> LabelSession:
        name = by or name.strip()
        if name not in sessions:
            sessions[name] = open_session(name)
        return sessions[name]

    def state(session: LabelSession) -> Response:
        session.update()
        words = {str(grade): guidelines.get(grade, "") for grade in session.pool.scale}
        data = {**session.show(session.next_pair()), "by": session.by, "guidelines": words}
        return _json({**data, "status": status()})

    def show(request: Request) -> Response:
        with lock:
            name = by or request.query_params.get("by", "")
            return state(session_of(name)) if name.strip() else _json({"by": ""})

    def record(session: LabelSession, data: Any) -> None:
        pair = (str(data["pair"][0]), str(data["pair"][1]))
        note, seconds = str(data.get("note", "")), float(data.get("seconds", 0))
        state = str(data.get("state", "label"))
        session.record(pair, data.get("grade"), state=state, note=note, seconds=seconds)

    async def post(request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LARGEST:
                return _json({"error": "The request is too large."}, 413)
        with lock:
            try:
                data = json.loads(body)
                session = session_of(str(data["by"]))
                session.update()
                if request.url.path == "/undo":
                    session.undo()
                else:
                    record(session, data)
                return state(session)
            except AssayError as error:
                return _json({"error": str(error)}, 507 if error.exit_code == 5 else 400)
            except (ValueError, KeyError, TypeError, IndexError):
                return _json({"error": "Cannot read the request. Reload the page."}, 400)

    def asset(request: Request) -> Response:
        name = _ASSETS[request.url.path]
        return Response(read_asset(name), media_type=_TYPES[name.rpartition(".")[2]])

    routes = [Route(path, asset) for path in _ASSETS]
    routes += [
        Route("/state", show),
        *(Route(p, post, methods=["POST"]) for p in ("/label", "/undo")),
    ]
    guard = Middleware(
        SecurityMiddleware, hosts=allowed_hosts("127.0.0.1"), token=token, posts="/(label|undo)"
    )
    return Starlette(routes=routes, middleware=[guard])


def _json(data: Any, status: int = 200) -> Response:
    return JSONResponse(data, status, headers={"cache-control": "no-store"})


def serve_labels(
    open_session: Sessions,
    guidelines: Mapping[int, str],
    *,
    port: int,
    by: str,
    ready: Callable[[str], None],
    status: Callable[[], str] = str,
) -> None:
    """Serve the page on this machine until interrupted.

    Args:
        open_session: Opens the session of a labeller.
        guidelines: What each grade means.
        port: The port; 0 takes any that is free.
        by: The labeller; empty to let the page ask.
        ready: Gets the address once the server listens.
        status: Says what is known so far.

    Raises:
        UsageError: The port cannot be opened.
    """
    token = secrets.token_urlsafe(24)
    with listen("127.0.0.1", port) as listener:
        app = make_label_app(open_session, guidelines, token=token, by=by, status=status)
        ready(f"http://127.0.0.1:{listener.getsockname()[1]}/?token={token}")
        run_server(app, listener)
