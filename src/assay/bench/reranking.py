"""Two stages: the first texts of a system are put in order by a reranker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, Ints, offsets_of
from assay.bench.plan import PreparedCollection, Rerank
from assay.bench.search import (
    Costs,
    SearchOptions,
    SearchResult,
    add_seconds,
    check_tokens,
    number_entries,
    rank_units,
    read_rows,
)
from assay.core.ranking import Ranking
from assay.errors import InputError, UsageError
from assay.models import EncoderSettings, TextModel, text_model
from assay.models.ragged import count_bytes
from assay.models.rerankers import PairScores, Reranker
from assay.search.engine import score_pairs

_DEPTH: Final = 100


@dataclass(frozen=True, eq=False)
class TokenReranker:
    """Score texts by exact MaxSim of a model's token vectors; only candidates are encoded."""

    model: TextModel

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the model."""
        return f"maxsim {self.model.fingerprint}"

    @property
    def identity(self) -> str | None:
        """Return the fingerprint, if that tells all that scores depend on."""
        return self.model.fingerprint if self.model.repeatable else None

    @property
    def mark(self) -> str:
        """Return eight characters of it, for a signature."""
        return self.model.fingerprint[:8]


def open_tokens(plan: Rerank, settings: EncoderSettings, options: SearchOptions) -> TokenReranker:
    """Open the model of `maxsim:MODEL`, which must make token vectors."""
    spec = plan.reranker.removeprefix("maxsim:")
    where: Any = {"cache": options.cache, "device": options.device}
    model = text_model(spec, settings=settings, warm_up=True, ragged=True, **where)
    check_tokens(plan, model.kind)
    return TokenReranker(model)


class TokenPairs:
    """Score pairs of a query and a text by MaxSim, as `PairScores` does by a cross-encoder."""

    def __init__(
        self,
        reranker: TokenReranker,
        data: PreparedCollection,
        numbers: Sequence[Ints],
        options: SearchOptions,
    ) -> None:
        self._reranker, self._data, self._numbers = reranker, data, numbers
        self._threads = options.threads
        self.n_pairs = self.n_computed = sum(map(len, numbers))
        self.n_cached, self.n_encoded, self.size = 0, 0, 0
        self.seconds, self.encode_seconds = 0.0, 0.0
        self.tokens: int | None = None

    def compute(self) -> Iterator[Floats]:
        """Yield the scores of each query's texts; −∞ where one of both has no token."""
        model, data = self._reranker.model, self._data
        some = np.unique(np.concatenate([*self._numbers, _NOTHING]), return_counts=True)[0]
        if not len(some):
            yield from (np.empty(0) for _ in self._numbers)
            return
        if model.spec.startswith("npy:"):
            docs = read_rows(model.encode_docs, data.docs_in_file)
            queries = read_rows(model.encode_queries, data.queries_in_file)
            places = self._numbers
        else:
            docs = model.encode_docs([data.unit_texts[number] for number in some.tolist()])
            queries = model.encode_queries(data.query_texts)
            places = [np.searchsorted(some, row) for row in self._numbers]
        self.encode_seconds = docs.seconds + queries.seconds
        self.n_encoded = docs.n_computed + queries.n_computed
        self.size = count_bytes(docs.vectors)
        began = time.perf_counter()
        scores = score_pairs(queries.vectors, docs.vectors, places, threads=self._threads)
        self.seconds = time.perf_counter() - began
        yield from scores


def check_depth(plan: Rerank, depth: int, *, chunked: bool) -> int:
    """Return how many documents or chunks are put in order; no more documents than retrieved."""
    if plan.count == "chunks":
        if not chunked:
            advice = "set chunk"
            raise UsageError(f"{plan.name!r} counts chunks of whole documents: {advice}.")
        return plan.depth or _DEPTH
    if plan.depth is not None and plan.depth > depth:
        raise UsageError(
            f"{plan.name!r} reranks {plan.depth} documents of {depth} retrieved. Add --depth "
            f"{plan.depth}."
        )
    return plan.depth or min(_DEPTH, depth)


def rerank(
    plan: Rerank,
    reranker: Reranker | TokenReranker,
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
        what = f"{plan.first!r} returned ids outside the collection"
        raise InputError(f"{what}. Map them with --doc-of.")
    if plan.count == "documents":
        spans = ([data.bounds[[doc, doc + 1]] for doc in row[:depth]] for row in retrieved)
        units = [np.concatenate([*(np.arange(*at) for at in row), _NOTHING]) for row in spans]
    elif first.units is None:
        raise UsageError(f"{plan.name!r} counts chunks: {plan.first!r} ranks none. Omit chunks.")
    else:
        starts = data.query_ids.match(first.units.query_ids)
        units = [_NOTHING if at < 0 else _row(first.units, at)[:depth] for at in starts]
    pairs = _pairs_of(reranker, data, units, options)
    cached = f", {pairs.n_cached:,} cached" if pairs.n_cached else ""
    total = pairs.n_pairs
    options.tell(plan.name, f"reranking {total:,} pairs{cached}", 0, total)
    docs, scores, keys, best, of_units, scored = [], [], [], [], [], []
    ends = np.cumsum([len(row) for row in units]).tolist()
    for row, (values, numbers) in enumerate(_scored(pairs, units)):
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
        scored.append(numbers)
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
        parts = offsets_of(list(map(len, scored))), np.concatenate(scored), np.concatenate(of_units)
        ranked = rank_units(data, *parts).first(options.unit_depth)
    if first.chunks is not None:
        reranked = np.concatenate(keys), data.places[np.concatenate(best)]
        before = number_entries(first.ranking, data), first.chunks
        chunks = pick_chunks(number_entries(ranking, data), reranked, before)
    return replace(
        first,
        ranking=ranking,
        costs=_costs_of(first.costs, pairs),
        n_cut=None,  # what the first stage does to texts is said of it
        n_without=0,
        tuning=None,
        fingerprint=f"{first.fingerprint} {reranker.fingerprint} {depth}{of_chunks}",
        chunks=chunks,
        units=ranked,
        remarks=(),
        findings=(),
    )


def _pairs_of(
    reranker: Reranker | TokenReranker,
    data: PreparedCollection,
    units: Sequence[Ints],
    options: SearchOptions,
) -> PairScores | TokenPairs:
    if isinstance(reranker, TokenReranker):
        return TokenPairs(reranker, data, units, options)
    return PairScores(reranker, data.query_texts, data.unit_texts, units, options.cache)


def _scored(pairs: PairScores | TokenPairs, units: Sequence[Ints]) -> Iterator[tuple[Floats, Ints]]:
    """Yield scores and units; what has no token is not scored and follows the others."""
    for scores, numbers in zip(pairs.compute(), units, strict=True):
        finite = np.isfinite(scores)
        yield scores[finite], numbers[finite]


def _costs_of(costs: Costs, pairs: PairScores | TokenPairs) -> Costs:
    """Return the costs of both stages; MaxSim encodes texts of its own, and holds their tokens."""
    if isinstance(pairs, TokenPairs):
        costs = replace(
            costs,
            encode_seconds=costs.encode_seconds + pairs.encode_seconds,
            n_encoded=costs.n_encoded + pairs.n_encoded,
            bytes=None if costs.bytes is None else costs.bytes + pairs.size,
        )
    return replace(
        costs,
        search_seconds=add_seconds(costs.search_seconds, pairs.seconds),
        serving=None,
        tokens=pairs.tokens,
        pairs=pairs.n_pairs,
        pairs_computed=pairs.n_computed,
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
