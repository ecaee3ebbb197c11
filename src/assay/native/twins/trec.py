"""The TREC parser in plain Python: the twin of trec_parser.cpp, step by step the same."""

from __future__ import annotations

import math
import re
from array import array

import numpy as np

from assay.arrays import Bytes, Floats, Ints, Ints32
from assay.native.signatures import TextFault

MAX_LINE = 1 << 20  # bytes before the line feed
FAULT_TEXT = 400  # bytes of the offending text that a report keeps
BOM = b"\xef\xbb\xbf"
COLUMNS = {"run": 6, "qrels": 4}
VALUE_COLUMN = {"run": 4, "qrels": 3}

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NO_NUMBER = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_ODD = re.compile(rb"[\0\r\v\f]")


class TrecParser:
    """Reads a TREC file chunk by chunk; see `signatures.Parser`."""

    def __init__(self, kind: str, expected: int = 0) -> None:
        """Start to parse a "run" or "qrels" file; lists grow without knowing its size."""
        if kind not in COLUMNS:
            raise ValueError("kind must be 'run' or 'qrels'")
        self._kind = kind
        self._carry = b""
        self._physical = 0
        self._query_codes: dict[bytes, int] = {}
        self._doc_codes: dict[bytes, int] = {}
        self._queries, self._docs, self._values = array("i"), array("i"), array("d")
        self._last: tuple[bytes, float | None, float] | None = None
        self.fault: TextFault | None = None
        self.tag = b""
        self.rank_disagreements = 0
        self.rank_unreadable = 0
        self.overlong = 0

    def feed(self, chunk: bytes, /) -> bool:
        """Read on; False once a fault was found."""
        *lines, self._carry = (self._carry + chunk).split(b"\n")
        # A line too long is refused before its end arrives, so that memory stays bounded.
        if len(self._carry) > MAX_LINE + len(BOM):
            lines.append(self._carry)
        for line in lines:
            if self.fault is None:
                self._read_line(line)
        return self.fault is None

    def finish(self) -> bool:
        """Read the last line, if it has no line end; False if there was a fault."""
        if self._carry and self.fault is None:
            self._read_line(self._carry)
        return self.fault is None

    def take_columns(self) -> tuple[Bytes, Ints, Bytes, Ints, Ints32, Ints32, Floats]:
        """Hand over (query blob, offsets, doc blob, offsets, queries, docs, values)."""
        return (
            *_blob_and_offsets(self._query_codes),
            *_blob_and_offsets(self._doc_codes),
            np.array(self._queries, np.int32),
            np.array(self._docs, np.int32),
            np.array(self._values, np.float64),
        )

    def _read_line(self, line: bytes) -> None:
        self._physical += 1
        if self._physical == 1:
            line = line.removeprefix(BOM)
        if len(line) > MAX_LINE:
            return self._report("too_long", line)
        line = line.removesuffix(b"\r")
        columns = [column for column in line.replace(b"\t", b" ").split(b" ") if column]
        if not columns or columns[0].startswith(b"#"):
            return None
        fault = _line_fault(line)
        if fault:
            return self._report(fault, line)
        beyond = len(columns) - COLUMNS[self._kind]
        if beyond < 0 or (beyond > 0 and self._kind == "qrels"):
            return self._report("columns", line, len(columns))
        self.overlong += beyond > 0
        return self._read_value(columns)

    def _read_value(self, columns: list[bytes]) -> None:
        text = columns[VALUE_COLUMN[self._kind]]
        value = _number(text)
        if value is None:
            kind = "not_finite" if _NO_NUMBER.fullmatch(text) else "number"
            return self._report(kind, text)
        if math.isinf(value):
            return self._report("overflow", text)
        if self._kind == "run":
            self._watch_rank(columns, value)
        return self._add_row(columns[0], columns[2], value)

    def _add_row(self, query: bytes, doc: bytes, value: float) -> None:
        self._queries.append(self._query_codes.setdefault(query, len(self._query_codes)))
        self._docs.append(self._doc_codes.setdefault(doc, len(self._doc_codes)))
        self._values.append(value)

    def _watch_rank(self, columns: list[bytes], score: float) -> None:
        query, rank = columns[0], _number(columns[3])
        if rank is None or math.isinf(rank):
            rank = None
            self.rank_unreadable += 1
        if self._last is not None and self._last[0] == query:
            self.rank_disagreements += _contradict(self._last[1], rank, self._last[2], score)
        self._last = (query, rank, score)
        self.tag = columns[5]

    def _report(self, kind: str, text: bytes, n_columns: int = 0) -> None:
        self.fault = (self._physical, kind, text[:FAULT_TEXT], n_columns)


def _number(text: bytes) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _contradict(rank: float | None, next_rank: float | None, score: float, after: float) -> bool:
    """Tell whether rank and score rise together, or fall together."""
    if rank is None or next_rank is None:
        return False
    return (next_rank > rank and after > score) or (next_rank < rank and after < score)


def _line_fault(line: bytes) -> str | None:
    if _ODD.search(line):
        return "nul" if b"\0" in line else "white_space"
    return "utf8" if not line.isascii() and not _is_utf8(line) else None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _blob_and_offsets(codes: dict[bytes, int]) -> tuple[Bytes, Ints]:
    sizes = np.fromiter(map(len, codes), np.int64, len(codes))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return np.frombuffer(b"".join(codes), np.uint8), offsets
