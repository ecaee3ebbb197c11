"""Pack binary codes, eight bits to a byte, and search among them by Hamming distance.

Distances are counted, never sorted, so ties are known exactly: equal distances are in the order
of document numbers, and a ranking says where its cut divides them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.arrays import Array, IdsLike, Ints, VectorsLike
from assay.core import checks
from assay.core.checks import thread_count
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.io.arrays import NpyRows, open_rows
from assay.io.mapped import (
    CopiedRows,
    Watched,
    copy_mapped,
    is_mapped,
    needs_copies,
    steady_files,
    watches_of,
)
from assay.native import Engine
from assay.native.tie_order import nearest_order
from assay.search.engine.inputs import (
    Excluded,
    check_ids,
    choose_kernels,
    exclusions_of,
    refuse_short,
)
from assay.search.engine.plan import search_settings
from assay.search.engine.workers import Control, Progress, run

if TYPE_CHECKING:
    from assay.native.signatures import Kernels

MOST_BITS = 65535
BLOCK_CELLS = 1 << 22  # cells at a time: a few megabytes
MOST_QUERIES = 1024  # in one call of a kernel
FEWEST_QUERIES = 64  # for each thread; with fewer, the threads share out the documents
FEWEST_DOCS = 4096  # in one share of the documents
_WORK_BYTES = 128 << 20  # for all threads together
_LARGEST_DOC = 2**31 - 2


@dataclass(frozen=True, eq=False)
class Codes:
    """Hold packed rows of `bits` bits each, as `numpy.packbits` makes them, or a memory map.

    Where `bits` is not a multiple of 8, the low bits of a row's last byte pad it. They must be 0: a
    padding that is not says that the length is wrong, so it is refused and never masked.

    Args:
        packed: Rows × bytes, of uint8.
        bits: Number of bits of each row.

    Raises:
        AssayError: The shape, type or padding does not fit the number of bits.

    Example:
        >>> Codes(np.array([[0b10100000]], np.uint8), 3)
        Codes(1 × 3 bits)
    """

    packed: NDArray[np.uint8]
    bits: int

    def __post_init__(self) -> None:
        """Check the shape and the padding."""
        bits = checks.check_cutoff(self.bits, "bits")
        if bits > MOST_BITS:
            raise UsageError(f"{bits} bits exceed the limit of {MOST_BITS}. Shorten the codes.")
        packed = checks.plain_array(self.packed, "packed")
        if needs_copies() and is_mapped(packed):
            packed = copy_mapped(packed)
        with steady_files(packed):
            _check_packed(packed, bits)
        view = np.ascontiguousarray(packed).view()
        view.flags.writeable = False
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "packed", view)

    @property
    def watched_files(self) -> tuple[Watched, ...]:
        """Return what must not change meanwhile."""
        return watches_of(self.packed)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.packed)

    def __repr__(self) -> str:
        """Show rows and bits in one line."""
        return f"Codes({len(self)} × {self.bits} bits)"


def pack_codes(bits: ArrayLike, *, what: str = "codes") -> Codes:
    """Pack an array of {0, 1}, of True and False, or of ±1.

    Args:
        bits: Rows × bits.
        what: Name of the array in messages.

    Returns:
        The packed codes.

    Raises:
        AssayError: A cell is no bit, or both 0 and −1 stand for unset bits.

    Example:
        >>> pack_codes([[1, -1, 1], [-1, -1, -1]]).packed.tolist()
        [[160], [0]]
    """
    cells = _cells(bits, what)
    n_rows, n_bits = cells.shape
    packed = np.empty((n_rows, -(-n_bits // 8)), np.uint8)
    low: int | None = None  # what stands for an unset bit: 0 or −1, once one was seen
    with steady_files(cells):
        for rows in _blocks(n_rows, n_bits):
            block = cells[rows]
            if cells.dtype.kind != "b":
                low = _check_cells(block, rows.start, low, what)
            packed[rows] = np.packbits(block > 0, axis=1)
    return Codes(packed, n_bits)


def as_codes(codes: Any, what: str) -> Codes:
    """Return codes as they are; pack any other array."""
    return codes if isinstance(codes, Codes) else pack_codes(codes, what=what)


def _check_packed(packed: Array, bits: int) -> None:
    if packed.dtype != np.uint8:
        raise ValueRangeError(
            f"Packed codes are uint8, found {packed.dtype}. Pack an array of bits with pack_codes."
        )
    width = -(-bits // 8)
    if packed.ndim != 2 or len(packed) == 0 or packed.shape[1] != width:
        raise ShapeError(
            f"Packed codes of {bits} bits must have the shape (rows, {width}), with at least one "
            f"row; found {packed.shape}."
        )
    padding = (1 << (-bits % 8)) - 1
    for rows in _blocks(len(packed), 1) if padding else ():
        set_bits = packed[rows, -1] & padding
        if set_bits.any():
            row = rows.start + int(np.argmax(set_bits != 0))
            raise ValueRangeError(
                f"Row {row} of the packed codes has a bit set beyond its {bits} bits: its last "
                f"byte is {packed[row, -1]:#010b}, whose last {-bits % 8} bits only pad. Correct "
                "the number of bits, or clear the padding."
            )


def _cells(bits: Any, what: str) -> Array:
    """Check a two-dimensional array of numbers or booleans."""
    if isinstance(bits, CopiedRows):
        bits = bits.array
    if isinstance(bits, NpyRows):
        _cells(bits.stand_in, what)
        return cast("Array", bits)
    cells = checks.plain_array(bits, what)
    if cells.dtype.name != "bfloat16" and cells.dtype.kind not in "biuf":
        raise ValueRangeError(f"{what} must hold 0 and 1, booleans or ±1, found {cells.dtype}.")
    if cells.ndim != 2 or 0 in cells.shape:
        raise ShapeError(
            f"{what} must have two dimensions (rows × bits), each at least 1; "
            f"found shape {cells.shape}."
        )
    if cells.shape[1] > MOST_BITS:
        raise ShapeError(
            f"{what} has {cells.shape[1]} columns, above {MOST_BITS} bits. Shorten it."
        )
    return cast("Array", open_rows(cells))


def _blocks(n_rows: int, row_cells: int) -> Iterator[slice]:
    step = max(1, BLOCK_CELLS // row_cells)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _check_cells(block: Array, first_row: int, low: int | None, what: str) -> int | None:
    """Refuse the first cell that is not a bit; return the value of an unset bit."""
    zero, minus = block == 0, block == -1
    strange = ~(zero | minus | (block == 1))
    if strange.any():
        row, column = np.argwhere(strange)[0]
        hint = " Packed bits are given as Codes(packed, bits)." if block.dtype == np.uint8 else ""
        raise ValueRangeError(
            f"{what} holds {block[row, column]} in row {first_row + row}, column {column}. "
            f"Use 0 and 1, True and False, or −1 and 1.{hint}"
        )
    if low is None:
        unset = np.argwhere(zero | minus)
        if not len(unset):
            return None
        low = int(block[tuple(unset[0])])
    other = minus if low == 0 else zero
    if other.any():
        row, column = np.argwhere(other)[0]
        raise ValueRangeError(
            f"{what} holds {-1 - low} in row {first_row + row}, column {column}, but {low} "
            "elsewhere. Use either 0 and 1, or −1 and 1."
        )
    return low


class _Nearest(NamedTuple):
    """Hold the nearest documents of a block of queries."""

    counts: Ints
    docs: NDArray[np.int32]
    distances: NDArray[np.int32]
    tie_split: NDArray[np.uint8]


class _CodeSearch(NamedTuple):
    queries: Codes
    docs: Codes
    k: int
    keep_ties: bool
    excluded: Excluded
    kernels: Kernels


def rank_codes(
    queries: Codes | VectorsLike,
    docs: Codes | VectorsLike,
    k: int,
    *,
    exclude: Any = None,
    query_ids: IdsLike | None = None,
    doc_ids: IdsLike | None = None,
    keep_ties: bool = False,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """Rank for each query the k documents at the smallest Hamming distance.

    Args:
        queries: `Codes`, or an array that `pack_codes` takes.
        docs: Codes of the documents, likewise.
        k: Number of documents for each query.
        exclude: "self" (by id, or by row number where there are no ids) or a list of
            (query, document) pairs.
        query_ids: Ids of the queries, or a text file with one a line; by default row numbers.
        doc_ids: Ids of the documents, likewise.
        keep_ties: Keep all documents at the k-th distance.
        threads: Number of threads, by default one for each core.
        engine: "native" or "numpy", with the same bytes from both.
        progress: Function that is called with (done, total) meanwhile.

    Returns:
        The ranking; a score is minus the distance, and equal ones are in the order of document
        numbers.

    Raises:
        AssayError: Codes, ids or options do not fit.

    Example:
        >>> rank_codes([[1, 1, 0]], [[0, 0, 1], [1, 1, 1], [1, 1, 0]], 2).row(0)
        [(2, 0.0), (1, -1.0)]
    """
    k, keep_ties = checks.check_cutoff(k), checks.check_flag(keep_ties, "keep_ties")
    packed = _comparable(queries, docs)
    n_queries, n_docs = len(packed[0]), len(packed[1])
    named_queries = check_ids(query_ids, n_queries, "query")
    named_docs = check_ids(doc_ids, n_docs, "doc")
    unwanted = exclusions_of(exclude, n_queries, n_docs, named_queries, named_docs)
    name, kernels = choose_kernels(engine)
    request = _CodeSearch(*packed, min(k, n_docs), keep_ties, unwanted, kernels)
    with steady_files(*packed):
        nearest = _search(request, thread_count(threads), progress)
        barred = np.diff(unwanted.offsets)
        lengths = np.concatenate([part.counts for part in nearest])
        refuse_short(lengths, np.minimum(request.k, n_docs - barred))
    tie_split = None
    if not keep_ties:
        tie_split = np.concatenate([part.tie_split for part in nearest]).astype(bool)
    return Ranking(
        Ids.count(n_queries) if named_queries is None else named_queries,
        Ids.count(n_docs) if named_docs is None else named_docs,
        *_join_blocks(nearest),
        n_docs=n_docs,
        has_ids=named_queries is not None and named_docs is not None,
        tie_split=tie_split,
        search=f"{name}-certified",
        settings=search_settings(
            metric="hamming",
            zero="error",
            exclude=exclude,
            k=min(k, n_docs),
            keep_ties=keep_ties,
            n_docs=n_docs,
        ),
    )


def distance_histogram(
    queries: Any,
    docs: Any,
    *,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Ints:
    """Count for each query the documents at each Hamming distance.

    Args:
        queries: `Codes`, or an array that `pack_codes` takes.
        docs: Codes of the documents, likewise.
        threads: Number of threads, by default one for each core.
        engine: "native" or "numpy", with the same bytes from both.
        progress: Function that is called with (done, total) meanwhile.

    Returns:
        Counts, queries × (bits + 1).

    Raises:
        AssayError: The codes do not fit each other.

    Example:
        >>> distance_histogram([[1, 1, 0]], [[0, 0, 1], [1, 1, 1], [1, 1, 0]]).tolist()
        [[1, 1, 0, 1]]
    """
    left, right = _comparable(queries, docs)
    _, kernels = choose_kernels(engine)
    workers = thread_count(threads)
    counts = np.zeros((len(left), left.bits + 1), np.int64)
    block = _block_size(len(left), workers, _table_bytes(left.bits))

    def count(rows: slice, control: Control) -> None:
        kernels.count_code_distances(
            left.packed[rows], right.packed, left.bits, counts[rows], *control
        )

    tasks = [partial(count, rows) for rows in _cut(len(left), block)]
    with steady_files(left, right):
        run(tasks, threads=workers, progress=progress, total=len(left) * len(right))
    return counts


def _comparable(queries: Any, docs: Any) -> tuple[Codes, Codes]:
    left = as_codes(queries, "queries")
    right = left if docs is queries else as_codes(docs, "docs")
    if left.bits != right.bits:
        raise MismatchError(
            f"Queries have {left.bits} bits and docs have {right.bits}. Use codes of one length."
        )
    if len(right) > _LARGEST_DOC:
        raise ShapeError(f"docs has {len(right)} rows; up to {_LARGEST_DOC} can be numbered.")
    return left, right


def _search(request: _CodeSearch, threads: int, progress: Progress | None) -> list[_Nearest]:
    """Search by blocks of queries and, where queries are few, by shares of the documents."""
    n_queries, n_docs = len(request.queries), len(request.docs)
    few = n_queries < FEWEST_QUERIES * threads
    shares = min(threads, -(-n_docs // FEWEST_DOCS)) if few else 1
    state = _table_bytes(request.queries.bits) + 8 * (request.k + min(request.k, 1 << 16))
    blocks = _cut(n_queries, _block_size(n_queries, 1 if few else threads, state * shares))
    ranges = _cut(n_docs, -(-n_docs // shares))
    lists: list[list[_Nearest | None]] = [[None] * len(ranges) for _ in blocks]

    def search(block: int, share: int, control: Control) -> None:
        lists[block][share] = find_nearest(request, blocks[block], ranges[share], control)

    tasks = [partial(search, b, s) for b in range(len(blocks)) for s in range(len(ranges))]
    run(tasks, threads=threads, progress=progress, total=n_queries * n_docs)
    return [
        merge_shares([part for part in parts if part is not None], request.k, request.keep_ties)
        for parts in lists
    ]


def find_nearest(request: _CodeSearch, rows: slice, share: slice, control: Control) -> _Nearest:
    """Find the nearest documents of one share for a block of queries."""
    nearest = request.kernels.find_nearest_codes(
        request.queries.packed[rows],
        request.docs.packed[share],
        request.queries.bits,
        request.k,
        request.keep_ties,
        share.start,
        *request.excluded.part(rows.start, rows.stop),
        *control,
    )
    return _Nearest(*nearest)


def _table_bytes(bits: int) -> int:
    """Return the memory of a kernel for each query: counts by distance, and tables."""
    return 4 * (bits + 1) + 2 * bits


def _block_size(n_queries: int, threads: int, state: int) -> int:
    """Return the number of queries of one task: within memory, and shared out evenly."""
    most = max(8, min(MOST_QUERIES, _WORK_BYTES // (threads * state)))
    rounds = -(-n_queries // (most * threads))
    return -(-n_queries // (rounds * threads * 8)) * 8


def _cut(count: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def merge_shares(parts: Sequence[_Nearest], k: int, keep_ties: bool) -> _Nearest:
    """Join the results of consecutive shares of the documents as one search has them."""
    if len(parts) == 1:
        return parts[0]
    rows = [_merge_row(row, k, keep_ties) for row in zip(*map(_rows_of, parts), strict=True)]
    return _Nearest(
        np.array([len(docs) for docs, _, _ in rows], np.int64),
        np.concatenate([docs for docs, _, _ in rows]),
        np.concatenate([distances for _, distances, _ in rows]),
        np.array([tie_split for _, _, tie_split in rows], np.uint8),
    )


_Row = tuple[NDArray[np.int32], NDArray[np.int32], bool]


def _rows_of(part: _Nearest) -> list[_Row]:
    ends = np.cumsum(part.counts)[:-1]
    docs, distances = np.split(part.docs, ends), np.split(part.distances, ends)
    return list(zip(docs, distances, part.tie_split.astype(bool).tolist(), strict=True))


def _merge_row(shares: Sequence[_Row], k: int, keep_ties: bool) -> _Row:
    docs = np.concatenate([docs for docs, _, _ in shares])
    distances = np.concatenate([distances for _, distances, _ in shares])
    order = nearest_order(distances)  # shares are in the order of document numbers
    if len(order) < k:
        return docs[order], distances[order], False
    last = distances[order[k - 1]]
    within = int(np.count_nonzero(distances <= last))
    # A share that was cut at this very distance knows of more such documents.
    more = any(tie_split and near[-1] == last for _, near, tie_split in shares)
    first = order[: within if keep_ties else k]
    return docs[first], distances[first], not keep_ties and (within > k or more)


def _join_blocks(parts: list[_Nearest]) -> tuple[Ints, NDArray[np.int32], NDArray[np.float64]]:
    """Join all rows; each block is released at once, so that nothing is there twice."""
    counts = np.concatenate([np.zeros(1, np.int64), *(part.counts for part in parts)])
    offsets = np.cumsum(counts, dtype=np.int64)
    docs, scores = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.float64)
    start = 0
    for place, part in enumerate(parts):
        inside = slice(start, start + len(part.docs))
        docs[inside], scores[inside] = part.docs, -part.distances
        parts[place] = part._replace(docs=part.docs[:0].copy(), distances=part.distances[:0].copy())
        start = inside.stop
    return offsets, docs, scores
