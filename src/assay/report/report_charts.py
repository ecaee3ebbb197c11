"""All charts of a report, each with a name that is also the name of its file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.report import chart_data, charts

if TYPE_CHECKING:
    from assay.measures import Measure
    from assay.query_differences import QueryDifferences
    from assay.report.contents import Report

__all__ = ["Drawn", "difference_pair", "report_charts"]


@dataclass(frozen=True)
class Drawn:
    """A chart, its kind, the number of its measure (None: it is about all) and a file name."""

    kind: str
    measure: int | None
    file_name: str
    chart: Any
    note: str = ""


def report_charts(report: Report) -> Iterator[Drawn]:
    """Leaderboards, curves and group bars of each measure, then ranks and differences."""
    for number, measure in enumerate(report.measures):
        yield from _of_measure(report, number, measure)
    ranks = chart_data.rank_rows(report)
    if ranks:
        yield Drawn("ranks", None, "ranks", charts.rank_chart(ranks))
    found = difference_pair(report)
    if found is not None:
        title = f"difference in {found.measure}"
        chart = charts.difference_chart(chart_data.difference_rows(found), title)
        yield Drawn("differences", None, f"differences-{_safe(found.measure)}", chart)


def _of_measure(report: Report, number: int, measure: Measure) -> Iterator[Drawn]:
    name = str(measure)
    compared = report.comparison
    against = compared.pairs_on(measure) if compared and compared.baseline is not None else None
    rows = chart_data.standing_rows(report.standings_on(measure), against)
    board = charts.leaderboard_chart(rows, name, chance=report.chance_on(measure))
    yield Drawn("leaderboard", number, f"leaderboard-{_safe(name)}", board)
    curve = chart_data.curve_rows(report, measure)
    if curve:
        kind = chart_data.family(measure) or name
        yield Drawn("curve", number, f"curve-{_safe(name)}", charts.curve_chart(curve, kind))
    for place, column in enumerate(report.group_columns):
        groups, total = chart_data.group_rows(report, measure, column)
        if not groups:
            continue
        chart = charts.group_chart(groups, name, chart_data.labels([column])[column])
        shown = min(total, chart_data.MOST_GROUPS)
        note = "" if shown == total else f"The {shown} largest of {total:,} groups."
        yield Drawn("groups", number, f"groups-{place + 1}-{_safe(name)}", chart, note)


def difference_pair(report: Report, measure: Measure | None = None) -> QueryDifferences | None:
    """The pair that is shown first: the best two, or the best run that is not the baseline."""
    comparison = report.comparison
    if comparison is None:
        return None
    chosen = measure or report.measures[0]
    ranked = [one.name for one in comparison.standings_on(chosen)]
    if comparison.baseline is not None:
        rival = next(name for name in ranked if name != comparison.baseline)
        return comparison.differences(chosen, rival, comparison.baseline)
    return comparison.differences(chosen, ranked[0], ranked[1])


def _safe(name: str) -> str:
    """A part of a file name.

    >>> _safe("AP(rel=2)@100")
    'AP-rel-2-100'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")
