"""What a contestant retrieved for each query, with snippets and judgments, to be read."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.core.ids import Ids
from assay.runs.results import QueryResults, ResultDoc

if TYPE_CHECKING:
    from assay.core.ranking import Ranking
    from assay.io.collections import Collection

__all__ = ["PLACES", "SnippetBuilder", "snippet"]

PLACES: Final = 10
_MISSED: Final = 10
_LENGTH: Final = 240
_BLANKS: Final = re.compile(r"\s+")


class SnippetBuilder:
    """A collection whose texts and grades are shown beside rankings of its documents."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._snippets: dict[int, str] = {}

    def all(self, ranking: Ranking) -> dict[str, QueryResults]:
        """Every query of a ranking: its text, first documents, and relevant ones not among them."""
        rows = _Rows(ranking, self._collection)
        return {
            query: self._shown(query, rows, number, PLACES)
            for number, query in enumerate(map(str, ranking.query_ids))
        }

    def one(self, ranking: Ranking, query: str, *, places: int = PLACES) -> QueryResults:
        """One query of a ranking; without results where the ranking does not hold it."""
        number = int(Ids.of([query], "query").match(ranking.query_ids)[0])
        return self._shown(query, _Rows(ranking, self._collection), number, places)

    def _shown(self, query: str, rows: _Rows, number: int, places: int) -> QueryResults:
        docs, scores = rows.of(number)
        judged, grades = self._judged(query)
        graded = dict(zip(rows.judged[judged].tolist(), grades.tolist(), strict=True))
        graded.pop(-1, None)
        best = [
            self._doc(rows, doc, score, graded.get(doc))
            for doc, score in zip(docs[:places].tolist(), scores[:places].tolist(), strict=True)
        ]
        missed = self._missed(rows, docs, scores, judged, grades, places)
        return QueryResults(self._asked.get(query, ""), tuple(best), tuple(missed))

    def _missed(
        self,
        rows: _Rows,
        docs: Ints,
        scores: NDArray[np.float64],
        judged: Ints,
        grades: NDArray[np.float64],
        places: int,
    ) -> list[ResultDoc]:
        """Relevant documents that are not among the first, best grade first."""
        found: list[ResultDoc] = []
        for at in np.argsort(-grades, kind="stable"):
            doc = int(rows.judged[judged[at]])
            where = np.flatnonzero(docs == doc) if doc >= 0 else docs[:0]
            if grades[at] <= 0 or len(found) == _MISSED or (len(where) and where[0] < places):
                continue
            score = float(scores[where[0]]) if len(where) else None
            if doc >= 0:
                found.append(self._doc(rows, doc, score, float(grades[at])))
            else:
                name = str(self._collection.qrels.doc_ids[int(judged[at])])
                found.append(ResultDoc(name, None, float(grades[at])))
        return found

    def _doc(self, rows: _Rows, doc: int, score: float | None, grade: float | None) -> ResultDoc:
        return ResultDoc(rows.names[doc], score, grade, self._snippet(int(rows.place[doc])))

    def _snippet(self, row: int) -> str:
        if row < 0:
            return ""
        if row not in self._snippets:
            self._snippets[row] = snippet(self._collection.doc_texts[row])
        return self._snippets[row]

    @cached_property
    def _asked(self) -> dict[str, str]:
        queries = self._collection.query_ids
        return dict(zip(map(str, queries), self._collection.query_texts, strict=True))

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {str(id): row for row, id in enumerate(self._collection.qrels.query_ids)}

    def _judged(self, query: str) -> tuple[Ints, NDArray[np.float64]]:
        """Numbers of the judged documents of a query, and their grades."""
        qrels = self._collection.qrels
        row = self._row_of.get(query)
        inside = slice(0, 0) if row is None else slice(qrels.offsets[row], qrels.offsets[row + 1])
        return np.asarray(qrels.docs[inside], np.int64), qrels.grades[inside]


class _Rows:
    """A ranking's documents by number: their names, places in the collection, and judged ones."""

    def __init__(self, ranking: Ranking, collection: Collection) -> None:
        self._ranking = ranking
        self.names = [str(id) for id in ranking.doc_ids]
        ids = Ids.of(self.names, "doc")
        self.place = ids.match(collection.doc_ids)
        self.judged = collection.qrels.doc_ids.match(ids)

    def of(self, number: int) -> tuple[Ints, NDArray[np.float64]]:
        """Documents and scores of one query, best first; none for a number below 0."""
        offsets = self._ranking.offsets
        inside = slice(0, 0) if number < 0 else slice(offsets[number], offsets[number + 1])
        return self._ranking.docs[inside].astype(np.int64), self._ranking.scores[inside]


def snippet(text: str, length: int = _LENGTH) -> str:
    """The beginning of a text in one line, cut between words.

    >>> snippet("One two\\n three four", 9)
    'One two …'
    """
    line = _BLANKS.sub(" ", text[: 4 * length]).strip()
    if len(line) <= length:
        return line
    return f"{line[: length - 1].rsplit(' ', 1)[0]} …"
