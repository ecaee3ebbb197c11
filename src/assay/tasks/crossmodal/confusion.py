"""Retrieval confusion: which labels are retrieved for which, counted in the first k places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.core.ranking import Ranking

__all__ = ["ConfusionCounter", "LabelConfusion", "RetrievedLabel"]


@dataclass(frozen=True)
class RetrievedLabel:
    """How often items of one label were retrieved for queries of another."""

    query_label: str
    doc_label: str
    count: int
    share: float


@dataclass(frozen=True, eq=False)
class LabelConfusion:
    """Counts of (query label, retrieved label) in the first `k` places, those above 0 only.

    Tied items count as the tie rule places them.
    """

    k: int
    names: NDArray[Any]
    query: Ints
    doc: Ints
    count: Ints

    def rows(self) -> Iterator[RetrievedLabel]:
        """Every pair that occurs, by query label, most often retrieved first.

        The share is that of all items retrieved for queries of this label.
        """
        total = np.bincount(self.query, self.count, minlength=len(self.names))
        for i in np.lexsort((self.doc, -self.count, self.query)):
            asked, found = self.query[i], self.doc[i]
            share = float(self.count[i] / total[asked])
            yield RetrievedLabel(
                str(self.names[asked]), str(self.names[found]), int(self.count[i]), share
            )

    def mistakes(self, limit: int) -> list[RetrievedLabel]:
        """The pairs of different labels with the largest shares."""
        wrong = [row for row in self.rows() if row.query_label != row.doc_label]
        return sorted(wrong, key=lambda row: -row.share)[:limit]

    def matrix(self, largest: int = 100) -> tuple[list[str], NDArray[np.float64]]:
        """Shares as a square array; beyond `largest` labels the rarest become one.

        Rows of labels that no query carries are NaN.
        """
        n = len(self.names)
        if n <= largest:
            place, names = np.arange(n), [str(name) for name in self.names]
        else:
            place, names = self._lump_rare_labels(largest)
        square = np.zeros((len(names), len(names)))
        np.add.at(square, (place[self.query], place[self.doc]), self.count)
        total = square.sum(axis=1, keepdims=True)
        return names, np.divide(square, total, out=np.full_like(square, np.nan), where=total > 0)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"k": self.k, "pairs": [asdict(row) for row in self.rows()]}

    def _lump_rare_labels(self, largest: int) -> tuple[Ints, list[str]]:
        n = len(self.names)
        weight = np.bincount(self.query, self.count, minlength=n)
        kept = np.sort(np.argsort(-weight, kind="stable")[: largest - 1])
        place = np.full(n, largest - 1, np.int64)
        place[kept] = np.arange(len(kept))
        return place, [*(str(self.names[i]) for i in kept), f"{n - len(kept)} other labels"]


class ConfusionCounter:
    """Adds up pairs of labels block by block; its size is that of the pairs that occur."""

    def __init__(self, names: NDArray[Any], k: int) -> None:
        self.names, self.k = names, k
        self.codes, self.counts = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, ranking: Ranking, query_labels: Ints, doc_labels: Ints) -> None:
        """Count one block: `query_labels` has a label for each row of the ranking."""
        first = ranking.first(self.k)
        pairs = np.repeat(query_labels, first.lengths) * len(self.names) + doc_labels[first.docs]
        codes, counts = np.unique(pairs, return_counts=True)
        merged, at = np.unique(np.concatenate([self.codes, codes]), return_inverse=True)
        weight = np.concatenate([self.counts, counts])
        self.codes = merged
        self.counts = np.bincount(at, weight, minlength=len(merged)).astype(np.int64)

    def result(self) -> LabelConfusion:
        """What was counted."""
        query, doc = np.divmod(self.codes, max(len(self.names), 1))
        return LabelConfusion(self.k, self.names, query, doc, self.counts)
