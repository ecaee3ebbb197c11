"""Documents in 8 bits: candidates are found by them in less time than by the float32 product.

What lies along an axis that all rows share is taken off each row and kept as one number. The rest
is rotated (random signs, then blocks of a Hadamard matrix) and rounded to multiples of a step of
its own. The norm of what rounding left over bounds what any product can be off, so that no document
is lost: the proof is in docs/search.md.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Bytes, Floats32
from assay.native.random_words import stream_key, words
from assay.native.signatures import Kernels
from assay.search.engine.vectors import Vectors

PANEL: Final = 32  # documents that lie together
MOST_COLUMNS: Final = 16384  # so that sums of products stay within 32 bits
_STEP: Final = 4  # columns that lie together
_AXIS_SAMPLE: Final = 512
_LEAST_SHARED: Final = 0.3  # the length of the mean direction from which an axis pays


class Coarse(NamedTuple):
    """Codes in panels; of each row its step, the norm of what is left over, and its norm.

    `lean` is what was taken off each row along `axis`, and the others are of the rest.
    """

    codes: Bytes
    step: Floats32
    residual: Floats32
    norm: Floats32
    lean: Floats32
    axis: Floats32

    @classmethod
    def shapes(cls, n_rows: int, columns: int) -> dict[str, int]:
        """How many numbers each part holds."""
        codes = -(-n_rows // PANEL) * PANEL * -(-columns // _STEP) * _STEP
        of_rows = dict.fromkeys(cls._fields[1:-1], n_rows)
        return {"codes": codes, **of_rows, "axis": columns}

    def part(self, start: int, stop: int) -> Coarse | None:
        """Some of the rows, where they start with a panel."""
        if start % PANEL:
            return None
        for_each = len(self.codes) // -(-len(self.step) // PANEL)
        codes = self.codes[start // PANEL * for_each : -(-stop // PANEL) * for_each]
        step, residual, norm, lean = (array[start:stop] for array in self[1:-1])
        return Coarse(codes, step, residual, norm, lean, self.axis)


@cache
def signs_of(columns: int) -> Floats32:
    """The signs that the rotation gives to columns: the same everywhere, for files hold codes."""
    odd: NDArray[np.bool_] = (words(stream_key(0, "rotation"), 0, columns) & np.uint64(1)) == 1
    signs = np.where(odd, np.float32(-1), np.float32(1))
    signs.flags.writeable = False
    return signs


@np.errstate(all="ignore")
def axis_of(rows: Vectors) -> Floats32:
    """The mean direction of some rows, of length 1; zeros where they do not share one."""
    some = rows[:: max(1, rows.shape[0] // _AXIS_SAMPLE)].astype(np.float64)
    some /= np.abs(some).max(axis=1, keepdims=True)  # or squares might leave the range
    mean = np.nan_to_num(some / np.sqrt(np.square(some).sum(axis=1, keepdims=True))).mean(axis=0)
    length = np.sqrt(np.square(mean).sum())
    axis = mean / length if length >= _LEAST_SHARED else np.zeros(len(mean))
    return axis.astype(np.float32)


def coarsen(kernels: Kernels, rows: Floats32, axis: Floats32, threads: int) -> Coarse:
    """Rows in 8 bits."""
    return Coarse(*kernels.coarsen(rows, axis, signs_of(rows.shape[1]), threads), axis)


class Sampled(NamedTuple):
    """Scores of some queries with some documents, and by how much 8 bits may be off."""

    scores: Floats32
    off: Floats32


@np.errstate(all="ignore")
def sample_scores(
    kernels: Kernels,
    queries: Floats32,
    docs: Floats32,
    axis: Floats32,
    scale: Floats32,
    bias: Floats32,
    most: int,
) -> Sampled:
    """By a sample it is decided how to search, not what is found."""
    sample = slice(None, None, max(1, len(docs) // most))
    some = np.ascontiguousarray(docs[sample])
    left, right = (coarsen(kernels, rows, axis, 1) for rows in (queries, some))
    # not by BLAS, whose threads would go on waiting for more while those of the search work
    products = np.einsum("qc,dc->qd", queries, some)
    off = left.residual[:, None] * right.norm + left.norm[:, None] * right.residual
    return Sampled(bias[sample] + scale[sample] * products, scale[sample] * off)


@np.errstate(all="ignore")
def share_left(sampled: Sampled, share: float) -> float:
    """Of documents, the share that 8 bits leave to be looked at again to find the best `share`.

    An estimate for the median query.
    """
    scores, off = sampled
    rank = min(scores.shape[1], int(share * scores.shape[1]) + 2)
    floor = np.partition(scores, -rank, axis=1)[:, -rank]
    return float(np.median((scores + off >= floor[:, None]).mean(axis=1)))
