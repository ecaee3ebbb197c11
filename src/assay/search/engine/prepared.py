"""Measure and quantise a corpus once for many searches, in memory or kept in a file.

The file holds what was made of the documents, not these: a first line, a JSON head, then the arrays
one after the other, each from a multiple of 64 bytes on. The head names the version, the documents'
shape, type and SHA-256, and the SHA-256 of the arrays, which is checked when they are mapped. Of
documents in a file it also notes size, times and place: while these are the same, they need not be
read to know that they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar, overload, runtime_checkable

import numpy as np

from assay.arrays import Array, Floats, Ints32, VectorsLike
from assay.core import checks
from assay.core.checks import thread_count
from assay.errors import FormatError, UsageError
from assay.io.arrays import open_rows
from assay.io.mapped import (
    Watched,
    WatchedFile,
    named_files,
    needs_copies,
    steady_files,
    watches_of,
)
from assay.io.plain_data import parse_json
from assay.io.streams import atomic_write, unreadable
from assay.native import engine_name, load
from assay.search.engine.blocks import (
    MOST_COLUMNS,
    PANEL,
    Coarse,
    Docs,
    MeasuredRows,
    Metric,
    axis_of,
    coarse_block,
    measure_rows,
)
from assay.search.engine.inputs import Rows, Vectors, is_stream, matrix_of, widen, window_rows
from assay.search.engine.sparse_lists import make_lists
from assay.search.engine.sparse_vectors import SparseVectors, is_sparse, read_sparse

_MAGIC: Final = b"assay prepared corpus\n"
VERSION: Final = 2
_ALIGNED: Final = 64
_MOST_HEAD: Final = 1 << 16
BLOCK_ROWS: Final = 1 << 20  # rows of one block
SETTLED: Final = 2.0  # seconds after which a change of a file shows in its times
_ANY_METRIC: Final = Metric("dot", "error")  # rows of zeros are refused by searches that must


class Measures(NamedTuple):
    """Hold exponents and square norms of rows, as searches need them."""

    exponents: Ints32
    square_hi: Floats
    square_lo: Floats


@dataclass(frozen=True, eq=False)
class Prepared:
    """Hold documents with norms and 8-bit form, for `rank` in place of documents.

    `prepare` makes such a value. `coarse` is None where rows are of sizes that 8 bits are not
    made for.

    Example:
        >>> prepare([[0.0, 1.0], [2.0, 0.0]]).shape
        (2, 2)
    """

    rows: Vectors
    measures: Measures
    coarse: Coarse | None
    files: tuple[WatchedFile, ...] = ()
    _blocks: dict[int, tuple[Any, Docs]] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the numbers of documents and columns."""
        return self.rows.shape

    def __len__(self) -> int:
        """Return the number of documents."""
        return self.rows.shape[0]

    def __repr__(self) -> str:
        """Show sizes in one line."""
        return f"Prepared({len(self)} documents × {self.shape[1]} columns)"

    @property
    def watched_files(self) -> tuple[Watched, ...]:
        """Return the files that must not change meanwhile."""
        return (*self.files, *watches_of(self.rows))

    def blocks(self) -> Iterator[MeasuredRows]:
        """Yield the documents, block by block; each starts with a panel of the 8-bit form."""
        step = BLOCK_ROWS if self._lies_ready else _whole_panels(self.shape[1])
        for start in range(0, len(self), step):
            stop = min(start + step, len(self))
            yield MeasuredRows(
                widen(self.rows[start:stop], "docs"),
                start,
                self.measures.exponents[start:stop],
                self.measures.square_hi[start:stop],
                self.measures.square_lo[start:stop],
                self.coarse and self.coarse.part(start, stop),
            )

    def keep(self, first: int, key: Any, make: Callable[[], Docs]) -> Docs:
        """Keep what a search made of a block for the next one; not where rows were copied."""
        if not self._lies_ready or (needs_copies() and not isinstance(self.rows, np.ndarray)):
            return make()
        entry = self._blocks.get(first)
        if entry is None or entry[0] != key:
            entry = key, make()
            self._blocks[first] = entry
        return entry[1]

    @property
    def _lies_ready(self) -> bool:
        return self.rows.dtype == np.dtype(np.float32)


@runtime_checkable
class Preparable(Protocol):
    """Describe documents that prepare themselves, such as token vectors."""

    def prepare(self: _Docs, path: Any = None, *, threads: int | None = None) -> _Docs:
        """Return these documents with their 8-bit form."""


_Docs = TypeVar("_Docs", bound=Preparable)


def _whole_panels(columns: int) -> int:
    return max(1, window_rows(columns) // PANEL) * PANEL


@overload
def prepare(
    docs: SparseVectors, path: None = None, *, threads: int | None = None
) -> SparseVectors: ...


@overload
def prepare(
    docs: _Docs, path: str | os.PathLike[str] | None = None, *, threads: int | None = None
) -> _Docs: ...


@overload
def prepare(
    docs: VectorsLike, path: str | os.PathLike[str] | None = None, *, threads: int | None = None
) -> Prepared: ...


def prepare(docs: Any, path: Any = None, *, threads: int | None = None) -> Any:
    """Measure and quantise documents once, for every search by any metric.

    Args:
        docs: An array, a memory map, the path of a .npy file or `TokenVectors`, which must not
            change while the result is used; or sparse vectors, of which inverted lists are made.
        path: File to keep the result in. Where it holds the result for these documents, it is
            mapped into memory; else it is written anew. Lists of sparse vectors stay in memory.
        threads: Number of threads, by default one for each core.

    Returns:
        A value that stands for the documents in searches.

    Raises:
        AssayError: The documents cannot be searched, or `path` is another file.

    Example:
        >>> prepare([[0.0, 1.0], [2.0, 0.0]])
        Prepared(2 documents × 2 columns)
    """
    if is_sparse(docs):
        if path is not None:
            raise UsageError("Sparse vectors cannot be prepared in a file. Omit it.")
        sparse = read_sparse(docs, "docs")
        make_lists(sparse, "dot", None)
        return sparse
    if isinstance(docs, Preparable):
        return docs.prepare(path, threads=threads)
    return prepare_rows(docs, path, threads)


def prepare_rows(
    docs: Any, path: str | os.PathLike[str] | None, threads: int | None, *, tokens: bool = False
) -> Prepared:
    """Measure and quantise rows; those of tokens without an axis."""
    opened = open_rows(docs)
    if is_stream(opened):
        raise UsageError(
            "prepare reads documents repeatedly. Pass an array, a memory map or a .npy path."
        )
    rows = matrix_of(opened, "docs")
    with steady_files(rows):
        if path is None:
            return measure_corpus(rows, threads, tokens)
        checks.require(path, str | os.PathLike, "path", "the name of a file")
        place = _place_of(docs)
        prepared = _read(os.fspath(path), rows, place, tokens)
        if prepared is not None:
            return prepared
        parts, digest = measure_corpus(rows, threads, tokens), digest_rows(rows)
    _write(
        os.fspath(path), parts, digest, place, tokens
    )  # now that the documents are known to be these
    return parts


def measure_corpus(rows: Vectors, threads: int | None, tokens: bool = False) -> Prepared:
    """Measure and quantise rows, block by block; those of tokens without an axis."""
    kernels, n_threads = load(engine_name()), thread_count(threads)
    n_rows, columns = rows.shape
    step = _whole_panels(columns)
    axis = np.zeros(columns, np.float32) if tokens else axis_of(rows)
    measures = Measures(np.empty(n_rows, np.int32), np.empty(n_rows), np.empty(n_rows))
    sizes = Coarse.shapes(n_rows, columns) if columns <= MOST_COLUMNS else {}
    # Filled block by block: codes of all documents are in memory once.
    codes = [np.empty(size, "u1" if name == "codes" else "f4") for name, size in sizes.items()][:-1]
    for start in range(0, n_rows, step):
        part = Rows(widen(rows[start : start + step], "docs"), start, "docs")
        block = measure_rows(kernels, part, _ANY_METRIC, ids=None, threads=n_threads)
        _fill(measures, start, n_rows, (block.exponents, block.square_hi, block.square_lo))
        coarse = coarse_block(kernels, block, axis, n_threads) if codes else None
        if coarse is None:
            codes = []
        else:
            _fill(codes, start, n_rows, coarse[:-1])
    whole = Coarse(*(*codes, axis)) if codes else None
    return Prepared(rows, measures, whole, named_files(rows))


def _fill(columns: Sequence[Array], start: int, n_rows: int, parts: Sequence[Array]) -> None:
    """Write the numbers of a block, which starts with a panel, to its place in whole columns."""
    for column, part in zip(columns, parts, strict=True):
        first = (
            start // PANEL * (len(column) // -(-n_rows // PANEL)) if column.itemsize == 1 else start
        )
        column[first : first + len(part)] = part


# The file --------------------------------------------------------------------------------------


def _place_of(docs: Any) -> list[int] | None:
    """Return what identifies a file of documents, unless it has just changed or is no file."""
    if not isinstance(docs, str | os.PathLike):
        return None
    status = os.stat(docs)
    settled = max(status.st_mtime, status.st_ctime) < time.time() - SETTLED
    marks = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return list(marks) if settled else None


def digest_rows(rows: Vectors) -> str:
    """Return the SHA-256 of type, shape and elements."""
    digest = hashlib.sha256(f"{rows.dtype.str}{rows.shape}".encode())
    step = window_rows(rows.shape[1])
    for start in range(0, rows.shape[0], step):
        digest.update(np.ascontiguousarray(rows[start : start + step]).data.cast("B"))
    return digest.hexdigest()


def _write(
    path: str, prepared: Prepared, digest: str, place: list[int] | None, tokens: bool
) -> None:
    arrays: list[Array] = [*prepared.measures, *(prepared.coarse or ())]
    content = hashlib.sha256()
    for array in arrays:
        content.update(array.data)
    head = {
        "version": VERSION,
        "shape": list(prepared.shape),
        "dtype": prepared.rows.dtype.str,
        "docs": digest,
        "place": place,
        "coarse": prepared.coarse is not None,
        "arrays": content.hexdigest(),
        **({"tokens": True} if tokens else {}),
    }
    with atomic_write(path) as file:
        file.write(_MAGIC + json.dumps(head).encode() + b"\n")
        for array in arrays:
            file.write(bytes(-file.tell() % _ALIGNED))
            file.write(array.data)


class _MappedFile(NamedTuple):
    """Hold a file that was mapped: its head, and where the arrays start."""

    head: dict[str, Any]
    content: Array
    start: int
    file: WatchedFile


def _read(path: str, rows: Vectors, place: list[int] | None, tokens: bool) -> Prepared | None:
    """Read a file of these documents; None where there is no file, or one of others."""
    file = _map(path)
    if file is None or not _is_for(file.head, rows, place, tokens):
        return None
    n_rows = rows.shape[0]
    shapes = dict(zip(Measures._fields, (("<i4", n_rows), *[("<f8", n_rows)] * 2), strict=True))
    if file.head.get("coarse"):
        sizes = Coarse.shapes(*rows.shape)
        shapes |= {name: ("u1" if name == "codes" else "<f4", n) for name, n in sizes.items()}
    arrays = _cut(file, shapes, path)
    coarse = Coarse(*(arrays[name] for name in Coarse._fields)) if file.head.get("coarse") else None
    measures = Measures(*(arrays[name] for name in Measures._fields))
    return Prepared(rows, measures, coarse, (*named_files(rows), file.file))


def _map(path: str) -> _MappedFile | None:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise unreadable(repr(path), error) from None
    file = WatchedFile(path, stat)
    with steady_files(file):
        content = file.map(0, (stat.st_size,), np.uint8)
        first = content[:_MOST_HEAD].tobytes()
        line, end, _ = first[len(_MAGIC) :].partition(b"\n")
        if not first.startswith(_MAGIC) or not end:
            raise FormatError(f"{path} is not a prepared corpus. Name another file.")
        head = parse_json(line.decode("utf-8", "replace"), path)
    return _MappedFile(head, content, len(_MAGIC) + len(line) + 1, file)


def _is_for(head: Any, rows: Vectors, place: list[int] | None, tokens: bool) -> bool:
    if not isinstance(head, dict) or head.get("version") != VERSION:
        return False
    if head.get("tokens", False) is not tokens:
        return False
    if (head.get("shape"), head.get("dtype")) != (list(rows.shape), rows.dtype.str):
        return False
    same_place = place is not None and place == head.get("place")
    return same_place or head.get("docs") == digest_rows(rows)


def _cut(mapped: _MappedFile, shapes: dict[str, tuple[str, int]], path: str) -> dict[str, Array]:
    """Cut the arrays out of a file; one that was cut short or changed is refused."""
    arrays: dict[str, Array] = {}
    content, start = hashlib.sha256(), mapped.start
    for name, (dtype, count) in shapes.items():
        start += -start % _ALIGNED
        stop = start + count * np.dtype(dtype).itemsize
        part = mapped.content[start:stop]
        content.update(part.data)
        if len(part) == stop - start:
            arrays[name] = np.asarray(part).view(dtype)
        start = stop
    mapped.file.check()
    if len(arrays) < len(shapes) or content.hexdigest() != mapped.head.get("arrays"):
        raise FormatError(f"{path} is damaged. Remove it to rebuild it.")
    return arrays
