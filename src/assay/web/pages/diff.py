"""How runs were made, side by side: what differs in their settings, data and environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from assay.errors import UsageError
from assay.store import Run
from assay.store.run import names_of
from assay.tables.table import Cell, Table
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable
from assay.web.params import address, find_runs
from assay.web.run_diff import SettingRow, setting_rows

__all__ = ["ROUTE", "diff_page"]

_MOST: Final = 20
_LONGEST: Final = 200  # characters of a value on the page; the file has all of them


def diff_page(request: PageRequest) -> WebPage:
    """The settings of the selected runs: those that differ, or all."""
    runs = find_runs(request.store, request.params)
    if len(runs) > _MOST:
        raise UsageError(f"The settings of up to {_MOST} runs are shown, found {len(runs)}.")
    whole = request.params.get_choice("show", ("differences", "all"), "differences") == "all"
    rows = setting_rows(runs)
    differing = [row for row in rows if row.differs]
    table = _page_table(request, runs, rows if whole else differing)
    ids = [run.id for run in runs]
    return WebPage(
        "diff",
        f"How {len(runs)} runs differ",
        {
            "runs": ids,
            "names": names_of(runs),
            "differing": len(differing),
            "total": len(rows),
            "settings": [asdict(row) for row in (rows if whole else differing)],
        },
        [table],
        {
            "whole": whole,
            "other": request.params.address("/diff", show=None if whole else "all"),
            "compare": address("/compare", run=ids) if len(runs) > 1 else "",
        },
    )


def _page_table(request: PageRequest, runs: Sequence[Run], rows: Sequence[SettingRow]) -> PageTable:
    table = Table(
        ("setting", "of", *names_of(runs)),
        tuple((Cell(row.name), Cell(row.section), *map(Cell, row.values)) for row in rows),
    )
    return PageTable(
        "settings",
        "Settings",
        table,
        csv=request.params.address("/diff.csv"),
        classes=[_marks(row) for row in rows],
        formats=dict.fromkeys(range(2, len(table.columns)), _shorten),
        head_links={2 + i: address(f"/run/{run.id}") for i, run in enumerate(runs)},
    )


def _marks(row: SettingRow) -> dict[int, str]:
    """Marks where a value is another than that of the first run."""
    first = row.values[0]
    return {2 + i: "other" for i, value in enumerate(row.values) if value != first}


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


ROUTE: Final = PageRoute("/diff", diff_page)
