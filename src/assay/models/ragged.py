"""Vectors whose rows differ in length: the tokens of late interaction, and sparse weights.

A model, the cache and a cluster hand on each text as one packed row of float32: the number of
columns, then all tokens, or the numbers of the columns and their weights. Whole numbers keep their
bits; nothing is computed with packed rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32, offsets_of, rows_of
from assay.core import checks
from assay.errors import MismatchError, ShapeError, ValueRangeError
from assay.search.engine import SparseVectors, TokenVectors, read_sparse

VectorKind = Literal["dense", "tokens", "sparse"]
Vectors = Floats32 | TokenVectors | SparseVectors

NAMES: Final = {"dense": "one vector", "tokens": "token vectors", "sparse": "sparse vectors"}


def pack_tokens(texts: Any, n_texts: int, spec: str) -> list[Floats32]:
    """Pack the tokens of each text, as a model returns them: arrays of tokens × columns."""
    what = f"The result of encoder {spec!r}"
    arrays = [checks.plain_array(text, what) for text in checks.as_list(texts, what)]
    widths = {array.shape[1] for array in arrays if array.ndim == 2}
    shapes_fit = len(widths) == 1 and all(array.ndim == 2 or not array.size for array in arrays)
    if len(arrays) != n_texts or not shapes_fit or 0 in widths:
        shapes = checks.name_few([array.shape for array in arrays])
        raise ShapeError(
            f"Encoder {spec!r} returned {shapes} for {n_texts} texts. Return tokens × columns "
            "per text, with equal columns."
        )
    if any(array.dtype.kind not in "iuf" for array in arrays):
        raise ShapeError(f"Encoder {spec!r} returned tokens that are not numbers. Return numbers.")
    head = _as_bits(widths.pop())
    return [np.concatenate([head, array.astype(np.float32).ravel()]) for array in arrays]


def pack_sparse(rows: SparseVectors) -> list[Floats32]:
    """Pack the columns and weights of each row."""
    head, weights = _as_bits(rows.width), rows.weights.astype(np.float32)
    columns = rows.columns.astype("<i4").view(np.float32)
    ends = pairwise(rows.offsets.tolist())
    return [np.concatenate([head, columns[a:b], weights[a:b]]) for a, b in ends]


def _as_bits(number: int) -> Floats32:
    return np.array([number], "<i4").view(np.float32)


def pack(kind: VectorKind, vectors: Any, texts: Sequence[str], spec: str) -> list[Floats32]:
    """Pack what a model made of some texts; NaN and infinite numbers are refused."""
    if kind == "tokens":
        rows = pack_tokens(vectors, len(texts), spec)
    else:
        sparse = read_sparse(vectors, f"The result of encoder {spec!r}")
        if sparse.names is not None:  # their numbers would be others in each batch
            raise ShapeError(
                f"Encoder {spec!r} returned weights by term. Return SparseVectors with term "
                "numbers as columns."
            )
        rows = pack_sparse(sparse)
        if len(rows) != len(texts):
            raise ShapeError(
                f"Encoder {spec!r} returned {len(rows)} rows for {len(texts)} texts. Return "
                "one per text."
            )
    starts = (1 if kind == "tokens" else 1 + len(row) // 2 for row in rows)
    bad = [not np.isfinite(row[at:]).all() for row, at in zip(rows, starts, strict=True)]
    if any(bad):
        raise ValueRangeError(
            f"Encoder {spec!r} returned NaN or infinite values for the text "
            f"{texts[bad.index(True)]!r:.60} ({sum(bad)} texts in this batch). Remove or replace "
            "it."
        )
    return rows


def spread_packed(rows: Sequence[Floats32], places: Iterable[int]) -> list[Floats32]:
    """Return the packed row at each place; a row without numbers for −1."""
    empty = rows[0][:1]
    return [empty if place < 0 else rows[place] for place in places]


def unpack(kind: VectorKind, rows: Sequence[Floats32], spec: str) -> TokenVectors | SparseVectors:
    """Put packed rows together."""
    widths = sorted({int(row[:1].view("<i4")[0]) for row in rows})
    if len(widths) > 1:
        raise ShapeError(
            f"Encoder {spec!r} returned {widths[0]} columns for some texts and {widths[1]} "
            "for others (maybe cached). After a model change, clear the cache."
        )
    sizes = np.array([len(row) - 1 for row in rows])
    if kind == "tokens":
        if not sizes.any():
            raise ShapeError(f"{spec!r} returned no token for any text. Return one or more.")
        values = np.concatenate([row[1:] for row in rows]).reshape(-1, widths[0])
        return TokenVectors(values, offsets_of(sizes // widths[0]))
    halves = (sizes // 2).tolist()
    columns = [row[1 : 1 + half] for row, half in zip(rows, halves, strict=True)]
    weights = [row[1 + half :] for row, half in zip(rows, halves, strict=True)]
    numbers = np.concatenate(columns).view("<i4").astype(np.int32)
    return SparseVectors(offsets_of(halves), numbers, np.concatenate(weights), widths[0])


def take_rows(vectors: Any, rows: Any) -> Any:
    """Return the vectors of some texts, by number or as a slice."""
    if isinstance(vectors, SparseVectors) and not isinstance(rows, slice):
        return vectors.take(rows)
    return vectors[rows]


def have_numbers(vectors: Vectors) -> NDArray[np.bool_]:
    """Tell which texts can be found: by a vector that is not zero, a token, or a weight."""
    if isinstance(vectors, TokenVectors):
        return np.asarray(vectors.lengths > 0)
    if isinstance(vectors, SparseVectors):
        rows = rows_of(vectors.offsets)[vectors.weights != 0]
        return np.bincount(rows, minlength=len(vectors)) > 0
    return np.asarray(vectors.any(axis=1))


def count_bytes(vectors: Vectors) -> int:
    """Return the size of the vectors in memory."""
    if isinstance(vectors, TokenVectors):
        return vectors.values.shape[0] * vectors.shape[1] * 4 + vectors.offsets.nbytes
    if isinstance(vectors, SparseVectors):
        return sum(array.nbytes for array in vectors.arrays()[:3])
    return vectors.nbytes


def number_terms(docs: Any, queries: Any, name: str) -> tuple[Any, Any]:
    """Give the terms of sparse vectors numbers, in the order of all their names."""
    if docs.names is None or queries.names is None:
        return docs, queries
    if not {*docs.names} & {*queries.names}:
        few = [checks.name_few(side.names) for side in (queries, docs)]
        raise MismatchError(
            f"{name!r}: queries ({few[0]}) and documents ({few[1]}) share no term. Use one "
            "vocabulary."
        )
    place = {term: number for number, term in enumerate(sorted({*docs.names, *queries.names}))}

    def numbered(side: SparseVectors) -> SparseVectors:
        numbers = np.array([place[term] for term in side.names or ()], np.int32)
        return SparseVectors(side.offsets, numbers[side.columns], side.weights, len(place))

    return numbered(docs), numbered(queries)


def refuse_settings(kind: VectorKind, settings: Any, spec: str) -> None:
    """Refuse width and scale of sparse vectors."""
    if kind == "sparse":
        for name in ("dimensions", "normalize"):
            why = "its sparse vectors are normalised by metric 'cosine'"
            settings.refuse(name, spec, why)
