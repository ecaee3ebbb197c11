"""Long work: how far it is, and parsing that threads disturb."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Final, TypeVar

V = TypeVar("V")
_PARSER: Final = RLock()  # a finaliser may parse in the middle of a parse
_TRIES: Final = 100


def parse_python(parse: Callable[[], V]) -> V:
    """Parse Python source or a literal, undisturbed by other threads.

    CPython 3.11 keeps the depth of a syntax tree once for all threads: where another thread parses
    meanwhile, a sound parse ends in SystemError (python/cpython issue 106905).

    >>> import ast
    >>> parse_python(lambda: ast.literal_eval("(3, 4)"))
    (3, 4)
    """
    with _PARSER:  # our own threads take turns; those of other packages may still come between
        for _ in range(_TRIES - 1):
            try:
                return parse()
            except SystemError:
                continue
        return parse()


# How far it is: told by the work, heard by whoever listens, and worded in one way


# What is being done now, how much of it is done, and how much there is, if that is known.
Listener = Callable[[str, int, int | None], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def tell(what: str, done: int, total: int | None = None) -> None:
    """Report progress to the active listener, if any."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(what, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Hear what work in this block, in this thread, tells."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def describe_progress(done: int, total: int | None, seconds: float) -> str:
    """Return percent, count, rate and time left, as far as they are known.

    >>> describe_progress(250, 1000, 5.0)
    '25 %, 250 of 1,000, 50/s, 15 s left'
    >>> describe_progress(7, None, 0.0)
    '7'
    """
    rate = done / seconds if seconds > 0 else 0.0
    if not done and not total:
        return ""
    parts = [f"{done:,}"] if not total else [f"{100 * done // total} %", f"{done:,} of {total:,}"]
    if rate > 0:
        parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s")
    if total and rate > 0:
        parts.append(f"{_format_wait((total - done) / rate)} left")
    return ", ".join(parts)


def _format_wait(seconds: float) -> str:
    """Return a time to wait, to the second, minute or hour.

    >>> _format_wait(15), _format_wait(150), _format_wait(7300)
    ('15 s', '2 min 30 s', '2 h 01 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
