"""Chunk scores aggregated to documents, against sums made by hand, with many ties."""

from __future__ import annotations

import numpy as np
import pytest

from assay.bench.search import ChunkAggregation, aggregate_chunks
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import UsageError


@pytest.mark.parametrize("best", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scores_are_the_sums_made_by_hand(best: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_docs, n_chunks = 7, 20
    owner = np.sort(rng.integers(0, n_docs, n_chunks))
    scores = rng.integers(-3, 4, (5, n_chunks)) / 4.0
    ranking = Ranking.from_scores(scores)
    documents = aggregate_chunks(
        ranking, owner, doc_ids=Ids.count(n_docs), aggregation=ChunkAggregation(best), depth=4
    )
    for q, row in enumerate(scores):
        total = {
            doc: float(np.sort(row[owner == doc])[::-1][:best].sum()) for doc in np.unique(owner)
        }
        wanted = sorted(total, key=lambda doc: (-total[doc], doc))[:4]
        assert documents.ranking.row(q) == [(doc, total[doc]) for doc in wanted]
        chunks = documents.chunks[documents.ranking.offsets[q] : documents.ranking.offsets[q + 1]]
        highest = [int(np.argmax(np.where(owner == doc, row, -9))) for doc in wanted]
        assert chunks.tolist() == highest, "the first of the best"


def test_chunks_that_were_not_retrieved_add_nothing() -> None:
    ranking = Ranking.from_arrays([[2, 0], [1, -1]], [[0.5, 0.25], [1.0, 0.0]], n_docs=3)
    documents = aggregate_chunks(
        ranking, [0, 0, 1], doc_ids=Ids.count(2), aggregation=ChunkAggregation(2), depth=9
    )
    assert documents.ranking.row(0) == [(1, 0.5), (0, 0.25)]
    assert documents.ranking.row(1) == [(0, 1.0)]


@pytest.mark.parametrize("text", ["mean", "sum", "sum:0", "sum:x", "max:2", ""])
def test_unknown_aggregations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="max"):
        ChunkAggregation.parse(text)
