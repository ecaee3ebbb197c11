"""The rank of the first positive of each query: median and mean rank, and those of chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.hits import Hits
from assay.core.ids import Ids

__all__ = ["FirstRanks"]


@dataclass(frozen=True, eq=False)
class FirstRanks:
    """Rank of the first relevant item of each query, NaN where there is none to find.

    A relevant item that no list holds stands at the end. `n_relevant` items of `n_docs` were
    relevant. Queries are in order of their ids.
    """

    query_ids: Ids
    values: Floats
    n_relevant: Ints
    n_docs: Ints

    @classmethod
    def of(cls, hits: Hits, ties: str) -> FirstRanks:
        """From hits in whole lists; `ties` as in the conventions.

        Of a tie group with g items from rank a on, m of them relevant, the first relevant one
        stands at a + (g + 1) / (m + 1) − 1 on the mean over orders.
        """
        at = np.flatnonzero(hits.grade >= 1)
        row, first = np.unique(hits.row[at], return_index=True)
        low, high = hits.rank_lo[at[first]], hits.rank_hi[at[first]]
        found = np.zeros(hits.n_queries, np.int64)
        found[row] = low
        same = hits.rank_lo[at] == found[hits.row[at]]
        relevant = np.bincount(hits.row[at[same]], minlength=hits.n_queries)[row]
        placed = {
            "order": hits.rank[at[first]],
            "best": low,
            "worst": high - relevant + 1,
            "expected": low + (high - low + 2) / (relevant + 1) - 1,
            "midrank-up": low + (high - low + 1) // 2,
        }[ties]
        good = hits.pool_grade >= 1
        n_relevant = np.bincount(
            hits.pool_row[good], hits.pool_count[good], minlength=hits.n_queries
        ).astype(np.int64)
        values = np.where(n_relevant > 0, hits.n_docs, np.nan)
        values[row] = placed
        return cls(hits.query_ids, values, n_relevant, hits.n_docs)

    @classmethod
    def merge(cls, parts: Sequence[FirstRanks]) -> FirstRanks:
        """Those of several blocks of queries."""
        ids = Ids.concat([part.query_ids for part in parts])
        by_id = ids.order()
        columns = [
            np.concatenate([getattr(part, name) for part in parts])[by_id]
            for name in ("values", "n_relevant", "n_docs")
        ]
        return cls(ids.take(by_id), *columns)

    @property
    def mean(self) -> float:
        """The mean rank; NaN without queries."""
        known = self.values[np.isfinite(self.values)]
        return float(known.mean()) if len(known) else math.nan

    @property
    def median(self) -> float:
        """The median rank, rounded down as the field does."""
        known = self.values[np.isfinite(self.values)]
        return float(np.floor(np.median(known))) if len(known) else math.nan

    def chance_mean(self) -> float:
        """The mean rank of a random order: (N + 1) / (R + 1), averaged over queries."""
        some = self.n_relevant > 0
        if not some.any():
            return math.nan
        return float(((self.n_docs[some] + 1) / (self.n_relevant[some] + 1)).mean())

    def chance_median(self) -> float:
        """The rank by which half of the queries of a random order have a first positive.

        P(rank > m) = C(N − m, R) / C(N, R), averaged over queries.
        """
        some = self.n_relevant > 0
        sizes = np.stack([self.n_docs[some], self.n_relevant[some]], axis=1)
        if not len(sizes):
            return math.nan
        kinds, weights = np.unique(sizes, axis=0, return_counts=True)
        low, high = 1, int(kinds[:, 0].max())
        while low < high:
            middle = (low + high) // 2
            later = sum(
                count * _later(int(n), int(r), middle)
                for (n, r), count in zip(kinds, weights, strict=True)
            )
            low, high = (low, middle) if later <= weights.sum() / 2 + 1e-9 else (middle + 1, high)
        return float(low)


def _later(n: int, r: int, m: int) -> float:
    """The probability that all r relevant of n items stand behind rank m of a random order."""
    if m > n - r:
        return 0.0
    return math.comb(n - m, r) / math.comb(n, r)
