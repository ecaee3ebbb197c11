"""Documents in 8 bits: candidates are found by them in less time than by the float32 product.

Each row is rotated (random signs, then blocks of a Hadamard matrix) and rounded to multiples of a
step of its own. The norm of what rounding left over bounds what any product can be off, so that no
document is lost: the proof is in docs/search.md.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Bytes, Floats32
from assay.native.random_words import stream_key, words
from assay.native.signatures import Kernels

__all__ = ["MOST_COLUMNS", "PANEL", "Coarse", "coarsen", "share_left", "signs_of"]

PANEL: Final = 32  # documents that lie together
MOST_COLUMNS: Final = 16384  # so that sums of products stay within 32 bits
_STEP: Final = 4  # columns that lie together
_SAMPLE: Final = 1024


class Coarse(NamedTuple):
    """Codes in panels; and of each row its step, the norm of what is left over, and its norm."""

    codes: Bytes
    step: Floats32
    residual: Floats32
    norm: Floats32

    @classmethod
    def shapes(cls, n_rows: int, columns: int) -> dict[str, int]:
        """How many numbers each part holds."""
        codes = -(-n_rows // PANEL) * PANEL * -(-columns // _STEP) * _STEP
        return {"codes": codes, "step": n_rows, "residual": n_rows, "norm": n_rows}

    def part(self, start: int, stop: int) -> Coarse | None:
        """Some of the rows, where they start with a panel."""
        if start % PANEL:
            return None
        for_each = len(self.codes) // -(-len(self.step) // PANEL)
        codes = self.codes[start // PANEL * for_each : -(-stop // PANEL) * for_each]
        return Coarse(codes, *(array[start:stop] for array in self[1:]))


@cache
def signs_of(columns: int) -> Floats32:
    """The signs that the rotation gives to columns: the same everywhere, for files hold codes."""
    odd: NDArray[np.bool_] = (words(stream_key(0, "rotation"), 0, columns) & np.uint64(1)) == 1
    signs = np.where(odd, np.float32(-1), np.float32(1))
    signs.flags.writeable = False
    return signs


def coarsen(kernels: Kernels, rows: Floats32, threads: int) -> Coarse:
    """Rows in 8 bits."""
    return Coarse(*kernels.coarsen(rows, signs_of(rows.shape[1]), threads))


@np.errstate(all="ignore")
def share_left(
    kernels: Kernels,
    queries: Floats32,
    docs: Floats32,
    scale: Floats32,
    bias: Floats32,
    share: float,
) -> float:
    """Of documents, the share that 8 bits leave to be looked at again to find the best `share`.

    An estimate from some documents, for the median query: it decides how to search, not what is
    found.
    """
    chosen = slice(None, None, max(1, len(docs) // _SAMPLE))
    some = np.ascontiguousarray(docs[chosen])
    left, right = coarsen(kernels, queries, 1), coarsen(kernels, some, 1)
    # not by BLAS, whose threads would go on waiting for more while those of the search work
    products = np.einsum("qc,dc->qd", queries, some)
    scores = bias[chosen] + scale[chosen] * products
    off = left.residual[:, None] * right.norm + left.norm[:, None] * right.residual
    rank = min(len(some), int(share * len(some)) + 2)
    floor = np.partition(scores, -rank, axis=1)[:, -rank]
    return float(np.median((scores + scale[chosen] * off >= floor[:, None]).mean(axis=1)))
