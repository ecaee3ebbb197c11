"""One measure of one system over time: does it get better or worse, and how sure is that?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from assay.report.svg import TrendPoint, trend_line
from assay.store.summaries import RunMean, find_means, list_datasets, list_measures
from assay.tables.table import Cell, Table
from assay.web.changes import EQUAL, PENDING, Change
from assay.web.moments import exact_moment, format_moment
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable
from assay.web.params import address, choose_dataset, choose_measure

__all__ = ["ROUTE", "trends_page"]


_MOST_RUNS: Final = 100
_LISTED: Final = 5


def trends_page(request: PageRequest) -> WebPage:
    """The newest runs of one name on one dataset."""
    with request.store.database.reading() as connection:
        boards = [name for name, _, _ in list_datasets(connection)]
        dataset = choose_dataset(request.params, boards)
        measures = list_measures(connection, dataset=dataset, status="finished")
        measure = choose_measure(request.params, measures)
        rows = find_means(connection, measure, dataset=dataset) if measure else []
        systems = [name for name, _ in Counter(row.name for row in rows).most_common()]
        named = request.params.get_name("name", systems)
        system = named if named in systems else next(iter(systems), "")
        chosen = [row for row in rows if row.name == system and row.value is not None]
        series = chosen[:_MOST_RUNS][::-1]
        changes = request.cache.changes.along(connection, series, measure, request.timeout)
    worse = [one for one, change in zip(series, changes, strict=True) if change.kind == "worse"]
    return WebPage(
        "trends",
        f"{measure} of {system} over time" if series else "Trends",
        {
            "dataset": dataset,
            "measure": measure,
            "name": system,
            "measures": measures,
            "names": systems,
            "datasets": boards,
            "left_out": max(0, len(chosen) - _MOST_RUNS),
            "regressions": [one.id for one in worse],
            "runs": [
                {**one.to_dict(), "change": {**asdict(change), "words": change.words}}
                for one, change in zip(series, changes, strict=True)
            ],
        },
        [_page_table(request, series, changes, measure)],
        {
            "chart": _chart(series, changes, measure),
            "verdict": _verdict(series, changes, measure),
            "any_worse": bool(worse),
            "retry_after": int(PENDING in changes),
        },
    )


def _verdict(series: Sequence[RunMean], changes: Sequence[Change], measure: str) -> str:
    if len(series) < 2:
        return ""
    last, change = series[-1], changes[-1]
    now = f"The newest run ({last.id}) reaches {last.value:.4f} on {measure}"
    if PENDING in changes:
        return f"{now}; the changes are being tested."
    falls = [one.id for one, c in zip(series, changes, strict=True) if c.kind == "worse"]
    return f"{now}: {_describe_change(change)}. {_regressions(falls)}."


def _describe_change(change: Change) -> str:
    if change.note == EQUAL:
        return f"{EQUAL} as the previous run"
    if change.note:
        return f"not comparable with the previous run ({change.note})"
    ends = "" if change.low is None else f" [{change.low:+.4f}, {change.high:+.4f}]"
    words = {"better": "better than", "worse": "worse than", "same": "no significant change from"}
    by = f", {change.difference:+.4f}{ends}" if change.difference is not None else ""
    return f"{words[change.kind]} the previous run{by}"


def _regressions(runs: Sequence[int]) -> str:
    """The runs that are worse than the one before, the last few.

    >>> _regressions([7]), _regressions([1, 2, 3, 4, 5, 6])
    ('Regression in run 7', '6 regressions, the last in runs 2, 3, 4, 5, 6')
    """
    if not runs:
        return "No regression"
    listed = ", ".join(map(str, runs[-_LISTED:]))
    if len(runs) > _LISTED:
        return f"{len(runs)} regressions, the last in runs {listed}"
    return f"Regression in run {listed}" if len(runs) == 1 else f"Regressions in runs {listed}"


def _chart(series: Sequence[RunMean], changes: Sequence[Change], measure: str) -> Any:
    points = [
        TrendPoint(
            one.created,
            float(one.value or 0.0),
            one.low,
            one.high,
            change.kind,
            address(f"/run/{one.id}", measure=measure),
            f"run {one.id}, {exact_moment(one.created)}: {one.value:.4f} {change.words}",
        )
        for one, change in zip(series, changes, strict=True)
    ]
    return trend_line(points, measure)


def _page_table(
    request: PageRequest, series: Sequence[RunMean], changes: Sequence[Change], measure: str
) -> PageTable:
    """The newest first, each with its change in words."""
    turned = list(zip(series, changes, strict=True))[::-1]
    rows = tuple(
        (
            Cell(exact_moment(one.created)),
            Cell(one.id, "count"),
            Cell(one.value, "fraction"),
            Cell(one.low, "fraction"),
            Cell(one.high, "fraction"),
            Cell(change.difference, "difference"),
            Cell(change.low, "difference"),
            Cell(change.high, "difference"),
            Cell(change.words),
            Cell(one.git_commit[:10]),
        )
        for one, change in turned
    )
    columns = (
        "began (UTC)",
        "run",
        measure,
        "from",
        "to",
        "difference",
        "from ",
        "to ",
        "change",
        "commit",
    )
    place = columns.index("change")
    return PageTable(
        "trend",
        "Runs, newest first",
        Table(columns, rows),
        csv=request.params.address(f"{request.path}.csv"),
        formats={0: format_moment},
        links=[{0: address(f"/run/{one.id}", measure=measure)} for one, _ in turned],
        classes=[{place: f"change {change.kind}" if change.words else ""} for _, change in turned],
        run_ids=[one.id for one, _ in turned],
        run_labels=[f"Compare run {one.id}" for one, _ in turned],
    )


ROUTE: Final = PageRoute("/trends", trends_page, menu="Trends", position=4)
