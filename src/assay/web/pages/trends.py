"""One measure of one system over time: does it get better or worse, and how sure is that?

Each run is compared with the one before on the same queries: a change is significant where the
interval of the paired difference excludes 0. Where the queries differ, the intervals of both means
must not overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, and_, or_

from assay.arrays import Floats
from assay.errors import MeasureError
from assay.measures import parse
from assay.report.svg import TrendPoint, trend_line
from assay.stats.inverted import inverted_interval, test_units
from assay.store.codec import conventions_of, unpack_array, unpack_texts
from assay.store.queries import read_blobs_of
from assay.store.schema import BLOBS
from assay.store.summaries import (
    RunMean,
    find_means,
    list_datasets,
    list_measures,
    query_checksums,
)
from assay.tables.table import Cell, Table
from assay.web.page import PageRequest, PageRoute, WebPage
from assay.web.page_table import PageTable
from assay.web.params import address, choose_dataset, choose_measure

__all__ = ["ROUTE", "trends_page"]


_MOST_RUNS: Final = 100
_LEVEL: Final = 0.95
_LISTED: Final = 5
_EQUAL: Final = "the same values"


@dataclass(frozen=True)
class Change:
    """How a run differs from the one before; `kind` is better, worse or same."""

    kind: str = "same"
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    paired: bool = False
    note: str = ""

    @property
    def words(self) -> str:
        """In words."""
        if self.difference is None or self.note:
            return self.note
        return {"better": "better", "worse": "worse", "same": "no significant change"}[self.kind]


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
        changes = _changes(connection, series, measure)
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
        },
    )


def _changes(connection: Connection, series: Sequence[RunMean], measure: str) -> list[Change]:
    """How each run differs from the one before."""
    known = _query_values(connection, series, measure)
    is_mean = _is_mean(measure)
    found = [_change(old, new, known, is_mean) for old, new in pairwise(series)]
    return [Change(), *found] if series else []


def _change(old: RunMean, new: RunMean, known: Mapping[int, QueryValues], is_mean: bool) -> Change:
    if old.conventions != new.conventions:
        return Change("same", _difference(old, new), note="other conventions")
    if not is_mean:
        return Change("same", _difference(old, new), note="not tested")
    left, right = known.get(old.id), known.get(new.id)
    if left is None or right is None or left.queries != right.queries:
        return _unpaired_change(old, new)
    return _paired_change(right.values - left.values, right.labels or left.labels)


def _is_mean(measure: str) -> bool:
    """Whether the number of a run is a mean of its queries, and not a sum or a name of its own."""
    try:
        return parse(measure).definition.aggregate == "mean"
    except MeasureError:
        return False


@dataclass(frozen=True)
class QueryValues:
    """The values that a mean is made of, and which queries they are of, by a checksum.

    `labels` are the groups that are drawn as a whole, where queries are not independent.
    """

    queries: str
    values: Floats
    labels: tuple[str, ...] | None = None


def _query_values(
    connection: Connection, series: Sequence[RunMean], measure: str
) -> dict[int, QueryValues]:
    """The values of all runs in one question; runs without any are left out."""
    found: dict[int, dict[str, Any]] = {one.id: {} for one in series}
    columns = {one.id: one.clusters for one in series}
    wanted = or_(
        BLOBS.c.kind == "missing",
        and_(BLOBS.c.kind == "values", BLOBS.c.name == measure),
        and_(BLOBS.c.kind == "group", BLOBS.c.name.in_(sorted({*columns.values()} - {""}))),
    )
    labels: dict[int, tuple[str, ...]] = {}
    for run, blob in read_blobs_of(connection, list(found), wanted):
        if blob.kind != "group":
            found[run][blob.kind] = unpack_array(blob)
        elif blob.name == columns[run]:
            labels[run] = tuple(unpack_texts(blob))
    marks = query_checksums(connection, list(found))
    return {
        one.id: QueryValues(
            marks[one.id], _apply_conventions(one, **found[one.id]), labels.get(one.id)
        )
        for one in series
        if one.id in marks and found[one.id].keys() == {"missing", "values"}
    }


def _apply_conventions(one: RunMean, values: Floats, missing: Any) -> Floats:
    """Empty and missing queries as the conventions of the run treat them."""
    rules = conventions_of(one.conventions)
    counted = np.where(np.isnan(values), 0.0, values) if rules.empty == "zero" else values
    return np.where(missing, np.nan, counted) if rules.missing != "zero" else counted


def _paired_change(differences: Any, labels: Sequence[str] | None) -> Change:
    if differences.size and not differences.any():  # what is not a number is no zero
        return Change("same", 0.0, paired=True, note=_EQUAL)
    nothing = np.zeros(differences.size)
    test = test_units(differences, nothing, labels)
    separate = test.p <= 1 - _LEVEL
    one = inverted_interval(
        differences, nothing, test, level=1 - _LEVEL, separate=separate, clusters=labels
    )
    if np.isnan(one.estimate):
        return Change()
    if np.isnan(one.low):
        return Change("same", one.estimate, paired=True)
    kind = "same" if not separate else "better" if one.estimate > 0 else "worse"
    return Change(kind, one.estimate, one.low, one.high, paired=True)


def _unpaired_change(old: RunMean, new: RunMean) -> Change:
    """Other queries, or no values of queries: only what lies apart differs."""
    difference = _difference(old, new)
    ends = (old.low, old.high, new.low, new.high)
    if any(end is None for end in ends):
        return Change("same", difference, note="not tested")
    low, high, new_low, new_high = (float(end or 0.0) for end in ends)
    kind = "worse" if new_high < low else "better" if new_low > high else "same"
    return Change(kind, difference)


def _difference(old: RunMean, new: RunMean) -> float:
    return (new.value or 0.0) - (old.value or 0.0)


def _verdict(series: Sequence[RunMean], changes: Sequence[Change], measure: str) -> str:
    if len(series) < 2:
        return ""
    last, change = series[-1], changes[-1]
    now = f"The newest run ({last.id}) reaches {last.value:.4f} on {measure}"
    falls = [one.id for one, c in zip(series, changes, strict=True) if c.kind == "worse"]
    return f"{now}: {_describe_change(change)}. {_regressions(falls)}."


def _describe_change(change: Change) -> str:
    if change.note == _EQUAL:
        return f"{_EQUAL} as the previous run"
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
            f"run {one.id}, {one.created[:16].replace('T', ' ')}: {one.value:.4f} {change.words}",
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
            Cell(one.created[:16].replace("T", " ")),
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
        links=[{0: address(f"/run/{one.id}", measure=measure)} for one, _ in turned],
        classes=[{place: f"change {change.kind}" if change.words else ""} for _, change in turned],
        run_ids=[one.id for one, _ in turned],
        run_labels=[f"Compare run {one.id}" for one, _ in turned],
    )


ROUTE: Final = PageRoute("/trends", trends_page, menu="Trends", position=4)
