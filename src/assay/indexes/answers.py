"""What an engine answered, checked: it is another's program and may say anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import StorageError

__all__ = ["checked_answer"]


def checked_answer(answer: Any, n_queries: int, n_docs: int, shown: str) -> NDArray[np.int64]:
    """Document numbers, queries × places, none twice in a row; -1 marks an empty place.

    Fewer than asked for are taken as they are. Numbers that no document has are refused, and so
    are answers of another shape or type.
    """
    table = np.asarray(answer)
    if table.ndim != 2 or len(table) != n_queries or table.dtype.kind not in "iu":
        raise StorageError(
            f"The index {shown} answered with shape {table.shape} of {table.dtype} for "
            f"{n_queries} queries; expected a row of document numbers for each."
        )
    if not table.shape[1]:
        return np.full((n_queries, 1), -1, np.int64)
    if table.min() < -1 or table.max() >= n_docs:
        wrong = table[(table < -1) | (table >= n_docs)].flat[0]
        raise StorageError(f"The index {shown} answered with document {wrong} of {n_docs}.")
    return _without_repeats(table.astype(np.int64))


def _without_repeats(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """A document that stands in a row again is taken out."""
    by_doc = np.argsort(table, axis=1, kind="stable")
    sorted_rows = np.take_along_axis(table, by_doc, axis=1)
    again = np.zeros(table.shape, bool)
    np.put_along_axis(again[:, :], by_doc[:, 1:], sorted_rows[:, 1:] == sorted_rows[:, :-1], axis=1)
    table[again] = -1
    return table
