"""rerank: the documents of a ranking in the order of exact scores, without searching for others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, offsets_of
from assay.core import checks, order
from assay.core.ranking import Ranking
from assay.errors import ValueRangeError
from assay.native import Engine
from assay.search.engine.blocks import ZERO_SCORE, Docs, Measured, prepared_docs
from assay.search.engine.plan import Plan, plan

__all__ = ["rerank"]


def rerank(
    ranking: Ranking,
    queries: Any,
    *,
    docs: Any,
    metric: Literal["cosine", "dot", "l2"] = "cosine",
    zero: Literal["error", "drop", "last"] = "error",
    threads: int | None = None,
    engine: Engine | None = None,
) -> Ranking:
    """The documents of each row, ordered again by the scores that `rank` gives them.

    `queries` and `docs` are the vectors of the ranking's queries and documents, in its order.

    >>> found = Ranking.from_arrays([[2, 0]], n_docs=3)
    >>> rerank(found, [[1.0, 0.0]], docs=[[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).row(0)
    [(0, 1.0), (2, 0.0)]
    """
    checks.require(ranking, Ranking, "ranking", "a Ranking")
    ready = plan(
        queries,
        docs,
        k=1,
        metric=metric,
        zero=zero,
        exclude=None,
        query_ids=None,
        doc_ids=None,
        threads=threads,
        engine=engine,
    )
    checks.check_lengths(queries=ready.n_queries, **{"rows of the ranking": len(ranking)})
    checks.check_lengths(docs=ready.n_docs or 0, **{"documents of the ranking": ranking.n_docs})
    scores, empty = _scored(ready, ranking)
    if not np.isfinite(scores).all():
        raise ValueRangeError(
            "Some scores are beyond the range of float64 (1.8e308). Scale the vectors down."
        )
    kept = ~empty if zero == "drop" else np.ones(len(scores), bool)
    return replace(
        ranking,
        offsets=offsets_of(kept)[ranking.offsets],
        given_docs=ranking.docs[kept],
        given_scores=scores[kept],
        in_order=False,
        tie_split=None,
        search=f"{ready.engine}-certified",
    )


def _scored(ready: Plan, ranking: Ranking) -> tuple[Floats, NDArray[np.bool_]]:
    """The score of every result, and which have none because a vector is all zero."""
    scores = np.zeros(len(ranking.docs))
    cosine = ready.metric.name == "cosine"
    empty = ready.measures.zero[order.rows_of(ranking.offsets)] & cosine
    for block in ready.blocks():
        docs = prepared_docs(ready.kernels, block, ready.metric, sizes=ready.sizes)
        for start, stop in ready.tiles():
            inside = slice(int(ranking.offsets[start]), int(ranking.offsets[stop]))
            local = ranking.docs[inside].astype(np.int64) - block.first
            here = np.flatnonzero((local >= 0) & (local < len(docs)))
            offsets = np.searchsorted(here, ranking.offsets[start : stop + 1] - inside.start)
            scores[inside][here] = _pair_scores(ready, (start, stop), docs, offsets, local[here])
            empty[inside][here] |= _is_zero(block, local[here]) & cosine
    scores[empty] = ZERO_SCORE
    return scores, empty


@np.errstate(all="ignore")
def _pair_scores(
    ready: Plan, tile: tuple[int, int], docs: Docs, offsets: Ints, local: Ints
) -> Floats:
    queries = ready.prepared(*tile).block
    return ready.kernels.pair_scores(
        ready.metric.code, queries, docs.block, offsets.astype(np.int64), local.astype(np.uint32)
    )


def _is_zero(block: Measured, local: Ints) -> NDArray[np.bool_]:
    return block.zero[local]
