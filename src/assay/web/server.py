"""A server for the dashboard, on this machine unless asked for more."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final

from assay.errors import UsageError, need

__all__ = ["PORT", "TOKEN_VARIABLE", "serve"]

PORT: Final = 8420
TOKEN_VARIABLE: Final = "ASSAY_TOKEN"
_SHORTEST_TOKEN: Final = 16
_PATIENCE: Final = 1.5  # seconds for pages that are being made when the server ends


def serve(
    store: str | os.PathLike[str] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    allowed: Iterable[str] = (),
    token: str | None = None,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve pages over a store until interrupted; `ready` is told the address.

    Port 0 takes any that is free. Beyond this machine nobody gets in without a token: the one that
    is given, else one made up now, which is part of the address.
    """
    for package in ("starlette", "uvicorn", "jinja2"):
        need(package, "The dashboard", "serve")
    from assay.web.app import make_app
    from assay.web.security import is_loopback
    from assay.web.store_handle import Source

    known = _checked_token(token)
    own = None if known or is_loopback(host) else secrets.token_urlsafe(24)
    source = Source(store)
    source.store()  # what cannot be opened is said at once
    with _listening(host, port) as listener:
        address = f"http://{_in_address(host)}:{listener.getsockname()[1]}/"
        app = make_app(source, host=host, allowed=allowed, token=known or own)
        ready(f"{address}?token={own}" if own else address)
        try:
            _run(app, listener)
        finally:
            source.close()


def _checked_token(token: str | None) -> str | None:
    if not token:
        return None
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise UsageError(
            f"A token has {_SHORTEST_TOKEN} or more printable characters of ASCII; this one has "
            f"{len(token)}."
        )
    return token


def _in_address(host: str) -> str:
    """How a host is written in an address; where it stands for all, this machine's name.

    >>> _in_address("::1"), _in_address("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _listening(host: str, port: int) -> socket.socket:
    """A socket on which somebody listens, or why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = "another program uses it. Choose another with --port; --port 0 takes a free one"
        elif error.errno in (errno.EACCES, errno.EPERM):
            why = "it may not be used by this account. Choose one from 1024 on with --port"
        else:
            why = error.strerror or str(error)
        raise UsageError(f"Port {port} of {host} cannot be opened: {why}.") from None


def _run(app: Any, listener: socket.socket) -> None:
    import uvicorn

    class Server(uvicorn.Server):
        """Ends when asked to, were a page still being made."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            late = threading.Timer(_PATIENCE, os._exit, (0 if sig == signal.SIGINT else 143,))
            late.daemon = True
            late.start()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    try:
        Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        return
