"""Exact expectations over all orders of tied documents, for measures that are not linear in ranks.

A tie group has s documents above it, n documents of its own, and m that count. In a random order
any m of its n places are equally likely, and groups are independent; each function below is the
closed form of one measure under that law (McSherry & Najork, ECIR 2008, for most of them). The
same functions give the value of a random ranking: a random order is one tie group of everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.measures.registry import ExpectationError
from assay.measures.views import TieView, sum_over_places, sum_over_ranks

CHUNK = 1 << 22
ERR_LOOP = 4096  # places that are gone through one by one; beyond, document by document
_ERR_WORK = 2e8
_IPREC_WORK = 2e9
_INFERRED_WORK = 1e5  # counts of what may stand above, for each tie group


def success(at: TieView, k: int | None) -> Floats:
    """Return the probability that a counted document is at a rank up to k."""
    best = np.zeros(at.n_queries)
    np.maximum.at(best, at.row, some_inside(at.size, at.good, at.inside(k)))
    return best


def some_inside(n: Ints, m: Ints, t: Ints) -> Floats:
    """Return the probability that t of n places hold one of m documents: 1 − C(n−m, t) / C(n, t).

    Added up from chances, because 1 less a number close to 1 would lose digits.
    """
    small, large = np.minimum(m, t), np.maximum(m, t)
    chance = np.zeros(len(n))
    for i in range(int(small.max(initial=0))):
        here = np.minimum(large / np.maximum(n - i, 1), 1.0)
        chance = np.where(i < small, chance + (1.0 - chance) * here, chance)
    return chance


def reciprocal_rank(at: TieView, k: int | None) -> Floats:
    """Return Σ_j P(first counted document at place j of its group) / (s + j)."""
    first = np.flatnonzero((at.good_above == 0) & (at.good > 0))
    s, n, m, inside = (a[first] for a in (at.above, at.size, at.good, at.inside(k)))
    values = np.zeros(len(first))
    length = np.minimum(inside, n - m + 1)
    for rows in chunks_by_length(length):
        j = np.arange(1, int(length[rows].max(initial=0)) + 1)
        size, good = n[rows, None], m[rows, None]
        # P(the first of m documents is at place j of n): P(j+1) / P(j) = (n−m−j+1) / (n−j).
        ratio = np.maximum(size - good - j + 2, 0) / np.maximum(size - j + 1, 1)
        ratio[:, :1] = good / size  # there is no first place where the group lies below the cutoff
        probability = np.cumprod(ratio, axis=1)
        terms = np.where(j <= length[rows, None], probability / (s[rows, None] + j), 0.0)
        # Added one by one: a padded row must give the same bits as a row alone.
        values[rows] = np.add.accumulate(terms, axis=1)[:, -1] if len(j) else 0.0
    return at.per_query(at.row[first], values)


def chunks_by_length(length: Ints) -> Iterator[Ints]:
    """Yield row numbers in chunks of similar length, of bounded padded size."""
    by_length = np.argsort(length, kind="stable")
    start = 0
    while start < len(by_length):
        stop = len(by_length)
        while stop > start + 1 and (stop - start) * int(length[by_length[stop - 1]]) > CHUNK:
            stop = start + (stop - start) // 2
        yield by_length[start:stop]
        start = stop


def average_precision_sum(at: TieView, k: int | Ints | None) -> Floats:
    """Return the expected Σ i / r_i over the counted documents of each group up to rank k."""
    return precision_sum(at.above, at.size, at.good, at.good_above, at.inside(k))


def precision_sum(s: Ints, n: Ints, m: Ints, a: Ints, places: Ints) -> Floats:
    """Return Σ_{j ≤ places} (m/n) (a + 1 + (j−1)(m−1)/(n−1)) / (s + j)."""
    harmonic = sum_over_ranks(np.reciprocal, s, places)
    weighted = places - (s + 1) * harmonic  # Σ (j − 1) / (s + j)
    deep = np.flatnonzero(s > places)  # there the difference of two large numbers is small
    weighted[deep] = sum_over_places(lambda rank, j: (j - 1) / rank, s[deep], places[deep])
    slope = (m - 1) / np.maximum(n - 1, 1)
    return np.asarray(m / np.maximum(n, 1) * ((a + 1) * harmonic + slope * weighted))


def average_precision_over_hits(at: TieView, k: int | None) -> Floats:
    """Return the expected (Σ i / r_i) / (number of counted documents at ranks up to k)."""
    sums = average_precision_sum(at, k)
    split = _split_groups(at, k)
    whole = ~split
    n_hits = at.per_query(at.row[whole], at.good[whole].astype(float) * (at.inside(k) > 0)[whole])
    total = at.per_query(at.row[whole], sums[whole])
    values = np.divide(total, n_hits, out=np.zeros_like(total), where=n_hits > 0)
    for g in np.flatnonzero(split):
        row = at.row[g]
        n, m, t = int(at.size[g]), int(at.good[g]), int(at.inside(k)[g])
        x, probability = hypergeometric(n, m, t)
        s, a, places = (np.full(len(x), v) for v in (at.above[g], at.good_above[g], t))
        here = precision_sum(s, places, x, a, places)
        count = n_hits[row] + x
        value = np.divide(total[row] + here, count, out=np.zeros(len(x)), where=count > 0)
        values[row] = float((probability * value).sum())
    return values


def _split_groups(at: TieView, k: int | None) -> NDArray[np.bool_]:
    """Return the groups that the cutoff divides: at most one per query."""
    inside = at.inside(k)
    return (inside > 0) & (inside < at.size)


def hypergeometric(n: int, m: int, t: int) -> tuple[Ints, Floats]:
    """Return possible x, and P(x of the m documents are among the first t of n places)."""
    x = np.arange(max(0, m + t - n), min(m, t) + 1)
    here = x[:-1].astype(np.float64)
    return x, _law((m - here) * (t - here) / ((here + 1) * (n - m - t + here + 1)))


def place_of(i: int, n: int, m: int) -> tuple[Ints, Floats]:
    """Return possible places j, and P(the i-th of m documents is at place j of n)."""
    j = np.arange(i, n - m + i + 1)
    here = j[:-1].astype(np.float64)
    return j, _law(here / (here - i + 1) * ((n - m + i - here) / (n - here)))


def _law(ratio: Floats) -> Floats:
    """Return probabilities from ratios of neighbours, computed from the top to both sides."""
    top = int((ratio >= 1).sum())
    below = np.cumprod(1.0 / ratio[:top][::-1])[::-1]
    law = np.concatenate([below, [1.0], np.cumprod(ratio[top:])])
    return np.asarray(law / law.sum())


def extreme_average_precision_over_hits(at: TieView, k: int | None) -> tuple[Floats, Floats]:
    """Return best and worst (Σ i / r_i) / hits, trying every count: more hits can lower it."""
    n_queries = at.n_queries
    best, worst = np.zeros(n_queries), np.zeros(n_queries)
    inside, split = at.inside(k), _split_groups(at, k)
    for row, groups in _groups_by_query(at):
        tops = bottoms = n_hits = 0.0
        options = [(0, 0.0, 0.0)]
        for g in groups[inside[groups] > 0]:
            s, n, m, a, t = (int(v[g]) for v in (at.above, at.size, at.good, at.good_above, inside))
            if split[g]:
                low, high = max(0, m + t - n), min(m, t)
                options = [
                    (x, _block(s, x, a), _block(s + t - x, x, a)) for x in range(low, high + 1)
                ]
                continue
            n_hits += m
            tops += _block(s, m, a)
            bottoms += _block(s + n - m, m, a)
        values = [(n_hits + x, tops + b, bottoms + w) for x, b, w in options]
        best[row] = max(b / count if count else 0.0 for count, b, _ in values)
        worst[row] = min(w / count if count else 0.0 for count, _, w in values)
    return best, worst


def _block(s: int, m: int, a: int) -> float:
    """Return Σ (a + i) / (s + i) for i = 1 … m: m counted documents in a row after rank s."""
    i = np.arange(1, m + 1)
    return float(((a + i) / (s + i)).sum())


def binary_preference(at: TieView) -> Floats:
    """Return expected bpref: 0 … c of the c bad documents stand above, equally likely."""
    most = np.minimum(at.n_good, at.n_bad)[at.row]
    n_left = np.clip(most - at.bad_above, 0, at.bad + 1)  # so many of 0 … c leave something
    left = n_left * (most - at.bad_above) - n_left * (n_left - 1) // 2
    share: Floats = np.where(most > 0, left / (np.maximum(most, 1) * (at.bad + 1)), 1.0)
    return at.per_query(at.row, np.asarray(at.good * share, np.float64))


def expected_reciprocal_rank(at: TieView, k: int | None) -> Floats:
    """Return expected ERR: a cascade over tie groups, and within one over its i-th document."""
    values = np.zeros(at.n_queries)
    alive = np.ones(at.n_queries)
    inside = at.inside(k)
    for g in np.flatnonzero(inside).tolist():
        row, stop = at.row[g], at.members[g]
        reached = _mean_reciprocals(int(at.above[g]), int(at.size[g]), len(stop), int(inside[g]))
        values[row] += alive[row] * float((_stop_chances(stop) * reached).sum())
        alive[row] *= float((1.0 - stop).prod())
    return values


def _stop_chances(stop: Floats) -> Floats:
    """Return for h < m the mean chance to pass h random documents and stop at the next."""
    m = len(stop)
    passed, stopped, h = np.zeros(m), np.zeros(m), np.arange(m)
    passed[0] = 1.0
    for t, chance in enumerate(stop):  # one document more: it is the last, one of the h, or none
        stopped = (stopped * np.maximum(t - h, 0) + chance * passed) / (t + 1) + np.append(
            0.0, (h[1:] / (t + 1)) * (1.0 - chance) * stopped[:-1]
        )
        rest = passed * np.maximum(t + 1 - h, 0) / (t + 1)
        rest[1:] += h[1:] / (t + 1) * (1.0 - chance) * passed[:-1]
        passed = rest
    return stopped


def _mean_reciprocals(s: int, n: int, m: int, places: int) -> Floats:
    """Return for i = 1 … m E[1 / rank of the i-th document], 0 below the places."""
    if n == m:
        return np.where(np.arange(1, m + 1) <= places, 1.0 / (s + np.arange(1.0, m + 1)), 0.0)
    if places <= ERR_LOOP:
        return _mean_reciprocals_in_turn(s, n, m, places)
    if float(m) * n > _ERR_WORK:
        raise ExpectationError(
            f"The exact expectation of ERR over a tie group of {n} documents with {m} relevant is "
            f"too much work. Use a cutoff of {ERR_LOOP} or less, or ties='order', 'best' or "
            "'worst', for ERR on this data."
        )
    laws = (place_of(i, n, m) for i in range(1, m + 1))
    return np.array([float((p / (s + j))[j <= places].sum()) for j, p in laws])


def _mean_reciprocals_in_turn(s: int, n: int, m: int, places: int) -> Floats:
    """Go place by place, with the law of how many documents came before."""
    values, before, h = np.zeros(m), np.zeros(m), np.arange(m)
    before[0] = 1.0
    for j in range(1, places + 1):
        left = n - j + 1
        hit = before * np.minimum(m - h, left) / left
        values += hit / (s + j)
        before = before * np.maximum(left - m + h, 0) / left
        before[1:] += hit[:-1]
    return values


def interpolated_precision(at: TieView, needed: Ints) -> Floats:
    """Return the expected max of i / r_i over i ≥ needed; `needed` is levels × queries."""
    values = np.zeros(needed.shape)
    for row, groups in _groups_by_query(at):
        values[:, row] = _interpolated_row(at, groups, np.maximum(needed[:, row], 1))
    return values


def _groups_by_query(at: TieView) -> Iterator[tuple[int, Ints]]:
    """Yield each query that has tie groups, with the numbers of those groups."""
    groups = np.unique(at.row, return_index=True, return_counts=True)
    for row, start, size in zip(*(column.tolist() for column in groups), strict=True):
        yield row, np.arange(start, start + size)


def _interpolated_row(at: TieView, groups: Ints, needed: Ints) -> Floats:
    """Return one query's value: certain values make a floor, tie groups add chances above it."""
    floor = np.zeros(len(needed))
    uncertain = []
    for s, n, m, a in zip(
        *(v[groups].tolist() for v in (at.above, at.size, at.good, at.good_above)), strict=True
    ):
        if m == n:
            i = np.arange(1, m + 1)
            precision = (a + i) / (s + i)
            for level, least in enumerate(needed):
                floor[level] = max(floor[level], precision[a + i >= least].max(initial=0.0))
        elif a + m >= needed.min():
            uncertain.append((s, n, m, a))
    # The work grows with the square of documents times relevant documents, if several are.
    works = [float(n * m) ** 2 if m > 1 else 1e3 * n for _, n, m, _ in uncertain]
    if sum(works) > _IPREC_WORK:
        _, n, m, _ = uncertain[int(np.argmax(works))]
        raise ExpectationError(
            f"The exact expectation of interpolated precision over a tie group of {n} documents "
            f"with {m} relevant is too much work. Use ties='order', 'best' or 'worst' for iprec "
            "and iAP on this data."
        )
    chances = [
        _max_precision_law(*group, np.clip(needed - group[3], 1, group[2] + 1))
        for group in uncertain
    ]
    return np.array(
        [_expected_max(floor[v], [(x, p[v]) for x, p in chances]) for v in range(len(needed))]
    )


def _expected_max(floor: float, laws: list[tuple[Floats, Floats]]) -> float:
    """Return E[max(floor, X_1, X_2, …)] of independent X given as (values, P(X ≤ value))."""
    if not laws:
        return floor
    points = np.unique(np.concatenate([x for x, _ in laws]))
    points = np.concatenate([[floor], points[points > floor]])
    below = np.ones(len(points))
    for x, p in laws:
        at_point = np.searchsorted(x, points, side="right") - 1
        below *= p[at_point]
    return float(points[0] * below[0] + (points[1:] * np.diff(below)).sum())


def _max_precision_law(s: int, n: int, m: int, a: int, first: Ints) -> tuple[Floats, Floats]:
    """Return x and P(max over i ≥ first of (a+i)/(s+place_i) ≤ x), a row for each `first`."""
    zero = (first > m).astype(np.float64)[:, None]
    if m == 1:  # each place is as likely as the others
        values, law = (a + 1) / (s + np.arange(n, 0, -1.0)), np.arange(1, n + 1) / n
        laws = np.where(zero > 0, 1.0, law)
        return np.append(0.0, values), np.concatenate([zero, laws], axis=1)
    tops, bottoms = _precisions(s, n, m, a)
    i = np.arange(1, m + 1)[:, None]
    # Document i keeps the precision at or under x exactly from this place on.
    allowed = -(-(a + i) * bottoms // tops) - s
    laws = _all_allowed(n, m, allowed, first)
    return np.concatenate([[0.0], tops / bottoms]), np.concatenate([zero, laws], axis=1)


def _precisions(s: int, n: int, m: int, a: int) -> tuple[Ints, Ints]:
    """Return every possible largest precision, rising; the last document's is the least."""
    tops = a + np.repeat(np.arange(1, m + 1), n)
    bottoms = s + np.tile(np.arange(1, n + 1), m)
    enough = tops * (s + n) >= (a + m) * bottoms
    tops, bottoms = tops[enough], bottoms[enough]
    common = np.gcd(tops, bottoms)
    pairs = np.unique(np.stack([tops // common, bottoms // common], axis=1), axis=0)
    pairs = pairs[np.argsort(pairs[:, 0] / pairs[:, 1], kind="stable")]
    return pairs[:, 0], pairs[:, 1]


def _all_allowed(n: int, m: int, allowed: Ints, first: Ints) -> Floats:
    """Return P(place_i ≥ allowed_i for all i ≥ first), for each `first` and column of `allowed`.

    From the last place back: `safe[h, x]` is the chance that all goes well after this place if h
    documents came before. From where the last document may be, that is certain; columns are in
    falling order of that place.
    """
    least, last = int(first.min()) - 1, allowed[-1]
    h = np.arange(least, m)[:, None]
    safe = np.ones((m - least + 1, len(last)))
    starts = {f: _place_law(f - 1, n, m) for f in set(first.tolist())}
    from_there = np.maximum(last - 1, 0)  # P(place ≥ start) for each start
    laws = {f: np.cumsum(law[::-1])[::-1][from_there] for f, law in starts.items()}
    for place in range(n, 0, -1):
        open_ones = int(np.searchsorted(-last, -place))
        left = n - place + 1
        now = safe[:, :open_ones]
        hit = now[1:] * (np.minimum(m - h, left) / left)
        hit *= allowed[least:, :open_ones] <= place
        now[:-1] *= np.maximum(left - m + h, 0) / left
        now[:-1] += hit
        for f, law in starts.items():
            if law[place - 1]:
                laws[f][:open_ones] += law[place - 1] * now[f - 1 - least]
    return np.stack([laws[f] for f in first.tolist()])


def _place_law(i: int, n: int, m: int) -> Floats:
    """Return P(the i-th of m documents is at place j), j = 0 … n; for i = 0 place 0."""
    law = np.zeros(n + 1)
    if i == 0:
        law[0] = 1.0
    else:
        j, probability = place_of(i, n, m)
        law[j] = probability
    return law


def inferred_precisions(
    at: TieView, precision: Callable[[int, int, int, int], float], end: str
) -> Floats:
    """Return infAP's sum of precisions: mean, max or min over the orders of each group.

    What stands above a document counts only by kind (relevant, not relevant, in the pool without a
    judgment, not in the pool), so orders are gone through by these counts, from the last place on.
    """
    hits, sums = at.hits, np.zeros(len(at.row))
    span = int(hits.rank_hi.max(initial=0)) + 2
    unknown = np.flatnonzero(hits.grade < 0)
    keys = hits.row[unknown] * span + hits.rank_lo[unknown]  # in order, as hits are
    begins, ends = (at.row * span + at.above + 1 + side for side in (0, 1))
    first, before, after = (np.searchsorted(keys, key) for key in (at.row * span, begins, ends))
    for g, (good, bad, size) in enumerate(np.stack([at.good, at.bad, at.size], 1).tolist()):
        pooled = 0 if hits.exhaustive else int(after[g] - before[g])
        kinds = (good, bad, pooled, size - good - bad - pooled)
        if good and np.prod([float(n + 1) for n in kinds]) > _INFERRED_WORK:
            raise ExpectationError("infAP over ties takes too long to compute. Use ties='order'.")
        over = [int(at.good_above[g]), int(at.bad_above[g]), int(before[g] - first[g])]
        rest: dict[tuple[int, ...], float] = {}
        for placed in sorted(product(*(range(n + 1) for n in kinds)), key=sum, reverse=True):
            relevant, judged = over[0] + placed[0], over[0] + over[1] + placed[0] + placed[1]
            rank, seen = int(at.above[g]) + sum(placed) + 1, judged + over[2] + placed[2]
            ways = []  # of filling the next place: how many documents, and the sum from there on
            for kind in (kind for kind in range(4) if placed[kind] < kinds[kind]):
                after_it = tuple(n + (kind == which) for which, n in enumerate(placed))
                term = precision(rank, relevant, judged, seen) if kind == 0 else 0.0
                ways.append((kinds[kind] - placed[kind], term + rest[after_it]))
            if end == "mean":
                rest[placed] = math.fsum(n * s for n, s in ways) / max(sum(n for n, _ in ways), 1)
            else:
                rest[placed] = (max if end == "max" else min)((s for _, s in ways), default=0.0)
        sums[g] = rest[0, 0, 0, 0]
    return at.per_query(at.row, sums)
