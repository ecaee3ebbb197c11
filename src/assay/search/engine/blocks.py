"""Prepare rows for the search: what the product multiplies, and by how much it may be off.

The product runs in float32. For each document there is a bound on the error of its score,
from the rounding of the inputs and of a sum of products in any order: with d columns and unit
roundoff u, at most m·u / (1 − m·u) times the norms of both rows, m being d and a few more for
the roundings around the sum (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3).
So no document that belongs to the best k can hide below the k-th best score less its bound.

Documents in 8 bits find candidates in less time than the float32 product. What lies along an axis
that all rows share is taken off each row and kept as one number. The rest is rotated (random signs,
then blocks of a Hadamard matrix) and rounded to multiples of a step of its own. The norm of what
rounding left over bounds what any product can be off, so that no document is lost: the proof is in
docs/exactness.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array, Bytes, Floats, Floats32, Ints32, stream_key, words
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import ValueRangeError
from assay.search.engine.inputs import Rows, Vectors, window_rows

if TYPE_CHECKING:
    from assay.native.signatures import CoarseHandle, DocHandle, Kernels, QueryHandle, RawHandle

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

PANEL: Final = 32  # documents that lie together
MOST_COLUMNS: Final = 16384  # so that sums of products stay within 32 bits
_STEP: Final = 4  # columns that lie together
_AXIS_SAMPLE: Final = 512
_LEAST_SHARED: Final = 0.3  # the length of the mean direction from which an axis pays


class Coarse(NamedTuple):
    """Hold codes in panels; of each row its step, the norm of what is left over, and its norm.

    `lean` is what was taken off each row along `axis`, and the others are of the rest.
    """

    codes: Bytes
    step: Floats32
    residual: Floats32
    norm: Floats32
    lean: Floats32
    axis: Floats32

    @classmethod
    def shapes(cls, n_rows: int, columns: int) -> dict[str, int]:
        """Return how many numbers each part holds."""
        codes = -(-n_rows // PANEL) * PANEL * -(-columns // _STEP) * _STEP
        of_rows = dict.fromkeys(cls._fields[1:-1], n_rows)
        return {"codes": codes, **of_rows, "axis": columns}

    def part(self, start: int, stop: int) -> Coarse | None:
        """Return some of the rows, where they start with a panel."""
        if start % PANEL:
            return None
        for_each = len(self.codes) // -(-len(self.step) // PANEL)
        codes = self.codes[start // PANEL * for_each : -(-stop // PANEL) * for_each]
        step, residual, norm, lean = (array[start:stop] for array in self[1:-1])
        return Coarse(codes, step, residual, norm, lean, self.axis)


@cache
def signs_of(columns: int) -> Floats32:
    """Return the rotation's signs of columns: the same everywhere, for files hold codes."""
    odd: NDArray[np.bool_] = (words(stream_key(0, "rotation"), 0, columns) & np.uint64(1)) == 1
    signs = np.where(odd, np.float32(-1), np.float32(1))
    signs.flags.writeable = False
    return signs


@np.errstate(all="ignore")
def axis_of(rows: Vectors) -> Floats32:
    """Return the mean direction of some rows, of length 1; zeros where they share none."""
    some = rows[:: max(1, rows.shape[0] // _AXIS_SAMPLE)].astype(np.float64)
    some /= np.abs(some).max(axis=1, keepdims=True)  # or squares might leave the range
    mean = np.nan_to_num(some / np.sqrt(np.square(some).sum(axis=1, keepdims=True))).mean(axis=0)
    length = np.sqrt(np.square(mean).sum())
    axis = mean / length if length >= _LEAST_SHARED else np.zeros(len(mean))
    return axis.astype(np.float32)


def coarsen(kernels: Kernels, rows: Floats32, axis: Floats32, threads: int) -> Coarse:
    """Quantise rows to 8 bits."""
    return Coarse(*kernels.coarsen(rows, axis, signs_of(rows.shape[1]), threads), axis)


class Sampled(NamedTuple):
    """Hold scores of some queries with some documents, and by how much 8 bits may be off."""

    scores: Floats32
    off: Floats32


@np.errstate(all="ignore")
def sample_scores(
    kernels: Kernels,
    queries: Floats32,
    docs: Floats32,
    axis: Floats32,
    scale: Floats32,
    bias: Floats32,
    most: int,
) -> Sampled:
    """Score a sample, which decides how to search, not what is found."""
    sample = slice(None, None, max(1, len(docs) // most))
    some = np.ascontiguousarray(docs[sample])
    left, right = (coarsen(kernels, rows, axis, 1) for rows in (queries, some))
    # not by BLAS, whose threads would go on waiting for more while those of the search work
    products = np.einsum("qc,dc->qd", queries, some)
    off = left.residual[:, None] * right.norm + left.norm[:, None] * right.residual
    return Sampled(bias[sample] + scale[sample] * products, scale[sample] * off)


@np.errstate(all="ignore")
def share_left(sampled: Sampled, share: float) -> float:
    """Estimate, for the median query, the share of documents that 8 bits leave to look at again."""
    scores, off = sampled
    rank = min(scores.shape[1], int(share * scores.shape[1]) + 2)
    floor = np.partition(scores, -rank, axis=1)[:, -rank]
    return float(np.median((scores + off >= floor[:, None]).mean(axis=1)))


class Metric(NamedTuple):
    """Name a metric, and what is done with rows that are zero."""

    name: str
    zero: str

    @property
    def code(self) -> int:
        """Return the kernels' number of the metric."""
        return METRICS[self.name]

    @classmethod
    def of(cls, name: str, zero: str) -> Metric:
        """Check a metric and what is done with zero rows."""
        return cls(
            checks.check_choice(name, tuple(METRICS), "metric"),
            checks.check_choice(zero, ("error", "drop", "last"), "zero"),
        )


@dataclass(frozen=True)
class MeasuredRows:
    """Hold rows with exponents and square norms; `coarse` are the rows in 8 bits.

    float64 rows count as scaled by 2^-exponent.
    """

    rows: Array
    first: int
    exponents: Ints32
    square_hi: Floats
    square_lo: Floats
    coarse: Coarse | None = None

    @property
    def zero(self) -> NDArray[np.bool_]:
        """Tell which rows are all zero."""
        empty: NDArray[np.bool_] = self.square_hi == 0.0
        return empty

    @property
    def norms(self) -> Floats:
        """Return Euclidean norms; infinite where float64 cannot hold one."""
        return np.ldexp(np.sqrt(self.square_hi), self.exponents)

    def part(self, start: int, stop: int) -> MeasuredRows:
        """Return some of the rows."""
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
            f"{what} row {_named(block.first + row, ids)} is all zeros and has no cosine "
            f"({int(block.zero.sum())} such rows). Remove them, or pass zero='drop' or "
            "zero='last'."
        )


def _named(row: int, ids: Ids | None) -> str:
    return f"{row}" if ids is None or row >= len(ids) else f"{row} (id {ids[row]!r})"


def _refuse_not_finite(rows: Rows, squares: Floats, ids: Ids | None) -> None:
    row = int(np.argmax(~np.isfinite(squares)))
    column = int(np.argmax(~np.isfinite(rows.values[row])))
    raise ValueRangeError(
        f"{rows.what} holds {rows.values[row, column]} at row "
        f"{_named(rows.first + row, ids)}, column {column}. Remove or replace such values."
    )


def _exponents(values: Array) -> Ints32:
    """Return the exponent of the largest element of float64 rows; float32 rows need none."""
    if values.dtype == np.float32:
        return np.zeros(len(values), np.int32)
    largest = np.maximum(values.max(axis=1), -values.min(axis=1))
    finite = np.where(np.isfinite(largest), largest, 0.0)
    lowest = np.finfo(np.float64).minexp  # a row of zeros must not set the scale of a pair
    return np.where(finite > 0, np.frexp(finite)[1], lowest).astype(np.int32)


class _Findable(NamedTuple):
    """Hold float32 rows of sane size: the true rows are rows · 2^exponents."""

    rows: NDArray[np.float32]
    exponents: NDArray[np.int64]
    norms: Floats


def _is_findable(block: MeasuredRows) -> bool:
    """Tell whether the product can read the rows as they are."""
    squares = block.square_hi[~block.zero]
    low, high = np.ldexp(1.0, [-2 * _SANE_EXPONENT, 2 * _SANE_EXPONENT])
    return block.rows.dtype == np.float32 and bool(((squares > low) & (squares < high)).all())


def convertible(block: MeasuredRows) -> Iterator[MeasuredRows]:
    """Yield the block, in parts where the product needs a copy: the copies stay small."""
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
    """Quantise rows, however they are cut; None where the codes would depend on that.

    float32 rows are searched as they are only where all of a block are of sane size.
    """
    if block.rows.dtype == np.float32 and not _is_findable(block):
        return None
    return coarsen(kernels, _findable(block).rows, axis, threads)


def _scale_rows(rows: Array, exponents: Ints32) -> NDArray[np.float32]:
    """Return rows times 2^exponents; some at a time, because float64 takes twice the room."""
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
    """Hold exponents of the smallest and the largest norm of queries that are not zero."""

    smallest: int
    largest: int


class Queries(NamedTuple):
    """Hold queries for the product, and for the kernels."""

    rows: NDArray[np.float32]
    weight: Floats
    shift: Floats
    block: QueryHandle


class Docs(NamedTuple):
    """Hold documents for the product and the kernels: score = bias + scale · (query · row)."""

    rows: NDArray[np.float32]
    scale: NDArray[np.float32]
    bias: NDArray[np.float32]
    bound: NDArray[np.float32]
    unit: float
    first: int
    block: DocHandle
    coarse: CoarseHandle | None = None

    def __len__(self) -> int:
        """Return the number of documents."""
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
        empty = find.norms == 0.0
        unit, scale = 1.0, np.where(empty, 0.0, 1.0 / np.where(empty, 1.0, find.norms))
        bias = np.where(empty, -np.inf if metric.zero == "drop" else ZERO_SCORE, 0.0)
        bound = np.full(len(scale), factor)
    else:
        unit, scale, norms = _scale_alike(find)
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
    """Prepare documents that a scan measures in float32, off by less than an eighth of the sum."""
    columns = rows.values.shape[1]
    factor = _error_factor(columns, columns // 8 + 16)
    rounding = _score_rounding(1.0, sizes, metric) + columns * 2.0**-125
    bias_unit = math.ldexp(0.5, -sizes.largest) if metric.name == "l2" else 0.0
    return kernels.RawBlock(
        rows.values, stored, metric.code, factor, rounding, bias_unit, rows.first
    )


def _score_rounding(unit: float, sizes: Sizes, metric: Metric) -> float:
    """Bound the error of a canonical score beyond a share of the document's size.

    It is rounded to float64: below the range of that, and where the distance to a short document
    is nearly the length of the query, the product sees more than the score does.
    """
    size = math.log2(unit)
    exponents = [size - _MAX_EXPONENT - 49 - sizes.smallest]
    if metric.name == "l2":
        exponents.append(size + sizes.largest - _DIGITS)
    # Infinite where float64 cannot hold a power: math.exp2 would raise an error.
    return sum(math.exp2(e) if e < _MAX_EXPONENT else math.inf for e in exponents)


def _scale_alike(find: _Findable) -> tuple[float, Floats, Floats]:
    """Scale all rows by one power of two, so that the largest norm is about 1."""
    sizes = find.exponents + np.frexp(find.norms)[1]
    top = int(sizes[find.norms > 0].max(initial=-2000))
    top = 0 if top == -2000 else top
    power = (find.exponents - top).astype(np.int32)
    scale = np.ldexp(1.0, power).astype(np.float32).astype(np.float64)
    return float(np.ldexp(1.0, -top)), scale, np.ldexp(find.norms, power)
