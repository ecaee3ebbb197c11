"""Hits of lists that are pooled by distance: where the right pairs stand among the wrong ones.

A list is one "query" whose documents are pairs of keypoints, the nearest pair first. Only the
right pairs are kept, with how many wrong ones are nearer and how many are as near; so the list
itself never exists, and every measure and tie mode works as on any ranking.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay import order
from assay.hits import Hits
from assay.ids import Ids

__all__ = ["counts_among", "false_positive_rate", "list_hits"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def counts_among(values: Floats, others: Floats) -> tuple[Ints, Ints]:
    """For each value how many of the others are below it, and how many equal it.

    >>> counts_among(np.array([2.0]), np.array([1.0, 2.0, 2.0, 3.0]))
    (array([1]), array([2]))
    """
    ranked = np.sort(others, axis=None)
    below = np.searchsorted(ranked, values, side="left")
    return below, np.searchsorted(ranked, values, side="right") - below


def list_hits(
    list_ids: Any,
    row: Ints,
    *,
    distance: Floats,
    below: Ints,
    tied: Ints,
    n_relevant: Ints,
    n_docs: Ints,
) -> Hits:
    """Hits of lists by distance; entry i is a right pair of list `row[i]`.

    `below` wrong pairs of the list are nearer and `tied` as near. A list has `n_relevant` right
    pairs, found or not, and `n_docs` pairs in all. Where only the order of ties would decide, a
    right pair stands behind the wrong ones.
    """
    ids = Ids.of(list_ids, what="list")
    by_distance = np.lexsort((distance, row))
    row, distance = row[by_distance], distance[by_distance]
    offsets = np.searchsorted(row, np.arange(len(ids) + 1)).astype(np.int64)
    first, last = _equal_runs(row, distance)
    start = offsets[row]
    lo = 1 + below[by_distance] + first - start
    hi = below[by_distance] + tied[by_distance] + last - start
    rank = hi - (last - 1 - np.arange(len(row)))
    has = n_relevant > 0
    hits = Hits(
        query_ids=ids, offsets=offsets, rank=rank, rank_lo=lo, rank_hi=hi,
        grade=np.ones(len(row)), n_ret=n_docs,
        pool_offsets=np.concatenate([[0], np.cumsum(has)]).astype(np.int64),
        pool_grade=np.ones(int(has.sum())), pool_count=n_relevant[has], n_docs=n_docs,
        missing=np.zeros(len(ids), bool), exhaustive=True,
    )  # fmt: skip
    return hits.select(ids.order())


def _equal_runs(row: Ints, distance: Floats) -> tuple[Ints, Ints]:
    """For each entry the start and end of the run of equal distances in its list."""
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (distance[1:] != distance[:-1])
    starts = np.flatnonzero(new)
    offsets = np.append(starts, len(row))
    run = order.rows_of(offsets.astype(np.int64))
    return offsets[run], offsets[run + 1]


def false_positive_rate(positives: Floats, negatives: Floats, *, recall: float = 0.95) -> float:
    """Share of wrong pairs at the distance that takes in `recall` of the right ones (FPR@95).

    >>> false_positive_rate(np.arange(20.0), np.array([17.5, 18.0, 18.5, 30.0]))
    0.5
    """
    if not len(positives) or not len(negatives):
        return float("nan")
    needed = int(np.ceil(recall * len(positives)))
    threshold = np.partition(positives, needed - 1)[needed - 1]
    return float((negatives <= threshold).mean())
