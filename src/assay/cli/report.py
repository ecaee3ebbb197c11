"""`assay report`: runs and their comparison as one page; `assay.report.make_report` for files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.typed import typed_command

if TYPE_CHECKING:
    from pathlib import Path

    from assay.conventions import Conventions
    from assay.measures import Measure
    from assay.report import Report, ReportRun
    from assay.scores import Scores

__all__ = ["command"]

_FORMATS = ("svg", "png", "pdf")
_DIGITS = 16


@click.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@options.qrels_option
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
@click.option("--n-docs", type=click.IntRange(min=1), metavar="N",
              help="Size of the collection; shows what a random order scores.")  # fmt: skip
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
    qrels: str,
    file: str,
    measures: tuple[str, ...],
    title: str,
    baseline: str | None,
    by: str | None,
    groups: tuple[str, ...],
    n_docs: int | None,
    figures: str | None,
    formats: tuple[str, ...],
    conventions: str,
    ties: str | None,
    empty: str | None,
    missing: str | None,
    depth: int | None,
    rel: float | None,
    json_wanted: bool,
    **settings: Any,
) -> None:
    """Write runs and their comparison as one page with charts that opens offline.

    The page holds the verdict, a leaderboard with intervals, measures against the cut-off, means
    by group, differences query by query, what the means hide, and how to make it again. A single
    run is reported on alone.

    \b
    Examples:
      assay report bm25.txt dense.txt --qrels qrels.txt -m nDCG@10 -o report.html
      assay report *.run -r qrels.txt -m nDCG@10 -m AP --n-docs 8841823 -o report.html
      assay report *.run -r qrels.txt -b bm25.run -o report.html --figures figures
      assay report *.run -r qrels.txt --groups topics.tsv:category -o report.md
    """
    from assay.cli.compare import with_baseline
    from assay.measures import parse_many
    from assay.report.contents import check_ending, make_report

    check_ending(file)
    _refuse_senseless(figures, formats)
    paths, base = (runs, None) if baseline is None else with_baseline(runs, baseline)
    columns = (*groups, by) if by else groups
    output.refuse_input(file, *paths, qrels, *map(options.group_file, columns))
    rules = options.rules_from(conventions, ties=ties, empty=empty, missing=missing, depth=depth)
    wanted = options.with_threshold(parse_many(measures or ("nDCG@10",)), rel)
    scored = list(_scored(paths, qrels, wanted, rules, n_docs))
    scored, column = _grouped(scored, groups, by)
    report = make_report(
        scored, title=title, baseline=None if base is None else scored[base].name, by=column,
        command=typed_command(), **settings,
    )  # fmt: skip
    path = report.save(file)
    drawn = report.figures(figures, formats=formats or _FORMATS) if figures else []
    _tell(report, path, drawn, json_wanted)


def _refuse_senseless(figures: str | None, formats: tuple[str, ...]) -> None:
    if formats and not figures:
        raise click.UsageError("--figure-format changes nothing without --figures DIR. Add it.")


def _scored(
    paths: tuple[str, ...],
    qrels: str,
    measures: tuple[Measure, ...],
    rules: Conventions,
    n_docs: int | None,
) -> Iterator[ReportRun]:
    """Read, judge and score each run, keeping where its relevant documents landed."""
    from assay.chance import chance
    from assay.cli.scored import unique_names
    from assay.evaluation import score
    from assay.hits import judge
    from assay.io.sources import as_judgments, as_ranking
    from assay.report import ReportRun

    judgments = as_judgments(qrels)
    truth = f"{qrels} {_checksum(qrels)}".strip()
    for path, name in zip(paths, unique_names(paths), strict=True):
        ranking = as_ranking(path, rules)
        hits = judge(ranking, judgments, conventions=rules)
        random = chance(hits, measures, conventions=rules, n_docs=n_docs) if n_docs else None
        details = {
            "file": path,
            "tag": ranking.name or "",
            f"SHA-256, first {_DIGITS} digits": _checksum(path),
        }
        scores = score(hits, measures, conventions=rules)
        yield ReportRun(name, scores, random, hits, {**details, "judgments": truth})


def _checksum(path: str) -> str:
    """Enough of the SHA-256 to know a file by; nothing for pipes, which cannot be read again."""
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]


def _grouped(
    scored: list[ReportRun], groups: tuple[str, ...], by: str | None
) -> tuple[list[ReportRun], str | None]:
    """The runs with their group columns, and the name of the column to test by."""
    from dataclasses import replace

    from assay.cli.group_files import read_groups

    queries = scored[0].scores.query_ids
    found = dict(read_groups(source, queries) for source in groups)
    tested, members = read_groups(by, queries) if by else (None, {})
    if tested is not None:
        found[tested] = members

    def add(scores: Scores) -> Scores:
        return scores.with_groups(**found)

    return [replace(run, scores=add(run.scores)) for run in scored], tested


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
