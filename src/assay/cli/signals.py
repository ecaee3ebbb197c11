"""Signals that end a command: it stops where it is, tidies up, and its exit code says why.

The first SIGINT, SIGTERM or SIGHUP is raised as an exception, so that everything unfinished is
removed on the way out; a second one does not wait for that. This file imports next to nothing: it
hears signals while the rest is still being imported.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # that of `typing`, without importing it
if TYPE_CHECKING:
    from types import FrameType


_WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
_ENDING = [getattr(signal, name) for name in _WORDS if hasattr(signal, name)]

_received: list[int] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: they end the work as Ctrl-C does."""


def hear() -> dict[int, object]:
    """Raise the signals that nobody ignores or handles yet; what was there goes to `forget`."""
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    handled: dict[int, object] = {number: signal.getsignal(number) for number in _ENDING}
    before = {number: handler for number, handler in handled.items() if handler in defaults}
    if before:
        _received.clear()
    try:
        for number in before:
            signal.signal(number, _end)
    except ValueError:
        return {}  # only the main thread may; in another, the program around sees to signals
    return before


def forget(before: dict[int, object]) -> None:
    """Handle the signals as before."""
    for number, handler in before.items():
        signal.signal(number, handler)  # type: ignore[arg-type]


def end_quietly() -> None:
    """Let a signal end the interpreter at once: the work is done."""
    for number in _ENDING:
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.SIG_DFL)


def ending_code() -> int | None:
    """Return the exit code that the first signal asks for; None if none came."""
    return 128 + _received[0] if _received else None


def ending_words() -> str:
    """Return the message for an interrupted run."""
    name = signal.Signals(_received[0]).name if _received else "SIGINT"
    return f"{_WORDS[name]}."


def leave_if_lost(lost: sys.UnraisableHookArgs) -> None:
    """End where a signal was raised and Python drops exceptions, as in a `__del__`."""
    if not _received or not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    print(f"assay: {ending_words()}", file=sys.stderr, flush=True)
    _leave()


def _end(number: int, _: FrameType | None) -> None:
    _received.append(number)
    if len(_received) > 1:
        _leave()
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated(signal.Signals(number).name)


def _leave() -> None:
    discard_unfinished()
    os._exit(128 + _received[0])


def discard_unfinished() -> None:
    """Remove the files that are being written, if the module that writes them is imported."""
    discard = getattr(sys.modules.get("assay.io.streams"), "discard_unfinished", None)
    if discard is not None:
        discard()
