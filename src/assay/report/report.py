"""A report: runs, their comparison, and how both were made; as one HTML file it opens offline.

The page prints, and runs nothing that names bring along: text, data and scripts are each escaped
for the place where they stand. A content security policy names our script and style by their
hashes, so that no other can run. Tables and charts are whole without the script, which chooses,
sorts, filters and opens single queries; their values and details are packed for it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.checks import as_list
from assay.core.hits import Hits
from assay.core.text import interval_heading, printable
from assay.errors import UsageError
from assay.io.streams import atomic_write, make_folder
from assay.measures import Measure
from assay.report.charts import check_format, render_chart, report_charts
from assay.report.sections import SECTIONS, options, plugin_sections
from assay.report.tables import plugin_parts, report_page, say_verdict, section_words
from assay.runs.leaderboard import Leaderboard, rank_records
from assay.runs.record import RecordsLike, RunRecord
from assay.runs.results import QueryResults, ResultDoc
from assay.tables.html import html_text
from assay.tables.table import Page, Table, Words, latex_page, markdown_page

_ENDINGS: Final = (".html", ".htm", ".md", ".tex")


@dataclass(frozen=True, eq=False, repr=False)
class Report(Leaderboard):
    """A leaderboard to show; made by `make_report`, written by `save`.

    Args:
        title: The title.
        command: What makes the report again.
        notes: What a task wants its readers to know, a sentence each.
        aside: Records without values of queries, of which plugins tell.
        date: The day of the report, as its head shows it.

    Example:
        report = make_report({"bm25": bm25, "dense": dense})
        report.save("report.html")
    """

    title: str = ""
    command: str = ""
    notes: tuple[str, ...] = ()
    aside: tuple[RunRecord, ...] = ()
    date: str = ""

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Notes of the task, remarks on each run and the comparison, and short lists."""
        lengths = {
            r.name: int(r.hits.n_ret.max(initial=0)) for r in self.runs if r.hits is not None
        }
        longest = max(lengths.values(), default=0)
        short = [
            f"{name}: returns at most {length:,} documents for a query, others up to {longest:,}: "
            f"beyond rank {length:,} it can gain nothing"
            for name, length in lengths.items()
            if 2 * length <= longest  # one or two documents fewer hardly matter
        ]
        return (*self.notes, *short, *self.run_remarks)

    def plain_verdict(self, measure: Measure) -> tuple[str, str, str]:
        """Return the verdict on a measure in one plain sentence, its numbers, and the test."""
        return say_verdict(self.verdicts[str(measure)], self.comparison)

    @cached_property
    def plugin_sections(self) -> list[tuple[str, Table | str]]:
        """The sections that plugins add: titles, each with a table or a text."""
        return plugin_parts("report_sections", (*self.runs, *self.aside))

    def page(self) -> Page:
        """Return verdicts, tables and disclosures without charts, for Markdown and LaTeX."""
        return report_page(self)

    def to_html(self) -> str:
        """Write one page that needs no network and no other file."""
        return html_report(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report in the format of the file name: .html, .md or .tex.

        The file is written whole or not at all.
        """
        return _write(path, self.to_html, self.page, partial(report_page, self, paper=True))

    def figures(
        self, folder: str | os.PathLike[str], *, formats: Iterable[str] = ("svg", "png", "pdf")
    ) -> list[Path]:
        """Write every chart to a folder in each format; return the paths."""
        endings = as_list(formats, "formats")
        for ending in endings:
            check_format(ending)
        target = make_folder(folder)
        written: dict[str, Path] = {}
        for figure in report_charts(self):
            spec = figure.spec()
            for ending in endings:
                path, number = target / f"{figure.file_name}.{ending}", 2
                while path.name.lower() in written:  # another measure has the same letters
                    path = target / f"{figure.file_name}-{number}.{ending}"
                    number += 1
                with atomic_write(path) as file:
                    file.write(render_chart(spec, ending))
                written[path.name.lower()] = path
        return list(written.values())


def save_sections(
    records: Sequence[RunRecord], path: str | os.PathLike[str], *, title: str, command: str
) -> Path:
    """Write a report of records without values of queries: the sections of plugins alone.

    Args:
        records: The records.
        path: The file: .html, .md or .tex.
        title: The title; names the records, if empty.
        command: What makes the report again.

    Raises:
        UsageError: No plugin tells of these records.
    """
    sections = plugin_parts("report_sections", records)
    title = title or ", ".join(record.name for record in records)
    if not sections:
        raise UsageError(f"{title}: there are no per-query values to report on.")
    parts = [_section(*section) for section in plugin_sections(sections, alone=True)]
    parts.append(_section("reproduce", "Reproduction", [f"<pre>{html_text(command)}</pre>"]))
    facts = [*dict.fromkeys(record.dataset for record in records), f"{date.today():%-d %B %Y}"]
    head = f"<header>{_title_block(title, facts)}</header><main>"
    body = [head, *parts, "</main></body></html>\n"]
    page = [*section_words(sections), Words(command, "signature")]
    return _write(path, lambda: "\n".join([*_head(title, ()), *body]), lambda: page, lambda: page)


def _write(
    path: str | os.PathLike[str],
    html: Callable[[], str],
    page: Callable[[], Page],
    paper: Callable[[], Page],
) -> Path:
    ending = check_ending(path)
    if ending in (".html", ".htm"):
        text = html()
    else:
        text = (markdown_page(page()) if ending == ".md" else latex_page(paper())) + "\n"
    with atomic_write(path) as file:
        file.write(text.encode())
    return Path(path)


def check_ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a report's file; refuse one that cannot be written.

    >>> check_ending("a/report.HTML")
    '.html'
    """
    ending = Path(path).suffix.lower()
    if ending not in _ENDINGS:
        raise UsageError(f"{path}: the name of a report ends with .html, .md or .tex.")
    return ending


def make_report(
    runs: RecordsLike,
    *,
    title: str = "",
    command: str = "",
    notes: Iterable[str] = (),
    aside: Iterable[RunRecord] = (),
    date: str = "",
    **settings: Any,
) -> Report:
    """Compare runs and return a report of them.

    Args:
        runs: Records, or scores by name.
        title: The title; it names the run or how many there are, if empty.
        command: What a reader would type to make the report again.
        notes: What a task wants its readers to know, a sentence each without a full stop.
        aside: Records without values of queries; plugins tell of them in sections.
        date: The day of the report, for its head.
        settings: Those of `rank_records`: baseline, test, correction, level, interval, resamples,
            seed, margin, by, slices.

    Returns:
        The report; `save` writes it as HTML, Markdown or LaTeX.

    Raises:
        UsageError: A setting is not one of these, or there is no run.
        MismatchError: The runs cannot be compared.

    Example:
        >>> from assay import evaluate
        >>> qrels = {f"q{i}": {"a": 1} for i in range(8)}
        >>> good = evaluate({q: {"a": 2, "b": 1} for q in qrels}, qrels, "RR")
        >>> make_report({"good": good}).verdicts["RR"]
        'good scores 1.0000 on RR. 95 % CI [0.6756, 1.0000]'
    """
    board = rank_records(runs, **settings)
    names = board.names
    return Report(
        board.runs,
        board.aligned,
        board.comparison,
        board.settings,
        title=title or (names[0] if len(names) == 1 else f"{len(names)} runs compared"),
        command=command,
        notes=tuple(notes),
        aside=tuple(aside),
        date=date,
    )


# The page as HTML

ROOM: Final = 990_000  # bytes of a page that details of queries may fill
LEAST_ROOM: Final = 60_000
_FILTERED: Final = 6  # runs from which on a field finds them
MOST_VALUES: Final = 400_000  # beyond, a page would grow by more than a megabyte
_STEPS: Final = 10_000
_UNDEFINED: Final = 65_535
_MOST_DETAILED: Final = 2_000  # queries
_MOST_RANKS: Final = 20
_TEXT: Final = 400  # characters of a query


def html_report(report: Report) -> str:
    """Write the whole page; equal reports give equal bytes."""
    script = read_asset("report.js")
    parts = [
        *_head(report.title, [script]),
        *_body(report),
        f"<script>{script}</script>",  # ours: it holds nothing from outside
        "</body></html>\n",
    ]
    data = _data(report)
    used = sum(map(len, parts)) + sum(len(json.dumps(part)) for part in data.values())
    data["details"] = pack_queries(report, max(ROOM - used, LEAST_ROOM))
    parts.insert(-2, _data_block("assay-data", data))
    return "\n".join(parts)


def _head(title: str, scripts: Iterable[str]) -> list[str]:
    style = read_asset("report.css")
    return [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        _policy(scripts, [style]),
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{html_text(title)}</title>",
        f"<style>{style}</style>",
        '</head><body class="report">',
    ]


def _data(report: Report) -> dict[str, Any]:
    """Return the data of the page's script: names, values of pairs and queries."""
    place = {name: i for i, name in enumerate(report.names)}
    return {
        "runs": [printable(name) for name in report.names],
        "measures": [str(measure) for measure in report.measures],
        # The numbers of the runs on each measure, best first.
        "order": [
            [place[standing.name] for standing in report.standings_on(measure)]
            for measure in report.measures
        ],
        "pairs": pack_pairs(report),
        "interval": interval_heading(1 - report.settings.level),
        "values": pack_values(report),
    }


def _body(report: Report) -> Iterator[str]:
    sections: list[tuple[str, str, Iterable[str]]] = [
        (id, title, write(report)) for id, title, write in SECTIONS
    ]
    sections[-1:-1] = plugin_sections(report.plugin_sections)  # how to reproduce it stays last
    written = [
        (id, title, section)
        for id, title, parts in sections
        if (section := _section(id, title, parts))
    ]
    yield '<a class="skip" href="#verdict">Skip to the verdict</a>'
    yield _header(report)
    links = "".join(f'<li><a href="#{id}">{html_text(title)}</a></li>' for id, title, _ in written)
    yield f'<nav class="contents" aria-label="Contents"><ul>{links}</ul></nav>'
    yield "<main>"
    yield from (section for *_, section in written)
    yield "</main>"
    yield "<noscript><p>Choosing, sorting and downloads require JavaScript.</p></noscript>"
    yield read_asset("dialog.html").rstrip()


def _section(id: str, title: str, parts: Iterable[str]) -> str:
    """Write a section of the page; nothing where it is empty."""
    inside = "\n".join(filter(None, parts))
    if not inside:
        return ""
    return (
        f'<section id="{id}" aria-labelledby="{id}-title">'
        f'<h2 id="{id}-title">{html_text(title)}</h2>\n{inside}</section>'
    )


def _header(report: Report) -> str:
    several = len(report.measures) > 1
    measures = options(map(str, report.measures))
    pick = f'<label>Measure <select id="measure">{measures}</select></label>' if several else ""
    if len(report.runs) >= _FILTERED:
        pick += (
            '<label>Systems <input type="search" id="systems" placeholder="filter"'
            ' autocomplete="off"></label>'
        )
    n_queries, n_runs = len(report.aligned.query_ids), len(report.runs)
    datasets = list(dict.fromkeys(run.dataset for run in report.runs if run.dataset))
    file = str(report.runs[0].provenance.get("judgments") or "")
    judgments = os.path.basename(file.rpartition(" ")[0])  # without its checksum
    facts = [
        "" if n_runs == 1 or f"{n_runs} runs" in report.title else f"{n_runs} runs",
        ", ".join(datasets) or (judgments and f"judgments {judgments}"),
        f"{n_queries:,} {'query' if n_queries == 1 else 'queries'}",
        report.date,
    ]
    return (
        f"<header>{_title_block(report.title, facts)}"
        f'<div class="controls">{pick}<button type="button" id="theme">Dark</button></div></header>'
    )


def _title_block(title: str, facts: Iterable[str]) -> str:
    size = html_text(" · ".join(filter(None, facts)))
    return f'<div><h1>{html_text(title)}</h1><p class="size">{size}</p></div>'


def read_asset(name: str) -> str:
    """Read a file in assets/."""
    return (files("assay.report") / "assets" / name).read_text("utf-8")


def _data_block(id: str, data: Any) -> str:
    r"""Write JSON inside a page, where no string can end the block.

    >>> _data_block("x", "</script>")
    '<script type="application/json" id="x">"\\u003c/script\\u003e"</script>'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&'":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{id}">{text}</script>'


def _policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Write a content security policy: only these scripts and styles run.

    No request may leave the page.
    """
    script, style = (" ".join(map(_hash, codes)) for codes in (scripts, styles))
    content = (
        f"default-src 'none'; script-src {script}; style-src {style}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{html_text(content)}">'


def _hash(code: str) -> str:
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def pack(data: bytes) -> str:
    """Pack bytes as text for a page's script: gzip, then base64."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode("ascii")


def _pack_json(data: Any) -> str:
    return pack(json.dumps(data, separators=(",", ":"), allow_nan=False).encode())


def pack_values(board: Leaderboard) -> dict[str, Any]:
    """Pack queries and, for each measure that fits, the values of all runs."""
    values = board.aligned.values
    n_runs, n_measures, n_queries = values.shape
    n_packed = min(n_measures, MOST_VALUES // max(n_runs * n_queries, 1))
    return {
        "queries": [printable(query) for query in board.aligned.query_ids] if n_packed else [],
        "measures": [pack_array(values[:, number]) for number in range(n_packed)],
    }


def pack_array(values: Floats) -> dict[str, str]:
    """Pack values to four decimals; as floats where they are no fractions."""
    defined = values[~np.isnan(values)]
    if defined.size and (defined.min() < 0 or defined.max() * _STEPS >= _UNDEFINED):
        return {"kind": "floats", "data": pack(values.astype("<f4").tobytes())}
    steps = np.where(np.isnan(values), _UNDEFINED, np.round(values * _STEPS))
    pairs = steps.astype("<u2").ravel().view(np.uint8)
    return {"kind": "steps", "data": pack(pairs[0::2].tobytes() + pairs[1::2].tobytes())}


def pack_pairs(board: Leaderboard) -> str | None:
    """Pack difference, interval, p and outcome of each pair by measure.

    The texts are rounded as tables round them.
    """
    if board.comparison is None:
        return None
    place = {name: i for i, name in enumerate(board.names)}
    pairs: dict[str, dict[str, list[str]]] = {}
    for pair in board.comparison.pairs:
        ends = [f"{end:+.4f}" for end in (pair.difference, pair.interval.low, pair.interval.high)]
        texts = [*ends, f"{pair.p:.4f}", pair.outcome]
        key = f"{place[pair.a]},{place[pair.b]}"
        pairs.setdefault(str(pair.measure), {})[key] = texts
    return _pack_json(pairs)


def pack_queries(board: Leaderboard, room: int) -> dict[str, Any]:
    """Pack texts of queries, retrieved and missed documents, as far as they fit.

    Where there is not room for all, queries on which the runs differ most come first.
    """
    texts = [_text_of(board, str(query)) for query in board.aligned.query_ids]
    packed = _pack_json(texts) if any(texts) else ""
    packed_texts = packed if len(packed) <= room // 2 else ""
    details = _Details(board)
    order: list[int] = []
    if details.available:
        values = board.aligned.values[:, 0]
        defined = np.where(np.isnan(values), 0.0, values)
        spread = np.ptp(defined, axis=0) if len(defined) > 1 else -defined[0]
        order = np.argsort(-spread, kind="stable")[:_MOST_DETAILED].tolist()
    left = room - len(packed_texts)
    while order:
        packed_details = _pack_json(details.of(order))
        if len(packed_details) <= left:
            return {"texts": packed_texts, "details": packed_details, "detailed": len(order)}
        order = order[: len(order) * 9 * left // (10 * len(packed_details))]
    return {"texts": packed_texts, "details": "", "detailed": 0}


def _text_of(board: Leaderboard, query: str) -> str:
    for run in board.runs:
        results = run.results.get(query)
        if results is not None and results.text:
            return printable(results.text[:_TEXT])
    return ""


class _Details:
    """Details of single queries: ranks of relevant documents, and documents by name."""

    def __init__(self, board: Leaderboard) -> None:
        self._queries = list(map(str, board.aligned.query_ids))
        self._runs = board.runs
        self._rel = float(dict(board.measures[0].params).get("rel", 1))  # type: ignore[arg-type]
        ids: list[Any] = [() if run.hits is None else run.hits.query_ids for run in board.runs]
        self._rows = [{str(query): i for i, query in enumerate(queries)} for queries in ids]
        self._docs: dict[tuple[str, str], int] = {}

    @property
    def available(self) -> bool:
        """Check that anything is known."""
        return any(run.hits is not None or len(run.results) for run in self._runs)

    def of(self, order: Iterable[int]) -> dict[str, Any]:
        """Return the details of some queries by their number, for each run."""
        self._docs = {}
        runs = range(len(self._runs))
        queries = {i: [self._of_run(self._queries[i], run) for run in runs] for i in order}
        docs = [[printable(name), printable(snippet)] for name, snippet in self._docs]
        return {"queries": queries, "docs": docs}

    def _of_run(self, query: str, number: int) -> list[Any]:
        run = self._runs[number]
        results = run.results.get(query)
        row = self._rows[number].get(query)
        if run.hits is not None and row is not None:
            ranks, total = _relevant(run.hits, row, self._rel)
        else:
            ranks, total = self._ranks(results), None
        details = [ranks[:_MOST_RANKS], len(ranks), total]
        if results is None:
            return details
        listed = [list(map(self._doc, docs)) for docs in (results.results, results.missed)]
        return [*details, *listed]

    def _ranks(self, results: QueryResults | None) -> list[int]:
        docs = () if results is None else results.results
        return [rank for rank, doc in enumerate(docs, 1) if (doc.grade or 0) >= self._rel]

    def _doc(self, doc: ResultDoc) -> list[Any]:
        """Return the number of the document, its grade, and whether it was retrieved."""
        number = self._docs.setdefault((doc.doc, doc.shown), len(self._docs))
        return [number, doc.grade, int(doc.score is not None)]


def _relevant(hits: Hits, row: int, rel: float) -> tuple[list[int], int]:
    """Return ranks of the retrieved relevant documents, and how many there are."""
    here, pool = _part(hits.offsets, row), _part(hits.pool_offsets, row)
    good = hits.grade[here] >= rel
    total = int(hits.pool_count[pool][hits.pool_grade[pool] >= rel].sum())
    return sorted(hits.rank[here][good].tolist()), total


def _part(offsets: Ints, row: int) -> slice:
    return slice(int(offsets[row]), int(offsets[row + 1]))
