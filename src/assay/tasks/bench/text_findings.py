"""What is suspicious in the texts and ids of a collection, whatever model is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.core.id_hints import describe_near
from assay.core.ids import Ids
from assay.core.text import signed
from assay.inspect.check import Finding
from assay.stats import paired_test
from assay.tasks.bench.text_facts import TextFacts, find_facts, language_of

if TYPE_CHECKING:
    from assay.io.collections import Collection
    from assay.tasks.bench.result import BenchResult

__all__ = ["check_texts"]

_LEVEL: Final = 0.05
_EXAMPLES = 5


def check_texts(result: BenchResult) -> Iterator[Finding]:
    """Findings about the texts of queries and documents, and about the judgments."""
    collection, cache = result.collection, result.cache
    facts = find_facts(collection.doc_texts, None if cache is None else cache.folder)
    yield from _check_absent(collection)
    yield from _check_empty(collection)
    yield from _check_queries(collection)
    yield from _check_copies(collection.doc_ids, facts)
    yield from _check_language(collection.query_texts, facts.language)
    yield from _check_case(result)


def _finding(
    severity: str, code: str, message: str, effect: str, ids: Sequence[object] | Ids, total: int
) -> Finding:
    shown = tuple(str(ids[i]) for i in range(min(len(ids), _EXAMPLES)))
    return Finding(severity, code, message, effect, len(ids), total, shown)


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _check_absent(collection: Collection) -> Iterator[Finding]:
    absent, judged = collection.absent_docs, collection.qrels.doc_ids
    if len(absent):
        yield _finding(
            "error",
            "absent-docs",
            f"{_count(len(absent), 'judged document')} not in the collection",
            f"Those that are relevant count as relevant, and cannot be retrieved."
            f"{describe_near(absent, collection.doc_ids)}",
            absent,
            len(judged),
        )
    queries = collection.absent_queries
    if len(queries):
        yield _finding(
            "warning",
            "absent-queries",
            f"{_count(len(queries), 'judged query')} without a text",
            f"They are left out.{describe_near(queries, collection.unjudged_queries)}",
            queries,
            len(collection.qrels.query_ids),
        )


def _check_empty(collection: Collection) -> Iterator[Finding]:
    empty = collection.empty_docs
    if len(empty):
        relevant = _relevant_among(collection, empty)
        yield _finding(
            "warning",
            "empty-docs",
            f"{_count(len(empty), 'document')} without any text",
            f"They cannot be retrieved; {relevant} of them relevant to a query.",
            empty,
            len(collection.doc_ids),
        )
    empty_queries = collection.empty_queries
    judged = empty_queries.take(
        np.flatnonzero(empty_queries.match(collection.qrels.query_ids) >= 0)
    )
    if len(judged):
        yield _finding(
            "error",
            "empty-queries",
            f"{_count(len(judged), 'judged query')} with an empty text",
            "They retrieve nothing and score 0.",
            judged,
            len(collection.query_ids),
        )


def _check_case(result: BenchResult) -> Iterator[Finding]:
    """What capitals cost a model, measured: some queries were tried in small letters, too."""
    for system in result.systems:
        if system.lower_cased is None:
            continue
        small, given = system.lower_cased
        test = paired_test(small, given)
        if test.p <= _LEVEL and test.statistic > 0:
            measure = system.scores.measures[0]
            yield Finding(
                "warning",
                "capitals",
                f"{system.name} loses by capitals: in small letters {_count(len(small), 'query')} "
                f"reach {signed(test.statistic)} {measure} (p = {test.p:.4f})",
                "The model tells letters by their case. Write the queries in small letters.",
                len(small),
                len(system.scores.query_ids),
                (),
            )


def _relevant_among(collection: Collection, docs: Ids) -> int:
    qrels = collection.qrels
    relevant = np.unique(qrels.docs[qrels.grades > 0])
    return int((qrels.doc_ids.take(relevant).match(docs) >= 0).sum())


def _check_queries(collection: Collection) -> Iterator[Finding]:
    unjudged = collection.unjudged_queries
    if len(unjudged):
        yield _finding(
            "note",
            "unjudged-queries",
            f"{_count(len(unjudged), 'query')} without judgments",
            "They are not run.",
            unjudged,
            len(collection.query_ids),
        )


def _check_copies(ids: Ids, facts: TextFacts) -> Iterator[Finding]:
    total, (same, near, _) = len(ids), facts
    effect = (
        "They take each other's places; where only one is judged, the others count as not relevant."
    )
    if same:
        yield Finding(
            "warning",
            "duplicate-docs",
            f"{_count(sum(map(len, same)), 'document')} in {_count(len(same), 'group')} of equal "
            "words",
            effect,
            len(same),
            total,
            _groups(ids, same),
        )
    if near:
        number = len({doc for pair in near for doc in pair})
        yield Finding(
            "note",
            "near-duplicate-docs",
            f"{_count(number, 'document')} that share most of their words with another",
            effect,
            len(near),
            total,
            _groups(ids, near),
        )


def _groups(ids: Ids, groups: Sequence[Sequence[int]]) -> tuple[str, ...]:
    return tuple(" = ".join(str(ids[doc]) for doc in group[:3]) for group in groups[:3])


def _check_language(texts: Sequence[str], docs: str) -> Iterator[Finding]:
    queries = language_of(texts) if docs else ""
    if queries and queries != docs:
        yield Finding(
            "warning",
            "language-mismatch",
            f"queries are mostly written in {queries}, documents in {docs}",
            "A model that was not trained for that, and any lexical search, retrieves less.",
            len(texts),
            len(texts),
        )
