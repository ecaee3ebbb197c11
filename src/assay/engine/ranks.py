"""TargetRanks: where the one target of each query stands, known by counting alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.hits import Hits, judge_ranks

__all__ = ["TargetRanks"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TargetRanks:
    """For each query how many documents stand before its target, and why.

    `above` score higher, `tied` others score the same, and `before` of these have a lower document
    number; −1 in all three where a query has no target. `n_docs` documents were looked at;
    `search` says how.

    >>> ranks = TargetRanks(np.array([1, -1]), np.array([2, -1]), np.array([1, -1]), n_docs=9)
    >>> ranks.rank.tolist(), ranks.has_target.tolist()
    ([3, 0], [True, False])
    """

    above: Ints
    tied: Ints
    before: Ints
    n_docs: int
    search: str = ""

    @property
    def has_target(self) -> NDArray[np.bool_]:
        """Which queries have a target."""
        return self.above >= 0

    @property
    def rank(self) -> Ints:
        """The target's rank under the tie rule, from 1; 0 where there is no target."""
        return np.where(self.has_target, self.above + self.before + 1, 0)

    def hits(self, query_ids: Any = None) -> Hits:
        """What measures need; the queries are numbered from 0 unless they have ids."""
        hits = judge_ranks(
            self.above + 1,
            tied=np.maximum(self.tied, 0),
            placed=self.rank,
            n_docs=self.n_docs,
            has_target=self.has_target,
            query_ids=query_ids,
        )
        return replace(hits, search=self.search)

    def __len__(self) -> int:
        """How many queries there are."""
        return len(self.above)

    def __repr__(self) -> str:
        """Sizes in one line."""
        return f"TargetRanks({len(self)} queries, {self.n_docs} docs)"
