"""Two stages: the first documents of one system, put in order by a reranker."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from assay.arrays import Floats, Ints, offsets_of
from assay.core.ranking import Ranking
from assay.errors import UsageError
from assay.models.encoder import add_tokens
from assay.models.rerankers import Reranker, Scored
from assay.tasks.bench.collection import PreparedCollection
from assay.tasks.bench.plan import Rerank
from assay.tasks.bench.search import SearchOptions, SearchResult, Timer

__all__ = ["DEPTH", "check_depth", "rerank"]

DEPTH = 100


def rerank(
    plan: Rerank,
    reranker: Reranker,
    first: SearchResult,
    data: PreparedCollection,
    options: SearchOptions,
) -> SearchResult:
    """The first documents by the reranker's scores, then the others as the first stage has them.

    A document that is cut into chunks has the score of its best one. It costs what the first stage
    costs, and the time of the reranker after a first text.
    """
    depth = check_depth(plan, options.depth)
    texts = _Texts(data)
    if reranker.warm_up:
        reranker.score(data.query_texts[0], [data.unit_texts[0]])
    docs, scores, tokens = [], [], None
    total = len(data.query_texts)
    with Timer() as timer:
        for row, found in enumerate(_found(first.ranking, data)):
            head, asked = texts.score(reranker, data.query_texts[row], found[:depth])
            tokens = add_tokens(tokens, asked)
            docs.append(found)
            scores.append(np.concatenate([head, _below(head, len(found) - len(head))]))
            options.tell(plan.name, "reranking", row + 1, total)
    ranking = Ranking(
        data.query_ids,
        data.doc_ids,
        offsets_of(np.array([len(one) for one in docs])),
        np.concatenate(docs).astype(np.int32),
        np.concatenate(scores),
        in_order=False,
        n_docs=len(data.doc_ids),
        has_ids=True,
        search=first.ranking.search,
        settings=first.ranking.settings,
    )
    options.tell(plan.name, "searching", 1, 1)
    return replace(
        first,
        ranking=replace(ranking.first(options.depth), tiebreak=options.tiebreak),
        costs=replace(
            first.costs, search_seconds=first.costs.search_seconds + timer.seconds, tokens=tokens
        ),
        n_cut=None,  # what the first stage does to texts is said of it
        n_without=0,
        tuning=None,
        fingerprint=f"{first.fingerprint} {reranker.fingerprint} {depth}",
    )


def check_depth(plan: Rerank, depth: int) -> int:
    """How many documents are put in order; no more than are retrieved."""
    if plan.depth is not None and plan.depth > depth:
        raise UsageError(
            f"{plan.name!r} reranks {plan.depth} documents, but {depth} are retrieved: add "
            f"--depth {plan.depth}."
        )
    return plan.depth or min(DEPTH, depth)


def _found(ranking: Ranking, data: PreparedCollection) -> list[Ints]:
    """For each query of the collection the documents of a ranking, by their numbers there."""
    number = ranking.doc_ids.match(data.doc_ids)
    rows = data.query_ids.match(ranking.query_ids)
    starts, ends = ranking.offsets[:-1], ranking.offsets[1:]
    nothing = np.empty(0, np.int64)
    return [nothing if row < 0 else number[ranking.docs[starts[row] : ends[row]]] for row in rows]


def _below(head: Floats, n: int) -> Floats:
    """Scores below all of these, descending."""
    low = float(head.min()) if len(head) else 0.0
    step = max(1.0, abs(low)) * 1e-6
    return low - step * np.arange(1, n + 1, dtype=np.float64)


class _Texts:
    """The texts of each document: itself, or its chunks."""

    def __init__(self, data: PreparedCollection) -> None:
        self._texts = data.unit_texts
        self._bounds = np.searchsorted(data.unit_doc, np.arange(len(data.doc_ids) + 1))

    def score(self, reranker: Reranker, query: str, docs: Ints) -> Scored:
        """The best score of each document's texts."""
        if not len(docs):
            return Scored(np.empty(0))
        parts = [range(self._bounds[doc], self._bounds[doc + 1]) for doc in docs]
        made = reranker.score(query, [self._texts[unit] for part in parts for unit in part])
        starts = offsets_of(np.array([len(part) for part in parts]))[:-1]
        return made._replace(scores=np.maximum.reduceat(made.scores, starts))
