"""A report as one HTML file: it opens offline, prints, and runs nothing that names bring along.

Text, data and scripts are each escaped for the place where they stand. A content security policy
names our script and style by their hashes, so that no other can run. Tables and charts are whole
without the script, which chooses, sorts, filters and opens single queries.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from assay.core.text import printable
from assay.report.packed import pack_pairs, pack_queries, pack_values
from assay.report.sections import SECTIONS, options
from assay.tables.html import html_text

if TYPE_CHECKING:
    from assay.measures import Measure
    from assay.report.report import Report

__all__ = ["html_report", "read_asset"]

_ROOM: Final = 990_000  # bytes of a page that details of queries may fill
_LEAST_ROOM: Final = 60_000
_FILTERED: Final = 6  # runs from which on a field finds them


def html_report(report: Report) -> str:
    """The whole page; the same report is the same bytes."""
    script, style = read_asset("report.js"), read_asset("report.css")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        _policy([script], [style]),
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{html_text(report.title)}</title>",
        _style_block(style),
        '</head><body class="report">',
        *_body(report),
        _script_block(script),
        "</body></html>\n",
    ]
    data = _data(report)
    used = sum(map(len, parts)) + sum(len(json.dumps(part)) for part in data.values())
    data["details"] = pack_queries(report, max(_ROOM - used, _LEAST_ROOM))
    parts.insert(-2, _data_block("assay-data", data))
    return "\n".join(parts)


def _data(report: Report) -> dict[str, Any]:
    """The data of the page's script: names, and values of pairs and queries."""
    return {
        "runs": [printable(name) for name in report.names],
        "measures": [str(measure) for measure in report.measures],
        "order": [_order(report, measure) for measure in report.measures],
        "pairs": pack_pairs(report),
        "values": pack_values(report),
    }


def _order(report: Report, measure: Measure) -> list[int]:
    """The numbers of the runs on a measure, best first."""
    place = {name: i for i, name in enumerate(report.names)}
    return [place[one.name] for one in report.standings_on(measure)]


def _body(report: Report) -> Iterator[str]:
    sections = [(id, title, _section(id, title, write(report))) for id, title, write in SECTIONS]
    found = [(id, title, section) for id, title, section in sections if section]
    yield '<a class="skip" href="#verdict">Skip to the verdict</a>'
    yield _header(report)
    links = "".join(f'<li><a href="#{id}">{title}</a></li>' for id, title, _ in found)
    yield f'<nav class="contents" aria-label="Contents"><ul>{links}</ul></nav>'
    yield "<main>"
    yield from (section for *_, section in found)
    yield "</main>"
    yield "<noscript><p>Choosing, sorting and downloads require JavaScript.</p></noscript>"
    yield _QUERY_DIALOG


_QUERY_DIALOG: Final = (
    '<dialog id="query" aria-labelledby="query-title"><div class="bar">'
    '<h2 id="query-title">Query</h2><span class="tools">'
    '<button type="button" id="before" aria-label="Previous query">‹</button>'
    '<button type="button" id="after" aria-label="Next query">›</button>'
    '<button type="button" id="close" autofocus>Close</button></span></div>'
    '<div id="query-body"></div></dialog>'
)


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
    chosen = options(map(str, report.measures))
    pick = f'<label>Measure <select id="measure">{chosen}</select></label>' if several else ""
    if len(report.runs) >= _FILTERED:
        pick += (
            '<label>Systems <input type="search" id="systems" placeholder="filter"'
            ' autocomplete="off"></label>'
        )
    n_queries = len(report.aligned.query_ids)
    runs = f"{len(report.runs)} run{'' if len(report.runs) == 1 else 's'}"
    size = f"{runs}, {n_queries:,} {'query' if n_queries == 1 else 'queries'}"
    return (
        f'<header><div><h1>{html_text(report.title)}</h1><p class="size">{size}</p></div>'
        f'<div class="controls">{pick}<button type="button" id="theme">Dark</button></div></header>'
    )


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
