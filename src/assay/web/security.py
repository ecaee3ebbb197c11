"""Security: known hosts, two methods, a token beyond this machine, bounded connections.

A page on the web can make a browser ask this server under another name (DNS rebinding), so the name
in the request has to be ours. Nothing here changes anything, so only GET and HEAD are answered;
where tags and notes may be edited, also POST, from our own pages only.

A client that sends half a request, or does not read its answer, is dropped after a while. Requests
wait for their turn. Where more clients are connected than there are places, one that has kept the
server waiting makes room; if none has, the request of the new one is answered with 503.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from assay.web.page import QueryParams

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d+)?", re.ASCII)
_METHODS: Final = ("GET", "HEAD")
EDITED: Final = r"/run/[^/]+/edit"  # the only address that takes a POST
_MOST_CONNECTIONS: Final = 2000  # at a time; further ones are told to come again
_GRACE: Final = 2.0  # seconds in which nobody has to make room: a busy client sends late
_PATIENCE: Final = 10.0  # seconds for a whole request, and for an answer to leave
_SLOWEST: Final = 10_000  # bytes a second, beyond that: an answer may be large
_TICK: Final = 1.0

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def is_loopback(host: str) -> bool:
    """Check that an address can be reached from this machine only.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


@dataclass(frozen=True)
class Hosts:
    """Host names that requests may use; with `numbers` also any IP address."""

    names: frozenset[str]
    numbers: bool = False

    def __contains__(self, header: object) -> bool:
        """Check the Host header of a request, on whichever port."""
        name = _host_name(str(header)).lower().rstrip(".")
        return name in self.names or (self.numbers and _is_address(name))


def _host_name(header: str) -> str:
    """Return the name without its port; empty where the header is invalid.

    >>> _host_name("[::1]:80"), _host_name("localhost:8420"), _host_name("a"), _host_name("[::1].a")
    ('::1', 'localhost', 'a', '')
    """
    match = _HOST.fullmatch(header)
    return "" if match is None else match[1] or match[2]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def allowed_hosts(host: str, more: Iterable[str] = ()) -> Hosts:
    """Return the names of a server that listens on this address.

    Where it listens on all addresses, any of them may be used: only names can be turned to us by a
    stranger, numbers cannot.
    """
    names = {host.lower(), *LOOPBACK, *(name.lower() for name in more)}
    if is_loopback(host):
        return Hosts(frozenset(names))
    return Hosts(frozenset({*names, socket.gethostname().lower()}), numbers=True)


class SecurityMiddleware:
    """Check every request before the pages see it, and set the security headers."""

    def __init__(
        self, app: ASGIApp, *, hosts: Hosts, token: str | None = None, posts: str | None = None
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._token = token
        self._posts = re.compile(posts or "(?!)")  # addresses that take a POST; none by default
        # Without a referrer, a browser does not say where a form comes from.
        self._headers = HEADERS | ({"referrer-policy": "same-origin"} if posts else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            return
        answer = self._refusal(scope) or self._app

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        if Headers(scope=scope).get("host", "") not in self._hosts:
            return _refuse(
                421,
                "Unknown host name. Use the address that 'assay serve' printed, or allow the name "
                "with --allow-host.",
            )
        refusal = None if scope["method"] in _METHODS else self._check_edit(scope)
        if refusal is not None or self._token is None:
            return refusal
        return self._check_token(Request(scope), self._token)

    def _check_edit(self, scope: Scope) -> Response | None:
        """Refuse what no form of our own pages sends; None lets a request pass."""
        if scope["method"] != "POST" or not self._posts.fullmatch(scope["path"]):
            refusal = _refuse(405, "The dashboard is read-only here: use GET or HEAD.")
            refusal.headers["allow"] = ", ".join(_METHODS)
            return refusal
        if not _is_own_origin(Headers(scope=scope)):
            return _refuse(403, "Tags and notes are edited from pages of this dashboard only.")
        return None

    def _check_token(self, request: Request, token: str) -> Response | None:
        """Refuse requests without the token; one in the address becomes a cookie."""
        params = _params(request)
        in_address = params.get("token")
        if in_address and equal_texts(in_address, token):
            path = quote("/" + request.scope["path"].lstrip("/\\"))  # never to another host
            answer = RedirectResponse(params.address(path, token=None), 303)
            answer.set_cookie(_cookie_name(request), token, httponly=True, samesite="lax")
            answer.headers["cache-control"] = "no-store"
            return answer
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        candidates = [_cookie(request), bearer.strip() if scheme.lower() == "bearer" else ""]
        if any(equal_texts(candidate, token) for candidate in candidates):
            return None
        refusal = _refuse(
            401,
            "This server requires a token. Open the address that 'assay serve' "
            "printed, or send the header Authorization: Bearer TOKEN.",
        )
        refusal.headers["www-authenticate"] = "Bearer"
        return refusal


def _params(request: Request) -> QueryParams:
    try:
        return QueryParams.parse(request.scope["query_string"])
    except ValueError:
        return QueryParams([])


def _cookie_name(request: Request) -> str:
    """Name the cookie by the port: browsers keep cookies by host alone."""
    server = request.scope.get("server") or ("", 0)
    return f"assay_token_{server[1]}"


def _cookie(request: Request) -> str:
    with suppress(CookieError, KeyError):
        return SimpleCookie(request.headers.get("cookie", ""))[_cookie_name(request)].value
    return ""


def _is_own_origin(headers: Headers) -> bool:
    """Check that a browser says a page of this server sent the request."""
    origin = urlsplit(headers.get("origin", ""))
    return (
        origin.scheme in ("http", "https")
        and origin.netloc.lower() == headers.get("host", "").lower()
        and headers.get("sec-fetch-site", "same-origin") == "same-origin"
    )


def equal_texts(left: str, right: str) -> bool:
    """Compare texts in a time that does not depend on where they differ."""
    return hmac.compare_digest(left.encode("utf-8", "replace"), right.encode())


def _refuse(status: int, text: str) -> Response:
    return PlainTextResponse(text + "\n", status, headers={"cache-control": "no-store"})


_BUSY: Final = PlainTextResponse(
    "Too many clients. Ask again in a moment.\n", 503, {"connection": "close", "retry-after": "1"}
)


class BoundedProtocol(H11Protocol):
    """One connection, with a limit to how long the server waits for its client."""

    most = _MOST_CONNECTIONS
    grace = _GRACE
    patience = _PATIENCE
    tick = _TICK

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Watch the client; where all places are taken, the slowest of the others goes."""
        super().connection_made(transport)
        self._last_request, now = cast("Any", None), self.loop.time()
        self._owed_since: float | None = now
        self._watch = self.loop.call_later(self.tick, self._check)
        active: list[Any] = [peer for peer in self.connections if not peer.transport.is_closing()]
        if len(active) <= self.most:
            return
        slow = [peer for peer in active if peer is not self and peer._owes()]
        slowest = min(slow, key=_owing_since, default=self)
        if len(active) > 2 * self.most or now - _owing_since(slowest) > self.grace:
            slowest.transport.abort()
        else:
            self.app = _BUSY

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching."""
        self._watch.cancel()
        super().connection_lost(exc)

    def _check(self) -> None:
        """Drop a client that keeps the server waiting, also with a byte now and then.

        With every request the time begins anew.
        """
        now = self.loop.time()
        if not self._owes():
            self._owed_since = None
        elif self._owed_since is None or self.cycle is not self._last_request:
            self._owed_since = now
        elif now - self._owed_since > self.patience + self._unsent() / _SLOWEST:
            self.transport.abort()
            return
        self._last_request = self.cycle
        self._watch = self.loop.call_later(self.tick, self._check)

    def _unsent(self) -> int:
        return self.transport.get_write_buffer_size()

    def _owes(self) -> bool:
        """Check for the client's turn: to send a whole request, or to take the answer."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or self._unsent() > 0


def _owing_since(connection: Any) -> float:
    return float("inf") if connection._owed_since is None else connection._owed_since
