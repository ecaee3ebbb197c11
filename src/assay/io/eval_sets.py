"""Judgments of a collection: any file of judgments, or JSON lists of (query, relevant ids).

In such a list a query may be an id or its text:

    [["How do I install Python?", ["doc-3", "doc-4"]], ["q2", ["doc-1"]]]
    {"query": "q2", "relevant": ["doc-1"]}
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from assay.errors import FormatError
from assay.ids import Ids
from assay.io.column_names import pick_column
from assay.io.json_text import parse_json
from assay.io.lines import number_ids, pack_ids
from assay.io.sources import ending_of, read_qrels
from assay.io.text_lines import read_lines, read_text
from assay.io.texts import as_text_ids
from assay.judgments import Judgments, Qrels

__all__ = ["EvalSet", "read_judgments"]

_QUERY: Final = ("queryid", "qid", "query", "question", "text")
_IDS: Final = (
    "relevantdocids", "relevantids", "relevant", "docids", "ids", "docs", "positives", "gold",
)  # fmt: skip


class EvalSet(NamedTuple):
    """Queries, by id or by text, and the ids of the documents that are relevant to each."""

    queries: tuple[str, ...]
    relevant: tuple[tuple[str, ...], ...]
    source: str

    def as_qrels(self, query_ids: Sequence[str]) -> Qrels:
        """The same with these ids of the queries."""
        sizes = [len(ids) for ids in self.relevant]
        names = [one for ids in self.relevant for one in ids]
        rows = np.repeat(np.arange(len(sizes)), sizes)
        at = rows.tolist()

        def where(row: int) -> str:
            return f"{self.source}, entry {at[row]}"

        doc_ids, docs = number_ids(pack_ids(names, "doc", where))
        queries = pack_ids(list(query_ids), "query", f"{self.source}, entry {{}}".format)
        distinct, numbers = number_ids(queries)
        return Judgments.from_pairs(distinct, doc_ids, numbers[rows], docs, np.ones(len(rows)))


def read_judgments(path: str | os.PathLike[str]) -> Qrels | EvalSet:
    """Judgments from a file: TREC, TSV, CSV, JSON or parquet, or a list of (query, ids)."""
    ending = ending_of(path)
    if ending in (".json", ".jsonl", ".ndjson"):
        found = _pairs(_entries(path, ending))
        if found is not None:
            return _eval_set(found, os.fspath(path))
    read = read_qrels(path)
    if not isinstance(read, Qrels):
        raise FormatError(f"{os.fspath(path)} holds labels; a collection is judged by pairs.")
    return _with_text_ids(read)


def _entries(path: str | os.PathLike[str], ending: str) -> Any:
    name = os.fspath(path)
    if ending == ".json":
        return parse_json(read_text(path), name)
    lines = enumerate(read_lines(path), 1)
    return [parse_json(line, f"{name}, line {n}") for n, line in lines if not line.isspace()]


def _pairs(entries: Any) -> list[tuple[Any, Any]] | None:
    """The entries as (query, ids), if they are such; None if they are judgments of another kind."""
    if not isinstance(entries, list) or not entries:
        return None
    if all(isinstance(one, list) and len(one) == 2 and isinstance(one[1], list) for one in entries):
        return [(query, ids) for query, ids in entries]
    if not all(isinstance(one, Mapping) for one in entries):
        return None
    query, ids = (pick_column(list(entries[0]), names, "judgments") for names in (_QUERY, _IDS))
    if query is None or ids is None or not isinstance(entries[0][ids], list):
        return None
    return [(one.get(query), one.get(ids)) for one in entries]


def _eval_set(pairs: list[tuple[Any, Any]], source: str) -> EvalSet:
    for row, (query, ids) in enumerate(pairs):
        whole = isinstance(query, int) and not isinstance(query, bool)
        if not (isinstance(query, str) or whole) or not isinstance(ids, list):
            raise FormatError(
                f"{source}, entry {row}: expected a query and a list of ids, found "
                f"{query!r:.40} and {ids!r:.40}."
            )
    every = as_text_ids([one for _, ids in pairs for one in ids])
    ends = np.cumsum([len(ids) for _, ids in pairs]).tolist()
    relevant = tuple(tuple(every[i:j]) for i, j in zip([0, *ends], ends, strict=False))
    return EvalSet(tuple(str(query) for query, _ in pairs), relevant, source)


def _with_text_ids(qrels: Qrels) -> Qrels:
    """Ids of a collection are text."""
    from dataclasses import replace

    def text(ids: Ids) -> Ids:
        return ids if ids.kind == "text" else Ids.of([str(one) for one in ids])

    return replace(qrels, query_ids=text(qrels.query_ids), doc_ids=text(qrels.doc_ids))
