"""Rows rounded to 8 bits or 16, in numpy: the same bytes as the compiled quantiser."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from assay.arrays import Bytes, Floats32
from assay.native.twins.search import DocBlock

_PANEL: Final = 32  # documents that lie together
_STEP: Final = 4  # columns of one document that lie together
_LANES: Final = 8
_BLOCK_LIMIT: Final = np.float32(203.0)  # the norm of 16 codes: see coarse_kernels.hpp
_WIDE_NORM: Final = np.float32(46200.0)  # the norm of codes of 16 bits
_ROUNDOFF: Final = np.float32(2.0**-24)
_ROWS_AT_ONCE: Final = 4096


class CoarseBlock(NamedTuple):
    """Documents with their coarse rows."""

    docs: DocBlock
    codes: Bytes
    step: Floats32
    residual: Floats32
    norm: Floats32
    lean: Floats32
    axis: Floats32
    signs: Floats32


def coarse_rows() -> int:
    """There is no product of 8-bit numbers here."""
    return 0


def coarsen(
    rows: Floats32, axis: Floats32, signs: Floats32, threads: int
) -> tuple[Bytes, Floats32, Floats32, Floats32, Floats32]:
    """Codes in panels, steps, residuals, norms and leans; see `signatures.Kernels.coarsen`."""
    parts = []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        rest, lean = _off_axis(rows[start : start + _ROWS_AT_ONCE] * signs, axis * signs)
        parts.append((*_quantise(_rotated(rest, rows.shape[1]), rows.shape[1]), lean))
    codes, *bounds_of = (np.concatenate(column) for column in zip(*parts, strict=True))
    step, residual, norm, lean = bounds_of
    return _in_panels(codes, 128), step, residual, norm, lean


@np.errstate(all="ignore")
def coarsen_wide(rows: Floats32) -> tuple[Bytes, Floats32, Floats32, Floats32]:
    """Codes of 16 bits in panels, steps, residuals and norms; nothing is rotated or taken off."""
    columns = rows.shape[1]
    x = np.pad(rows, ((0, 0), (0, -columns % 32)))
    most, square = np.abs(x).max(axis=1), _wide_sum(x)
    sane = (most > np.float32(2.0**-50)) & (most < np.float32(2.0**50))
    step = np.maximum(np.sqrt(square) / _WIDE_NORM, most / np.float32(32767))
    values = np.where(sane[:, None], x * (np.float32(1) / step)[:, None], np.float32(0))
    whole = np.rint(values)
    step = np.where(sane, step, np.float32(0))
    unit = np.float32(1)
    bounds = _bounds(
        step, square, _wide_sum(values - whole), unit, np.where(sane, 0, most), columns
    )
    codes = whole[:, : columns + columns % 2].astype("<i2").view(np.uint8)
    return _in_panels(codes, 0), step, *bounds


def _off_axis(rows: Floats32, axis: Floats32) -> tuple[Floats32, Floats32]:
    """Rows, padded to blocks of 32, without what lies along the axis; and how much that is."""
    more = ((0, 0), (0, -rows.shape[1] % 32))
    padded, along = np.pad(rows, more), np.pad(axis[None], more)
    if not axis.any():
        return padded, np.zeros(len(rows), np.float32)
    lean = _folded(_lane_sums(padded, along))
    return padded - along * lean[:, None], lean


def _rotated(turned: Floats32, columns: int) -> Floats32:
    """Blocks of 64 columns, then of 16 and 4, turned by Hadamard matrices in place."""
    n_rows = len(turned)
    width = -(-columns // _STEP) * _STEP
    start = 0
    for block, sides in ((64, (8, 8)), (16, (4, 4)), (4, (4, 1))):
        while width - start >= block:
            square = turned[:, start : start + block].reshape(n_rows, *sides)
            square = _butterflies(square).swapaxes(1, 2)
            if sides[1] > 1:
                square = _butterflies(square)
            flat = square.reshape(n_rows, block)
            turned[:, start : start + block] = flat * np.float32(block**-0.5)
            start += block
    return turned


def _butterflies(x: Floats32) -> Floats32:
    """Sums and differences of all pairs in turn, along the second axis."""
    half = 1
    while half < x.shape[1]:
        pairs = x.reshape(len(x), -1, 2, half, x.shape[2])
        left, right = pairs[:, :, 0], pairs[:, :, 1]
        x = np.stack([left + right, left - right], axis=2).reshape(x.shape)
        half *= 2
    return x


def _quantise(x: Floats32, columns: int) -> tuple[Bytes, Floats32, Floats32, Floats32]:
    most = np.abs(x).max(axis=1)
    sane = (most > np.float32(2.0**-110)) & (most < np.float32(2.0**110))
    with np.errstate(all="ignore"):
        top = most * _excess(x * (np.float32(127) / most)[:, None])
        values = np.where(sane[:, None], x * (np.float32(127) / top)[:, None], np.float32(0))
    whole = np.rint(values)
    step = np.where(sane, top / np.float32(127), np.float32(0))
    squares, rests = _sum(values), _sum(values - whole)
    bounds = _bounds(step, squares, rests, step, np.where(sane, 0, most), columns)
    width = -(-columns // _STEP) * _STEP
    codes = (whole[:, :width].astype(np.int16) + 128).astype(np.uint8)
    return codes, step, *bounds


def _bounds(
    step: Floats32,
    squares: Floats32,
    rests: Floats32,
    unit: Floats32 | np.float32,
    left: Floats32,
    columns: int,
) -> tuple[Floats32, Floats32]:
    """Residuals and norms; `left` is the largest number of a row that is not rounded, else 0."""
    more = np.float32(1) + np.float32(columns + 128) * _ROUNDOFF
    norm = unit * np.sqrt(squares) * more
    residual = step * np.sqrt(rests) * more + np.float32(32) * _ROUNDOFF * norm
    left_over = left * np.sqrt(np.float32(columns)) * more
    return np.where(left > 0, left_over, residual), np.where(left > 0, left_over, norm)


def _excess(values: Floats32) -> Floats32:
    """By how much codes must be smaller, so that no block of 16 is beyond its limit."""
    blocks = values.reshape(len(values), -1, 32)
    lanes = _lane_sums(blocks, blocks)
    left = (lanes[..., 0] + lanes[..., 4]) + (lanes[..., 1] + lanes[..., 5])
    right = (lanes[..., 2] + lanes[..., 6]) + (lanes[..., 3] + lanes[..., 7])
    block = np.maximum(left, right).max(axis=1)
    excess: Floats32 = np.maximum(np.sqrt(block) / _BLOCK_LIMIT, np.float32(1))
    return excess


def _lane_sums(x: Floats32, y: Floats32, lanes: int = _LANES) -> Floats32:
    """Sums of products over every eighth number of the last axis, one after the other."""
    left, right = (each.reshape(*each.shape[:-1], -1, lanes) for each in (x, y))
    sums = np.zeros((*left.shape[:-2], lanes), np.float32)
    for at in range(left.shape[-2]):
        sums += left[..., at, :] * right[..., at, :]
    return sums


def _sum(x: Floats32) -> Floats32:
    return _folded(_lane_sums(x, x))


def _wide_sum(x: Floats32) -> Floats32:
    """The same in four times as many lanes."""
    first, two, three, four = _lane_sums(x, x, 4 * _LANES).reshape(len(x), 4, _LANES).swapaxes(0, 1)
    return _folded((first + two) + (three + four))


def _folded(lanes: Floats32) -> Floats32:
    even = (lanes[:, 0] + lanes[:, 4]) + (lanes[:, 2] + lanes[:, 6])
    return even + ((lanes[:, 1] + lanes[:, 5]) + (lanes[:, 3] + lanes[:, 7]))


def _in_panels(codes: Bytes, zero: int) -> Bytes:
    """Four bytes of 32 documents together; a panel that is not full holds zeros."""
    n_panels = -(-len(codes) // _PANEL)
    full = np.full((n_panels * _PANEL, codes.shape[1]), zero, np.uint8)
    full[: len(codes)] = codes
    panels = full.reshape(n_panels, _PANEL, -1, _STEP)
    return np.ascontiguousarray(panels.swapaxes(1, 2)).reshape(-1)
