"""Top-k lists equal a brute force in exact arithmetic, document by document, bit by bit."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from assay.search.engine import rank
from tests.search.engine.exact import exact_rank, rounded_scores
from tests.search.engine.nasty import METRICS, nasty_cases, nasty_inputs, nasty_scores

KINDS = ("none", "self", "pairs")


def exclusion(kind, n_queries, n_docs):
    """The argument for `rank`, and the pairs it stands for."""
    if kind == "none":
        return None, set()
    if kind == "self":
        return "self", {(q, q) for q in range(n_queries)}
    pairs = np.argwhere(np.random.default_rng(n_docs).random((n_queries, n_docs)) < 0.3)
    pairs = np.concatenate([pairs[::-1], pairs[:2]])  # in any order, some of them twice
    return pairs, set(map(tuple, pairs.tolist()))


def depths(n_docs):
    """(k, keep_ties), each that can make a difference."""
    return [(1, False), (1, True), (5, False), (5, True), (n_docs, False), (n_docs + 3, True)]


def check(ranking, want, case=""):
    """Rows, documents and the bits of the scores."""
    assert np.diff(ranking.offsets).tolist() == [len(row) for row in want], case
    flat = [result for row in want for result in row]
    assert ranking.docs.tolist() == [doc for doc, _ in flat], case
    scores = np.array([score for _, score in flat], np.float64)
    assert ranking.scores.dtype == np.float64
    assert np.array_equal(ranking.scores.view(np.int64), scores.view(np.int64)), case


def some_ways(metric, n_docs):
    """(exclusion, k, keep_ties): a third of them for each metric, two of each exclusion."""
    turn = METRICS.index(metric)
    return [
        (kind, *depth)
        for number, kind in enumerate(KINDS)
        for place, depth in enumerate(depths(n_docs))
        if (place + number + turn) % 3 == 0
    ]


def every_way(metric, n_docs):
    return [(kind, *depth) for kind in KINDS for depth in depths(n_docs)]


@pytest.mark.parametrize(("metric", "name"), nasty_cases())
@pytest.mark.parametrize(
    "ways", [some_ways, pytest.param(every_way, marks=pytest.mark.slow)], ids=["some", "every"]
)
def test_rank_equals_exact_arithmetic(metric, name, ways, engine):
    nasty = nasty_inputs()[name]
    size = len(nasty.queries), len(nasty.docs)
    for number, (kind, k, keep_ties) in enumerate(ways(metric, size[1])):
        exclude, _ = exclusion(kind, *size)
        got = rank(
            nasty.queries,
            nasty.docs,
            k,
            metric=metric,
            exclude=exclude,
            keep_ties=keep_ties,
            threads=1 + number % 2,
            engine=engine,
        )
        want = expected(metric, name, kind, k, keep_ties)
        check(got, want, f"exclude={kind} k={k} keep_ties={keep_ties}")


@cache
def expected(metric, name, kind, k, keep_ties):
    scores = nasty_scores(metric, name)
    _, excluded = exclusion(kind, len(scores), len(scores[0]))
    return exact_rank(scores, k, excluded=excluded, keep_ties=keep_ties)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["duplicates-float32-31", "all-equal-float32-64", "grid-int8-8"])
def test_self_is_excluded_by_id_among_its_duplicates(metric, name, engine):
    docs = nasty_inputs()[name].docs
    chosen = [7, 3, 11, 0, 20]
    doc_ids = [f"d{number}" for number in range(len(docs))]
    query_ids = [*(doc_ids[number] for number in chosen), "no_document"]
    queries = docs[[*chosen, 5]]
    excluded = {(q, doc) for q, doc in enumerate(chosen)}
    scores = rounded_scores(metric, queries, docs)
    for k, keep_ties in depths(len(docs)):
        got = rank(
            queries,
            docs,
            k,
            metric=metric,
            exclude="self",
            query_ids=query_ids,
            doc_ids=doc_ids,
            keep_ties=keep_ties,
            engine=engine,
        )
        check(got, exact_rank(scores, k, excluded=excluded, keep_ties=keep_ties))
        assert list(got.query_ids) == query_ids


@pytest.mark.parametrize("metric", METRICS)
def test_pairs_are_excluded_by_id(metric, engine):
    nasty = nasty_inputs()["grid-float32-3"]
    doc_ids = [f"d{number}" for number in range(len(nasty.docs))]
    query_ids = [f"q{number}" for number in range(len(nasty.queries))]
    excluded = {(0, 39), (0, 1), (7, 7), (39, 0)}
    got = rank(
        nasty.queries,
        nasty.docs,
        5,
        metric=metric,
        query_ids=query_ids,
        doc_ids=doc_ids,
        exclude=[(query_ids[q], doc_ids[doc]) for q, doc in sorted(excluded)],
        engine=engine,
    )
    check(got, exact_rank(nasty_scores(metric, nasty.name), 5, excluded=excluded))


@pytest.mark.parametrize("metric", METRICS)
def test_a_query_whose_documents_are_all_excluded_has_an_empty_row(metric, engine):
    nasty = nasty_inputs()["near-float32-3"]
    pairs = [(4, doc) for doc in range(len(nasty.docs))]
    for keep_ties in (False, True):
        got = rank(
            nasty.queries,
            nasty.docs,
            3,
            metric=metric,
            exclude=np.array(pairs),
            keep_ties=keep_ties,
            engine=engine,
        )
        scores = nasty_scores(metric, nasty.name)
        check(got, exact_rank(scores, 3, excluded=set(pairs), keep_ties=keep_ties))


@pytest.mark.parametrize("size", [1, 7, 33])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["near-float32-64", "outlier-float64-33", "full-range-int8-64"])
def test_blocks_of_documents_give_the_same_lists(metric, name, size, engine):
    nasty = nasty_inputs()[name]
    blocks = (nasty.docs[start : start + size] for start in range(0, len(nasty.docs), size))
    got = rank(nasty.queries, blocks, 5, metric=metric, keep_ties=True, engine=engine)
    check(got, exact_rank(nasty_scores(metric, name), 5, keep_ties=True))
