"""Scores of floats, several pairs at a time: exact whatever stands beside a pair, at any width."""

from __future__ import annotations

import numpy as np
import pytest

from assay.native import load
from assay.search.engine import prepare, rank
from assay.search.engine.blocks import Metric, Sizes, measure_rows, prepare_docs, prepare_queries
from assay.search.engine.inputs import Rows
from tests.search.engine.exact import rounded_scores
from tests.search.engine.nasty import (
    METRICS,
    nasty_cases,
    nasty_inputs,
    nasty_scores,
    rare_inputs,
)
from tests.search.engine.test_same_bytes import widths

FLOATS = [
    (metric, name)
    for metric, name in nasty_cases()
    if {nasty_inputs()[name].docs.dtype, nasty_inputs()[name].queries.dtype} == {np.dtype("f4")}
]
RARE = [case for case in nasty_cases(rare_inputs()) if rare_inputs()[case[1]].docs.dtype == "f4"]


@pytest.fixture(params=widths())
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ASSAY_SIMD", request.param)
    return request.param


def pair_scores(metric, queries, docs, listed):
    """Scores of the listed documents of each query by the compiled kernels, in that order."""
    kernels, kind, sizes = load("native"), Metric(metric, "last"), Sizes(0, 0)
    rows = [np.ascontiguousarray(each, np.float32) for each in (queries, docs)]
    x, y = (
        measure_rows(kernels, Rows(each, 0, "rows"), kind, ids=None, threads=1) for each in rows
    )
    return kernels.pair_scores(
        kind.code,
        prepare_queries(kernels, x, kind, sizes=sizes).block,
        prepare_docs(kernels, y, kind, sizes=sizes).block,
        np.cumsum([0, *map(len, listed)]).astype(np.int64),
        np.concatenate(listed).astype(np.uint32),
    )


def lists(n_queries, n_docs, rng):
    """All documents for each query; one for all of them; and any number, in any order."""
    yield [np.arange(n_docs)] * n_queries
    yield [
        np.array([doc]) for doc in np.repeat(rng.integers(n_docs, size=n_queries), 3)[:n_queries]
    ]
    yield [rng.integers(n_docs, size=rng.integers(7)) for _ in range(n_queries)]


def check(metric, queries, docs, want):
    want = np.asarray(want, np.float64)
    for listed in lists(len(queries), len(docs), np.random.default_rng(len(docs))):
        got = pair_scores(metric, queries, docs, listed)
        expected = np.concatenate([want[q][some] for q, some in enumerate(listed)])
        assert np.array_equal(got.view(np.int64), expected.view(np.int64))


@pytest.mark.parametrize(("metric", "name"), FLOATS)
def test_awkward_floats_score_exactly_in_any_order(width, metric, name):
    nasty = nasty_inputs()[name]
    check(metric, nasty.queries, nasty.docs, nasty_scores(metric, name))


@pytest.mark.parametrize(("metric", "name"), RARE)
def test_floats_that_need_more_than_106_bits_do_too(width, metric, name):
    nasty = rare_inputs()[name]
    check(
        metric,
        nasty.queries,
        nasty.docs,
        rounded_scores(metric, nasty.queries, nasty.docs),
    )


@pytest.mark.parametrize("metric", METRICS)
def test_any_number_of_columns_scores_exactly(width, metric):
    rng = np.random.default_rng(3)
    for columns in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 48):
        queries, docs = rng.standard_normal((2, 9, columns)).astype(np.float32)
        docs[0] = queries[0]  # at a distance of 0
        check(metric, queries, docs, rounded_scores(metric, queries, docs))


def lists_of(found):
    return found.offsets.tobytes(), found.docs.tobytes(), found.scores.tobytes()


@pytest.mark.parametrize("metric", METRICS)
def test_many_queries_that_find_all_documents_get_the_same_bytes(width, metric):
    rng = np.random.default_rng(4)
    queries, docs = (rng.standard_normal((n, 6)).astype(np.float32) for n in (150, 70))
    want = lists_of(rank(queries, docs, 70, metric=metric, engine="numpy"))
    assert lists_of(rank(queries, docs, 70, metric=metric)) == want
    assert lists_of(rank(queries, prepare(docs), 70, metric=metric)) == want


@pytest.mark.parametrize("metric", METRICS)
def test_long_narrow_rows_are_widened_a_few_at_a_time(width, metric):
    rng = np.random.default_rng(5)
    docs = rng.integers(-9, 9, (11, 20_000)).astype(np.int8)
    queries = rng.standard_normal((3, 20_000)).astype(np.float32)
    want = lists_of(rank(queries, docs.astype(np.float64), 11, metric=metric))
    assert lists_of(rank(queries, docs, 11, metric=metric)) == want


SCORES = {
    "even": np.linspace(-1, 1, 300),
    "of all sizes": 10.0 ** np.linspace(-300, 300, 301),
    "one far off": np.append(np.linspace(0, 1e-9, 99), 1e9),
    "beyond each other": np.append(np.linspace(-1, 1, 30), [-1.7e308, 1.7e308]),
    "the smallest": np.arange(40) * 5e-324,
    "equal": np.ones(50),
    "in threes": np.repeat(np.linspace(0, 1, 20), 3),
    "many equal": np.append(np.zeros(33), np.linspace(0, 1, 90)),
    "zeros of both signs": np.array([0.0, -0.0] * 12 + [1.0, -1.0]),
}


@pytest.mark.parametrize("name", SCORES)
def test_results_stand_in_order_however_scores_are_spread(width, name):
    given = np.random.default_rng(6).permutation(SCORES[name])
    found = rank([[1.0]], given[:, None], len(given), metric="dot")
    order = np.lexsort((np.arange(len(given)), -given))
    assert found.docs.tolist() == order.tolist()
    assert np.array_equal(found.scores, given[order])
