"""`assay report`: Write runs and their comparison as one page with charts that opens offline."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.options import filter_options
from assay.cli.output import command_line
from assay.cli.report_sources import find_sources, report_runs
from assay.io.groups import read_groups
from assay.report.report import check_ending, make_report
from assay.runs.record import RunRecord

if TYPE_CHECKING:
    from pathlib import Path

    from assay.report import Report
    from assay.scoring.scores import Scores

__all__ = ["command"]

_FORMATS = ("svg", "png", "pdf")
_FILTERS = ("task", "dataset", "model", "name", "tag", "since", "until")


@click.command("report")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("-r", "--qrels", metavar="QRELS", help="The judgments, where runs are files.")
@click.option(
    "-o",
    "--output",
    "file",
    required=True,
    metavar="FILE",
    help="Write the report to FILE, whole or not at all: .html, .md or .tex.",
)
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME",
    help="A measure such as nDCG@10, or a group; the first is the headline. May be repeated.",
)
@click.option("--title", default="", metavar="TEXT", help="What stands above the report.")
@options.statistics_options
@click.option(
    "--groups",
    multiple=True,
    metavar="FILE[:COLUMN]",
    help="Show means by group: a TSV or CSV file with a query and its group. May be repeated.",
)
@click.option(
    "--n-docs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Size of the collection; shows what a random order scores.",
)
@options.store_option
@filter_options
@click.option("--figures", metavar="DIR", help="Also write every chart to this folder.")
@click.option(
    "--figure-format",
    "formats",
    type=click.Choice(_FORMATS),
    multiple=True,
    help="Of the figures; all three without it. May be repeated.",
)
@options.conventions_options
@click.option("--rel", type=float, metavar="N", help="Smallest grade that is relevant. [1]")
@options.json_option
def command(
    *,
    runs: tuple[str, ...],
    qrels: str | None,
    file: str,
    measures: tuple[str, ...],
    title: str,
    baseline: str | None,
    by: str | None,
    groups: tuple[str, ...],
    n_docs: int | None,
    store: str | None,
    figures: str | None,
    formats: tuple[str, ...],
    conventions: str,
    rel: float | None,
    json_wanted: bool,
    **settings: Any,
) -> None:
    """Write runs and their comparison as one page with charts that opens offline.

    The page holds the verdict, a leaderboard with intervals, measures against the cut-off, means
    by group, differences query by query, what the means hide, and how to make it again. A single
    run is reported on alone.

    RUN is a file, or the number or uid of a stored run; where it may be both, write ./7 for the
    file and run:7 for the stored run. Without any, --dataset, --tag, ... choose stored runs. They
    are shown with the values that were saved: no rankings and no judgments are needed.

    \b
    Examples:
      assay report bm25.txt dense.txt --qrels qrels.txt -m nDCG@10 -o report.html
      assay report *.run -r qrels.txt -m nDCG@10 -m AP --n-docs 8841823 -o report.html
      assay report *.run -r qrels.txt -b bm25.run -o report.html --figures figures
      assay report *.run -r qrels.txt --groups topics.tsv:category -o report.md
      assay report 3 4 7 -o report.html
      assay report --dataset cranfield --tag final --store team.db -o report.html
    """
    check_ending(file)
    _refuse_senseless(figures, formats)
    filters = {key: settings.pop(key) for key in _FILTERS}
    changes = {key: settings.pop(key) for key in ("ties", "empty", "missing", "depth")}
    with find_sources(runs, baseline, filters=filters, store=store) as sources:
        columns = (*groups, by) if by else groups
        output.refuse_input(file, *sources.files, qrels, *map(options.group_file, columns))
        scored = report_runs(
            sources,
            qrels,
            measures=measures,
            rel=rel,
            conventions=conventions,
            changes=changes,
            n_docs=n_docs,
        )
    scored, column = _grouped(scored, groups, by)
    report = make_report(
        scored,
        title=title,
        baseline=None if sources.base is None else scored[sources.base].name,
        by=column,
        command=command_line(),
        **settings,
    )
    path = report.save(file)
    drawn = report.figures(figures, formats=formats or _FORMATS) if figures else []
    _tell(report, path, drawn, json_wanted)


def _refuse_senseless(figures: str | None, formats: tuple[str, ...]) -> None:
    if formats and not figures:
        raise click.UsageError("--figure-format changes nothing without --figures DIR. Add it.")


def _grouped(
    scored: list[RunRecord], groups: tuple[str, ...], by: str | None
) -> tuple[list[RunRecord], str | None]:
    """The runs with their group columns, and the name of the column to test by."""
    queries = scored[0].scored().query_ids
    found = dict(read_groups(source, queries) for source in groups)
    tested = by if by and _is_stored_column(by, scored) else None
    if by and tested is None:
        tested, found_by = read_groups(by, queries)
        found[tested] = found_by

    def add(scores: Scores) -> Scores:
        return scores.with_groups(**found)

    return [run.but(scores=add(run.scored())) for run in scored], tested


def _is_stored_column(by: str, scored: list[RunRecord]) -> bool:
    """Whether --by names a column that all runs have; what may be a file, too, is refused."""
    known = all(by in run.scored().groups for run in scored)
    if known and os.path.exists(by):
        raise click.UsageError(
            f"--by {by} may be a stored column or the file of that name. Write ./{by} for the file."
        )
    return known


def _tell(report: Report, path: Path, figures: list[Path], json_wanted: bool) -> None:
    """The verdicts as result, and where the files are beside it."""
    if json_wanted:
        data = {
            "command": "report",
            "signature": report.aligned.signature,
            "output": str(path),
            "figures": list(map(str, figures)),
            "verdicts": report.verdicts,
            "remarks": list(report.remarks),
        }
        output.put(output.as_json(data), None)
        return
    output.put("\n".join(report.verdicts.values()), None)
    output.narrate(f"{path}: {path.stat().st_size / 1000:,.0f} kB")
    if figures:
        output.narrate(f"{figures[0].parent}: {len(figures)} figures")
