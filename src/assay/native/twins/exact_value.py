"""Scores in exact arithmetic, for the few pairs whose rounding doubled precision leaves open."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from assay.arrays import Array


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
    dot = _dot(a, b)
    if metric == "dot":
        return _nearest(dot, a_exponent + b_exponent)
    return _cosine(dot, _dot(a, a) * _dot(b, b)) if dot else 0.0


def _whole(row: Array) -> tuple[list[int], int]:
    """Return a row as whole numbers times 2^exponent."""
    fractions, exponents = np.frexp(row.astype(np.float64))
    numbers = np.ldexp(fractions, 53).astype(np.int64)
    lowest = int(exponents[numbers != 0].min(initial=1024))
    shifts = np.where(numbers == 0, 0, exponents - lowest)
    shifted = zip(numbers.tolist(), shifts.tolist(), strict=True)
    return [number << shift for number, shift in shifted], lowest - 53


def _dot(a: list[int], b: list[int]) -> int:
    return sum(map(int.__mul__, a, b))


def _cosine(dot: int, squares: int) -> float:
    """dot / √squares: the root of the quotient to 62 bits, and a last one for what is beyond."""
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
