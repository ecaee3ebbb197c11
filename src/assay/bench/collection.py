"""The queries and texts of a bench: a collection without empty or unjudged ones, in tie order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from assay.arrays import Ints, offsets_of, rows_of
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.core.text import parse_whole
from assay.errors import InputError, UsageError
from assay.io.collections import Collection
from assay.io.texts import ChunkRule, chunk_docs

if TYPE_CHECKING:
    from assay.bench.search import SearchOptions


class InFile(NamedTuple):
    """Ids and texts in the collection's own order, and which rows take part.

    Vectors that were made elsewhere belong to these by order, empty texts among them.
    """

    ids: Ids
    texts: Sequence[str]
    rows: Ints


@dataclass(frozen=True, eq=False)
class PreparedCollection:
    """Queries, and the units (documents, or chunks of them) to search.

    `doc_ids` are all documents in the order that breaks ties; unit i has `unit_texts[i]` and
    belongs to document `unit_doc[i]`. Units are in the order of their documents, so that the lower
    number wins a tie whoever searches.
    """

    query_ids: Ids
    query_texts: tuple[str, ...]
    doc_ids: Ids
    unit_texts: tuple[str, ...]
    unit_doc: Ints
    chunk: ChunkRule | None
    docs_in_file: InFile
    queries_in_file: InFile

    @property
    def chunked(self) -> bool:
        """Whether units are chunks of documents."""
        return self.chunk is not None

    @property
    def n_units(self) -> int:
        """Number of texts to search."""
        return len(self.unit_texts)


def prepare(
    collection: Collection, rules: Conventions, chunk: ChunkRule | None
) -> PreparedCollection:
    """Leave out what has no text or no judgment, cut documents into chunks, and order by tie rule.

    Documents are ordered by id as the conventions say, or stay as they stand in the file; results
    do not depend on the order of lines where ties go by id.
    """
    judged = collection.query_ids.match(collection.qrels.query_ids) >= 0
    answerable = [at for at in collection.query_ids.order() if judged[at]]
    rows = np.array([at for at in answerable if collection.query_texts[at].strip()], np.int64)
    order = _tie_order(collection.doc_ids, rules.tiebreak)
    doc_ids = collection.doc_ids.take(order)
    texts = [collection.doc_texts[at] for at in order]
    if not len(rows):
        raise InputError("No judged query has a text, so there is nothing to search for.")
    ids, units, owner = _units(doc_ids, texts, chunk)
    if not units:
        raise InputError("All documents are empty, so there is nothing to search.")
    place = np.argsort(order[owner], kind="stable")
    in_file = InFile(ids.take(place), [units[at] for at in place], np.argsort(place, kind="stable"))
    if chunk is None:
        in_file = InFile(collection.doc_ids, collection.doc_texts, order[owner])
    return PreparedCollection(
        collection.query_ids.take(rows),
        tuple(collection.query_texts[at] for at in rows),
        doc_ids,
        units,
        owner,
        chunk,
        in_file,
        InFile(collection.query_ids, collection.query_texts, rows),
    )


def _tie_order(ids: Ids, tiebreak: str) -> Ints:
    if tiebreak == "index":
        return np.arange(len(ids))
    return np.array(ids.order(descending=tiebreak == "id-descending"), np.int64)


def _units(
    doc_ids: Ids, texts: list[str], chunk: ChunkRule | None
) -> tuple[Ids, tuple[str, ...], Ints]:
    if chunk is not None:
        chunks = chunk_docs(doc_ids, texts, chunk)
        return chunks.ids, chunks.texts, chunks.doc
    owner = np.flatnonzero([bool(text.strip()) for text in texts])
    return doc_ids.take(owner), tuple(texts[at] for at in owner), owner


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
        """Parse `max` or `sum:N`."""
        if text == "max":
            return cls(1)
        kind, _, number = text.partition(":")
        if kind != "sum" or (parse_whole(number) or 0) < 1:
            raise UsageError(
                f"Chunk scores are aggregated by 'max' or 'sum:N', such as sum:3, not {text!r}."
            )
        return cls(int(number))

    def __str__(self) -> str:
        return "max" if self.best == 1 else f"sum:{self.best}"


def rank_documents(
    search: SearchUnits, n_queries: int, data: PreparedCollection, options: SearchOptions
) -> Ranking:
    """Return the ranking of documents for all queries, from searches of the units."""
    blocks = _blocks(n_queries, data, options)
    return _concatenate([_rank_block(search, rows, data, options) for rows in blocks])


def _blocks(n_queries: int, data: PreparedCollection, options: SearchOptions) -> Iterator[slice]:
    """Yield all queries at once, unless every chunk of every document is needed."""
    step = n_queries
    if data.chunked and options.aggregation.best > 1:
        step = max(1, _MOST_SCORES // data.n_units)
    for start in range(0, n_queries, step):
        yield slice(start, min(start + step, n_queries))


def _rank_block(
    search: SearchUnits, rows: slice, data: PreparedCollection, options: SearchOptions
) -> Ranking:
    if not data.chunked:
        units = search(rows, min(options.depth, data.n_units))
        docs = data.unit_doc[units.docs].astype(np.int32)
        return replace(
            units,
            doc_ids=data.doc_ids,
            given_docs=docs,
            given_scores=units.scores,
            in_order=True,
            n_docs=len(data.doc_ids),
            tiebreak=options.tiebreak,
            has_ids=True,
        )
    k = data.n_units if options.aggregation.best > 1 else min(4 * options.depth, data.n_units)
    while True:
        units = search(rows, k)
        ranking = aggregate_chunks(
            replace(units, has_ids=True),
            data.unit_doc,
            doc_ids=data.doc_ids,
            aggregation=options.aggregation,
            depth=options.depth,
        )
        full = (ranking.lengths >= options.depth) | (units.lengths < k)
        if k >= data.n_units or full.all():
            return replace(ranking, tiebreak=options.tiebreak)
        k = min(4 * k, data.n_units)  # some query has too few documents yet


def _concatenate(parts: list[Ranking]) -> Ranking:
    """Return rankings of different queries as one."""
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
    """Return the ranking of documents; chunk i belongs to document `doc_of_chunk[i]`.

    A document's score is over the chunks that were retrieved; the others add nothing.

    >>> chunks = Ranking.from_scores([[0.2, 0.9, 0.8]])
    >>> two = ChunkAggregation(2)
    >>> aggregate_chunks(chunks, [0, 0, 1], doc_ids=Ids.count(2), aggregation=two, depth=2).row(0)
    [(0, 1.1), (1, 0.8)]
    """
    owner = checks.check_numbers(doc_of_chunk, len(doc_ids), "doc_of_chunk")
    rows, docs = rows_of(chunks.offsets), owner[chunks.docs]
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
    """Return where each run of equal keys begins, and the place of every element in its run."""
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    firsts = np.flatnonzero(new)
    return firsts, np.arange(len(keys)) - np.repeat(firsts, np.diff([*firsts, len(keys)]))
