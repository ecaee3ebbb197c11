"""Canonical scores in numpy: the compiled ones, bit for bit.

A score is the exact value rounded to float64, but for the rarest of cases. Products and sums
carry their rounding errors along (after Dekker 1971, Knuth 1969 and Ogita, Rump and Oishi 2005),
in eight lanes: element i of a row is added to lane i mod 8, so that every vector width and numpy
take the same additions in the same order. Nothing depends on which pairs are scored together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from assay.arrays import Array, Floats, Ints, Ints32

__all__ = ["pair_scores", "square_norms"]


Pair = tuple[Floats, Floats]  # a number as hi + lo, lo its rounding error
Terms = Callable[[Floats, Floats], Pair]

_LANES = 8
_SPLIT = 134217729.0  # 2^27 + 1: cuts 53 bits into two halves
_PAIRS = 2048  # pairs at a time, so that the temporaries of a step stay in the cache
_ELEMENTS = 1 << 20  # of the rows gathered for them: 8 MB as float64
_NO_ERROR: Floats = np.zeros(())


def square_norms(rows: Array, exponents: Ints32) -> Pair:
    """x·x of every row times 2^-exponent, as (hi, lo)."""
    hi, lo = np.empty(len(rows)), np.empty(len(rows))
    terms = _exact_products if rows.dtype == np.float32 else _products
    with np.errstate(all="ignore"):
        for part in _slices(len(rows), rows.shape[1]):
            scaled = _scaled(rows[part], exponents[part])
            hi[part], lo[part] = _sum(terms, scaled, scaled)
    return hi, lo


def pair_scores(
    metric: Literal["cosine", "dot", "l2"],
    queries: Array,
    query_exponents: Ints32,
    query_norms: Pair,
    docs: Array,
    doc_exponents: Ints32,
    doc_norms: Pair,
    at_query: Ints,
    at_doc: Ints,
) -> Floats:
    """Scores of the pairs (row at_query[i] of queries, row at_doc[i] of docs).

    The norms are those of `square_norms`, which only the cosine reads; a row of zeros has none.
    """
    scores = np.empty(len(at_query))
    exact = queries.dtype == docs.dtype == np.float32
    terms = _exact_products if exact else _products
    with np.errstate(all="ignore"):
        for part in _slices(len(at_query), queries.shape[1]):
            q, d = at_query[part], at_doc[part]
            x, y, e_x, e_y = queries[q], docs[d], query_exponents[q], doc_exponents[d]
            if metric == "l2":
                scores[part] = _l2(x, y, np.maximum(e_x, e_y))
                continue
            dot = _sum(terms, _scaled(x, e_x), _scaled(y, e_y))
            if metric == "dot":
                scores[part] = np.ldexp(dot[0], e_x + e_y)
            else:
                scores[part] = _cosine(dot, _taken(query_norms, q), _taken(doc_norms, d))
    scores += 0.0  # makes −0.0 a 0.0
    return scores


def _slices(size: int, columns: int) -> list[slice]:
    step = max(1, min(_PAIRS, _ELEMENTS // max(columns, 1)))
    return [slice(start, start + step) for start in range(0, size, step)]


def _scaled(rows: Array, exponents: Ints32) -> Array:
    """Rows times 2^-exponent; those of float32 stay so where that is 1."""
    return np.ldexp(_wide(rows), -exponents[:, None]) if exponents.any() else rows


def _taken(norms: Pair, at: Ints) -> Pair:
    return norms[0][at], norms[1][at]


def _l2(x: Array, y: Array, exponents: Ints32) -> Floats:
    """Minus the squared distance, both rows scaled by the same power of two."""
    squares, _ = _sum(_squared_differences, _scaled(x, exponents), _scaled(y, exponents))
    return -np.ldexp(squares, 2 * exponents)


def _cosine(dot: Pair, x_square: Pair, y_square: Pair) -> Floats:
    """The dot product over the root of the product of the squared norms, corrected once each."""
    (dot_hi, dot_lo), (a_hi, a_lo), (b_hi, b_lo) = dot, x_square, y_square
    product, error = _products(a_hi, b_hi)
    error = error + (a_hi * b_lo + a_lo * b_hi)
    root = np.sqrt(product)
    square, square_error = _products(root, root)
    root_error = (((product - square) - square_error) + error) / (2.0 * root)
    quotient = dot_hi / root
    back, back_error = _products(quotient, root)
    rest = ((dot_hi - back) - back_error) + (dot_lo - quotient * root_error)
    return quotient + rest / root


def _sum(terms: Terms, x: Array, y: Array) -> Pair:
    """The terms of each row added up in eight lanes, then the lanes from first to last."""
    sums, errors = np.zeros((2, len(x), _LANES))
    for start in range(0, x.shape[1], _LANES):
        columns = slice(start, min(start + _LANES, x.shape[1]))
        used = slice(0, columns.stop - start)  # a lane without an element does nothing
        term, term_error = terms(_wide(x[:, columns]), _wide(y[:, columns]))
        sums[:, used], error = _two_sum(sums[:, used], term)
        errors[:, used] += error + term_error
    total, total_error = sums[:, 0], errors[:, 0]
    for lane in range(1, _LANES):
        total, error = _two_sum(total, sums[:, lane])
        total_error = total_error + (error + errors[:, lane])
    return _two_sum(total, total_error)


def _wide(block: Array) -> Floats:
    return block.astype(np.float64, order="C")


def _exact_products(x: Floats, y: Floats) -> Pair:
    """Products of numbers that were float32: float64 holds them without an error."""
    return x * y, _NO_ERROR


def _products(x: Floats, y: Floats) -> Pair:
    """Products and their rounding errors."""
    product = x * y
    x_hi, x_lo = _halves(x)
    y_hi, y_lo = (x_hi, x_lo) if y is x else _halves(y)
    rest = ((x_hi * y_hi - product) + x_hi * y_lo) + x_lo * y_hi
    return product, rest + x_lo * y_lo


def _halves(x: Floats) -> Pair:
    """Two numbers of at most 26 bits whose sum is x."""
    big = _SPLIT * x
    hi = big - (big - x)
    return hi, x - hi


def _squared_differences(x: Floats, y: Floats) -> Pair:
    """(x − y)² and its error; the square of the difference's own error is beyond float64 pairs."""
    difference, lost = _two_sum(x, -y)
    square, error = _products(difference, difference)
    return square, error + (2.0 * difference) * lost


def _two_sum(a: Floats, b: Floats) -> Pair:
    """Sums and their rounding errors."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
