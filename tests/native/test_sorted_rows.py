"""Sorting rows: the tie rule, duplicates, float32, and native = twin."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples

# Few distinct values make heavy ties; the last two differ only beyond float32.
SCORES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, 1e300, 0.1, 0.1 + 1e-12])


@st.composite
def run_lines(draw):
    ids = draw(st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=8, unique=True))
    n_queries = draw(st.integers(1, 4))
    line = st.tuples(st.integers(0, n_queries - 1), st.integers(0, len(ids) - 1), SCORES)
    lines = draw(st.lists(line, max_size=30))
    if draw(st.booleans()):  # mostly without duplicates
        lines = list({(q, d): (q, d, s) for q, d, s in lines}.values())
    queries, docs, scores = zip(*lines, strict=True) if lines else ((), (), ())
    return (
        np.array(queries, np.int32),
        np.array(docs, np.int32),
        np.array(scores, np.float64),
        n_queries,
        np.frombuffer(b"".join(ids), np.uint8),
        np.cumsum([0, *map(len, ids)], dtype=np.int64),
    )


def same(a, b) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


@examples(100)
@given(lines=run_lines(), ties=st.sampled_from([-1, 0, 1]), float32=st.booleans())
def test_sort_rows_equals_its_twin(both, lines, ties, float32):
    native, twin = (kernels.sort_rows(*lines, ties, float32) for kernels in both)
    assert native[3] == twin[3]
    if native[3] is None:
        assert all(map(same, native[:3], twin[:3]))


@examples(100)
@given(lines=run_lines(), ties=st.sampled_from([-1, 0, 1]))
def test_sort_rows_obeys_the_tie_rule(engine, lines, ties):
    queries, docs, scores, n_queries, blob, ends = lines
    offsets, sorted_docs, _, fault = engine.sort_rows(*lines, ties, False)
    for query in range(n_queries if fault is None else 0):
        row = [(s, d) for q, d, s in zip(queries, docs, scores, strict=True) if q == query]
        ids = {d: blob[ends[d] : ends[d + 1]].tobytes() for _, d in row}
        if ties:
            row.sort(key=lambda pair: ids[pair[1]], reverse=ties < 0)
        row.sort(key=lambda pair: -pair[0])
        found = sorted_docs[offsets[query] : offsets[query + 1]]
        assert found.tolist() == [d for _, d in row]


def ids_of(*texts: str):
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer("".join(texts).encode(), np.uint8), ends


def lines_of(queries, docs, scores):
    return np.array(queries, np.int32), np.array(docs, np.int32), np.array(scores, np.float64)


def test_a_duplicate_is_reported_with_query_and_doc(engine):
    lines = lines_of([0, 1, 1, 1], [0, 1, 0, 1], [1, 2, 3, 4])
    assert engine.sort_rows(*lines, 2, *ids_of("a", "b"), -1, False)[3] == ("duplicate", 1, 1)


def test_a_score_beyond_float32_is_reported(engine):
    lines = lines_of([0, 0], [0, 1], [1, 1e39])
    ids = ids_of("a", "b")
    assert engine.sort_rows(*lines, 1, *ids, -1, True)[3] == ("float32", 0, 1)
    assert engine.sort_rows(*lines, 1, *ids, -1, False)[3] is None


def test_float32_makes_ties(engine):
    lines = lines_of([0, 0], [0, 1], [1 + 1e-12, 1])
    ids = ids_of("a", "b")
    assert engine.sort_rows(*lines, 1, *ids, -1, False)[1].tolist() == [0, 1]
    _, docs, scores, _ = engine.sort_rows(*lines, 1, *ids, -1, True)
    assert docs.tolist() == [1, 0]
    assert scores.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("queries", "docs"), [([2], [0]), ([-1], [0]), ([0], [2]), ([0], [-1]), ([0, 1], [0])]
)
def test_codes_out_of_range_never_reach_memory(engine, queries, docs):
    scores = np.zeros(len(queries))
    with pytest.raises(ValueError, match=r"out of range|one length"):
        engine.sort_rows(*lines_of(queries, docs, scores), 2, *ids_of("a", "b"), 1, False)


@st.composite
def ragged(draw):
    sizes = draw(st.lists(st.integers(0, 12), max_size=6))
    count = sum(sizes)
    scores = draw(st.lists(SCORES, min_size=count, max_size=count))
    tiebreak = draw(st.none() | st.lists(st.integers(-3, 3), min_size=count, max_size=count))
    offsets = np.cumsum([0, *sizes], dtype=np.int64)
    keys = None if tiebreak is None else np.array(tiebreak, np.int64)
    return offsets, np.array(scores, np.float64), keys


@examples(100)
@given(rows=ragged())
def test_order_rows_equals_its_twin(both, rows):
    native, twin = (kernels.order_rows(*rows) for kernels in both)
    assert same(native, twin)


@given(rows=ragged())
def test_order_rows_sorts_within_rows(engine, rows):
    offsets, scores, tiebreak = rows
    order = engine.order_rows(*rows)
    for begin, end in pairwise(offsets):
        key = [(-scores[i], 0 if tiebreak is None else tiebreak[i], i) for i in order[begin:end]]
        assert key == sorted(key)
        assert sorted(order[begin:end]) == list(range(begin, end))


def test_order_rows_refuses_nan_and_bad_offsets(engine):
    with pytest.raises(ValueError, match="NaN"):
        engine.order_rows(np.array([0, 1]), np.array([np.nan]), None)
    for offsets in ([1, 2], [0, 1], [0, 3, 2], []):
        with pytest.raises(ValueError, match="offsets"):
            engine.order_rows(np.array(offsets, np.int64), np.zeros(2), None)


def test_many_rows_give_the_same_answer_with_threads(both):
    rng = np.random.default_rng(3)
    n, n_docs = 200_000, 5000
    pairs = rng.choice(400 * n_docs, n, replace=False)
    lines = lines_of(pairs // n_docs, pairs % n_docs, rng.integers(0, 20, n))
    ids = ids_of(*(f"D{i}" for i in rng.permutation(n_docs)))
    native, twin = (kernels.sort_rows(*lines, 400, *ids, -1, False) for kernels in both)
    assert native[3] is twin[3] is None
    assert all(map(same, native[:3], twin[:3]))
    orders = [kernels.order_rows(native[0], lines[2], None) for kernels in both]
    assert same(*orders)
