"""Lists: the best documents of a block of queries in some shards, and how such lists are merged.

Scores are canonical, the exact values rounded once, so that lists of shards searched anywhere
merge to the bytes of one search. Any order of merging gives the same lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints, offsets_of, rows_of
from assay.core.ids import Ids, IntegerIds, TextIds
from assay.core.ranking import Ranking, sort_rows

Arrays = Mapping[str, NDArray[Any]]


class Lists(NamedTuple):
    """Ragged rows in rank order; documents are numbered through the whole corpus.

    `tie_split` marks rows whose cut runs through a tie. `ids` names the documents `rows`, which are
    all that the lists hold, ascending.
    """

    lengths: Ints
    docs: Ints
    scores: NDArray[np.float64]
    tie_split: NDArray[np.bool_]
    rows: Ints
    ids: Ids | None

    @property
    def n_bytes(self) -> int:
        """Bytes that travel."""
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def offsets(self) -> Ints:
        """Where each row begins and ends."""
        return offsets_of(self.lengths)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, for a file."""
        named = {name: getattr(self, name) for name in self._fields if name != "ids"}
        if self.ids is None:
            return named
        if self.ids.kind == "integer":
            return {**named, "id_numbers": self.ids.numbers}
        blob, offsets = self.ids.utf8
        return {**named, "id_bytes": blob, "id_offsets": offsets}

    @classmethod
    def of(cls, arrays: Arrays) -> Lists:
        """The same from plain arrays."""
        ids: Ids | None = None
        if "id_numbers" in arrays:
            ids = IntegerIds(arrays["id_numbers"])
        elif "id_bytes" in arrays:
            ids = TextIds(arrays["id_bytes"], arrays["id_offsets"])
        return cls(**{name: arrays[name] for name in cls._fields if name != "ids"}, ids=ids)


def lists_of(ranking: Ranking, first: int, ids: Ids | None) -> Lists:
    """What a search of one shard found; its documents are numbered from `first` on."""
    rows = np.zeros(0, np.int64)
    if ids is not None:
        rows = np.unique(ranking.docs).astype(np.int64)
        ids = ids.take(rows)
    tie_split = ranking.tie_split
    return Lists(
        ranking.lengths,
        ranking.docs.astype(np.int64) + first,
        ranking.scores,
        np.zeros(len(ranking), bool) if tie_split is None else tie_split,
        rows + first,
        ids,
    )


def merge_lists(parts: Sequence[Lists], k: int, *, keep_ties: bool) -> Lists:
    """The best k of what was found in different shards; with `keep_ties` all that tie with them."""
    if len(parts) == 1:
        return parts[0]
    lengths, docs, scores = _side_by_side(_prune(parts, k))
    offsets = offsets_of(lengths)
    by_rank = sort_rows(offsets, scores, docs)
    docs, scores = docs[by_rank], scores[by_rank]
    places = np.arange(len(docs)) - np.repeat(offsets[:-1], lengths)
    full = np.flatnonzero(lengths >= k)
    last = np.full(len(lengths), -np.inf)  # the score of the k-th, where there is one
    last[full] = scores[offsets[full] + k - 1]
    tied = scores == np.repeat(last, lengths)
    inside = (places < k) | (tied & keep_ties)
    tie_split = np.zeros(len(lengths), bool)
    if not keep_ties:
        tie_split[rows_of(offsets)[tied & ~inside]] = True
        for part in parts:  # a shard that was cut at this very score knows of more
            tie_split |= part.tie_split & (_last_scores(part) == last)
    lengths = np.bincount(rows_of(offsets)[inside], minlength=len(lengths)).astype(np.int64)
    docs = docs[inside]
    return Lists(lengths, docs, scores[inside], tie_split, *_ids_of_docs(parts, docs))


def _prune(parts: Sequence[Lists], k: int) -> list[Lists]:
    """Parts without what cannot be among the best k, which is most of it.

    If every one of p parts holds ⌈k/p⌉ documents that score at least x, at least k do in all.
    """
    place = -(-k // len(parts)) - 1
    least = np.min([_scores_at(part, place) for part in parts], axis=0)
    pruned = []
    for part in parts:
        near = part.scores >= np.repeat(least, part.lengths)
        lengths = np.add.reduceat(np.append(near, False), part.offsets[:-1]) * (part.lengths > 0)
        pruned.append(
            part._replace(lengths=lengths, docs=part.docs[near], scores=part.scores[near])
        )
    return pruned


def _scores_at(part: Lists, place: int) -> NDArray[np.float64]:
    """The score at one place of each row; −∞ where a row is shorter."""
    scores = np.full(len(part.lengths), -np.inf)
    longer = part.lengths > place
    scores[longer] = part.scores[part.offsets[:-1][longer] + place]
    return scores


def _side_by_side(parts: Sequence[Lists]) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Each row with what all parts found."""
    lengths = np.sum([part.lengths for part in parts], axis=0).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    docs, scores = np.empty(lengths.sum(), np.int64), np.empty(lengths.sum())
    for part in parts:
        inside = np.arange(len(part.docs)) - np.repeat(part.offsets[:-1], part.lengths)
        at = np.repeat(starts, part.lengths) + inside
        docs[at], scores[at] = part.docs, part.scores
        starts = starts + part.lengths
    return lengths, docs, scores


def _last_scores(part: Lists) -> NDArray[np.float64]:
    """The last score of each row; NaN, which equals nothing, where a row is empty."""
    last = np.full(len(part.lengths), np.nan)
    some = part.lengths > 0
    last[some] = part.scores[part.offsets[1:][some] - 1]
    return last


def _ids_of_docs(parts: Sequence[Lists], docs: Ints) -> tuple[Ints, Ids | None]:
    """Numbers and ids of the documents that are left."""
    if parts[0].ids is None:
        return np.zeros(0, np.int64), None
    rows = np.concatenate([part.rows for part in parts])
    ids = Ids.concat([part.ids for part in parts if part.ids is not None])
    numbers = np.unique(docs)
    by_row = np.argsort(rows, kind="stable")
    return numbers, ids.take(by_row[np.searchsorted(rows[by_row], numbers)])


def join_blocks(blocks: Sequence[Lists]) -> Lists:
    """Blocks of different queries, one after the other."""
    flat = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("lengths", "docs", "scores", "tie_split")
    )
    lengths, docs, scores, tie_split = flat
    rows, ids = np.zeros(0, np.int64), None
    if blocks[0].ids is not None:
        every = np.concatenate([block.rows for block in blocks])
        rows, first = np.unique(every, return_index=True)
        ids = Ids.concat([block.ids for block in blocks if block.ids is not None]).take(first)
    return Lists(lengths, docs, scores, tie_split, rows, ids)
