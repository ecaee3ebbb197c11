"""A report: runs, their comparison, and how both were made."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from assay.core.checks import as_list
from assay.errors import StorageError, UsageError
from assay.io.streams import atomic_write
from assay.report.charts import FORMATS, render_chart, report_charts
from assay.report.html import html_report
from assay.report.tables import plugin_parts, report_page
from assay.runs.leaderboard import Leaderboard, rank_records
from assay.runs.record import RecordsLike
from assay.tables.table import Page, Table, latex_page, markdown_page

_ENDINGS: Final = (".html", ".htm", ".md", ".tex")


@dataclass(frozen=True, eq=False)
class Report(Leaderboard):
    """A leaderboard to show; made by `make_report`, written by `save`."""

    title: str = ""
    command: str = ""
    notes: tuple[str, ...] = ()

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Notes of the task, and remarks on each run and the comparison."""
        return (*self.notes, *self.run_remarks)

    @cached_property
    def plugin_sections(self) -> list[tuple[str, Table | str]]:
        """The sections that plugins add: titles, each with a table or a text."""
        return plugin_parts("report_sections", self.runs)

    def page(self) -> Page:
        """Return verdicts, tables and disclosures without charts, for Markdown and LaTeX."""
        return report_page(self)

    def to_html(self) -> str:
        """Write one page that needs no network and no other file."""
        return html_report(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report in the format of the file name: .html, .md or .tex.

        The file is written whole or not at all.
        """
        ending = check_ending(path)
        with atomic_write(path) as file:
            file.write(self._render(ending).encode())
        return Path(path)

    def _render(self, ending: str) -> str:
        if ending in (".html", ".htm"):
            return self.to_html()
        write = markdown_page if ending == ".md" else latex_page
        return write(self.page()) + "\n"

    def figures(
        self, folder: str | os.PathLike[str], *, formats: Iterable[str] = ("svg", "png", "pdf")
    ) -> list[Path]:
        """Write every chart to a folder in each format; return the paths."""
        return write_figures(self, folder, formats=formats)


def check_ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a report's file; refuse one that cannot be written.

    >>> check_ending("a/report.HTML")
    '.html'
    """
    ending = Path(path).suffix.lower()
    if ending not in _ENDINGS:
        raise UsageError(f"{path}: the name of a report ends with .html, .md or .tex.")
    return ending


def make_report(
    runs: RecordsLike,
    *,
    title: str = "",
    command: str = "",
    notes: Iterable[str] = (),
    **settings: Any,
) -> Report:
    """Compare records, or scores by name, as `assay.compare` does and gather what a report shows.

    Settings are those of `rank_records`: baseline, test, correction, level, interval, resamples,
    seed, margin, by, slices. `command` is what a reader would type to make the report again;
    `notes` are what a task wants its readers to know, a sentence each without a full stop.

    >>> from assay import evaluate
    >>> qrels = {f"q{i}": {"a": 1} for i in range(8)}
    >>> good = evaluate({q: {"a": 2, "b": 1} for q in qrels}, qrels, "RR")
    >>> make_report({"good": good}).verdicts["RR"]
    'good reaches 1.0000 [0.6756, 1.0000] on RR'
    """
    board = rank_records(runs, **settings)
    names = board.names
    return Report(
        board.runs,
        board.aligned,
        board.comparison,
        board.settings,
        title=title or (names[0] if len(names) == 1 else f"{len(names)} runs compared"),
        command=command,
        notes=tuple(notes),
    )


def write_figures(
    report: Report, folder: str | os.PathLike[str], *, formats: Iterable[str] = FORMATS
) -> list[Path]:
    """Write each chart in each format; the folder is created if it is not there."""
    endings = as_list(formats, "formats")
    odd = [format for format in endings if format not in FORMATS]
    if odd:
        raise UsageError(
            f"The format of a figure is one of {', '.join(FORMATS)}; found {odd[0]!r}."
        )
    target = _make_folder(Path(folder))
    written: dict[str, Path] = {}
    for figure in report_charts(report):
        spec = figure.spec()
        for format in endings:
            path = _unused_path(target / f"{figure.file_name}.{format}", written)
            with atomic_write(path) as file:
                file.write(render_chart(spec, format))
            written[path.name.lower()] = path
    return list(written.values())


def _unused_path(path: Path, taken: dict[str, Path]) -> Path:
    """Return the path, numbered where another measure has the same letters."""
    number, unused = 2, path
    while unused.name.lower() in taken:
        unused, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    return unused


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(
            f"The folder for figures {folder} cannot be created: {reason}."
        ) from error
    return folder
