"""How each expectation over tied documents comes about, rank by rank, for the hits of one query.

In a random order of its n documents, a tie group has each of its m counted ones at any place with
the same chance. The functions below work the mean over all orders out from that, the way one would
by hand, and apart from `assay.measures.expected`, whose result `explain` compares with theirs. A
measure names its own by `@measure(..., tied_derivation=...)`; for any other, all orders are gone
through, or a sample of them where they are too many.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from assay.measures.derivations import Derivation, Number, division, ideal_gains, show, up_to
from assay.measures.views import discount

if TYPE_CHECKING:
    from assay.measures.views import TieView


_MOST_WORK = 200_000  # terms in whole numbers; beyond, orders are sampled


@dataclass(frozen=True)
class Group:
    """A tie group: ranks above it, its size, its gains, and what counts above it."""

    above: int
    size: int
    gains: tuple[float, ...]
    good_above: int
    bad: int
    bad_above: int

    @property
    def good(self) -> int:
        """How many of it count for the measure."""
        return len(self.gains)

    def inside(self, k: float | None) -> int:
        """Return how many of its places are at ranks up to k."""
        return self.size if k is None else int(min(max(k - self.above, 0), self.size))


def groups_of(at: TieView) -> list[Group]:
    """Return the tie groups of one query that hold a document that counts."""
    columns = (at.above, at.size, at.good_above, at.bad, at.bad_above)
    return [
        Group(above, size, tuple(g for g in members.tolist() if g > 0), a, bad, bad_above)
        for above, size, a, bad, bad_above, members in zip(
            *(column.tolist() for column in columns), at.members, strict=True
        )
        if (members > 0).any()
    ]


def _add_up(
    terms: Iterable[tuple[int, tuple[Number, ...], float]],
) -> tuple[float, tuple[int, ...], tuple[tuple[Number, ...], ...]]:
    """The sum of the terms, and for each its rank and its row, with the sum so far at the end."""
    ranks, rows, values = [], [], []
    so_far = 0.0
    for rank, row, term in terms:
        so_far += term
        ranks.append(rank)
        rows.append((*row, so_far))
        values.append(term)
    return math.fsum(values), tuple(ranks), tuple(rows)


def _places(at: TieView, k: float | None) -> Iterator[tuple[Group, int, int]]:
    """Group, place in it, and rank, of every place up to rank k."""
    for group in groups_of(at):
        for j in range(1, group.inside(k) + 1):
            yield group, j, group.above + j


def count_over(
    at: TieView, k: int | None, name: str, bottom: Number, what: str = "relevant"
) -> Derivation:
    """An expected count over something: each place holds a counted document with chance m/n."""
    chances = ((rank, (g.good / g.size,), g.good / g.size) for g, _, rank in _places(at, k))
    n_hits, ranks, rows = _add_up(chances)
    value, line = division(name, n_hits, bottom)
    working = (f"expected {what} documents{up_to(k)}: {show(n_hits)}", line)
    return Derivation(value, working, ("chance", "sum"), rows, ranks)


def precision(at: TieView, k: int, trunc: bool) -> Derivation:
    cut = min(k, int(at.n_good[0])) if trunc else k
    return count_over(at, cut, f"P@{cut}", cut)


def recall(at: TieView, k: int, cap: bool) -> Derivation:
    good = int(at.n_good[0])
    return count_over(at, k, f"R@{k}", min(k, good) if cap else good)


def r_precision(at: TieView, mult: float) -> Derivation:
    cut = int(np.floor(mult * at.n_good + 0.9)[0])
    return count_over(at, cut, f"P@{cut}", cut)


def number_relevant_retrieved(at: TieView, k: int | None) -> Derivation:
    return count_over(at, k, "num_rel_ret", 1)


def judged(at: TieView, k: int | None) -> Derivation:
    n_ret = int(at.n_ret[0])
    return count_over(at, k, "Judged", n_ret if k is None else min(n_ret, k), "judged")


def unjudged(at: TieView, k: int) -> Derivation:
    derivation = count_over(at, k, "judged", 1, "judged")
    length = min(int(at.n_ret[0]), k)
    value, line = division(f"Unjudged@{k}", length - derivation.value, k)
    return Derivation(
        value, (derivation.working[0], line), derivation.columns, derivation.rows, derivation.ranks
    )


def _first(at: TieView, k: int | None) -> Iterator[tuple[int, float]]:
    """Ranks, and the chance that the first counted document is there."""
    none = 1.0
    for group, j, rank in _places(at, k):
        if group.good_above:
            return
        left = group.size - j + 1
        yield rank, none * min(group.good / left, 1.0)
        none *= max(left - group.good, 0) / left


def success(at: TieView, k: int) -> Derivation:
    total, ranks, rows = _add_up((rank, (chance,), chance) for rank, chance in _first(at, k))
    line = f"chance that a relevant document is at ranks ≤ {k}: Success@{k} = {show(total)}"
    return Derivation(total, (line,), ("first here", "sum"), rows, ranks)


def reciprocal_rank(at: TieView, k: int | None) -> Derivation:
    terms = ((rank, (p, p / rank), p / rank) for rank, p in _first(at, k))
    total, ranks, rows = _add_up(terms)
    line = (
        f"sum of the chances that the first relevant document is here, over the rank: {show(total)}"
    )
    return Derivation(total, (line,), ("first here", "chance/rank", "sum"), rows, ranks)


def _precisions(at: TieView, k: int | None) -> Iterator[tuple[int, tuple[Number, ...], float]]:
    """Yield each place: chance m/n to count; then a + 1 + (j−1)(m−1)/(n−1) are found on average."""
    for g, j, rank in _places(at, k):
        chance = g.good / g.size
        n_hits = g.good_above + 1 + (j - 1) * (g.good - 1) / max(g.size - 1, 1)
        yield rank, (chance, n_hits, chance * n_hits / rank), chance * n_hits / rank


def _average_precisions(
    at: TieView, k: int | None, bottom: Number, name: str, words: str
) -> Derivation:
    total, ranks, rows = _add_up(_precisions(at, k))
    value, line = division(name, total, bottom)
    working = (f"expected sum of precisions: {show(total)}; divided by {words} = {bottom}", line)
    return Derivation(value, working, ("chance", "found if so", "product/rank", "sum"), rows, ranks)


def average_precision(at: TieView, k: int | None, over: str) -> Derivation | None:
    good = int(at.n_good[0])
    if over == "hits" and k is not None:
        return _average_precision_over_hits(at, k)
    if over == "hits":
        n_hits = sum(group.good for group in groups_of(at))
        return _average_precisions(at, None, n_hits, "AP", "the hits")
    if k is None or over == "R":
        return _average_precisions(at, k, good, "AP", "R")
    bottom, words = (min(k, good), "min(k, R)") if over == "min" else (k, "k")
    return _average_precisions(at, k, bottom, "AP", words)


def _average_precision_over_hits(at: TieView, k: int) -> Derivation | None:
    """By how many counted documents of the group that the cut-off divides are inside of it."""
    groups = groups_of(at)
    whole = [group for group in groups if group.inside(k) == group.size]
    divided = [group for group in groups if 0 < group.inside(k) < group.size]
    upper = math.fsum(t for r, _, t in _precisions(at, k) if r <= _end(whole))
    n_hits = sum(group.good for group in whole)
    if not divided:
        value, line = division("AP", upper, n_hits)
        return Derivation(value, (f"hits: {n_hits}, sum of precisions: {show(upper)}", line))
    (cut_group,) = divided
    t = cut_group.inside(k)
    if t * min(cut_group.good, t) > _MOST_WORK:
        return None
    lines, terms = [], []
    for x in range(max(0, cut_group.good + t - cut_group.size), min(cut_group.good, t) + 1):
        chance = Fraction(
            math.comb(cut_group.good, x) * math.comb(cut_group.size - cut_group.good, t - x),
            math.comb(cut_group.size, t),
        )
        each = (
            x
            / t
            * (cut_group.good_above + 1 + (j - 1) * (x - 1) / max(t - 1, 1))
            / (cut_group.above + j)
            for j in range(1, t + 1)
        )
        value, _ = division("AP", upper + math.fsum(each), n_hits + x)
        lines.append(f"{n_hits + x} hits with chance {show(float(chance))}: AP = {show(value)}")
        terms.append(float(chance) * value)
    total = math.fsum(terms)
    return Derivation(total, (*lines, f"AP = {show(total)}"))


def _end(groups: list[Group]) -> int:
    """Return the last rank of these groups."""
    return max((group.above + group.size for group in groups), default=0)


def average_precision_at_r(at: TieView) -> Derivation:
    good = int(at.n_good[0])
    return _average_precisions(at, good, good, "MAP@R", "R")


def geometric_map(at: TieView) -> Derivation:
    return _average_precisions(at, None, int(at.n_good[0]), "AP", "R")


def _weigh(
    at: TieView, k: int | None, weight: Callable[[float], float]
) -> tuple[float, tuple[int, ...], tuple[tuple[Number, ...], ...]]:
    """Return each place: the group's mean gain times the weight of the rank."""
    means = ((math.fsum(g.gains) / g.size, rank) for g, _, rank in _places(at, k))
    return _add_up((r, (mean, weight(r), mean * weight(r)), mean * weight(r)) for mean, r in means)


def ndcg(at: TieView, k: int | None, ideal: str) -> Derivation:
    total, ranks, rows = _weigh(at, k, lambda rank: 1.0 / math.log2(1.0 + rank))
    gains = ideal_gains(at, k, ideal)
    weights = discount(np.arange(1.0, len(gains) + 1)).tolist()
    best = math.fsum(g * w for g, w in zip(gains, weights, strict=True))
    value, line = division("nDCG", total, best)
    working = (f"expected DCG = {show(total)}; ideal DCG = {show(best)}", line)
    columns = ("mean gain", "discount", "product", "DCG")
    return Derivation(min(value, 1.0), working, columns, rows, ranks)


def rank_biased_precision(at: TieView, k: int | None, p: float) -> Derivation:
    total, ranks, rows = _weigh(at, k, lambda rank: p ** (rank - 1.0))
    top = max([1.0, *at.pool.gain.tolist()])
    value = (1.0 - p) * total / top
    over = f" / {show(top)} (the highest grade)" if top > 1 else ""
    line = f"RBP = (1 − {show(p)}) · {show(total)}{over} = {show(value)}"
    columns = ("mean gain", f"{show(p)}^(rank−1)", "product", "sum")
    return Derivation(value, (line,), columns, rows, ranks)


def expected_reciprocal_rank(at: TieView, k: int | None) -> Derivation | None:
    groups = groups_of(at)
    if sum(group.inside(k) * group.good for group in groups) > _MOST_WORK:
        return None
    total, ranks, rows = _add_up(_stops(groups, k))
    line = f"sum of the chances that the reader stops here, over the rank: ERR = {show(total)}"
    return Derivation(total, (line,), ("stops here", "chance/rank", "sum"), rows, ranks)


def _stops(groups: list[Group], k: int | None) -> Iterator[tuple[int, tuple[Number, ...], float]]:
    """The i-th counted document is at place j in some of all choices of m places; stop there."""
    alive = 1.0
    for group in groups:
        n, m = group.size, group.good
        passing = _mean_products(group.gains)
        stops = [float(before - after) for before, after in itertools.pairwise(passing)]
        for j in range(1, group.inside(k) + 1):
            ways = (math.comb(j - 1, h) * math.comb(n - j, m - 1 - h) for h in range(m))
            chances = (way / math.comb(n, m) for way in ways)
            here = alive * math.fsum(p * stop for p, stop in zip(chances, stops, strict=True))
            rank = group.above + j
            yield rank, (here, here / rank), here / rank
        alive *= float(passing[-1])


def _mean_products(gains: tuple[float, ...]) -> list[Fraction]:
    """Return the mean chance to pass all of 0, 1, 2, … documents that are drawn from the group."""
    sums = [Fraction(1)]
    for gain in gains:
        longer = [Fraction(0), *((1 - Fraction(gain)) * product for product in sums)]
        sums = [a + b for a, b in zip([*sums, Fraction(0)], longer, strict=True)]
    return [total / math.comb(len(gains), h) for h, total in enumerate(sums)]


def binary_preference(at: TieView) -> Derivation:
    good, bad = int(at.n_good[0]), int(at.n_bad[0])
    most, lines, terms = min(good, bad), [], []
    for g in groups_of(at):
        shares = (
            1.0 - min(g.bad_above + x, good) / most if most else 1.0 for x in range(g.bad + 1)
        )
        mean = math.fsum(shares) / (g.bad + 1)
        terms.append(g.good * mean)
        upto = f" to {g.bad_above + g.bad}" if g.bad else ""
        lines.append(
            f"ranks {g.above + 1}–{g.above + g.size}: {g.good} relevant, each below {g.bad_above}"
            f"{upto} judged not relevant: {show(mean)} on average"
        )
    value, line = division("bpref", math.fsum(terms), good)
    counts = f"R = {good}, judged not relevant: {bad}, smaller of the two: {most}"
    return Derivation(value, (counts, *lines, line))
