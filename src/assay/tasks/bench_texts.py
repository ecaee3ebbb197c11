"""What is suspicious in the texts and ids of a collection, whatever model is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from assay.ids import Ids
from assay.inspection import Finding
from assay.near_ids import near_misses
from assay.tasks.bench_duplicates import duplicates, near_duplicates
from assay.tasks.bench_language import case_of, language_of

if TYPE_CHECKING:
    from assay.io.collections import Collection
    from assay.tasks.bench_result import BenchResult

__all__ = ["about_texts"]

_EXAMPLES = 5


def about_texts(result: BenchResult) -> Iterator[Finding]:
    """Findings about what was asked, what was searched and what was judged."""
    collection = result.collection
    yield from _about_absent(collection)
    yield from _about_empty(collection)
    yield from _about_queries(collection)
    yield from _about_copies(collection)
    yield from _about_writing(collection)


def _finding(
    severity: str, code: str, message: str, effect: str, ids: Sequence[object] | Ids, total: int
) -> Finding:
    shown = tuple(str(ids[i]) for i in range(min(len(ids), _EXAMPLES)))
    return Finding(severity, code, message, effect, len(ids), total, shown)


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _about_absent(collection: Collection) -> Iterator[Finding]:
    absent, judged = collection.absent_docs, collection.qrels.doc_ids
    if len(absent):
        near = near_misses(absent, collection.doc_ids)
        hint = "".join(f" Some differ {how}: {pairs[0]}." for how, pairs in near.items())
        yield _finding(
            "error", "absent-docs",
            f"{_count(len(absent), 'judged document')} not in the collection",
            f"Those that are relevant count as relevant, and nobody can find them.{hint}",
            absent, len(judged),
        )  # fmt: skip
    queries = collection.absent_queries
    if len(queries):
        yield _finding(
            "warning", "absent-queries",
            f"{_count(len(queries), 'judged query')} without a text",
            "Nobody can ask them; they are left out.", queries, len(collection.qrels.query_ids),
        )  # fmt: skip


def _about_empty(collection: Collection) -> Iterator[Finding]:
    empty = collection.empty_docs
    if len(empty):
        relevant = _relevant_among(collection, empty)
        yield _finding(
            "warning", "empty-docs", f"{_count(len(empty), 'document')} without any text",
            f"Nothing can retrieve them; {relevant} of them relevant to a query.",
            empty, len(collection.doc_ids),
        )  # fmt: skip
    asked = collection.empty_queries
    judged = asked.take(np.flatnonzero(asked.match(collection.qrels.query_ids) >= 0))
    if len(judged):
        yield _finding(
            "error", "empty-queries", f"{_count(len(judged), 'judged query')} with an empty text",
            "They find nothing and count 0.", judged, len(collection.query_ids),
        )  # fmt: skip


def _relevant_among(collection: Collection, docs: Ids) -> int:
    qrels = collection.qrels
    relevant = np.unique(qrels.docs[qrels.grades > 0])
    return int((qrels.doc_ids.take(relevant).match(docs) >= 0).sum())


def _about_queries(collection: Collection) -> Iterator[Finding]:
    unjudged = collection.unjudged_queries
    if len(unjudged):
        yield _finding(
            "note", "unjudged-queries", f"{_count(len(unjudged), 'query')} that nobody judged",
            "They are not asked.", unjudged, len(collection.query_ids),
        )  # fmt: skip


def _about_copies(collection: Collection) -> Iterator[Finding]:
    texts, ids = collection.doc_texts, collection.doc_ids
    total = len(ids)
    same = duplicates(texts)
    effect = "They take each other's places; where only one is judged, the others count as wrong."
    if same:
        yield Finding(
            "warning", "duplicate-docs",
            f"{_count(sum(map(len, same)), 'document')} in {_count(len(same), 'group')} of equal "
            "words", effect, len(same), total, _groups(ids, same),
        )  # fmt: skip
    near = near_duplicates(texts, known=same)
    if near:
        number = len({doc for pair in near for doc in pair})
        yield Finding(
            "note", "near-duplicate-docs",
            f"{_count(number, 'document')} that share most of their words with another", effect,
            len(near), total, _groups(ids, near),
        )  # fmt: skip


def _groups(ids: Ids, groups: Sequence[Sequence[int]]) -> tuple[str, ...]:
    return tuple(" = ".join(str(ids[doc]) for doc in group[:3]) for group in groups[:3])


def _about_writing(collection: Collection) -> Iterator[Finding]:
    queries, docs = collection.query_texts, collection.doc_texts
    for code, what, of in (
        ("language", "written in", language_of),
        ("case", "written in", case_of),
    ):
        asked, searched = of(queries), of(docs)
        if asked and searched and asked != searched:
            yield Finding(
                "warning", f"{code}-mismatch",
                f"queries are mostly {what} {asked}, documents in {searched}",
                "A model that was not trained for that, and any search by words, finds less.",
                len(queries), len(queries),
            )  # fmt: skip
