"""TREC text files: runs of six columns and qrels of four, parsed into arrays.

    query  Q0    doc  rank  score  tag        a line of a run
    query  iter  doc  grade                   a line of qrels

Columns are separated by spaces or tabs; lines end with LF or CRLF; a byte order mark, blank lines
and lines that begin with '#' are skipped. The text is UTF-8. Numbers are decimal, whatever the
locale. The score decides the order; the rank column is only compared with it.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from assay.arrays import Floats, Ints32
from assay.core.ids import Ids
from assay.errors import FormatError, InputError, ValueRangeError
from assay.io.streams import open_chunks, read_lines
from assay.native import kernels
from assay.native.signatures import Parser, TextFault

__all__ = ["QrelLines", "RunLines", "parse_qrels", "parse_run", "read_iterations"]


_COLUMNS = {"run": "query, Q0, doc, rank, score, tag", "qrels": "query, iter, doc, grade"}
_VALUE = {"run": "score", "qrels": "grade"}


class RunLines(NamedTuple):
    """The lines of a run in the order of the file. Ids are numbered by first appearance."""

    query_ids: Ids
    doc_ids: Ids
    queries: Ints32
    docs: Ints32
    values: Floats
    tag: str
    rank_disagreements: int
    rank_unreadable: int
    overlong: int


class QrelLines(NamedTuple):
    """The lines of qrels in the order of the file. Ids are numbered by first appearance."""

    query_ids: Ids
    doc_ids: Ids
    queries: Ints32
    docs: Ints32
    values: Floats


def parse_run(path: str | os.PathLike[str]) -> RunLines:
    """Read a run file, plain or compressed.

    `tag` is that of the last line. `rank_disagreements` counts adjacent lines of one query whose
    ranks and scores rise together or fall together; `rank_unreadable` lines without a number there.
    """
    parser = _parse(path, "run")
    tag = parser.tag.decode()
    columns = _columns(parser, path, "run")
    return RunLines(
        *columns, tag, parser.rank_disagreements, parser.rank_unreadable, parser.overlong
    )


def parse_qrels(path: str | os.PathLike[str]) -> QrelLines:
    """Read a qrels file, plain or compressed; grades may be negative and fractional."""
    return QrelLines(*_columns(_parse(path, "qrels"), path, "qrels"))


def read_iterations(path: str | os.PathLike[str]) -> list[str]:
    """The second column of a qrels file that `parse_qrels` could read: the subtopic, in some."""
    rows = (line.split() for line in read_lines(path) if not line.startswith("#"))
    return [cells[1] for cells in rows if cells]


def _parse(path: str | os.PathLike[str], kind: str) -> Parser:
    parser = kernels().TrecParser(kind, os.path.getsize(path) if os.path.isfile(path) else 0)
    fine = all(parser.feed(chunk) for chunk in open_chunks(path)) and parser.finish()
    if not fine and parser.fault is not None:
        raise fault_error(os.fspath(path), kind, parser.fault)
    return parser


def _require_lines(values: Floats, path: str | os.PathLike[str], kind: str) -> None:
    if not len(values):
        raise FormatError(
            f"{os.fspath(path)} holds no {kind} lines, only comments or blank lines. "
            f"Each line needs the columns {_COLUMNS[kind]}."
        )


def _columns(
    parser: Parser, path: str | os.PathLike[str], kind: str
) -> tuple[Ids, Ids, Ints32, Ints32, Floats]:
    query_blob, query_offsets, doc_blob, doc_offsets, queries, docs, values = parser.take_columns()
    _require_lines(values, path, kind)
    for column in (queries, docs, values):
        column.flags.writeable = False
    query_ids = Ids.from_utf8(query_blob, query_offsets)
    return query_ids, Ids.from_utf8(doc_blob, doc_offsets), queries, docs, values


def fault_error(name: str, kind: str, fault: TextFault) -> InputError:
    """Turn a parser's fault into the error to raise."""
    line, what, text, found = fault
    columns, value = _COLUMNS[kind], _VALUE[kind]
    shown = _shorten(text)
    messages = {
        "columns": f"expected {columns.count(',') + 1} columns ({columns}), found {found}: "
        f"{shown}. {_columns_cure(kind, found)}",
        "number": f"the {value} {shown} is not a number. Write it like 12, -0.5 or 1.5e-3.",
        "not_finite": f"the {value} {shown} is not finite. Remove the line or fix the {value}.",
        "overflow": f"the {value} {shown} is too large for a float64. Scale the values.",
        "utf8": f"the text is not UTF-8: {shown}. Convert the file to UTF-8.",
        "nul": f"the line holds a NUL byte: {shown}. If the file is UTF-16, convert it to UTF-8.",
        "white_space": "the line holds a stray carriage return, vertical tab or form feed: "
        f"{shown}. Separate columns by spaces or tabs, and end lines with LF or CRLF.",
        "too_long": f"the line is longer than 1 MiB: {shown}. Is this a {kind} file at all?",
    }
    error = ValueRangeError if what in ("not_finite", "overflow") else FormatError
    return error(f"{name}, line {line}: {messages[what]}")


def _columns_cure(kind: str, found: int) -> str:
    if kind == "qrels" and found == _COLUMNS["run"].count(",") + 1:
        return "A line of a run has as many: are run and judgments swapped?"
    if kind == "run" and found == _COLUMNS["qrels"].count(",") + 1:
        return "A line of judgments (qrels) has as many: is this the run?"
    return "Separate the columns by spaces or tabs; an id cannot hold either."


def _shorten(text: bytes) -> str:
    """Show the offending text, shortened."""
    decoded = text.decode(errors="replace")
    return repr(decoded if len(decoded) <= 60 else f"{decoded[:59]}…")
