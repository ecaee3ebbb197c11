"""Check what a search is given: vectors, ids, excluded documents and the engine.

Vectors are arrays, memory maps, open files or blocks, of many types. Rows are widened, never
narrowed: float16, bfloat16 and small integers become float32, all other integers float64. float32
and float64 are used in place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast, get_args

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array, Ints
from assay.core import checks
from assay.core.checks import thread_count
from assay.core.ids import Ids
from assay.core.mismatches import check_own_ids
from assay.errors import IdError, InputError, MismatchError, ShapeError, UsageError, ValueRangeError
from assay.io.arrays import NpyRows, open_rows, read_ids
from assay.io.mapped import CopiedRows
from assay.native import Engine, engine_name, kernels, load
from assay.search.engine.sparse_vectors import is_sparse

if TYPE_CHECKING:
    from assay.native.signatures import Kernels

WINDOW_BYTES: Final = 64 << 20
MOST_ROWS: Final = 1 << 20  # at a time: each needs some hundred bytes beside its elements
ENGINES: Final = get_args(Engine)
_RAW_BYTES: Final = 256 << 20  # of a file, mapped at a time
_TO_FLOAT32: Final = ("float16", "bfloat16", "int8", "uint8", "int16", "uint16")
_STORED: Final = ("float32", *_TO_FLOAT32)  # in the order that the kernels know


class Vectors(Protocol):
    """Describe what can be cut into windows of rows: an array, or a file read as needed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return rows and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of the elements."""

    def __getitem__(self, rows: slice, /) -> Array:
        """Return some rows."""


@dataclass(frozen=True)
class Rows:
    """Hold widened rows, C-contiguous; `first` is the number of the first one."""

    values: Array
    first: int
    what: str

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)


def choose_kernels(engine: Engine | None) -> tuple[str, Kernels]:
    """Load the kernels of an engine; by default the best there are."""
    name = checks.check_choice(engine_name() if engine is None else engine, ENGINES, "engine")
    try:
        return name, load(cast("Engine", name))
    except ImportError:
        raise UsageError(
            "engine='native' needs compiled kernels. Install Assay with a C++ compiler, or "
            "pass engine='numpy' (same results)."
        ) from None


def check_ids(ids: Any, count: int | None, what: str) -> Ids | None:
    """Check ids, if there are any: unique, and as many as rows; a path is a file of ids."""
    if ids is None:
        return None
    names = read_ids(ids, what) if isinstance(ids, str | os.PathLike) else Ids.of(ids, what=what)
    if count is not None:
        checks.check_lengths(**{f"{what}_ids": len(names), "rows": count})
    checks.check_unique(names, what)
    return names


def matrix_of(vectors: Any, what: str) -> Vectors:
    """Return vectors as a checked matrix; a file is opened by the caller."""
    if is_sparse(vectors):
        raise UsageError(
            f"{what}: sparse vectors need rank, rank_shards, target_ranks or prepare, on both "
            "sides. Convert it."
        )
    if not isinstance(vectors, NpyRows | CopiedRows):
        vectors = open_rows(checks.plain_array(vectors, what))
    check_shape(vectors.shape, what)
    dtype = vectors.dtype
    if not (_becomes_float32(dtype) or (dtype.kind in "iuf" and dtype.itemsize <= 8)):
        hint = " Use rank_codes for bits." if dtype.kind == "b" else ""
        raise ValueRangeError(
            f"{what} must hold real numbers of at most 64 bits, found dtype {dtype}.{hint}"
        )
    return cast("Vectors", vectors)


def check_shape(shape: tuple[int, ...], what: str) -> None:
    """Refuse other than two dimensions of at least 1 each."""
    if len(shape) != 2 or 0 in shape:
        raise ShapeError(
            f"{what} must have two dimensions (rows × columns), each at least 1; "
            f"found shape {shape}."
        )


@cache  # the name of a type is made anew each time it is asked for
def stored_as(dtype: np.dtype[Any]) -> int | None:
    """Return the kernels' number of a type that they read as it is; None for others."""
    return _STORED.index(dtype.name) if dtype.isnative and dtype.name in _STORED else None


@cache
def _becomes_float32(dtype: np.dtype[Any]) -> bool:
    return dtype.name in _TO_FLOAT32


def widen(values: Array, what: str) -> Array:
    """Return rows as float32 or float64, C-contiguous; copied only where they are not."""
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
    """Return the documents block by block, and their number where that is known.

    A float32 array in memory is one block; everything else comes in windows, so that copies
    and pages of a memory map stay small.
    """
    if is_stream(docs):
        return _blocks_of_stream(iter(docs), columns), None
    matrix = matrix_of(docs, "docs")
    check_columns(matrix.shape[1], columns)
    return _windows(matrix, 0, "docs"), matrix.shape[0]


def is_stream(docs: Any) -> bool:
    """Tell documents that come block by block (iterators, lists of arrays) from an array."""
    if hasattr(docs, "dtype"):
        return False
    first = docs[0] if isinstance(docs, list | tuple) and docs else None
    return (
        isinstance(docs, Iterator)
        or getattr(first, "ndim", 0) == 2
        or (isinstance(docs, Iterable) and not hasattr(docs, "__len__"))
    )


def check_columns(columns: int, expected: int) -> None:
    """Refuse queries and documents of different dimensions."""
    if columns != expected:
        raise MismatchError(f"queries have {expected} columns, docs {columns}. Use one encoder.")


def _blocks_of_stream(blocks: Iterator[Any], columns: int) -> Iterator[Rows]:
    first = 0
    for number, block in enumerate(blocks):
        what = f"docs block {number}"
        matrix = matrix_of(block, what)
        check_columns(matrix.shape[1], columns)
        yield from _windows(matrix, first, what)
        first += matrix.shape[0]
    if first == 0:
        raise ShapeError("docs is an empty iterator. Pass documents.")


def _windows(matrix: Vectors, first: int, what: str) -> Iterator[Rows]:
    n_rows, columns = matrix.shape
    in_memory = isinstance(matrix, np.ndarray) and not isinstance(matrix, np.memmap)
    step = window_rows(columns)
    if in_memory and lies_ready(cast("Array", matrix)):
        step = MOST_ROWS
    for start in range(0, n_rows, step):
        yield Rows(widen(matrix[start : start + step], what), first + start, what)


def window_rows(columns: int) -> int:
    """Return how many rows may be copied at a time."""
    return min(MOST_ROWS, max(1, WINDOW_BYTES // (4 * columns)))


def raw_windows(matrix: Vectors, step: int | None = None) -> Iterator[Rows]:
    """Yield rows of a type that is `stored_as` it is, in place; a file's are mapped in parts."""
    if step is None:
        in_memory = isinstance(matrix, np.ndarray) and matrix.flags.c_contiguous
        most = _RAW_BYTES if in_memory else WINDOW_BYTES
        step = min(MOST_ROWS, max(1, most // (matrix.dtype.itemsize * matrix.shape[1])))
        if in_memory and not isinstance(matrix, np.memmap):
            step = MOST_ROWS
    for start in range(0, matrix.shape[0], step):
        values = matrix[start : start + step]
        yield Rows(values if lies_ready(values) else _bits_of(values), start, "docs")


def _bits_of(values: Array) -> Array:
    """Return rows as the kernels take them: types that buffers cannot name by their bits."""
    ready = np.require(values, None, ["C", "A"])
    return ready if ready.dtype == np.float32 else ready.view(f"u{ready.dtype.itemsize}")


def lies_ready(matrix: Array) -> bool:
    """Tell whether the kernels can read an array of float32 where it lies."""
    return stored_as(matrix.dtype) == 0 and matrix.flags.c_contiguous and matrix.flags.aligned


class Excluded(NamedTuple):
    """Hold the documents that queries must not find: the query itself, or listed pairs.

    The numbers of query q, ascending, are `docs[offsets[q]:offsets[q+1]]`.
    """

    offsets: Ints
    docs: Ints

    def part(self, start: int, stop: int) -> Excluded:
        """Return the exclusions of some queries."""
        offsets = self.offsets[start : stop + 1]
        return Excluded(offsets - offsets[0], self.docs[offsets[0] : offsets[-1]])

    def within(self, first: int, count: int) -> tuple[Ints, NDArray[np.uint32]]:
        """Return the exclusions among documents first … first + count − 1, numbered from 0."""
        inside = (self.docs >= first) & (self.docs < first + count)
        counts = np.concatenate([[0], np.cumsum(inside)])[self.offsets]
        return counts.astype(np.int64), (self.docs[inside] - first).astype(np.uint32)


def exclusions_of(
    exclude: Any, n_queries: int, n_docs: int | None, query_ids: Ids | None, doc_ids: Ids | None
) -> Excluded:
    """Read `exclude`: None, "self", or pairs of ids (of row numbers without ids)."""
    if exclude is not None and (query_ids is None) != (doc_ids is None):
        raise UsageError(
            "exclude needs ids on both sides or on neither. Pass query_ids and doc_ids, or none."
        )
    if exclude is None:
        return Excluded(np.zeros(n_queries + 1, np.int64), np.empty(0, np.int64))
    if isinstance(exclude, str):
        if exclude != "self":
            raise UsageError(f"exclude is {exclude!r}. Pass None, 'self' or a list of pairs.")
        pairs = _self_pairs(n_queries, n_docs, query_ids, doc_ids)
    elif query_ids is not None and doc_ids is not None:
        pairs = _pairs_of_ids(exclude, query_ids, doc_ids)
    else:
        pairs = _pairs_of_rows(exclude, n_queries, n_docs)
    pairs = np.unique(pairs, axis=0)  # sorted by query, then by document
    offsets = np.searchsorted(pairs[:, 0], np.arange(n_queries + 1)).astype(np.int64)
    return Excluded(offsets, np.ascontiguousarray(pairs[:, 1]))


def refuse_short(lengths: Ints, least: Any) -> None:
    """Refuse results of an exact search that hold fewer documents than there are to find."""
    short = lengths < least
    if short.any():
        query = int(np.argmax(short))
        needed = int(np.broadcast_to(least, lengths.shape)[query])
        raise InputError(
            f"The exact search returned {lengths[query]} of {needed} documents for query row "
            f"{query}, and too few for {int(short.sum())} of {len(lengths)} queries. The "
            "vectors changed during the search. Search again, and report a bug if it "
            "persists."
        )


def _self_pairs(
    n_queries: int, n_docs: int | None, query_ids: Ids | None, doc_ids: Ids | None
) -> Ints:
    if query_ids is not None and doc_ids is not None:
        docs = query_ids.match(doc_ids)
        check_own_ids(query_ids, doc_ids)
        there = np.flatnonzero(docs >= 0)
        return np.stack([there, docs[there]], axis=1)
    if n_docs is not None and n_docs != n_queries:
        raise MismatchError(
            f"exclude='self' by row needs equal counts, found {n_queries} queries and "
            f"{n_docs} documents. Pass query_ids and doc_ids."
        )
    rows = np.arange(n_queries)
    return np.stack([rows, rows], axis=1)


def _pairs_of_rows(exclude: Any, n_queries: int, n_docs: int | None) -> Ints:
    pairs = checks.plain_array(exclude, "exclude")
    if pairs.size == 0:
        return np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ShapeError(f"exclude must hold pairs (query, doc), found shape {pairs.shape}.")
    queries = checks.check_numbers(pairs[:, 0], n_queries, "query numbers in exclude")
    limit = np.iinfo(np.int32).max if n_docs is None else n_docs
    docs = checks.check_numbers(pairs[:, 1], limit, "doc numbers in exclude")
    return np.stack([queries, docs], axis=1)


def list_pairs(exclude: Any) -> list[list[Any]]:
    """Return the pairs (query id, doc id) of `exclude`, checked."""
    pairs = checks.as_list(exclude, "exclude")
    listed = [checks.as_list(pair, "a pair in exclude") for pair in pairs]
    if any(len(pair) != 2 for pair in listed):
        raise ShapeError("exclude must hold pairs (query id, doc id).")
    return listed


def _pairs_of_ids(exclude: Any, query_ids: Ids, doc_ids: Ids) -> Ints:
    listed = list_pairs(exclude)
    if not listed:
        return np.empty((0, 2), np.int64)
    columns = []
    for side, (what, ids) in enumerate((("query", query_ids), ("doc", doc_ids))):
        names = [pair[side] for pair in listed]
        columns.append(Ids.of(names, what=what).match(ids))
        if (columns[side] < 0).any():
            name = names[int(np.argmax(columns[side] < 0))]
            raise IdError(f"exclude names the {what} {name!r}, an unknown {what}. Drop the pair.")
    return np.stack(columns, axis=1)
