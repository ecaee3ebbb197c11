"""The tie rule in numpy: score descending, then the tie-break ascending; -0.0 equals 0.0.

`exact/tie_order.hpp` is the rule for the compiled kernels; `assay.core.ranking` says who uses both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from assay.arrays import Flags, Ints


def rank_order(
    scores: npt.NDArray[Any],
    *,
    tiebreak: npt.NDArray[Any] | None = None,
    row: npt.NDArray[Any] | None = None,
) -> Ints:
    """Return the permutation that ranks documents, row after row if there are rows.

    Without a tie-break, equal scores keep the order they stand in.

    >>> rank_order(np.array([1.0, 3.0, 3.0]), tiebreak=np.array([0, 2, 1])).tolist()
    [2, 1, 0]
    """
    keys = [key for key in (tiebreak, -scores, row) if key is not None]
    return np.lexsort(keys).astype(np.int64, copy=False)


def nearest_order(distances: npt.NDArray[Any], *, row: npt.NDArray[Any] | None = None) -> Ints:
    """Return the permutation from the nearest on; equal distances keep their order.

    >>> nearest_order(np.array([2, 1, 2, 0])).tolist()
    [3, 1, 0, 2]
    """
    if row is None:
        return np.argsort(distances, kind="stable")
    return np.lexsort((distances, row)).astype(np.int64, copy=False)


class Sides(NamedTuple):
    """Which documents score above a target, which tie with it, and which of these rank first."""

    above: Flags
    tied: Flags
    before: Flags


def sides_of(
    scores: npt.NDArray[Any],
    docs: npt.NDArray[Any],
    target_scores: npt.NDArray[Any],
    targets: npt.NDArray[Any],
) -> Sides:
    """Tell on which side of its target each document is; a target ties with itself."""
    tied = scores == target_scores
    return Sides(scores > target_scores, tied, tied & (docs < targets))
