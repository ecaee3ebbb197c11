"""Canonical scores and resampled sums in numpy: the twins of native/exact.

A canonical score is the exact value rounded once to float64. Products and sums carry their rounding
errors along (after Dekker 1971, Knuth 1969 and Ogita, Rump and Oishi 2005), in eight lanes: element
i of a row is added to lane i mod 8. What they may still be off is known. Where it leaves the last
bit open, the lowest bits of the elements are looked at: the exact sum and the computed one are both
multiples of 2^lattice, as all terms are, so that an error below that is 0. What is open even then
is decided in exact arithmetic.

Resampled sums are of integers, so that no order of additions can change a result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

import numpy as np

from assay.arrays import Array, Flags, Floats, Ints, Ints32, Words, rows_of, words
from assay.native.twins.trec import check_offsets, require

Pair = tuple[Floats, Floats]  # a number as hi + lo, lo its rounding error
Terms = Callable[[Floats, Floats], Pair]

_LANES = 8
_SPLIT = 134217729.0  # 2^27 + 1: cuts 53 bits into two halves
PAIRS_AT_ONCE = 2048  # so that the temporaries of a step stay in the cache
_ELEMENTS = 1 << 20  # of the rows gathered for them: 8 MB as float64
_NO_ERROR: Floats = np.zeros(())
_WORDS = 1 << 17  # random words at a time: about one megabyte


def canonical_norms(rows: Array, exponents: Ints32) -> Pair:
    """Return x·x of every row times 2^-exponent, as (hi, lo)."""
    hi, lo = np.empty(len(rows)), np.empty(len(rows))
    terms = _exact_products if rows.dtype == np.float32 else _products
    with np.errstate(all="ignore"):
        for part in _slices(len(rows), rows.shape[1]):
            scaled = _scaled(rows[part], exponents[part])
            hi[part], lo[part] = _sum(terms, scaled, scaled)
    return hi, lo


def canonical_scores(
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
    """Score the pairs (row at_query[i] of queries, row at_doc[i] of docs).

    The norms are those of `canonical_norms`, which only the cosine reads; a row of zeros has none.
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
    step = max(1, min(PAIRS_AT_ONCE, _ELEMENTS // max(columns, 1)))
    return [slice(start, start + step) for start in range(0, size, step)]


def _scaled(rows: Array, exponents: Ints32) -> Array:
    """Return rows times 2^-exponent; those of float32 stay so where that is 1."""
    return np.ldexp(_wide(rows), -exponents[:, None]) if exponents.any() else rows


def _taken(norms: Pair, at: Ints) -> Pair:
    return norms[0][at], norms[1][at]


class _PairRows(NamedTuple):
    """The rows of some pairs, with their exponents and square norms."""

    x: Array
    y: Array
    x_exponents: Ints32
    y_exponents: Ints32
    x_squares: Pair
    y_squares: Pair

    @property
    def are_single(self) -> bool:
        """Tell whether all are float32: products are exact, and never below the range."""
        return bool(self.x.dtype == self.y.dtype == np.float32)

    @property
    def error_share(self) -> float:
        """Bound what a sum may be off, as a share of its terms' sizes: see canonical_scores.hpp."""
        steps: float = self.x.shape[1] / _LANES + 17.0
        return 4.1 * steps * steps * 2.0**-106

    @property
    def underflow(self) -> float:
        """Bound what scaled products may lose below the range of float64."""
        return 0.0 if self.are_single else int(self.x.shape[1]) * 2.0**-900


def _l2(rows: _PairRows) -> tuple[Floats, Flags]:
    """Return minus the squared distances, and which of them are sure."""
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
    """Return dot products of the scaled rows, and what they may be off."""
    terms = _exact_products if rows.are_single else _products
    dots = _sum(terms, _scaled(rows.x, rows.x_exponents), _scaled(rows.y, rows.y_exponents))
    sizes = np.sqrt(rows.x_squares[0] * rows.y_squares[0])
    return dots, rows.error_share * sizes + rows.underflow


def _dot_lattice(rows: _PairRows, at: Ints) -> Ints32:
    x = _lowest_bits(rows.x[at]) - rows.x_exponents[at]
    return x + _lowest_bits(rows.y[at]) - rows.y_exponents[at]


def _is_sure(values: Pair, errors: Floats | float) -> Flags:
    """Tell whether every number within `errors` of hi + lo rounds to hi."""
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
    """Return the exponent of the lowest bit in each row; zeros have none."""
    fractions, exponents = np.frexp(rows.astype(np.float64))
    numbers = np.ldexp(np.abs(fractions), 53).astype(np.int64)
    places = np.frexp((numbers & -numbers).astype(np.float64))[1] + exponents - 54
    lowest: Ints32 = np.where(numbers == 0, 4096, places).min(axis=1, initial=4096).astype(np.int32)
    return lowest


def _quotients(dot: Pair, x_square: Pair, y_square: Pair) -> Pair:
    """Divide dot products by both norms; root and quotient are corrected once each."""
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
    """Multiply numbers that were float32: float64 holds the products."""
    return x * y, _NO_ERROR


def _products(x: Floats, y: Floats) -> Pair:
    """Return products and their rounding errors."""
    product = x * y
    x_hi, x_lo = _halves(x)
    y_hi, y_lo = (x_hi, x_lo) if y is x else _halves(y)
    rest = ((x_hi * y_hi - product) + x_hi * y_lo) + x_lo * y_hi
    return product, rest + x_lo * y_lo


def _halves(x: Floats) -> Pair:
    """Split x into two numbers of at most 26 bits."""
    big = _SPLIT * x
    hi = big - (big - x)
    return hi, x - hi


def _squared_differences(x: Floats, y: Floats) -> Pair:
    """Return (x − y)² and its error, but for the square of the difference's error."""
    difference, lost = _two_sum(x, -y)
    square, error = _products(difference, difference)
    return square, error + (2.0 * difference) * lost


def _two_sum(a: Floats, b: Floats) -> Pair:
    """Return sums and their rounding errors."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def exact_score(metric: Literal["cosine", "dot", "l2"], x: Array, y: Array) -> float:
    """Return the score of two rows: every element is a fraction, and only the end is rounded.

    >>> exact_score("dot", np.array([1e20, 1.0, 1e20]), np.array([1e20, 1.0, -1e20]))
    1.0
    """
    (a, a_exponent), (b, b_exponent) = _whole(x), _whole(y)
    if metric == "l2":
        exponent = min(a_exponent, b_exponent)
        a_step, b_step = 1 << a_exponent - exponent, 1 << b_exponent - exponent
        square = sum((s * a_step - t * b_step) ** 2 for s, t in zip(a, b, strict=True))
        return _nearest(-square, 2 * exponent)
    dot = _dot_of(a, b)
    if metric == "dot":
        return _nearest(dot, a_exponent + b_exponent)
    return _cosine_of(dot, _dot_of(a, a) * _dot_of(b, b)) if dot else 0.0


def _whole(row: Array) -> tuple[list[int], int]:
    """Return a row as whole numbers times 2^exponent."""
    fractions, exponents = np.frexp(row.astype(np.float64))
    numbers = np.ldexp(fractions, 53).astype(np.int64)
    lowest = int(exponents[numbers != 0].min(initial=1024))
    shifts = np.where(numbers == 0, 0, exponents - lowest)
    shifted = zip(numbers.tolist(), shifts.tolist(), strict=True)
    return [number << shift for number, shift in shifted], lowest - 53


def _dot_of(a: list[int], b: list[int]) -> int:
    return sum(map(int.__mul__, a, b))


def _cosine_of(dot: int, squares: int) -> float:
    """Return dot / √squares: its root to 62 bits, and a last bit for what is beyond."""
    top = dot * dot
    shift = (125 - top.bit_length() + squares.bit_length()) // 2
    top <<= 2 * shift
    root = math.isqrt(top // squares)
    size = 2 * root + (root * root * squares != top)
    return _nearest(size if dot > 0 else -size, -shift - 1)


def _nearest(number: int, exponent: int) -> float:
    """Return the float64 nearest to number · 2^exponent; infinite beyond the range."""
    try:
        nearest = number / (1 << -exponent) if exponent < 0 else float(number << exponent)
    except OverflowError:
        nearest = math.inf if number > 0 else -math.inf
    return nearest + 0.0  # never −0.0


def flip_sums(values: Ints, key: int, first: int, resamples: int, threads: int = 0) -> Ints:
    """Sum the values with random signs; see `signatures.Kernels.flip_sums`."""
    n_words = -(-len(values) // 64)
    # For each eight values the sums of all 256 choices of signs; a set bit is a minus.
    padded = np.zeros(n_words * 64, np.int64)
    padded[: len(values)] = values
    signs = 1 - 2 * ((np.arange(256)[:, None] >> np.arange(8)) & 1)
    tables = padded.reshape(-1, 8) @ signs.T
    sums = np.zeros(resamples, np.int64)
    for block, drawn in _draw_blocks(key, first, resamples, n_words):
        random_bytes = np.ascontiguousarray(drawn.astype("<u8", copy=False).view(np.uint8).T)
        for table, column in zip(tables, random_bytes, strict=True):
            sums[block] += table.take(column)
    return sums


def bootstrap_sums(
    values: Ints,
    columns: int,
    offsets: Ints,
    key: int,
    first: int,
    resamples: int,
    threads: int = 0,
) -> Ints:
    """Sum units drawn with replacement; see `signatures.Kernels.bootstrap_sums`."""
    require(columns >= 1 and len(values) % columns == 0, "values must be units × columns")
    units = len(values) // columns
    check_offsets(offsets, units)
    require(units < 1 << 32, "too many units")
    table = np.ascontiguousarray(values.reshape(-1, columns).T)
    sizes = np.diff(offsets)
    start_of, size_of = np.repeat(offsets[:-1], sizes), np.repeat(sizes, sizes).astype(np.uint64)
    sums = np.zeros((resamples, columns), np.int64)
    for block, drawn in _draw_blocks(key, first, resamples, -(-units // 2)):
        halves = _half_words(drawn, len(drawn))[:, :units]
        places = (halves * size_of >> np.uint64(32)).astype(np.int64) + start_of
        for column, row in enumerate(table):
            sums[block, column] = row.take(places).sum(axis=1)
    return sums.ravel()


def shuffled_ranges(
    values: Ints, systems: int, key: int, first: int, resamples: int, threads: int = 0
) -> Ints:
    """Return the ranges of shuffled sums; see `signatures.Kernels.shuffled_ranges`."""
    require(systems >= 2 and len(values) % systems == 0, "values must be queries × systems")
    table = values.reshape(-1, systems)
    ranges = np.zeros(resamples, np.int64)
    for block, drawn in _draw_blocks(key, first, resamples, len(table) * (systems // 2)):
        shuffled = _shuffle(table, _half_words(drawn, len(drawn) * len(table)))
        ranges[block] = np.ptp(shuffled.reshape(len(drawn), -1, systems).sum(axis=1), axis=1)
    return ranges


def _draw_blocks(
    key: int, first: int, resamples: int, n_words: int
) -> Iterator[tuple[slice, Words]]:
    """Yield some resamples at a time, with the random words of each as a row."""
    step = max(1, _WORDS // max(n_words, 1))
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        drawn = words(key, (first + start) * n_words, count * n_words)
        yield slice(start, start + count), drawn.reshape(count, n_words)


def _shuffle(table: Ints, halves: Words) -> Ints:
    """Shuffle each row by Fisher–Yates, from the last place to the second."""
    systems = table.shape[1]
    rows = np.tile(table, (len(halves) // len(table), 1)) if len(table) else table
    every = np.arange(len(rows))
    for step, last in enumerate(range(systems - 1, 0, -1)):
        partner = (halves[:, step] * np.uint64(last + 1) >> np.uint64(32)).astype(np.int64)
        taken = rows[every, partner]
        rows[every, partner] = rows[:, last]
        rows[:, last] = taken
    return rows


def _half_words(drawn: Words, rows: int) -> Words:
    """Split 64-bit words into 32-bit numbers, the low one first; one row per resample."""
    return drawn.astype("<u8", copy=False).view("<u4").reshape(rows, -1).astype(np.uint64)


def count_pairs(offsets: Ints, a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Count pairs that tie or stand in opposite order; see `signatures.Kernels.count_pairs`."""
    check_offsets(offsets, len(a))
    row, sizes = rows_of(offsets), np.diff(offsets)
    inside = all(len(side) == len(row) and (side <= sizes[row]).all() for side in (a, b))
    require(inside and min(a.min(initial=1), b.min(initial=1)) > 0, "ranks must fit their rows")
    step = 1 + b.max(initial=0)
    keys, counts = np.unique((offsets[row] + a - 1) * step + b, return_counts=True)
    row_of_key = np.searchsorted(offsets, keys // step, side="right") - 1
    tied = np.bincount(row_of_key, counts * (counts - 1) // 2, len(sizes))
    ranks, discordant = np.repeat(keys % step, counts), np.zeros(len(sizes))
    # Bit by bit: among ranks that agree in all higher bits, a one before a zero is such a pair.
    for bit in range(int(step).bit_length()):
        group = row * step + (ranks >> bit + 1)
        order = np.argsort(group, kind="stable")
        ones = ranks[order] >> bit & 1
        before = np.cumsum(ones) - ones
        before -= before[np.searchsorted(group[order], group[order])]
        discordant += np.bincount(row, np.where(ones, 0, before), len(sizes))
    return tied.astype(np.int64), discordant.astype(np.int64)
