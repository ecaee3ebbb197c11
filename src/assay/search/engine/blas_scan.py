"""Candidates without a fused kernel: tiles of scores by numpy's BLAS, then a selection.

The certified margin is the same, and what is found is decided by the same canonical scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32, Ints, offsets_of
from assay.native.signatures import BestK
from assay.search.engine.blocks import Docs, Metric, Queries
from assay.search.engine.exclusion import Excluded
from assay.search.engine.workers import Control

_TILE: Final = 1 << 21  # scores at a time
_DECIDED: Final = 1 << 23  # elements of candidates between two looks at the wish to stop


class Tile(NamedTuple):
    """Scores of all queries with the documents start … stop − 1, and their bounds."""

    start: int
    scores: Floats32
    bound: Floats32


def one_blas_thread() -> AbstractContextManager[Any]:
    """Hold BLAS at one thread: the tiles have threads of their own."""
    limits: AbstractContextManager[Any] = _pools().limit(limits=1, user_api="blas")
    return limits


@cache  # looking for the libraries takes longer than the search of a small block
def _pools() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def _tiles(queries: Queries, docs: Docs, start: int, stop: int, control: Control) -> Iterator[Tile]:
    step = max(64, _TILE // len(queries.rows))
    for first in range(start, stop, step):
        if control.stop[0]:
            return
        part = slice(first, min(first + step, stop))
        scaled = docs.rows[part] * docs.scale[part, None]
        with np.errstate(all="ignore"):  # NaN stands for queries without direction
            scores = queries.rows @ scaled.T
            scores += docs.bias[part]
        yield Tile(first, scores, docs.bound[part])
        control.add(scores.size)


def scan_top(
    top: BestK,
    k: int,
    *,
    metric: Metric,
    queries: Queries,
    docs: Docs,
    excluded: Excluded,
    start: int,
    stop: int,
    control: Control,
) -> None:
    """Search documents start … stop − 1 of a block."""
    barred_offsets, barred = excluded.within(docs.first, len(docs))
    barred_rows = np.repeat(np.arange(len(queries.rows)), np.diff(barred_offsets))
    for tile in _tiles(queries, docs, start, stop, control):
        _bar(tile, barred_rows, barred)
        floors = top.floors(queries.block, docs.block)
        if tile.scores.shape[1] > k:  # the k-th best of what the documents score at least
            lows = np.partition(tile.scores - tile.bound, -k, axis=1)[:, -k]
            floors = np.fmax(floors, lows)
        possible = tile.scores + tile.bound >= floors[:, None]
        possible &= tile.scores > -np.inf
        for candidates in _list_candidates(possible, tile.start, docs, control):
            top.decide(metric.code, queries.block, docs.block, *candidates)


def _bar(tile: Tile, rows: Ints, docs: NDArray[np.uint32]) -> None:
    """Excluded documents score nothing at all."""
    place = docs.astype(np.int64) - tile.start
    inside = (place >= 0) & (place < tile.scores.shape[1])
    tile.scores[rows[inside], place[inside]] = -np.inf


def _list_candidates(
    selected: NDArray[np.bool_], start: int, docs: Docs, control: Control
) -> Iterator[tuple[Ints, NDArray[np.uint32]]]:
    """Chosen cells as ragged rows of document numbers, some of them at a time."""
    offsets = offsets_of(selected.sum(axis=1))
    numbers = (np.nonzero(selected)[1] + start).astype(np.uint32)
    step = max(1, _DECIDED // docs.rows.shape[1])
    for first in range(0, len(numbers), step):
        if control.stop[0]:
            return
        yield offsets.clip(first, first + step) - first, numbers[first : first + step]


def candidates_near(
    low: Floats32,
    high: Floats32,
    above: Ints,
    *,
    queries: Queries,
    docs: Docs,
    start: int,
    stop: int,
    control: Control,
) -> Iterator[tuple[Ints, NDArray[np.uint32]]]:
    """Count documents that are certainly above; yield those too close to tell."""
    for tile in _tiles(queries, docs, start, stop, control):
        certain = tile.scores > high[:, None] + tile.bound
        above += certain.sum(axis=1)
        near = (tile.scores >= low[:, None] - tile.bound) & ~certain
        yield from _list_candidates(near, tile.start, docs, control)
