"""What a contestant retrieved for each query, with snippets and judgments, to be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.ids import Ids
from assay.store.shown import ShownDoc, ShownQuery

if TYPE_CHECKING:
    from assay.io.collections import Collection
    from assay.ranking import Ranking

__all__ = ["shown_queries", "shown_query", "snippet"]

PLACES: Final = 10
_MISSED: Final = 10
_LENGTH: Final = 240
_BLANKS: Final = re.compile(r"\s+")


def shown_queries(collection: Collection, ranking: Ranking) -> dict[str, ShownQuery]:
    """Every query of a ranking: its text, its first documents, and relevant ones not among them."""
    look = _Look(collection)
    return {
        str(query): look.at(str(query), _row(ranking, number))
        for number, query in enumerate(ranking.query_ids)
    }


def shown_query(
    collection: Collection, ranking: Ranking, query: str, *, places: int = PLACES
) -> ShownQuery:
    """One query of a ranking; without results where the ranking does not hold it."""
    number = int(Ids.of([query], "query").match(ranking.query_ids)[0])
    row = _row(ranking, number) if number >= 0 else []
    return _Look(collection).at(query, row, places)


def _row(ranking: Ranking, number: int) -> list[tuple[str, float]]:
    """Documents and scores of one query, best first."""
    inside = slice(ranking.offsets[number], ranking.offsets[number + 1])
    ids = ranking.doc_ids.take(ranking.docs[inside].astype(np.int64))
    return list(zip(map(str, ids), ranking.scores[inside].tolist(), strict=True))


class _Look:
    """Texts and grades of a collection by id."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._doc = {str(id): number for number, id in enumerate(collection.doc_ids)}
        self._asked = {str(id): number for number, id in enumerate(collection.query_ids)}
        self._judged = {str(id): row for row, id in enumerate(collection.qrels.query_ids)}

    def at(self, query: str, row: list[tuple[str, float]], places: int = PLACES) -> ShownQuery:
        grades, scores = self._grades(query), dict(row)
        seen = {doc for doc, _ in row[:places]}
        missed = [doc for doc, grade in grades.items() if grade > 0 and doc not in seen]
        missed.sort(key=lambda doc: -grades[doc])
        return ShownQuery(
            self._collection.query_texts[self._asked[query]] if query in self._asked else "",
            tuple(
                ShownDoc(doc, score, grades.get(doc), self._text(doc))
                for doc, score in row[:places]
            ),
            tuple(
                ShownDoc(doc, scores.get(doc), grades[doc], self._text(doc))
                for doc in missed[:_MISSED]
            ),
        )

    def _grades(self, query: str) -> dict[str, float]:
        qrels = self._collection.qrels
        row = self._judged.get(query)
        if row is None:
            return {}
        inside = slice(qrels.offsets[row], qrels.offsets[row + 1])
        ids = qrels.doc_ids.take(np.asarray(qrels.docs[inside], np.int64))
        return {str(id): float(grade) for id, grade in zip(ids, qrels.grades[inside], strict=True)}

    def _text(self, doc: str) -> str:
        number = self._doc.get(doc)
        return "" if number is None else snippet(self._collection.doc_texts[number])


def snippet(text: str, length: int = _LENGTH) -> str:
    """The beginning of a text in one line, cut between words.

    >>> snippet("One two\\n three four", 9)
    'One two …'
    """
    line = _BLANKS.sub(" ", text[: 4 * length]).strip()
    if len(line) <= length:
        return line
    return f"{line[: length - 2].rsplit(' ', 1)[0]} …"
