"""The resampling kernels in numpy: the same sums as the compiled ones, bit for bit.

Everything is summed as integers, so that no order of additions can change a result.
"""

from __future__ import annotations

import numpy as np

from assay.arrays import Ints, Words
from assay.native.random_words import words

_BLOCK = 1 << 17  # random words at a time: about one megabyte


def flip_sums(values: Ints, key: int, first: int, resamples: int, threads: int = 0) -> Ints:
    """Sums of the values with random signs; see `signatures.Kernels.flip_sums`."""
    n_words = -(-len(values) // 64)
    tables = _byte_tables(values, n_words)
    sums = np.zeros(resamples, np.int64)
    block = max(1, _BLOCK // max(n_words, 1))
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        drawn = words(key, (first + start) * n_words, count * n_words).reshape(count, n_words)
        random_bytes = drawn.astype("<u8", copy=False).view(np.uint8)
        part = sums[start : start + count]
        for table, column in zip(tables, np.ascontiguousarray(random_bytes.T), strict=True):
            part += table.take(column)
    return sums


def _byte_tables(values: Ints, n_words: int) -> Ints:
    """For each eight values the sums of all 256 choices of signs; a set bit is a minus."""
    padded = np.zeros(n_words * 64, np.int64)
    padded[: len(values)] = values
    signs = 1 - 2 * ((np.arange(256)[:, None] >> np.arange(8)) & 1)
    tables: Ints = padded.reshape(-1, 8) @ signs.T
    return tables


def bootstrap_sums(
    values: Ints,
    columns: int,
    offsets: Ints,
    key: int,
    first: int,
    resamples: int,
    threads: int = 0,
) -> Ints:
    """Sums over units drawn with replacement; see `signatures.Kernels.bootstrap_sums`."""
    _check_units(values, columns, offsets)
    table = np.ascontiguousarray(values.reshape(-1, columns).T)
    units = table.shape[1]
    n_words = -(-units // 2)
    sizes = np.diff(offsets)
    start_of, size_of = np.repeat(offsets[:-1], sizes), np.repeat(sizes, sizes).astype(np.uint64)
    sums = np.zeros((resamples, columns), np.int64)
    block = max(1, _BLOCK // max(n_words, 1))
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        halves = _halves(words(key, (first + start) * n_words, count * n_words), count)[:, :units]
        drawn = (halves * size_of >> np.uint64(32)).astype(np.int64) + start_of
        for column, row in enumerate(table):
            sums[start : start + count, column] = row.take(drawn).sum(axis=1)
    return sums.ravel()


def shuffled_ranges(
    values: Ints, systems: int, key: int, first: int, resamples: int, threads: int = 0
) -> Ints:
    """Largest less smallest sum of shuffled rows; see `signatures.Kernels.shuffled_ranges`."""
    _require(systems >= 2 and len(values) % systems == 0, "values must be queries × systems")
    table = values.reshape(-1, systems)
    n_words = len(table) * (systems // 2)
    ranges = np.zeros(resamples, np.int64)
    block = max(1, _BLOCK // max(n_words, 1))
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        drawn = words(key, (first + start) * n_words, count * n_words)
        sums = _shuffled(table, _halves(drawn, count * len(table))).reshape(count, -1, systems)
        ranges[start : start + count] = np.ptp(sums.sum(axis=1), axis=1)
    return ranges


def _shuffled(table: Ints, halves: Words) -> Ints:
    """Fisher–Yates on each row: the last place takes any, the one before any of the rest, …"""
    systems = table.shape[1]
    rows = np.tile(table, (len(halves) // len(table), 1)) if len(table) else table
    every = np.arange(len(rows))
    for step, last in enumerate(range(systems - 1, 0, -1)):
        partner = (halves[:, step] * np.uint64(last + 1) >> np.uint64(32)).astype(np.int64)
        taken = rows[every, partner]
        rows[every, partner] = rows[:, last]
        rows[:, last] = taken
    return rows


def _halves(drawn: Words, rows: int) -> Words:
    """Split 64-bit words into 32-bit numbers, the low one first; one row per resample."""
    return drawn.astype("<u8", copy=False).view("<u4").reshape(rows, -1).astype(np.uint64)


def _check_units(values: Ints, columns: int, offsets: Ints) -> None:
    _require(columns >= 1 and len(values) % columns == 0, "values must be units × columns")
    fine = len(offsets) >= 1 and offsets[0] == 0 and (np.diff(offsets) >= 0).all()
    _require(bool(fine), "offsets must start with 0 and not fall")
    _require(int(offsets[-1]) * columns == len(values), "offsets must end at the number of units")
    _require(len(values) // columns < 1 << 32, "too many units")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
