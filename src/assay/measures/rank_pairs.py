"""Two rankings side by side: for each query every document that either of them holds.

The join behind the measures of likeness. Rows are taken some at a time, so that long rankings of
many queries need little memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Ints, offsets_of
from assay.core import checks, order
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import MismatchError

__all__ = ["Places", "RankPairs", "pair_up"]


_BLOCK = 1 << 20  # documents of both rankings to join at once


@dataclass(frozen=True, eq=False)
class Places:
    """Where one ranking has each document of a join: its rank, and those of its tie group.

    A document that it does not hold has rank 0 and ties with all others of that kind at the end.
    `length` is how many documents each row of the ranking holds.
    """

    rank: Ints
    first: Ints
    last: Ints
    length: Ints

    def take(self, which: Flags) -> Places:
        """Some of the documents."""
        return Places(self.rank[which], self.first[which], self.last[which], self.length)

    def is_inside(self, k: int) -> Flags:
        """Which documents are among the first k, however ties fall."""
        return (self.rank > 0) & (self.last <= k)

    def is_cut(self, k: int) -> Flags:
        """Which documents are in a tie group that the cut at k runs through."""
        return (self.rank > 0) & (self.first <= k) & (k < self.last)


@dataclass(frozen=True, eq=False)
class RankPairs:
    """The documents of some queries, row by row, and where two rankings have them."""

    offsets: Ints
    a: Places
    b: Places

    @property
    def n_rows(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Ints:
        """How many documents each row holds."""
        return np.diff(self.offsets)

    @cached_property
    def row(self) -> Ints:
        """The row of every document."""
        return order.rows_of(self.offsets)

    @cached_property
    def both(self) -> Flags:
        """Which documents both rankings hold."""
        return (self.a.rank > 0) & (self.b.rank > 0)

    def shared(self) -> RankPairs:
        """Only the documents that both rankings hold, at the places where they are."""
        offsets = np.concatenate([[0], np.cumsum(self.both)])[self.offsets]
        return RankPairs(offsets, self.a.take(self.both), self.b.take(self.both))

    def sums(self, values: NDArray[Any]) -> Ints:
        """Exact sums of whole numbers over each row."""
        running = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
        return np.diff(running[self.offsets])

    def count_pairs(self) -> tuple[Ints, Ints]:
        """Pairs of documents that tie in both rankings, and pairs in opposite order, per row."""
        by_a = self.row * (1 + self.a.first.max(initial=0)) + self.a.first
        by_place = np.lexsort((self.b.first, by_a))
        x, y = by_a[by_place], self.b.first[by_place]
        same = (x[1:] == x[:-1]) & (y[1:] == y[:-1])
        starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(x)), bool), ~same]))
        size = np.diff(np.append(starts, len(x)))
        tied = np.zeros(len(x), np.int64)
        tied[starts] = size * (size - 1) // 2
        return self.sums(tied), self._inversions(y)

    def _inversions(self, values: Ints) -> Ints:
        """How many pairs of each row stand in falling order.

        Bit by bit from the highest: among values that agree in all higher bits, a one before a
        zero is such a pair. Then zeros move before ones, in their order, and are a group of their
        own; so nothing need be sorted.
        """
        place = np.arange(len(values))
        start, stop = self.offsets[:-1][self.row], self.offsets[1:][self.row]
        counted = np.zeros(len(values), np.int64)
        for bit in range(int(values.max(initial=0)).bit_length() - 1, -1, -1):
            one = ((values >> bit) & 1).astype(bool)
            ones = np.concatenate([[0], np.cumsum(one)])
            before = ones[:-1] - ones[start]
            counted += np.where(one, 0, before)
            middle = stop - (ones[stop] - ones[start])  # where the ones of the group will begin
            to = np.where(one, middle + before, place - before)
            moved = np.empty((3, len(values)), np.int64)
            moved[:, to] = values, np.where(one, middle, start), np.where(one, stop, middle)
            values, start, stop = moved
        return self.sums(counted)


def pair_up(a: Ranking, b: Ranking) -> Iterator[RankPairs]:
    """Two rankings of the same queries side by side, some queries at a time."""
    rows_of_b = _same_queries(a, b)
    doc_of_b, n_docs = _one_numbering(a.doc_ids, b.doc_ids)
    size = a.lengths + b.lengths[rows_of_b]
    block = np.cumsum(size) // _BLOCK
    edges = np.concatenate([[0], np.flatnonzero(np.diff(block)) + 1, [len(a)]])
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        left = _part(a, np.arange(start, stop))
        right = _part(b, rows_of_b[start:stop], doc_of_b)
        yield _join(left, right, stop - start, n_docs)


def _same_queries(a: Ranking, b: Ranking) -> Ints:
    """The row of b for each row of a; both must rank the same queries."""
    rows = a.query_ids.match(b.query_ids)
    if (rows < 0).any() or len(a) != len(b):
        absent = [a.query_ids[i] for i in np.flatnonzero(rows < 0).tolist()]
        absent_text = f"; the second lacks {checks.name_few(absent)}" if absent else ""
        raise MismatchError(
            f"The two rankings are of {len(a)} and {len(b)} queries{absent_text}. "
            "Rank the same queries in both."
        )
    return rows


def _one_numbering(a: Ids, b: Ids) -> tuple[Ints, int]:
    """Numbers of b's documents among those of a; what a does not know comes after these."""
    if a == b:
        return np.arange(len(b)), len(a)
    known = b.match(a)
    return np.where(known >= 0, known, len(a) + np.arange(len(b))), len(a) + len(b)


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows of one ranking."""

    row: Ints
    doc: Ints
    rank: Ints
    first: Ints
    last: Ints
    length: Ints


def _part(ranking: Ranking, rows: Ints, numbers: Ints | None = None) -> _Part:
    lengths = ranking.lengths[rows]
    offsets = offsets_of(lengths)
    row = order.rows_of(offsets)
    at = np.arange(offsets[-1]) - offsets[:-1][row] + ranking.offsets[rows][row]
    scores = ranking.scores[at]
    rank, first, last = order.tie_groups(offsets, scores, np.arange(len(at)))
    docs = ranking.docs[at]
    doc = docs.astype(np.int64) if numbers is None else numbers[docs]
    return _Part(row, doc, rank, first, last, lengths)


def _join(left: _Part, right: _Part, n_rows: int, n_docs: int) -> RankPairs:
    """A place for each document of each row, in order of rows and of document numbers."""
    keys = np.concatenate([part.row * n_docs + part.doc for part in (left, right)])
    by_key = np.argsort(keys)
    ordered = keys[by_key]
    new = np.concatenate([np.ones(min(1, len(keys)), bool), ordered[1:] != ordered[:-1]])
    at = np.empty(len(keys), np.int64)
    at[by_key] = np.cumsum(new) - 1
    row = ordered[new] // n_docs
    offsets = np.searchsorted(row, np.arange(n_rows + 1)).astype(np.int64)
    size = np.diff(offsets)
    split = len(left.row)
    return RankPairs(
        offsets,
        _place_documents(left, at[:split], row, size),
        _place_documents(right, at[split:], row, size),
    )


def _place_documents(part: _Part, at: Ints, row: Ints, size: Ints) -> Places:
    rank = np.zeros(len(row), np.int64)
    first, last = (part.length + 1)[row], size[row]
    rank[at], first[at], last[at] = part.rank, part.first, part.last
    return Places(rank, first, last, part.length)
