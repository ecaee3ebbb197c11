"""One inference for all pairs of systems: p-values and intervals from the same draws.

The signs of the centred scores of each query (each group of queries) are flipped for all systems at
once; of each resample the largest studentised difference over the pairs is kept (Westfall & Young
1993, Resampling-based multiple testing; Romano & Wolf 2005, Econometrica 73; random signs: Mammen
1993, Annals of Statistics 21). A pair has p ≤ α exactly if its interval, mean ± c · error with the
1 − α quantile c of those maxima, leaves out 0. The chance of any wrong pair stays below α whatever
the variances, and the number of pairs does not limit p.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.exact_sums import from_grid, to_grid
from assay.errors import ShapeError
from assay.native import kernels
from assay.native.random_words import stream_key
from assay.stats.bounded import unseen_share
from assay.stats.samples import (
    SAME,
    check_bootstraps,
    check_seed,
    check_significance_level,
    finite_or_nan,
    too_few,
)
from assay.stats.special import t_tail

__all__ = [
    "JointPairs",
    "allowed_draws",
    "compare_jointly",
    "smallest_flip_p",
    "unit_error",
    "units_table",
]

_TIE = 1e-9  # two statistics closer than this share are one, split by rounding


@dataclass(frozen=True, eq=False)
class JointPairs:
    """Differences of pairs of systems with simultaneous intervals; an entry for each pair.

    `p` is adjusted for all pairs, `p_alone` for none. `critical` is the c of mean ± c · error and
    `level_of_one` the level at which a t test alone would be as strict. Ends and p are NaN, and
    `note` says why, where there are too few queries.
    """

    differences: Floats
    errors: Floats
    p: Floats
    p_alone: Floats
    low: Floats
    high: Floats
    critical: float
    level_of_one: float
    n_units: int
    note: str = ""


def compare_jointly(
    values: Any,
    pairs: Sequence[tuple[int, int]],
    *,
    clusters: Any = None,
    level: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> JointPairs:
    """Compare pairs of rows of `values`, systems × queries, in one family.

    Queries with a NaN in one of two systems are left out of that pair. With `clusters`, a label for
    each query, whole groups are flipped. `level` is the significance level of the family.

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
    family = _Family.of(table, np.asarray(pairs, np.int64), clusters)
    return family.infer(level, check_bootstraps(resamples), check_seed(seed))


def units_table(values: Floats, clusters: Any = None) -> tuple[Floats, Floats]:
    """Sums of each row over each unit (a query or a group), and the sizes of the units.

    Queries with a NaN in any row are left out.
    """
    kept = ~np.isnan(values).any(axis=0)
    if clusters is None:
        return values[:, kept], np.ones(int(kept.sum()))
    labels, codes = np.unique(np.asarray(clusters)[kept], return_inverse=True)
    rows = [np.bincount(codes, row, len(labels)) for row in values[:, kept]]
    return np.array(rows, np.float64), np.bincount(codes, minlength=len(labels)).astype(np.float64)


def unit_weights(sizes: Floats) -> Floats:
    """What makes up for the share that each unit has in the mean it is measured against.

    Errors are then those of leaving out each unit in turn, which hold for groups of uneven size
    (MacKinnon, Nielsen & Webb 2023, Journal of Econometrics 232); for equal sizes they are s / √n.
    """
    total = sizes.sum()
    found: Floats = total / np.maximum(total - sizes, 1.0)
    return found


def unit_error(residuals: Floats, sizes: Floats) -> float:
    """Standard error of a mean over all queries, from what is left of each unit's sum."""
    n = len(sizes)
    squares = float(((residuals * unit_weights(sizes)) ** 2).sum())
    return math.sqrt(squares * (n - 1) / n) / float(sizes.sum())


def allowed_draws(level: float, resamples: int) -> int:
    """How many resamples may be as extreme as the data for p ≤ level; below 0 if p cannot be."""
    return math.floor(level * (resamples + 1) * (1 + 1e-12)) - 1


def smallest_flip_p(n_units: int, resamples: int) -> float:
    """The smallest p of random signs: that of the draws, or of all 2^n choices of signs."""
    return max(1 / (resamples + 1), 2.0 ** (1 - n_units))


@dataclass(frozen=True, eq=False)
class _Family:
    """Pairs of systems on the units they share; `parts` are of pairs on the same units."""

    differences: Floats
    errors: Floats
    n_units: int
    parts: tuple[_SameUnits, ...]

    @classmethod
    def of(cls, table: Floats, pairs: Ints, clusters: Any) -> _Family:
        undefined = np.isnan(table)
        if (undefined == undefined[0]).all():
            groups = [(table, np.arange(len(pairs)), pairs)]
        else:  # each pair on the queries that both systems have
            groups = [
                (np.where(undefined[[a, b]].any(axis=0), np.nan, table[[a, b]]), np.array([i]), own)
                for i, (a, b) in enumerate(pairs.tolist())
                for own in [np.array([[0, 1]])]
            ]
        parts = tuple(_SameUnits.of(rows, own, at, clusters) for rows, at, own in groups)
        differences, errors = np.empty(len(pairs)), np.empty(len(pairs))
        for part in parts:
            differences[part.at], errors[part.at] = part.differences, part.errors
        return cls(differences, errors, min(len(part.sizes) for part in parts), parts)

    def infer(self, level: float, resamples: int, seed: int) -> JointPairs:
        least = smallest_flip_p(self.n_units, resamples)
        note = too_few(self.n_units) or ""
        unknown = np.full(len(self.differences), math.nan)
        if note:
            nothing = (unknown, unknown, unknown, unknown, math.nan, level)
            return JointPairs(self.differences, self.errors, *nothing, self.n_units, note)
        statistics = self.statistics
        largest, alone = self._draw(statistics, resamples, seed)
        as_extreme = resamples - np.searchsorted(largest, statistics * (1 - _TIE))
        p = np.maximum((as_extreme + 1) / (resamples + 1), least)
        p[statistics == 0] = 1.0
        allowed = allowed_draws(level, resamples)
        critical = math.inf
        if allowed >= 0 and least <= level:
            critical = float(largest[resamples - 1 - allowed]) / (1 - _TIE)
        low, high = self._ends(critical, level, p)
        each = 2 * t_tail(critical, self.n_units - 1) if math.isfinite(critical) else 0.0
        alone = np.maximum((alone + 1) / (resamples + 1), least)
        alone[statistics == 0] = 1.0
        return JointPairs(
            self.differences,
            self.errors,
            p,
            np.minimum(alone, p),
            low,
            high,
            critical,
            min(max(each, level / len(p) / 100), level),
            self.n_units,
        )

    @property
    def statistics(self) -> Floats:
        """|difference| / error; infinite where all differences are the same number."""
        flat = self.errors == 0
        found: Floats = np.abs(self.differences) / np.where(flat, 1.0, self.errors)
        return np.where(flat & (self.differences != 0), np.inf, found)

    def _draw(self, statistics: Floats, resamples: int, seed: int) -> tuple[Floats, Ints]:
        """The largest statistic of each resample, ascending; for each pair how many reach its."""
        largest = np.zeros(resamples)
        reached = np.zeros(len(statistics), np.int64)
        key = stream_key(seed, "sign flips")
        for part in self.parts:
            for at, drawn in part.draw(key, resamples):
                np.maximum(largest, drawn.max(axis=0), out=largest)
                bar = statistics[at] * (1 - _TIE)
                reached[at] = (drawn >= bar[:, None]).sum(axis=1)
        largest.sort()
        return largest, reached

    def _ends(self, critical: float, level: float, p: Floats) -> tuple[Floats, Floats]:
        """Difference ± critical · error; the side of 0 is that of the p-value, to the last bit."""
        if math.isinf(critical):
            unknown = np.full(len(p), math.nan)
            return unknown, unknown
        sizes = np.abs(self.differences)
        reach = critical * self.errors
        flat = (self.errors == 0) & (sizes > 0)
        reach[flat] = unseen_share(self.n_units, 1 - level / len(p)) * sizes[flat]
        separate = p <= level
        near = np.where(separate, np.maximum(sizes - reach, 1e-12 * sizes), sizes - reach)
        near = np.where(separate, near, np.minimum(near, 0.0))
        far = sizes + reach
        up = self.differences >= 0
        return np.where(up, near, -far), np.where(up, far, -near)


@dataclass(frozen=True, eq=False)
class _SameUnits:
    """Pairs on the same units: what is left of each system's scores after its mean."""

    residuals: Floats  # systems × units, weighted
    sizes: Floats
    pairs: Ints
    at: Ints
    differences: Floats
    errors: Floats

    @classmethod
    def of(cls, table: Floats, pairs: Ints, at: Ints, clusters: Any) -> _SameUnits:
        sums, sizes = units_table(table, clusters)
        total, n = sizes.sum(), len(sizes)
        if n == 0:
            unknown = np.full(len(pairs), math.nan)
            return cls(sums, sizes, pairs, at, unknown, unknown)
        # What a query has of all systems is in no difference; without it the grid is finer.
        sums = sums - sums.mean(axis=0)
        means = np.array([math.fsum(row) for row in sums.tolist()]) / total
        residuals = sums - means[:, None] * sizes
        differences = means[pairs[:, 0]] - means[pairs[:, 1]]
        noise = SAME * float(np.abs(table[~np.isnan(table)]).max(initial=0.0))
        differences[np.abs(differences) <= noise] = 0.0
        weights = unit_weights(sizes)
        squares = np.empty(len(pairs))
        for first, others, rows in _by_first(pairs):
            squares[rows] = (((residuals[others] - residuals[first]) * weights) ** 2).sum(axis=1)
        squares[squares <= n * (2 * noise * sizes.max()) ** 2] = 0.0
        errors = np.sqrt(squares * (n - 1) / n) / total
        return cls(residuals * weights, sizes, pairs, at, differences, errors)

    def draw(self, key: int, resamples: int) -> Iterator[tuple[Ints, Floats]]:
        """For pairs with the same first system, in turn: pairs × resamples, each statistic."""
        n, total = len(self.sizes), float(self.sizes.sum())
        weights = unit_weights(self.sizes) ** 2
        sums = self._flip(self.residuals, key, resamples)
        uneven = bool((self.sizes != self.sizes[0]).any())
        crossed = (
            self._flip(self.residuals * self.sizes * weights, key, resamples) if uneven else None
        )
        size_squares = float((weights * self.sizes**2).sum())
        for first, others, rows in _by_first(self.pairs):
            means = (sums[others] - sums[first]) / total
            if crossed is None:
                cross = means * (total * self.sizes[0] * weights[0])
            else:
                cross = crossed[others] - crossed[first]
            squares = (weights * (self.residuals[others] - self.residuals[first]) ** 2).sum(axis=1)
            squares[self.errors[rows] == 0] = 0.0
            left = squares[:, None] - 2 * means * cross + means**2 * size_squares
            yield self.at[rows], _studentise(np.abs(means), left, squares[:, None], n, total)

    @staticmethod
    def _flip(residuals: Floats, key: int, resamples: int) -> Floats:
        """Sums over units with random signs, the same for all systems: systems × resamples."""
        grid, shift = to_grid(residuals, residuals.shape[1])
        flip = kernels().flip_sums
        return np.stack(
            [
                from_grid(flip(np.ascontiguousarray(row), key, 0, resamples, 0), shift)
                for row in grid
            ]
        )


def _by_first(pairs: Ints) -> Iterator[tuple[int, Ints, Ints]]:
    """First system, second systems, and the places of the pairs, for each first system."""
    for first in np.unique(pairs[:, 0]).tolist():
        rows = np.flatnonzero(pairs[:, 0] == first)
        yield first, pairs[rows, 1], rows


def _studentise(sizes: Floats, left: Floats, squares: Floats, n: int, total: float) -> Floats:
    """The statistic of resamples: means over errors, of residual squares `left`."""
    flat = left <= 1e-12 * squares
    errors = np.sqrt(np.where(flat, 1.0, left) * (n - 1) / n) / total
    found: Floats = np.where(flat, np.where(sizes > 0, np.inf, 0.0), sizes / errors)
    found[(squares == 0)[:, 0]] = 0.0
    return found
