"""`assay check`: List what is wrong or suspicious in a run and its judgments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from assay.cli import options, output
from assay.core.text import printable
from assay.inspect.check import check

if TYPE_CHECKING:
    from assay.inspect.check import CheckReport

__all__ = ["command"]


@click.command("check")
@click.argument("run", metavar="RUN")
@click.argument("qrels", metavar="QRELS")
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    default=("default",),
    metavar="NAME",
    help="The measures that matter to you: ties and short lists are judged by them.",
)
@options.conventions_options
@options.json_option
@options.output_option
def command(
    *,
    run: str,
    qrels: str,
    measures: tuple[str, ...],
    conventions: str,
    ties: str | None,
    empty: str | None,
    missing: str | None,
    depth: int | None,
    json_wanted: bool,
    file: str | None,
) -> int:
    """List what is wrong or suspicious in a run and its judgments.

    An error or a warning would change a number: the exit code is 1. A note would not: 0.

    \b
    Examples:
      assay check run.txt qrels.txt
      assay check run.txt qrels.txt -m nDCG@20 --json
    """
    layout = output.choose_format(None, json_wanted, file, known=("text", "json"))
    output.refuse_input(file, run, qrels)
    rules = options.make_conventions(
        conventions, ties=ties, empty=empty, missing=missing, depth=depth
    )
    report = check(run, qrels, measures=list(measures), conventions=rules)
    if layout == "json":
        output.put(output.as_json({"command": "check", **report.to_dict()}), file)
    elif file is None and output.on_terminal():
        from assay.report.terminal import print_findings

        print_findings(report)
    else:
        output.put(_as_text(report), file)
    return int(report.changes_numbers)


def _as_text(report: CheckReport) -> str:
    return "\n".join(printable(line) for line in str(report).splitlines())
