"""One query as every contestant answered it: what was found, what was missed, with snippets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.core.text import did_you_mean
from assay.errors import IdError, UsageError
from assay.runs.results import QueryResults, ResultDoc
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table
from assay.tasks.bench.snippets import PLACES, SnippetBuilder, snippet

if TYPE_CHECKING:
    from assay.core.ranking import Ranking
    from assay.io.collections import Collection
    from assay.store import Run
    from assay.tasks.bench.result import BenchResult

__all__ = ["Answers", "explain_bench", "explain_rankings", "explain_runs"]

_SNIPPET: Final = 72


@dataclass(frozen=True)
class Answers:
    """What several contestants found for one query; `values` are theirs on it, by measure."""

    query: str
    by_system: Mapping[str, QueryResults]
    values: Mapping[str, Mapping[str, float]]

    @property
    def text(self) -> str:
        """What was asked."""
        return next((one.text for one in self.by_system.values() if one.text), "")

    @property
    def relevant(self) -> list[ResultDoc]:
        """The relevant documents that any contestant found or missed, best grade first."""
        seen: dict[str, ResultDoc] = {}
        for one in self.by_system.values():
            for doc in (*one.results, *one.missed):
                if doc.grade is not None and doc.grade > 0:
                    seen.setdefault(doc.doc, doc)
        return sorted(seen.values(), key=lambda doc: (-(doc.grade or 0), doc.doc))

    def relevant_table(self) -> Table:
        """Where each contestant ranks each relevant document."""
        rows = [
            (
                Cell(doc.doc),
                Cell(f"{doc.grade:g}", "figure"),
                *(Cell(_rank(one, doc.doc), "figure") for one in self.by_system.values()),
                Cell(snippet(doc.snippet, _SNIPPET)),
            )
            for doc in self.relevant
        ]
        return Table(("relevant", "grade", *self.by_system, "text"), tuple(rows))

    def table(self, name: str) -> Table:
        """What one contestant found: rank, document, grade, score, and how the text begins."""
        rows = [
            (
                Cell(rank, "count"),
                Cell(doc.doc),
                Cell(_judged(doc.grade)),
                Cell(None if doc.score is None else f"{doc.score:.4f}", "figure"),
                Cell(snippet(doc.snippet, _SNIPPET)),
            )
            for rank, doc in enumerate(self.by_system[name].results, 1)
        ]
        return Table(("rank", "document", "judged", "score", "text"), tuple(rows))

    def page(self) -> Page:
        """The query, its relevant documents, and what each contestant found."""
        page: Page = [Words(f"{self.query}: {self.text}", "verdict")]
        if self.relevant:
            page.append(self.relevant_table())
        else:
            page.append(Words("No document is known to be relevant."))
        for name, one in self.by_system.items():
            values = self.values.get(name, {})
            shown = ", ".join(f"{key} {value:.4f}" for key, value in values.items())
            page.append(Words(f"{name}: {shown}" if shown else name, "verdict"))
            page.append(self.table(name) if one.results else Words("It found nothing."))
        return page

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "query": self.query,
            "text": self.text,
            "systems": [
                {
                    "name": name,
                    "measures": {
                        key: None if math.isnan(value) else value
                        for key, value in self.values.get(name, {}).items()
                    },
                    "results": [_plain(doc, rank) for rank, doc in enumerate(one.results, 1)],
                    "missed": [_plain(doc, None) for doc in one.missed],
                }
                for name, one in self.by_system.items()
            ],
        }


def _plain(doc: ResultDoc, rank: int | None) -> dict[str, Any]:
    return {
        "rank": rank,
        "doc": doc.doc,
        "score": doc.score,
        "grade": doc.grade,
        "snippet": doc.snippet,
    }


def _rank(one: QueryResults, doc: str) -> str:
    for rank, found in enumerate(one.results, 1):
        if found.doc == doc:
            return str(rank)
    deeper = any(missed.doc == doc and missed.score is not None for missed in one.missed)
    return f"> {len(one.results)}" if deeper else "–"


def _judged(grade: float | None) -> str:
    if grade is None:
        return "·"
    return f"✓ {grade:g}" if grade > 0 else f"✗ {grade:g}"


def explain_bench(result: BenchResult, query: str, *, places: int = PLACES) -> Answers:
    """One query of a bench."""
    rankings = {one.name: one.ranking for one in result.systems}
    answers = explain_rankings(result.collection, rankings, query, places=places)
    values = {one.name: _values(one.scores, query) for one in result.systems}
    return Answers(query, answers.by_system, values)


def explain_rankings(
    collection: Collection, rankings: Mapping[str, Ranking], query: str, *, places: int = PLACES
) -> Answers:
    """One query of several rankings of one collection."""
    known = [str(id) for id in collection.query_ids]
    if query not in known:
        raise _unknown(query, known)
    showing = SnippetBuilder(collection)
    found = {name: showing.one(ranking, query, places=places) for name, ranking in rankings.items()}
    return Answers(query, found, {})


def explain_runs(runs: Sequence[Run], query: str) -> Answers:
    """One query of runs in a store that kept what they found."""
    if not runs:
        raise UsageError("There is no such run in the store. 'assay runs list' shows what is.")
    found, values = {}, {}
    for run in runs:
        shown = run.results(query)
        if shown is None:
            continue
        name = run.name if run.name not in found else f"{run.name} ({run.id})"
        found[name] = shown
        values[name] = _values(run.scores(), query)
    if not found:
        known = [str(id) for id in runs[0].scores().query_ids]
        if query not in known:
            raise _unknown(query, known)
        raise UsageError(f"Run {runs[0].id} did not keep what it found. 'assay bench --save' does.")
    return Answers(query, found, values)


def _values(scores: Any, query: str) -> dict[str, float]:
    for row, id in enumerate(scores.query_ids):
        if str(id) == query:
            return {
                str(measure): float(scores.values[number, row])
                for number, measure in enumerate(scores.measures)
            }
    return {}


def _unknown(query: str, known: Iterable[str]) -> IdError:
    hint = did_you_mean(query, known, most=3, fallback=3)
    return IdError(f"There is no query {query!r}.{hint}")
