"""rerank: the same scores and order as a search among the documents that were given."""

from __future__ import annotations

import numpy as np
import pytest

from assay import Ranking
from assay.errors import MismatchError, ValueRangeError
from assay.search.engine import inputs, rank
from assay.search.engine.search import rerank
from tests.search.engine.nasty import nasty_inputs


def some(n_queries: int, n_docs: int, size: int, seed: int = 0) -> Ranking:
    rng = np.random.default_rng(seed)
    docs = np.array([rng.permutation(n_docs)[:size] for _ in range(n_queries)])
    return Ranking.from_arrays(docs, n_docs=n_docs)


@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize("name", nasty_inputs())
def test_scores_and_order_are_those_of_a_search(name, engine):
    nasty = nasty_inputs()[name]
    n_queries, n_docs = len(nasty.queries), len(nasty.docs)
    for metric in nasty.metrics:
        whole = rank(nasty.queries, nasty.docs, n_docs, metric=metric, zero="last")
        all_of_them = some(n_queries, n_docs, n_docs)
        found = rerank(
            all_of_them, nasty.queries, docs=nasty.docs, metric=metric, zero="last", engine=engine
        )
        assert found.docs.tolist() == whole.docs.tolist()
        assert found.scores.tobytes() == whole.scores.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_only_the_given_documents_are_ranked(dtype):
    rng = np.random.default_rng(1)
    docs, queries = ((10 * rng.normal(size=(n, 9))).astype(dtype) for n in (70, 8))
    first = some(8, 70, 12)
    found = rerank(first, queries, docs=docs)
    for q in range(8):
        kept = sorted(doc for doc, _ in first.row(q))
        alone = rank(queries[q : q + 1], docs[kept], 12)
        assert found.row(q) == [(kept[doc], score) for doc, score in alone.row(0)]


def test_rows_of_any_length_and_several_blocks(monkeypatch):
    rng = np.random.default_rng(2)
    docs, queries = (rng.normal(size=(n, 5)) for n in (40, 6))
    numbers = np.where(rng.random((6, 40)) < 0.4, np.arange(40), -1)
    numbers[3] = -1
    first = Ranking.from_arrays(numbers, n_docs=40)
    whole = rerank(first, queries, docs=docs)
    assert whole.lengths.tolist() == first.lengths.tolist()
    monkeypatch.setattr(inputs, "WINDOW_BYTES", 7 * 4 * 5)  # seven documents at a time
    monkeypatch.setattr(inputs, "lies_ready", lambda matrix: False)
    again = rerank(first, queries, docs=docs)
    assert again.scores.tobytes() == whole.scores.tobytes()


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_fault_2_zero_vectors_follow_the_policy(engine):
    docs, queries = np.eye(3), np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    docs[1] = 0
    first = Ranking.from_arrays([[1, 2, 0], [2, 1, 0]], n_docs=3)
    with pytest.raises(ValueRangeError, match="row 1 is all zeros"):
        rerank(first, queries, docs=docs, engine=engine)
    for zero in ("last", "drop"):
        found = rerank(first, queries, docs=docs, zero=zero, engine=engine)
        whole = rank(queries, docs, 3, zero=zero, engine=engine)
        assert [found.row(q) for q in range(2)] == [whole.row(q) for q in range(2)]
    assert len(rerank(first, queries, docs=docs, metric="dot", zero="drop").docs) == 6


def test_parts_that_do_not_belong_together():
    first = some(2, 5, 3)
    with pytest.raises(MismatchError, match="3"):
        rerank(first, np.ones((3, 2)), docs=np.ones((5, 2)))
    with pytest.raises(MismatchError, match="4"):
        rerank(first, np.ones((2, 2)), docs=np.ones((4, 2)))
