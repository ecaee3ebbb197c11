"""The group of commands; a command's module is imported when that command is called.

A command is a file of this folder, or a folder with an `__init__.py`, that begins with a line such
as "`assay eval`: Score one or several runs against judgments." and holds `command`. The list in
`assay --help` is made of these first lines, so that it needs no import.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from assay import __version__
from assay.cli.commands import CommandGroup, write_commands
from assay.cli.exit_codes import name_broken_pipes, note_command, run_command
from assay.cli.help_pages import find_page
from assay.cli.progress import showing_progress
from assay.core.text import did_you_mean

__all__ = ["COMMANDS", "assay", "main"]

# The list of commands; one that stands in no group follows under "More".
_GROUPS: Final = {
    "Evaluate": ("eval", "compare", "tasks", "explain", "check", "verify"),
    "Search": ("rank", "encode", "fuse"),
    "Tasks": ("bench", "crossmodal", "predict", "codes", "descriptors"),
    "Keep and show": ("runs", "report", "serve"),
    "Tools": ("measures", "trec_eval", "convert", "schema", "completion", "demo"),
}
_FIRST_LINE: Final = re.compile(r'"""`assay (?P<name>[a-z_-]+)`: (?P<help>.+?)(""")?$')


def _find_commands(folder: Path) -> dict[str, str]:
    """Commands and what they are for, from the first lines of their files."""
    found = {}
    for entry in folder.iterdir():
        file = entry / "__init__.py" if entry.is_dir() else entry
        if file.suffix != ".py" or not file.is_file():
            continue
        with open(file, encoding="utf-8") as lines:
            first = _FIRST_LINE.match(lines.readline().rstrip())
        if first is not None:
            found[first["name"]] = first["help"]
    order = [name for names in _GROUPS.values() for name in names]
    names = sorted(found, key=lambda name: (order.index(name) if name in order else 99, name))
    return {name: found[name] for name in names}


COMMANDS: Final = _find_commands(Path(__file__).parent)


# They multiply no matrices, so that numpy need not start a thread for every processor.
_WITHOUT_PRODUCTS: Final = {
    "check",
    "convert",
    "eval",
    "explain",
    "measures",
    "schema",
    "trec_eval",
}
_THREADS: Final = "OPENBLAS_NUM_THREADS"


@contextmanager
def _few_threads(command: str) -> Iterator[None]:
    """Numpy's threads of a command that needs none, where numpy is not imported yet."""
    decided = "numpy" in sys.modules or _THREADS in os.environ
    mine = command in _WITHOUT_PRODUCTS and not decided
    if mine:
        os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        if mine:
            del os.environ[_THREADS]  # other processes have their own


class LazyGroup(CommandGroup):
    """A group that imports the module of a command only to run it."""

    def make_context(
        self, info_name: str | None, args: list[str], *more: Any, **kwargs: Any
    ) -> click.Context:
        """Read the options; `--help` and `--version` already print here."""
        given = tuple(args)
        with name_broken_pipes():
            context = super().make_context(info_name, args, *more, **kwargs)
        context.meta["assay.arguments"] = given  # for runs that are saved
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and show how far it is."""
        with name_broken_pipes(), showing_progress(ctx):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, most used first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        with _few_threads(cmd_name):
            command: click.Command = import_module(f"assay.cli.{cmd_name}").command
        if "_ASSAY_COMPLETE" in os.environ:  # a shell asks what may follow
            import_module("assay.cli.completion").complete_values(command)
        note_command(command)
        gc.enable()  # `python -m assay` disables it while modules load
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command to run; an unknown name is answered with the nearest ones."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS, most=2)
            known = ", ".join(COMMANDS)
            raise click.UsageError(f"There is no command {args[0]!r}.{hint} Commands: {known}.")
        page = find_page(args)
        return (page.name, page, args[-1:]) if page else super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help."""
        groups = {
            title: {name: COMMANDS[name] for name in names if name in COMMANDS}
            for title, names in _GROUPS.items()
        }
        listed = {name for names in groups.values() for name in names}
        more = {name: words for name, words in COMMANDS.items() if name not in listed}
        write_commands({**groups, "More": more}, formatter)


_BRITISH: Final = re.compile(r"is(?=(e|ed|es|ing|ation)\b)")


def _normalize(word: str) -> str:
    """Names of options and values that are words, in one spelling.

    click compares both sides in this form: --per_query is --per-query, and both British and
    American spellings are understood (--normalise, --test randomization).
    """
    return _BRITISH.sub("iz", word.replace("_", "-"))


_SETTINGS: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": _normalize,
    "max_content_width": 100,
}


@click.group(
    cls=LazyGroup,
    context_settings=_SETTINGS,
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
