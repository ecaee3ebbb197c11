"""Rows prepared for the search: what the product multiplies, and by how much it may be off.

The product runs in float32. For each document there is a bound on the error of its score,
from the rounding of the inputs and of a sum of products in any order: with d columns and unit
roundoff u, at most m·u / (1 − m·u) times the norms of both rows, m being d and a few more for
the roundings around the sum (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3).
So no document that belongs to the best k can hide below the k-th best score less its bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array, Floats, Floats32, Ints32
from assay.core.ids import Ids
from assay.errors import UsageError, ValueRangeError
from assay.native.signatures import CoarseHandle, DocHandle, Kernels, QueryHandle, RawHandle
from assay.search.engine.coarse import Coarse, coarsen
from assay.search.engine.vectors import Rows, window_rows

METRICS: Final = {"cosine": 0, "dot": 1, "l2": 2}
ZERO_SCORE: Final = -2.0  # of a row without direction, under cosine: below every other score

_ROUNDOFF: Final = 2.0**-24
_ROUNDINGS_BESIDE_THE_SUM: Final = 8
_SANE_EXPONENT: Final = 100  # norms within 2^±100 can be multiplied in float32 as they are
_BELOW_ALL_EXPONENTS: Final = -5000
_ROWS_CONVERTED: Final = 1024  # at a time
_MAX_EXPONENT: Final = 1024  # of float64
_DIGITS: Final = 52
_LARGEST_BIAS: Final = 1e37
_NO_BOUND: Final = float(np.finfo(np.float32).max) / 4


class Metric(NamedTuple):
    """A metric, its number for the kernels, and what is done with rows that are zero."""

    name: str
    zero: str

    @property
    def code(self) -> int:
        """The number that the kernels know."""
        return METRICS[self.name]

    @classmethod
    def of(cls, name: str, zero: str) -> Metric:
        """A checked metric."""
        if name not in METRICS:
            raise UsageError(f"metric must be 'cosine', 'dot' or 'l2', found {name!r}.")
        if zero not in ("error", "drop", "last"):
            raise UsageError(f"zero must be 'error', 'drop' or 'last', found {zero!r}.")
        return cls(name, zero)


@dataclass(frozen=True)
class MeasuredRows:
    """Rows with their exponents (float64 rows count as scaled by 2^-exponent) and square norms.

    `coarse`, where they were prepared, are the rows for the product in 8 bits.
    """

    rows: Array
    first: int
    exponents: Ints32
    square_hi: Floats
    square_lo: Floats
    coarse: Coarse | None = None

    @property
    def zero(self) -> NDArray[np.bool_]:
        """Which rows are all zero."""
        empty: NDArray[np.bool_] = self.square_hi == 0.0
        return empty

    @property
    def norms(self) -> Floats:
        """Euclidean norms; infinite where float64 cannot hold one."""
        return np.ldexp(np.sqrt(self.square_hi), self.exponents)

    def part(self, start: int, stop: int) -> MeasuredRows:
        """Some of the rows."""
        return MeasuredRows(
            self.rows[start:stop],
            self.first + start,
            self.exponents[start:stop],
            self.square_hi[start:stop],
            self.square_lo[start:stop],
            self.coarse and self.coarse.part(start, stop),
        )


def measure_rows(
    kernels: Kernels, rows: Rows, metric: Metric, *, ids: Ids | None, threads: int
) -> MeasuredRows:
    """Measure rows; NaN, Inf and, under cosine, zero rows are refused by number and id."""
    exponents = _exponents(rows.values)
    hi, lo = kernels.square_norms(rows.values, exponents, threads)
    if not np.isfinite(hi).all():
        _refuse_not_finite(rows, hi, ids)
    measured = MeasuredRows(rows.values, rows.first, exponents, hi, lo)
    refuse_zero(measured, rows.what, metric, ids)
    return measured


def refuse_zero(block: MeasuredRows, what: str, metric: Metric, ids: Ids | None) -> None:
    """Refuse rows without direction where the metric asks for one."""
    if metric.name == "cosine" and metric.zero == "error" and block.zero.any():
        row = int(np.argmax(block.zero))
        raise ValueRangeError(
            f"{what} row {_named(block.first + row, ids)} is all zeros, which has no cosine; "
            f"{int(block.zero.sum())} such rows here. Remove them, or choose zero='drop' or "
            "zero='last'."
        )


def _named(row: int, ids: Ids | None) -> str:
    return f"{row}" if ids is None or row >= len(ids) else f"{row} (id {ids[row]!r})"


def _refuse_not_finite(rows: Rows, squares: Floats, ids: Ids | None) -> None:
    row = int(np.argmax(~np.isfinite(squares)))
    column = int(np.argmax(~np.isfinite(rows.values[row])))
    raise ValueRangeError(
        f"{rows.what} holds {rows.values[row, column]} at row {_named(rows.first + row, ids)}, "
        f"column {column}. Remove or replace such values: they cannot be ranked."
    )


def _exponents(values: Array) -> Ints32:
    """For float64 rows the exponent of the largest element; float32 rows need no scaling."""
    if values.dtype == np.float32:
        return np.zeros(len(values), np.int32)
    largest = np.maximum(values.max(axis=1), -values.min(axis=1))
    finite = np.where(np.isfinite(largest), largest, 0.0)
    lowest = np.finfo(np.float64).minexp  # a row of zeros must not set the scale of a pair
    return np.where(finite > 0, np.frexp(finite)[1], lowest).astype(np.int32)


class _Findable(NamedTuple):
    """float32 rows of sane size: the true rows are rows · 2^exponents."""

    rows: NDArray[np.float32]
    exponents: NDArray[np.int64]
    norms: Floats


def _is_findable(block: MeasuredRows) -> bool:
    """Whether the product can read the rows as they are."""
    squares = block.square_hi[~block.zero]
    low, high = np.ldexp(1.0, [-2 * _SANE_EXPONENT, 2 * _SANE_EXPONENT])
    return block.rows.dtype == np.float32 and bool(((squares > low) & (squares < high)).all())


def convertible(block: MeasuredRows) -> Iterator[MeasuredRows]:
    """The block, in parts where the product needs a copy of the rows: the copies stay small."""
    step = len(block.rows) if _is_findable(block) else window_rows(block.rows.shape[1])
    for start in range(0, len(block.rows), step):
        yield block.part(start, start + step)


def _findable(block: MeasuredRows) -> _Findable:
    roots = np.sqrt(block.square_hi)
    if _is_findable(block):
        return _Findable(block.rows, np.zeros(len(roots), np.int64), roots)
    exponents = block.exponents.astype(np.int64) + np.frexp(roots)[1]
    exponents[block.zero] = _BELOW_ALL_EXPONENTS  # or others would stretch zeros beyond float32
    norms = np.ldexp(roots, (block.exponents - exponents).astype(np.int32))
    return _Findable(_scale_rows(block.rows, -exponents.astype(np.int32)), exponents, norms)


def coarse_block(
    kernels: Kernels, block: MeasuredRows, axis: Floats32, threads: int
) -> Coarse | None:
    """The 8-bit form of rows, however they are cut; None where it would depend on that.

    float32 rows are searched as they are only where all of a block are of sane size.
    """
    if block.rows.dtype == np.float32 and not _is_findable(block):
        return None
    return coarsen(kernels, _findable(block).rows, axis, threads)


def _scale_rows(rows: Array, exponents: Ints32) -> NDArray[np.float32]:
    """Rows times 2^exponents; some at a time, because float64 takes twice the room."""
    scaled = np.empty(rows.shape, np.float32)
    for start in range(0, len(rows), _ROWS_CONVERTED):
        part = slice(start, start + _ROWS_CONVERTED)
        wide = rows[part].astype(np.float64, copy=False)
        scaled[part] = np.ldexp(wide, exponents[part, None])
    return scaled


def _error_factor(columns: int, more: int = 0) -> float:
    share = (columns + _ROUNDINGS_BESIDE_THE_SUM + more) * _ROUNDOFF
    return 1.01 * share / (1.0 - share) if share < 0.5 else _NO_BOUND


class Sizes(NamedTuple):
    """Exponents of the smallest and the largest norm of all queries that are not zero."""

    smallest: int
    largest: int


class Queries(NamedTuple):
    """Queries for the product, and for the kernels."""

    rows: NDArray[np.float32]
    weight: Floats
    shift: Floats
    block: QueryHandle


class Docs(NamedTuple):
    """Documents for the product, and for the kernels: score = bias + scale · (query · row)."""

    rows: NDArray[np.float32]
    scale: NDArray[np.float32]
    bias: NDArray[np.float32]
    bound: NDArray[np.float32]
    unit: float
    first: int
    block: DocHandle
    coarse: CoarseHandle | None = None

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.rows)


# Rows of absurd sizes overflow on the way; the bound of what comes out of that has no end.
@np.errstate(all="ignore")
def prepare_queries(
    kernels: Kernels, block: MeasuredRows, metric: Metric, *, sizes: Sizes
) -> Queries:
    """Make queries ready. Under l2 all are scaled alike, by 2^-largest.

    Under cosine a query that is zero becomes NaN, so that it finds nothing.
    """
    find = _findable(block)
    if metric.name == "l2":
        power = (find.exponents - sizes.largest).astype(np.int32)
        # As exact as ldexp of every element, which takes five times as long.
        factor: Array = np.ldexp(1.0, power)[:, None]
        if power.min(initial=0) > -_SANE_EXPONENT:
            factor = factor.astype(np.float32)
        rows: Array = find.rows * factor
        weight = np.full(len(rows), np.ldexp(0.5, -sizes.largest))
        shift = np.ldexp(block.square_hi, 2 * block.exponents)
    else:
        without_direction = np.nan if metric.name == "cosine" else 1.0
        norms = np.where(find.norms > 0, find.norms, without_direction)
        rows = find.rows / norms[:, None]
        true_norms = np.where(block.zero, 1.0, block.norms)
        weight = np.ones(len(rows)) if metric.name == "cosine" else 1.0 / true_norms
        shift = np.zeros(len(rows))
    single = np.ascontiguousarray(rows, np.float32)
    return Queries(single, weight, shift, kernels.QueryBlock(*_exact(block), single, weight, shift))


def _exact(block: MeasuredRows) -> tuple[Array, Ints32, Floats, Floats]:
    return block.rows, block.exponents, block.square_hi, block.square_lo


@np.errstate(all="ignore")
def prepare_docs(kernels: Kernels, block: MeasuredRows, metric: Metric, *, sizes: Sizes) -> Docs:
    """Make documents ready for queries of some sizes."""
    find = _findable(block)
    factor = _error_factor(block.rows.shape[1])
    if metric.name == "cosine":
        unit, scale, bias, bound = _cosine(find, factor, metric.zero)
    else:
        unit, scale, norms = _scaled(find)
        bias = np.zeros(len(norms))
        if metric.name == "l2":
            power = (find.exponents - sizes.largest).astype(np.int32)
            bias = -norms * np.ldexp(find.norms, power) / 2  # −|y|² / 2 in units of the product
        bound = factor * (norms + np.abs(bias)) + _score_rounding(unit, sizes, metric)
        beyond = ~(np.abs(bias) <= _LARGEST_BIAS)
        bias[beyond], bound[beyond] = 0.0, _NO_BOUND
    tiny = block.rows.shape[1] * 2.0**-125  # what may underflow
    find_with = (
        find.rows,
        scale.astype(np.float32),
        bias.astype(np.float32),
        np.minimum(bound + tiny, _NO_BOUND).astype(np.float32),
    )
    native = kernels.DocBlock(*_exact(block), *find_with, unit, block.first)
    return Docs(*find_with, unit, block.first, native)


def raw_docs(
    kernels: Kernels, rows: Rows, stored: int, metric: Metric, *, sizes: Sizes
) -> RawHandle:
    """Documents that a scan measures in float32, which is off by less than an eighth of the sum."""
    columns = rows.values.shape[1]
    factor = _error_factor(columns, columns // 8 + 16)
    rounding = _score_rounding(1.0, sizes, metric) + columns * 2.0**-125
    bias_unit = math.ldexp(0.5, -sizes.largest) if metric.name == "l2" else 0.0
    return kernels.RawBlock(
        rows.values, stored, metric.code, factor, rounding, bias_unit, rows.first
    )


def _score_rounding(unit: float, sizes: Sizes, metric: Metric) -> float:
    """What a canonical score is off where that is beyond a share of the document's own size.

    It is rounded to float64: below the range of that, and where the distance to a short document
    is nearly the length of the query, the product sees more than the score does.
    """
    size = math.log2(unit)
    underflow = _power_of_two(size - _MAX_EXPONENT - 49 - sizes.smallest)
    return underflow + (
        _power_of_two(size + sizes.largest - _DIGITS) if metric.name == "l2" else 0.0
    )


def _power_of_two(exponent: float) -> float:
    """Infinite where float64 cannot hold it, without an error."""
    return math.exp2(exponent) if exponent < _MAX_EXPONENT else math.inf


def _cosine(find: _Findable, factor: float, zero: str) -> tuple[float, Floats, Floats, Floats]:
    empty = find.norms == 0.0
    scale = np.where(empty, 0.0, 1.0 / np.where(empty, 1.0, find.norms))
    bias = np.where(empty, -np.inf if zero == "drop" else ZERO_SCORE, 0.0)
    return 1.0, scale, bias, np.full(len(scale), factor)


def _scaled(find: _Findable) -> tuple[float, Floats, Floats]:
    """All rows scaled by one power of two, so that the largest norm is about 1."""
    sizes = find.exponents + np.frexp(find.norms)[1]
    top = int(sizes[find.norms > 0].max(initial=-2000))
    top = 0 if top == -2000 else top
    power = (find.exponents - top).astype(np.int32)
    scale = np.ldexp(1.0, power).astype(np.float32).astype(np.float64)
    return float(np.ldexp(1.0, -top)), scale, np.ldexp(find.norms, power)
