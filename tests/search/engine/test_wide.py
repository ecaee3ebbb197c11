"""Documents in 16 bits: bounds that hold in rational arithmetic, the same answers as without."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import pytest

from assay.native import load
from assay.search.engine import prepare, rank, target_ranks
from tests.search.engine.test_coarse import (
    PANEL,
    exact,
    quantiser,
    rows_of_all_kinds,
    squares,
    width,
)

__all__ = ["quantiser", "width"]  # fixtures


class Wide(NamedTuple):
    codes: np.ndarray
    step: np.ndarray
    residual: np.ndarray
    norm: np.ndarray


def rows_of_more_kinds(columns: int) -> np.ndarray:
    """Rows whose codes are as long as they may be, in one place, in two, in all, and in none."""
    rows = np.concatenate([rows_of_all_kinds(columns), np.ones((8, columns), np.float32)])
    rows[40, 1:] = 0
    rows[41, 2:] = 0  # a pair that is added up at once
    rows[42] *= np.where(np.arange(columns) % 2, -1, 1)
    rows[43] = np.float32(2.0**-120)
    rows[44] = np.finfo(np.float32).max
    rows[45] = np.float32(2.0**-49)
    rows[46] = np.float32(2.0**49)
    rows[47, 0] = 1e9
    return rows


def made(engine: str, rows: np.ndarray) -> Wide:
    """Rows in 16 bits; codes a row for each document."""
    codes, *others = load(engine).coarsen_wide(rows)
    panels = codes.view("<i2").reshape(-(-len(rows) // PANEL), -1, PANEL, 2).swapaxes(1, 2)
    return Wide(panels.reshape(-1, panels.shape[2] * 2)[: len(rows)].astype(np.int64), *others)


@pytest.mark.parametrize("columns", [1, 3, 8, 17, 64, 100])
def test_what_is_left_over_is_never_more_than_stated(columns, quantiser):
    rows = rows_of_more_kinds(columns)
    for row, codes, step, residual, norm in zip(rows, *made(quantiser, rows), strict=True):
        values = [exact(x) for x in row]
        left = [x - exact(step) * int(code) for x, code in zip(values, codes, strict=False)]
        assert np.isinf(residual) or squares(left) <= exact(residual) ** 2
        assert np.isinf(norm) or squares(values) <= exact(norm) ** 2
        assert not codes[columns:].any()


@pytest.mark.parametrize("columns", [5, 64])
def test_no_product_is_off_by_more_than_the_bound(columns, quantiser):
    rows = np.delete(rows_of_more_kinds(columns), 44, axis=0)  # whose norm is beyond float32
    codes, *others = made(quantiser, rows)
    steps, residuals, norms = ([exact(x) for x in part] for part in others)
    for q, d in product(range(0, len(rows), 3), range(0, len(rows), 2)):
        true = sum(exact(x) * exact(y) for x, y in zip(rows[q], rows[d], strict=True))
        found = steps[q] * steps[d] * int(codes[q] @ codes[d])
        bound = residuals[q] * norms[d] + (norms[q] + residuals[q]) * residuals[d]
        assert abs(true - found) <= bound


@pytest.mark.parametrize("columns", [1, 2, 31, 384, 16384])
def test_no_sum_of_products_leaves_32_bits(columns, quantiser):
    """Whatever of two rows is added up is at most the product of their norms."""
    rows = rows_of_more_kinds(columns)
    rows[5] = np.resize([0.5, -0.5], columns) + np.resize([1.0, -1.0], columns)
    codes = made(quantiser, rows).codes
    assert np.abs(codes).max() <= 32767
    assert (codes**2).sum(axis=1).max() < 2**31


def test_steps_are_as_fine_as_32_bits_let_them_be():
    rows = np.random.default_rng(0).standard_normal((50, 384), dtype=np.float32)
    _, _, residual, norm = made("native", rows)
    assert (residual / norm < 1.4e-4).all()


@pytest.mark.parametrize("columns", [1, 2, 7, 64, 100, 384])
def test_engines_round_to_the_same_bytes(columns, quantiser):
    rows = rows_of_more_kinds(columns)
    for one, other in zip(
        load(quantiser).coarsen_wide(rows), load("numpy").coarsen_wide(rows), strict=True
    ):
        assert one.tobytes() == other.tobytes()


# Searches: as many queries, documents for a thread and columns as 16 bits are used from ----------

N_QUERIES, N_DOCS, COLUMNS = 130, 8400, 97


def plain(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((N_DOCS, COLUMNS))


def in_clusters(noise: float):
    def make(rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((3, COLUMNS))[rng.integers(0, 3, N_DOCS)] + noise * plain(rng)

    return make


def front_loaded(rng: np.random.Generator) -> np.ndarray:
    docs = plain(rng)
    docs[:300] += 4
    return docs


def copied(rng: np.random.Generator) -> np.ndarray:
    return plain(rng)[rng.integers(0, 40, N_DOCS)]


def at_the_limit(rng: np.random.Generator) -> np.ndarray:
    """Codes of one, two or all columns as long as they may be, of many lengths, and zeros."""
    docs = np.zeros((N_DOCS, COLUMNS))
    docs[np.arange(N_DOCS), rng.integers(0, COLUMNS, N_DOCS)] = 1
    docs[::3, :2] = np.array([3, -3])
    docs[::5] = np.resize([1, -1], COLUMNS)
    docs += (rng.random(docs.shape) < 0.02) * rng.standard_normal(docs.shape)
    return docs * 2.0 ** rng.integers(-20, 21, (N_DOCS, 1))


def of_odd_sizes(rng: np.random.Generator) -> np.ndarray:
    """Some rows are of sizes that are not rounded, or whose squares float32 cannot hold."""
    docs = plain(rng)
    docs[::50] *= 2.0**60
    docs[1::50] *= 2.0**-60
    return docs


SETS = {
    "plain": plain,
    "noise 0.1": in_clusters(0.1),
    "noise 0.001": in_clusters(1e-3),  # too little for 16 bits
    "noise 0.00001": in_clusters(1e-5),
    "front": front_loaded,
    "copies": copied,
    "limit": at_the_limit,
    "odd": of_odd_sizes,
}
_MOST = [pytest.param(one, marks=[pytest.mark.slow] * (one == "noise 0.00001")) for one in SETS]
_PAIRS = np.stack([np.arange(6000) % N_QUERIES, np.arange(6000) * 7 % N_DOCS], axis=1)
SEARCHES = (
    ("cosine", 1, {"threads": 1}),
    ("dot", 20, {"exclude": _PAIRS, "threads": 1}),
    ("l2", 9, {"keep_ties": True, "threads": 1}),
    ("cosine", 60, {"threads": 2}),
)


@cache
def asked(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Queries, many of them documents, and documents: of float64, so not searched as stored."""
    rng = np.random.default_rng(4)
    docs = SETS[name](rng)
    queries = docs[:: N_DOCS // N_QUERIES][:N_QUERIES].copy()
    queries[::3] += 0.3 * rng.standard_normal(queries[::3].shape)
    return queries, docs


def cut_pairs(pairs: np.ndarray, part: slice) -> np.ndarray:
    """Of pairs of a query and a document, those of some queries, counted from the first of them."""
    some = pairs[(pairs[:, 0] >= part.start) & (pairs[:, 0] < part.stop)]
    return some - np.array([part.start, 0])


def found_in(docs, queries, part: slice) -> list[tuple[bytes, ...]]:
    """For each query and search, documents and scores."""
    rows = []
    for metric, k, how in SEARCHES:
        given = {**how, "exclude": cut_pairs(how["exclude"], part)} if "exclude" in how else how
        found = rank(queries[part], docs, k, metric=metric, engine="native", **given)
        for start, stop in pairwise(found.offsets):
            rows.append((found.docs[start:stop].tobytes(), found.scores[start:stop].tobytes()))
    return rows


def counted_in(docs, queries, part: slice) -> list[bytes]:
    """Of targets at the top, in the middle and nowhere."""
    targets = np.arange(N_QUERIES) * (N_DOCS // N_QUERIES)
    targets[::4] = N_DOCS - 1 - targets[::4]
    targets[::11] = -1
    pairs = cut_pairs(_PAIRS[_PAIRS[:, 1] != targets[_PAIRS[:, 0]]], part)
    cases = (
        ("cosine", {"threads": 1}),
        ("dot", {"exclude": pairs, "threads": 1}),
        ("l2", {"threads": 2}),
    )
    counts = []
    for metric, how in cases:
        found = target_ranks(queries[part], docs, targets[part], metric=metric, **how)
        counts.append(np.stack([found.above, found.tied, found.before]))
    return [each.tobytes() for each in np.concatenate(counts).T]


ALL, HALVES = slice(0, N_QUERIES), (slice(0, 65), slice(65, N_QUERIES))


@cache
def by_few_queries(name: str) -> tuple[list[tuple[bytes, ...]], list[bytes]]:
    """For so few that the float32 product is used."""
    queries, docs = asked(name)
    lists = [found_in(docs, queries, half) for half in HALVES]
    each = [np.array_split(np.array(found, object), len(SEARCHES)) for found in lists]
    joined = [tuple(row) for pair in zip(*each, strict=True) for half in pair for row in half]
    return joined, [row for half in HALVES for row in counted_in(docs, queries, half)]


@pytest.mark.parametrize("name", _MOST)
def test_the_same_answers_as_for_few_queries(name, width):
    queries, docs = asked(name)
    lists, counts = by_few_queries(name)
    assert found_in(docs, queries, ALL) == lists
    assert counted_in(docs, queries, ALL) == counts


@pytest.mark.parametrize("name", ["noise 0.1", "noise 0.001", "limit"])
def test_what_8_bits_leave_goes_on_by_16(name, width):
    queries, docs = asked(name)
    lists, counts = by_few_queries(name)
    ready = prepare(docs)
    assert found_in(ready, queries, ALL) == lists
    assert counted_in(ready, queries, ALL) == counts


def test_a_sum_at_the_limit_is_whole():
    """The largest sum there is: a row with itself, all of it in one pair of columns."""
    row = np.zeros((1, 96), np.float32)
    row[0, :2] = 1
    codes, step, *_ = made("native", row)
    total = int(codes[0] @ codes[0])
    assert 2**30 < total < 2**31
    assert abs(exact(step[0]) ** 2 * total - 2) < Fraction(1, 10**4)
