"""TREC text, ids, rows and judgments in Python and numpy: the twins of native/trec."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Collection
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.arrays import Bytes, Flags, Floats, Ints, Ints32, gather, offsets_of
from assay.native.tie_order import rank_order

if TYPE_CHECKING:
    from assay.native.signatures import Hits, RowFault, TextFault

MAX_LINE = 1 << 20  # bytes before the line feed
FAULT_TEXT = 400  # bytes of the offending text that a report keeps
BOM = b"\xef\xbb\xbf"
COLUMNS = {"run": 6, "qrels": 4}
VALUE_COLUMN = {"run": 4, "qrels": 3}

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NO_NUMBER = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_ODD = re.compile(rb"[\0\r\v\f]")
_UNCLEAN: Final = re.compile("[ \\t\\n\\r\\v\\f\\0\ud800-\udfff]")


def require(condition: bool, message: str) -> None:
    """Raise ValueError unless a condition holds."""
    if not condition:
        raise ValueError(message)


def check_offsets(offsets: Ints, elements: int) -> None:
    """Check that offsets start at 0, never fall, and end at the number of elements."""
    require(len(offsets) >= 1 and offsets[0] == 0, "offsets must start with 0")
    require(not (np.diff(offsets) < 0).any(), "offsets must not fall")
    require(offsets[-1] == elements, "offsets must end at the number of elements")


def check_codes(codes: Ints | Ints32, least: int, end: int, message: str) -> None:
    """Check that all codes lie from `least` to `end` − 1."""
    require(not len(codes) or bool(codes.min() >= least and codes.max() < end), message)


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
        self._last: tuple[bytes, float | None, float] = (b"", None, 0.0)
        self.fault: TextFault | None = None
        self.tag = b""
        self.rank_disagreements = 0
        self.rank_unreadable = 0
        self.overlong = 0

    def feed(self, chunk: bytes | tuple[int, int, int], /) -> bool:
        """Read on; False once a fault was found."""
        if isinstance(chunk, tuple):
            with open(chunk[0], "rb", closefd=False) as file:
                file.seek(chunk[1])
                chunk = file.read(chunk[2] - chunk[1])
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
        if _ODD.search(line):
            return self._report("nul" if b"\0" in line else "white_space", line)
        if not line.isascii() and line.decode(errors="ignore").encode() != line:
            return self._report("utf8", line)
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
        query, doc = columns[0], columns[2]
        self._queries.append(self._query_codes.setdefault(query, len(self._query_codes)))
        self._docs.append(self._doc_codes.setdefault(doc, len(self._doc_codes)))
        self._values.append(value)
        return None

    def _watch_rank(self, columns: list[bytes], score: float) -> None:
        query, rank = columns[0], _number(columns[3])
        if rank is None or math.isinf(rank):
            rank = None
            self.rank_unreadable += 1
        last_query, last_rank, last_score = self._last
        if last_query == query and rank is not None and last_rank is not None:
            # Rank and score rise together, or fall together.
            rises = rank > last_rank and score > last_score
            self.rank_disagreements += rises or (rank < last_rank and score < last_score)
        self._last = (query, rank, score)
        self.tag = columns[5]

    def _report(self, kind: str, text: bytes, n_columns: int = 0) -> None:
        self.fault = (self._physical, kind, text[:FAULT_TEXT], n_columns)


def _number(text: bytes) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _blob_and_offsets(texts: Collection[bytes]) -> tuple[Bytes, Ints]:
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return np.frombuffer(b"".join(texts), np.uint8), offsets_of(sizes)


def sort_rows(
    queries: Ints32,
    docs: Ints32,
    scores: Floats,
    n_queries: int,
    doc_blob: Bytes,
    doc_offsets: Ints,
    ties: int,
    float32: bool,
) -> tuple[Ints, Ints32, Floats, RowFault | None]:
    """Group lines by query and sort each row; see `signatures.Kernels.sort_rows`."""
    lengths = {len(queries), len(docs), len(scores)}
    require(len(lengths) == 1, "queries, docs and scores must have one length")
    require(ties in (-1, 0, 1), "ties must be -1, 0 or 1")
    check_offsets(doc_offsets, len(doc_blob))
    n_docs = len(doc_offsets) - 1
    check_codes(queries, 0, n_queries, "query code out of range")
    check_codes(docs, 0, n_docs, "doc code out of range")
    values = to_float32(scores) if float32 else scores
    grouped = np.argsort(queries, kind="stable")
    fault = _row_fault(queries[grouped], docs[grouped], values[grouped], n_docs)
    order = rank_order(values, tiebreak=_tie_keys(docs, doc_blob, doc_offsets, ties), row=queries)
    counts = np.bincount(queries, minlength=n_queries)
    return offsets_of(counts), docs[order], values[order], fault


def order_rows(offsets: Ints, scores: Floats, tiebreak: Ints | None) -> Ints:
    """Return the permutation that sorts each row; see `signatures.Kernels.order_rows`."""
    check_offsets(offsets, len(scores))
    fits = tiebreak is None or len(tiebreak) == len(scores)
    require(fits, "tiebreak and scores must have one length")
    require(not np.isnan(scores).any(), "scores must not be NaN")
    return rank_order(scores, tiebreak=tiebreak, row=_row_numbers(offsets))


def find_judged(
    offsets: Ints,
    docs: Ints32,
    scores: Floats,
    rows: Ints,
    judged_offsets: Ints,
    judged_docs: Ints32,
    judged_grades: Floats,
    n_docs: int,
) -> Hits:
    """Find judged docs in sorted rows: (offsets, rank, rank_lo, rank_hi, grade)."""
    fits = len(docs) == len(scores) and len(judged_docs) == len(judged_grades)
    require(fits, "docs and their values must have one length")
    require(len(rows) + 1 == len(judged_offsets), "every judged query must have a row")
    check_offsets(offsets, len(docs))
    check_offsets(judged_offsets, len(judged_docs))
    check_codes(docs, 0, n_docs, "doc code out of range")
    check_codes(judged_docs, -1, n_docs, "doc code out of range")
    check_codes(rows, 0, len(offsets), "row out of range")
    at, ends = gather(np.append(offsets, len(docs)), rows)
    docs, scores, query = docs[at], scores[at], _row_numbers(ends)
    judgment = _judgment_of(
        query * n_docs + docs, _row_numbers(judged_offsets) * n_docs + judged_docs, judged_docs >= 0
    )
    places = np.flatnonzero(judgment >= 0)
    lo, hi = _tie_groups(query, scores, places)
    begin = ends[query[places]]
    counts = np.bincount(query[places], minlength=len(rows))
    grade = judged_grades[judgment[places]]
    return offsets_of(counts), places - begin + 1, lo - begin + 1, hi - begin, grade


def count_judged(offsets: Ints, docs: Ints32, scores: Floats, *judged: Any) -> Hits:
    """Find judged docs in rows of any order; equal scores are ordered by doc code."""
    order = order_rows(offsets, scores, docs.astype(np.int64))
    return find_judged(offsets, docs[order], scores[order], *judged)


def count_grades(offsets: Ints, grades: Floats) -> tuple[Ints, Floats, Ints]:
    """Count each row's judgments by grade, highest first; -0.0 counts as 0.0."""
    check_offsets(offsets, len(grades))
    require(not np.isnan(grades).any(), "grades must not be NaN")
    row = _row_numbers(offsets)
    by_grade = np.lexsort((-grades, row))
    row, grade = row[by_grade], grades[by_grade] + 0.0
    new = np.ones(len(row), np.bool_)
    new[1:] = (row[1:] != row[:-1]) | (grade[1:] != grade[:-1])
    start = np.flatnonzero(new)
    count = np.diff(np.append(start, len(row)))
    return offsets_of(np.bincount(row[start], minlength=len(offsets) - 1)), grade[start], count


def first_repeat(offsets: Ints, docs: Ints32) -> int:
    """Find the first place at which a doc stands in its row a second time, or -1."""
    check_offsets(offsets, len(docs))
    by_doc = np.lexsort((docs, _row_numbers(offsets)))
    row, doc = _row_numbers(offsets)[by_doc], docs[by_doc]
    again = np.flatnonzero((row[1:] == row[:-1]) & (doc[1:] == doc[:-1]))
    return int(by_doc[again + 1].min(initial=len(docs))) if len(again) else -1


def first_duplicate(blob: Bytes, offsets: Ints) -> tuple[int, int] | None:
    """Find the first id that appears a second time: both places."""
    seen: dict[bytes, int] = {}
    for place, text in enumerate(_texts(blob, offsets)):
        earlier = seen.setdefault(text, place)
        if earlier != place:
            return earlier, place
    return None


def number_ids(blob: Bytes, offsets: Ints) -> tuple[Bytes, Ints, Ints32] | None:
    """Give ids numbers by first appearance; None unless all are clean."""
    return number_texts([text.decode() for text in _texts(blob, offsets)])


def match_ids(blob: Bytes, offsets: Ints, other_blob: Bytes, other_offsets: Ints) -> Ints:
    """Find each id's first place among the others, or -1."""
    others = [*enumerate(_texts(other_blob, other_offsets))]
    places = {text: place for place, text in reversed(others)}
    places_of = (places.get(text, -1) for text in _texts(blob, offsets))
    return np.fromiter(places_of, np.int64, len(offsets) - 1)


def order_ids(blob: Bytes, offsets: Ints, descending: bool) -> Ints:
    """Return the permutation that sorts ids by bytes; equal ids keep their order."""
    texts = _texts(blob, offsets)
    order = sorted(range(len(texts)), key=texts.__getitem__, reverse=descending)
    return np.array(order, np.int64)


def take_ids(blob: Bytes, offsets: Ints, places: Ints) -> tuple[Bytes, Ints]:
    """Copy the ids at some places."""
    texts = _texts(blob, offsets)
    check_codes(places, 0, len(texts), "place out of range")
    return _blob_and_offsets([texts[place] for place in places.tolist()])


def _row_numbers(offsets: Ints) -> Ints:
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def _texts(blob: Bytes, offsets: Ints) -> list[bytes]:
    check_offsets(offsets, len(blob))
    raw = blob.tobytes()
    return [raw[begin:end] for begin, end in pairwise(offsets.tolist())]


def to_float32(scores: Floats) -> Floats:
    """Round scores to float32; those beyond its range become infinite."""
    with np.errstate(over="ignore"):
        return scores.astype(np.float32).astype(np.float64)


def _tie_keys(docs: Ints32, blob: Bytes, offsets: Ints, ties: int) -> Ints:
    """Return what orders docs of equal score, ascending; the sort itself keeps appearance."""
    if ties == 0:
        return np.zeros(len(docs), np.int64)
    order = order_ids(blob, offsets, descending=ties < 0)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[docs]


def _row_fault(queries: Ints32, docs: Ints32, scores: Floats, n_docs: int) -> RowFault | None:
    """Find the first fault of lines that are grouped by query."""
    repeated = np.ones(len(docs), np.bool_)
    repeated[np.unique(queries.astype(np.int64) * n_docs + docs, return_index=True)[1]] = False
    faults = []
    for severity, (kind, at_fault) in enumerate(
        (("duplicate", repeated), ("float32", np.isinf(scores)))
    ):
        for place in np.flatnonzero(at_fault)[:1].tolist():
            faults.append((int(queries[place]), severity, kind, int(docs[place])))
    if not faults:
        return None
    query, _, kind, doc = min(faults)
    return kind, query, doc


def _judgment_of(keys: Ints, judged_keys: Ints, present: Flags) -> Ints:
    """Return for each key the index of its first judgment, or -1."""
    places = np.flatnonzero(present)
    places = places[np.argsort(judged_keys[places], kind="stable")]
    if not len(places):
        return np.full(len(keys), -1, np.int64)
    at = np.minimum(np.searchsorted(judged_keys[places], keys), len(places) - 1)
    return np.where(judged_keys[places[at]] == keys, places[at], -1)


def _tie_groups(rows: Ints, scores: Floats, places: Ints) -> tuple[Ints, Ints]:
    """Return the first place, and the one after the last, that share row and score."""
    change = (rows[1:] != rows[:-1]) | (scores[1:] != scores[:-1])
    starts = np.concatenate([[0], np.flatnonzero(change) + 1, [len(rows)]]).astype(np.int64)
    group = np.searchsorted(starts, places, side="right")
    return starts[group - 1], starts[group]


def number_texts(texts: list[Any]) -> tuple[Bytes, Ints, Ints32] | None:
    """Give texts numbers by first appearance: blob, offsets, numbers; None if unclean."""
    if not set(map(type, texts)) <= {str}:
        return None
    number = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    if "" in number or any(map(_UNCLEAN.search, number)):
        return None
    codes = np.fromiter(map(number.__getitem__, texts), np.int32, len(texts))
    return *_blob_and_offsets([text.encode() for text in number]), codes
