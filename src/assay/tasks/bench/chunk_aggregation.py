"""From rankings of chunks to rankings of documents: a document's score from those of its chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.arrays import Ints, offsets_of
from assay.core import checks, order
from assay.core.ids import Ids
from assay.core.numbers import parse_whole
from assay.core.ranking import Ranking
from assay.errors import UsageError
from assay.tasks.bench.collection import PreparedCollection

if TYPE_CHECKING:
    from assay.tasks.bench.search import SearchOptions

__all__ = ["ChunkAggregation", "SearchUnits", "aggregate_chunks", "rank_documents"]

# Ranks the first k units for a block of queries.
SearchUnits = Callable[[slice, int], Ranking]

_MOST_SCORES: Final = 20_000_000  # of chunks at once, where all of them are needed


@dataclass(frozen=True)
class ChunkAggregation:
    """The score of a document: the sum over its `best` chunks; 1 is the maximum.

    >>> ChunkAggregation.parse("max"), str(ChunkAggregation.parse("sum:3"))
    (ChunkAggregation(best=1), 'sum:3')
    """

    best: int = 1

    @classmethod
    def parse(cls, text: str) -> ChunkAggregation:
        """From `max` or `sum:N`."""
        if text == "max":
            return cls(1)
        kind, _, number = text.partition(":")
        if kind != "sum" or (parse_whole(number) or 0) < 1:
            raise UsageError(
                f"Chunk scores are aggregated by 'max' or 'sum:N', such as sum:3, not {text!r}."
            )
        return cls(int(number))

    def __str__(self) -> str:
        """As it is written."""
        return "max" if self.best == 1 else f"sum:{self.best}"


def rank_documents(
    search: SearchUnits, n_queries: int, data: PreparedCollection, options: SearchOptions
) -> Ranking:
    """The ranking of documents for all queries, from searches of the units."""
    blocks = _blocks(n_queries, data, options)
    return _concatenate([_rank_block(search, rows, data, options) for rows in blocks])


def _blocks(n_queries: int, data: PreparedCollection, options: SearchOptions) -> Iterator[slice]:
    """All queries at once, unless every chunk of every document is needed."""
    step = n_queries
    if data.chunked and options.aggregation.best > 1:
        step = max(1, _MOST_SCORES // data.n_units)
    for start in range(0, n_queries, step):
        yield slice(start, min(start + step, n_queries))


def _rank_block(
    search: SearchUnits, rows: slice, data: PreparedCollection, options: SearchOptions
) -> Ranking:
    if not data.chunked:
        made = search(rows, min(options.depth, data.n_units))
        docs = data.unit_doc[made.docs].astype(np.int32)
        return replace(
            made,
            doc_ids=data.doc_ids,
            given_docs=docs,
            given_scores=made.scores,
            in_order=True,
            n_docs=len(data.doc_ids),
            tiebreak=options.tiebreak,
            has_ids=True,
        )
    k = data.n_units if options.aggregation.best > 1 else min(4 * options.depth, data.n_units)
    while True:
        made = search(rows, k)
        ranking = aggregate_chunks(
            replace(made, has_ids=True),
            data.unit_doc,
            doc_ids=data.doc_ids,
            aggregation=options.aggregation,
            depth=options.depth,
        )
        full = (ranking.lengths >= options.depth) | (made.lengths < k)
        if k >= data.n_units or full.all():
            return replace(ranking, tiebreak=options.tiebreak)
        k = min(4 * k, data.n_units)  # some query has too few documents yet


def _concatenate(parts: list[Ranking]) -> Ranking:
    """Rankings of different queries as one."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([part.lengths for part in parts])
    tie_split = [
        np.zeros(len(part), bool) if part.tie_split is None else part.tie_split for part in parts
    ]
    return replace(
        parts[0],
        query_ids=Ids.concat([part.query_ids for part in parts]),
        offsets=offsets_of(lengths),
        given_docs=np.concatenate([part.docs for part in parts]),
        given_scores=np.concatenate([part.scores for part in parts]),
        in_order=True,
        tie_split=np.concatenate(tie_split),
    )


def aggregate_chunks(
    chunks: Ranking, doc_of_chunk: Any, *, doc_ids: Ids, aggregation: ChunkAggregation, depth: int
) -> Ranking:
    """The ranking of documents; chunk i belongs to document `doc_of_chunk[i]`.

    A document's score is over the chunks that were retrieved; the others add nothing.

    >>> chunks = Ranking.from_scores([[0.2, 0.9, 0.8]])
    >>> two = ChunkAggregation(2)
    >>> aggregate_chunks(chunks, [0, 0, 1], doc_ids=Ids.count(2), aggregation=two, depth=2).row(0)
    [(0, 1.1), (1, 0.8)]
    """
    owner = checks.check_numbers(doc_of_chunk, len(doc_ids), "doc_of_chunk")
    rows, docs = order.rows_of(chunks.offsets), owner[chunks.docs]
    key = rows * len(doc_ids) + docs
    by_key = np.argsort(key, kind="stable")  # chunks of one document stay best first
    firsts, place = _places_in_group(key[by_key])
    counted = by_key[place < aggregation.best]
    group = np.searchsorted(firsts, np.flatnonzero(place < aggregation.best), side="right") - 1
    scores = np.zeros(len(firsts))
    np.add.at(scores, group, chunks.scores[counted])  # one by one, in the order of ranks
    heads = by_key[firsts]
    ranking = Ranking(
        chunks.query_ids,
        doc_ids,
        np.searchsorted(rows[heads], np.arange(chunks.n_queries + 1)).astype(np.int64),
        docs[heads].astype(np.int32),
        scores,
        in_order=False,
        n_docs=len(doc_ids),
        has_ids=chunks.has_ids,
        search=chunks.search,
        settings=chunks.settings,
    )
    return replace(ranking.first(depth), name=chunks.name)


def _places_in_group(keys: Ints) -> tuple[Ints, Ints]:
    """Where each run of equal keys begins, and the place of every element in its run."""
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    firsts = np.flatnonzero(new)
    return firsts, np.arange(len(keys)) - np.repeat(firsts, np.diff([*firsts, len(keys)]))
