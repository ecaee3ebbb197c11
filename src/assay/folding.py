"""Rankings of chunks folded to rankings of documents: by the best chunk, or the sum of a few."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay import checks, order
from assay.errors import UsageError
from assay.ids import Ids
from assay.ranking import Ranking

__all__ = ["Fold", "fold_chunks"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Fold:
    """What a document is worth: the sum of its `best` chunks; 1 is its best chunk alone.

    >>> Fold.parse("max"), str(Fold.parse("sum:3"))
    (Fold(best=1), 'sum:3')
    """

    best: int = 1

    @classmethod
    def parse(cls, text: str) -> Fold:
        """From `max` or `sum:N`."""
        if text == "max":
            return cls(1)
        kind, _, number = text.partition(":")
        if kind != "sum" or not number.isascii() or not number.isdigit() or int(number) < 1:
            raise UsageError(f"Chunks are folded by 'max' or 'sum:N', such as sum:3, not {text!r}.")
        return cls(int(number))

    def __str__(self) -> str:
        """As it is written."""
        return "max" if self.best == 1 else f"sum:{self.best}"


def fold_chunks(
    chunks: Ranking, doc_of_chunk: Any, *, doc_ids: Ids, fold: Fold, depth: int
) -> Ranking:
    """The ranking of documents; chunk i belongs to document `doc_of_chunk[i]`.

    A document counts with the chunks that were retrieved; those that were not add nothing.

    >>> chunks = Ranking.from_scores([[0.2, 0.9, 0.8]])
    >>> fold_chunks(chunks, [0, 0, 1], doc_ids=Ids.count(2), fold=Fold(2), depth=2).row(0)
    [(0, 1.1), (1, 0.8)]
    """
    owner = checks.check_numbers(doc_of_chunk, len(doc_ids), "doc_of_chunk")
    rows, docs = order.rows_of(chunks.offsets), owner[chunks.docs]
    key = rows * len(doc_ids) + docs
    by_key = np.argsort(key, kind="stable")  # chunks of one document stay best first
    firsts, place = _places_in_group(key[by_key])
    counted = by_key[place < fold.best]
    group = np.searchsorted(firsts, np.flatnonzero(place < fold.best), side="right") - 1
    scores = np.zeros(len(firsts))
    np.add.at(scores, group, chunks.scores[counted])  # one by one, in the order of ranks
    heads = by_key[firsts]
    folded = Ranking(
        chunks.query_ids,
        doc_ids,
        np.searchsorted(rows[heads], np.arange(chunks.n_queries + 1)).astype(np.int64),
        docs[heads].astype(np.int32),
        scores,
        in_order=False,
        n_docs=len(doc_ids),
        has_ids=chunks.has_ids,
        search=chunks.search,
    )
    return replace(folded.first(depth), name=chunks.name)


def _places_in_group(keys: Ints) -> tuple[Ints, Ints]:
    """Where each run of equal keys begins, and the place of every element in its run."""
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    firsts = np.flatnonzero(new)
    return firsts, np.arange(len(keys)) - np.repeat(firsts, np.diff([*firsts, len(keys)]))
