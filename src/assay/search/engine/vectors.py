"""Vectors as the search takes them: arrays, memory maps, open files or blocks, of many types.

Rows are widened, never narrowed: float16, bfloat16 and small integers become float32, all other
integers float64. float32 and float64 are used in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol, cast

import numpy as np

from assay.arrays import Array
from assay.core import checks
from assay.core.checks import thread_count
from assay.errors import MismatchError, ShapeError, ValueRangeError
from assay.io.arrays import NpyRows, open_rows
from assay.io.mapped import CopiedRows
from assay.native import kernels

_WINDOW_BYTES: Final = 64 << 20
_MOST_ROWS: Final = 1 << 20  # at a time: each needs some hundred bytes beside its elements
_RAW_BYTES: Final = 256 << 20  # of a file, mapped at a time
_TO_FLOAT32: Final = ("float16", "bfloat16", "int8", "uint8", "int16", "uint16")
_STORED: Final = ("float32", *_TO_FLOAT32)  # in the order that the kernels know


class Vectors(Protocol):
    """What can be cut into windows of rows: an array, or a file that is read as needed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""

    def __getitem__(self, rows: slice, /) -> Array:
        """Some rows."""


@dataclass(frozen=True)
class Rows:
    """Widened rows, C-contiguous; `first` is the number of the first one."""

    values: Array
    first: int
    what: str

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.values)


def matrix_of(vectors: Any, what: str) -> Vectors:
    """Vectors as something with rows and columns; a file is opened by the caller."""
    if not isinstance(vectors, NpyRows | CopiedRows):
        vectors = open_rows(checks.plain_array(vectors, what))
    check_shape(vectors.shape, what)
    check_type(vectors.dtype, what)
    return cast("Vectors", vectors)


def check_shape(shape: tuple[int, ...], what: str) -> None:
    """Two dimensions, each at least 1."""
    if len(shape) != 2 or 0 in shape:
        raise ShapeError(
            f"{what} must have two dimensions (rows × columns), each at least 1; "
            f"found shape {shape}."
        )


@cache  # the name of a type is made anew each time it is asked for
def stored_as(dtype: np.dtype[Any]) -> int | None:
    """What the kernels call a type that they read as it is."""
    return _STORED.index(dtype.name) if dtype.isnative and dtype.name in _STORED else None


@cache
def _becomes_float32(dtype: np.dtype[Any]) -> bool:
    return dtype.name in _TO_FLOAT32


def check_type(dtype: np.dtype[Any], what: str) -> None:
    """Real numbers of at most 64 bits."""
    if _becomes_float32(dtype) or (dtype.kind in "iuf" and dtype.itemsize <= 8):
        return
    hint = " Bits are searched by rank_codes." if dtype.kind == "b" else ""
    raise ValueRangeError(
        f"{what} must hold real numbers of at most 64 bits, found dtype {dtype}.{hint}"
    )


def widen(values: Array, what: str) -> Array:
    """Rows as float32 or float64, C-contiguous; no copy where they are that already."""
    if lies_ready(values):
        return values
    stored = stored_as(values.dtype)
    if stored:
        wide = np.empty(values.size, np.float32)
        kernels().widen(_bits_of(values), stored, wide, thread_count(None))
        return wide.reshape(values.shape)
    if _becomes_float32(values.dtype):
        return np.ascontiguousarray(values.astype(np.float32))
    if values.dtype.kind in "iu":
        return np.ascontiguousarray(checks.exact_scores(values, what))
    native = np.dtype(np.float32 if values.dtype.itemsize == 4 else np.float64)
    return np.require(values, native, ["C", "A"])


def doc_blocks(docs: Any, columns: int) -> tuple[Iterator[Rows], int | None]:
    """The documents block by block, and how many there are where that is known.

    A float32 array in memory is one block; everything else comes in windows, so that copies
    and pages of a memory map stay small.
    """
    if is_stream(docs):
        return _blocks_of_stream(iter(docs), columns), None
    matrix = matrix_of(docs, "docs")
    check_columns(matrix.shape[1], columns)
    return _windows(matrix, 0, "docs"), matrix.shape[0]


def is_stream(docs: Any) -> bool:
    """Iterators and lists of arrays come block by block; nested lists of numbers are an array."""
    if hasattr(docs, "dtype"):
        return False
    first = docs[0] if isinstance(docs, list | tuple) and docs else None
    return (
        isinstance(docs, Iterator)
        or getattr(first, "ndim", 0) == 2
        or (isinstance(docs, Iterable) and not hasattr(docs, "__len__"))
    )


def check_columns(columns: int, expected: int) -> None:
    """Queries and documents must be of one dimension."""
    if columns != expected:
        raise MismatchError(f"queries have {expected} columns and docs have {columns}.")


def _blocks_of_stream(blocks: Iterator[Any], columns: int) -> Iterator[Rows]:
    first = 0
    for number, block in enumerate(blocks):
        what = f"docs block {number}"
        matrix = matrix_of(block, what)
        check_columns(matrix.shape[1], columns)
        yield from _windows(matrix, first, what)
        first += matrix.shape[0]
    if first == 0:
        raise ShapeError("docs is an empty iterator: there is nothing to search.")


def _windows(matrix: Vectors, first: int, what: str) -> Iterator[Rows]:
    n_rows, columns = matrix.shape
    in_memory = isinstance(matrix, np.ndarray) and not isinstance(matrix, np.memmap)
    step = window_rows(columns)
    if in_memory and lies_ready(cast("Array", matrix)):
        step = _MOST_ROWS
    for start in range(0, n_rows, step):
        yield Rows(widen(matrix[start : start + step], what), first + start, what)


def window_rows(columns: int) -> int:
    """How many rows may be copied at a time."""
    return min(_MOST_ROWS, max(1, _WINDOW_BYTES // (4 * columns)))


def raw_windows(matrix: Vectors, step: int | None = None) -> Iterator[Rows]:
    """Rows of a type that is `stored_as` it is, where they lie; a file's are mapped in parts."""
    for start in range(0, matrix.shape[0], step := step or _raw_rows(matrix)):
        values = matrix[start : start + step]
        yield Rows(values if lies_ready(values) else _bits_of(values), start, "docs")


def _raw_rows(matrix: Vectors) -> int:
    """How many rows are read at a time as they are stored."""
    in_memory = isinstance(matrix, np.ndarray) and matrix.flags.c_contiguous
    if in_memory and not isinstance(matrix, np.memmap):
        return _MOST_ROWS
    most = _RAW_BYTES if in_memory else _WINDOW_BYTES
    return min(_MOST_ROWS, max(1, most // (matrix.dtype.itemsize * matrix.shape[1])))


def _bits_of(values: Array) -> Array:
    """Rows as the kernels take them: types that buffers cannot name are given by their bits."""
    ready = np.require(values, None, ["C", "A"])
    return ready if ready.dtype == np.float32 else ready.view(f"u{ready.dtype.itemsize}")


def lies_ready(matrix: Array) -> bool:
    """Whether the kernels can read an array of float32 where it lies."""
    return stored_as(matrix.dtype) == 0 and matrix.flags.c_contiguous and matrix.flags.aligned
