"""A corpus measured and quantised once, for many searches: in memory, or kept in a file.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Array, Floats, Floats32, Ints32, VectorsLike
from assay.core.checks import thread_count
from assay.errors import FormatError, StorageError, UsageError
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
from assay.io.streams import atomic_write
from assay.native import engine_name, load
from assay.native.signatures import Kernels
from assay.search.engine.blocks import Docs, MeasuredRows, Metric, coarse_block, measure_rows
from assay.search.engine.coarse import MOST_COLUMNS, PANEL, Coarse, axis_of
from assay.search.engine.vectors import Rows, Vectors, is_stream, matrix_of, widen, window_rows

_MAGIC: Final = b"assay prepared corpus\n"
_VERSION: Final = 2
_ALIGNED: Final = 64
_MOST_HEAD: Final = 1 << 16
_WINDOW: Final = 1 << 20  # rows of one block
_SETTLED: Final = 2.0  # seconds after which a change of a file shows in its times
_ANY_METRIC: Final = Metric("dot", "error")  # rows of zeros are refused by searches that must


class Measures(NamedTuple):
    """Exponents and square norms of rows, as searches need them."""

    exponents: Ints32
    square_hi: Floats
    square_lo: Floats


@dataclass(frozen=True, eq=False)
class Prepared:
    """Documents with their norms and their 8-bit form, which `rank` takes in place of documents.

    `coarse` is None where rows are of sizes that 8 bits are not made for.
    """

    rows: Vectors
    measures: Measures
    coarse: Coarse | None
    files: tuple[WatchedFile, ...] = ()
    _kept: dict[int, tuple[Any, Docs]] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Documents and columns."""
        return self.rows.shape

    def __len__(self) -> int:
        """How many documents there are."""
        return self.rows.shape[0]

    def __repr__(self) -> str:
        """Sizes in one line."""
        return f"Prepared({len(self)} documents × {self.shape[1]} columns)"

    @property
    def watched_files(self) -> tuple[Watched, ...]:
        """Return what must not change meanwhile: it is that of which this was made."""
        return (*self.files, *watches_of(self.rows))

    def blocks(self) -> Iterator[MeasuredRows]:
        """The documents, block by block; each starts with a panel of the 8-bit form."""
        step = _WINDOW if self._lies_ready else _whole_panels(self.shape[1])
        for start in range(0, len(self), step):
            stop = min(start + step, len(self))
            coarse = self.coarse and self.coarse.part(start, stop)
            yield MeasuredRows(
                widen(self.rows[start:stop], "docs"),
                start,
                self.measures.exponents[start:stop],
                self.measures.square_hi[start:stop],
                self.measures.square_lo[start:stop],
                coarse,
            )

    def keep(self, first: int, key: Any, make: Callable[[], Docs]) -> Docs:
        """What a search made of a block, for the next one like it; not where rows were copied."""
        if not self._lies_ready or (needs_copies() and not isinstance(self.rows, np.ndarray)):
            return make()
        entry = self._kept.get(first)
        if entry is None or entry[0] != key:
            entry = key, make()
            self._kept[first] = entry
        return entry[1]

    @property
    def _lies_ready(self) -> bool:
        return self.rows.dtype == np.dtype(np.float32)


def _whole_panels(columns: int) -> int:
    return max(1, window_rows(columns) // PANEL) * PANEL


def prepare(
    docs: VectorsLike, path: str | os.PathLike[str] | None = None, *, threads: int | None = None
) -> Prepared:
    """Measure and quantise documents once; the result stands for them in every search, any metric.

    With `path` the result is kept in that file: where it holds what was made of these documents, it
    is mapped into memory; else it is written anew. `docs` is an array, a memory map or the path of
    a .npy file, and must not change while it is used.

    >>> corpus = prepare([[0.0, 1.0], [2.0, 0.0]])
    >>> corpus
    Prepared(2 documents × 2 columns)
    """
    opened = open_rows(docs)
    if is_stream(opened):
        raise UsageError(
            "prepare takes an array, a memory map or the path of a .npy file: the documents are "
            "read again by every search."
        )
    rows = matrix_of(opened, "docs")
    with steady_files(rows):
        if path is None:
            return _make(rows, threads)
        place = _place_of(docs)
        prepared = _read(os.fspath(path), rows, place)
        if prepared is not None:
            return prepared
        parts, digest = _make(rows, threads), _digest_of(rows)
    _write(os.fspath(path), parts, digest, place)  # now that the documents are known to be these
    return parts


def _make(rows: Vectors, threads: int | None) -> Prepared:
    kernels, n_threads = load(engine_name()), thread_count(threads)
    n_rows, columns = rows.shape
    step, axis = _whole_panels(columns), axis_of(rows)
    measures: list[Measures] = []
    coarse: list[Coarse | None] = []
    for start in range(0, n_rows, step):
        part = Rows(widen(rows[start : start + step], "docs"), start, "docs")
        block = measure_rows(kernels, part, _ANY_METRIC, ids=None, threads=n_threads)
        measures.append(Measures(block.exponents, block.square_hi, block.square_lo))
        coarse.append(_coarse_of(kernels, block, axis, n_threads))
    return Prepared(rows, Measures(*_joined(measures)), _join_coarse(coarse), named_files(rows))


def _coarse_of(
    kernels: Kernels, block: MeasuredRows, axis: Floats32, threads: int
) -> Coarse | None:
    if block.rows.shape[1] > MOST_COLUMNS:
        return None
    return coarse_block(kernels, block, axis, threads)


def _join_coarse(parts: list[Coarse | None]) -> Coarse | None:
    coarse_parts = [part for part in parts if part is not None]
    if len(coarse_parts) < len(parts):
        return None
    codes, step, residual, norm, lean = _joined([part[:-1] for part in coarse_parts])
    return Coarse(codes, step, residual, norm, lean, coarse_parts[0].axis)


def _joined(parts: list[Any]) -> Iterator[Array]:
    return (np.concatenate(column) for column in zip(*parts, strict=True))


# The file --------------------------------------------------------------------------------------


def _place_of(docs: Any) -> list[int] | None:
    """What a file of documents is known by, unless it has just changed or is no file."""
    if not isinstance(docs, str | os.PathLike):
        return None
    status = os.stat(docs)
    settled = max(status.st_mtime, status.st_ctime) < time.time() - _SETTLED
    marks = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return list(marks) if settled else None


def _digest_of(rows: Vectors) -> str:
    digest = hashlib.sha256(f"{rows.dtype.str}{rows.shape}".encode())
    step = window_rows(rows.shape[1])
    for start in range(0, rows.shape[0], step):
        digest.update(np.ascontiguousarray(rows[start : start + step]).data.cast("B"))
    return digest.hexdigest()


def _arrays_of(prepared: Prepared) -> dict[str, Array]:
    arrays: dict[str, Array] = prepared.measures._asdict()
    return arrays if prepared.coarse is None else arrays | prepared.coarse._asdict()


def _write(path: str, prepared: Prepared, digest: str, place: list[int] | None) -> None:
    arrays = _arrays_of(prepared)
    content = hashlib.sha256()
    for array in arrays.values():
        content.update(array.data)
    head = {
        "version": _VERSION,
        "shape": list(prepared.shape),
        "dtype": prepared.rows.dtype.str,
        "docs": digest,
        "place": place,
        "coarse": prepared.coarse is not None,
        "arrays": content.hexdigest(),
    }
    with atomic_write(path) as file:
        file.write(_MAGIC + json.dumps(head).encode() + b"\n")
        for array in arrays.values():
            file.write(bytes(-file.tell() % _ALIGNED))
            file.write(array.data)


class _Kept(NamedTuple):
    """A file that was mapped: its head, and where the arrays start."""

    head: dict[str, Any]
    content: Array
    start: int
    file: WatchedFile


def _read(path: str, rows: Vectors, place: list[int] | None) -> Prepared | None:
    """What a file holds of these documents; None where there is no file, or one of others."""
    file = _map(path)
    if file is None or not _is_of(file.head, rows, place):
        return None
    n_rows = rows.shape[0]
    shapes = {
        "exponents": ("<i4", n_rows),
        "square_hi": ("<f8", n_rows),
        "square_lo": ("<f8", n_rows),
    }
    if file.head.get("coarse"):
        sizes = Coarse.shapes(*rows.shape)
        shapes |= {name: ("u1" if name == "codes" else "<f4", n) for name, n in sizes.items()}
    arrays = _cut(file, shapes, path)
    coarse = Coarse(*(arrays[name] for name in Coarse._fields)) if file.head.get("coarse") else None
    measures = Measures(*(arrays[name] for name in Measures._fields))
    return Prepared(rows, measures, coarse, (*named_files(rows), file.file))


def _map(path: str) -> _Kept | None:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}.") from None
    file = WatchedFile(path, stat)
    with steady_files(file):
        content = file.map(0, (stat.st_size,), np.uint8)
        first = content[:_MOST_HEAD].tobytes()
        line, end, _ = first[len(_MAGIC) :].partition(b"\n")
        if not first.startswith(_MAGIC) or not end:
            raise FormatError(
                f"{path} is not a prepared corpus, so it is left as it is. Name another file."
            )
        head = parse_json(line.decode("utf-8", "replace"), path)
    return _Kept(head, content, len(_MAGIC) + len(line) + 1, file)


def _is_of(head: Any, rows: Vectors, place: list[int] | None) -> bool:
    if not isinstance(head, dict) or head.get("version") != _VERSION:
        return False
    if (head.get("shape"), head.get("dtype")) != (list(rows.shape), rows.dtype.str):
        return False
    return (place is not None and place == head.get("place")) or head.get("docs") == _digest_of(
        rows
    )


def _cut(mapped: _Kept, shapes: dict[str, tuple[str, int]], path: str) -> dict[str, Array]:
    """The arrays of a file; one that was cut short or changed is refused."""
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
        raise FormatError(f"{path} is damaged. Remove it, and it is made anew.")
    return arrays
