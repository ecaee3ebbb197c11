"""The best documents by a sparse product: words × documents, and the one tie rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay import checks
from assay.lexical.base import Best, checked_texts
from assay.order import sort_rows

__all__ = ["SparseFitted", "best_of_row"]

_QUERIES_AT_ONCE: Final = 64


@dataclass(frozen=True, eq=False)
class SparseFitted:
    """Weights of words in documents (words × documents) and what makes rows of queries."""

    matrix: Any
    query_rows: Callable[[list[str]], Any]

    @property
    def n_docs(self) -> int:
        """How many documents there are."""
        return int(self.matrix.shape[1])

    def search(self, query_texts: Sequence[str], k: int) -> Best:
        """The k best documents of each query; what shares no word with it is not found."""
        texts = checked_texts(query_texts, "The queries")
        k = checks.check_cutoff(k)
        docs = np.full((len(texts), k), -1, np.int64)
        scores = np.zeros((len(texts), k))
        for start in range(0, len(texts), _QUERIES_AT_ONCE):
            rows = self.query_rows(texts[start : start + _QUERIES_AT_ONCE])
            found = (rows @ self.matrix).tocsr()
            for row, (first, last) in enumerate(zip(found.indptr, found.indptr[1:], strict=False)):
                numbers, values = found.indices[first:last], found.data[first:last]
                best = best_of_row(numbers, values, k)
                docs[start + row, : len(best)] = numbers[best]
                scores[start + row, : len(best)] = values[best]
        return docs, scores


def best_of_row(
    docs: NDArray[np.integer[Any]], scores: NDArray[np.float64], k: int
) -> NDArray[np.int64]:
    """Places of the k best that are not zero: score descending, then document ascending."""
    places = np.flatnonzero(scores)
    if len(places) > k:
        kept = scores[places]
        places = places[kept >= np.partition(kept, len(kept) - k)[len(kept) - k]]
    whole = np.array([0, len(places)], np.int64)
    order = sort_rows(whole, scores[places], docs[places].astype(np.int64))
    return places[order[:k]]
