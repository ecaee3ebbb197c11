"""How alike two rankings of the same queries are: Overlap@k, RBO, Kendall's τ-b, Spearman's ρ.

Each function gives one number per query, in the order of the first ranking's queries, and NaN
where it is undefined. Documents with equal scores tie; `ties` says how a tie counts:

    order     the order of the list
    expected  the exact mean when the ties of both rankings are broken at random
    best      the most that any order of the tied documents gives
    worst     the least

A cut through tied documents can only be seen if the ranking keeps them all, as those that
`rank(..., keep_ties=True)` makes do. Of a document that a ranking does not hold it says only that
it comes after those it holds: correlations run over the documents that either ranking holds, and
those that one of them lacks tie at its end.

`RankPairs` puts two rankings side by side. Rows are taken some at a time, so that long rankings of
many queries need little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Floats, Ints, gather, offsets_of, rows_of
from assay.core import checks
from assay.core.ranking import Ranking
from assay.errors import MismatchError, UsageError
from assay.native import kernels

TIES: Final = ("order", "expected", "best", "worst")


def overlap(a: Ranking, b: Ranking, *, k: int, ties: str = "order") -> Floats:
    """Return Overlap@k: the share of the first k documents in both rankings.

    |A_k ∩ B_k| / k, per query. In expectation a document counts the product of its chances to be
    among the first k of a and of b. Rankings shorter than k still divide by k.

    >>> a = Ranking.from_scores([[4, 3, 2, 1]])
    >>> b = Ranking.from_scores([[1, 1, 1, 0]])
    >>> [overlap(a, b, k=2, ties=ties).tolist() for ties in TIES]
    [[1.0], [0.6666666666666666], [1.0], [0.5]]
    """
    value = _overlap_of(checks.check_cutoff(k), checks.check_choice(ties, TIES, "ties"))
    return _by_row(a, b, [value], ties, k)[0]


def rbo(a: Ranking, b: Ranking, *, p: float = 0.9, ties: str = "expected") -> Floats:
    """Return RBO(p): extrapolated rank-biased overlap; first ranks weigh most.

    (1 − p)/p · Σ_d p^d · X_d / d + p^D · X_D / D over the depths d = 1 … D, where X_d is how many
    documents the first d ranks have in common and D the length of the shorter row. `ties` is
    "expected" (X_d in expectation, which Corsi and Urbano call RBO^a) or "order".
    Webber, Moffat, Zobel 2010; Corsi, Urbano 2024.

    >>> a = Ranking.from_scores([[3, 2, 1]])
    >>> rbo(a, a).tolist(), rbo(a, Ranking.from_scores([[1, 2, 3]]), p=0.5).tolist()
    ([1.0], [0.375])
    """
    weight = check_persistence(p)
    if checks.check_choice(ties, TIES, "ties") not in ("order", "expected"):
        raise UsageError(f"RBO has no ties {ties!r}. Pass 'order' or 'expected'.")
    return _by_row(a, b, [lambda pairs: _rbo(pairs, weight, ties)], ties, 0)[0]


def kendall(a: Ranking, b: Ranking) -> Floats:
    """Return Kendall's τ-b: concordant less discordant pairs, corrected for ties.

    (P − Q) / √((n₀ − n₁)(n₀ − n₂)), where n₀ counts all pairs, n₁ and n₂ those that tie in a and
    in b. Undefined where a ranking ties everything.

    >>> a, b = Ranking.from_scores([[4, 3, 2, 1]]), Ranking.from_scores([[4, 2, 3, 1]])
    >>> kendall(a, b).tolist()
    [0.6666666666666666]
    """
    return _by_row(a, b, [_kendall], "expected")[0]


def spearman(a: Ranking, b: Ranking) -> Floats:
    """Return Spearman's ρ: the correlation of ranks, ties at their mean rank.

    >>> a, b = Ranking.from_scores([[4, 3, 2, 1]]), Ranking.from_scores([[4, 2, 3, 1]])
    >>> spearman(a, b).tolist()
    [0.8]
    """
    return _by_row(a, b, [_spearman], "expected")[0]


@dataclass(frozen=True, eq=False)
class RankingSimilarity:
    """How alike the tops of two rankings are: `overlap[k][ties]`, and RBO."""

    overlap: dict[int, dict[str, Floats]]
    rbo: Floats

    def take(self, rows: Ints) -> RankingSimilarity:
        """Return the similarity of some queries, or in another order."""
        overlap = {
            k: {ties: values[rows] for ties, values in of.items()} for k, of in self.overlap.items()
        }
        return RankingSimilarity(overlap, self.rbo[rows])

    def tied(self, k: int) -> NDArray[np.bool_]:
        """Return the queries whose Overlap@k depends on the order of tied documents."""
        by_rule = self.overlap[k]
        return np.not_equal(by_rule["best"], by_rule["worst"])


def ranking_similarity(
    a: Ranking, b: Ranking, *, k: Iterable[int], p: float = 0.9
) -> RankingSimilarity:
    """Return Overlap at several cuts under every tie rule, and RBO, by one join."""
    cuts = [(checks.check_cutoff(values_of_pair), ties) for values_of_pair in k for ties in TIES]
    weight = check_persistence(p)
    values = [_overlap_of(cut, ties) for cut, ties in cuts]
    values.append(lambda pairs: _rbo(pairs, weight, "expected"))
    top = max((cut for cut, _ in cuts), default=0)
    *rows_of_values, biased = _by_row(a, b, values, "expected", top)
    overlaps: dict[int, dict[str, Floats]] = {}
    for (cut, ties), values_of_pair in zip(cuts, rows_of_values, strict=True):
        overlaps.setdefault(cut, {})[ties] = values_of_pair
    return RankingSimilarity(overlaps, biased)


def correlations(a: Ranking, b: Ranking) -> tuple[Floats, Floats]:
    """Return Kendall's τ-b and Spearman's ρ, by one join of the rankings."""
    tau, rho = _by_row(a, b, [_kendall, _spearman], "expected")
    return tau, rho


def _overlap_of(k: int, ties: str) -> Callable[[RankPairs], Floats]:
    return lambda pairs: _COUNTS[ties](pairs, k) / k


def check_persistence(p: Any) -> float:
    """Return the persistence of RBO, checked."""
    number = float(p) if checks.is_real(p) else 0.0
    if not 0 < number < 1:
        raise UsageError(f"RBO's p must be between 0 and 1, found {p!r}.")
    return number


def _by_row(
    a: Ranking,
    b: Ranking,
    values: list[Callable[[RankPairs], Floats]],
    ties: str,
    top: int | None = None,
) -> list[Floats]:
    """Return each value for every query; the rankings are joined once for all of them.

    `top` is the deepest cut of values that need no documents beyond it.
    """
    for which, ranking in (("first", a), ("second", b)):
        checks.require(ranking, Ranking, f"The {which} ranking", "a Ranking")
        if ties != "order":
            _refuse_split_ties(which, ranking)
    parts = [[value(pairs) for value in values] for pairs in pair_up(a, b, top)]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _refuse_split_ties(which: str, ranking: Ranking) -> None:
    if ranking.tie_split is not None and ranking.tie_split.any():
        row = int(np.argmax(ranking.tie_split))
        raise UsageError(
            f"The {which} ranking cuts through tied documents, e.g. for query "
            f"{ranking.query_ids[row]!r}. Pass keep_ties=True, or ties='order'."
        )


def _in_order(pairs: RankPairs, k: int | None) -> Floats:
    return pairs.tops.in_order[pairs.tops.places(k)].astype(np.float64)


def _expected(pairs: RankPairs, k: int | None) -> Floats:
    """Return a document counts the product of its chances: all in one tie group have the same."""
    cut = pairs.tops.cut(k)
    share_a = cut.places_a / np.maximum(cut.size_a, 1)
    share_b = cut.places_b / np.maximum(cut.size_b, 1)
    alone = cut.only_a_open * share_a + cut.only_b_open * share_b
    return np.asarray(cut.sure + alone + cut.both_open * (share_a * share_b), np.float64)


def _best(pairs: RankPairs, k: int | None) -> Floats:
    """Fill places left open by ties with the other ranking's sure documents first."""
    cut = pairs.tops.cut(k)
    for_a = np.minimum(cut.only_a_open, cut.places_a)
    for_b = np.minimum(cut.only_b_open, cut.places_b)
    left = np.minimum(cut.places_a - for_a, cut.places_b - for_b)
    return np.asarray(cut.sure + for_a + for_b + np.minimum(cut.both_open, left), np.float64)


def _worst(pairs: RankPairs, k: int | None) -> Floats:
    """Open places go first to documents that the other ranking cannot hold."""
    cut = pairs.tops.cut(k)
    forced_a = np.maximum(0, cut.places_a - (cut.size_a - cut.only_a_open - cut.both_open))
    forced_b = np.maximum(0, cut.places_b - (cut.size_b - cut.only_b_open - cut.both_open))
    hidden_a = np.minimum(forced_a, cut.both_open)
    hidden_b = np.minimum(forced_b, cut.both_open)
    met = np.maximum(0, hidden_a + hidden_b - cut.both_open)
    seen = (forced_a - hidden_a) + (forced_b - hidden_b) + met
    return np.asarray(cut.sure + seen, np.float64)


# What each rule counts at a cut, for each query; without a cut at every depth of `_Tops`.
_COUNTS: Final[dict[str, Callable[[RankPairs, int | None], Floats]]] = {
    "order": _in_order,
    "expected": _expected,
    "best": _best,
    "worst": _worst,
}


class _Cut(NamedTuple):
    """What a cut at k leaves open, counted for each query.

    `sure` documents are among the first k of both however ties fall. A group of `size` tied
    documents that the cut runs through leaves them `places`; of these documents `only_a_open` are
    sure in b, `both_open` are in such a group of both.
    """

    sure: Ints
    only_a_open: Ints
    only_b_open: Ints
    both_open: Ints
    size_a: Ints
    size_b: Ints
    places_a: Ints
    places_b: Ints


class _Tops:
    """The counts of `_Cut` at every depth of every row, from where each document enters them.

    A document is open from the first rank of its tie group on, and sure from the last. So each
    count is a running sum over the depths of a row, all of which lie one after the other.
    """

    def __init__(self, pairs: RankPairs) -> None:
        # No rank is beyond the longer list: there nothing changes any more.
        self.last = np.maximum(pairs.a.length, pairs.b.length)
        self.starts = offsets_of(self.last + 1)
        both = pairs.both
        base, a, b = self.starts[pairs.row[both]], pairs.a.take(both), pairs.b.take(both)
        self.in_order = self._count(base + np.maximum(a.rank, b.rank))
        counts = [self._count(base + np.maximum(a.last, b.last))]
        for start, stop in (
            (np.maximum(a.first, b.last), a.last),
            (np.maximum(b.first, a.last), b.last),
            (np.maximum(a.first, b.first), np.minimum(a.last, b.last)),
        ):
            is_open = start < stop
            at = base[is_open]
            counts.append(self._count(at + start[is_open], at + stop[is_open]))
        groups = [self._groups(pairs, side) for side in (pairs.a, pairs.b)]
        self._counts = (*counts, *(size for size, _ in groups))
        self._firsts = tuple(first for _, first in groups)

    def _count(self, starts: Ints, stops: Ints | None = None) -> Ints:
        """Count at each depth the documents that start there or before, and do not stop."""
        size = int(self.starts[-1])
        steps = np.bincount(starts, minlength=size)
        if stops is not None:
            return np.asarray(np.cumsum(steps - np.bincount(stops, minlength=size)), np.int64)
        running = np.cumsum(steps)
        return np.asarray(running - np.repeat(running[self.starts[:-1]], self.last + 1), np.int64)

    def _groups(self, pairs: RankPairs, side: Places) -> tuple[Ints, Ints]:
        """Return the size and the first rank of the tie group that a cut at each depth splits."""
        steps = np.zeros((2, int(self.starts[-1])), np.int64)
        split = (side.rank > 0) & (side.first < side.last)
        base, first, last = self.starts[pairs.row[split]], side.first[split], side.last[split]
        # All documents of a group write the same; the end of a group is no group's beginning.
        steps[:, base + first] = last - first + 1, first
        steps[:, base + last] = first - last - 1, -first
        size, first = np.cumsum(steps, axis=1)
        return size, first

    @cached_property
    def depths(self) -> Ints:
        """The depth of every count."""
        return np.arange(self.starts[-1]) - np.repeat(self.starts[:-1], self.last + 1)

    def places(self, k: int | None) -> Ints | slice:
        """Return where the counts of every row at a depth are; without one, those of all."""
        return slice(None) if k is None else self.starts[:-1] + np.minimum(k, self.last)

    def cut(self, k: int | None) -> _Cut:
        """Return what a cut at k leaves open; without one, at every depth."""
        at, depth = self.places(k), self.depths if k is None else k
        firsts = [first[at] for first in self._firsts]
        places = (np.where(first > 0, depth - first + 1, 0) for first in firsts)
        return _Cut(*(counts[at] for counts in self._counts), *places)


def _rbo(pairs: RankPairs, p: float, ties: str) -> Floats:
    """One less the weighted disagreement: weights add up to 1, and equal rankings give just 1."""
    tops = pairs.tops
    every = 1 - _COUNTS[ties](pairs, None) / np.maximum(tops.depths, 1)
    depth = np.minimum(pairs.a.length, pairs.b.length)
    total, last = np.zeros(pairs.n_rows), np.zeros(pairs.n_rows)
    for d in range(1, int(depth.max(initial=0)) + 1):
        apart = every[tops.places(d)]
        inside = d <= depth
        total += np.where(inside, (1 - p) * p ** (d - 1) * apart, 0.0)
        last = np.where(inside, p**d * apart, last)
    return np.where(depth > 0, 1 - total - last, np.nan)


def _kendall(pairs: RankPairs) -> Floats:
    """Return all counts are exact; only the last division rounds."""
    size = pairs.lengths
    n_pairs = size * (size - 1) // 2
    tied_a = pairs.sums(pairs.a.last - pairs.a.first) // 2
    tied_b = pairs.sums(pairs.b.last - pairs.b.first) // 2
    tied_both, discordant = kernels().count_pairs(pairs.offsets, pairs.a.first, pairs.b.first)
    top = n_pairs - tied_a - tied_b + tied_both - 2 * discordant
    return _correlation(top, n_pairs - tied_a, n_pairs - tied_b)


def _spearman(pairs: RankPairs) -> Floats:
    """Twice the ranks, less their mean, are whole numbers, so the sums are exact."""
    middle = (pairs.lengths + 1)[pairs.row]
    x = pairs.a.first + pairs.a.last - middle
    y = pairs.b.first + pairs.b.last - middle
    return _correlation(pairs.sums(x * y), pairs.sums(x * x), pairs.sums(y * y))


def _correlation(top: Ints, left: Ints, right: Ints) -> Floats:
    bottom = np.where(left == right, left, np.sqrt(left) * np.sqrt(right))
    correlation = np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)
    return np.asarray(np.clip(correlation, -1.0, 1.0), np.float64)


BLOCK = 1 << 17  # documents of both rankings to join at once: arrays that stay in the cache


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
        """Return some of the documents."""
        return Places(self.rank[which], self.first[which], self.last[which], self.length)


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
        """Number of documents per row."""
        return np.diff(self.offsets)

    @cached_property
    def row(self) -> Ints:
        """The row of every document."""
        return rows_of(self.offsets)

    @cached_property
    def both(self) -> Flags:
        """Which documents both rankings hold."""
        return (self.a.rank > 0) & (self.b.rank > 0)

    @cached_property
    def tops(self) -> _Tops:
        """Documents that both rankings share among their first, at every depth."""
        return _Tops(self)

    def sums(self, values: NDArray[Any]) -> Ints:
        """Return exact sums of whole numbers over each row."""
        running = np.add.reduceat(np.append(values, 0), self.offsets[:-1], dtype=np.int64)
        return running * (self.lengths > 0)


def pair_up(a: Ranking, b: Ranking, top: int | None = None) -> Iterator[RankPairs]:
    """Two rankings of the same queries side by side, some queries at a time.

    With `top` they hold no document beyond that rank, or the end of the shorter row, and its ties.
    """
    rows_of_b = a.query_ids.match(b.query_ids)
    if (rows_of_b < 0).any() or len(a) != len(b):
        absent = [a.query_ids[i] for i in np.flatnonzero(rows_of_b < 0).tolist()]
        lacks = f"; the second lacks {checks.name_few(absent)}" if absent else ""
        raise MismatchError(
            f"The rankings have {len(a)} and {len(b)} queries{lacks}. Rank the same queries "
            "in both."
        )
    doc_of_b, n_docs = np.arange(len(b.doc_ids)), len(a.doc_ids)
    if a.doc_ids != b.doc_ids:  # documents that a does not know come after its own
        matches = b.doc_ids.match(a.doc_ids)
        doc_of_b = np.where(matches >= 0, matches, n_docs + doc_of_b)
        n_docs += len(b.doc_ids)
    size = a.lengths + b.lengths[rows_of_b]
    block = np.cumsum(size) // BLOCK
    edges = np.concatenate([[0], np.flatnonzero(np.diff(block)) + 1, [len(a)]])
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        rows = np.arange(start, stop), rows_of_b[start:stop]
        limit = (
            None if top is None else np.minimum(a.lengths[rows[0]], b.lengths[rows[1]]).clip(top)
        )
        left = _part(a, rows[0], limit)
        right = _part(b, rows[1], limit, doc_of_b)
        yield _join(left, right, stop - start, n_docs)


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows of one ranking."""

    row: Ints
    doc: Ints
    rank: Ints
    first: Ints
    last: Ints
    length: Ints


def _part(ranking: Ranking, rows: Ints, limit: Ints | None, numbers: Ints | None = None) -> _Part:
    at, offsets = gather(ranking.offsets, rows)
    scores, docs = ranking.scores[at], ranking.docs[at]
    row, lengths = rows_of(offsets), np.diff(offsets)
    if limit is not None and (lengths > limit).any():
        last = np.maximum(offsets[:-1] + np.minimum(limit, lengths) - 1, 0)
        inside = scores >= np.repeat(scores[last], lengths)
        scores, docs, row = scores[inside], docs[inside], row[inside]
        lengths = np.bincount(row, minlength=len(rows))
        offsets = offsets_of(lengths)
    rank = np.arange(1, len(docs) + 1) - np.repeat(offsets[:-1], lengths)
    leads = np.ones(len(docs) + 1, bool)  # the first document of each tie group, and the end
    np.not_equal(scores[1:], scores[:-1], out=leads[1:-1])
    leads[offsets] = True
    edges = np.flatnonzero(leads)
    sizes = np.diff(edges)
    first = np.repeat(rank[edges[:-1]], sizes)
    last = first + np.repeat(sizes, sizes) - 1
    doc = docs.astype(np.int64) if numbers is None else numbers[docs]
    return _Part(row, doc, rank, first, last, lengths)


def _join(left: _Part, right: _Part, n_rows: int, n_docs: int) -> RankPairs:
    """Return a place for each document of each row: those of the left, then those it lacks."""
    match = _match(left, right, n_rows, n_docs)
    lacks = match < 0
    size = left.length + np.bincount(right.row[lacks], minlength=n_rows)
    offsets = offsets_of(size)
    if not lacks.any():  # as in whole orders
        held = Places(left.rank, left.first, left.last, left.length)
        return RankPairs(offsets, held, _place_documents(right, match, size))
    shift = np.repeat(offsets[:-1] - offsets_of(left.length)[:-1], left.length)
    at_left = np.arange(len(left.row)) + shift
    at_right = at_left[match] if len(at_left) else np.empty(len(match), np.int64)
    free = np.ones(offsets[-1], bool)
    free[at_left] = False
    at_right[lacks] = np.flatnonzero(free)
    places = (_place_documents(part, at, size) for part, at in ((left, at_left), (right, at_right)))
    return RankPairs(offsets, *places)


def _match(left: _Part, right: _Part, n_rows: int, n_docs: int) -> Ints:
    """Return where the left has each document of the right, or −1."""
    keys, others = (part.row * n_docs + part.doc for part in (left, right))
    size = n_rows * n_docs
    if size > 16 * (len(keys) + len(others)):  # few documents are there: number them
        distinct, numbers = np.unique(np.concatenate([keys, others]), return_inverse=True)
        keys, others, size = numbers[: len(keys)], numbers[len(keys) :], len(distinct)
    place = np.zeros(size, np.int32)
    place[keys] = np.arange(1, len(keys) + 1)
    match: Ints = place[others].astype(np.int64) - 1
    return match


def _place_documents(part: _Part, at: Ints, size: Ints) -> Places:
    rank = np.zeros(size.sum(), np.int64)
    first, last = np.repeat(part.length + 1, size), np.repeat(size, size)
    rank[at], first[at], last[at] = part.rank, part.first, part.last
    return Places(rank, first, last, part.length)
