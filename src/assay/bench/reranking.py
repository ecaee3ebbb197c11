"""Two stages: the first texts of a system are put in order by a reranker."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from assay.arrays import Floats, Ints, offsets_of
from assay.bench.plan import PreparedCollection, Rerank
from assay.bench.search import SearchOptions, SearchResult, add_seconds, number_entries, rank_units
from assay.core.ranking import Ranking
from assay.errors import InputError, UsageError
from assay.models.rerankers import PairScores, Reranker

_DEPTH: Final = 100


def check_depth(plan: Rerank, depth: int, *, chunked: bool) -> int:
    """Return how many documents or chunks are put in order; no more documents than retrieved."""
    if plan.count == "chunks":
        if not chunked:
            advice = "give a rule, with chunk"
            raise UsageError(f"{plan.name!r} counts chunks, but documents are not cut: {advice}.")
        return plan.depth or _DEPTH
    if plan.depth is not None and plan.depth > depth:
        raise UsageError(
            f"{plan.name!r} reranks {plan.depth} documents, but {depth} are retrieved: add "
            f"--depth {plan.depth}."
        )
    return plan.depth or min(_DEPTH, depth)


def rerank(
    plan: Rerank,
    reranker: Reranker,
    first: SearchResult,
    data: PreparedCollection,
    options: SearchOptions,
) -> SearchResult:
    """Order the first documents by the reranker; the others follow as they were.

    A document that is cut into chunks has the score of its best one (MaxP, Dai and Callan 2019). It
    costs what the first stage costs, and the time of the reranker for pairs that are not cached.
    """
    depth = check_depth(plan, options.depth, chunked=data.chunked)
    retrieved = _rows(first.ranking, data)
    if any((row < 0).any() for row in retrieved):
        what = f"{plan.first!r} returned ids that are not in the collection"
        raise InputError(f"{what}, so there is no text to rerank. Map them with --doc-of.")
    if plan.count == "documents":
        spans = ([data.bounds[[doc, doc + 1]] for doc in row[:depth]] for row in retrieved)
        units = [np.concatenate([*(np.arange(*at) for at in row), _NOTHING]) for row in spans]
    elif first.units is None:
        raise UsageError(f"{plan.name!r} counts chunks: {plan.first!r} has no ranking of these.")
    else:
        starts = data.query_ids.match(first.units.query_ids)
        units = [_NOTHING if at < 0 else _row(first.units, at)[:depth] for at in starts]
    pairs = PairScores(reranker, data.query_texts, data.unit_texts, units, options.cache)
    cached = f", {pairs.n_cached:,} of them in the cache" if pairs.n_cached else ""
    total = pairs.n_pairs
    options.tell(plan.name, f"reranking {total:,} pairs{cached}", 0, total)
    docs, scores, keys, best, of_units = [], [], [], [], []
    ends = np.cumsum([len(row) for row in units]).tolist()
    for row, (values, numbers) in enumerate(zip(pairs.compute(), units, strict=True)):
        head, tops, best_chunks = _best_of(data.unit_doc[numbers], values, numbers)
        rest = retrieved[row][~np.isin(retrieved[row], head)]
        # The others follow with scores below all of these, descending.
        low = float(tops.min()) if len(tops) else 0.0
        steps = np.arange(1, len(rest) + 1, dtype=np.float64)
        docs.append(np.concatenate([head, rest]))
        scores.append(np.concatenate([tops, low - max(1.0, abs(low)) * 1e-6 * steps]))
        keys.append(row * len(data.doc_ids) + head)
        best.append(best_chunks)
        of_units.append(values)
        options.tell(plan.name, "reranking", ends[row], total)
    ranking = Ranking(
        data.query_ids,
        data.doc_ids,
        offsets_of(np.array([len(row_docs) for row_docs in docs])),
        np.concatenate(docs).astype(np.int32),
        np.concatenate(scores),
        in_order=False,
        n_docs=len(data.doc_ids),
        has_ids=True,
        search=first.ranking.search,
        settings=first.ranking.settings,
    )
    ranking = replace(ranking.first(options.depth), tiebreak=options.tiebreak)
    options.tell(plan.name, "searching", 1, 1)
    of_chunks = " chunks" if plan.count == "chunks" else ""
    chunks = ranked = None
    if options.unit_depth and data.chunked:
        parts = offsets_of(list(map(len, units))), np.concatenate(units), np.concatenate(of_units)
        ranked = rank_units(data, *parts).first(options.unit_depth)
    if first.chunks is not None:
        reranked = np.concatenate(keys), data.places[np.concatenate(best)]
        before = number_entries(first.ranking, data), first.chunks
        chunks = pick_chunks(number_entries(ranking, data), reranked, before)
    return replace(
        first,
        ranking=ranking,
        costs=replace(
            first.costs,
            search_seconds=add_seconds(first.costs.search_seconds, pairs.seconds),
            serving=None,
            tokens=pairs.tokens,
            pairs=total,
            pairs_computed=pairs.n_computed,
        ),
        n_cut=None,  # what the first stage does to texts is said of it
        n_without=0,
        tuning=None,
        fingerprint=f"{first.fingerprint} {reranker.fingerprint} {depth}{of_chunks}",
        chunks=chunks,
        units=ranked,
        remarks=(),
        findings=(),
    )


_NOTHING: Final = np.empty(0, np.int64)


def _row(ranking: Ranking, row: int) -> Ints:
    part: Ints = ranking.docs[ranking.offsets[row] : ranking.offsets[row + 1]].astype(np.int64)
    return part


def _rows(ranking: Ranking, data: PreparedCollection) -> list[Ints]:
    """Return the ranked documents of each query, by their numbers in the collection."""
    number = ranking.doc_ids.match(data.doc_ids)
    rows = data.query_ids.match(ranking.query_ids)
    return [_NOTHING if row < 0 else number[_row(ranking, row)] for row in rows]


def _best_of(docs: Ints, scores: Floats, units: Ints) -> tuple[Ints, Floats, Ints]:
    """Return each document once, the score of its best unit, and that unit."""
    order = np.lexsort((-scores, docs))
    heads = order[np.diff(docs[order], prepend=-1) != 0]
    return docs[heads], scores[heads], units[heads]


def pick_chunks(entries: Ints, *sources: tuple[Ints, Ints]) -> Ints:
    """Return a chunk for each entry, from the first source that knows it: entries and chunks."""
    numbers, chunks = map(np.concatenate, zip(*sources, strict=True))
    distinct, places = np.unique(numbers, return_index=True)  # the first of each
    return chunks[places[np.searchsorted(distinct, entries)]]
