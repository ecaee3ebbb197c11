"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from assay.conventions import CHOICES

if TYPE_CHECKING:
    from assay.conventions import Conventions
    from assay.measures import Measure

__all__ = [
    "conventions_options",
    "group_file",
    "json_option",
    "output_option",
    "qrels_option",
    "rules_from",
    "save_options",
    "statistics_options",
    "store_option",
    "with_threshold",
]

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
            *, save: bool, store: str | None, dataset: str | None, tags: tuple[str, ...],
            **chosen: Any,
        ) -> Any:  # fmt: skip
            from assay.cli.saved import saving_runs

            with saving_runs(task, wanted=save, store=store, dataset=dataset, tags=tags) as saving:
                return command(saving=saving, **chosen)

        for option in reversed(
            [
                click.option("--save", is_flag=True, help="Store the results as runs."),
                store_option,
                click.option("--dataset", metavar="NAME", help="With --save: what it was run on."),
                click.option("--tag", "tags", multiple=True, metavar="TAG",
                             help="With --save: a tag of the runs. May be repeated."),
            ]
        ):  # fmt: skip
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
            click.option("-b", "--baseline", metavar="NAME",
                         help="Compare with this run only: its name or its file."),
            click.option("--test", type=click.Choice(_TESTS), default="randomisation",
                         show_default=True, help="The paired test."),
            click.option("--correction", type=click.Choice(_CORRECTIONS), default="holm",
                         show_default=True, help="For several pairs of runs."),
            click.option("--level", type=float, default=0.05, show_default=True, metavar="A",
                         help="Chance of a false claim; intervals have 1 - A."),
            click.option("--interval", type=click.Choice(_INTERVALS), default="bca",
                         show_default=True, help="Kind of interval."),
            click.option("--resamples", type=click.IntRange(min=100), default=10_000,
                         show_default=True, metavar="N", help="How often to draw."),
            click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                         metavar="N", help="Same seed, same numbers."),
            click.option("--margin", type=float, metavar="X",
                         help="Largest difference that does not matter."),
            click.option("--by", metavar="FILE[:COLUMN]",
                         help="Queries of one group are not independent: draw and test whole "
                              "groups."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def group_file(by: str | None) -> str | None:
    """The file that --by names, without its column."""
    from assay.cli.group_files import path_of

    return None if by is None else path_of(by)


def rules_from(conventions: str, **changes: Any) -> Conventions:
    """The conventions that the options describe."""
    from assay.conventions import Conventions

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
