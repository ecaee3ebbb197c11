"""Commands as they are typed: help in groups, values in a row, and what to type instead."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from assay.cli.settings import SECTIONS
from assay.core.on_demand import OnDemand
from assay.core.text import did_you_mean
from assay.errors import AssayError

if TYPE_CHECKING:
    from assay import measures
    from assay.io.streams import keep_standard_input
else:
    measures = OnDemand("assay.measures")
    keep_standard_input = OnDemand("assay.io.streams").keep_standard_input


# In the `meta` of a context: a stored command is parsed, which takes nothing of who repeats it.
REPEATED: Final = "assay.repeated"
FEW_OPTIONS: Final = 11  # options that need no groups


def note_in_context(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Store the value of an option in the context."""
    context.meta[f"assay.{parameter.name}"] = value
    return value


_QUIET: Final = click.Option(
    ["--quiet"], is_flag=True, expose_value=False, callback=note_in_context, help="Hide progress."
)


class Command(click.Command):
    """A command whose options stand in groups, and that says what to type where it was mistyped.

    Measures may be listed: `-m nDCG@10 AP`. The JSON of a `verified` command can
    be computed again from its inputs alone.
    """

    def __init__(self, *args: Any, verified: bool = False, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.verified = verified

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, and --quiet, which every command has."""
        *params, last = super().get_params(ctx)
        return [*params, _QUIET, last]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the titles of their sections; few stand in one list."""
        rows = ((option, option.get_help_record(ctx)) for option in self.get_params(ctx))
        listed = [(option, row) for option, row in rows if row is not None and row[1]]
        grouped: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
        for option, row in listed:
            few = len(listed) <= FEW_OPTIONS
            title = "Options" if few else getattr(option, "section", "Other")
            grouped.setdefault(title, []).append(row)
        for title, records in grouped.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line."""
        args = self.list_values(args)
        typed = list(args)
        try:
            left = super().parse_args(ctx, args)
            _refuse_repeated(self, ctx, typed)
            _take_standard_input(self, ctx)
            return left
        except click.NoSuchOption as error:
            raise click.UsageError(_unknown_option(error.option_name, self.params), ctx) from None
        except click.MissingParameter as error:
            raise click.UsageError(_missing(error, typed, self.help or ""), ctx) from None

    def list_values(self, args: list[str]) -> list[str]:
        """Put every value of a list under the name of its option."""
        many = {
            name
            for parameter in self.params
            if parameter.name == "measures" and isinstance(parameter, click.Option)
            for name in parameter.opts
        }
        return _repeat_names(args, many, _is_measure) if many else args


def _refuse_repeated(command: click.Command, context: click.Context, typed: list[str]) -> None:
    """Refuse two files for an option that takes one: the last would win in silence."""
    typed = typed[: [*typed, "--"].index("--")]
    for option in command.params:
        takes_one = getattr(option, "reads", False) and not getattr(option, "multiple", True)
        if takes_one and sum(word.partition("=")[0] in option.opts for word in typed) > 1:
            raise click.UsageError(f"{option.opts[0]} is given twice. Name one file.", context)


def _take_standard_input(command: click.Command, context: click.Context) -> None:
    """Put a copy of standard input where a file is called `-`; one file may be."""
    named = [
        parameter
        for parameter in command.params
        if getattr(parameter, "reads", False)
        and isinstance(parameter.type, click.types.StringParamType)
    ]
    values = [(item.name or "", context.params.get(item.name or "")) for item in named]
    places = [(name, value) for name, value in values if value == "-" or "-" in _listed(value)]
    n_named = sum(1 if value == "-" else _listed(value).count("-") for _, value in places)
    if not places or context.resilient_parsing:
        return
    if context.meta.get(REPEATED):
        raise click.UsageError("Cannot read standard input ('-') again. Name a file.")
    if n_named > 1:
        raise click.UsageError("Standard input ('-') is named twice. Name a file instead.")
    path = context.with_resource(keep_standard_input())
    for name, value in places:
        item = path if value == "-" else tuple(path if v == "-" else v for v in _listed(value))
        context.params[name] = item


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()


class MultiOptionCommand(Command):
    """A command whose repeatable options may list their values: `-k 1 5 10`.

    Where the command takes arguments, too, only options that take numbers may: what is not a
    number is an argument again.
    """

    def list_values(self, args: list[str]) -> list[str]:
        """Put every value of a list under the name of its option."""
        only_numbers = any(isinstance(parameter, click.Argument) for parameter in self.params)
        many = {
            name
            for option in self.params
            if isinstance(option, click.Option) and option.multiple
            if not only_numbers or isinstance(option.type, click.types.IntParamType)
            for name in option.opts
        }
        args = super().list_values(args) if only_numbers else args
        return _repeat_names(args, many, _is_number if only_numbers else bool)


def _repeat_names(args: list[str], many: set[str], further: Callable[[str], bool]) -> list[str]:
    """Put every `further` value of these options under the name of its option.

    >>> _repeat_names(["--k_values", "1", "2", "--full"], {"--k-values"}, bool)
    ['--k_values', '1', '--k_values', '2', '--full']
    >>> _repeat_names(["-k", "1", "2", "a.npy", "3"], {"-k"}, _is_number)
    ['-k', '1', '-k', '2', 'a.npy', '3']
    """
    repeated: list[str] = []
    current, count = "", 0
    for arg in args:
        if arg.startswith("-") and not _is_number(arg):
            name = arg.partition("=")[0].replace("_", "-")
            current, count = (arg, 0) if name in many and "=" not in arg else ("", 0)
        elif current and count and not further(arg):
            current = ""
        elif current:
            repeated += [current] if count else []
            count += 1
        repeated.append(arg)
    return repeated


def _is_number(arg: str) -> bool:
    try:
        float(arg)
    except ValueError:
        return False
    return True


def _is_measure(arg: str) -> bool:
    """Tell whether a word is a measure and no file."""
    if os.path.exists(arg):
        return False
    try:
        measures.parse_many([arg])
    except AssayError:
        return False
    return True


# What other programs call it.
_ALSO_CALLED: Final = {
    "--level": ("--alpha", "--cl", "--confidence-level", "--significance"),
    "--measure": ("--metric", "--metrics", "--cutoff"),
    "--resamples": ("--bootstrap", "--iterations", "--permutations", "--n-resamples"),
    "--seed": ("--random-state",),
    "--output": ("--out", "--outfile"),
    "--format": ("--csv", "--markdown", "--latex"),
    "--qrels": ("--judgements", "--judgments", "--ground-truth"),
    "--threads": ("--n-jobs", "--jobs"),
    "--full": ("--verbose",),
    "-k": ("--topk", "--top-k"),
    "--store": ("--database", "--db"),
}


def _unknown_option(typed: str, params: Iterable[click.Parameter]) -> str:
    """Describe an unknown option and the likely one."""
    there = [name for param in params if isinstance(param, click.Option) for name in param.opts]
    usual = [name for name in there if typed in _ALSO_CALLED.get(name, ())]
    hint = f" It is called {usual[0]} here." if usual else did_you_mean(typed, there, most=2)
    return f"Unknown option {typed}.{hint}"


def _missing(error: click.MissingParameter, typed: list[str], help: str) -> str:
    """Describe a missing argument, missing files, and a command that works."""
    words = [" ".join(error.format_message().split()).rstrip(".") + "."]
    paths = (word for word in typed if not word.startswith("-"))
    paths = (word for word in paths if re.search(r"\.[a-z]\w{1,7}$", word))
    gone = [word for word in paths if not os.path.exists(word)]
    words += [f"{word} does not exist." for word in gone[:1]]
    files = [
        word
        for before, word in zip(["", *typed], typed, strict=False)
        if not before.startswith("-") and not word.endswith(".run") and os.path.isfile(word)
    ]
    judged = min(reversed(files), key=lambda word: "qrel" not in word, default="")
    name = error.param.name if error.param else ""
    command = error.ctx.command_path if error.ctx else "assay"
    if name == "qrels" and len(typed) > 1 and judged:
        rest = [word for word in typed if word != judged]
        meant = f"{command} {shlex.join(rest)} -r {shlex.quote(judged)}"
        words.append(f"If {judged} holds the judgments, type `{meant}`.")
    elif example := re.search(rf"^ *({re.escape(command)} .*[^\\])$", help, re.MULTILINE):
        words.append(f"For example: `{example[1]}`.")
    return " ".join(words)


def write_commands(groups: Mapping[str, Mapping[str, str]], to: click.HelpFormatter) -> None:
    """Write commands under the titles of their groups."""
    width = max((len(name) for rows in groups.values() for name in rows), default=0)
    for title, rows in groups.items():
        if rows:
            with to.section(title):
                to.write_dl([(name.ljust(width), words) for name, words in rows.items()])


class CommandGroup(click.Group):
    """A group of such commands; its bare name prints its help."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options of the group, or print its help where nothing was typed."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)
