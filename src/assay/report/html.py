"""Pieces of a page: text, tables, data and scripts, each escaped for the place where it stands."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.core.text import guard_formula, printable
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.report.report import Report

__all__ = [
    "MOST_VALUES",
    "asset",
    "data_block",
    "html_table",
    "html_text",
    "options",
    "packed",
    "packed_values",
    "policy",
    "script_block",
    "style_block",
]


def asset(name: str) -> str:
    """The text of a file in assets/."""
    return (files("assay.report") / "assets" / name).read_text("utf-8")


def html_text(text: object) -> str:
    r"""Text as it reads, whatever it holds.

    >>> html_text("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    return escape(printable(text))


def data_block(id: str, data: Any) -> str:
    r"""JSON inside a page. Nothing in a string can end the block, start a comment or break a line.

    >>> data_block("x", "</script>")
    '<script type="application/json" id="x">"\\u003c/script\\u003e"</script>'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&'":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{id}">{text}</script>'


def packed(data: bytes) -> str:
    """Bytes as text that a page's script can unpack: gzip, then base64; always the same text."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode("ascii")


def script_block(code: str) -> str:
    """A script of ours; it must hold nothing from outside."""
    return f"<script>{code}</script>"


def style_block(code: str) -> str:
    """A style sheet of ours."""
    return f"<style>{code}</style>"


def policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
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
    return f'<meta http-equiv="Content-Security-Policy" content="{escape(content)}">'


def _hash(code: str) -> str:
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def options(names: Iterable[str], chosen: int = 0) -> str:
    """The options of a select; their values are numbers, so no name has to be looked up."""
    return "".join(
        f'<option value="{i}"{" selected" if i == chosen else ""}>{html_text(name)}</option>'
        for i, name in enumerate(names)
    )


def html_table(table: Table, caption: str, *, file_name: str) -> str:
    """A table that can be sorted, copied, and downloaded as CSV."""
    left = table.left
    head = "".join(map(_head, table.columns, left))
    body = "".join(f"<tr>{''.join(map(_cell, row, left))}</tr>" for row in table.rows)
    said = html_text(caption)
    return (
        f'<figure class="table" data-file="{html_text(file_name)}">'
        f'<figcaption>{said}<span class="tools">'
        f'<button type="button" data-do="copy" aria-label="Copy the table: {said}">Copy</button>'
        f'<button type="button" data-do="csv" aria-label="Download as CSV: {said}">CSV</button>'
        "</span></figcaption>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{said}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></figure>"
    )


def _head(name: str, left: bool) -> str:
    exact = guard_formula(name)
    given = f' data-x="{html_text(exact)}"' if exact != printable(name) else ""
    mark = "" if left else ' class="n"'
    return f'<th scope="col"{mark}{given}><button type="button">{html_text(name)}</button></th>'


def _cell(cell: Cell, left: bool) -> str:
    """What people see; where a program should read something else, that stands beside it."""
    exact, shown = cell.exact, html_text(cell.shown)
    given = f' data-x="{html_text(exact)}"' if exact != cell.shown else ""
    mark = "" if left else ' class="n"'
    return f"<td{mark}{given}>{f'<strong>{shown}</strong>' if cell.best else shown}</td>"


MOST_VALUES: Final = 400_000  # beyond, a page would grow by more than a megabyte
_STEPS: Final = 10_000
_UNDEFINED: Final = 65_535


def packed_values(report: Report) -> dict[str, Any]:
    """Queries, and for each measure that fits the values of every run, for the page's script."""
    values = report.aligned.values
    n_runs, n_measures, n_queries = values.shape
    kept = min(n_measures, MOST_VALUES // max(n_runs * n_queries, 1))
    return {
        "queries": [printable(query) for query in report.aligned.query_ids] if kept else [],
        "measures": [_packed(values[:, number]) for number in range(kept)],
    }


def _packed(values: NDArray[np.float64]) -> dict[str, str]:
    known = values[~np.isnan(values)]
    if known.size and (known.min() < 0 or known.max() * _STEPS >= _UNDEFINED):
        return {"kind": "floats", "data": packed(values.astype("<f4").tobytes())}
    steps = np.where(np.isnan(values), _UNDEFINED, np.round(values * _STEPS))
    pairs = steps.astype("<u2").ravel().view(np.uint8)
    return {"kind": "steps", "data": packed(pairs[0::2].tobytes() + pairs[1::2].tobytes())}
