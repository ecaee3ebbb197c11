"""The group of commands; a command's module is loaded when that command is called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from assay import __version__
from assay.cli.exit_codes import exit_code_of, pipes_named
from assay.core.text import did_you_mean

__all__ = ["COMMANDS", "assay", "main"]

# What `assay --help` says, so that it need not load a single command.
COMMANDS: Final[dict[str, str]] = {
    "bench": "Which text model is better on my data? Encode, search, judge, compare.",
    "eval": "Score one or several runs against judgments.",
    "compare": "Compare runs: which is better, by how much, and how sure is that?",
    "rank": "Find the exact best documents of each query and write them as a run.",
    "encode": "Encode shards of texts into shards of vectors, for rank.",
    "fuse": "Make one run of several by adding reciprocal ranks or scores.",
    "report": "Write runs and their comparison as one page with charts that opens offline.",
    "crossmodal": "Label retrieval across modalities: do an item's neighbours carry its label?",
    "predict": "Score predictions of one class per sample: Acc@k, MRR, nDCG, F1.",
    "descriptors": "Evaluate image descriptors on scenes with known homographies.",
    "codes": "What is lost if vectors are compressed?",
    "runs": "List, show, compare, tag, export and repeat the runs that --save stored.",
    "serve": "Show a store of runs in the browser.",
    "check": "List what is wrong or suspicious in a run and its judgments.",
    "explain": "Explain one query: its number line by line, or what each contestant found.",
    "measures": "List the measures, their formulas and parameters.",
    "convert": "Write a run or judgments in another format.",
    "schema": "Print what may stand in a config file, as a JSON schema.",
    "demo": "Five ways to search Python's own documentation, compared in a minute.",
}


class LazyGroup(click.Group):
    """A group that imports the module of a command only to run it."""

    def make_context(
        self, info_name: str | None, args: list[str], *more: Any, **kwargs: Any
    ) -> click.Context:
        """Read the options; `--help` and `--version` already print here."""
        given = tuple(args)
        with pipes_named():
            context = super().make_context(info_name, args, *more, **kwargs)
        context.meta["assay.arguments"] = given  # for runs that are saved
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with pipes_named():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, most used first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, loaded now."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"assay.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command to run; an unknown name is answered with the nearest ones."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS, most=2)
            known = ", ".join(COMMANDS)
            raise click.UsageError(f"There is no command {args[0]!r}.{hint} Commands: {known}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _hyphens(name: str) -> str:
    """--per_query is --per-query."""
    return name.replace("_", "-")


_SETTINGS: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": _hyphens,
    "max_content_width": 100,
}


@click.group(
    cls=LazyGroup,
    context_settings=_SETTINGS,
    epilog="'assay COMMAND --help' has the options of a command, with examples.",
)
@click.version_option(__version__, "-V", "--version", prog_name="assay")
def assay() -> None:
    """How good a ranking is, and how sure you can be.

    \b
    assay eval run.txt --qrels qrels.txt
    assay eval bm25.txt dense.txt.gz --qrels qrels.txt -m nDCG@10 -m AP
    assay check run.txt qrels.txt
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    0 fine, 1 `assay check` found something, 2 usage, 3 bad input, 4 a package is missing,
    5 file system, 70 a fault of Assay itself, 130 interrupted, 141 nobody reads the output.
    """
    return exit_code_of(lambda: assay.main(arguments, "assay", standalone_mode=False))
