"""Ranks of one target per row of a score matrix, in numpy: the counts of the compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from assay.arrays import Ints
from assay.native.tie_order import sides_of

_BLOCK = 1 << 18  # cells at a time, so that the comparisons stay in cache


def count_score_ranks(
    scores: npt.NDArray[Any],
    targets: Ints,
    above: Ints,
    tied: Ints,
    before: Ints,
    best: Ints | None,
) -> tuple[int, int]:
    """Count ranks row by row; see `signatures.Kernels.count_score_ranks`."""
    _check(scores, targets, above, tied, before, best)
    step = max(1, _BLOCK // scores.shape[1])
    for start in range(0, len(scores), step):
        rows = slice(start, start + step)
        bad = _bad_cell(scores[rows], targets[rows])
        if bad is not None:
            return start + bad[0], bad[1]
        _count(scores[rows], targets[rows], above[rows], tied[rows], before[rows])
        if best is not None:
            best[rows] = scores[rows].argmax(axis=1)
    return -1, -1


def _count(scores: npt.NDArray[Any], targets: Ints, above: Ints, tied: Ints, before: Ints) -> None:
    target = _target_scores(scores, targets)[:, None]
    sides = sides_of(scores, np.arange(scores.shape[1]), target, targets[:, None])
    above[:] = sides.above.sum(axis=1)
    tied[:] = sides.tied.sum(axis=1) - 1
    before[:] = sides.before.sum(axis=1)
    for counts in (above, tied, before):
        counts[targets < 0] = -1


def _target_scores(scores: npt.NDArray[Any], targets: Ints) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = scores[np.arange(len(scores)), np.maximum(targets, 0)]
    return values


def _bad_cell(scores: npt.NDArray[Any], targets: Ints) -> tuple[int, int] | None:
    """Return the first row with a cell that is no score, and its first such cell."""
    cells = ~(scores <= np.finfo(scores.dtype).max)
    masked = (targets >= 0) & np.isneginf(_target_scores(scores, targets))
    rows = np.flatnonzero(cells.any(axis=1) | masked)
    if not len(rows):
        return None
    row = int(rows[0])
    return row, int(cells[row].argmax()) if cells[row].any() else int(targets[row])


def _check(scores: npt.NDArray[Any], targets: Ints, *counts: Ints | None) -> None:
    columns = scores.shape[1]
    _require(1 <= columns < 1 << 31, "columns must be from 1 to 2^31 - 1")
    lengths = {len(scores), len(targets), *(len(count) for count in counts if count is not None)}
    _require(len(lengths) == 1, "scores, targets and counts must have one length")
    outside = (targets < -1) | (targets >= columns)
    _require(not outside.any(), "target out of range")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
