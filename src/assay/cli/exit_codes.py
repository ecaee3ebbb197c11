"""What becomes of an exception: one message on stderr and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from assay.core.text import printable
from assay.errors import AssayError

__all__ = ["NoReaderError", "exit_code_of", "pipes_named"]

_FILE_SYSTEM = 5
_OUR_FAULT = 70
_INTERRUPTED = 130
_NO_READER = 141


class NoReaderError(Exception):
    """Nobody reads the output any more."""


@contextmanager
def pipes_named() -> Iterator[None]:
    """Hide a broken pipe from click, which would end the program with 1 and not say why."""
    try:
        yield
    except BrokenPipeError as error:
        raise NoReaderError from error


def exit_code_of(command: Callable[[], object]) -> int:
    """Run a command; say what went wrong, and give the exit code."""
    _open_what_is_closed()
    _never_fail_to_encode()
    try:
        result = command()
        sys.stdout.flush()
    except (BrokenPipeError, NoReaderError):
        return _without_reader()
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted.")
        return _INTERRUPTED
    except Exception as error:
        code = _explained(error)
        _drop_what_cannot_be_written()
        return code
    return result if isinstance(result, int) else 0


def _open_what_is_closed() -> None:
    """Python has no stream at all where the shell closed one (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _never_fail_to_encode() -> None:
    """A terminal or file that is not UTF-8 gets escapes in place of what it cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _without_reader() -> int:
    """`| head` has gone: be quiet, also when Python flushes at the end."""
    _write_to_nowhere()
    return _NO_READER


def _drop_what_cannot_be_written() -> None:
    """Where stdout is full or closed, Python must not try again at the end and fail once more."""
    try:
        sys.stdout.flush()
    except OSError:
        _write_to_nowhere()


def _write_to_nowhere() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _explained(error: Exception) -> int:
    if isinstance(error, AssayError):
        _say(str(error))
        return error.exit_code
    if isinstance(error, click.ClickException):
        _say(_usage(error))
        return error.exit_code
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        _say(f"{where}{error.strerror or error}.")
        return _FILE_SYSTEM
    if isinstance(error, MemoryError):
        _say("there is not enough memory for this. Use fewer runs or a smaller --depth.")
        return _FILE_SYSTEM
    return _our_fault(error)


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" See '{context.command_path} --help'." if context is not None else ""
    return error.format_message() + hint


def _our_fault(error: Exception) -> int:
    if os.environ.get("ASSAY_TRACEBACK"):
        raise error
    what = f"{type(error).__name__}: {error}"
    _say(f"this is a fault of Assay, please report it: {what}. ASSAY_TRACEBACK=1 shows where.")
    return _OUR_FAULT


def _say(message: str) -> None:
    try:
        print(f"assay: {printable(message)}", file=sys.stderr, flush=True)
    except OSError:
        return  # nobody reads stderr either
