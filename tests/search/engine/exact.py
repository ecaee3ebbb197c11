"""Brute force in exact arithmetic: the scores, rankings and target ranks that must come out.

Every element of a float or integer array is a fraction; nothing here rounds but the quotient of two
whole numbers, once, to the nearest float64 (ties to even).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

Matrix = list[list[Fraction]]
Scores = list[list[float]]
Pairs = Collection[tuple[int, int]]

_BITS = 80  # of a root before its rounding: more than the 53 of float64


class Row(NamedTuple):
    """A vector as integers without a common divisor, times one fraction."""

    numbers: list[int]
    factor: Fraction
    square: Fraction  # of its length


def exact_scores(metric: str, queries: Any, docs: Any) -> Matrix:
    """Exact values to compare, queries × docs.

    dot: the product. l2: minus the squared distance. cosine: its square with its sign, which is
    rational and orders as the cosine does.
    """
    value = {"dot": _dot, "l2": _minus_squared_distance, "cosine": _signed_square}[metric]
    rows = [exact_row(row) for row in docs]
    return [[value(query, row) for row in rows] for query in map(exact_row, queries)]


def rounded_scores(metric: str, queries: Any, docs: Any) -> Scores:
    """The exact scores, each rounded once to float64; by whole numbers, quicker than fractions."""
    nearest = {"dot": _near_dot, "l2": _near_distance, "cosine": _near_cosine}[metric]
    rows = [_whole_row(row) for row in docs]
    return [[nearest(query, row) for row in rows] for query in map(_whole_row, queries)]


def exact_rank(
    scores: Scores, k: int, *, excluded: Pairs = (), keep_ties: bool = False
) -> list[list[tuple[int, float]]]:
    """For each query the k best (doc, score), ties by doc number; all that tie with the last."""
    ranked = []
    for q, row in enumerate(scores):
        places = [doc for doc in range(len(row)) if (q, doc) not in excluded]
        places.sort(key=lambda doc: (-row[doc], doc))
        last = row[places[:k][-1]] if places else 0.0
        kept = [doc for doc in places if row[doc] >= last] if keep_ties else places[:k]
        ranked.append([(doc, row[doc]) for doc in kept])
    return ranked


def exact_target_ranks(
    scores: Scores, targets: list[int], *, excluded: Pairs = ()
) -> list[tuple[int, int, int]]:
    """For each query (above, tied, before): docs above its target, level with it, and of these
    the ones with a lower number."""
    ranks = []
    for q, (row, target) in enumerate(zip(scores, targets, strict=True)):
        others = [doc for doc in range(len(row)) if doc != target and (q, doc) not in excluded]
        tied = [doc for doc in others if row[doc] == row[target]]
        above = sum(row[doc] > row[target] for doc in others)
        ranks.append((above, len(tied), sum(doc < target for doc in tied)))
    return ranks


def exact_row(row: Any) -> Row:
    """The exact value of a vector of any float or integer type."""
    values = [Fraction(*_ratio(element)) for element in row]
    denominator = math.lcm(*(value.denominator for value in values))
    numbers = [int(value * denominator) for value in values]
    square = Fraction(sum(number * number for number in numbers), denominator**2)
    divisor = math.gcd(*numbers) or 1
    return Row([number // divisor for number in numbers], Fraction(divisor, denominator), square)


def _ratio(element: Any) -> tuple[int, int]:
    if isinstance(element, np.integer):
        return int(element), 1
    return float(element).as_integer_ratio()


def _dot(x: Row, y: Row) -> Fraction:
    return sum(map(int.__mul__, x.numbers, y.numbers)) * x.factor * y.factor


def _minus_squared_distance(x: Row, y: Row) -> Fraction:
    return 2 * _dot(x, y) - x.square - y.square


def _signed_square(x: Row, y: Row) -> Fraction:
    dot = _dot(x, y)
    return dot * abs(dot) / (x.square * y.square)


class WholeRow(NamedTuple):
    """A vector as integers over one power of two."""

    numbers: list[int]
    power: int
    square: int  # the sum of the squares of the integers


def _whole_row(row: Any) -> WholeRow:
    ratios = [_ratio(element) for element in row]
    powers = [bottom.bit_length() - 1 for _, bottom in ratios]
    power = max(powers)
    numbers = [top << power - own for (top, _), own in zip(ratios, powers, strict=True)]
    return WholeRow(numbers, power, sum(map(int.__mul__, numbers, numbers)))


def _whole_dot(x: WholeRow, y: WholeRow) -> int:
    return sum(map(int.__mul__, x.numbers, y.numbers))


def _near_dot(x: WholeRow, y: WholeRow) -> float:
    return _quotient(_whole_dot(x, y), 1 << x.power + y.power)


def _near_distance(x: WholeRow, y: WholeRow) -> float:
    power = max(x.power, y.power)
    a, b = power - x.power, power - y.power
    total = (_whole_dot(x, y) << a + b + 1) - (x.square << 2 * a) - (y.square << 2 * b)
    return _quotient(total, 1 << 2 * power)


def _near_cosine(x: WholeRow, y: WholeRow) -> float:
    dot = _whole_dot(x, y)
    return _root(dot * abs(dot), x.square * y.square)


def rounded(value: Fraction) -> float:
    """The nearest float64, infinite beyond its range; 0.0 has no sign."""
    return _quotient(*value.as_integer_ratio())


def _quotient(top: int, bottom: int) -> float:
    try:
        return top / bottom + 0.0
    except OverflowError:
        return math.inf if top > 0 else -math.inf


def rounded_root(signed_square: Fraction) -> float:
    """The float64 nearest to the root of |value|, with the sign of the value."""
    return _root(*signed_square.as_integer_ratio())


def _root(signed: int, bottom: int) -> float:
    top = abs(signed)
    shift = max(0, _BITS + (bottom.bit_length() - top.bit_length()) // 2)
    root = math.isqrt((top << 2 * shift) // bottom)
    # A last bit that says "and a little more" decides what would otherwise look like a half.
    more = root * root * bottom != top << 2 * shift
    size = 2 * root + more
    return _quotient(-size if signed < 0 else size, 2 << shift)
