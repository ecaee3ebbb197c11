"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from assay.cli import output
from assay.cli.saving import saving_runs
from assay.core.conventions import CHOICES, Conventions
from assay.io.groups import path_of

if TYPE_CHECKING:
    from assay.core.conventions import Conventions
    from assay.measures import Measure
    from assay.store import Store

__all__ = [
    "ManyValues",
    "conventions_options",
    "filter_options",
    "group_file",
    "json_option",
    "opened_store",
    "output_option",
    "qrels_option",
    "refuse_workers_alone",
    "rules_from",
    "save_options",
    "statistics_options",
    "store_option",
    "where_options",
    "with_threshold",
]


class ManyValues(click.Command):
    """A command whose repeatable options may list their values.

    Where the command takes arguments, too, only options that take numbers may: what is no number
    is an argument again.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the name of an option before each further value."""
        only_numbers = any(isinstance(one, click.Argument) for one in self.params)
        many = {
            name
            for option in self.params
            if isinstance(option, click.Option) and option.multiple
            if not only_numbers or isinstance(option.type, click.types.IntParamType)
            for name in option.opts
        }
        return super().parse_args(ctx, _repeated(args, many, only_numbers=only_numbers))


def _repeated(args: list[str], many: set[str], *, only_numbers: bool = False) -> list[str]:
    """The arguments with every value of these options under a name of its own.

    >>> _repeated(["--k_values", "1", "2", "--full"], {"--k-values"})
    ['--k_values', '1', '--k_values', '2', '--full']
    >>> _repeated(["-k", "1", "2", "a.npy", "3"], {"-k"}, only_numbers=True)
    ['-k', '1', '-k', '2', 'a.npy', '3']
    """
    made: list[str] = []
    current, given = "", 0
    for arg in args:
        if arg.startswith("-") and not _is_number(arg):
            name = arg.partition("=")[0].replace("_", "-")
            current, given = (arg, 0) if name in many and "=" not in arg else ("", 0)
        elif current and given and only_numbers and not _is_number(arg):
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


Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")
output_option = click.option(
    "-o", "--output", "file", metavar="FILE", help="Write the result to FILE, whole or not at all."
)
qrels_option = click.option("-r", "--qrels", required=True, metavar="QRELS", help="The judgments.")
store_option = click.option(
    "--store",
    metavar="FILE|URL",
    help="The store of runs: a file, or postgresql://... [$ASSAY_STORE, or assay.db]",
)


def save_options(task: str) -> Callable[[Command], Command]:
    """--save and what goes with it; the command gets `saving`, whose `keep` stores results."""

    def wrapped(command: Command) -> Command:
        @wraps(command)
        def call(
            *,
            save: bool,
            store: str | None,
            dataset: str | None,
            tags: tuple[str, ...],
            **chosen: Any,
        ) -> Any:
            with saving_runs(task, wanted=save, store=store, dataset=dataset, tags=tags) as saving:
                return command(saving=saving, **chosen)

        for option in reversed(
            [
                click.option("--save", is_flag=True, help="Store the results as runs."),
                store_option,
                click.option("--dataset", metavar="NAME", help="With --save: what it was run on."),
                click.option(
                    "--tag",
                    "tags",
                    multiple=True,
                    metavar="TAG",
                    help="With --save: a tag of the runs. May be repeated.",
                ),
            ]
        ):
            call = option(call)
        return cast("Command", call)

    return wrapped


def conventions_options(command: Command) -> Command:
    """--conventions, and the single choices that are changed most often."""
    for option in reversed(
        [
            click.option(
                "-c",
                "--conventions",
                default="trec_eval",
                show_default=True,
                metavar="NAME",
                help="A preset ('assay measures --conventions' lists them) or a signature.",
            ),
            click.option(
                "--ties", type=click.Choice(CHOICES["ties"]), help="What tied documents are worth."
            ),
            click.option(
                "--empty",
                type=click.Choice(CHOICES["empty"]),
                help="Queries without a relevant document.",
            ),
            click.option(
                "--missing",
                type=click.Choice(CHOICES["missing"]),
                help="Judged queries that are not in the run.",
            ),
            click.option(
                "--depth",
                type=click.IntRange(min=1),
                metavar="N",
                help="Look at the first N documents of each query.",
            ),
        ]
    ):
        command = option(command)
    return command


_TESTS = ("randomisation", "t", "wilcoxon", "sign", "bootstrap")
_CORRECTIONS = ("holm", "bonferroni", "bh", "tukey", "none")
_INTERVALS = ("bca", "percentile", "studentised", "t")


def statistics_options(command: Command) -> Command:
    """Baseline, test, correction and intervals; all but the baseline go to `compare` as given."""
    for option in reversed(
        [
            click.option(
                "-b",
                "--baseline",
                metavar="NAME",
                help="Compare with this run only: its name or its file.",
            ),
            click.option(
                "--test",
                type=click.Choice(_TESTS),
                default="randomisation",
                show_default=True,
                help="The paired test.",
            ),
            click.option(
                "--correction",
                type=click.Choice(_CORRECTIONS),
                default="holm",
                show_default=True,
                help="For several pairs of runs.",
            ),
            click.option(
                "--level",
                type=float,
                default=0.05,
                show_default=True,
                metavar="A",
                help="Chance of a false claim; intervals have 1 - A.",
            ),
            click.option(
                "--interval",
                type=click.Choice(_INTERVALS),
                default="bca",
                show_default=True,
                help="Kind of interval.",
            ),
            click.option(
                "--resamples",
                type=click.IntRange(min=100),
                default=10_000,
                show_default=True,
                metavar="N",
                help="How often to draw.",
            ),
            click.option(
                "--seed",
                type=click.IntRange(min=0),
                default=0,
                show_default=True,
                metavar="N",
                help="Same seed, same numbers.",
            ),
            click.option(
                "--margin", type=float, metavar="X", help="Largest difference that does not matter."
            ),
            click.option(
                "--by",
                metavar="FILE[:COLUMN]",
                help="Queries of one group are not independent: draw and test whole groups.",
            ),
        ]
    ):
        command = option(command)
    return command


def group_file(by: str | None) -> str | None:
    """The file that --by names, without its column."""
    return None if by is None else path_of(by)


def rules_from(conventions: str, **changes: Any) -> Conventions:
    """The conventions that the options describe."""
    return Conventions.parse(conventions).but(**changes)


def with_threshold(measures: tuple[Measure, ...], rel: float | None) -> tuple[Measure, ...]:
    """The measures, with this smallest relevant grade where they take one and name none."""
    if rel is None:
        return measures
    grade = int(rel) if rel.is_integer() else rel
    return tuple(
        measure(rel=grade)
        if "rel" in measure.definition.params and "rel" not in dict(measure.params)
        else measure
        for measure in measures
    )


def where_options(words: str) -> Callable[[Command], Command]:
    """Both options; `words` say in the help what --cluster is for."""

    def add(command: Command) -> Command:
        workers = click.option(
            "--workers",
            type=click.IntRange(min=1),
            metavar="N",
            help="With --cluster: how many workers. [all cores]",
        )
        return click.option("--cluster", "where", metavar="WHERE", help=words)(workers(command))

    return add


def refuse_workers_alone(where: str | None, workers: int | None) -> None:
    """Workers are those of a cluster."""
    if where is None and workers is not None:
        raise click.UsageError("--workers changes nothing without --cluster. Add it.")


_OPTIONS = (
    click.option("--task", metavar="NAME", help="Only this task: retrieval, …"),
    click.option("--dataset", metavar="NAME", help="Only this dataset."),
    click.option("--model", metavar="NAME", help="Only this model."),
    click.option("--name", metavar="NAME", help="Only runs of this name."),
    click.option("--tag", multiple=True, metavar="TAG", help="Only with all these tags."),
    click.option("--since", metavar="DATE", help="Only from this day on (UTC)."),
    click.option("--until", metavar="DATE", help="Only up to this day."),
)


def filter_options(command: Command) -> Command:
    """Which runs are meant: task, dataset, model, name, tag, since, until."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextmanager
def opened_store(place: str | None) -> Iterator[Store]:
    """The store, if there is one; say so if it is for reading only."""
    import assay.store

    with assay.store.open(place, create=False) as store:
        if store.only_reads:
            output.narrate(store.only_reads)
        yield store
