"""Names of the array types, and the small steps that every layer takes with arrays."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
# A matrix of vectors: an array, the path of a .npy file, or blocks of rows one after the other.
VectorsLike = ArrayLike | os.PathLike[str] | Iterable[ArrayLike]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Words = NDArray[np.uint64]
Words32 = NDArray[np.uint32]

Key = TypeVar("Key")


def offsets_of(lengths: Any) -> Ints:
    """Where each row of a ragged array begins, and at the end how long all rows are.

    >>> offsets_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def gather(offsets: Ints, rows: Ints) -> tuple[Ints | slice, Ints]:
    """Positions of the elements of some rows of a ragged array, and the new offsets.

    The first rows in their own order are a slice, so that nothing is moved.
    """
    if np.array_equal(rows, np.arange(len(rows))):
        return slice(0, int(offsets[len(rows)])), offsets[: len(rows) + 1]
    length = offsets[rows + 1] - offsets[rows]
    new = offsets_of(length)
    at = np.arange(new[-1]) - np.repeat(new[:-1] - offsets[rows], length)
    return at, new


def or_none(value: float | None) -> float | None:
    """The number for JSON and tables: None where it is not defined.

    >>> or_none(0.5), or_none(float("nan"))
    (0.5, None)
    """
    return None if value is None or math.isnan(value) else float(value)


def numbers_or_none(values: Mapping[Key, float]) -> dict[Key, float | None]:
    """The same for a dictionary of numbers."""
    return {key: or_none(value) for key, value in values.items()}
