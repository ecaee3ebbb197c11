"""One measure of one system over time: does it get better or worse, and how sure is that?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from assay.report.svg import TrendPoint, trend_line
from assay.store.summaries import RunMean, find_means, list_datasets, list_measures
from assay.web.caches import EQUAL, PENDING, Change
from assay.web.listing import ListColumn, Listing
from assay.web.page import (
    PageRequest,
    PageRoute,
    WebPage,
    address,
    choose_dataset,
    choose_measure,
    exact_moment,
    format_moment,
)

_MOST_RUNS: Final = 100
_LISTED: Final = 5


def trends_page(request: PageRequest) -> WebPage:
    """Show the newest runs of one name on one dataset."""
    with request.store.database.reading() as connection:
        boards = [name for name, _, _ in list_datasets(connection)]
        dataset = choose_dataset(request.params, boards)
        measures = list_measures(connection, dataset=dataset, status="finished")
        measure = choose_measure(request.params, measures)
        rows = find_means(connection, measure, dataset=dataset) if measure else []
        systems = [name for name, _ in Counter(row.name for row in rows).most_common()]
        named = request.params.get_name("name", systems)
        system = named if named in systems else next(iter(systems), "")
        scored = [row for row in rows if row.name == system and row.value is not None]
        series = scored[:_MOST_RUNS][::-1]
        changes = request.cache.changes.along(connection, series, measure, request.timeout)
    worse = [run.id for run, change in zip(series, changes, strict=True) if change.kind == "worse"]
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
            "left_out": max(0, len(scored) - _MOST_RUNS),
            "regressions": worse,
            "runs": [
                {**run.to_dict(), "change": {**asdict(change), "words": change.words}}
                for run, change in zip(series, changes, strict=True)
            ],
        },
        [_listing(request, series, changes, measure)],
        {
            "chart": _chart(series, changes, measure),
            "verdict": _verdict(series, changes, measure, worse),
            "retry_after": int(PENDING in changes),
        },
    )


def _verdict(
    series: Sequence[RunMean], changes: Sequence[Change], measure: str, worse: Sequence[int]
) -> str:
    if len(series) < 2:
        return ""
    last, change = series[-1], changes[-1]
    now = f"The newest run ({last.id}) reaches {last.value:.4f} on {measure}"
    if PENDING in changes:
        return f"{now}; the changes are being tested."
    return f"{now}: {_describe_change(change)}. {_regressions(worse)}."


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
    """Name the runs that are worse than the one before, the last few.

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
            run.created,
            float(run.value or 0.0),
            run.low,
            run.high,
            change.kind,
            address(f"/run/{run.id}", measure=measure),
            f"run {run.id}, {exact_moment(run.created)}: {run.value:.4f} {change.words}",
        )
        for run, change in zip(series, changes, strict=True)
    ]
    return trend_line(points, measure)


def _listing(
    request: PageRequest, series: Sequence[RunMean], changes: Sequence[Change], measure: str
) -> Listing[tuple[RunMean, Change]]:
    """Declare the list of runs, the newest first, each with its change."""
    columns: list[ListColumn[tuple[RunMean, Change]]] = [
        ListColumn(
            "began (UTC)",
            lambda row: exact_moment(row[0].created),
            form=format_moment,
            link=lambda row: address(f"/run/{row[0].id}", measure=measure),
        ),
        ListColumn("run", lambda row: row[0].id, "count"),
        ListColumn(measure, lambda row: row[0].value, "fraction"),
        ListColumn("from", lambda row: row[0].low, "fraction"),
        ListColumn("to", lambda row: row[0].high, "fraction"),
        ListColumn("difference", lambda row: row[1].difference, "difference"),
        ListColumn("from ", lambda row: row[1].low, "difference"),
        ListColumn("to ", lambda row: row[1].high, "difference"),
        ListColumn(
            "change",
            lambda row: row[1].words,
            style=lambda row: f"change {row[1].kind}" if row[1].words else "",
        ),
        ListColumn("commit", lambda row: row[0].git_commit[:10]),
    ]
    rows = list(zip(series, changes, strict=True))[::-1]
    caption = "Runs, newest first"
    return Listing(request, "trend", caption, columns, rows, run=lambda row: row[0])


ROUTES: Final = (PageRoute("/trends", trends_page, menu="Trends", position=4),)
