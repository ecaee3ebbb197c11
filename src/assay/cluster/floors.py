"""Floors: what a worker has found in some shards spares it work in the next ones.

A document that scores less than the k-th best of other shards is not among the best k of all. So a
worker remembers the k best scores of the blocks of queries that it is at, and a search takes the
k-th as its floor. Which shards a worker has seen depends on the moment; what is left out never
matters, so the merged lists do not.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final

import numpy as np

from assay.arrays import Floats
from assay.cluster.merging import Lists

_MOST_BLOCKS: Final = 2  # of queries; the scores of one are half as many bytes as its lists
_DEEPEST: Final = 2048  # lists beyond this hold much of a shard anyway


class _Seen:
    """The k best scores of each query of a block, and the shards that they were found in."""

    def __init__(self) -> None:
        self.shards: set[int] = set()
        self.best: Floats | None = None


_LOCK: Final = Lock()
_SEEN: Final[OrderedDict[tuple[str, int], _Seen]] = OrderedDict()


def find_floors(job: str, block: int, shard: int) -> Floats | None:
    """The k-th best score of each query so far; none for a shard that is among those seen."""
    with _LOCK:
        seen = _SEEN.get((job, block))
        if seen is None or seen.best is None or shard in seen.shards:
            return None
        floors: Floats = seen.best.min(axis=1)
        return floors


def remember_scores(job: str, block: int, shard: int, lists: Lists, k: int) -> None:
    """Note what was found in a shard, once: a task may be run again."""
    if k > _DEEPEST:
        return
    scores = _best_scores(lists, k)
    with _LOCK:
        seen = _SEEN.setdefault((job, block), _Seen())
        _SEEN.move_to_end((job, block))
        while len(_SEEN) > _MOST_BLOCKS:
            _SEEN.popitem(last=False)
        if shard in seen.shards:
            return
        seen.shards.add(shard)
        if seen.best is not None:
            scores = np.partition(np.hstack([seen.best, scores]), k, axis=1)[:, k:]
        seen.best = scores


def _best_scores(lists: Lists, k: int) -> Floats:
    """Queries × k, −∞ where fewer documents were found."""
    best = np.full((len(lists.lengths), k), -np.inf)
    rows = np.repeat(np.arange(len(best)), lists.lengths)
    places = np.arange(len(rows)) - lists.offsets[rows]
    inside = places < k
    best[rows[inside], places[inside]] = lists.scores[inside]
    return best
