"""Names of the array types, small steps with arrays, exact sums, and random words by counter."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.errors import UsageError

Array = NDArray[Any]
# A matrix of vectors: an array, the path of a .npy file, or blocks of rows one after the other.
VectorsLike = ArrayLike | os.PathLike[str] | Iterable[ArrayLike]
# Ids of rows, or the path of a text file with one id a line.
IdsLike = Iterable[object] | os.PathLike[str]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Words = NDArray[np.uint64]
Words32 = NDArray[np.uint32]

Key = TypeVar("Key")

# Numbers that walks over Python's objects read themselves, beside those of Python.
NUMBER_TYPES: Final = (np.float64, np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8)


def _portable(function: np.ufunc) -> Callable[[ArrayLike], Floats]:
    """Compute in extended precision: for doubles, last digits differ between processors."""

    def compute(values: ArrayLike) -> Floats:
        return np.asarray(function(np.asarray(values, np.longdouble)), np.float64)

    return compute


exp, exp2, expm1 = _portable(np.exp), _portable(np.exp2), _portable(np.expm1)
log, log1p, log2 = _portable(np.log), _portable(np.log1p), _portable(np.log2)
sin, cos, arcsin = _portable(np.sin), _portable(np.cos), _portable(np.arcsin)


def power(base: ArrayLike, exponents: ArrayLike) -> Floats:
    """Raise to each exponent, with the same digits on every processor.

    A power in extended precision takes a microsecond: equal exponents of one base share it.

    >>> power(0.5, [1, 2, 1]).tolist()
    [0.5, 0.25, 0.5]
    """
    bases, places = np.asarray(base, np.longdouble), np.asarray(exponents, np.longdouble)
    if bases.ndim:
        return np.asarray(np.power(bases, places), np.float64)
    distinct, at = np.unique(places, return_inverse=True)
    return np.asarray(np.power(bases, distinct), np.float64)[at.reshape(places.shape)]


def as_array(values: Any) -> Any:
    """Return what numpy can read: torch tensors, also in a list, are brought to main memory.

    Their gradient stays behind. Numpy has no bfloat16, so such a tensor is widened to float32,
    which holds it exactly.

    Raises:
        UsageError: Numpy cannot hold the tensor, such as a sparse one.
    """
    if isinstance(values, list | tuple) and values and hasattr(values[0], "detach"):
        return [as_array(value) for value in values]
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    try:
        tensor = values.detach().cpu()
        widened = "bfloat16" in str(getattr(tensor, "dtype", ""))
        return (tensor.float() if widened else tensor).numpy()
    except (TypeError, RuntimeError) as error:
        reason = str(error).partition("\n")[0].rstrip(". ")
        raise UsageError(f"Cannot read a tensor: {reason}. Convert it to a dense array.") from None


def offsets_of(lengths: Any) -> Ints:
    """Return where each row of a ragged array begins and, last, the total length.

    >>> offsets_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def gather(offsets: Ints, rows: Ints) -> tuple[Ints | slice, Ints]:
    """Return the positions of the elements of some rows, and the new offsets.

    Rows that follow each other are a slice, so that nothing is moved.
    """
    if len(rows) == 0 or np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        edges = offsets[rows[0] : rows[0] + len(rows) + 1] if len(rows) else offsets[:1]
        return slice(int(edges[0]), int(edges[-1])), edges - edges[0]
    length = offsets[rows + 1] - offsets[rows]
    new = offsets_of(length)
    at = np.arange(new[-1]) - np.repeat(new[:-1] - offsets[rows], length)
    return at, new


def or_none(value: float | None) -> float | None:
    """Return the number for JSON and tables: None where it is not defined.

    >>> or_none(0.5), or_none(float("nan"))
    (0.5, None)
    """
    return None if value is None or math.isnan(value) else float(value)


def numbers_or_none(values: Mapping[Key, float]) -> dict[Key, float | None]:
    """Replace NaN by None in a dictionary of numbers."""
    return {key: or_none(value) for key, value in values.items()}


def rows_of(offsets: Ints) -> Ints:
    """Return the row number of every element of a ragged array.

    >>> rows_of(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(offsets) - 1), offsets[1:] - offsets[:-1])


# Sums that are exactly rounded, so that the order of the values cannot change a bit. Values from
# −1 to 1 are cut into whole numbers of so few bits that their sums are exact in any order, so only
# the sum of the sums is rounded. What two or three such pieces cannot hold is left to math.fsum.


_FEW: Final = 400  # for so many math.fsum takes as long as the short steps of numpy
_AT_ONCE: Final = 2**14  # values whose pieces stay in the nearest caches
_HELD: Final = 78  # bits after the point that the pieces must hold


def exact_sum(values: Floats) -> float:
    """Return math.fsum of the values, faster for many from −1 to 1."""
    return exact_row_sums(values.reshape(1, -1))[0]


def exact_row_sums(table: Floats) -> list[float]:
    """Return math.fsum of each row, faster for many values from −1 to 1.

    >>> exact_row_sums(np.array([[0.1, 0.2, 0.3], [7.5, 0.0, 0.0]]))
    [0.6, 7.5]
    """
    if table.size <= _FEW:
        return list(map(math.fsum, table.tolist()))
    step = max(1, _AT_ONCE // table.shape[1])
    parts = (table[first : first + step] for first in range(0, len(table), step))
    return [total for part in parts for total in _sums_of_rows(part)]


def _sums_of_rows(rows: Floats) -> list[float]:
    if rows.min() >= -1.0 and rows.max() <= 1.0:
        sums, rest = [], rows
        for piece, unit, left in _pieces(rows, rows.shape[1]):
            sums.append((piece.sum(axis=1) * unit).tolist())
            rest = left
        if not rest.any():
            return list(map(math.fsum, zip(*sums, strict=True)))
    if len(rows) == 1:
        return [math.fsum(rows[0].tolist())]
    return [total for number in range(len(rows)) for total in _sums_of_rows(rows[[number]])]


def exact_group_sums(values: Floats, groups: NDArray[np.int64], n_groups: int) -> Floats:
    """Return math.fsum of each group, all at once; `groups` are numbers in order.

    >>> exact_group_sums(np.array([0.1, 0.2, 0.3, 7.5]), np.array([0, 0, 0, 2]), 3).tolist()
    [0.6, 0.0, 7.5]
    """
    hard = np.abs(values) > 1.0
    easy = np.where(hard, 0.0, values)
    sums, rest = [], easy
    for piece, unit, left in _pieces(easy, len(values)):
        sums.append((np.bincount(groups, piece, n_groups) * unit).tolist())
        rest = left
    totals = np.array(list(map(math.fsum, zip(*sums, strict=True))), np.float64)
    for group in np.unique(groups[hard | (rest != 0)]).tolist():
        first, end = np.searchsorted(groups, [group, group + 1])
        totals[group] = math.fsum(values[first:end].tolist())
    return totals


def _pieces(values: Floats, terms: int) -> Iterator[tuple[Floats, float, Floats]]:
    """Yield the leading bits of each value as a whole number, its unit, and the rest.

    Sums of so many terms stay within 2^53, up to which all whole numbers are exact.
    """
    bits = 53 - terms.bit_length()
    rest = values
    for nth in range(1, 3 if 2 * bits >= _HELD else 4):
        scaled = rest * 2.0**bits
        piece = np.trunc(scaled)
        rest = scaled - piece
        yield piece, 2.0 ** (-bits * nth), rest


_BITS = 61  # one short of what a sum may fill, because a difference of two sums must fit too


def to_grid(values: Floats, terms: int) -> tuple[Ints, int]:
    """Round to multiples of 2^−shift, the finest grid on which a sum of `terms` values fits.

    With 10,000 terms the grid is 2^−47 of the largest value.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0:
        return np.zeros(values.shape, np.int64), 0
    shift = _BITS - math.frexp(largest)[1] - terms.bit_length()
    return np.rint(np.ldexp(values, shift)).astype(np.int64), shift


def slack(terms: int, largest: float, shift: int) -> int:
    """Return how far two sums may lie apart on the grid and still be the same sum but for rounding.

    Each term is off by half a step of the grid, and by some units in the last place of the scores
    that it was made of, the largest of which is given.
    """
    noise = 4 * np.finfo(np.float64).eps * largest
    return int(min(terms * (1 + np.ldexp(noise, shift)), 2.0**_BITS))


def from_grid(sums: Any, shift: int) -> Floats:
    """Go back from sums on the grid to real numbers."""
    return np.asarray(np.ldexp(np.asarray(sums, np.float64), -shift))


# Random words by counter: word i of a stream is a function of (seed, stream, i) alone, so that any
# cut into blocks or threads draws the same numbers. The function is SplitMix64 (Steele, Lea and
# Flood, OOPSLA 2014): a counter times an odd constant, scrambled by two multiplications. The
# compiled kernels compute the same words.
_STEP = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_ALL = (1 << 64) - 1

# Each use of chance has a stream of its own, so that a test and an interval with the same seed
# never share their draws.
_STREAMS = {
    "bootstrap": 1,
    "sign flips": 2,
    "shuffles": 3,
    "seeds of a": 4,
    "seeds of b": 5,
    "sampled queries": 6,
    "rotation": 7,
    "keypoints": 16,
    "demo scenes": 17,
}


def stream_key(seed: int, stream: str) -> int:
    """Return where a stream starts: 64 bits, far from every other start."""
    return _scramble(_scramble(seed + _STEP) ^ (_STREAMS[stream] * _STEP))


def words(key: int, first: int, count: int) -> Words:
    """Return words first … first + count − 1 of the stream at `key`.

    >>> [int(word) for word in words(1234567, 0, 2)]
    [6457827717110365317, 3203168211198807973]
    """
    start = np.uint64((key + (first + 1) * _STEP) & _ALL)
    word = np.arange(count, dtype=np.uint64)
    word *= np.uint64(_STEP)
    word += start
    scratch = np.empty_like(word)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        np.right_shift(word, np.uint64(shift), out=scratch)
        word ^= scratch
        word *= np.uint64(factor)
    np.right_shift(word, np.uint64(31), out=scratch)
    word ^= scratch
    return word


def _scramble(number: int) -> int:
    number &= _ALL
    number = ((number ^ (number >> 30)) * _FIRST) & _ALL
    number = ((number ^ (number >> 27)) * _SECOND) & _ALL
    return number ^ (number >> 31)
