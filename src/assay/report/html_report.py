"""A report as one HTML file: it opens offline, prints, and runs nothing that names bring along."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from assay.comparison.tables import MOST_PAIRS, pair_table, power_note, system_table
from assay.core.text import printable
from assay.report.charts import Drawn, difference_pair, drawing_script, report_charts
from assay.report.html import (
    asset,
    data_block,
    html_table,
    html_text,
    options,
    packed,
    packed_values,
    policy,
    script_block,
    style_block,
)
from assay.report.tables import (
    counts_table,
    details_table,
    marks_note,
    overview_table,
    single_table,
)

if TYPE_CHECKING:
    from assay.measures import Measure
    from assay.report.report import Report

__all__ = ["html_report"]

_TITLES: Final = {
    "curve": "Measure against cut-off",
    "groups": "By group",
    "ranks": "Where the first relevant document is",
}


def html_report(report: Report) -> str:
    """The whole page; the same report is the same bytes."""
    drawn = list(report_charts(report))
    own, style = asset("report.js"), asset("report.css")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        policy([own, drawing_script()], [style]),
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{html_text(report.title)}</title>",
        style_block(style),
        "</head><body>",
        *_body(report, drawn),
        data_block("assay-data", _data(report, drawn)),
        script_block(own),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _data(report: Report, drawn: list[Drawn]) -> dict[str, Any]:
    """What the page's script needs: charts and what draws them, and the values of each query."""
    charts = {_id(one): _spec(one) for one in drawn}
    return {
        "runs": [printable(name) for name in report.names],
        "measures": [str(measure) for measure in report.measures],
        "charts": packed(json.dumps(charts, separators=(",", ":")).encode()),
        "drawing": packed(drawing_script().encode()),
        "values": packed_values(report) if report.comparison is not None else None,
    }


def _id(drawn: Drawn) -> str:
    return drawn.file_name if drawn.measure is None else f"{drawn.kind}-{drawn.file_name}"


def _spec(drawn: Drawn) -> dict[str, Any]:
    """The chart; the page sets its width, and fills in the differences of the chosen pair."""
    spec: dict[str, Any] = drawn.chart.to_dict()
    for key in ("$schema", "config", "width"):
        spec.pop(key, None)
    if drawn.kind == "differences":
        spec.pop("datasets", None)
        spec["data"] = {"values": []}
    return spec


def _body(report: Report, drawn: list[Drawn]) -> Iterator[str]:
    yield '<a class="skip" href="#verdict">Skip to the verdict</a>'
    yield _header(report)
    yield "<main>"
    yield _section("verdict", "Verdict", _verdicts(report))
    yield _section("leaderboard", "Leaderboard", _leaderboards(report, drawn))
    yield _section("overview", "All measures", _overview(report))
    for kind, title in _TITLES.items():
        yield _section(kind, title, _charts(report, drawn, kind))
    yield _section("differences", "Query by query", _differences(report, drawn))
    yield _section("disclosures", "What to know before trusting the numbers", _remarks(report))
    yield _section("reproduce", "How this was made", _reproduce(report))
    yield "</main>"
    yield "<noscript><p>Charts, sorting and downloads need JavaScript.</p></noscript>"


def _section(id: str, title: str, parts: Iterable[str]) -> str:
    """A part of the page; one that holds nothing is left out."""
    inside = "\n".join(filter(None, parts))
    if not inside:
        return ""
    return (
        f'<section id="{id}" aria-labelledby="{id}-title">'
        f'<h2 id="{id}-title">{title}</h2>\n{inside}</section>'
    )


def _header(report: Report) -> str:
    several = len(report.measures) > 1
    chosen = options(map(str, report.measures))
    pick = f'<label>Measure <select id="measure">{chosen}</select></label>' if several else ""
    n_queries = len(report.aligned.query_ids)
    runs = f"{len(report.runs)} run{'' if len(report.runs) == 1 else 's'}"
    size = f"{runs}, {n_queries:,} {'query' if n_queries == 1 else 'queries'}"
    return (
        f'<header><div><h1>{html_text(report.title)}</h1><p class="size">{size}</p></div>'
        f'<div class="controls">{pick}<button type="button" id="theme">Dark</button></div></header>'
    )


def _verdicts(report: Report) -> Iterator[str]:
    first, *others = report.verdicts.values()
    yield f'<p class="verdict">{html_text(first)}.</p>'
    if others:
        items = "".join(f"<li>{html_text(verdict)}.</li>" for verdict in others)
        more = "other measure" if len(others) == 1 else f"other {len(others)} measures"
        yield f"<details><summary>On the {more}</summary>"
        yield f"<ul>{items}</ul></details>"


def _of_measure(number: int, measure: Measure, parts: Iterable[str]) -> str:
    """What is shown while a measure is chosen; without a script all are shown."""
    inside = "\n".join(filter(None, parts))
    if not inside:
        return ""
    return f'<div data-measure="{number}"><h3>{html_text(measure)}</h3>{inside}</div>'


def _place(drawn: Drawn) -> str:
    note = f'<p class="note">{html_text(drawn.note)}</p>' if drawn.note else ""
    return f'<div class="chart" data-chart="{html_text(_id(drawn))}"></div>{note}'


def _charts(report: Report, drawn: list[Drawn], kind: str) -> Iterator[str]:
    for number, measure in enumerate(report.measures):
        yield _of_measure(number, measure, _placed(drawn, kind, number))
    yield from _placed(drawn, kind, None)


def _placed(drawn: list[Drawn], kind: str, number: int | None) -> list[str]:
    return [_place(one) for one in drawn if one.kind == kind and one.measure == number]


def _leaderboards(report: Report, drawn: list[Drawn]) -> Iterator[str]:
    for number, measure in enumerate(report.measures):
        charts = _placed(drawn, "leaderboard", number)
        yield _of_measure(number, measure, [*charts, *_tables(report, measure)])


def _tables(report: Report, measure: Measure) -> Iterator[str]:
    name, comparison = str(measure), report.comparison
    if comparison is None:
        yield html_table(single_table(report, measure), name, file_name=f"mean {name}")
        return
    board = system_table(comparison, name)
    yield html_table(board, f"Runs on {name}", file_name=f"leaderboard {name}")
    pairs = comparison.pairs_on(measure)
    if len(pairs) <= MOST_PAIRS:
        table = html_table(
            pair_table(comparison, name), f"Pairs on {name}", file_name=f"pairs {name}"
        )
        yield f"<details><summary>{len(pairs)} pairs</summary>{table}</details>"
    else:
        many = f"{len(pairs):,} pairs are too many to list; assay compare has them."
        yield f'<p class="note">{many}</p>'
    yield f'<p class="note">{html_text(power_note(comparison, name))}</p>'


def _overview(report: Report) -> Iterator[str]:
    if len(report.measures) > 1:
        yield html_table(overview_table(report), "Means of all measures", file_name="means")
        yield f'<p class="note">{html_text(marks_note(report))}</p>'


def _differences(report: Report, drawn: list[Drawn]) -> Iterator[str]:
    found = difference_pair(report)
    if found is None:
        return
    names = list(report.names)
    first, second = (options(names, names.index(name)) for name in (found.a, found.b))
    yield (
        f'<div class="controls"><label>First <select id="first">{first}</select></label>'
        f'<label>less second <select id="second">{second}</select></label>'
        '<button type="button" id="all-values">All values as CSV</button></div>'
        '<p id="difference-note" class="note" aria-live="polite"></p>'
    )
    yield from _placed(drawn, "differences", None)
    yield '<div id="difference-table"></div>'


def _remarks(report: Report) -> Iterator[str]:
    remarks = report.remarks or ("No query is missing, empty or decided by ties",)
    items = "".join(f"<li>{html_text(remark)}.</li>" for remark in remarks)
    yield f"<ul>{items}</ul>"
    table = html_table(counts_table(report), "Queries behind each mean", file_name="queries")
    yield f"<details><summary>Queries behind each mean</summary>{table}</details>"


def _reproduce(report: Report) -> Iterator[str]:
    yield f"<p>{html_text(report.method)}</p>"
    yield f"<h3>Conventions</h3><p><code>{html_text(report.aligned.signature)}</code></p>"
    if report.command:
        yield f"<h3>Command</h3><pre>{html_text(report.command)}</pre>"
    details = details_table(report)
    if details is not None:
        yield html_table(details, "Runs", file_name="runs")
