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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from assay.arrays import Floats, Ints, expm1, from_grid, log1p, stream_key, to_grid, words
from assay.core.work import tell
from assay.errors import ShapeError
from assay.native import kernels
from assay.stats import bounded, samples
from assay.stats.bounded import Bounds
from assay.stats.choices import LEVEL, RESAMPLES

BATCH = 128  # pairs at a time
SIGNS = 1 << 22  # random signs at a time: 32 megabytes


# Places of entries in the family, which resamples, and their statistics: entries × resamples.
Drawn = tuple[Ints, slice, Floats]


@dataclass(frozen=True, eq=False)
class SameUnits:
    """Pairs on the same units: what is left of each system's scores after its mean."""

    residuals: Floats  # systems × units, weighted
    sizes: Floats
    units: Ints  # their numbers among the units of the family, of which each has one sign
    n_all: int
    pairs: Ints
    at: Ints
    differences: Floats
    errors: Floats

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.sizes)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the errors."""
        return max(len(self.sizes) - 1.0, 1.0)

    @classmethod
    def of(cls, table: Floats, pairs: Ints, at: Ints, numbers: Ints, n_all: int) -> SameUnits:
        """Return pairs of rows.

        `at` are their places in the family, `numbers` the units of queries.
        """
        complete = ~np.isnan(table).any(axis=0)
        units = np.unique(numbers[complete], return_counts=True)[0]  # without counts it hashes
        sums, sizes = samples.units_table(table, None if len(units) == complete.sum() else numbers)
        total, n = sizes.sum(), len(sizes)
        if n == 0:
            unknown = np.full(len(pairs), math.nan)
            return cls(sums, sizes, units, n_all, pairs, at, unknown, unknown)
        # What a query has of all systems is in no difference; without it the grid is finer.
        sums = sums - sums.mean(axis=0)
        means = np.array([math.fsum(row) for row in sums.tolist()]) / total
        residuals = sums - means[:, None] * sizes
        differences = means[pairs[:, 0]] - means[pairs[:, 1]]
        noise = samples.SAME * float(np.abs(table[:, complete]).max(initial=0.0))
        differences[np.abs(differences) <= noise] = 0.0
        weights = samples.unit_weights(sizes)
        squares = _pair_squares(residuals * weights, pairs)
        squares[squares <= n * (2 * noise * sizes.max()) ** 2] = 0.0
        errors = np.sqrt(squares * (n - 1) / n) / total
        return cls(residuals * weights, sizes, units, n_all, pairs, at, differences, errors)

    def draw(self, key: int, resamples: int) -> Iterator[Drawn]:
        """Return the statistics of pairs with the same first system, in turn."""
        n, total = len(self.sizes), float(self.sizes.sum())
        weights = samples.unit_weights(self.sizes) ** 2
        sums = self._flip(self.residuals, key, resamples)
        uneven = bool((self.sizes != self.sizes[0]).any())
        crossed = (
            self._flip(self.residuals * self.sizes * weights, key, resamples) if uneven else None
        )
        size_squares = float((weights * self.sizes**2).sum())
        for first, seconds, rows in _by_first(self.pairs):
            means = (sums[seconds] - sums[first]) / total
            if crossed is None:
                cross = means * (total * self.sizes[0] * weights[0])
            else:
                cross = crossed[seconds] - crossed[first]
            squares = (weights * (self.residuals[seconds] - self.residuals[first]) ** 2).sum(axis=1)
            squares[self.errors[rows] == 0] = 0.0
            left = squares[:, None] - 2 * means * cross + means**2 * size_squares
            statistics = _studentise(np.abs(means), left, squares[:, None], n, total)
            yield self.at[rows], slice(0, resamples), statistics

    def _flip(self, residuals: Floats, key: int, resamples: int) -> Floats:
        table = np.zeros((len(residuals), self.n_all))
        table[:, self.units] = residuals
        return _flip(table, key, resamples)


@dataclass(frozen=True, eq=False)
class OwnUnits:
    """Pairs of which each rests on the queries that both of its systems have.

    What is left of each pair's differences is multiplied with the random signs as whole numbers on
    a grid so coarse that no sum is rounded, in whatever order it is made.
    """

    table: Floats  # systems × queries, those of a unit side by side
    starts: Ints | None  # where each unit begins; None if each is one query
    units: Ints
    n_all: int
    pairs: Ints
    at: Ints
    n_units: Ints
    differences: Floats
    errors: Floats

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of the errors."""
        freedom: Floats = np.maximum(self.n_units - 1.0, 1.0)
        return freedom

    @classmethod
    def of(cls, table: Floats, pairs: Ints, at: Ints, numbers: Ints, n_all: int) -> OwnUnits:
        """Return pairs of rows, which may have gaps anywhere."""
        order = np.argsort(numbers, kind="stable")
        units, starts = np.unique(numbers[order], return_index=True)
        single = len(units) == len(numbers)
        n_units = np.zeros(len(pairs), np.int64)
        differences, errors = (np.full(len(pairs), math.nan) for _ in range(2))
        summary = (n_units, differences, errors)  # filled batch by batch
        firsts = None if single else starts
        sample = cls(table[:, order], firsts, units, n_all, pairs, at, *summary)
        for rows in sample._batches():
            n_units[rows], differences[rows], errors[rows] = sample._summarise(rows)
        return sample

    def _batches(self) -> Iterator[slice]:
        for first in range(0, len(self.pairs), BATCH):
            yield slice(first, min(first + BATCH, len(self.pairs)))

    def _sums(self, rows: slice) -> tuple[Floats, Floats]:
        """Return sums of differences over each unit, and its number of shared queries."""
        first, second = self.pairs[rows].T
        apart = self.table[first] - self.table[second]
        defined = ~np.isnan(apart)
        sums, sizes = np.where(defined, apart, 0.0), defined.astype(np.float64)
        if self.starts is None:
            return sums, sizes
        return np.add.reduceat(sums, self.starts, axis=1), np.add.reduceat(
            sizes, self.starts, axis=1
        )

    def _summarise(self, rows: slice) -> tuple[Ints, Floats, Floats]:
        """Return units, difference and error of each pair; NaN where it has no query."""
        sums, sizes = self._sums(rows)
        n, total = (sizes > 0).sum(axis=1), np.maximum(sizes.sum(axis=1), 1.0)
        means = np.array([math.fsum(row) for row in sums.tolist()]) / total
        # The largest score of each pair on the queries that both have.
        first, second = np.abs(self.table[self.pairs[rows]]).swapaxes(0, 1)
        shared = np.where(np.isnan(first + second), 0.0, np.fmax(first, second))
        noise = samples.SAME * shared.max(axis=1, initial=0.0)
        means[np.abs(means) <= noise] = 0.0
        squares = ((sums - means[:, None] * sizes) ** 2 * samples.unit_weights(sizes) ** 2).sum(
            axis=1
        )
        squares[squares <= n * (2 * noise * sizes.max(axis=1, initial=0.0)) ** 2] = 0.0
        errors = np.sqrt(squares * (n - 1) / np.maximum(n, 1)) / total
        return n, np.where(n, means, math.nan), np.where(n, errors, math.nan)

    def draw(self, key: int, resamples: int) -> Iterator[Drawn]:
        """Return the statistics of some pairs in some resamples, in turn."""
        count = max(SIGNS // max(self.n_all, 1), 1)
        for start in range(0, resamples, count):
            columns = slice(start, min(start + count, resamples))
            tell("resampling", start, resamples)
            signs = _signs(key, columns, self.n_all)[:, self.units]
            for rows in self._batches():
                yield self.at[rows], columns, self._draw_batch(rows, signs)

    def _draw_batch(self, rows: slice, signs: Floats) -> Floats:
        sums, sizes = self._sums(rows)
        total = np.maximum(sizes.sum(axis=1, keepdims=True), 1.0)
        weights = samples.unit_weights(sizes)
        residuals = (sums - np.nan_to_num(self.differences[rows])[:, None] * sizes) * weights
        means = _exact_product(residuals, signs) / total
        if self.starts is None:
            weight = weights.max(axis=1, keepdims=True, initial=0.0) ** 2
            cross = means * total * weight
        else:
            cross = _exact_product(residuals * sizes * weights**2, signs)
        squares = ((residuals * weights) ** 2).sum(axis=1, keepdims=True)
        squares[(self.errors[rows] == 0) | (self.n_units[rows] < samples.FEWEST)] = 0.0
        size_squares = ((weights * sizes) ** 2).sum(axis=1, keepdims=True)
        left = squares - 2 * means * cross + means**2 * size_squares
        n = np.maximum(self.n_units[rows], samples.FEWEST)[:, None]
        return _studentise(np.abs(means), left, squares, n, total)


def _signs(key: int, resamples: slice, n_units: int) -> Floats:
    """Return the signs that `flip_sums` gives to units, resamples × units."""
    n_words, count = -(-n_units // 64), resamples.stop - resamples.start
    drawn = words(key, resamples.start * n_words, count * n_words).astype("<u8", copy=False)
    bits = np.unpackbits(drawn.view(np.uint8), bitorder="little").reshape(count, -1)
    signs: Floats = 1.0 - 2.0 * bits[:, :n_units].astype(np.float64)
    return signs


def _exact_product(rows: Floats, signs: Floats) -> Floats:
    """Return rows × resamples: each row summed with each choice of signs.

    A float holds whole numbers up to 2^53, so that sums below that are exact.
    """
    exponents = np.frexp(np.abs(rows).max(axis=1, keepdims=True, initial=0.0))[1]
    shift = 52 - exponents - rows.shape[1].bit_length()
    product: Floats = np.ldexp(np.rint(np.ldexp(rows, shift)) @ signs.T, -shift)
    return product


@dataclass(frozen=True, eq=False)
class BlockSum:
    """Pairs on a weighted sum of their differences in blocks.

    The share of each unit in it gets a sign. A resample is studentised as one of `freedom` + 1
    equal units, the number whose variance is known as well as that of the sum (Satterthwaite 1946,
    Biometrics Bulletin 2).
    """

    blocks: tuple[SameUnits, ...]
    weights: tuple[float, ...]
    at: Ints
    n_units: int
    freedom: Floats
    differences: Floats
    errors: Floats

    @classmethod
    def of(cls, blocks: Sequence[SameUnits], weights: Sequence[float], at: Ints) -> BlockSum:
        """Return the sum of blocks with these weights; those without weight are left out."""
        weighed = [(b, w) for b, w in zip(blocks, weights, strict=True) if w]
        used, factors = zip(*weighed, strict=True)
        squares = np.array([(w * b.errors) ** 2 for b, w in zip(used, factors, strict=True)])
        summed = np.array([w * b.differences for b, w in zip(used, factors, strict=True)])
        differences = summed.sum(axis=0)
        differences[np.abs(differences) <= 4 * samples.SAME * np.abs(summed).sum(axis=0)] = 0.0
        few = min(block.n_units for block in used) < samples.FEWEST
        n_units = len(np.unique(np.concatenate([b.units for b in used]), return_counts=True)[0])
        freedom = _satterthwaite(squares, [block.freedom for block in used])
        freedom = np.maximum(np.minimum(freedom, n_units - 1.0), 1.0)
        n = 0 if few else n_units
        total = cls(used, factors, at, n, freedom, differences, np.zeros(len(at)))
        shares = total._shares([math.sqrt(1 - 1 / max(b.n_units, 1)) for b in used])
        errors = np.sqrt(_pair_squares(shares, used[0].pairs))
        return replace(total, errors=np.where((squares == 0).all(axis=0), 0.0, errors))

    def _shares(self, factors: Sequence[Floats | float]) -> Floats:
        """Return each unit's share in the sum (systems × units), times a factor per block."""
        shares = np.zeros((len(self.blocks[0].residuals), self.blocks[0].n_all))
        for block, weight, factor in zip(self.blocks, self.weights, factors, strict=True):
            total = max(float(block.sizes.sum()), 1.0)
            shares[:, block.units] += block.residuals * (weight / total * factor)
        return shares

    def draw(self, key: int, resamples: int) -> Iterator[Drawn]:
        """Return the statistics of pairs with the same first system, in turn."""
        pairs, shares = self.blocks[0].pairs, self._shares([1.0] * len(self.blocks))
        sums = _flip(shares, key, resamples)
        # Each block loses its own mean, which is 1 / n of its squares; all of them together then
        # err as `freedom` + 1 units do.
        again = [np.sqrt(samples.unit_weights(b.sizes) * (1 - 1 / b.n_units)) for b in self.blocks]
        variances = _pair_squares(self._shares(again), pairs) * (1 + 1 / self.freedom)
        variances[self.errors == 0] = 0.0
        most = np.maximum(_pair_squares(shares, pairs) * (self.freedom + 1), 1e-300)
        for first, seconds, rows in _by_first(pairs):
            drawn = np.abs(sums[seconds] - sums[first])
            variance = variances[rows][:, None]
            left = variance * np.maximum(1 - drawn**2 / most[rows][:, None], 0.0)
            yield self.at[rows], slice(0, resamples), _studentise(drawn, left, variance)


def _satterthwaite(squares: Floats, freedoms: Sequence[float]) -> Floats:
    """Return degrees of freedom of a sum of variances, blocks × pairs; infinite where it is 0."""
    parts = squares / np.maximum(squares.sum(axis=0), 1e-300)
    spread = (parts**2 / np.array(freedoms)[:, None]).sum(axis=0)
    freedom: Floats = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1.0), np.inf)
    return freedom


def _flip(residuals: Floats, key: int, resamples: int) -> Floats:
    """Return sums over all units with random signs, shared by all systems.

    The result is systems × resamples.
    """
    grid, shift = to_grid(residuals, residuals.shape[1])
    flip = kernels().flip_sums
    return np.stack(
        [from_grid(flip(np.ascontiguousarray(row), key, 0, resamples, 0), shift) for row in grid]
    )


def _pair_squares(rows: Floats, pairs: Ints) -> Floats:
    """Return Σ (a − b)² over units for each pair of rows."""
    squares = np.empty(len(pairs))
    for first, seconds, at in _by_first(pairs):
        squares[at] = ((rows[seconds] - rows[first]) ** 2).sum(axis=1)
    return squares


def _by_first(pairs: Ints) -> Iterator[tuple[int, Ints | slice, Ints]]:
    """Yield first system, second systems and places of the pairs, for each first system."""
    order = np.argsort(pairs[:, 0], kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(pairs[order, 0])) + 1)[: len(pairs)]:
        seconds = pairs[rows, 1]
        low, high = int(seconds[0]), int(seconds[-1]) + 1
        in_a_row = np.array_equal(seconds, np.arange(low, high))
        yield int(pairs[rows[0], 0]), slice(low, high) if in_a_row else seconds, rows


def _studentise(
    sizes: Floats,
    left: Floats,
    squares: Floats,
    n: Ints | int | None = None,
    total: Floats | float = 1.0,
) -> Floats:
    """Return the statistic of resamples: means over errors, of residual squares `left`."""
    flat = left <= 1e-12 * squares
    share = 1.0 if n is None else (n - 1) / n
    errors = np.sqrt(np.where(flat, 1.0, left) * share) / total
    statistics: Floats = np.where(flat, np.where(sizes > 0, np.inf, 0.0), sizes / errors)
    statistics[(squares == 0)[:, 0]] = 0.0
    return statistics


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

    With `blocks`, the family is all pairs in block 0, then in block 1, …; with `contrasts`, all
    pairs on each of these weighted sums of the differences in blocks: [[1/2, 1/2]] compares the
    mean of two.

    Args:
        values: Systems × queries; queries with a NaN in one of two systems are left out of that
            pair.
        pairs: Pairs of rows.
        clusters: A label for each query; whole groups are flipped.
        blocks: The number of a block for each query, −1 for none.
        contrasts: Rows of a weight for each block.
        level: Significance level of the family.
        resamples: Number of resamples.
        seed: Seed of the draws.
        bounds: The least and the largest score.

    Returns:
        Differences, p-values and simultaneous intervals, an entry for each pair.

    Raises:
        ShapeError: There are too few systems, or labels do not fit the queries.

    Example:
        >>> found = compare_jointly([[0.9, 0.8, 0.9, 0.7, 0.8, 0.9, 0.6, 0.8],
        ...                          [0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.3, 0.2],
        ...                          [0.2, 0.1, 0.1, 0.2, 0.3, 0.1, 0.2, 0.2]], [(0, 1), (1, 2)])
        >>> (found.p <= 0.05).tolist(), (found.low > 0).tolist()
        ([True, False], [True, False])
    """
    table = samples.finite_or_nan(values, "values", dimensions=2)
    if len(table) < 2 or not len(pairs):
        raise ShapeError(f"A comparison needs two systems or more, found shape {table.shape}.")
    samples.check_significance_level(level)
    _check_blocks(table.shape[1], clusters, blocks, contrasts)
    limits = bounded.check_bounds(bounds)
    family = _Family.of(table, np.asarray(pairs, np.int64), clusters, blocks, contrasts, limits)
    result = family.infer(level, samples.check_bootstraps(resamples), samples.check_seed(seed))
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
        raise ShapeError("blocks must be block numbers 0, 1, …, or −1 for none.")
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
        n_all = table.shape[1]  # units have the same numbers in all blocks and pairs
        units, masks = np.arange(n_all), [np.ones(n_all, bool)]
        if blocks is not None:
            numbers = np.asarray(blocks)
            masks = [numbers == number for number in range(int(numbers.max(initial=-1)) + 1)]
        if clusters is not None:
            labels, units = np.unique(np.asarray(clusters), return_inverse=True)
            units, n_all = units.astype(np.int64), len(labels)
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
        span = np.repeat(weights * bounded.span_of(table[~undefined], bounds), n // len(weights))
        differences, errors, freedom = np.empty(n), np.empty(n), np.empty(n)
        n_units = np.empty(n, np.int64)
        for part in parts:
            differences[part.at], errors[part.at] = part.differences, part.errors
            n_units[part.at], freedom[part.at] = part.n_units, part.freedom
        return cls(differences, errors, n_units, freedom, tuple(parts), span)

    def infer(self, level: float, resamples: int, seed: int) -> JointPairs:
        n = int(self.n_units.min())
        testable = self.n_units >= samples.FEWEST
        least = np.array([smallest_flip_p(units, resamples) for units in self.n_units.tolist()])
        statistics = self._scale(self.statistics, np.arange(len(testable)))
        largest, alone = self._draw(statistics, resamples, seed)
        p, smallest = (
            np.maximum((resamples - np.searchsorted(largest, bars) + 1) / (resamples + 1), least)
            for bars in (statistics * (1 - _TIE), self._most * (1 - _TIE))
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
        tail = 0.0  # the level of one test with this c
        if not math.isinf(critical) and self._even:
            tail = 2 * bounded.t_tail(critical, self.freedom[0])
        elif not math.isinf(critical):
            tail = 2 * bounded.normal_cdf(-critical)
        level_of_one = min(max(tail, level / len(p) / 100), level)
        tests = (p, np.minimum(alone, p), low, high, smallest, critical, level_of_one)
        note = samples.too_few(n) or ""
        return JointPairs(self.differences, self.errors, *tests, n, note)

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
        return np.array(
            [-bounded.normal_quantile(2.0 ** -min(n, 1000)) for n in self.n_units.tolist()]
        )

    def _scale(self, statistics: Floats, at: Ints) -> Floats:
        """Convert t statistics to normal ones of equal tail, where units differ in number.

        So each entry has the same share in the error of the family (Beran 1988, JASA 83); the
        normal is that of Wallace (1959, Annals of Mathematical Statistics 30).
        """
        if self._even:
            return statistics
        shape = (-1,) + (1,) * (statistics.ndim - 1)
        freedom, most = self.freedom[at].reshape(shape), self._most[at].reshape(shape)
        scaled = np.sqrt(freedom * log1p(statistics**2 / freedom))
        return np.minimum(scaled * ((8 * freedom + 1) / (8 * freedom + 3)), most)

    def _draw(self, statistics: Floats, resamples: int, seed: int) -> tuple[Floats, Ints]:
        """Return the largest statistic of each resample, ascending.

        For each entry how many reach its.
        """
        largest = np.zeros(resamples)
        reached = np.zeros(len(statistics), np.int64)
        key = stream_key(seed, "sign flips")
        for part in self.parts:
            if np.max(part.n_units) < samples.FEWEST:
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
        scale: Floats = np.full(len(self.freedom), critical)  # the c of each entry
        if not self._even:
            normal = critical * (8 * self.freedom + 3) / (8 * self.freedom + 1)
            squares = np.minimum(normal**2 / self.freedom, 700.0)
            scale = np.sqrt(self.freedom * expm1(squares))
        reach = scale * self.errors
        for flat in np.flatnonzero(self.errors == 0).tolist():
            n = max(int(self.n_units[flat]), 1)
            confidence, span = 1 - level / len(p), float(self.span[flat])
            reach[flat] = bounded.constant_difference_reach(sizes[flat], n, confidence, span)
        separate = p <= level
        near = np.where(separate, np.maximum(sizes - reach, 1e-12 * sizes), sizes - reach)
        near = np.where(separate, near, np.minimum(near, 0.0))
        far = np.where(np.isnan(p) | (least > level), math.nan, sizes + reach)
        near = np.where(np.isnan(far), math.nan, near)
        up = self.differences >= 0
        return np.where(up, near, -far), np.where(up, far, -near)
