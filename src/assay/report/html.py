"""A report as one HTML file: it opens offline, prints, and runs nothing that names bring along.

Text, data and scripts are each escaped for the place where they stand. A content security policy
names our scripts by their hashes, so that no other can run.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.arrays import Floats
from assay.comparison.tables import MOST_PAIRS, pair_table, power_note, system_table
from assay.core.text import guard_formula, printable
from assay.report.charts import ReportChart, difference_pair, drawing_script, report_charts
from assay.report.tables import (
    counts_table,
    marks_note,
    overview_table,
    provenance_table,
    single_table,
)
from assay.runs.leaderboard import Leaderboard
from assay.tables.html import Attributes, Decoration, cell_text, html_table, html_text, tag
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.measures import Measure
    from assay.report.report import Report

__all__ = ["MOST_VALUES", "html_report", "pack_values", "read_asset", "table_figure"]

_TITLES: Final = {
    "curve": "Measure against cut-off",
    "groups": "By group",
    "ranks": "Rank of the first relevant document",
}


def html_report(report: Report) -> str:
    """The whole page; the same report is the same bytes."""
    drawn = list(report_charts(report))
    own, style = read_asset("report.js"), read_asset("report.css")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        _policy([own, drawing_script()], [style]),
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{html_text(report.title)}</title>",
        _style_block(style),
        "</head><body>",
        *_body(report, drawn),
        _data_block("assay-data", _data(report, drawn)),
        _script_block(own),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _data(report: Report, drawn: list[ReportChart]) -> dict[str, Any]:
    """The data of the page's script: charts, the library that draws them, and per-query values."""
    charts = {_id(one): _spec(one) for one in drawn}
    return {
        "runs": [printable(name) for name in report.names],
        "measures": [str(measure) for measure in report.measures],
        "charts": _pack(json.dumps(charts, separators=(",", ":")).encode()),
        "drawing": _pack(drawing_script().encode()),
        "values": pack_values(report) if report.comparison is not None else None,
    }


def _id(drawn: ReportChart) -> str:
    return drawn.file_name if drawn.measure is None else f"{drawn.kind}-{drawn.file_name}"


def _spec(drawn: ReportChart) -> dict[str, Any]:
    """The chart; the page sets its width, and fills in the differences of the chosen pair."""
    spec = drawn.spec()
    for key in ("$schema", "config", "width"):
        spec.pop(key, None)
    if drawn.kind == "differences":
        spec.pop("datasets", None)
        spec["data"] = {"values": []}
    return spec


def _body(report: Report, drawn: list[ReportChart]) -> Iterator[str]:
    yield '<a class="skip" href="#verdict">Skip to the verdict</a>'
    yield _header(report)
    yield "<main>"
    yield _section("verdict", "Verdict", _verdicts(report))
    yield _section("leaderboard", "Leaderboard", _leaderboards(report, drawn))
    yield _section("overview", "All measures", _overview(report))
    yield _section("slices", "Slices", _slices(report))
    for kind, title in _TITLES.items():
        yield _section(kind, title, _charts(report, drawn, kind))
    yield _section("differences", "Query by query", _differences(report, drawn))
    yield _section("disclosures", "Caveats", _remarks(report))
    yield _section("reproduce", "Reproduction", _reproduce(report))
    yield "</main>"
    yield "<noscript><p>Charts, sorting and downloads require JavaScript.</p></noscript>"


def _section(id: str, title: str, parts: Iterable[str]) -> str:
    """A section of the page; an empty one is left out."""
    inside = "\n".join(filter(None, parts))
    if not inside:
        return ""
    return (
        f'<section id="{id}" aria-labelledby="{id}-title">'
        f'<h2 id="{id}-title">{title}</h2>\n{inside}</section>'
    )


def _header(report: Report) -> str:
    several = len(report.measures) > 1
    chosen = _options(map(str, report.measures))
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
    """The part of one measure, visible while it is selected; without a script all are."""
    inside = "\n".join(filter(None, parts))
    if not inside:
        return ""
    return f'<div data-measure="{number}"><h3>{html_text(measure)}</h3>{inside}</div>'


def _chart_place(drawn: ReportChart) -> str:
    note = f'<p class="note">{html_text(drawn.note)}</p>' if drawn.note else ""
    return f'<div class="chart" data-chart="{html_text(_id(drawn))}"></div>{note}'


def _charts(report: Report, drawn: list[ReportChart], kind: str) -> Iterator[str]:
    for number, measure in enumerate(report.measures):
        yield _of_measure(number, measure, _chart_places(drawn, kind, number))
    yield from _chart_places(drawn, kind, None)


def _chart_places(drawn: list[ReportChart], kind: str, number: int | None) -> list[str]:
    return [_chart_place(one) for one in drawn if one.kind == kind and one.measure == number]


def _leaderboards(report: Report, drawn: list[ReportChart]) -> Iterator[str]:
    for number, measure in enumerate(report.measures):
        charts = _chart_places(drawn, "leaderboard", number)
        yield _of_measure(number, measure, [*charts, *_tables(report, measure)])


def _tables(report: Report, measure: Measure) -> Iterator[str]:
    name, comparison = str(measure), report.comparison
    if comparison is None:
        yield table_figure(single_table(report, measure), name, file_name=f"mean {name}")
        return
    board = system_table(comparison, name)
    yield table_figure(board, f"Runs on {name}", file_name=f"leaderboard {name}")
    pairs = comparison.pairs_on(measure)
    if len(pairs) <= MOST_PAIRS:
        table = table_figure(
            pair_table(comparison, name), f"Pairs on {name}", file_name=f"pairs {name}"
        )
        yield f"<details><summary>{len(pairs)} pairs</summary>{table}</details>"
    else:
        many = f"{len(pairs):,} pairs are not listed here; assay compare lists them."
        yield f'<p class="note">{many}</p>'
    yield f'<p class="note">{html_text(power_note(comparison, name))}</p>'


def _overview(report: Report) -> Iterator[str]:
    if len(report.measures) > 1:
        yield table_figure(overview_table(report), "Means of all measures", file_name="means")
        yield f'<p class="note">{html_text(marks_note(report))}</p>'


def _slices(report: Report) -> Iterator[str]:
    found = None if report.comparison is None else report.comparison.slices
    if found is None:
        return
    for number, measure in enumerate(report.measures):
        parts = [f"<p>{html_text(sentence)}.</p>" for sentence in found.verdicts[str(measure)]]
        means, pairs = found.means_table(measure), found.table(measure)
        parts.append(table_figure(means, f"Means by {found.column}", file_name=f"slices {measure}"))
        table = table_figure(pairs, f"Pairs by {found.column}", file_name=f"slice pairs {measure}")
        parts.append(f"<details><summary>{len(pairs.rows)} pairs</summary>{table}</details>")
        yield _of_measure(number, measure, parts)


def _differences(report: Report, drawn: list[ReportChart]) -> Iterator[str]:
    found = difference_pair(report)
    if found is None:
        return
    names = list(report.names)
    first, second = (_options(names, names.index(name)) for name in (found.a, found.b))
    yield (
        f'<div class="controls"><label>First <select id="first">{first}</select></label>'
        f'<label>minus second <select id="second">{second}</select></label>'
        '<button type="button" id="all-values">All values as CSV</button></div>'
        '<p id="difference-note" class="note" aria-live="polite"></p>'
    )
    yield from _chart_places(drawn, "differences", None)
    yield '<div id="difference-table"></div>'


def _remarks(report: Report) -> Iterator[str]:
    remarks = report.remarks or ("No query is missing or empty, and none depends on ties",)
    items = "".join(f"<li>{html_text(remark)}.</li>" for remark in remarks)
    yield f"<ul>{items}</ul>"
    table = table_figure(counts_table(report), "Queries in each mean", file_name="queries")
    yield f"<details><summary>Queries in each mean</summary>{table}</details>"


def _reproduce(report: Report) -> Iterator[str]:
    yield f"<p>{html_text(report.method)}</p>"
    yield f"<h3>Conventions</h3><p><code>{html_text(report.aligned.signature)}</code></p>"
    if report.command:
        yield f"<h3>Command</h3><pre>{html_text(report.command)}</pre>"
    details = provenance_table(report)
    if details is not None:
        yield table_figure(details, "Runs", file_name="runs")


def read_asset(name: str) -> str:
    """The text of a file in assets/."""
    return (files("assay.report") / "assets" / name).read_text("utf-8")


def _data_block(id: str, data: Any) -> str:
    r"""JSON inside a page. Nothing in a string can end the block, start a comment or break a line.

    >>> _data_block("x", "</script>")
    '<script type="application/json" id="x">"\\u003c/script\\u003e"</script>'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&'":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{id}">{text}</script>'


def _pack(data: bytes) -> str:
    """Bytes as text that a page's script can unpack: gzip, then base64; always the same text."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode("ascii")


def _script_block(code: str) -> str:
    """A script of ours; it must hold nothing from outside."""
    return f"<script>{code}</script>"


def _style_block(code: str) -> str:
    """A style sheet of ours."""
    return f"<style>{code}</style>"


def _policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """A content security policy: these scripts and styles run, by their hashes, and nothing else.

    No request may leave the page.
    """
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, scripts)),
        "style-src": " ".join(map(_hash, styles)),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    content = "; ".join(f"{name} {value}" for name, value in rules.items())
    return f'<meta http-equiv="Content-Security-Policy" content="{html_text(content)}">'


def _hash(code: str) -> str:
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def _options(names: Iterable[str], chosen: int = 0) -> str:
    """The options of a select; their values are numbers, so no name has to be looked up."""
    return "".join(
        f'<option value="{i}"{" selected" if i == chosen else ""}>{html_text(name)}</option>'
        for i, name in enumerate(names)
    )


def table_figure(table: Table, caption: str, *, file_name: str) -> str:
    """A table that can be sorted, copied, and downloaded as CSV."""
    label = html_text(caption)
    return (
        f'<figure class="table" data-file="{html_text(file_name)}">'
        f'<figcaption>{label}<span class="tools">'
        f'<button type="button" data-do="copy" aria-label="Copy the table: {label}">Copy</button>'
        f'<button type="button" data-do="csv" aria-label="Download as CSV: {label}">CSV</button>'
        "</span></figcaption>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f"{html_table(table, _Sortable())}</div></figure>"
    )


class _Sortable(Decoration):
    """Heads to click; beside what people see, what a program should read where that differs."""

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        attributes, text = super().head(column, name, left)
        exact = guard_formula(name)
        attributes["data_x"] = exact if exact != printable(name) else None
        return attributes, tag("button", text, type="button")

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        exact = cell.exact
        differs = exact != cell.text
        return {"class_": None if left else "n", "data_x": exact if differs else None}, (
            cell_text(cell)
        )


MOST_VALUES: Final = 400_000  # beyond, a page would grow by more than a megabyte
_STEPS: Final = 10_000
_UNDEFINED: Final = 65_535


def pack_values(board: Leaderboard) -> dict[str, Any]:
    """Queries, and for each measure that fits the values of every run, for the page's script."""
    values = board.aligned.values
    n_runs, n_measures, n_queries = values.shape
    kept = min(n_measures, MOST_VALUES // max(n_runs * n_queries, 1))
    return {
        "queries": [printable(query) for query in board.aligned.query_ids] if kept else [],
        "measures": [_pack_array(values[:, number]) for number in range(kept)],
    }


def _pack_array(values: Floats) -> dict[str, str]:
    known = values[~np.isnan(values)]
    if known.size and (known.min() < 0 or known.max() * _STEPS >= _UNDEFINED):
        return {"kind": "floats", "data": _pack(values.astype("<f4").tobytes())}
    steps = np.where(np.isnan(values), _UNDEFINED, np.round(values * _STEPS))
    pairs = steps.astype("<u2").ravel().view(np.uint8)
    return {"kind": "steps", "data": _pack(pairs[0::2].tobytes() + pairs[1::2].tobytes())}
