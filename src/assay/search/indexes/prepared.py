"""Vectors as engines take them: float32 of a size that float32 can square.

Under cosine rows have length 1. Under the others all documents are scaled by one power of two,
which changes no order and no digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, Floats32, Ints32
from assay.core.ids import Ids
from assay.errors import ValueRangeError
from assay.io.arrays import open_rows
from assay.io.mapped import steady_files
from assay.search.engine.blocks import MeasuredRows, measure_rows
from assay.search.engine.blocks import Metric as EngineMetric
from assay.search.engine.plan import choose_kernels
from assay.search.engine.vectors import Rows, check_columns, matrix_of, widen
from assay.search.indexes.base import Metric

_LARGEST_EXPONENT: Final = 60  # a norm of 2^60 can be squared, and added, in float32
_ROUNDOFF: Final = 2.0**-24
_ROWS_CONVERTED: Final = 4096  # at a time


@dataclass(frozen=True)
class EngineVectors:
    """Documents as an engine takes them, and how queries must be scaled to meet them."""

    rows: Any  # as given, widened: what exact scores are computed from
    vectors: Floats32
    metric: Metric
    exponent: int  # of the largest norm
    largest: float

    def queries(self, queries: Any) -> tuple[Any, Floats32]:
        """Checked queries: as given, and as the engine takes them."""
        queries = open_rows(queries)
        with steady_files(queries):
            return self._ready(queries)

    def _ready(self, queries: Any) -> tuple[Any, Floats32]:
        block = _measure(queries, "queries", self.metric, ids=None)
        check_columns(self.rows.shape[1], block.rows.shape[1])
        if self.metric == "cosine":
            return block.rows, _to_unit(block)
        exponents = _norm_exponents(block)
        if self.metric == "dot":  # the length of a query changes no order
            return block.rows, _scale(block, -exponents)
        if _largest(block, exponents) - self.exponent > _LARGEST_EXPONENT:
            raise ValueRangeError(
                "Some queries are more than 2^60 times longer than all documents; engines that "
                "compute in float32 cannot tell documents apart at such a distance."
            )
        return block.rows, _scale(block, np.full_like(exponents, -self.exponent))

    def margins(self, queries: Any) -> Floats:
        """For each query, by how much an engine's scores may be off when it rounds to float32.

        As for the exact search: with d columns, about d roundings of the product of the norms;
        twice as many where an engine normalises once more.
        """
        factor = 1.01 * (2 * self.rows.shape[1] + 16) * _ROUNDOFF
        if self.metric == "cosine":
            return np.full(len(queries), factor)
        with np.errstate(over="ignore"):
            norms = _measure(queries, "queries", self.metric, ids=None).norms
            sized = norms * self.largest if self.metric == "dot" else (norms + self.largest) ** 2
            return np.asarray(factor * sized)


def prepare_docs(vectors: Any, metric: Metric, ids: Ids | None) -> EngineVectors:
    """Checked documents; NaN, infinite values and, under cosine, zero rows are refused."""
    vectors = open_rows(vectors)
    with steady_files(vectors):
        block = _measure(vectors, "docs", metric, ids=ids)
        exponents = _norm_exponents(block)
        largest = _largest(block, exponents)
        if metric == "cosine":
            ready = _to_unit(block)
        else:
            ready = _scale(block, np.full_like(exponents, -largest))
    return EngineVectors(block.rows, ready, metric, largest, float(block.norms.max()))


def _measure(vectors: Any, what: str, metric: Metric, *, ids: Ids | None) -> MeasuredRows:
    _, kernels = choose_kernels(None)
    rows = Rows(widen(matrix_of(open_rows(vectors), what)[:], what), 0, what)
    block = measure_rows(kernels, rows, EngineMetric.of(metric, "last"), ids=ids, threads=1)
    if metric == "cosine" and block.zero.any():
        row = int(np.argmax(block.zero))
        name = f" (id {ids[row]!r})" if ids is not None and row < len(ids) else ""
        raise ValueRangeError(
            f"{what} row {row}{name} is all zeros, which has no cosine; {int(block.zero.sum())} "
            "such rows in all. Remove them."
        )
    return block


def _norm_exponents(block: MeasuredRows) -> Ints32:
    """The exponent of each row's norm; of zero rows 0."""
    sized = np.frexp(np.sqrt(block.square_hi))[1] + block.exponents
    return np.where(block.zero, 0, sized).astype(np.int32)


def _largest(block: MeasuredRows, exponents: Ints32) -> int:
    """The largest exponent of rows that are not zero; 0 where all are."""
    return 0 if block.zero.all() else int(exponents[~block.zero].max())


def _to_unit(block: MeasuredRows) -> Floats32:
    """Rows divided by their norms."""
    return _convert(block.rows, -block.exponents, np.sqrt(block.square_hi))


def _scale(block: MeasuredRows, exponents: Ints32) -> Floats32:
    """Rows times 2^exponents."""
    return _convert(block.rows, exponents, np.ones(len(block.rows)))


def _convert(rows: Any, exponents: Ints32, divisors: Floats) -> Floats32:
    """Rows times 2^exponents over divisors; some at a time, because float64 takes room."""
    converted = np.empty(rows.shape, np.float32)
    for start in range(0, len(rows), _ROWS_CONVERTED):
        part = slice(start, start + _ROWS_CONVERTED)
        wide = np.ldexp(rows[part].astype(np.float64), exponents[part, None])
        converted[part] = wide / divisors[part, None]
    return converted
