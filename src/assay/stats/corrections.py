"""Multiple comparisons: corrected p-values, and Tukey's test of all pairs.

One inference for all pairs of systems: p-values and intervals from the same draws.

The signs of the centred scores of each query (each group of queries) are flipped for all systems at
once; of each resample the largest studentised difference over the pairs is kept (Westfall & Young
1993, Resampling-based multiple testing; Romano & Wolf 2005, Econometrica 73; random signs: Mammen
1993, Annals of Statistics 21). A pair has p ≤ α exactly if its interval, mean ± c · error with the
1 − α quantile c of those maxima, leaves out 0. The chance of any wrong pair stays below α whatever
the variances, and the number of pairs does not limit p.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from assay.arrays import Flags, Floats, Ints, from_grid, slack, to_grid
from assay.core.checks import check_choice
from assay.errors import ShapeError, ValueRangeError
from assay.native import kernels
from assay.native.random_words import stream_key
from assay.stats.bounded import Bounds, check_bounds, constant_difference_reach, span_of
from assay.stats.choices import LEVEL, RESAMPLES
from assay.stats.samples import (
    FEWEST,
    check_bootstraps,
    check_level,
    check_resamples,
    check_seed,
    check_significance_level,
    finite_or_nan,
    too_few,
)
from assay.stats.special import normal_cdf, normal_quantile, t_tail
from assay.stats.units import BlockSum, OwnUnits, SameUnits

CORRECTIONS = ("holm", "bonferroni", "bh", "none")


def adjust(p_values: Any, method: str = "holm") -> Floats:
    """Adjust p-values for their number; compare the result with the level as usual.

    `holm` and `bonferroni` control the family-wise error rate, `bh` (Benjamini & Hochberg)
    the false discovery rate. NaN stays NaN and is not counted.

    >>> adjust([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    name = check_choice(method, CORRECTIONS, "method")
    raw = finite_or_nan(p_values, "p_values")
    if ((raw < 0) | (raw > 1)).any():
        row = int(np.argmax((raw < 0) | (raw > 1)))
        raise ValueRangeError(f"p_values holds {raw[row]} at {row}; p lies between 0 and 1.")
    adjusted = raw.copy()
    defined = np.flatnonzero(~np.isnan(raw))
    order = defined[np.argsort(raw[defined], kind="stable")]
    adjusted[order] = np.minimum(_ADJUST[name](raw[order]), 1.0)
    return adjusted


def _holm(ascending: Floats) -> Floats:
    return np.maximum.accumulate(ascending * np.arange(len(ascending), 0, -1))


def _bonferroni(ascending: Floats) -> Floats:
    return ascending * len(ascending)


def _benjamini_hochberg(ascending: Floats) -> Floats:
    m = len(ascending)
    return np.minimum.accumulate((ascending * m / np.arange(1, m + 1))[::-1])[::-1]


def _as_given(ascending: Floats) -> Floats:
    return ascending


_ADJUST = {
    "holm": _holm,
    "bonferroni": _bonferroni,
    "bh": _benjamini_hochberg,
    "none": _as_given,
}


def levels_of_one(p_values: Any, method: str = "holm", level: float = LEVEL) -> Floats:
    """Return the level that each p alone is compared with, so that `adjust` and it always agree.

    Holm: a rejected p met the level of its step, all others failed at that of the first step that
    failed. Benjamini & Hochberg: k of m rejected give k/m of the level, the one at which intervals
    of what was selected keep their coverage (Benjamini & Yekutieli 2005, JASA 100).

    >>> levels_of_one([0.01, 0.04, 0.03]).round(4).tolist()
    [0.0167, 0.025, 0.025]
    """
    adjusted = adjust(p_values, method)
    defined = ~np.isnan(adjusted)
    m, rejected = int(defined.sum()), int((adjusted <= check_level(level, example=0.05)).sum())
    if not m or method == "none":
        return np.full(len(adjusted), level)
    if method == "bonferroni":
        return np.full(len(adjusted), level / m)
    if method == "bh":
        return np.full(len(adjusted), level * max(rejected, 1) / m)
    each = np.full(len(adjusted), level / max(m - rejected, 1))
    order = np.flatnonzero(defined)[np.argsort(np.asarray(p_values)[defined], kind="stable")]
    each[order[:rejected]] = level / (m - np.arange(rejected))
    return each


@dataclass(frozen=True, eq=False)
class TukeyResult:
    """p for each pair of systems, adjusted for all pairs, and the mean differences.

    `p[i, j]` belongs to systems i and j, `differences[i, j]` is mean i − mean j. p is NaN, and
    `note` says why, where there are too few queries. `ranges` are the largest differences of the
    shuffles, ascending.
    """

    p: Floats
    differences: Floats
    n: int
    n_removed: int
    resamples: int
    seed: int
    ranges: Floats
    note: str = ""

    def half_width(self, level: float) -> float:
        """Return the least difference with p ≤ level: intervals reach as far.

        Infinite if none has.
        """
        allowed = allowed_draws(level, self.resamples)
        return math.inf if allowed < 0 or self.note else float(self.ranges[-1 - allowed])

    def __repr__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        removed = f", {self.n_removed} removed" if self.n_removed else ""
        return (
            f"TukeyResult({len(self.p)} systems, n={self.n}{removed}, "
            f"{self.resamples} resamples{note})"
        )


def tukey_hsd(values: Any, *, resamples: int = RESAMPLES, seed: int = 0) -> TukeyResult:
    """Randomised Tukey HSD of `values`, systems × queries: all pairs in one test.

    The scores of each query are shuffled among the systems, and each difference is compared with
    the largest difference that arises so (Carterette, ACM TOIS 2012). Queries with a NaN in any
    system are removed and counted.

    >>> result = tukey_hsd([[0.9, 0.8, 0.9, 0.7], [0.1, 0.2, 0.1, 0.3], [0.1, 0.2, 0.2, 0.3]])
    >>> result.p[0, 1] < 0.05 < result.p[1, 2]
    np.True_
    """
    table = finite_or_nan(values, "values", dimensions=2)
    if len(table) < 2:
        raise ShapeError(f"A comparison needs two systems or more, found shape {table.shape}.")
    resamples, seed = check_resamples(resamples), check_seed(seed)
    complete = ~np.isnan(table).any(axis=0)
    table = table[:, complete]
    p, differences, ranges = _tukey(table, resamples, seed)
    n, removed = table.shape[1], int((~complete).sum())
    return TukeyResult(p, differences, n, removed, resamples, seed, ranges, too_few(n) or "")


def _tukey(table: Floats, resamples: int, seed: int) -> tuple[Floats, Floats, Floats]:
    systems, n = table.shape
    unknown = np.full((systems,) * 2, math.nan)
    if n == 0:
        return unknown, unknown, np.empty(0)
    means = np.array([math.fsum(row) / n for row in table.tolist()])
    differences = means[:, None] - means
    if too_few(n):
        return unknown, differences, np.empty(0)
    # Centred scores keep the grid fine; a query's mean is the same however it is shuffled.
    grid, shift = to_grid(table - table.mean(axis=0), n)
    near = slack(4 * n, float(np.abs(table).max()), shift)
    sums = grid.sum(axis=1)
    gaps = np.abs(sums[:, None] - sums)
    key = stream_key(seed, "shuffles")
    flat = np.ascontiguousarray(grid.T).ravel()
    ranges = np.sort(kernels().shuffled_ranges(flat, systems, key, 0, resamples, 0))
    reached = resamples - np.searchsorted(ranges, gaps - near)
    p = (reached + 1) / (resamples + 1)
    p[gaps <= near] = 1.0
    return p, differences, from_grid(ranges, shift) / n


_Part = SameUnits | OwnUnits | BlockSum
_TIE = 1e-9  # two statistics closer than this share are one, split by rounding


@dataclass(frozen=True, eq=False)
class JointPairs:
    """Differences of pairs of systems with simultaneous intervals; an entry for each pair.

    `p` is adjusted for all pairs, `p_alone` for none; `smallest` is the smallest p that could be.
    `critical` is the c of mean ± c · error (where pairs rest on different numbers of units, that of
    a normal with the same tail) and `level_of_one` the level at which a t test alone would be as
    strict. Ends and p are NaN, and `note` says why, where there are too few queries.
    """

    differences: Floats
    errors: Floats
    p: Floats
    p_alone: Floats
    low: Floats
    high: Floats
    smallest: Floats
    critical: float
    level_of_one: float
    n_units: int
    note: str = ""


def compare_jointly(
    values: Any,
    pairs: Sequence[tuple[int, int]],
    *,
    clusters: Any = None,
    blocks: Any = None,
    contrasts: Any = None,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
    bounds: Bounds | None = None,
) -> JointPairs:
    """Compare pairs of rows of `values`, systems × queries, in one family.

    Queries with a NaN in one of two systems are left out of that pair. With `clusters`, a label for
    each query, whole groups are flipped. With `blocks`, the number of a block for each query (−1
    for none), the family is all pairs in block 0, then in block 1, …; with `contrasts`, rows of a
    weight for each block, all pairs on each of these weighted sums of the differences in blocks:
    [[1/2, 1/2]] compares the mean of two. `level` is the significance level of the family,
    `bounds` are those of the scores.

    >>> found = compare_jointly([[0.9, 0.8, 0.9, 0.7, 0.8, 0.9, 0.6, 0.8],
    ...                          [0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.3, 0.2],
    ...                          [0.2, 0.1, 0.1, 0.2, 0.3, 0.1, 0.2, 0.2]], [(0, 1), (1, 2)])
    >>> (found.p <= 0.05).tolist(), (found.low > 0).tolist()
    ([True, False], [True, False])
    """
    table = finite_or_nan(values, "values", dimensions=2)
    if len(table) < 2 or not len(pairs):
        raise ShapeError(f"A comparison needs two systems or more, found shape {table.shape}.")
    check_significance_level(level)
    _check_blocks(table.shape[1], clusters, blocks, contrasts)
    limits = check_bounds(bounds)
    family = _Family.of(table, np.asarray(pairs, np.int64), clusters, blocks, contrasts, limits)
    result = family.infer(level, check_bootstraps(resamples), check_seed(seed))
    if limits is None:
        return result
    low, high = np.maximum(result.low, -family.span), np.minimum(result.high, family.span)
    return replace(result, low=low, high=high)


def _check_blocks(n_queries: int, clusters: Any, blocks: Any, contrasts: Any) -> None:
    for what, labels in (("clusters", clusters), ("blocks", blocks)):
        if labels is not None and np.shape(labels) != (n_queries,):
            raise ShapeError(
                f"{what} must have one entry for each of the {n_queries} queries; found shape "
                f"{np.shape(labels)}."
            )
    if blocks is not None and np.asarray(blocks).dtype.kind not in "iu":
        raise ShapeError("blocks must be numbers of blocks: 0, 1, …, and −1 for none.")
    n_blocks = 1 if blocks is None else int(np.max(blocks, initial=-1)) + 1
    if n_blocks < 1:
        raise ShapeError("blocks must hold a block 0 at least; found none.")
    if contrasts is not None:
        weights = np.asarray(contrasts, np.float64)
        if weights.ndim != 2 or weights.shape[1] != n_blocks or not weights.any(axis=1).all():
            raise ShapeError(
                f"contrasts must be rows of {n_blocks} weights, one for each block, not all 0; "
                f"found shape {weights.shape}."
            )


def allowed_draws(level: float, resamples: int) -> int:
    """Return how many resamples may be as extreme as the data for p ≤ level.

    Below 0 if p cannot be.
    """
    return math.floor(level * (resamples + 1) * (1 + 1e-12)) - 1


def smallest_flip_p(n_units: int, resamples: int) -> float:
    """Return the smallest p of random signs.

    It is that of the draws, or of all 2^n choices of signs.
    """
    return max(1 / (resamples + 1), 2.0 ** (1 - n_units))


@dataclass(frozen=True, eq=False)
class _Family:
    """Entries to infer together: pairs, or pairs in blocks; `parts` hold some of them each."""

    differences: Floats
    errors: Floats
    n_units: Ints
    freedom: Floats
    parts: tuple[_Part, ...]
    span: Floats  # how far scores may be apart, and with them an entry

    @classmethod
    def of(
        cls,
        table: Floats,
        pairs: Ints,
        clusters: Any,
        blocks: Any,
        contrasts: Any,
        bounds: Bounds | None,
    ) -> _Family:
        undefined = np.isnan(table)
        units, n_all = _number_units(table.shape[1], clusters)
        masks = _masks(table.shape[1], blocks)
        parts: list[_Part] = []
        if (undefined == undefined[0]).all():
            groups = [(table, np.arange(len(pairs)), pairs)]
        elif contrasts is None:  # each pair on the queries that both systems have
            groups = []
            parts += [
                OwnUnits.of(table[:, mask], pairs, places, units[mask], n_all)
                for number, mask in enumerate(masks)
                for places in [np.arange(len(pairs)) + number * len(pairs)]
            ]
        else:
            groups = [
                (
                    np.where(undefined[[a, b]].any(axis=0), np.nan, table[[a, b]]),
                    np.array([i]),
                    np.array([[0, 1]]),
                )
                for i, (a, b) in enumerate(pairs.tolist())
            ]
        for rows, at, members in groups:
            by_block = [
                SameUnits.of(rows[:, mask], members, at + number * len(pairs), units[mask], n_all)
                for number, mask in enumerate(masks)
            ]
            parts += (
                by_block
                if contrasts is None
                else [
                    BlockSum.of(
                        by_block, [float(weight) for weight in weights], at + row * len(pairs)
                    )
                    for row, weights in enumerate(contrasts)
                ]
            )
        weights = np.ones(1) if contrasts is None else np.abs(np.asarray(contrasts)).sum(axis=1)
        n = sum(len(part.at) for part in parts)
        span = np.repeat(weights * span_of(table[~undefined], bounds), n // len(weights))
        return cls._join(parts, span)

    @classmethod
    def _join(cls, parts: list[_Part], span: Floats) -> _Family:
        n = sum(len(part.at) for part in parts)
        differences, errors, freedom = np.empty(n), np.empty(n), np.empty(n)
        n_units = np.empty(n, np.int64)
        for part in parts:
            differences[part.at], errors[part.at] = part.differences, part.errors
            n_units[part.at], freedom[part.at] = part.n_units, part.freedom
        return cls(differences, errors, n_units, freedom, tuple(parts), span)

    def infer(self, level: float, resamples: int, seed: int) -> JointPairs:
        n = int(self.n_units.min())
        testable = self.n_units >= FEWEST
        least = np.array([smallest_flip_p(units, resamples) for units in self.n_units.tolist()])
        statistics = self._scale(self.statistics, np.arange(len(testable)))
        largest, alone = self._draw(statistics, resamples, seed)
        p, smallest = (
            np.maximum(_share_reaching(largest, each), least) for each in (statistics, self._most)
        )
        alone = np.maximum((alone + 1) / (resamples + 1), least)
        for each in (p, alone):
            each[statistics == 0] = 1.0
            each[~testable] = math.nan
        allowed = allowed_draws(level, resamples)
        critical = math.inf
        if allowed >= 0 and (least <= level)[testable].any():
            critical = float(largest[resamples - 1 - allowed]) / (1 - _TIE)
        low, high = self._ends(critical, level, p, least)
        return JointPairs(
            self.differences,
            self.errors,
            p,
            np.minimum(alone, p),
            low,
            high,
            smallest,
            critical,
            min(max(self._tail(critical), level / len(p) / 100), level),
            n,
            too_few(n) or "",
        )

    @property
    def statistics(self) -> Floats:
        """|difference| / error; infinite where all differences are the same number."""
        flat = self.errors == 0
        sizes: Floats = np.abs(self.differences) / np.where(flat, 1.0, self.errors)
        return np.where(flat & (self.differences != 0), np.inf, sizes)

    @cached_property
    def _even(self) -> bool:
        """Whether all entries rest on as many units, so that one c is as strict with each."""
        return bool((self.freedom == self.freedom[0]).all())

    @cached_property
    def _most(self) -> Floats:
        """The largest statistic that counts: few units cannot show more than all their signs do.

        Without it a block of six, all alike, would forbid large blocks to show anything.
        """
        if self._even:
            return np.full(len(self.freedom), np.inf)
        return np.array([-normal_quantile(2.0 ** -min(n, 1000)) for n in self.n_units.tolist()])

    def _scale(self, statistics: Floats, at: Ints) -> Floats:
        """Statistics of t as those of a normal with the same tail, where units differ in number.

        So each entry has the same share in the error of the family (Beran 1988, JASA 83); the
        normal is that of Wallace (1959, Annals of Mathematical Statistics 30).
        """
        if self._even:
            return statistics
        shape = (-1,) + (1,) * (statistics.ndim - 1)
        freedom, most = self.freedom[at].reshape(shape), self._most[at].reshape(shape)
        scaled = np.sqrt(freedom * np.log1p(statistics**2 / freedom))
        return np.minimum(scaled * ((8 * freedom + 1) / (8 * freedom + 3)), most)

    def _unscale(self, critical: float) -> Floats:
        """Return the c of each entry."""
        if self._even:
            return np.full(len(self.freedom), critical)
        normal = critical * (8 * self.freedom + 3) / (8 * self.freedom + 1)
        return np.sqrt(self.freedom * np.expm1(np.minimum(normal**2 / self.freedom, 700.0)))

    def _tail(self, critical: float) -> float:
        """Return the level of one test with this c."""
        if math.isinf(critical):
            return 0.0
        return 2 * (t_tail(critical, self.freedom[0]) if self._even else normal_cdf(-critical))

    def _draw(self, statistics: Floats, resamples: int, seed: int) -> tuple[Floats, Ints]:
        """Return the largest statistic of each resample, ascending.

        For each entry how many reach its.
        """
        largest = np.zeros(resamples)
        reached = np.zeros(len(statistics), np.int64)
        key = stream_key(seed, "sign flips")
        for part in self.parts:
            if np.max(part.n_units) < FEWEST:
                continue
            for at, columns, drawn in part.draw(key, resamples):
                scaled = self._scale(drawn, at)
                np.maximum(largest[columns], scaled.max(axis=0), out=largest[columns])
                bar = statistics[at] * (1 - _TIE)
                reached[at] += (scaled >= bar[:, None]).sum(axis=1)
        largest.sort()
        return largest, reached

    def _ends(
        self, critical: float, level: float, p: Floats, least: Floats
    ) -> tuple[Floats, Floats]:
        """Return difference ± critical · error.

        The side of 0 is that of the p-value, to the last bit.
        """
        if math.isinf(critical):
            unknown = np.full(len(p), math.nan)
            return unknown, unknown
        sizes = np.abs(self.differences)
        reach = self._unscale(critical) * self.errors
        for flat in np.flatnonzero(self.errors == 0).tolist():
            n = max(int(self.n_units[flat]), 1)
            confidence, span = 1 - level / len(p), float(self.span[flat])
            reach[flat] = constant_difference_reach(sizes[flat], n, confidence, span)
        separate = p <= level
        near = np.where(separate, np.maximum(sizes - reach, 1e-12 * sizes), sizes - reach)
        near = np.where(separate, near, np.minimum(near, 0.0))
        far = np.where(np.isnan(p) | (least > level), math.nan, sizes + reach)
        near = np.where(np.isnan(far), math.nan, near)
        up = self.differences >= 0
        return np.where(up, near, -far), np.where(up, far, -near)


def _share_reaching(largest: Floats, bars: Floats) -> Floats:
    """p of each bar among the largest statistics of the resamples, which are ascending."""
    reached = len(largest) - np.searchsorted(largest, bars * (1 - _TIE))
    shares: Floats = (reached + 1) / (len(largest) + 1)
    return shares


def _number_units(n_queries: int, clusters: Any) -> tuple[Ints, int]:
    """Return the unit of each query, the same in all blocks and pairs, and how many there are."""
    if clusters is None:
        return np.arange(n_queries), n_queries
    labels, units = np.unique(np.asarray(clusters), return_inverse=True)
    return units.astype(np.int64), len(labels)


def _masks(n_queries: int, blocks: Any) -> list[Flags]:
    """Return the queries of each block."""
    if blocks is None:
        return [np.ones(n_queries, bool)]
    numbers = np.asarray(blocks)
    return [numbers == number for number in range(int(numbers.max(initial=-1)) + 1)]
