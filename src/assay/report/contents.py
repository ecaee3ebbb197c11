"""What a report holds: runs, their comparison, and how both were made."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay import checks
from assay.alignment import Aligned, align
from assay.clustered import drawn_together
from assay.comparison import Comparison, Standing, compare
from assay.errors import UsageError
from assay.measures import Measure
from assay.pairs import Settings
from assay.report.disclosures import disclosures
from assay.report.report_run import ReportRun
from assay.scores import Scores
from assay.stats import RankInterval, intervals

if TYPE_CHECKING:
    from assay.report.page import Page
    from assay.store import Run

__all__ = ["Report", "check_ending", "make_report"]

_ENDINGS: Final = (".html", ".htm", ".md", ".tex")


@dataclass(frozen=True, eq=False)
class Report:
    """Runs and what may be said about them; made by `make_report`, written by `save`.

    `comparison` is None where there is one run; the first measure is the headline.
    """

    title: str
    runs: tuple[ReportRun, ...]
    aligned: Aligned
    comparison: Comparison | None
    settings: Settings
    command: str = ""
    notes: tuple[str, ...] = ()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that are means over queries, the headline first."""
        return self.aligned.measures

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the runs."""
        return self.aligned.names

    @cached_property
    def verdicts(self) -> dict[str, str]:
        """A sentence for each measure."""
        if self.comparison is not None:
            return self.comparison.verdicts
        return {str(measure): self._alone(str(measure)) for measure in self.measures}

    def _alone(self, measure: str) -> str:
        one = self.standings_on(measure)[0]
        mean = one.mean
        ends = "" if math.isnan(mean.low) else f" [{mean.low:.4f}, {mean.high:.4f}]"
        chance = self.chance_on(measure)
        beside = "" if math.isnan(chance) else f"; a random order reaches {chance:.4f}"
        return f"{one.name} reaches {mean.estimate:.4f}{ends} on {measure}{beside}"

    def standings_on(self, measure: str | Measure) -> tuple[Standing, ...]:
        """The runs on one measure, best first."""
        if self.comparison is not None:
            return self.comparison.standings_on(measure)
        return tuple(one for one in self._only if one.measure == str(measure))

    @cached_property
    def _only(self) -> list[Standing]:
        """The one run there is; nobody to be ranked against."""
        settings, values = self.settings, self.aligned.values[0]
        level = 1 - settings.level
        means = intervals(
            values,
            method=settings.interval,
            level=level,
            resamples=settings.resamples,
            seed=settings.seed,
            clusters=self.aligned.clusters,
        )
        first = RankInterval(1.0, math.nan, math.nan, level, values.shape[1], 0, 0, settings.seed)
        return [
            Standing(self.names[0], str(measure), mean, first, "")
            for measure, mean in zip(self.measures, means, strict=True)
        ]

    def chance_on(self, measure: str | Measure) -> float:
        """What a random order scores, from the first run that knows; NaN where none does."""
        for run in self.runs:
            if run.chance is not None:
                means = run.chance.mean() if isinstance(run.chance, Scores) else run.chance
                return means.get(str(measure), math.nan)
        return math.nan

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What a task noted, and what a mean alone would hide of each run and the comparison."""
        several = len(self.runs) > 1
        own = [
            f"{run.name}: {remark}" if several else remark
            for run in self.runs
            for remark in disclosures(run.scores)
        ]
        between = self.aligned.remarks if self.comparison is None else self.comparison.remarks
        return (
            *self.notes, *_mixed_data(self.runs), *_mixed_questions(self.runs), *own, *between
        )  # fmt: skip

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The group columns that all runs have."""
        first = self.runs[0].scores.groups
        return tuple(name for name in first if all(name in r.scores.groups for r in self.runs))

    def page(self) -> Page:
        """Verdicts, tables and disclosures without charts, for Markdown and LaTeX."""
        from assay.report.report_page import report_page

        return report_page(self)

    def to_html(self) -> str:
        """One page that needs nothing else: no network, no other file."""
        from assay.report.html_report import html_report

        return html_report(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report, as the ending of the file says: .html, .md or .tex.

        The file is written whole or not at all.
        """
        from assay.io.atomic import atomic_write

        ending = check_ending(path)
        with atomic_write(path) as file:
            file.write(self._laid_out(ending).encode())
        return Path(path)

    def _laid_out(self, ending: str) -> str:
        from assay.report.page import latex_page, markdown_page

        if ending in (".html", ".htm"):
            return self.to_html()
        write = markdown_page if ending == ".md" else latex_page
        return write(self.page()) + "\n"

    def figures(
        self, folder: str | os.PathLike[str], *, formats: Iterable[str] = ("svg", "png", "pdf")
    ) -> list[Path]:
        """Write every chart to a folder, in each of the formats; the paths of the files."""
        from assay.report.figures import write_figures

        return write_figures(self, folder, formats=formats)


def check_ending(path: str | os.PathLike[str]) -> str:
    """The ending of a report's file, if it is one that a report can be written as.

    >>> check_ending("a/report.HTML")
    '.html'
    """
    ending = Path(path).suffix.lower()
    if ending not in _ENDINGS:
        raise UsageError(f"{path}: a report is written as .html, .md or .tex. Choose one of them.")
    return ending


def make_report(
    runs: Iterable[ReportRun | Run],
    *,
    title: str = "",
    baseline: str | None = None,
    test: str = "randomisation",
    correction: str = "holm",
    level: float = 0.05,
    interval: str = "bca",
    resamples: int = 10_000,
    seed: int = 0,
    margin: float | None = None,
    by: str | None = None,
    command: str = "",
    notes: Iterable[str] = (),
) -> Report:
    """Compare runs as `assay.compare` does and gather all that a report shows.

    Runs of a store are taken as they are, with the measures that all of them have. One run is
    reported on alone. `command` is what a reader would type to make the report again; `notes` are
    what a task wants its readers to know, a sentence each without a full stop. Without `by`, groups
    that runs are drawn by (`clusters`) are kept together.

    >>> from assay import evaluate
    >>> qrels = {f"q{i}": {"a": 1} for i in range(8)}
    >>> good = evaluate({q: {"a": 2, "b": 1} for q in qrels}, qrels, "RR")
    >>> make_report([ReportRun("good", good)]).verdicts["RR"]
    'good reaches 1.0000 [1.0000, 1.0000] on RR'
    """
    given = _checked(runs)
    names = [run.name for run in given]
    scores = [run.scores for run in given]
    if by is None:
        together = drawn_together((run.clusters, run.scores) for run in given)
        by, interval = together.get("by"), _drawable(interval, together)
    settings = Settings(test, correction, level, interval, resamples, seed, margin, by)
    comparison = None
    if len(given) > 1:
        comparison = compare(
            scores[0], scores[1], *scores[2:], names=names, baseline=baseline, test=test,
            correction=correction, level=level, interval=interval, resamples=resamples, seed=seed,
            margin=margin, by=by,
        )  # fmt: skip
    elif baseline is not None:
        raise UsageError(f"There is one run; the baseline {baseline!r} has nothing to compare.")
    aligned = align(scores, names=names, measures=None, by=by)
    name = title or _title(names)
    return Report(name, given, aligned, comparison, settings, command, tuple(notes))


def _drawable(interval: str, together: Mapping[str, str]) -> str:
    """The interval that was asked for; Student's where there are too few groups to draw."""
    return "t" if together.get("interval") == "t" else interval


def _checked(runs: Iterable[ReportRun | Run]) -> tuple[ReportRun, ...]:
    from assay.report.stored import as_report_runs

    given = checks.listed(runs, "runs")
    if not given:
        raise UsageError("A report needs at least one run.")
    return tuple(as_report_runs(given))


def _mixed_data(runs: Iterable[ReportRun]) -> list[str]:
    found = list(dict.fromkeys(run.dataset for run in runs if run.dataset))
    if len(found) < 2:
        return []
    return [
        f"the runs are said to be of {len(found)} datasets ({', '.join(found[:5])}): queries with "
        "the same id need not be the same queries"
    ]


def _mixed_questions(runs: Iterable[ReportRun]) -> list[str]:
    if len({run.question for run in runs if run.question}) < 2:
        return []
    return [
        "the runs answer different questions (their keypoints, pools or true matches differ): "
        "their means are not comparable"
    ]


def _title(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} runs compared"
