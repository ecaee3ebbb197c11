"""How each measure comes about, document by document, for the hits of one query.

These are second derivations, written the way one would work them out by hand; `explain` compares
their result with that of the registered function, bit by bit. A measure names its own by
`@measure(..., derivation=...)`; `derive` serves measures without one.

A `RankView` has each document at one rank. Of a `TieView` the mean over all orders is worked out,
rank by rank: in a random order of its n documents, a tie group has each of its m counted ones at
any place with the same chance. A measure names this by `@measure(..., tied_derivation=...)`; for
any other, all orders are gone through, or a sample of them where they are too many.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.arrays import power
from assay.measures.views import RankView, TieView, discount, documents_needed

if TYPE_CHECKING:
    from assay.measures.registry import Measure


Number = int | float
View = RankView | TieView
Rows = tuple[tuple[Number, ...], ...]

_MOST_WORK = 200_000  # terms in whole numbers; beyond, orders are sampled


@dataclass(frozen=True)
class Derivation:
    """Columns with a value for each counted document, the lines that follow, and the result.

    `ranks` are those of the rows, where they are not those of the counted documents; `error` is by
    how much the value may differ from the exact one.
    """

    value: float
    working: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: Rows = field(default=())
    ranks: tuple[int, ...] = ()
    error: float = 0.0


def show(number: Number) -> str:
    """Return a number as it stands in a line of working."""
    return str(number) if isinstance(number, int) else f"{number:.6g}"


def division(name: str, top: Number, bottom: Number) -> tuple[float, str]:
    """Return a quotient, 0 where there is nothing to divide by, and the line that shows it."""
    value = top / bottom if bottom else 0.0
    return value, f"{name} = {show(top)} / {show(bottom)} = {show(value)}"


def _one(values: Any) -> int:
    return int(values[0])


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
) -> tuple[float, tuple[int, ...], Rows]:
    """Return the sum of the terms, and their ranks and rows with the sum so far at the end."""
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


def _inside(at: RankView, k: int | None) -> list[int]:
    """Return ranks of the counted documents down to k."""
    return [rank for rank in at.rank.tolist() if k is None or rank <= k]


def up_to(k: int | None) -> str:
    """Return the cutoff in words; empty without one."""
    return "" if k is None else f" at ranks ≤ {k}"


def _count_over(
    at: View, k: int | None, name: str, bottom: Number, what: str = "relevant"
) -> Derivation:
    """Return a count over something; a place in a tie group counts with the chance m/n."""
    if isinstance(at, TieView):
        chances = ((rank, (g.good / g.size,), g.good / g.size) for g, _, rank in _places(at, k))
        expected, ranks, rows = _add_up(chances)
        value, line = division(name, expected, bottom)
        working = (f"expected {what} documents{up_to(k)}: {show(expected)}", line)
        return Derivation(value, working, ("chance", "sum"), rows, ranks)
    n_hits = len(_inside(at, k))
    value, line = division(name, n_hits, bottom)
    working = (f"{what} documents{up_to(k)}: {n_hits}", line)
    return Derivation(value, working, ("found",), tuple((i,) for i in range(1, n_hits + 1)))


def precision(at: View, k: int, trunc: bool) -> Derivation:
    cut = min(k, _one(at.n_good)) if trunc else k
    return _count_over(at, cut, f"P@{cut}", cut)


def recall(at: View, k: int, cap: bool) -> Derivation:
    bottom = min(k, _one(at.n_good)) if cap else _one(at.n_good)
    return _count_over(at, k, f"R@{k}", bottom)


def r_precision(at: View, mult: float) -> Derivation:
    cut = int(np.floor(mult * at.n_good + 0.9)[0])
    return _count_over(at, cut, f"P@{cut}", cut)


def _first(at: TieView, k: int | None) -> Iterator[tuple[int, float]]:
    """Return ranks, and the chance that the first counted document is there."""
    none = 1.0
    for group, j, rank in _places(at, k):
        if group.good_above:
            return
        left = group.size - j + 1
        yield rank, none * min(group.good / left, 1.0)
        none *= max(left - group.good, 0) / left


def success(at: View, k: int) -> Derivation:
    if isinstance(at, TieView):
        total, ranks, rows = _add_up((rank, (chance,), chance) for rank, chance in _first(at, k))
        line = f"chance that a relevant document is at ranks ≤ {k}: Success@{k} = {show(total)}"
        return Derivation(total, (line,), ("first here", "sum"), rows, ranks)
    n_hits = len(_inside(at, k))
    value = 1.0 if n_hits else 0.0
    working = (f"relevant documents at ranks ≤ {k}: {n_hits}", f"Success@{k} = {show(value)}")
    return Derivation(value, working, ("found",), tuple((i,) for i in range(1, n_hits + 1)))


def reciprocal_rank(at: View, k: int | None) -> Derivation:
    if isinstance(at, TieView):
        total, places, rows = _add_up((r, (p, p / r), p / r) for r, p in _first(at, k))
        what = "sum of the chances that the first relevant document is here, over the rank"
        columns = ("first here", "chance/rank", "sum")
        return Derivation(total, (f"{what}: {show(total)}",), columns, rows, places)
    ranks = _inside(at, k)[:1]
    if not ranks:
        return Derivation(0.0, (f"no relevant document{up_to(k)}: RR = 0",))
    value, line = division("RR", 1, ranks[0])
    working = (f"first relevant document at rank {ranks[0]}", line)
    return Derivation(value, working, ("1/rank",), ((value,),))


def _precision_sum(at: RankView, k: int | None) -> tuple[float, Rows]:
    total, rows = 0.0, []
    for nth, rank in enumerate(_inside(at, k), 1):
        total += nth / rank
        rows.append((nth, nth / rank, total))
    return total, tuple(rows)


def _precisions(at: TieView, k: int | None) -> Iterator[tuple[int, tuple[Number, ...], float]]:
    """Yield each place: chance m/n to count; then a + 1 + (j−1)(m−1)/(n−1) are found on average."""
    for g, j, rank in _places(at, k):
        chance = g.good / g.size
        n_hits = g.good_above + 1 + (j - 1) * (g.good - 1) / max(g.size - 1, 1)
        yield rank, (chance, n_hits, chance * n_hits / rank), chance * n_hits / rank


def _average_precisions(
    at: View, k: int | None, bottom: Number, name: str, words: str
) -> Derivation:
    ranks: tuple[int, ...] = ()
    columns: tuple[str, ...]
    if isinstance(at, TieView):
        total, ranks, rows = _add_up(_precisions(at, k))
        what, columns = "expected sum", ("chance", "found if so", "product/rank", "sum")
    else:
        total, rows = _precision_sum(at, k)
        what, columns = "sum", ("found", "precision", "sum")
    value, line = division(name, total, bottom)
    working = (f"{what} of precisions: {show(total)}; divided by {words} = {bottom}", line)
    return Derivation(value, working, columns, rows, ranks)


def average_precision(at: View, k: int | None, over: str) -> Derivation | None:
    good = _one(at.n_good)
    if over == "hits" and isinstance(at, TieView):
        if k is not None:
            return _average_precision_over_hits(at, k)
        bottom, words = sum(group.good for group in groups_of(at)), "the hits"
    elif over == "hits" and isinstance(at, RankView):
        bottom, words = len(_inside(at, k)), "the hits"
    elif k is None or over == "R":
        bottom, words = good, "R"
    else:
        bottom, words = (min(k, good), "min(k, R)") if over == "min" else (k, "k")
    return _average_precisions(at, k, bottom, "AP", words)


def _average_precision_over_hits(at: TieView, k: int) -> Derivation | None:
    """Derive by the number of counted documents above the cutoff in the group it divides."""
    groups = groups_of(at)
    whole = [group for group in groups if group.inside(k) == group.size]
    divided = [group for group in groups if 0 < group.inside(k) < group.size]
    end = max((group.above + group.size for group in whole), default=0)
    upper = math.fsum(t for r, _, t in _precisions(at, k) if r <= end)
    n_hits = sum(group.good for group in whole)
    if not divided:
        value, line = division("AP", upper, n_hits)
        return Derivation(value, (f"hits: {n_hits}, sum of precisions: {show(upper)}", line))
    (cut,) = divided
    t = cut.inside(k)
    if t * min(cut.good, t) > _MOST_WORK:
        return None
    lines, terms = [], []
    for x in range(max(0, cut.good + t - cut.size), min(cut.good, t) + 1):
        chance = Fraction(
            math.comb(cut.good, x) * math.comb(cut.size - cut.good, t - x), math.comb(cut.size, t)
        )
        each = (
            x / t * (cut.good_above + 1 + (j - 1) * (x - 1) / max(t - 1, 1)) / (cut.above + j)
            for j in range(1, t + 1)
        )
        value, _ = division("AP", upper + math.fsum(each), n_hits + x)
        lines.append(f"{n_hits + x} hits with chance {show(float(chance))}: AP = {show(value)}")
        terms.append(float(chance) * value)
    total = math.fsum(terms)
    return Derivation(total, (*lines, f"AP = {show(total)}"))


def average_precision_at_r(at: View) -> Derivation:
    good = _one(at.n_good)
    return _average_precisions(at, good, good, "MAP@R", "R")


def geometric_map(at: View) -> Derivation:
    derivation = _average_precisions(at, None, _one(at.n_good), "AP", "R")
    if isinstance(at, TieView):
        return derivation
    note = "over queries the geometric mean of max(AP, 0.00001) is taken"
    return replace(derivation, working=(*derivation.working, note))


def _weigh(
    at: View, k: int | None, weights: Callable[[Any], Any]
) -> tuple[float, tuple[int, ...], Rows]:
    """Return the sum of gain times weight; in a tie group, of its mean gain."""
    if isinstance(at, TieView):
        means = ((math.fsum(g.gains) / g.size, rank) for g, _, rank in _places(at, k))
        return _add_up((r, (g, weights(r), g * weights(r)), g * weights(r)) for g, r in means)
    n = len(_inside(at, k))
    weight = weights(at.rank[:n].astype(np.float64)).tolist()
    total, rows = 0.0, []
    for gain, each in zip(at.gain[:n].tolist(), weight, strict=True):
        total += gain * each
        rows.append((gain, each, gain * each, total))
    return total, (), tuple(rows)


def dcg(at: View, k: int | None) -> Derivation:
    tied = isinstance(at, TieView)
    # As the measure computes it: one number for tie groups, an array for ranks.
    weights = (lambda rank: 1.0 / math.log2(1.0 + rank)) if tied else discount
    total, ranks, rows = _weigh(at, k, weights)
    front = ("mean gain", "discount", "product") if tied else ("gain", "discount", "gain·discount")
    name = "expected DCG" if tied else "DCG"
    return Derivation(total, (f"{name} = {show(total)}",), (*front, "DCG"), rows, ranks)


def ndcg(at: View, k: int | None, ideal: str) -> Derivation:
    gains = ideal_gains(at, k, ideal)
    discounts = discount(np.arange(1.0, len(gains) + 1)).tolist()
    products = [gain * each for gain, each in zip(gains, discounts, strict=True)]
    top = dcg(at, k)
    if isinstance(at, TieView):
        best = math.fsum(products)
        value, line = division("nDCG", top.value, best)
        return replace(
            top,
            value=min(value, 1.0),
            working=(f"{top.working[0]}; ideal DCG = {show(best)}", line),
        )
    best = 0.0
    for product in products:  # in this order, as the measure adds them up
        best += product
    terms = " + ".join(
        f"{show(g)}·{each:.4f}" for g, each in zip(gains[:4], discounts, strict=False)
    )
    more = f" + … ({len(gains)} terms)" if len(gains) > 4 else ""
    value, last = division("nDCG", top.value, best)
    rounded = ("above 1 by rounding alone, so it is 1",) if value > 1.0 else ()
    ideal_line = f"ideal DCG = {terms}{more} = {show(best)}"
    working = (*top.working, ideal_line, last, *rounded)
    return replace(top, value=min(value, 1.0), working=working)


def ideal_gains(at: View, k: int | None, ideal: str) -> list[float]:
    """Return the gains of the ideal order, the best first."""
    pool = at.pool if ideal == "judged" else at.retrieved_pool
    gains = sorted(np.repeat(pool.gain, pool.count).tolist(), reverse=True)
    return [gain for gain in gains if gain > 0][:k]


def rank_biased_precision(at: View, k: int | None, p: float) -> Derivation:
    tied = isinstance(at, TieView)
    total, ranks, rows = _weigh(at, k, lambda rank: power(p, rank - 1.0))
    top = max([1.0, *at.pool.gain.tolist()])
    value = (1.0 - p) * total / top
    over = f" / {show(top)} (the highest grade)" if top > 1 else ""
    line = f"RBP = (1 − {show(p)}) · {show(total)}{over} = {show(value)}"
    columns = ("mean gain" if tied else "gain", f"{show(p)}^(rank−1)", "product", "sum")
    return Derivation(value, (line,), columns, rows, ranks)


def expected_reciprocal_rank(at: View, k: int | None) -> Derivation | None:
    if isinstance(at, TieView):
        groups = groups_of(at)
        if sum(group.inside(k) * group.good for group in groups) > _MOST_WORK:
            return None
        total, ranks, sums = _add_up(_stops(groups, k))
        line = f"sum of the chances that the reader stops here, over the rank: ERR = {show(total)}"
        return Derivation(total, (line,), ("stops here", "chance/rank", "sum"), sums, ranks)
    total, alive, rows = 0.0, 1.0, []
    for rank, stop in zip(_inside(at, k), at.gain.tolist(), strict=False):
        term = alive * stop / rank
        total += term
        rows.append((stop, alive, term, total))
        alive *= 1.0 - stop
    line = f"ERR = {show(total)}; the reader is still looking with probability {show(alive)}"
    return Derivation(
        total, (line,), ("stops here", "got here", "product/rank", "sum"), tuple(rows)
    )


def _stops(groups: list[Group], k: int | None) -> Iterator[tuple[int, tuple[Number, ...], float]]:
    """Yield the chance to stop at each place: there the i-th counted document may be."""
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


def binary_preference(at: View) -> Derivation:
    good, bad = _one(at.n_good), _one(at.n_bad)
    most = min(good, bad)
    counts = f"R = {good}, judged not relevant: {bad}, smaller of the two: {most}"
    if isinstance(at, TieView):
        lines, terms = [], []
        for g in groups_of(at):
            shares = (
                1.0 - min(g.bad_above + x, good) / most if most else 1.0 for x in range(g.bad + 1)
            )
            mean = math.fsum(shares) / (g.bad + 1)
            terms.append(g.good * mean)
            upto = f" to {g.bad_above + g.bad}" if g.bad else ""
            lines.append(
                f"ranks {g.above + 1}–{g.above + g.size}: {g.good} relevant, each below "
                f"{g.bad_above}{upto} judged not relevant: {show(mean)} on average"
            )
        value, line = division("bpref", math.fsum(terms), good)
        return Derivation(value, (counts, *lines, line))
    total, rows = 0.0, []
    for above in at.bad_above.tolist():
        term = 1.0 - min(above, good) / max(most, 1)
        total += term
        rows.append((above, term, total))
    value, line = division("bpref", total, good)
    return Derivation(value, (counts, line), ("bad above", "1 − share", "sum"), tuple(rows))


def _judged_count(at: RankView, k: int | None) -> tuple[int, int]:
    length = _one(at.n_ret) if k is None else min(_one(at.n_ret), k)
    return (length if at.hits.exhaustive else len(_inside(at, k))), length


def judged(at: View, k: int | None) -> Derivation:
    if isinstance(at, TieView):
        n_ret = _one(at.n_ret)
        return _count_over(at, k, "Judged", n_ret if k is None else min(n_ret, k), "judged")
    n_judged, length = _judged_count(at, k)
    value, line = division("Judged", n_judged, length)
    return Derivation(value, (f"judged documents{up_to(k)}: {n_judged} of {length}", line))


def unjudged(at: View, k: int) -> Derivation:
    name = f"Unjudged@{k}"
    if isinstance(at, TieView):
        expected = _count_over(at, k, "judged", 1, "judged")
        value, line = division(name, min(_one(at.n_ret), k) - expected.value, k)
        return replace(expected, value=value, working=(expected.working[0], line))
    n_judged, length = _judged_count(at, k)
    value, line = division(name, length - n_judged, k)
    return Derivation(value, (f"judged documents at ranks ≤ {k}: {n_judged} of {length}", line))


def _levels(at: RankView, levels: tuple[float, ...], iprec: str) -> tuple[list[float], list[str]]:
    precisions = [nth / rank for nth, rank in enumerate(at.rank.tolist(), 1)]
    needed = documents_needed(at.n_good, levels, iprec)[:, 0].tolist()
    values = [max(precisions[max(least, 1) - 1 :], default=0.0) for least in needed]
    lines = [
        f"recall {level:g} needs {least} of {_one(at.n_good)}: best precision from there on "
        f"= {show(value)}"
        for level, least, value in zip(levels, needed, values, strict=True)
    ]
    return values, lines


def interpolated_precision(at: RankView, k: float, iprec: str) -> Derivation:
    values, lines = _levels(at, (k,), iprec)
    _, rows = _precision_sum(at, None)
    return Derivation(
        values[0], tuple(lines), ("found", "precision"), tuple(row[:2] for row in rows)
    )


def eleven_point_average(at: RankView, levels: tuple[float, ...], iprec: str) -> Derivation:
    values, lines = _levels(at, levels, iprec)
    total = 0.0
    for value in values:
        total += value
    value, line = division("iAP", total, len(values))
    _, rows = _precision_sum(at, None)
    return Derivation(value, (*lines, line), ("found", "precision"), tuple(row[:2] for row in rows))


def set_precision(at: RankView) -> Derivation:
    return _count_over(at, None, "SetP", _one(at.n_ret))


def set_recall(at: RankView, cap: bool) -> Derivation:
    bottom = min(_one(at.n_ret), _one(at.n_good)) if cap else _one(at.n_good)
    return _count_over(at, None, "SetR", bottom)


def set_f(at: RankView, beta: float) -> Derivation:
    p, r = set_precision(at), set_recall(at, cap=False)
    top, bottom = (1 + beta**2) * p.value * r.value, beta**2 * p.value + r.value
    value, line = division("SetF", top, bottom)
    return Derivation(value, (p.working[0], p.working[1], r.working[1], line), p.columns, p.rows)


def _count(value: Number, what: str) -> Derivation:
    return Derivation(float(value), (f"{what}: {show(int(value))}",))


def number_retrieved(at: RankView) -> Derivation:
    return _count(at.n_ret[0], "documents retrieved")


def number_relevant(at: RankView) -> Derivation:
    return _count(at.n_good[0], "relevant documents")


def number_relevant_retrieved(at: View, k: int | None) -> Derivation:
    if isinstance(at, TieView):
        return _count_over(at, k, "num_rel_ret", 1)
    return _count(len(_inside(at, k)), f"relevant documents retrieved{up_to(k)}")


def number_nonrelevant_judged(at: RankView) -> Derivation:
    return _count(at.bad_retrieved[0], "judged non-relevant documents retrieved")


def derive(measure: Measure, at: RankView, **arguments: Any) -> Derivation:
    """Derive the value of a measure for one query, by its own derivation or in general."""
    definition = measure.definition
    derivation = definition.derivation and definition.derivation(at, **arguments)
    if derivation is not None:
        return derivation
    value = float(definition.function(at, **arguments)[0])
    ranks = _inside(at, _rank(measure))
    gains = at.gain.tolist()[: len(ranks)]
    listed = ", ".join(map(str, ranks)) or "none"
    working = (
        f"ranks of the documents that count{up_to(_rank(measure))}: {listed}; "
        f"R = {_one(at.n_good)}, retrieved: {_one(at.n_ret)}",
        f"formula: {definition.formula}",
        f"{measure} = {show(value)}",
    )
    rows = tuple((nth, gain) for nth, gain in enumerate(gains, 1))
    return Derivation(value, working, ("found", "gain"), rows)


def _rank(measure: Measure) -> int | None:
    """Return the cutoff of a measure, where it is a rank."""
    return measure.cutoff if isinstance(measure.cutoff, int) else None
