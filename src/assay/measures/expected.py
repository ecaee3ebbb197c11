"""Exact expectations over all orders of tied documents, for measures that are not linear in ranks.

A tie group has s documents above it, n documents of its own, and m that count. In a random order
any m of its n places are equally likely, and groups are independent; each function below is the
closed form of one measure under that law (McSherry & Najork, ECIR 2008, for most of them). The
same functions give the value of a random ranking: a random order is one tie group of everything.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.measures.registry import ExpectationError
from assay.measures.views import TieView, sum_over_ranks

_CHUNK = 1 << 22
_IPREC_WORK = 2e9


def success(at: TieView, k: int | None) -> Floats:
    """1 − probability that no counted document is at a rank up to k."""
    inside = at.inside(k)
    none = none_inside(at.size, at.good, inside)
    worst = np.ones(at.n_queries)
    np.minimum.at(worst, at.row, none)
    return 1.0 - worst


def none_inside(n: Ints, m: Ints, t: Ints) -> Floats:
    """C(n−m, t) / C(n, t): probability that t of n places hold none of the m documents."""
    small, large = np.minimum(m, t), np.maximum(m, t)
    product = np.ones(len(n))
    for i in range(int(small.max(initial=0))):
        left = np.maximum(n - large - i, 0)
        product = np.where(i < small, product * left / np.maximum(n - i, 1), product)
    return product


def reciprocal_rank(at: TieView, k: int | None) -> Floats:
    """Σ_j P(first counted document at place j of its group) / (s + j)."""
    first = np.flatnonzero((at.good_above == 0) & (at.good > 0))
    s, n, m, inside = (a[first] for a in (at.above, at.size, at.good, at.inside(k)))
    values = np.zeros(len(first))
    length = np.minimum(inside, n - m + 1)
    for rows in _chunks_by_length(length):
        j = np.arange(1, int(length[rows].max(initial=0)) + 1)
        size, good = n[rows, None], m[rows, None]
        probability = _first_place(size, good, j)
        terms = np.where(j <= length[rows, None], probability / (s[rows, None] + j), 0.0)
        # Added one by one: a padded row must give the same bits as a row alone.
        values[rows] = np.add.accumulate(terms, axis=1)[:, -1] if len(j) else 0.0
    return at.per_query(at.row[first], values)


def _first_place(n: Ints, m: Ints, j: Ints) -> Floats:
    """P(the first of m documents is at place j of n): P(j+1) / P(j) = (n−m−j+1) / (n−j)."""
    ratio = np.maximum(n - m - j + 2, 0) / np.maximum(n - j + 1, 1)
    ratio[:, :1] = m / n  # there is no first place where the group lies below the cut-off
    return np.cumprod(ratio, axis=1)


def _chunks_by_length(length: Ints) -> Iterator[Ints]:
    """Row numbers in chunks of similar length whose padded size stays bounded."""
    by_length = np.argsort(length, kind="stable")
    start = 0
    while start < len(by_length):
        stop = len(by_length)
        while stop > start + 1 and (stop - start) * int(length[by_length[stop - 1]]) > _CHUNK:
            stop = start + (stop - start) // 2
        yield by_length[start:stop]
        start = stop


def average_precision_sum(at: TieView, k: int | Ints | None) -> Floats:
    """Expected Σ i / r_i over the counted documents of each group at ranks up to k."""
    return _precision_sum(at.above, at.size, at.good, at.good_above, at.inside(k))


def _precision_sum(s: Ints, n: Ints, m: Ints, a: Ints, places: Ints) -> Floats:
    """Σ_{j ≤ places} (m/n) (a + 1 + (j−1)(m−1)/(n−1)) / (s + j)."""
    harmonic = sum_over_ranks(np.reciprocal, s, places)
    weighted = places - (s + 1) * harmonic  # Σ (j − 1) / (s + j)
    slope = (m - 1) / np.maximum(n - 1, 1)
    return np.asarray(m / np.maximum(n, 1) * ((a + 1) * harmonic + slope * weighted))


def average_precision_over_hits(at: TieView, k: int | None) -> Floats:
    """Expected (Σ i / r_i) / (number of counted documents at ranks up to k)."""
    sums = average_precision_sum(at, k)
    split = _split_groups(at, k)
    whole = ~split
    found = at.per_query(at.row[whole], at.good[whole].astype(float) * (at.inside(k) > 0)[whole])
    total = at.per_query(at.row[whole], sums[whole])
    values = np.divide(total, found, out=np.zeros_like(total), where=found > 0)
    for g in np.flatnonzero(split):
        row = at.row[g]
        n, m, t = int(at.size[g]), int(at.good[g]), int(at.inside(k)[g])
        x = np.arange(max(0, m + t - n), min(m, t) + 1)
        s, a, places = (np.full(len(x), v) for v in (at.above[g], at.good_above[g], t))
        here = _precision_sum(s, places, x, a, places)
        count = found[row] + x
        value = np.divide(total[row] + here, count, out=np.zeros(len(x)), where=count > 0)
        values[row] = float(hypergeometric(n, m, t)[x] @ value)
    return values


def _split_groups(at: TieView, k: int | None) -> NDArray[np.bool_]:
    """Groups that the cut-off divides: at most one in a query."""
    inside = at.inside(k)
    return (inside > 0) & (inside < at.size)


def hypergeometric(n: int, m: int, t: int) -> Floats:
    """P(x of the m documents are among the first t of n places), for x = 0 … m."""
    probability = np.zeros(m + 1)
    probability[0] = 1.0
    x = np.arange(m + 1)
    for j in range(t):
        hit = probability * (m - x) / (n - j)
        probability -= hit
        probability[1:] += hit[:-1]
    return probability


def extreme_average_precision_over_hits(at: TieView, k: int | None) -> tuple[Floats, Floats]:
    """Best and worst of (Σ i / r_i) / hits: more hits can lower it, so every count is tried."""
    n_queries = at.n_queries
    best, worst = np.zeros(n_queries), np.zeros(n_queries)
    inside, split = at.inside(k), _split_groups(at, k)
    for row, groups in _groups_by_query(at):
        tops = bottoms = found = 0.0
        options = [(0, 0.0, 0.0)]
        for g in groups[inside[groups] > 0]:
            s, n, m, a, t = (int(v[g]) for v in (at.above, at.size, at.good, at.good_above, inside))
            if split[g]:
                low, high = max(0, m + t - n), min(m, t)
                options = [
                    (x, _block(s, x, a), _block(s + t - x, x, a)) for x in range(low, high + 1)
                ]
                continue
            found += m
            tops += _block(s, m, a)
            bottoms += _block(s + n - m, m, a)
        values = [(found + x, tops + b, bottoms + w) for x, b, w in options]
        best[row] = max(b / count if count else 0.0 for count, b, _ in values)
        worst[row] = min(w / count if count else 0.0 for count, _, w in values)
    return best, worst


def _block(s: int, m: int, a: int) -> float:
    """Σ (a + i) / (s + i) for i = 1 … m: m counted documents in a row after rank s."""
    i = np.arange(1, m + 1)
    return float(((a + i) / (s + i)).sum())


def binary_preference(at: TieView) -> Floats:
    """Each counted document has 0 … c of its group's c bad ones above it, equally likely."""
    n_good, n_bad = at.n_good[at.row], at.n_bad[at.row]
    below = np.clip(n_good - at.bad_above, 0, at.bad + 1)
    capped = below * at.bad_above + below * (below - 1) / 2 + (at.bad + 1 - below) * n_good
    mean = capped / (at.bad + 1)
    return at.per_query(at.row, at.good * (1.0 - mean / np.maximum(np.minimum(n_good, n_bad), 1)))


def expected_reciprocal_rank(at: TieView, k: int | None) -> Floats:
    """Cascade over tie groups; within one, by the mean survival after j random documents."""
    values = np.zeros(at.n_queries)
    alive = np.ones(at.n_queries)
    inside = at.inside(k)
    for g, row in enumerate(at.row):
        survive = 1.0 - at.members[g]
        mean = _mean_survival(survive, int(at.size[g]), int(inside[g]))
        ranks = at.above[g] + np.arange(1, len(mean))
        values[row] += alive[row] * float(((mean[:-1] - mean[1:]) / ranks).sum())
        alive[row] *= float(survive.prod())
    return values


def _mean_survival(survive: Floats, n: int, places: int) -> Floats:
    """E[Π survive over the first j of n random documents], j = 0 … places; the rest survive."""
    m = len(survive)
    mean_product = np.zeros(m + 1)  # mean over all h-subsets of the m, h = 0 … m
    mean_product[0] = 1.0
    h = np.arange(m + 1)
    for t, value in enumerate(survive):
        stay = (t + 1 - h) / (t + 1) * mean_product
        stay[1:] += h[1:] / (t + 1) * value * mean_product[:-1]
        mean_product = np.where(h <= t + 1, stay, 0.0)
    result = np.empty(places + 1)
    probability = np.zeros(m + 1)
    probability[0] = 1.0
    for j in range(places + 1):
        result[j] = float(probability @ mean_product)
        hit = probability * (m - h) / max(n - j, 1)
        probability = probability - hit
        probability[1:] += hit[:-1]
    return result


def interpolated_precision(at: TieView, needed: Ints) -> Floats:
    """Expected max of i / r_i over i ≥ needed; `needed` is levels × queries."""
    values = np.zeros(needed.shape)
    for row, groups in _groups_by_query(at):
        values[:, row] = _interpolated_row(at, groups, np.maximum(needed[:, row], 1))
    return values


def _groups_by_query(at: TieView) -> Iterator[tuple[int, Ints]]:
    """Each query that has tie groups, with the numbers of those groups."""
    found = np.unique(at.row, return_index=True, return_counts=True)
    for row, start, size in zip(*(column.tolist() for column in found), strict=True):
        yield row, np.arange(start, start + size)


def _interpolated_row(at: TieView, groups: Ints, needed: Ints) -> Floats:
    """One query: certain values make a floor, tie groups add independent chances above it."""
    floor = np.zeros(len(needed))
    chances: list[tuple[Floats, Floats]] = []
    for g in groups:
        s, n, m, a = (int(v[g]) for v in (at.above, at.size, at.good, at.good_above))
        if m == n:
            i = np.arange(1, m + 1)
            precision = (a + i) / (s + i)
            for level, least in enumerate(needed):
                floor[level] = max(floor[level], precision[a + i >= least].max(initial=0.0))
        elif a + m >= needed.min():
            chances.append(_max_precision_law(s, n, m, a, np.clip(needed - a, 1, m + 1)))
    return np.array(
        [_expected_max(floor[v], [(x, p[v]) for x, p in chances]) for v in range(len(needed))]
    )


def _expected_max(floor: float, laws: list[tuple[Floats, Floats]]) -> float:
    """E[max(floor, X_1, X_2, …)] of independent X given as (values, P(X ≤ value))."""
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
    """Values x and P(max over i ≥ first of (a+i)/(s+place_i) ≤ x), a row for each `first`."""
    if float(n) * n * m * m > _IPREC_WORK:
        raise ExpectationError(
            f"The exact expectation of interpolated precision over a tie group of {n} documents "
            f"with {m} relevant is too much work. Use ties='order', 'best' or 'worst' for iprec "
            "and iAP on this data."
        )
    tops = a + np.repeat(np.arange(1, m + 1), n)
    bottoms = s + np.tile(np.arange(1, n + 1), m)
    common = np.gcd(tops, bottoms)
    pairs = np.unique(np.stack([tops // common, bottoms // common], axis=1), axis=0)
    pairs = pairs[np.argsort(pairs[:, 0] / pairs[:, 1], kind="stable")]
    i = np.arange(1, m + 1)
    # Document i keeps the precision at or under x exactly from this place on.
    allowed = -(-(a + i) * pairs[:, 1:] // pairs[:, :1]) - s
    laws = np.stack([_all_allowed(n, m, allowed, int(f)) for f in first])
    zero = np.zeros((len(first), 1))
    zero[first > m] = 1.0
    return (
        np.concatenate([[0.0], pairs[:, 0] / pairs[:, 1]]),
        np.concatenate([zero, laws], axis=1),
    )


def _all_allowed(n: int, m: int, allowed: Ints, first: int) -> Floats:
    """P(place_i ≥ allowed_i for all i ≥ first), for every row of `allowed`."""
    alive = np.zeros((len(allowed), m + 1))
    alive[:, 0] = 1.0
    h = np.arange(m)
    for place in range(1, n + 1):
        hit = alive[:, :-1] * ((m - h) / (n - place + 1))
        alive[:, :-1] -= hit
        alive[:, 1:] += np.where((h + 1 < first) | (place >= allowed), hit, 0.0)
    return alive[:, m]
