"""A report without charts: verdicts, tables and disclosures, for Markdown and LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.report.comparison_tables import MOST_PAIRS, pair_table
from assay.report.page import Page, Words
from assay.report.run_tables import marks_note, overview_table
from assay.verdict import METHOD_NAMES

if TYPE_CHECKING:
    from assay.report.contents import Report
    from assay.report.report_run import ReportRun

__all__ = ["method_of", "report_page"]


def report_page(report: Report) -> Page:
    """Verdicts first, then means with marks, pairs, disclosures, and how to make it again."""
    page: Page = [Words(verdict, "verdict") for verdict in report.verdicts.values()]
    page += [overview_table(report), Words(marks_note(report))]
    headline = str(report.measures[0])
    comparison = report.comparison
    if comparison is not None and len(comparison.pairs_on(headline)) <= MOST_PAIRS:
        page += [Words(f"Pairs on {headline}"), pair_table(comparison, headline)]
    page += [Words(remark) for remark in report.remarks]
    page += [Words(_described(run)) for run in report.runs if run.details]
    page += [Words(method_of(report)), Words(report.aligned.signature, "signature")]
    if report.command:
        page += [Words("Make it again:"), Words(report.command, "signature")]
    return page


def _described(run: ReportRun) -> str:
    """The details of a run in a line; a table of checksums would be too wide for paper."""
    told = ", ".join(f"{key} {value}" for key, value in run.details.items() if value)
    return f"{run.name}: {told}"


def method_of(report: Report) -> str:
    """How p-values and intervals were found; of one run, only its intervals."""
    if report.comparison is not None:
        return report.comparison.method
    settings = report.settings
    drawn = f"{settings.resamples:,} resamples, seed {settings.seed}"
    name = METHOD_NAMES.get(settings.interval, settings.interval)
    return f"Intervals: {100 * (1 - settings.level):g} % {name}, {drawn}."
