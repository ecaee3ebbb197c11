"""Canonical scores are the exact values rounded once, without exception."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from assay.native.twins.exact import canonical_norms, canonical_scores
from tests.search.engine.exact import (
    exact_rank,
    exact_row,
    exact_scores,
    exact_target_ranks,
    rounded,
    rounded_root,
    rounded_scores,
)
from tests.search.engine.nasty import METRICS, nasty_cases, nasty_inputs, nasty_scores, rare_inputs


def widened(rows):
    """What the engine makes of rows before it scores them, and their exponents."""
    if rows.dtype.itemsize < 4 or rows.dtype == np.float32:
        return rows.astype(np.float32), np.zeros(len(rows), np.int32)
    rows = rows.astype(np.float64)
    return rows, np.frexp(np.abs(rows).max(axis=1))[1].astype(np.int32)


def all_scores(metric, queries, docs):
    """Queries × docs, scored as pairs."""
    (x, e_x), (y, e_y) = widened(queries), widened(docs)
    at_query, at_doc = np.divmod(np.arange(len(x) * len(y)), len(y))
    norms = canonical_norms(x, e_x), canonical_norms(y, e_y)
    scores = canonical_scores(metric, x, e_x, norms[0], y, e_y, norms[1], at_query, at_doc)
    return scores.reshape(len(x), len(y))


def bits(scores):
    return np.asarray(scores, np.float64).view(np.int64)


@pytest.mark.parametrize(("metric", "name"), nasty_cases())
def test_scores_are_the_exact_values_rounded_once(metric, name):
    nasty = nasty_inputs()[name]
    got = all_scores(metric, nasty.queries, nasty.docs)
    assert np.array_equal(bits(got), bits(nasty_scores(metric, name)))


@pytest.mark.parametrize(("metric", "name"), nasty_cases(rare_inputs()))
def test_scores_that_need_more_than_106_bits_are_exact_too(metric, name):
    nasty = rare_inputs()[name]
    want = rounded_scores(metric, nasty.queries, nasty.docs)
    assert np.array_equal(bits(all_scores(metric, nasty.queries, nasty.docs)), bits(want))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [7, 8, 9, 31, 64])
def test_what_is_left_of_extreme_cancellation_is_exact(metric, dtype, d):
    x, y = cancelling_pairs(dtype, d)
    assert np.array_equal(bits(all_scores(metric, x, y)), bits(rounded_scores(metric, x, y)))


def cancelling_pairs(dtype, d, n=12):
    """Rows whose products add up to almost 0: six elements take back what is left each time."""
    rng = np.random.default_rng(d)
    x, y = rng.standard_normal((2, n, d)).astype(dtype)
    for row_x, row_y in zip(x, y, strict=True):
        taking = rng.permutation(d)[:6]
        row_x[taking], row_y[taking] = 1, 0
        for column in taking:
            [[left]] = exact_scores("dot", [row_x], [row_y])
            row_y[column] = -rounded(left)
    return x, y


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 7, 9, 31])
def test_columns_of_zeros_change_no_bit(metric, dtype, d):
    rng = np.random.default_rng(d)
    x, y = rng.standard_normal((2, 12, d)).astype(dtype)
    pad = ((0, 0), (0, -d % 8))
    bare, padded = all_scores(metric, x, y), all_scores(metric, np.pad(x, pad), np.pad(y, pad))
    assert np.array_equal(bits(bare), bits(padded))


@pytest.mark.parametrize("metric", METRICS)
def test_scores_do_not_depend_on_the_company_of_a_pair(metric, monkeypatch):
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 60, 13))
    together = all_scores(metric, x, y)  # 3600 pairs: two slices
    monkeypatch.setattr("assay.native.twins.exact.PAIRS_AT_ONCE", 7)
    assert np.array_equal(bits(together), bits(all_scores(metric, x, y)))
    alone = all_scores(metric, x[17:18], y[59:])
    assert bits(alone)[0, 0] == bits(together)[17, 59]


@pytest.mark.parametrize("metric", METRICS)
def test_scores_are_symmetric(metric):
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((2, 20, 31)).astype(np.float32)
    assert np.array_equal(bits(all_scores(metric, x, y)), bits(all_scores(metric, y, x).T))


@pytest.mark.parametrize("metric", METRICS)
def test_float32_queries_meet_float64_documents(metric):
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((10, 9)).astype(np.float32), 1e5 * rng.standard_normal((12, 9))
    assert np.array_equal(bits(all_scores(metric, x, y)), bits(rounded_scores(metric, x, y)))


def test_a_float32_row_keeps_its_small_elements_beside_a_float64_row():
    x, y = np.array([[2.0**127, 1e-10]], np.float32), np.array([[2.0**127, 2e-10]])
    assert all_scores("l2", x, y).tolist() == rounded_scores("l2", x, y)


def test_beyond_the_range_of_float64_scores_are_infinite():
    x = np.array([[1e200, -1e180]])
    assert all_scores("dot", x, -x).tolist() == [[-np.inf]]
    assert all_scores("dot", x, x).tolist() == [[np.inf]]
    assert all_scores("l2", x, -x).tolist() == [[-np.inf]]


def test_no_score_is_minus_zero():
    x = np.array([[1.0, 0.0], [-1e-200, 0.0]])
    y = np.array([[0.0, -1.0], [1e-200, 0.0]])
    for metric in METRICS:
        scores = all_scores(metric, x, np.concatenate([x, y]))
        assert not np.signbit(scores[scores == 0]).any()


def test_no_pairs_and_no_rows():
    none, rows = np.zeros((0, 3)), np.ones((2, 3))
    assert all_scores("dot", none, rows).shape == (0, 2)
    assert [part.shape for part in canonical_norms(*widened(none.astype(np.float32)))] == [
        (0,),
        (0,),
    ]


@pytest.mark.parametrize("name", list(nasty_inputs()))
def test_squared_norms_are_known_to_thirty_digits(name):
    rows, exponents = widened(nasty_inputs()[name].docs)
    for row, exponent, hi, lo in zip(
        rows, exponents, *canonical_norms(rows, exponents), strict=True
    ):
        want = exact_row(row).square / Fraction(4) ** int(exponent)
        assert hi == rounded(want)
        assert abs(Fraction(hi) + Fraction(lo) - want) <= want / 2**98


@pytest.mark.parametrize("d", [16, 5000])
def test_memory_stays_bounded(d):
    rows = np.random.default_rng(8).standard_normal((50, d))
    exponents = np.ones(50, np.int32)
    norms = canonical_norms(rows, exponents)
    at = np.random.default_rng(9).integers(0, 50, (2, 200_000 if d == 16 else 1000))
    tracemalloc.start()
    try:
        canonical_scores("cosine", rows, exponents, norms, rows, exponents, norms, *at)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - 8 * at.shape[1] < 48 << 20


# The oracle itself.


@pytest.mark.parametrize(("metric", "name"), nasty_cases())
def test_rounding_keeps_the_exact_order(metric, name):
    nasty = nasty_inputs()[name]
    nearest = rounded_root if metric == "cosine" else rounded
    exact = exact_scores(metric, nasty.queries[:4], nasty.docs)
    for row, known in zip(exact, nasty_scores(metric, name), strict=False):
        assert [nearest(value) for value in row] == known
        in_order = [nearest(value) for value in sorted(row)]
        assert in_order == sorted(in_order)


def test_proportional_documents_tie_under_cosine():
    docs = nasty_inputs()["proportional-float32-8"].docs  # seven rows times 1, 3, 7 and −5
    scores = all_scores("cosine", docs[:7], docs)
    assert np.array_equal(scores[:, :7], scores[:, 7:14])
    assert np.array_equal(scores[:, :7], scores[:, 14:21])
    assert np.array_equal(scores[:, :7], -scores[:, 21:])
    assert (np.diagonal(scores) == 1).all()


def test_roots_are_rounded_to_the_nearest():
    for value in (0.5, 2.0, 1 / 3, 1e-300, 2.0**-1060):
        assert rounded_root(Fraction(value)) == math.sqrt(value)
    assert rounded_root(Fraction(-9, 16)) == -0.75
    just_above_half = (1 + Fraction(1, 2**53) + Fraction(1, 2**90)) ** 2
    assert rounded_root(just_above_half) == 1 + 2.0**-52
    assert rounded_root((1 + Fraction(1, 2**53)) ** 2) == 1
    assert math.copysign(1, rounded_root(Fraction(0))) == 1


def test_the_oracle_ranks_as_said():
    scores = [[0.5, 0.9, 0.5, 0.5, 0.1]]
    assert exact_rank(scores, 2) == [[(1, 0.9), (0, 0.5)]]
    assert exact_rank(scores, 2, keep_ties=True) == [[(1, 0.9), (0, 0.5), (2, 0.5), (3, 0.5)]]
    assert exact_rank(scores, 2, excluded={(0, 0)}) == [[(1, 0.9), (2, 0.5)]]
    assert exact_rank(scores, 9)[0] == [(1, 0.9), (0, 0.5), (2, 0.5), (3, 0.5), (4, 0.1)]
    assert exact_rank([[1.0]], 3, excluded={(0, 0)}, keep_ties=True) == [[]]
    assert exact_target_ranks(scores, [2]) == [(1, 2, 1)]
    assert exact_target_ranks(scores, [2], excluded={(0, 0), (0, 1)}) == [(0, 1, 0)]


@pytest.mark.parametrize(("metric", "name"), nasty_cases())
def test_canonical_scores_rank_as_the_oracle(metric, name):
    nasty = nasty_inputs()[name]
    got = all_scores(metric, nasty.queries, nasty.docs)
    want = exact_rank(nasty_scores(metric, name), 5)
    for row, best in zip(got, want, strict=True):
        docs = np.lexsort([np.arange(len(row)), -row])[:5]
        assert list(zip(docs.tolist(), row[docs].tolist(), strict=True)) == best
