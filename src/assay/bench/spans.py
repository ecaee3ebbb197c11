"""Relevance by spans: how much of the relevant passages retrieved chunks hold, and how much else.

Judgments with offsets name passages: query, doc, start, end, in code points of the document's text
as Assay reads it (a title and a space before it, CRLF as two). The measures are those of Smith and
Troynikov, "Evaluating Chunking Strategies for Retrieval" (Chroma, 2024), as their program computes
them (brandonstarxel/chunking_evaluation, base_evaluation.py): it calls them token-wise and counts
characters, which is the default here; `tokens=true` counts words and punctuation marks, each
where it begins. Of the first k chunks

    SpanR@k     |relevant ∩ chunks| / |relevant|
    SpanP@k     |relevant ∩ chunks| / Σ |chunk|: what two chunks share counts twice below the line
    SpanIoU@k   |relevant ∩ chunks| / (Σ |chunk| + |relevant without chunks|)
    SpanPOmega  |relevant ∩ C| / |relevant ∪ C|, with C all chunks that hold something relevant

Two things differ: relevant spans that overlap are merged (there they count twice in |relevant|),
and a chunk that only touches a relevant span is not one of C.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from assay.arrays import Floats, Ints
from assay.bench.settings import MEASURES
from assay.core.text import did_you_mean, parse_number, parse_whole
from assay.errors import FormatError, IdError, InputError, MeasureError, UsageError, ValueRangeError
from assay.io import columns as tabular
from assay.io.plain_data import parse_json
from assay.io.streams import find_format
from assay.io.texts import find_units
from assay.measures import Measure, parse_many
from assay.measures.registry import Param, measure

if TYPE_CHECKING:
    from assay.bench.plan import PreparedCollection
    from assay.bench.search import SearchResult
    from assay.io.collections import Collection
    from assay.scoring.scores import Scores


SPAN_MEASURES: Final = ("SpanR@5", "SpanP@5", "SpanIoU@5", "SpanPOmega")
_ABOUT: Final = {
    "SpanR": ("share of the relevant passages that the first k chunks hold", "span_recall"),
    "SpanP": ("share of the first k chunks that is relevant", "span_precision"),
    "SpanIoU": ("relevant and retrieved over relevant or retrieved, first k chunks", "span_iou"),
    "SpanPOmega": ("precision of all chunks that hold something relevant", "precision_omega"),
}
_FORMULAS: Final = {
    "SpanR": "|rel ∩ ret| / |rel|",
    "SpanP": "|rel ∩ ret| / Σ |chunk|",
    "SpanIoU": "|rel ∩ ret| / (Σ |chunk| + |rel − ret|)",
    "SpanPOmega": "|rel ∩ C| / |rel ∪ C|, C: chunks that hold something relevant",
}
_TOKENS: Final = Param(False, "flag", "count words and punctuation, not characters")
_ROLES: Final = {"judged query": "queries", "judged doc": "documents"}
_ENDS: Final = {"span start": "start of a passage", "span end": "end of a passage"}
_NOTHING: Final = np.empty((0, 3), np.int64)
_ADVICE: Final = "Name them query, doc, start and end."

Span = tuple[int, int]
Size = Callable[[int, int, int], int]  # of a document, from a character to another


def register_measures() -> None:
    """Register the measures of spans, which only judgments with offsets can score."""
    for name, (about, alias) in _ABOUT.items():

        def refuse(at: Any, _name: str = name, **_: Any) -> Floats:
            advice = "pass judgments with start and end to 'assay bench'"
            raise MeasureError(f"{_name} needs relevant passages: {advice}.")

        refuse.__doc__ = f"{about[0].upper()}{about[1:]}."
        omega = name == "SpanPOmega"
        laws, cutoff = ({"order-free"}, "none") if omega else ({"local"}, "required")
        how: Any = {"gain": "judged", "defined": "always", "params": {"tokens": _TOKENS}}
        measure(name, formula=_FORMULAS[name], laws=laws, cutoff=cutoff, aliases=(alias,), **how)(
            refuse
        )


def is_span_measure(named: Measure) -> bool:
    """Tell whether a measure is one of spans."""
    return named.name in _ABOUT


def split_measures(
    measures: Any, collection: Collection, spans: Any
) -> tuple[tuple[Measure, ...], tuple[Measure, ...], SpanScorer | None]:
    """Return all measures, those of documents, at least one, and who scores those of spans."""
    every = parse_many(measures)
    of_spans = [named for named in every if is_span_measure(named)]
    if spans is None:
        if of_spans:
            of_spans[0].definition.function(None)
        return every, every, None
    judgments = read_spans(spans)
    if judgments is None:
        raise UsageError(f"The spans lack the columns start and end. {_ADVICE}")
    scorer = SpanScorer(collection, judgments)
    if not of_spans:
        every = (*every, *parse_many(SPAN_MEASURES))
    if not scorer.spans:
        raise InputError("No relevant passage belongs to a query here. Check the ids.")
    of_docs = tuple(named for named in every if not is_span_measure(named))
    return every, of_docs or parse_many(MEASURES[:1]), scorer


class Passage(NamedTuple):
    """A relevant passage as a file names it; `text` is what it should say, where that is known."""

    query: str
    doc: str
    start: int
    end: int
    grade: float = 1.0
    text: str | None = None


@dataclass(frozen=True, eq=False)
class SpanJudgments:
    """Relevant passages; `where` says where each stands, for messages."""

    passages: Sequence[Passage]
    where: tabular.Where

    def pairs(self) -> list[tuple[str, str, float]]:
        """Return judgments of documents: the best grade of its passages is that of a document."""
        grades: dict[tuple[str, str], float] = {}
        for passage in self.passages:
            key = passage.query, passage.doc
            grades[key] = max(grades.get(key, passage.grade), passage.grade)
        return [(query, doc, grade) for (query, doc), grade in grades.items()]

    def match(self, collection: Collection) -> dict[str, dict[int, list[Span]]]:
        """Return relevant spans by query and row of the document, merged where they overlap.

        Raises:
            IdError: A document is not in the collection.
            ValueRangeError: A span is empty, beyond its document, or holds another text.
        """
        rows = {str(id): row for row, id in enumerate(collection.doc_ids)}
        texts = zip(collection.query_texts, map(str, collection.query_ids), strict=True)
        names = {**dict(texts), **{str(id): str(id) for id in collection.query_ids}}
        spans: dict[str, dict[int, list[Span]]] = defaultdict(lambda: defaultdict(list))
        for number, passage in enumerate(self.passages):
            if passage.doc not in rows:
                hint = did_you_mean(passage.doc, list(rows))
                message = f"the collection has no document {passage.doc!r:.80}.{hint}"
                raise IdError(f"{self.where(number)}: {message}")
            row = rows[passage.doc]
            fault = _find_fault(passage, collection.doc_texts[row])
            if fault:
                raise ValueRangeError(f"{self.where(number)}: {fault}")
            if passage.grade > 0 and passage.query in names:
                spans[names[passage.query]][row].append((passage.start, passage.end))
        return {q: {doc: merge_spans(of) for doc, of in by.items()} for q, by in spans.items()}


def _find_fault(passage: Passage, text: str) -> str:
    """Return the fault of a passage in this text; empty for none."""
    start, end = passage.start, passage.end
    place = f"characters {start}–{end} of {passage.doc!r:.80}"
    if not 0 <= start < end:
        return f"{place} are not a valid span. Use 0 <= start < end."
    if end > len(text):
        return (
            f"{place} end beyond its {len(text):,} characters. Count code points of the text "
            "(with the title and a space before it, and CRLF as two), not bytes."
        )
    if passage.text is not None and text[start:end] != passage.text:
        elsewhere = text.find(passage.text)
        hint = f"; its text begins at {elsewhere}" if elsewhere >= 0 else ""
        return f"{place} are {text[start:end]!r:.60}, not {passage.text!r:.60}{hint}."
    return ""


def read_spans(source: Any) -> SpanJudgments | None:
    """Read relevant passages of documents.

    Args:
        source: A table (CSV, TSV, JSON, JSONL, parquet) with the columns query, doc, start and end
            in the usual spellings, perhaps a grade and the text of the passage; or with a column
            references that lists {start_index, end_index, content}; or tuples
            (query, doc, start, end).

    Returns:
        The passages; None where a file has no such columns.

    Raises:
        FormatError: A column is missing.
        ValueRangeError: An offset is no whole number.

    Example:
        spans = read_spans("passages.csv")
        collection = load_collection("docs.jsonl", "queries.jsonl", spans.pairs())
        run_bench(collection, ["bm25@sentences:5:1", "bm25@tokens:200:50"], spans=spans)
    """
    if isinstance(source, SpanJudgments):
        return source
    if not isinstance(source, str | os.PathLike):
        rows = list(source) if isinstance(source, Iterable) else [source]
        if any(not isinstance(row, tuple | list) or len(row) != 4 for row in rows):
            raise UsageError("Not a passage. Pass (query, doc, start, end).")
        listed = [dict(zip(("query", "doc", "start", "end"), row, strict=True)) for row in rows]
        table = tabular.table_of_records(listed, "passage {}".format, "the passages")
    else:
        opened = _open_table(source)
        if opened is None:
            return None
        table = opened
    roles = ("span start", "span end", "spans")
    start, end, nested = map(table.find, roles)
    if nested is None and (start is None or end is None):
        return None
    query, doc = table.require(_ROLES, _ADVICE)
    grade = table.find("grade")
    names = [query, doc, *filter(None, [grade, *([nested] if nested else [start, end])])]
    text = None if nested else table.find("span text")
    cells = table.columns([*names, *filter(None, [text])], gaps=[text or ""])
    columns = dict(zip([*names, *filter(None, [text])], cells, strict=True))
    passages, origin = [], []
    for row, (name, of) in enumerate(zip(columns[query], columns[doc], strict=True)):
        place = table.where(row)
        level = 1.0 if grade is None else _parse_grade(columns[grade][row], place)
        parts = [tuple(columns[key][row] if key else None for key in (start, end, text))]
        if nested:
            parts = [_read_reference(part, place) for part in _parse_list(columns[nested][row])]
        for first, last, words in parts:
            ends = _parse_offset(first, "start", place), _parse_offset(last, "end", place)
            passages.append(Passage(str(name), str(of), *ends, level, words or None))
            origin.append(row)
    return SpanJudgments(passages, lambda number: table.where(origin[number]))


def _open_table(path: Any) -> tabular.FileTable | None:
    """Open a table of judgments; None where the file is of another kind, which others read."""
    if find_format(path) not in ("csv", "tsv", "json", "jsonl", "parquet"):
        return None
    try:
        return tabular.open_table(path, "a table of passages")
    except FormatError:
        return None


def _parse_list(cell: Any) -> list[Any]:
    parts = parse_json(cell, "references") if isinstance(cell, str) else cell
    return list(parts) if isinstance(parts, list | tuple) else [parts]


def _read_reference(part: Any, place: str) -> tuple[Any, Any, Any]:
    """Return start, end and text of one entry of a list of references."""
    if not isinstance(part, Mapping):
        raise FormatError(f"{place}: {part!r:.60} lacks start or end. Add both.")
    start, end = tabular.require_columns(list(part), _ENDS, place, _ADVICE)
    text = tabular.pick_column(list(part), "span text", place)
    return part[start], part[end], part[text] if text else None


def _parse_offset(value: Any, what: str, place: str) -> int:
    number = parse_whole(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise ValueRangeError(f"{place}: {what} is {value!r:.40}. Give a whole number.")
    return int(number)


def _parse_grade(value: Any, place: str) -> float:
    number = parse_number(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or isnan(number):
        raise ValueRangeError(f"{place}: the grade is {value!r:.40}. Give a number.")
    return float(number)


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Merge spans that overlap or touch, in order.

    >>> merge_spans([(5, 9), (0, 3), (2, 5), (20, 21)])
    [(0, 9), (20, 21)]
    """
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _count_characters(_: int, start: int, end: int) -> int:
    return end - start


class _SpanSizes(NamedTuple):
    """Sizes: of what is relevant and covered, of all that is relevant, and of the chunks."""

    covered: int
    relevant: int
    chunks: int

    def value(self, name: str) -> float:
        """Return the value of a measure; NaN where nothing relevant can be counted."""
        covered, relevant, chunks = self
        below = {"SpanR": relevant, "SpanP": chunks}.get(name, chunks + relevant - covered)
        return covered / below if below and relevant else 0.0 if relevant else np.nan


@dataclass(frozen=True, eq=False)
class SpanScorer:
    """Scores systems by the spans of a collection."""

    collection: Collection
    judgments: SpanJudgments
    # The number of each document of the collection in each prepared one.
    _numbers: dict[PreparedCollection, Ints] = field(default_factory=dict)

    @cached_property
    def spans(self) -> dict[str, dict[int, list[Span]]]:
        """Relevant spans by query and row of the document."""
        return self.judgments.match(self.collection)

    @cached_property
    def digest(self) -> str:
        """A few digits of all spans, for the signature."""
        ids = self.collection.doc_ids
        lines = [
            f"{query}\t{ids[doc]}\t{of}"
            for query, by in self.spans.items()
            for doc, of in by.items()
        ]
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:8]

    @cached_property
    def _lengths(self) -> Ints:
        """Characters of each document, and 0 of one that is not there (row −1)."""
        return np.array([*map(len, self.collection.doc_texts), 0])

    @cached_property
    def _count_tokens(self) -> Size:
        @cache
        def begins(doc: int) -> Ints:
            units = find_units(self.collection.doc_texts[doc], "tokens")
            return np.array([start for start, _ in units], np.int64)

        def count_tokens(doc: int, start: int, end: int) -> int:
            first, last = np.searchsorted(begins(doc), [start, end])
            return int(last - first)

        return count_tokens

    def add(
        self,
        scores: Scores,
        measures: Sequence[Measure],
        result: SearchResult,
        data: PreparedCollection,
    ) -> Scores:
        """Return scores with the measures of spans among them, in the order of `measures`.

        They are undefined for a query without a relevant passage.
        """
        of_spans = [named for named in measures if is_span_measure(named)]
        queries = [str(id) for id in scores.query_ids]
        table = {named: np.full(len(queries), np.nan) for named in of_spans}
        retrieved = self._retrieved(result, data)
        for row, query in enumerate(queries):
            for named in of_spans if query in self.spans else ():
                counts = self._count(named, query, retrieved.get(query, _NOTHING), data)
                table[named][row] = counts.value(named.name)
        place = {named: number for number, named in enumerate(scores.measures)}
        untied = np.zeros(len(queries), bool)
        return replace(
            scores,
            measures=tuple(measures),
            values=np.stack([table[m] if m in table else scores[m] for m in measures]),
            tied=np.stack([untied if m in table else scores.tied[place[m]] for m in measures]),
        ).but_settings(spans=self.digest)

    def _retrieved(self, result: SearchResult, data: PreparedCollection) -> dict[str, Ints]:
        """Return document, start and end of the chunks of each query, best first.

        Without a ranking of chunks, the best one of each document stands for it; of documents that
        are not cut, all of them.
        """
        ranking = result.ranking if result.units is None else result.units
        if result.units is not None:
            rows = data.doc_ids.match(self.collection.doc_ids)[data.unit_doc[ranking.docs]]
            places = data.places[ranking.docs, 1:]
        else:
            rows = ranking.doc_ids.match(self.collection.doc_ids)[ranking.docs]
            whole = np.column_stack([np.zeros(len(rows), np.int64), self._lengths[rows]])
            places = whole if result.chunks is None else result.chunks[:, 1:]
        table, offsets = np.column_stack([rows, places]), ranking.offsets
        ids = enumerate(map(str, ranking.query_ids))
        return {query: table[offsets[row] : offsets[row + 1]] for row, query in ids}

    def _count(
        self, named: Measure, query: str, retrieved: Ints, data: PreparedCollection
    ) -> _SpanSizes:
        """Return the sizes that a measure of one query divides."""
        size = self._count_tokens if dict(named.params).get("tokens") else _count_characters
        relevant = self.spans[query]
        chunks: dict[int, list[Span]] = defaultdict(list)
        if named.name == "SpanPOmega":
            for doc, spans in relevant.items():
                chunks[doc] = merge_spans(self._touched(doc, spans, data))
        else:
            for doc, start, end in retrieved[: named.cutoff].tolist():
                chunks[doc].append((start, end))
        n_chunks = sum(size(doc, *part) for doc, parts in chunks.items() for part in parts)
        total = sum(size(doc, *span) for doc, spans in relevant.items() for span in spans)
        covered = sum(
            size(doc, max(start, first), min(end, last))
            for doc, spans in relevant.items()
            for start, end in merge_spans(chunks.get(doc, []))
            for first, last in spans
            if max(start, first) < min(end, last)
        )
        return _SpanSizes(covered, total, n_chunks)

    def _touched(self, doc: int, spans: list[Span], data: PreparedCollection) -> list[Span]:
        """Return the chunks of a document that hold a part of a span."""
        if data not in self._numbers:
            self._numbers[data] = self.collection.doc_ids.match(data.doc_ids)
        number = self._numbers[data][doc]
        first, last = data.bounds[number : number + 2]
        starts, ends = data.places[first:last, 1:].T
        inside = np.zeros(last - first, bool)
        for start, end in spans:
            inside |= (starts < end) & (ends > start)
        return list(zip(starts[inside].tolist(), ends[inside].tolist(), strict=True))
