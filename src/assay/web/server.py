"""The server of the dashboard; it listens on this machine only unless a host is given."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

from assay.errors import UsageError, need

PORT: Final = 8420
TOKEN_VARIABLE: Final = "ASSAY_TOKEN"
_SHORTEST_TOKEN: Final = 16
_OPEN_FILES: Final = 8192
_GRACE: Final = 1.5  # seconds for pages that are being made when the server ends


def serve(
    store: str | os.PathLike[str] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    allowed: Iterable[str] = (),
    token: str | None = None,
    allow_edit: bool = False,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve pages over a store until interrupted.

    Beyond this machine a token is required, and everywhere where pages may be edited.

    Args:
        store: The file or URL of the store; that of `assay.store.open` without it.
        host: The address to listen on.
        port: The port; 0 takes any that is free.
        allowed: Further host names that requests may use.
        token: What requests must carry, of 16 or more characters; a random one without it, which is
            then part of the address.
        allow_edit: Whether pages of runs change tags and notes.
        ready: Gets the address once the server listens.

    Raises:
        UsageError: The token is too short, or the port cannot be opened.
        StorageError: The store cannot be read.
        MissingPackageError: A package of the extra `serve` is not installed.

    Example:
        assay.web.serve("runs.db", port=0, ready=print)
    """
    need_packages()
    from assay.web.app import StoreHandle
    from assay.web.security import is_loopback

    _check_token(token)
    open_to_all = is_loopback(host) and not allow_edit
    random_token = None if token or open_to_all else secrets.token_urlsafe(24)
    source = StoreHandle(store)
    source.store()  # an error here, and not with the first page
    with listen(host, port) as listener:
        address = f"http://{_format_host(host)}:{listener.getsockname()[1]}/"
        app = make_app(
            source, host=host, allowed=allowed, token=token or random_token, allow_edit=allow_edit
        )
        ready(f"{address}?token={random_token}" if random_token else address)
        try:
            run_server(app, listener)
        finally:
            source.close()


def make_app(*args: Any, **settings: Any) -> Any:
    """Make the dashboard over a store, as an ASGI application for another server.

    Args:
        args: The store, as `assay.web.app.StoreHandle`.
        settings: Those of `assay.web.app.make_app`: host, allowed, token, allow_edit.

    Returns:
        The application.

    Raises:
        UsageError: Editing without a token.
        MissingPackageError: A package of the extra `serve` is not installed.

    Example:
        app = assay.web.make_app(StoreHandle("runs.db"), host="0.0.0.0", token=token)
    """
    need_packages()
    from assay.web import app

    return app.make_app(*args, **settings)


def need_packages() -> None:
    """Refuse with the name of the extra where a package of the dashboard is missing."""
    for package in ("starlette", "uvicorn", "jinja2", "sqlalchemy"):
        need(package, "The dashboard", "serve")


def _check_token(token: str | None) -> None:
    """Refuse a token that is short or cannot be typed."""
    if token and not (len(token) >= _SHORTEST_TOKEN and token.isascii() and token.isprintable()):
        raise UsageError(
            f"A token has at least {_SHORTEST_TOKEN} printable ASCII characters; this one has "
            f"{len(token)}."
        )


def _format_host(host: str) -> str:
    """Format a host for an address; this machine's name where it stands for all.

    >>> _format_host("::1"), _format_host("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket, or say why that is impossible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = "it is in use. Choose another with --port; --port 0 takes a free one"
        elif error.errno in (errno.EACCES, errno.EPERM):
            why = "permission denied. Choose one from 1024 on with --port"
        else:
            why = error.strerror or str(error)
        raise UsageError(f"Cannot open port {port} of {host}: {why}.") from None


@contextmanager
def handle_hang_up(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let SIGHUP, unless it is ignored, be handled like the signals that the server knows."""
    number = getattr(signal, "SIGHUP", None)
    here = threading.current_thread() is threading.main_thread()
    if number is None or not here or signal.getsignal(number) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(number, handle)
    try:
        yield
    finally:
        signal.signal(number, before)


def _open_files() -> int:
    """Return how many files and connections may be open, after asking for as many as allowed."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 1 << 16
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(hard % 2**63, _OPEN_FILES)  # −1 is without limit
    if soft % 2**63 >= most:
        return most
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def run_server(app: Any, listener: socket.socket) -> None:
    """Answer requests until interrupted."""
    import uvicorn

    from assay.web.security import BoundedProtocol

    BoundedProtocol.most = min(BoundedProtocol.most, _open_files() // 3)

    class Server(uvicorn.Server):
        """End when interrupted, even if a page is still being made."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Handle SIGHUP, too: an exception that it raises could be lost between requests."""
            with super().capture_signals(), handle_hang_up(self.handle_exit):
                yield

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            late = threading.Timer(_GRACE, os._exit, (0 if sig == signal.SIGINT else 128 + sig,))
            late.daemon = True
            late.start()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        access_log=False,
        log_level="error",  # what a stranger sends is no event
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    try:
        Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        return
