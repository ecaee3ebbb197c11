"""Codes: rows of bits, eight to a byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.arrays import Array
from assay.core import checks
from assay.errors import ShapeError, UsageError, ValueRangeError
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

MOST_BITS = 65535
_BLOCK = 1 << 22  # cells at a time: a few megabytes


@dataclass(frozen=True, eq=False)
class Codes:
    """Packed rows of `bits` bits each, as `numpy.packbits` makes them; they may be a memory map.

    Where `bits` is not a multiple of 8, the low bits of a row's last byte pad it. They must be 0: a
    padding that is not says that the length is wrong, so it is refused and never masked.

    >>> Codes(np.array([[0b10100000]], np.uint8), 3)
    Codes(1 × 3 bits)
    """

    packed: NDArray[np.uint8]
    bits: int

    def __post_init__(self) -> None:
        """Check the shape and the padding."""
        bits = checks.check_cutoff(self.bits, "bits")
        if bits > MOST_BITS:
            raise UsageError(f"Codes hold up to {MOST_BITS} bits, found {bits}.")
        packed = checks.plain_array(self.packed, "packed")
        if needs_copies() and is_mapped(packed):
            packed = copy_mapped(packed)
        with steady_files(packed):
            _check_packed(packed, bits)
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "packed", _read_only(np.ascontiguousarray(packed)))

    @property
    def watched_files(self) -> tuple[Watched, ...]:
        """Return what must not change meanwhile."""
        return watches_of(self.packed)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.packed)

    def __repr__(self) -> str:
        """Rows and bits in one line."""
        return f"Codes({len(self)} × {self.bits} bits)"


def pack_codes(bits: ArrayLike, *, what: str = "codes") -> Codes:
    """Pack an array of {0, 1}, of True and False, or of ±1; anything else is refused.

    `what` names the array in messages.

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
    """Codes as they are; any other array is packed."""
    return codes if isinstance(codes, Codes) else pack_codes(codes, what=what)


def _read_only(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    view = packed.view()
    view.flags.writeable = False
    return view


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
    """A two-dimensional array of numbers or booleans."""
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
        raise ShapeError(f"{what} has {cells.shape[1]} columns; codes hold up to {MOST_BITS} bits.")
    return cast("Array", open_rows(cells))


def _blocks(n_rows: int, row_cells: int) -> Iterator[slice]:
    step = max(1, _BLOCK // row_cells)
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
            f"{what} holds {block[row, column]} in row {first_row + row}, column {column}; a bit "
            f"is 0 or 1, True or False, or −1 or 1.{hint}"
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
            f"{what} holds {-1 - low} in row {first_row + row}, column {column}, but {low} in "
            "other cells: bits are either 0 and 1, or −1 and 1. Use one of the two."
        )
    return low
