"""Sparse vectors, and what they are read from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from assay.arrays import Array, Ints, Ints32, offsets_of
from assay.core import checks
from assay.core.checks import is_real
from assay.core.ids import Ids
from assay.errors import FormatError, ShapeError, ValueRangeError
from assay.io.arrays import load_npz, npz_keys
from assay.io.plain_data import parse_json
from assay.io.streams import read_lines

_NPZ: Final = ("format", "shape", "indptr", "indices", "data")  # as scipy.sparse.save_npz writes
_MOST_COLUMNS: Final = 2**31 - 1


@dataclass(frozen=True, eq=False)
class SparseVectors:
    """Hold sparse rows: the columns and weights of row i are `[offsets[i]:offsets[i + 1]]`.

    Args:
        offsets: Where each row starts, and the end of the last one.
        columns: Column of each weight; in a row in any order, but each once.
        weights: Weights, float32 or float64; other numbers are widened.
        width: Number of columns.
        names: Names of the columns, ascending, where terms are known by name.
        indexes: Inverted lists of the rows that searches made and keep here.

    Raises:
        AssayError: The arrays do not fit each other, or hold what cannot be ranked.

    Example:
        >>> SparseVectors([0, 2, 3], [4, 1, 0], [0.5, 2.0, 1.0], 5)
        SparseVectors(2 rows × 5 columns, 3 weights)
    """

    offsets: Ints
    columns: Ints32
    weights: Array
    width: int
    names: tuple[str, ...] | None = None
    indexes: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Check the arrays, and sort each row by column."""
        width = checks.check_cutoff(self.width, "width")
        if width > _MOST_COLUMNS:
            raise ShapeError(f"Sparse rows have up to {_MOST_COLUMNS} columns, found {width}.")
        weights = _check_weights(self.weights)
        offsets = check_offsets(self.offsets, len(weights), "weights")
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        columns = _check_columns(self.columns, rows, width, len(weights))
        if (np.diff(columns) <= 0)[np.diff(rows) == 0].any():
            order = np.lexsort((columns, rows))
            columns, weights = columns[order], weights[order]
            twice = np.flatnonzero((np.diff(columns) == 0) & (np.diff(rows) == 0))
            if len(twice):
                raise ValueRangeError(
                    f"Row {rows[twice[0]]} holds column {columns[twice[0]]} twice. Add such "
                    "weights up before (scipy: matrix.sum_duplicates())."
                )
        names = {"offsets": offsets, "columns": columns, "weights": weights, "width": width}
        for name, value in names.items():
            object.__setattr__(self, name, value)

    @cached_property
    def largest(self) -> float:
        """Return the size of the largest weight."""
        return float(max(self.weights.max(initial=0), -self.weights.min(initial=0)))

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return len(self), self.width

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.offsets) - 1

    def __getitem__(self, rows: slice) -> SparseVectors:
        """Return some rows."""
        return self.take(np.arange(len(self))[rows])

    def take(self, rows: Ints) -> SparseVectors:
        """Return rows by number."""
        lengths = np.diff(self.offsets)[rows]
        offsets = offsets_of(lengths)
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        parts = offsets, self.columns[places], self.weights[places]
        return SparseVectors(*parts, self.width, self.names)

    def arrays(self) -> tuple[Array, ...]:
        """Return plain arrays that tell these rows from others."""
        names = np.frombuffer(
            "\n".join(self.names or ()).encode("utf-8", "surrogatepass"), np.uint8
        )
        return self.offsets, self.columns, self.weights, np.array([self.width]), names

    def __repr__(self) -> str:
        """Show sizes in one line."""
        return (
            f"SparseVectors({len(self)} rows × {self.width} columns, {len(self.weights)} weights)"
        )


def _check_weights(values: Any) -> Array:
    weights = checks.plain_array(values, "weights")
    if weights.ndim != 1 or (weights.size and weights.dtype.kind not in "iuf"):
        raise ValueRangeError(
            f"weights must be a list of real numbers, found {weights.dtype} of shape "
            f"{weights.shape}."
        )
    if weights.dtype.kind == "f" and weights.dtype.itemsize <= 4:
        weights = np.ascontiguousarray(weights, np.float32)
    else:
        weights = checks.exact_scores(weights, "weights")
    checks.check_finite(weights, "weights")
    return weights


def check_offsets(values: Any, count: int, what: str) -> Ints:
    """Check where rows start and the last one ends, among `count` elements."""
    offsets = checks.check_numbers(values, count + 1, "offsets")
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != count:
        raise ShapeError(
            f"offsets of {count} {what} must start with 0 and end with {count}, with at "
            f"least one row between; found {offsets[:1].tolist()} … {offsets[-1:].tolist()}."
        )
    if (falls := np.flatnonzero(np.diff(offsets) < 0)).size:
        raise ShapeError(f"offsets must not fall; they do after row {falls[0]}.")
    return offsets


def _check_columns(values: Any, rows: Ints, width: int, n_weights: int) -> Ints32:
    columns = checks.plain_array(values, "columns")
    checks.check_lengths(columns=columns.size, weights=n_weights)
    if columns.size and columns.dtype.kind in "iu":
        outside = np.flatnonzero((columns < 0) | (columns >= width))
        if len(outside):
            raise ValueRangeError(
                f"Row {rows[outside[0]]} holds column {columns[outside[0]]}; columns lie from 0 to "
                f"{width - 1}."
            )
    return checks.check_numbers(columns, width, "columns").astype(np.int32)


def is_sparse(vectors: Any) -> bool:
    """Tell sparse vectors from others: values, scipy matrices, rows of weights by term, files."""
    if isinstance(vectors, SparseVectors) or hasattr(vectors, "tocsr"):
        return True
    if isinstance(vectors, str | os.PathLike):
        name = os.fspath(vectors)
        return name.endswith(".jsonl") or (name.endswith(".npz") and "indptr" in npz_keys(name))
    return isinstance(vectors, list | tuple) and bool(vectors) and isinstance(vectors[0], Mapping)


def read_sparse(vectors: Any, what: str = "vectors") -> SparseVectors:
    """Read sparse vectors from a matrix, dictionaries or a file.

    Args:
        vectors: `SparseVectors`, a matrix of scipy.sparse, rows of {term: weight}, the path of a
            .npz file as scipy.sparse.save_npz writes it, or of JSON lines: {term: weight}, or
            {"id": …, "vector": {term: weight}} as Pyserini reads them.
        what: Name of the vectors in messages.

    Returns:
        The rows, checked.

    Raises:
        AssayError: They are of another kind, or hold what cannot be ranked.

    Example:
        >>> read_sparse([{"cat": 1.5, "sat": 0.5}, {"dog": 2.0}])
        SparseVectors(2 rows × 3 columns, 3 weights)
    """
    if isinstance(vectors, SparseVectors):
        return vectors
    if hasattr(vectors, "tocsr"):
        matrix = vectors.tocsr()
        return SparseVectors(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1])
    if isinstance(vectors, str | os.PathLike):
        return read_sparse_file(os.fspath(vectors))[0]
    rows = checks.as_list(vectors, what)
    return _from_rows((f"{what} row {row}", weights) for row, weights in enumerate(rows))


def read_sparse_file(name: str, what: str = "doc") -> tuple[SparseVectors, Ids | None]:
    """Read rows and, where the file has them, ids: `ids` of a .npz, or "id" of every line."""
    if name.endswith(".npz"):
        return _read_npz(name, what)
    ids: list[Any] = []
    rows = _from_rows(_read_rows(name, ids))
    named = [key for key in ids if key is not None]
    if named and len(named) < len(ids):
        raise FormatError(
            f'{name}: {len(ids) - len(named)} of {len(ids)} lines have no "id". Add it.'
        )
    return rows, Ids.of(named, what=what) if named else None


def _read_npz(name: str, what: str) -> tuple[SparseVectors, Ids | None]:
    arrays = load_npz(name, (*_NPZ, "ids"))
    missing = [key for key in _NPZ if key not in arrays]
    if missing or arrays["format"].tolist() != "csr" or arrays["shape"].shape != (2,):
        raise FormatError(
            f"{name} is not a sparse matrix of rows (CSR). Write it with "
            "scipy.sparse.save_npz(file, matrix.tocsr())."
        )
    n_rows, width = (int(size) for size in checks.check_numbers(arrays["shape"], 2**62, "shape"))
    rows = SparseVectors(arrays["indptr"], arrays["indices"], arrays["data"], width)
    if len(rows) != n_rows:
        raise FormatError(f"{name} says {n_rows} rows and holds {len(rows)}. Write it again.")
    return rows, Ids.of(arrays["ids"], what=what) if "ids" in arrays else None


def _read_rows(name: str, ids: list[Any]) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(read_lines(name), 1):
        if line.strip():
            place = f"{name}, line {number}"
            row = parse_json(line, place)
            nested = isinstance(row, dict) and isinstance(row.get("vector"), dict)
            ids.append(row.get("id") if nested else None)
            yield place, row["vector"] if nested else row


def _from_rows(rows: Iterable[tuple[str, Any]]) -> SparseVectors:
    """Give columns to the terms, in the order of their names."""
    numbers: dict[str, int] = {}
    columns: list[int] = []
    weights: list[float] = []
    lengths: list[int] = []
    for place, row in rows:
        if not isinstance(row, Mapping):
            raise FormatError(f"{place} is {type(row).__name__}, not weights by term.")
        for term, weight in row.items():
            if not isinstance(term, str) or not is_real(weight):
                raise FormatError(f"{place} holds {term!r:.40}: {weight!r:.40}, not term: number.")
            columns.append(numbers.setdefault(term, len(numbers)))
            weights.append(float(weight))
        lengths.append(len(row))
    if not columns:
        raise ShapeError("All rows are empty. Pass weights.")
    names = sorted(numbers)
    order = np.empty(len(names), np.int64)
    order[[numbers[name] for name in names]] = np.arange(len(names))
    values = np.array(weights)
    return SparseVectors(
        offsets_of(lengths), order[columns].astype(np.int32), values, len(names), tuple(names)
    )
