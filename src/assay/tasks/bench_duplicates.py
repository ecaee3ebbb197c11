"""Documents that are copies of each other, word for word or nearly so."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["duplicates", "near_duplicates"]

_WORD: Final = re.compile(r"\w+")
_SHINGLE: Final = 3  # words in a row
_FEWEST: Final = 8  # shingles; shorter texts are alike by accident
_BANDS, _ROWS = 8, 4
_ALIKE: Final = 0.8
_MOST_DOCS: Final = 50_000
_FACTORS: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93], np.uint64)
_PRIME: Final = np.uint64((1 << 61) - 1)


def duplicates(texts: Sequence[str]) -> list[list[int]]:
    """Groups of texts with the same words in the same order, whatever their case and punctuation.

    >>> duplicates(["A b.", "x", "a  B", ""])
    [[0, 2]]
    """
    groups = defaultdict(list)
    for number, text in enumerate(texts):
        words = " ".join(_WORD.findall(text.casefold()))
        if words:
            groups[words].append(number)
    return [group for group in groups.values() if len(group) > 1]


def near_duplicates(
    texts: Sequence[str], *, known: Sequence[Sequence[int]] = ()
) -> list[tuple[int, int]]:
    """Pairs of texts that share 80 % of their runs of three words, without pairs already known.

    Candidates are found by MinHash (Broder 1997) and then counted; none are looked for among more
    than 50,000 texts.
    """
    if len(texts) > _MOST_DOCS:
        return []
    same = {number: group[0] for group in known for number in group}
    words = _Words()
    shingles = {
        number: found
        for number, text in enumerate(texts)
        if same.get(number, number) == number and len(found := words.shingles(text)) >= _FEWEST
    }
    pairs = {pair for group in _candidates(shingles) for pair in combinations(group[:50], 2)}
    return sorted(pair for pair in pairs if _overlap(*(shingles[i] for i in pair)) >= _ALIKE)


class _Words:
    """Words as numbers, in the order in which they are first seen."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def shingles(self, text: str) -> NDArray[np.uint64]:
        """A number for each run of words, without repeats; another run may have it by accident."""
        numbers = self._numbers
        words = _WORD.findall(text.casefold())
        found = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.uint64)
        if len(found) < _SHINGLE:
            return np.empty(0, np.uint64)
        runs = (found[:-2] * _FACTORS[0] + found[1:-1]) * _FACTORS[1] + found[2:]  # modulo 2^64
        return np.unique((runs * _FACTORS[2]) >> np.uint64(32))


def _candidates(shingles: dict[int, NDArray[np.uint64]]) -> Iterator[list[int]]:
    """Texts whose smallest hashes agree in a band of several."""
    rng = np.random.default_rng(0)
    factors = rng.integers(1, 1 << 31, _BANDS * _ROWS, dtype=np.uint64)
    shifts = rng.integers(0, 1 << 31, _BANDS * _ROWS, dtype=np.uint64)
    buckets: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for number, found in shingles.items():
        least = ((found[:, None] * factors + shifts) % _PRIME).min(axis=0).reshape(_BANDS, _ROWS)
        for band, row in enumerate(least):
            buckets[band, row.tobytes()].append(number)
    return (group for group in buckets.values() if len(group) > 1)


def _overlap(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> float:
    shared = len(np.intersect1d(left, right, assume_unique=True))
    return shared / (len(left) + len(right) - shared)
