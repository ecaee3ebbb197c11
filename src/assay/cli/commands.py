"""Commands as they are typed: help in groups, values in a row, and what to type instead."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from assay.core.on_demand import OnDemand
from assay.core.text import did_you_mean
from assay.errors import AssayError

if TYPE_CHECKING:
    from assay import measures
    from assay.io import standard_input
else:
    measures = OnDemand("assay.measures")
    standard_input = OnDemand("assay.io.standard_input")

__all__ = ["Command", "CommandGroup", "MultiOptionCommand", "write_commands"]

# Sections of options in the order in which they are shown, and the parameters of each.
_SECTIONS: Final[Mapping[str, str]] = {
    "Input": """
        corpus queries qrels split name chunk fold judged labels query_labels doc_ids query_ids
        embeddings embeddings_key queries_key packed text_embeddings text_key sensor_embeddings
        sensor_key labels_keys modalities modality_ids modality_keys modality_labels metadata
        prototype_embeddings prototype_key prototype_labels label_maps drop_labels dataset_name
        demo targets train users train_users history previous coordinates new_places candidates
        n_classes target results pattern pairs ids only languages units strongest folder folds
        allow_mismatch n_docs groups saved kind source_format answers tasks config names
        """,
    "Models": """
        model fusion rerank index query_prefix doc_prefix max_length normalize dimensions base_url
        revision dtype trust_remote_code batch_size device cache no_cache encoder factory
        descriptors descriptor matchers estimator codes methods method bits p oversample
        query_codes truncate rrf_k weights spec prices price
        """,
    "Search": """
        k metric keep_ties exclude_self exclude_paired zero engine query_block prepare
        recall_of sample dry_run checkpoint threads inlier force fresh work
        """,
    "Measures and conventions": """
        measures measure ks k_values cutoffs conventions ties empty missing depth rel hashing
        protocol directions caption_style use_prototypes zero_shot confusions confusion_k
        unit f1_unit chance_wanted confidence predictability query places
        """,
    "Statistics": """
        baseline test correction level interval resamples seed margin by slices
        sensitivity_wanted n_differences
        """,
    "Gate": "conditions fail_if_worse look look_file",
    "Machines": "where workers in_flight timings",
    "Trust": "allow_code allow_endpoints",
    "Result": """
        runs per_query per_class percent full signature quiet named json_wanted csv_wanted file
        target_format title html figures formats chart histogram reliability legacy_json per_scene
        ranks wide show show_to ir_metadata
        """,
    "Store": "save store dataset tag tags task status since until limit",
}
# In the `meta` of a context: a stored command is parsed, which takes nothing of who repeats it.
REPEATED: Final = "assay.repeated"
# Parameters that name a file to read, for which `-` is standard input.
_READ: Final = """
    against answers baseline by checkpoint config coordinates corpus doc_ids docs embeddings
    experiment file files groups history ir_metadata labels metadata previous prototype_embeddings
    prototype_labels qrels queries query_ids query_labels recall_of result run runs
    sensor_embeddings slices source sources targets text_embeddings texts train train_users users
    """
_FILES: Final = frozenset(_READ.split())
_SECTION_OF: Final = {name: title for title, names in _SECTIONS.items() for name in names.split()}
_FEW: Final = 11  # options that need no groups


def _write_options(params: Iterable[click.Parameter], context: click.Context, to: Any) -> None:
    """The options of a command under the titles of their sections; few stand in one list."""
    rows = ((one, one.get_help_record(context)) for one in params)
    shown = [(one, row) for one, row in rows if row is not None and row[1]]  # usage has the others
    grouped: dict[str, list[tuple[str, str]]] = {title: [] for title in _SECTIONS}
    for parameter, row in shown:
        few = len(shown) <= _FEW
        title = "Options" if few else _section_of(parameter)
        grouped.setdefault(title, []).append(row)
    for title, records in grouped.items():
        if records:
            with to.section(title):
                to.write_dl(records)


def _section_of(parameter: click.Parameter) -> str:
    written = "--output" in parameter.opts
    return "Result" if written else _SECTION_OF.get(parameter.name or "", "Other")


def _be_quiet(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta["assay.quiet"] = value


_QUIET: Final = click.Option(
    ["--quiet"],
    is_flag=True,
    expose_value=False,
    callback=_be_quiet,
    help="Do not show how far the work is.",
)


class Command(click.Command):
    """A command whose options stand in groups, and that says what to type where it was mistyped.

    Measures may be listed: `-m nDCG@10 AP`.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, and --quiet, which every command has."""
        *own, last = super().get_params(ctx)
        return [*own, _QUIET, last]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, in groups."""
        _write_options(self.get_params(ctx), ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line."""
        args = self.list_values(args)
        typed = list(args)
        try:
            left = super().parse_args(ctx, args)
            _take_standard_input(self, ctx)
            return left
        except click.NoSuchOption as error:
            raise click.UsageError(_unknown_option(error.option_name, self.params), ctx) from None
        except click.MissingParameter as error:
            raise click.UsageError(_missing(error, typed, self.help or ""), ctx) from None

    def list_values(self, args: list[str]) -> list[str]:
        """The arguments with every value of a list under the name of its option."""
        many = {
            name
            for one in self.params
            if one.name == "measures" and isinstance(one, click.Option)
            for name in one.opts
        }
        return _repeat_names(args, many, _is_measure) if many else args


def _take_standard_input(command: click.Command, context: click.Context) -> None:
    """Put a copy of standard input where a file is called `-`; one file may be."""
    named = [
        parameter
        for parameter in command.params
        if parameter.name in _FILES and isinstance(parameter.type, click.types.StringParamType)
    ]
    given = [(one.name or "", context.params.get(one.name or "")) for one in named]
    places = [(name, value) for name, value in given if value == "-" or "-" in _listed(value)]
    n_named = sum(1 if value == "-" else _listed(value).count("-") for _, value in places)
    if not places or context.resilient_parsing or _are_stored(command, context):
        return
    if context.meta.get(REPEATED):
        raise click.UsageError("The command read standard input ('-'), which is gone.")
    if n_named > 1:
        raise click.UsageError("Standard input ('-') can be read once, and it is named twice.")
    path = context.with_resource(standard_input.keep_standard_input())
    for name, value in places:
        one = path if value == "-" else tuple(path if v == "-" else v for v in _listed(value))
        context.params[name] = one


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()


def _are_stored(command: click.Command, context: click.Context) -> bool:
    """Whether the runs that are named are stored ones, and no files."""
    group = context.parent.info_name if context.parent else ""
    return group == "runs" and command.name != "import"


class MultiOptionCommand(Command):
    """A command whose repeatable options may list their values: `-k 1 5 10`.

    Where the command takes arguments, too, only options that take numbers may: what is not a
    number is an argument again.
    """

    def list_values(self, args: list[str]) -> list[str]:
        """The arguments with every value of a list under the name of its option."""
        only_numbers = any(isinstance(one, click.Argument) for one in self.params)
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
    """The arguments with every `further` value of these options under a name of its own.

    >>> _repeat_names(["--k_values", "1", "2", "--full"], {"--k-values"}, bool)
    ['--k_values', '1', '--k_values', '2', '--full']
    >>> _repeat_names(["-k", "1", "2", "a.npy", "3"], {"-k"}, _is_number)
    ['-k', '1', '-k', '2', 'a.npy', '3']
    """
    made: list[str] = []
    current, given = "", 0
    for arg in args:
        if arg.startswith("-") and not _is_number(arg):
            name = arg.partition("=")[0].replace("_", "-")
            current, given = (arg, 0) if name in many and "=" not in arg else ("", 0)
        elif current and given and not further(arg):
            current = ""
        elif current:
            made += [current] if given else []
            given += 1
        made.append(arg)
    return made


def _is_number(arg: str) -> bool:
    try:
        float(arg)
    except ValueError:
        return False
    return True


def _is_measure(arg: str) -> bool:
    """Whether a word is a measure, and no file of that name is there."""
    if os.path.exists(arg):
        return False
    try:
        measures.parse_many([arg])
    except AssayError:
        return False
    return True


# What other programs call it.
_ALSO_CALLED: Final = {
    "--alpha": "--level",
    "--cl": "--level",
    "--confidence-level": "--level",
    "--significance": "--level",
    "--metrics": "--measure",
    "--cutoff": "--measure",
    "--bootstrap": "--resamples",
    "--iterations": "--resamples",
    "--permutations": "--resamples",
    "--n-resamples": "--resamples",
    "--random-state": "--seed",
    "--out": "--output",
    "--outfile": "--output",
    "--csv": "--format",
    "--markdown": "--format",
    "--latex": "--format",
    "--judgements": "--qrels",
    "--judgments": "--qrels",
    "--ground-truth": "--qrels",
    "--n-jobs": "--threads",
    "--jobs": "--threads",
    "--verbose": "--full",
    "--topk": "-k",
    "--top-k": "-k",
    "--database": "--store",
    "--db": "--store",
}


def _unknown_option(typed: str, params: Iterable[click.Parameter]) -> str:
    """What is not there, and the option that was probably meant."""
    there = [name for one in params if isinstance(one, click.Option) for name in one.opts]
    own = _ALSO_CALLED.get(typed)
    hint = f" It is called {own} here." if own in there else did_you_mean(typed, there, most=2)
    return f"There is no option {typed}.{hint}"


def _missing(error: click.MissingParameter, typed: list[str], help: str) -> str:
    """What is missing, what was typed that is no file, and a command line that works."""
    words = [" ".join(error.format_message().split()).rstrip(".") + "."]
    gone = [one for one in typed if _looks_like_path(one) and not os.path.exists(one)]
    words += [f"{one} does not exist." for one in gone[:1]]
    last = typed[-1] if typed else ""
    name = error.param.name if error.param else ""
    command = error.ctx.command_path if error.ctx else "assay"
    if name == "qrels" and len(typed) > 1 and os.path.isfile(last):
        meant = f"{command} {shlex.join(typed[:-1])} -r {shlex.quote(last)}"
        words.append(f"If {last} holds the judgments, type `{meant}`.")
    elif example := re.search(rf"^ *({re.escape(command)} .*[^\\])$", help, re.MULTILINE):
        words.append(f"For example: `{example[1]}`.")
    return " ".join(words)


def _looks_like_path(word: str) -> bool:
    return not word.startswith("-") and bool(re.search(r"\.[a-z]\w{1,7}$", word))


def write_commands(groups: Mapping[str, Mapping[str, str]], to: click.HelpFormatter) -> None:
    """Commands under the titles of their groups, in one column of names."""
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
