"""One query as every system answered it: what was retrieved, what was missed, with snippets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints, numbers_or_none
from assay.bench.settings import PLACES
from assay.core.checks import name_few
from assay.core.ids import Ids
from assay.core.text import did_you_mean
from assay.errors import IdError, UsageError
from assay.runs.results import QueryResults, ResultDoc
from assay.tables.table import Cell, Page, Shown, Table, Words, table_of

if TYPE_CHECKING:
    from assay.bench.result import BenchResult
    from assay.core.ranking import Ranking
    from assay.io.collections import Collection


_MISSED: Final = 10
_LENGTH: Final = 240
_BLANKS: Final = re.compile(r"\s+")
_ONE_LINE: Final = 72
_WHOLE: Final = (0, 0, 0)  # the place of a chunk, where a document was not cut


@dataclass(frozen=True, repr=False)
class Answers(Shown):
    """Results of several systems for one query; `values` are their scores on it, by measure."""

    query: str
    by_system: Mapping[str, QueryResults]
    values: Mapping[str, Mapping[str, float]]

    @property
    def text(self) -> str:
        """Text of the query."""
        return next((results.text for results in self.by_system.values() if results.text), "")

    @property
    def relevant(self) -> list[ResultDoc]:
        """The relevant documents that any system retrieved or missed, best grade first."""
        seen: dict[str, ResultDoc] = {}
        for results in self.by_system.values():
            for doc in (*results.results, *results.missed[:_MISSED]):
                if doc.grade is not None and doc.grade > 0:
                    seen.setdefault(doc.doc, doc)
        return sorted(seen.values(), key=lambda doc: (-(doc.grade or 0), doc.doc))

    def relevant_table(self) -> Table:
        """Return where each system ranks each relevant document."""
        rows = []
        for doc in self.relevant:
            ranks = (_rank(results, doc.doc) for results in self.by_system.values())
            figures = (Cell(text, "figure") for text in (f"{doc.grade:g}", *ranks))
            rows.append((doc.doc, *figures, snippet(doc.shown, _ONE_LINE)))
        return table_of(("relevant", "grade", *self.by_system, "text"), rows)

    def table(self, name: str) -> Table:
        """Return the results of one system: rank, document, grade, score, text."""
        rows = []
        for rank, doc in enumerate(self.by_system[name].results, 1):
            score = Cell(None if doc.score is None else f"{doc.score:.4f}", "figure")
            rows.append((rank, doc.doc, _judged(doc.grade), score, snippet(doc.shown, _ONE_LINE)))
        return table_of(("rank", "document", "judged", "score", "text"), rows)

    def page(self) -> Page:
        """Return the query, its relevant documents, and the results of each system."""
        page: Page = [Words(f"{self.query}: {self.text}", "verdict")]
        nothing = Words("No document is judged relevant.")
        page.append(self.relevant_table() if self.relevant else nothing)
        for name, results in self.by_system.items():
            values = self.values.get(name, {})
            numbers = ", ".join(f"{key} {value:.4f}" for key, value in values.items())
            page.append(Words(f"{name}: {numbers}" if numbers else name, "verdict"))
            page.append(self.table(name) if results.results else Words("No results."))
        return page

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "query": self.query,
            "text": self.text,
            "systems": [
                {
                    "name": name,
                    "measures": numbers_or_none(self.values.get(name, {})),
                    "results": [
                        {"rank": rank, **doc.to_dict()}
                        for rank, doc in enumerate(results.results, 1)
                    ],
                    "missed": [{"rank": None, **doc.to_dict()} for doc in results.missed],
                }
                for name, results in self.by_system.items()
            ],
        }


def _rank(results: QueryResults, doc: str) -> str:
    """Return a document's rank, "below" if cut off, – if not retrieved."""
    for rank, result in enumerate(results.results, 1):
        if result.doc == doc:
            return str(rank)
    below = f"> {len(results.results)}"
    for missed in results.missed:
        if missed.doc == doc:
            return "–" if missed.score is None else below
    return f"{below} or –"  # more were missed than a store has


def _judged(grade: float | None) -> str:
    if grade is None:
        return "·"
    return f"✓ {grade:g}" if grade > 0 else f"✗ {grade:g}"


def explain_bench(result: BenchResult, query: str, *, places: int = PLACES) -> Answers:
    """Return one query of a bench as every system answered it.

    Args:
        result: What `run_bench` returns.
        query: Id of the query.
        places: Number of documents of each system.

    Returns:
        The answers, with the scores of the query.

    Raises:
        IdError: There is no such query.

    Example:
        print(text_page(explain_bench(result, "q07").page()))
    """
    _check_query(query, result.collection)
    snippets = SnippetBuilder(result.collection)
    results = {
        system.name: snippets.build(system.ranking, query, system.result.chunks, places=places)
        for system in result.systems
    }
    values = {system.name: _values(system.scores, query) for system in result.systems}
    return Answers(query, results, values)


def explain_rankings(
    collection: Collection, rankings: Mapping[str, Ranking], query: str, *, places: int = PLACES
) -> Answers:
    """Return one query of several rankings of one collection.

    Args:
        collection: Texts and judgments.
        rankings: Rankings by the names of their systems.
        query: Id of the query.
        places: Number of documents of each system.

    Returns:
        The answers, without scores.

    Raises:
        IdError: There is no such query.

    Example:
        explain_rankings(collection, {"dense": as_ranking("dense.run")}, "q07").relevant
    """
    _check_query(query, collection)
    snippets = SnippetBuilder(collection)
    build = partial(snippets.build, query=query, places=places)
    return Answers(query, {name: build(ranking) for name, ranking in rankings.items()}, {})


def _check_query(query: str, source: Any) -> None:
    queries = [str(id) for id in source.query_ids]
    if query not in queries:
        hint = did_you_mean(query, queries, most=3, fallback=3)
        texts = zip(queries, getattr(source, "query_texts", ()), strict=False)
        same = [id for id, text in texts if text.split() == query.split()]
        if same:
            hint = f" That is the text of query {name_few(same)}. Pass the id."
        elif len(query.split()) > 1:
            hint += " Pass the id of a query, not its text."
        raise IdError(f"Unknown query {query!r}.{hint}")


def explain_runs(runs: Sequence[Any], query: str, *, places: int = PLACES) -> Answers:
    """Return one query of runs in a store that have their results.

    Args:
        runs: Runs of a store.
        query: Id of the query.
        places: Number of documents of each system; a store has 10.

    Returns:
        The answers, with the scores of the query.

    Raises:
        UsageError: There are no runs, or they were stored without their results.
        IdError: There is no such query.

    Example:
        explain_runs(store.runs(task="bench"), "q07").to_dict()
    """
    if not runs:
        raise UsageError("Run not found in the store. 'assay runs list' lists all.")
    by_system, values = {}, {}
    for run in runs:
        results = run.results(query)
        if results is None:
            continue
        name = run.name if run.name not in by_system else f"{run.name} ({run.id})"
        by_system[name] = _cut(results, places)
        values[name] = _values(run.scores(), query)
    if not by_system:
        _check_query(query, runs[0].scores())
        advice = "'assay bench --save' stores them"
        raise UsageError(f"Run {runs[0].id} has no stored results. {advice}.")
    return Answers(query, by_system, values)


def _cut(results: QueryResults, places: int) -> QueryResults:
    """Return the first places; relevant documents below them count as missed."""
    below = [doc for doc in results.results[places:] if doc.grade is not None and doc.grade > 0]
    return replace(results, results=results.results[:places], missed=(*below, *results.missed))


def _values(scores: Any, query: str) -> dict[str, float]:
    for row, id in enumerate(scores.query_ids):
        if str(id) == query:
            return dict(zip(map(str, scores.measures), scores.values[:, row].tolist(), strict=True))
    return {}


class SnippetBuilder:
    """Add texts and grades of a collection to rankings of its documents.

    Where documents were cut, `chunks` are the places of those that matched, which are shown.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._snippets: dict[tuple[int, int, int], str] = {}

    def build_all(self, ranking: Ranking, chunks: Ints | None = None) -> dict[str, QueryResults]:
        """Build the results of every query: text, first documents, some of the missed ones."""
        rows = _RankedDocs(ranking, self._collection, chunks)
        return {
            query: self._results(query, rows, number, PLACES, _MISSED)
            for number, query in enumerate(map(str, ranking.query_ids))
        }

    def build(
        self, ranking: Ranking, query: str, chunks: Ints | None = None, *, places: int = PLACES
    ) -> QueryResults:
        """Return one query of a ranking; without results where the ranking does not hold it."""
        number = int(Ids.of([query], "query").match(ranking.query_ids)[0])
        rows = _RankedDocs(ranking, self._collection, chunks)
        return self._results(query, rows, number, places, len(self._collection.qrels.doc_ids))

    def _results(
        self, query: str, rows: _RankedDocs, number: int, places: int, most: int
    ) -> QueryResults:
        """Return the first documents, and relevant ones that are not among them."""
        docs, scores, chunks = rows.of(number)
        judged, grades = self._judged(query)
        numbers = rows.judged[judged]  # -1 where the ranking's documents do not hold one
        graded = dict(zip(numbers.tolist(), grades.tolist(), strict=True))
        firsts = (part[:places].tolist() for part in (docs, scores, chunks))
        best = [
            self._doc(rows, doc, score, graded.get(doc), chunk)
            for doc, score, chunk in zip(*firsts, strict=True)
        ]
        missed: list[ResultDoc] = []
        for at in np.argsort(-grades, kind="stable"):  # best grade first
            doc, grade = int(numbers[at]), float(grades[at])
            where = np.flatnonzero(docs == doc) if doc >= 0 else docs[:0]
            if grade <= 0 or len(missed) == most or (len(where) and where[0] < places):
                continue
            score = float(scores[where[0]]) if len(where) else None
            chunk = chunks[where[0]].tolist() if len(where) else _WHOLE
            if doc >= 0:
                missed.append(self._doc(rows, doc, score, grade, chunk))
            else:
                name = str(self._collection.qrels.doc_ids[int(judged[at])])
                missed.append(ResultDoc(name, None, grade))
        return QueryResults(self._texts.get(query, ""), tuple(best), tuple(missed))

    def _doc(
        self,
        rows: _RankedDocs,
        doc: int,
        score: float | None,
        grade: float | None,
        chunk: Sequence[int],
    ) -> ResultDoc:
        """Return a document with the chunk that matched, or with its beginning (number 0)."""
        row, (number, start, end) = int(rows.place[doc]), chunk
        key = row, start, end
        if row >= 0 and key not in self._snippets:
            text = self._collection.doc_texts[row]
            self._snippets[key] = snippet(text[start:end] if number else text)
        place = (number, start, end) if number else None
        return ResultDoc(rows.names[doc], score, grade, self._snippets.get(key, ""), place)

    @cached_property
    def _texts(self) -> dict[str, str]:
        queries = self._collection.query_ids
        return dict(zip(map(str, queries), self._collection.query_texts, strict=True))

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {str(id): row for row, id in enumerate(self._collection.qrels.query_ids)}

    def _judged(self, query: str) -> tuple[Ints, NDArray[np.float64]]:
        """Return numbers of the judged documents of a query, and their grades."""
        qrels = self._collection.qrels
        row = self._row_of.get(query)
        inside = slice(0, 0) if row is None else slice(qrels.offsets[row], qrels.offsets[row + 1])
        return np.asarray(qrels.docs[inside], np.int64), qrels.grades[inside]


class _RankedDocs:
    """A ranking's documents by number: their names, places in the collection, and judged ones."""

    def __init__(self, ranking: Ranking, collection: Collection, chunks: Ints | None) -> None:
        self._ranking = ranking
        self._chunks = np.tile(_WHOLE, (len(ranking.docs), 1)) if chunks is None else chunks
        self.names = [str(id) for id in ranking.doc_ids]
        ids = Ids.of(self.names, "doc")
        self.place = ids.match(collection.doc_ids)
        self.judged = collection.qrels.doc_ids.match(ids)

    def of(self, number: int) -> tuple[Ints, NDArray[np.float64], Ints]:
        """Return documents, scores and chunks of one query, best first; none below number 0."""
        offsets = self._ranking.offsets
        inside = slice(0, 0) if number < 0 else slice(offsets[number], offsets[number + 1])
        docs, scores = self._ranking.docs[inside], self._ranking.scores[inside]
        return docs.astype(np.int64), scores, self._chunks[inside]


def snippet(text: str, length: int = _LENGTH) -> str:
    """Return the beginning of a text in one line, cut between words.

    >>> snippet("One two\\n three four", 9)
    'One two …'
    """
    line = _BLANKS.sub(" ", text[: 4 * length]).strip()
    if len(line) <= length:
        return line
    return f"{line[: length - 1].rsplit(' ', 1)[0]} …"
