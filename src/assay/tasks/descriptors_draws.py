"""Seeded choices that depend on names alone: the same for any order of scenes, and for parts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.stats.random_bits import words
from assay.stats.samples import check_seed

__all__ = ["choose_names", "choose_rows", "draw"]


def draw(seed: int, name: str, count: int) -> NDArray[np.uint64]:
    """`count` random words for this seed and name.

    >>> draw(0, "a", 2).tolist() == draw(0, "a", 3).tolist()[:2]
    True
    """
    digest = hashlib.sha256(f"{check_seed(seed)}\0{name}".encode()).digest()
    return np.asarray(words(int.from_bytes(digest[:8], "big"), 0, count), np.uint64)


def choose_rows(seed: int, name: str, n: int, k: int) -> NDArray[np.int64]:
    """k of n rows without repeats, rising; all of them if there are no more."""
    return np.sort(np.argsort(draw(seed, name, n), kind="stable")[:k]).astype(np.int64)


def choose_names(seed: int, name: str, names: Sequence[str], k: int) -> list[str]:
    """k of the names; which ones depends on the set of names, not on their order."""
    known = sorted(names)
    return [known[row] for row in choose_rows(seed, name, len(known), k)]
