"""Exceptions as one message on stderr and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click

from assay.cli import signals
from assay.core.text import mask_secrets, printable
from assay.errors import AssayError

_FILE_SYSTEM = 5
_INTERNAL_ERROR = 70
_INTERRUPTED = 130
_NO_READER = 141


class BrokenOutputError(Exception):
    """The output is not read any more: a broken pipe."""


@contextmanager
def name_broken_pipes() -> Iterator[None]:
    """Hide a broken pipe from click, which would end the program with 1 and not say why."""
    try:
        yield
    except BrokenPipeError as error:
        raise BrokenOutputError from error


def run_command(command: Callable[[], object]) -> int:
    """Run a command; say what went wrong, and give the exit code."""
    before = signals.hear()
    try:
        return _run(command)
    finally:
        signals.forget(before)


def _run(command: Callable[[], object]) -> int:
    _open_closed_streams()
    _escape_what_cannot_be_encoded()
    try:
        result = command()
        sys.stdout.flush()
    except (BrokenPipeError, BrokenOutputError):
        return _end_without_reader()
    except (KeyboardInterrupt, click.Abort):
        signals.discard_unfinished()
        _print_error(signals.ending_words())
        return signals.ending_code() or _INTERRUPTED
    except Exception as error:
        code = _explain(error)
        _discard_unwritten()
        return code
    message = signals.ending_code()
    if message and message != _INTERRUPTED:
        return message  # a server ends by itself when it is told to
    return result if isinstance(result, int) else 0


def _open_closed_streams() -> None:
    """Python has no stream at all where the shell closed one (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _escape_what_cannot_be_encoded() -> None:
    """A terminal or file that is not UTF-8 gets escapes in place of what it cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _end_without_reader() -> int:
    """`| head` has gone: be quiet, also when Python flushes at the end."""
    _redirect_to_null()
    return _NO_READER


def _discard_unwritten() -> None:
    """Where stdout is full or closed, Python must not try again at the end and fail once more."""
    try:
        sys.stdout.flush()
    except OSError:
        _redirect_to_null()


def _redirect_to_null() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _explain(error: Exception) -> int:
    if isinstance(error, AssayError):
        _print_error(str(error))
        return error.exit_code
    if isinstance(error, click.ClickException):
        _print_error(_usage_message(error))
        return error.exit_code
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        _print_error(f"{where}{error.strerror or error}.")
        return _FILE_SYSTEM
    if isinstance(error, MemoryError):
        _print_error(f"out of memory. {_save_memory()}")
        return _FILE_SYSTEM
    return _report_internal_error(error)


# What makes a command need less memory, by the option that it has for it.
_SMALLER: Final = {
    "query_block": "a smaller --query-block",
    "depth": "a smaller --depth",
    "k": "a smaller -k",
    "batch_size": "a smaller --batch-size",
    "runs": "fewer runs",
    "files": "fewer files",
}
_last_command: list[click.Command] = []


def note_command(command: click.Command) -> None:
    """Remember which command runs, for what is said where memory runs out."""
    _last_command[:] = [command]


def _save_memory() -> str:
    names = {variable.name for command in _last_command for variable in command.params}
    cures = [words for name, words in _SMALLER.items() if name in names]
    return f"Use {' or '.join(cures or ['smaller files'])}, or a machine with more."


def _usage_message(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" See '{context.command_path} --help'." if context is not None else ""
    return " ".join(error.format_message().split()) + hint


def _report_internal_error(error: Exception) -> int:
    if os.environ.get("ASSAY_TRACEBACK"):
        raise error
    what = mask_secrets(f"{type(error).__name__}: {error}")
    _print_error(f"internal error, please report it: {what}. ASSAY_TRACEBACK=1 shows where.")
    return _INTERNAL_ERROR


def _print_error(message: str) -> None:
    try:
        text = mask_secrets(message) if "://" in message else message
        print(f"assay: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:
        return  # nobody reads stderr either
