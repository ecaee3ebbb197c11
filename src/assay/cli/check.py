"""`assay check`: List what is wrong or suspicious in a run and its judgments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.inspect.check import check

if TYPE_CHECKING:
    from assay.core.conventions import Conventions
    from assay.inspect.check import CheckReport

__all__ = ["command"]


@click.command("check", cls=Command)
@click.argument("run", metavar="RUN")
@click.argument("qrels", metavar="QRELS")
@options.measures_option(
    "The measures to check for: ties and short lists are judged by them.", default=("default",)
)
@options.conventions_options
@options.result_options("text", "json", named=False)
def command(
    *,
    run: str,
    qrels: str,
    measures: tuple[str, ...],
    rules: Conventions,
    layout: str,
    file: str | None,
) -> int:
    """List what is wrong or suspicious in a run and its judgments.

    An error or a warning would change a number: the exit code is 1. A note would not: 0.

    \b
    Examples:
      assay check run.txt qrels.txt
      assay check run.txt qrels.txt -m nDCG@20 --json
    """
    output.refuse_input(file, run, qrels)
    report = check(run, qrels, measures=list(measures), conventions=rules)
    output.emit(report, layout, file, terminal=_print_on_terminal)
    return int(report.changes_numbers)


def _print_on_terminal(report: CheckReport) -> None:
    from assay.report.terminal import print_findings

    print_findings(report)
