"""Ranks of targets in a matrix of scores or logits, in one pass over it and without a copy.

The matrix is taken in blocks of rows, so it may be a file larger than memory. Scores are
compared as float32 where that holds them exactly (float16, bfloat16, float32, integers up to 16
bits), else as float64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.arrays import Ints
from assay.core import checks
from assay.errors import MismatchError, ShapeError, ValueRangeError
from assay.io.arrays import NpyRows, open_rows
from assay.io.mapped import CopiedRows, steady_files
from assay.native import Engine
from assay.native.signatures import Kernels
from assay.search.engine import workers
from assay.search.engine.plan import choose_kernels
from assay.search.engine.target_search import TargetRanks

_BLOCK_BYTES = 16 << 20  # of widened scores: enough to keep a thread busy, little to hold
_WORTH_THREADS = 32 << 20  # less is read sooner than threads are started


def target_ranks_from_scores(
    scores: ArrayLike,
    targets: ArrayLike,
    *,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: workers.Progress | None = None,
) -> TargetRanks:
    """Count for each row of scores where its target column stands; higher scores come first.

    `scores` is rows × columns of any float or integer type and layout, or a memory map. `targets`
    has a column number for each row; −1, or a masked entry, is a row without a target. −Inf marks
    a class that was masked out: it ranks after every number and ties with the other −Inf of its
    row, also at a target. NaN and +Inf are refused.

    >>> ranks = target_ranks_from_scores([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0]], [2, 1])
    >>> ranks.rank.tolist(), ranks.tied.tolist()
    ([2, 2], [0, 1])
    """
    return _count(scores, targets, None, threads, engine, progress)


def ranks_and_best(
    scores: Any,
    targets: Any,
    *,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: workers.Progress | None = None,
) -> tuple[TargetRanks, Ints]:
    """The ranks of `target_ranks_from_scores`, and for each row the column that ranks first."""
    matrix = score_matrix(scores)
    best = np.empty(len(matrix), np.int64)
    return _count(matrix, targets, best, threads, engine, progress), best


def _count(
    scores: Any,
    targets: Any,
    best: Ints | None,
    threads: int | None,
    engine: Engine | None,
    progress: workers.Progress | None,
) -> TargetRanks:
    matrix = score_matrix(scores)
    columns = target_columns(targets, *matrix.shape)
    above, tied, before = (np.empty(len(matrix), np.int64) for _ in range(3))
    name, kernels = choose_kernels(engine)
    work = _ScoreCounts(kernels, matrix, columns, (above, tied, before, best))
    tasks = [partial(work.count, rows) for rows in _blocks(matrix)]
    count = checks.thread_count(threads)
    with steady_files(matrix):
        if progress is None and (count == 1 or matrix.nbytes < _WORTH_THREADS):
            control = workers.Control.new()
            for task in tasks:
                task(control)
        else:
            workers.run(tasks, threads=count, progress=progress, total=len(matrix))
        if work.bad_cells:
            _refuse(matrix, min(work.bad_cells))
    return TargetRanks(above, tied, before, matrix.shape[1], search=f"{name}-certified")


@dataclass(frozen=True, eq=False)
class _ScoreCounts:
    """What all threads share; each block of rows fills its own part of the outputs."""

    kernels: Kernels
    matrix: NDArray[Any]
    targets: Ints
    outputs: tuple[Ints, Ints, Ints, Ints | None]
    bad_cells: list[tuple[int, int]] = field(default_factory=list)

    def count(self, rows: slice, control: workers.Control) -> None:
        """Count the ranks of one block."""
        if control.stop[0]:
            return
        above, tied, before, best = self.outputs
        block, targets = _comparable(self.matrix[rows]), self.targets[rows]
        masked = masked_targets(block, targets)
        row, column = self.kernels.count_score_ranks(
            block,
            np.where(masked, -1, targets),
            above[rows],
            tied[rows],
            before[rows],
            None if best is None else best[rows],
        )
        if row >= 0:
            self.bad_cells.append((rows.start + row, column))  # a list takes one thread at a time
        if masked.any():
            _count_masked(block, targets, masked, [count[rows] for count in (above, tied, before)])
        control.add(rows.stop - rows.start)


def masked_targets(matrix: NDArray[Any], targets: Ints) -> NDArray[np.bool_]:
    """Which rows have −Inf at their target: the model ruled the right column out."""
    masked = np.zeros(len(targets), bool)
    for rows in _blocks(matrix):
        block = matrix[rows]
        scores = block[np.arange(len(block)), np.maximum(targets[rows], 0)]
        masked[rows] = (targets[rows] >= 0) & (scores == -np.inf)
    return masked


def _count_masked(
    block: NDArray[Any], targets: Ints, masked: NDArray[np.bool_], counts: list[Ints]
) -> None:
    """Above a −Inf stands every number, level with it every other −Inf."""
    last = block[masked] == -np.inf
    sooner = np.arange(block.shape[1]) < targets[masked][:, None]
    above, tied, before = counts
    above[masked] = block.shape[1] - last.sum(axis=1)
    tied[masked] = last.sum(axis=1) - 1
    before[masked] = (last & sooner).sum(axis=1)


def _blocks(matrix: NDArray[Any]) -> list[slice]:
    width = matrix.shape[1] * _compared_as(matrix.dtype).itemsize
    step = max(1, _BLOCK_BYTES // width)
    return [slice(i, min(i + step, len(matrix))) for i in range(0, len(matrix), step)]


def _compared_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The kernel's type that holds every value of this type exactly."""
    narrow = dtype.itemsize <= (2 if dtype.kind in "iu" else 4)
    return np.dtype(np.float32 if narrow else np.float64)


def _comparable(block: NDArray[Any]) -> NDArray[Any]:
    """The block as the kernel takes it: itself where it is float32 or float64 side by side."""
    dtype = _compared_as(block.dtype)
    side_by_side = block.strides[1] == dtype.itemsize and block.strides[0] > 0
    if block.dtype == dtype and block.dtype.isnative and side_by_side and block.flags.aligned:
        return block
    if block.dtype.kind in "iu" and dtype == np.float64:
        return np.ascontiguousarray(checks.exact_scores(block, "scores"))
    return np.ascontiguousarray(block, dtype)


def score_matrix(scores: Any) -> NDArray[Any]:
    """Scores as an array of rows × columns, or of a file, never copied if they are one."""
    if isinstance(scores, NpyRows):
        score_matrix(scores.stand_in)
        return cast("NDArray[Any]", scores)
    array = checks.plain_array(scores.array if isinstance(scores, CopiedRows) else scores, "scores")
    if not (array.dtype.name == "bfloat16" and array.ndim == 2 and array.size):
        array = checks.real_matrix(array, "scores")
        if array.dtype.itemsize > 8:
            raise ValueRangeError(f"scores are of {array.dtype}; give float64, or less.")
    return cast("NDArray[Any]", open_rows(array))


def target_columns(targets: Any, rows: int, columns: int) -> Ints:
    """A column number, or −1 for none, for each row."""
    masked = isinstance(targets, np.ma.MaskedArray)
    plain = targets.filled(-1) if masked else checks.plain_array(targets, "targets")
    if plain.ndim != 1 or plain.dtype.kind not in "iu":
        raise ShapeError(
            f"targets must be one column number for each row (−1 for none), found shape "
            f"{plain.shape} of {plain.dtype}."
        )
    if len(plain) != rows:
        raise MismatchError(f"scores have {rows} rows and targets {len(plain)}: one for each row.")
    outside = (plain < -1) | (plain >= columns)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueRangeError(
            f"The target of row {row} is {plain[row]}; columns are 0 to {columns - 1}, "
            "and −1 is no target."
        )
    return np.ascontiguousarray(plain, np.int64)


def _refuse(matrix: NDArray[Any], cell: tuple[int, int]) -> None:
    value = matrix[cell[0] : cell[0] + 1][0, cell[1]]
    raise ValueRangeError(
        f"scores hold {float(value)} at row {cell[0]}, column {cell[1]}. Remove or replace "
        "it; only -inf is allowed, for classes that were masked out."
    )
