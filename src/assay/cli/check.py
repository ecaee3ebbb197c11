"""`assay check` (Evaluate): List what is wrong or suspicious in a run and its judgments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument
from assay.core.on_demand import OnDemand

if TYPE_CHECKING:
    from assay.cli import terminal
    from assay.core.conventions import Conventions
    from assay.inspect.check import check
else:
    terminal = OnDemand("assay.cli.terminal")
    check = OnDemand("assay.inspect.check").check


@click.command("check", cls=Command, verified=True)
@argument("runs", nargs=-1, required=True, metavar="RUN... [QRELS]", reads=True)
@options.in_input("-r", "--qrels QRELS", help="Judgments; then all names are runs.", reads=True)
@options.queries_option
@options.measures_option("Measure to check ties and short lists for.", default=("default",))
@options.conventions_options
@options.result_options("text", "json", named=False)
def command(
    *,
    runs: tuple[str, ...],
    qrels: str | None,
    queries: str | None,
    measures: tuple[str, ...],
    rules: Conventions,
    layout: str,
    file: str | None,
) -> int:
    """List what is wrong or suspicious in a run and its judgments.

    Errors and warnings would change a number: exit code 1. Notes would not: exit code 0.

    \b
    Examples:
      assay check coarse.run qrels.txt
      assay check coarse.run qrels.txt -m nDCG@20 --json
      assay check dense.run lexical.run -r qrels.txt
    """
    paths, truth = _split(runs, qrels)
    if len(paths) > 1 and (layout == "json" or file is not None):
        raise click.UsageError("--json and -o are for one run. Check the runs one by one.")
    output.refuse_input(file, *paths, truth, queries)
    worst = 0
    for path in paths:
        report = check(path, truth, measures=list(measures), conventions=rules, queries=queries)
        if len(paths) > 1:
            output.write(f"{path}:", None)
        output.emit(report, layout, file, terminal=terminal.print_findings)
        worst |= report.changes_numbers
    return int(worst)


def _split(names: tuple[str, ...], qrels: str | None) -> tuple[tuple[str, ...], str]:
    """Tell the runs from the judgments, which are named by -r or stand last."""
    if qrels is not None:
        return names, qrels
    if len(names) != 2:
        raise click.UsageError(
            f"{'QRELS is missing' if len(names) == 1 else 'There are several runs'}. Type "
            "'assay check RUN QRELS', or 'assay check RUN... -r QRELS'."
        )
    return names[:1], names[1]
