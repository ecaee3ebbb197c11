"""Small pairs of descriptors with many ties, and the plain way to rank them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.vision import PairRanks, rank_pair


def distances(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Squared L2 in float64, or Hamming for bytes, one pair at a time."""
    if left.dtype == np.uint8:
        return np.array([[np.unpackbits(a ^ b).sum() for b in right] for a in left], float)
    a, b = left.astype(np.float64), right.astype(np.float64)
    return np.array([[((x - y) ** 2).sum() for y in b] for x in a])


def sorted_ap(apart: NDArray[np.float64], target: int, ties: str) -> float:
    """1 / rank after an explicit sort; ties in the best, worst, given or every order."""
    if target < 0:
        return np.nan
    others = np.delete(np.arange(len(apart)), target)
    best = 1 + int((apart[others] < apart[target]).sum())
    last = best + int((apart[others] == apart[target]).sum())
    if ties == "order":
        return 1 / (1 + int(np.flatnonzero(np.argsort(apart, kind="stable") == target)[0]))
    ranks = {"best": [best], "worst": [last], "expected": range(best, last + 1)}
    if ties == "midrank-up":
        return 1 / (best + -(-(last - best) // 2))
    return float(np.mean([1 / rank for rank in ranks[ties]]))


def random_pair(rng: Any, metric: str, n: int = 25, m: int = 31) -> tuple[Any, Any, Any]:
    """Descriptors with few distinct values, so that most distances tie; some without a match."""
    if metric == "hamming":
        left, right = (rng.integers(0, 8, (k, 2)).astype(np.uint8) for k in (n, m))
    else:
        left, right = (rng.integers(0, 3, (k, 3)).astype(np.float32) + 1 for k in (n, m))
    return left, right, rng.integers(-1, m, n)


def some_pairs(seed: int = 0, scenes: str = "abc", **more: Any) -> list[PairRanks]:
    """Two pairs of each scene; `v_` scenes are viewpoint, others illumination."""
    rng = np.random.default_rng(seed)
    found = []
    for scene in scenes:
        name = f"{'v' if scene < 'b' else 'i'}_{scene}"
        for k in (2, 3):
            left, right, truth = random_pair(rng, "l2", 25, 30 + k)
            kind = "viewpoint" if name.startswith("v_") else "illumination"
            found.append(
                rank_pair(
                    left,
                    right,
                    truth=truth,
                    scene=name,
                    pair=f"1-{k}",
                    category=kind,
                    matching=True,
                    **more,
                )
            )
    return found
