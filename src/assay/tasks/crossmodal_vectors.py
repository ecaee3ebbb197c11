"""Embeddings are looked at before anything is searched: a bad row is named by sample, at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.errors import MismatchError, ValueRangeError
from assay.ids import Ids

__all__ = ["check_dimensions", "check_vectors"]

_ROWS_AT_ONCE: Final = 16384


def check_vectors(
    vectors: NDArray[Any], ids: Ids, what: str, *, directions_needed: bool, each: str = "sample"
) -> None:
    """Refuse values that are no numbers and, where a direction is needed, rows of zeros."""
    if vectors.dtype.kind not in "iuf" and vectors.dtype.name != "bfloat16":
        raise ValueRangeError(f"{what} must hold real numbers, found dtype {vectors.dtype}.")
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        rows = np.asarray(vectors[start : start + _ROWS_AT_ONCE])
        if vectors.dtype.kind not in "iu":
            _refuse_not_finite(rows.astype(np.float64, copy=False), start, ids, what, each)
        if directions_needed:
            _refuse_zero(rows, start, ids, what, each)


def _refuse_not_finite(
    rows: NDArray[np.float64], start: int, ids: Ids, what: str, each: str
) -> None:
    finite = np.isfinite(rows)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        raise ValueRangeError(
            f"{what}: {each} {ids[start + row]!r} holds {rows[row, column]} in column {column}. "
            "Remove it, or find out why it was not encoded."
        )


def _refuse_zero(rows: NDArray[Any], start: int, ids: Ids, what: str, each: str) -> None:
    some = rows.any(axis=1)
    if not some.all():
        row = int(np.argmin(some))
        raise ValueRangeError(
            f"{what}: {each} {ids[start + row]!r} is all zeros, which has no cosine "
            f"({int((~some).sum())} such rows here). Remove it, or choose zero='drop' or "
            "zero='last' (--zero)."
        )


def check_dimensions(asked: NDArray[Any], searched: NDArray[Any], direction: str) -> None:
    """Queries and items of a direction must be comparable."""
    if asked.shape[1] != searched.shape[1]:
        raise MismatchError(
            f"{direction}: the queries have {asked.shape[1]} dimensions and the items "
            f"{searched.shape[1]}. They must come from one common space."
        )
