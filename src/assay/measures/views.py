"""Views for measures: ranks of the documents that count, and nothing else.

A document with a gain above 0 counts for the measure, one with a gain below 0 against it.
`RankView` gives every such document one rank (the list's order, the best order, the worst, or the
expected rank rounded up). `TieView` keeps tie groups whole, for exact expectations over all orders.
Both answer `count` and `weigh`, so a measure that is a weighted sum of ranks is written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, log2

if TYPE_CHECKING:
    from assay.core.hits import Hits


LONG = 1 << 20  # more terms than this are added up in parts
_SHALLOW = 1024  # ranks whose discounts are kept

Gain = Callable[[Floats], Floats]


def nth_in_row(row: Ints) -> Ints:
    """Return 1 for the first element of each run of equal values, 2 for the second, …

    >>> nth_in_row(np.array([0, 0, 2, 2, 2])).tolist()
    [1, 2, 1, 2, 3]
    """
    return _nth_after(_firsts(row), len(row))


def _firsts(row: Ints) -> Ints:
    """Return the places at which a new value begins."""
    new = np.ones(len(row), bool)
    np.not_equal(row[1:], row[:-1], out=new[1:])
    return np.flatnonzero(new)


def _nth_after(first: Ints, length: int) -> Ints:
    """Return 1, 2, … from each of the places on, the first of which is 0."""
    ends = np.append(first[1:], length) if length else first
    return np.arange(1, length + 1) - np.repeat(first, ends - first)


@dataclass(frozen=True, eq=False)
class Pool:
    """All judged documents of each query, counted by gain: what could have been retrieved."""

    row: Ints
    gain: Floats
    count: Ints
    n_queries: int

    def total(self, mask: NDArray[np.bool_]) -> Ints:
        """Return how many judged documents of each query are among the chosen entries."""
        counts = np.bincount(self.row, self.count * mask, minlength=self.n_queries)
        return counts.astype(np.int64)

    @cached_property
    def n_good(self) -> Ints:
        """How many documents of each query count for the measure; read-only, as it is kept."""
        counts = self.total(self.gain > 0)
        counts.setflags(write=False)
        return counts

    @cached_property
    def without_good(self) -> Ints:
        """The queries for which no document counts."""
        return np.flatnonzero(self.n_good <= 0)

    @cached_property
    def ideal(self) -> dict[int | None, Floats]:
        """The ideal sums for nDCG that are known, by cutoff."""
        return {}


class _View:
    """The common part of `RankView` and `TieView`: sizes independent of the order."""

    def __init__(self, hits: Hits, gain: Gain) -> None:
        self.n_queries = hits.n_queries
        self.n_ret = hits.n_ret
        self.hits = hits
        self.gain_of = gain

    @cached_property
    def pool(self) -> Pool:
        hits = self.hits
        if self.gain_of not in hits.kept:
            gain = self.gain_of(hits.pool_grade)
            hits.kept[self.gain_of] = Pool(hits.pool_row, gain, hits.pool_count, hits.n_queries)
        return cast("Pool", hits.kept[self.gain_of])

    @cached_property
    def retrieved_pool(self) -> Pool:
        """The pool a system has when only what it retrieved is known."""
        gain = self.gain_of(self.hits.grade)
        return Pool(self.hits.row, gain, np.ones(len(gain), np.int64), self.n_queries)

    @property
    def n_good(self) -> Ints:
        """R: how many documents count for the measure, retrieved or not."""
        return self.pool.n_good

    @cached_property
    def n_bad(self) -> Ints:
        """How many documents count against it, retrieved or not."""
        if not self.hits.exhaustive:
            return self.pool.total(self.pool.gain < 0)
        n_docs = np.where(self.hits.n_docs > 0, self.hits.n_docs, np.iinfo(np.int64).max // 2)
        return n_docs - self._good_present

    @property
    def _good_present(self) -> Ints:
        """How many documents of the collection count for the measure."""
        present = self.hits.present
        if present is None:
            return self.n_good
        gain = self.gain_of(present.pool_grade)
        return Pool(present.pool_row, gain, present.pool_count, self.n_queries).n_good

    @cached_property
    def bad_retrieved(self) -> Floats:
        """How many retrieved documents count against the measure."""
        gain = self.gain_of(self.hits.grade)
        if self.hits.exhaustive:
            return self.n_ret - self.per_query(self.hits.row, (gain > 0).astype(np.float64))
        return self.per_query(self.hits.row, (gain < 0).astype(np.float64))

    def per_query(self, row: Ints, values: Floats) -> Floats:
        """Sum of the values of each query, added in the order given."""
        sums = np.bincount(row, values, minlength=self.n_queries)
        return sums.astype(np.float64, copy=False)  # bincount of nothing is of integers

    def cut(self, k: int | Ints | None, row: Ints) -> Ints | int:
        """Return the cutoff that applies to each element."""
        if k is None:
            return np.iinfo(np.int64).max
        return k if isinstance(k, int) else k[row]


class RankView(_View):
    """Documents that count for the measure, each at one rank, in rank order within its query."""

    def __init__(self, hits: Hits, gain: Gain, ties: str) -> None:
        super().__init__(hits, gain)
        self.ties = ties
        place = {"order": _in_order, "midrank-up": _midrank_up}.get(ties, _at_extreme)
        self.row, self.rank, self.gain, self.bad_above = place(hits, gain(hits.grade), ties)
        self._counts: dict[int, Ints] = {}

    @cached_property
    def first(self) -> Ints:
        """Where the first counted document of each query stands among all of them."""
        return _firsts(self.row)

    @cached_property
    def nth(self) -> Ints:
        """i: 1 for the first counted document of its query, 2 for the second, …"""
        return _nth_after(self.first, len(self.row))

    @cached_property
    def last(self) -> int:
        """The deepest rank of a counted document."""
        return int(self.rank.max(initial=0))

    def inside(self, k: int | Ints | None) -> Ints | slice:
        """Return an index of the counted documents at ranks up to k."""
        if k is None or (isinstance(k, int) and k >= self.last):
            return slice(None)
        return np.flatnonzero(self.rank <= self.cut(k, self.row))

    def count(self, k: int | Ints | None) -> Floats:
        """Return how many counted documents each query has at ranks up to k."""
        if isinstance(k, np.ndarray):
            return self._count(k).astype(np.float64)
        key = self.last if k is None else min(k, self.last)
        if key not in self._counts:  # many measures share a cutoff
            self._counts[key] = self._count(key)
        return self._counts[key].astype(np.float64)

    def _count(self, k: int | Ints | None) -> Ints:
        return np.bincount(self.row[self.inside(k)], minlength=self.n_queries)

    def weigh(self, weights: Callable[[Floats], Floats], k: int | Ints | None) -> Floats:
        """Sum over documents at ranks up to k of gain times the weight of the rank."""
        inside = self.inside(k)
        row, rank, gain = self.row[inside], self.rank[inside], self.gain[inside]
        return self.per_query(row, gain * weights_at(weights, rank))


Placement = tuple[Ints, Ints, Floats, Ints]


def _keep(hits: Hits, gain: Floats) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    places = np.flatnonzero(gain)
    return (
        hits.row[places],
        hits.rank[places],
        hits.rank_lo[places],
        hits.rank_hi[places],
        gain[places],
    )


def _good_only(hits: Hits, row: Ints, rank: Ints, gain: Floats) -> Placement:
    """Drop what counts against the measure, after counting how much of it is above the rest."""
    if hits.exhaustive:
        good = gain > 0
        row, rank, gain = row[good], rank[good], gain[good]
        return row, rank, gain, rank - nth_in_row(row)
    if not len(gain) or gain.min() > 0:
        return row, rank, gain, np.zeros(len(row), np.int64)
    by_rank = np.lexsort((rank, row))
    row, rank, gain = row[by_rank], rank[by_rank], gain[by_rank]
    bad_above = sum_before_in_row(row, (gain < 0).astype(np.int64))
    good = gain > 0
    return row[good], rank[good], gain[good], bad_above[good]


def sum_before_in_row(row: Ints, values: Ints) -> Ints:
    """Return for each element the sum of the values before it in its row."""
    before: Ints = np.cumsum(values) - values
    first = np.arange(len(row)) - nth_in_row(row) + 1
    sums: Ints = before - before[first]
    return sums


def _in_order(hits: Hits, gain: Floats, ties: str) -> Placement:
    places = np.flatnonzero(gain)
    if len(places) == len(gain):
        return _good_only(hits, hits.row, hits.rank, gain)
    return _good_only(hits, hits.row[places], hits.rank[places], gain[places])


def _at_extreme(hits: Hits, gain: Floats, ties: str) -> Placement:
    """Rank tie groups at their best (what counts for goes first) or worst."""
    row, _, lo, hi, gains = _keep(hits, gain)
    key = -gains if ties == "best" else gains
    by_group = np.lexsort((key, lo, row))
    row, lo, hi = (column[by_group] for column in (row, lo, hi))
    gains, key = gains[by_group], key[by_group]
    nth, size = _nth_and_size(row, lo)
    rank = np.where(key < 0, lo + nth - 1, hi - size + nth)
    by_rank = np.lexsort((rank, row))
    return _good_only(hits, row[by_rank], rank[by_rank], gains[by_rank])


def _midrank_up(hits: Hits, gain: Floats, ties: str) -> Placement:
    """Put the j-th of m counted documents of a group of n at j(n+1)/(m+1), rounded up."""
    row, _, lo, hi, gains = _keep(hits, gain)
    group = _group_numbers(row, lo)
    good, bad = gains > 0, gains < 0
    bad_in_group = np.bincount(group, bad, minlength=0).astype(np.int64)
    bad_before = sum_before_in_row(row, bad.astype(np.int64))
    first = np.flatnonzero(np.diff(group, prepend=-1))
    before_group = bad_before[first][group] if len(group) else bad_before
    total = np.bincount(group, np.where(good, gains, 0.0))
    row, lo, hi, group, before_group = (a[good] for a in (row, lo, hi, group, before_group))
    nth, m = _nth_and_size(row, lo)
    rank: Ints = lo - 1 + _ceil_divide(nth * (hi - lo + 2), m + 1)
    bad_above: Ints = before_group + _ceil_divide(nth * bad_in_group[group], m + 1)
    if hits.exhaustive:
        bad_above = rank - nth_in_row(row)
    return row, rank, total[group] / m, bad_above


def _ceil_divide(top: Ints, bottom: Ints) -> Ints:
    """Return top / bottom rounded up, in whole numbers."""
    return np.negative(np.floor_divide(np.negative(top), bottom))


def _group_numbers(row: Ints, lo: Ints) -> Ints:
    """Return 0, 1, 2, … for the tie groups of elements sorted by row and rank."""
    if not len(row):
        return np.zeros(0, np.int64)
    changes = (row[1:] != row[:-1]) | (lo[1:] != lo[:-1])
    return np.concatenate([[0], np.cumsum(changes)])


def _nth_and_size(row: Ints, lo: Ints) -> tuple[Ints, Ints]:
    """Return place in the tie group and its size, for elements sorted by row and group."""
    group = _group_numbers(row, lo)
    return nth_in_row(group), np.bincount(group)[group] if len(group) else group


class TieView(_View):
    """Tie groups that hold at least one document of non-zero gain, in rank order.

    For each group: its query `row`, the documents `above` it, its `size`, how many of it are
    `good` and `bad`, how many are `good_above` and `bad_above`, and the `total` gain of the good.
    """

    def __init__(self, hits: Hits, gain: Gain) -> None:
        super().__init__(hits, gain)
        row, _, lo, hi, gains = _keep(hits, gain(hits.grade))
        group = _group_numbers(row, lo)
        first = np.flatnonzero(np.diff(group, prepend=-1))
        self.row, self.above, self.size = row[first], lo[first] - 1, (hi - lo + 1)[first]
        self.good = np.bincount(group, gains > 0).astype(np.int64)
        self.bad = np.bincount(group, gains < 0).astype(np.int64)
        self.total = np.bincount(group, np.where(gains > 0, gains, 0.0))
        self.good_above = sum_before_in_row(self.row, self.good)
        self.bad_above = sum_before_in_row(self.row, self.bad)
        if hits.exhaustive:
            self.bad, self.bad_above = self.size - self.good, self.above - self.good_above
        self._first, self._gains = first, gains

    @cached_property
    def members(self) -> list[Floats]:
        """The gains of each group."""
        return np.split(self._gains, self._first[1:]) if len(self._first) else []

    def inside(self, k: int | Ints | None) -> Ints:
        """Return how many places of each group are at ranks up to k."""
        return np.clip(self.cut(k, self.row) - self.above, 0, self.size)

    def count(self, k: int | Ints | None) -> Floats:
        """Return the expected number of counted documents at ranks up to k."""
        return self.per_query(self.row, self.good * self.inside(k) / self.size)

    def weigh(self, weights: Callable[[Floats], Floats], k: int | Ints | None) -> Floats:
        """Return the expected sum of gain times the weight of the rank, up to rank k."""
        inside = self.inside(k)
        mean = self.total / self.size
        return self.per_query(self.row, mean * sum_over_ranks(weights, self.above, inside))


def discount(rank: Floats) -> Floats:
    """Return nDCG's weight of a rank, 1 / log2(1 + r)."""
    return 1.0 / log2(1.0 + rank)


def documents_needed(n_rel: Ints, levels: tuple[float, ...], rounding: str) -> Ints:
    """Return how many relevant documents make each recall level; levels × queries.

    trec_eval 10 rounds to the nearest whole number; version 9 adds 0.9 and cuts.
    """
    share = np.multiply.outer(np.asarray(levels, dtype=np.float64), n_rel)
    return np.floor(share + (0.5 if rounding == "round" else 0.9)).astype(np.int64)


def weights_at(weights: Callable[[Floats], Floats], rank: Ints) -> Floats:
    """Return the weight of each rank; looked up where that needs fewer of them."""
    last = int(rank.max(initial=0))
    if weights is discount and last <= _SHALLOW:
        return _discounts()[rank]
    if last > len(rank):
        return weights(rank.astype(np.float64))
    return weights(np.arange(1.0, last + 1))[rank - 1]


def sums_of_discounts(counts: Ints) -> Floats:
    """Return the sum of the first discounts, as many as each count says."""
    last = int(counts.max(initial=0))
    return (_sums() if last <= _SHALLOW else np.cumsum(_discounts_up_to(last)))[counts]


@cache
def _sums() -> Floats:
    return np.cumsum(_discounts())


@cache
def _discounts() -> Floats:
    return _discounts_up_to(_SHALLOW)


def _discounts_up_to(last: int) -> Floats:
    """Return the discount of every rank; rank 0, which no document has, counts nothing."""
    return np.concatenate([[0.0], discount(np.arange(1.0, last + 1))])


def sum_over_ranks(weights: Callable[[Floats], Floats], above: Ints, places: Ints) -> Floats:
    """Sum of weights(r) over the `places` ranks that follow rank `above`, for each group."""
    return sum_over_places(lambda rank, _: weights(rank), above, places)


def sum_over_places(terms: Callable[[Floats, Floats], Floats], above: Ints, places: Ints) -> Floats:
    """Sum of terms(rank, place) over the first `places` places of each group.

    Every group is added up by itself: a difference of two sums from rank 1 on would lose digits at
    deep ranks. Groups of the same ranks, as those of chance are, are added up once.
    """
    order = np.lexsort((places, above))
    new = np.diff(above[order], prepend=-1) | np.diff(places[order], prepend=-1)
    start, length = above[order[new != 0]], places[order[new != 0]]
    sums = np.zeros(len(start))
    # Groups that are not long, as many at a time as memory should hold.
    short = np.flatnonzero((length > 0) & (length <= LONG))
    number = np.cumsum(length[short]) // LONG
    for chunk in np.split(short, np.flatnonzero(np.diff(number)) + 1):
        sums[chunk] = _sums_of(terms, start[chunk], length[chunk])
    for g in np.flatnonzero(length > LONG).tolist():
        s, n = int(start[g]), int(length[g])
        parts = (
            _sums_of(terms, np.array([s]), np.array([min(LONG, n - at)]), at)[0]
            for at in range(0, n, LONG)
        )
        sums[g] = math.fsum(parts)
    every = np.empty(len(order))
    every[order] = sums[np.cumsum(new != 0) - 1]
    return every


def _sums_of(
    terms: Callable[[Floats, Floats], Floats], start: Ints, length: Ints, first: int = 0
) -> Floats:
    """Return sums of groups of at least one place, from the place after `first` on."""
    offsets = np.cumsum(length) - length
    if not len(length):
        return np.zeros(0)
    place: Floats = np.arange(1.0, length.sum() + 1) - np.repeat(offsets, length) + first
    rank: Floats = np.repeat(start, length) + place
    return np.asarray(np.add.reduceat(terms(rank, place), offsets))
