"""The charts of a report as files for papers and slides."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from assay.checks import listed
from assay.errors import StorageError, UsageError
from assay.io.atomic import atomic_write
from assay.report.report_charts import report_charts
from assay.report.vega import FORMATS, rendered

if TYPE_CHECKING:
    from assay.report.contents import Report

__all__ = ["write_figures"]


def write_figures(
    report: Report, folder: str | os.PathLike[str], *, formats: Iterable[str] = FORMATS
) -> list[Path]:
    """Write each chart in each format; the folder is made if it is not there."""
    wanted = listed(formats, "formats")
    odd = [format for format in wanted if format not in FORMATS]
    if odd:
        raise UsageError(f"A figure is written as {', '.join(FORMATS)}; found {odd[0]!r}.")
    target = _made(Path(folder))
    written: dict[str, Path] = {}
    for drawn in report_charts(report):
        spec = drawn.chart.to_dict()
        for format in wanted:
            path = _free(target / f"{drawn.file_name}.{format}", written)
            with atomic_write(path) as file:
                file.write(rendered(spec, format))
            written[path.name.lower()] = path
    return list(written.values())


def _free(path: Path, taken: dict[str, Path]) -> Path:
    """The path, numbered where another measure's name comes to the same letters."""
    number, found = 2, path
    while found.name.lower() in taken:
        found, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    return found


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(f"{folder} cannot be made a folder for figures: {reason}.") from error
    return folder
