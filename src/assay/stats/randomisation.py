"""The law of a mean difference when each query's sign is decided by a fair coin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.native import kernels
from assay.stats.fixed_point import slack, to_grid
from assay.stats.random_bits import stream_key

__all__ = ["EXACT_UP_TO", "sign_flip_p"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

EXACT_UP_TO = 20  # 2^20 choices of signs are listed in a few milliseconds


def sign_flip_p(
    differences: Floats, largest: float, alternative: str, *, resamples: int, seed: int
) -> tuple[float, bool]:
    """Share of sign choices at least as extreme as the data's, and whether all were tried.

    Queries without a difference change no sum, so only the others count for what is exact.
    `largest` is the largest score: sums that differ by no more than its rounding are ties.
    """
    moved = differences[differences != 0]
    values, shift = to_grid(moved, max(len(moved), 1))
    exact = len(moved) <= EXACT_UP_TO
    if exact:
        sums = _all_sums(values)
    else:
        sums = kernels().flip_sums(values, stream_key(seed, "sign flips"), 0, resamples, 0)
    extreme = _count_extreme(
        sums, int(values.sum()), slack(len(moved), largest, shift), alternative
    )
    return (extreme / len(sums) if exact else (extreme + 1) / (resamples + 1)), exact


def _all_sums(values: Longs) -> Longs:
    sums = np.zeros(1, np.int64)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _count_extreme(sums: Longs, observed: int, near: int, alternative: str) -> int:
    if alternative == "two-sided":
        return int((np.abs(sums) >= abs(observed) - near).sum())
    if alternative == "greater":
        return int((sums >= observed - near).sum())
    return int((sums <= observed + near).sum())
