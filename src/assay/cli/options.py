"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

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
    "with_threshold",
]

Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")
output_option = click.option(
    "-o", "--output", "file", metavar="FILE", help="Write the result to FILE, whole or not at all."
)
qrels_option = click.option("-r", "--qrels", required=True, metavar="QRELS", help="The judgments.")


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
