"""Canonical scores in numpy: the exact values rounded once to float64, as the compiled ones.

Products and sums carry their rounding errors along (after Dekker 1971, Knuth 1969 and Ogita, Rump
and Oishi 2005), in eight lanes: element i of a row is added to lane i mod 8. What they may still be
off is known. Where it leaves the last bit open, the lowest bits of the elements are looked at: the
exact sum and the one found are both multiples of 2^lattice, as all terms are, so that an error
below that is 0. What is open even then is decided in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import numpy as np

from assay.arrays import Array, Flags, Floats, Ints, Ints32
from assay.native.twins.exact_value import exact_score

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
    with np.errstate(all="ignore"):
        for part in _slices(len(at_query), queries.shape[1]):
            q, d = at_query[part], at_doc[part]
            rows = _PairRows(
                queries[q],
                docs[d],
                query_exponents[q],
                doc_exponents[d],
                _taken(query_norms, q),
                _taken(doc_norms, d),
            )
            scores[part], sure = _FINDERS[metric](rows)
            for at in np.flatnonzero(~sure):
                scores[part.start + at] = exact_score(metric, rows.x[at], rows.y[at])
    scores += 0.0  # makes −0.0 a 0.0
    return scores


def _slices(size: int, columns: int) -> list[slice]:
    step = max(1, min(_PAIRS, _ELEMENTS // max(columns, 1)))
    return [slice(start, start + step) for start in range(0, size, step)]


def _scaled(rows: Array, exponents: Ints32) -> Array:
    """Return rows times 2^-exponent; those of float32 stay so where that is 1."""
    return np.ldexp(_wide(rows), -exponents[:, None]) if exponents.any() else rows


def _taken(norms: Pair, at: Ints) -> Pair:
    return norms[0][at], norms[1][at]


class _PairRows(NamedTuple):
    """The rows of some pairs, one pair below the other, and what is known of them."""

    x: Array
    y: Array
    x_exponents: Ints32
    y_exponents: Ints32
    x_squares: Pair
    y_squares: Pair

    @property
    def are_single(self) -> bool:
        """Whether all are float32: their products are exact, and never below the range."""
        return bool(self.x.dtype == self.y.dtype == np.float32)

    @property
    def error_share(self) -> float:
        """What a sum may be off, as a share of the sizes of its terms: see exact_scores.hpp."""
        steps: float = self.x.shape[1] / _LANES + 17.0
        return 4.1 * steps * steps * 2.0**-106

    @property
    def underflow(self) -> float:
        """What scaled products may lose below the range of float64."""
        return 0.0 if self.are_single else int(self.x.shape[1]) * 2.0**-900


def _l2(rows: _PairRows) -> tuple[Floats, Flags]:
    """Minus the squared distance, both rows scaled by the same power of two; which are sure."""
    exponents = np.maximum(rows.x_exponents, rows.y_exponents)
    squares = _sum(_squared_differences, _scaled(rows.x, exponents), _scaled(rows.y, exponents))
    errors = rows.error_share * squares[0] + rows.underflow

    def lattice(at: Ints) -> Ints32:
        return 2 * (np.minimum(_lowest_bits(rows.x[at]), _lowest_bits(rows.y[at])) - exponents[at])

    sure = _sure_or_exact(squares, errors, lattice)
    return _scaled_back(-squares[0], 2 * exponents, sure)


def _dot(rows: _PairRows) -> tuple[Floats, Flags]:
    dots, errors = _products_of(rows)
    sure = _sure_or_exact(dots, errors, lambda at: _dot_lattice(rows, at))
    return _scaled_back(dots[0], rows.x_exponents + rows.y_exponents, sure)


def _cosine(rows: _PairRows) -> tuple[Floats, Flags]:
    dots, errors = _products_of(rows)
    cosines = _quotients(dots, rows.x_squares, rows.y_squares)
    tiny = rows.underflow * 2.0**200
    sure = _is_sure(cosines, 2.2 * rows.error_share + tiny)
    at = np.flatnonzero(~sure)
    exact = errors[at] < np.ldexp(1.0, _dot_lattice(rows, at))
    zero = dots[0][at] == 0.0
    hi, lo = _taken(cosines, at)
    sure[at] = exact & (zero | _is_sure((hi, lo), 1.2 * rows.error_share * np.abs(hi) + tiny))
    return np.where(dots[0] == 0.0, 0.0, cosines[0]), sure


_FINDERS: Final = {"cosine": _cosine, "dot": _dot, "l2": _l2}


def _products_of(rows: _PairRows) -> tuple[Pair, Floats]:
    """Dot products of the scaled rows, and what they may be off."""
    terms = _exact_products if rows.are_single else _products
    dots = _sum(terms, _scaled(rows.x, rows.x_exponents), _scaled(rows.y, rows.y_exponents))
    sizes = np.sqrt(rows.x_squares[0] * rows.y_squares[0])
    return dots, rows.error_share * sizes + rows.underflow


def _dot_lattice(rows: _PairRows, at: Ints) -> Ints32:
    x = _lowest_bits(rows.x[at]) - rows.x_exponents[at]
    return x + _lowest_bits(rows.y[at]) - rows.y_exponents[at]


def _is_sure(values: Pair, errors: Floats | float) -> Flags:
    """Whether hi is the float64 nearest to every number that is at most `errors` from hi + lo."""
    hi, lo = values
    sure: Flags = (hi + (lo + errors) == hi) & (hi + (lo - errors) == hi)
    return sure


def _sure_or_exact(values: Pair, errors: Floats, lattice: Callable[[Ints], Ints32]) -> Flags:
    sure = _is_sure(values, errors)
    at = np.flatnonzero(~sure)
    sure[at] = errors[at] < np.ldexp(1.0, lattice(at))
    return sure


def _scaled_back(values: Floats, exponents: Ints32, sure: Flags) -> tuple[Floats, Flags]:
    """Return values times 2^exponent; below the normal range that would round them twice."""
    scores = np.ldexp(values, exponents)
    is_exact = (exponents == 0) | (values == 0.0) | (np.abs(scores) >= np.finfo(np.float64).tiny)
    return scores, sure & is_exact


def _lowest_bits(rows: Array) -> Ints32:
    """For each row the exponent of the lowest bit of all its elements; zeros have none."""
    fractions, exponents = np.frexp(rows.astype(np.float64))
    numbers = np.ldexp(np.abs(fractions), 53).astype(np.int64)
    places = np.frexp((numbers & -numbers).astype(np.float64))[1] + exponents - 54
    lowest: Ints32 = np.where(numbers == 0, 4096, places).min(axis=1, initial=4096).astype(np.int32)
    return lowest


def _quotients(dot: Pair, x_square: Pair, y_square: Pair) -> Pair:
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
    return _two_sum(quotient, rest / root)


def _sum(terms: Terms, x: Array, y: Array) -> Pair:
    """Return the terms of each row added up in eight lanes, then the lanes from first to last."""
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
