"""The group of commands; a command's module is imported when that command is called.

A command of the line is a file of this folder that begins with a line such as "`assay eval`
(Evaluate): Score one or several runs against judgments." and holds `command`. Commands of rooms and
of other packages stand in their plugins. So the list in `assay --help` imports no command.
"""

from __future__ import annotations

import gc
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from assay import __version__
from assay.cli import signals
from assay.cli.commands import CommandGroup, write_commands
from assay.cli.progress import showing_progress
from assay.core.text import did_you_mean, mask_secrets, printable
from assay.errors import AssayError, StorageError
from assay.plugins import CommandEntry, all_plugins, load_target, missing_rooms

# Exceptions as one message on stderr and an exit code, never a traceback


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
    _replace_closed()
    for stream in (sys.stdout, sys.stderr):  # escapes where it is not UTF-8
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        result = command()
        sys.stdout.flush()
    except (BrokenPipeError, BrokenOutputError):
        _discard_unwritten()  # `| head` has gone: be quiet, also when Python flushes at the end
        return _NO_READER
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


def _replace_closed() -> None:
    """Stand in for what the shell closed (`>&-`), where no file may take its number."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)
    sys.stdout = sys.stdout or ClosedOutput()
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


class ClosedOutput(io.TextIOBase):
    """Standard output that the shell closed: a result has nowhere to go."""

    def write(self, text: str) -> int:
        """Refuse any text."""
        raise StorageError("Standard output is closed. Write the result to a file with -o.")


def _discard_unwritten() -> None:
    """Discard unwritten output, so that Python does not fail again at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: Exception) -> int:
    if isinstance(error, AssayError):
        _print_error(str(error))
        return error.exit_code
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = f" See '{context.command_path} --help'." if context is not None else ""
        words = re.sub("a valid integer( range)?", "a whole number", error.format_message())
        words = re.sub("a valid float( range)?", "a number", words)
        _print_error(re.sub(r"\)$", ").", " ".join(words.split())) + hint)
        return error.exit_code
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        _print_error(f"{where}{error.strerror or error}.")
        return _FILE_SYSTEM
    if isinstance(error, MemoryError):
        names = {variable.name for command in _last_command for variable in command.params}
        cures = [words for name, words in _SMALLER.items() if name in names] or ["smaller files"]
        _print_error(f"out of memory. Use {' or '.join(cures)}, or a machine with more.")
        return _FILE_SYSTEM
    if os.environ.get("ASSAY_TRACEBACK"):
        raise error
    what = mask_secrets(f"{type(error).__name__}: {error}")
    _print_error(f"internal error, please report it: {what}. ASSAY_TRACEBACK=1 shows where.")
    return _INTERNAL_ERROR


# What makes a command need less memory, by the option that it has for it.
_SMALLER: Final = {
    "query_block": "a smaller --query-block",
    "depth": "a smaller --depth",
    "k": "a smaller -k",
    "batch_size": "a smaller --batch-size",
    "runs": "fewer runs",
    "files": "fewer files",
}
_last_command: list[click.Command] = []  # the one that runs, for what is said at the end


def _print_error(message: str) -> None:
    try:
        text = mask_secrets(message) if "://" in message else message
        print(f"assay: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:
        return  # nobody reads stderr either


# Headings of the list of commands, in this order; others follow.
_GROUPS: Final = ("Evaluate", "Search", "Tasks", "Keep and show", "Tools")
# Commands of the line that stand first under their heading.
_FIRST: Final = ("eval", "compare", "explain")
_FIRST_LINE: Final = re.compile(
    r'"""`assay (?P<name>[a-z_-]+)` \((?P<group>[^)]+)\): (?P<summary>.+?)(""")?$'
)
# They multiply no matrices, so that numpy need not start a thread for every processor.
_WITHOUT_PRODUCTS: Final = ("check", "convert", "eval", "explain", "measures", "schema")


@cache
def line_commands() -> dict[str, CommandEntry]:
    """Return the commands of this folder by name, read from the first lines of their files."""
    commands = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        with open(file, encoding="utf-8") as lines:
            first = _FIRST_LINE.match(lines.readline().rstrip())
        if first is not None:
            name, multiplies = first["name"], first["name"] not in _WITHOUT_PRODUCTS
            entry = (name, first["group"], first["summary"], f"assay.cli.{file.stem}:command")
            commands[name] = CommandEntry(*entry, multiplies)
    names = sorted(commands, key=lambda name: _FIRST.index(name) if name in _FIRST else 99)
    return {name: commands[name] for name in names}


def list_commands() -> dict[str, CommandEntry]:
    """Return all commands by name, in the order of the list: the line, rooms, other packages."""
    offered = [command for plugin in all_plugins(quick=True) for command in plugin.commands]
    commands = {command.name: command for command in (*offered[::-1], *line_commands().values())}
    order = [*line_commands(), *(command.name for command in offered)]
    groups = [*_GROUPS, *(command.group for command in offered)]
    names = sorted(order, key=lambda name: (groups.index(commands[name].group), order.index(name)))
    return {name: commands[name] for name in names}


def find_command(name: str) -> CommandEntry | None:
    """Return the command of this name; other packages are asked where Assay has none."""
    return line_commands().get(name) or list_commands().get(name)


_THREADS: Final = "OPENBLAS_NUM_THREADS"


def _keep_to_one_thread(context: click.Context, command: CommandEntry) -> None:
    """Keep numpy to one thread for a command that needs no more, if it is not imported yet."""
    if not (command.multiplies or "numpy" in sys.modules or _THREADS in os.environ):
        os.environ[_THREADS] = "1"
        context.call_on_close(partial(os.environ.pop, _THREADS, None))  # others have their own


class LazyGroup(CommandGroup):
    """A group that imports the module of a command only to run it."""

    def make_context(
        self, info_name: str | None, args: list[str], *more: Any, **kwargs: Any
    ) -> click.Context:
        """Read the options; `--help` and `--version` already print here."""
        typed = tuple(args)
        with name_broken_pipes():
            context = super().make_context(info_name, args, *more, **kwargs)
        context.meta["assay.arguments"] = typed  # for runs that are saved
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and show how far it is."""
        with name_broken_pipes(), showing_progress(ctx):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, most used first."""
        return list(list_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name."""
        declared = find_command(cmd_name)
        if declared is None:
            return None
        _keep_to_one_thread(ctx, declared)
        command: click.Command = load_target(declared.target)
        if "_ASSAY_COMPLETE" in os.environ:  # a shell asks what may follow
            import_module("assay.cli.completion").complete_values(command)
        _last_command[:] = [command]
        if not gc.isenabled():  # `python -m assay` disables it; modules load while the command runs
            gc.set_threshold(50_000)
            gc.enable()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command to run; answer an unknown name with the nearest ones."""
        if args and not args[0].startswith("-") and find_command(args[0]) is None:
            commands = list_commands()
            hint = f"{did_you_mean(args[0], commands, most=2)}{missing_rooms()} Commands: "
            raise click.UsageError(f"Unknown command {args[0]!r}.{hint}{', '.join(commands)}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands into the help."""
        groups: dict[str, dict[str, str]] = {}
        for command in list_commands().values():
            groups.setdefault(command.group, {})[command.name] = command.summary
        write_commands(groups, formatter)


_BRITISH: Final = re.compile(r"is(?=(e|ed|es|ing|ation)\b)")


def normalize_spelling(word: str) -> str:
    """Return names and values of options in one spelling.

    click compares both sides in this form: --per_query is --per-query, and both British and
    American spellings are understood (--normalise, --test randomization).
    """
    return _BRITISH.sub("iz", word.replace("_", "-"))


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": normalize_spelling,
        "max_content_width": 100,
    },
    epilog="'assay COMMAND --help' has the options of a command, with examples on the files that"
    " 'assay demo --files FOLDER' writes.",
)
@click.version_option(__version__, "-V", "--version", prog_name="assay")
def assay() -> None:
    """How good a ranking is, and how sure you can be.

    \b
    assay eval dense.run --qrels qrels.txt
    assay eval dense.run lexical.run --qrels qrels.txt -m nDCG@10 -m AP
    assay check dense.run qrels.txt
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    0 success, 1 `assay check` found something or a gate failed, 2 usage, 3 bad input, 4 a package
    is missing, 5 file system, 70 an internal error, 129 hung up, 130 interrupted, 141 broken pipe,
    143 terminated.
    """
    return run_command(lambda: assay.main(arguments, "assay", standalone_mode=False))
