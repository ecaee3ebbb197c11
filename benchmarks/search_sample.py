"""Vectors to search in: made from a seed, so that every process has the same without files."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sample", "Vectors", "entering", "vectors"]

Floats = NDArray[np.float32]

SEED = 5
KEPT_BYTES = 256 << 20
# How much of a query points where the documents drift to. 1 would be the same order for all.
DRIFTS = {"random": 0.0, "drifting": 0.7, "ascending": 0.999}


class Sample(NamedTuple):
    """How many vectors of which length, and in which order the documents come.

    random: directions without structure. drifting: documents move towards the queries, as when a
    collection sorted by date changes its topic. ascending: as good as every document scores higher
    than all before it, for all queries: the worst order for whoever keeps a best k.
    """

    queries: int
    docs: int
    dims: int
    order: str = "random"


class Vectors(NamedTuple):
    """Unit rows, and for each query the number of one document whose rank is wanted."""

    queries: Floats
    docs: Floats
    targets: NDArray[np.int64]


_kept: dict[Sample, Vectors] = {}


def vectors(sample: Sample) -> Vectors:
    """The vectors of a sample; the last ones are kept, as far as memory is no concern."""
    if sample not in _kept:
        while sum(made.docs.nbytes for made in _kept.values()) > KEPT_BYTES:
            del _kept[next(iter(_kept))]
        _kept[sample] = _made(sample)
    return _kept[sample]


def _made(sample: Sample) -> Vectors:
    rng = np.random.default_rng(SEED)
    queries = _directions(rng, sample.queries, sample.dims)
    docs = _directions(rng, sample.docs, sample.dims)
    drift = DRIFTS[sample.order]
    if drift:
        _towards(queries, np.full(sample.queries, drift))
        _towards(docs, np.linspace(-0.9, 0.9, sample.docs))
    return Vectors(queries, docs, rng.integers(0, sample.docs, sample.queries))


def _directions(rng: np.random.Generator, rows: int, dims: int) -> Floats:
    found = rng.standard_normal((rows, dims), dtype=np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def _towards(rows: Floats, shares: NDArray[np.float64]) -> None:
    """Turn unit rows so that their first element is the given share of them."""
    rows[:, 0] = 0
    rows *= (np.sqrt(1 - shares**2) / np.linalg.norm(rows, axis=1)).astype(np.float32)[:, None]
    rows[:, 0] = shares


def entering(sample: Sample, k: int, queries: int = 4) -> float:
    """The share of documents that are among the best k of those up to them: how bad the order is.

    In random order that is k / N × (1 + log(N / k)), and 1 in the worst.
    """
    made = vectors(sample)
    scores = made.queries[:queries] @ made.docs.T
    return float(np.mean([_entered(row, k) for row in scores.tolist()])) / sample.docs


def _entered(scores: list[Any], k: int) -> int:
    best, entered = scores[:k], min(k, len(scores))
    heapq.heapify(best)
    for score in scores[k:]:
        if score > best[0]:
            heapq.heapreplace(best, score)
            entered += 1
    return entered
