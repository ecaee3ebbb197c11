"""Pairs of systems on units (queries or groups): differences, errors, and draws of random signs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.arrays import Floats, Ints, from_grid, to_grid
from assay.core.work import tell
from assay.native import kernels
from assay.native.random_words import words
from assay.stats.samples import FEWEST, SAME

_BATCH = 128  # pairs at a time
_SIGNS = 1 << 22  # random signs at a time: 32 megabytes


# Places of entries in the family, which resamples, and their statistics: entries × resamples.
Drawn = tuple[Ints, slice, Floats]


def units_table(values: Floats, clusters: Any = None) -> tuple[Floats, Floats]:
    """Return sums of each row over each unit (a query or a group), and the sizes of the units.

    Queries with a NaN in any row are left out.
    """
    complete = ~np.isnan(values).any(axis=0)
    if clusters is None:
        return values[:, complete], np.ones(int(complete.sum()))
    labels, codes = np.unique(np.asarray(clusters)[complete], return_inverse=True)
    rows = [np.bincount(codes, row, len(labels)) for row in values[:, complete]]
    return np.array(rows, np.float64), np.bincount(codes, minlength=len(labels)).astype(np.float64)


def unit_weights(sizes: Floats) -> Floats:
    """Return what makes up for the share that each unit has in the mean it is measured against.

    Errors are then those of leaving out each unit in turn, which hold for groups of uneven size
    (MacKinnon, Nielsen & Webb 2023, Journal of Econometrics 232); for equal sizes they are s / √n.
    `sizes` may be rows, one for each pair.
    """
    total = sizes.sum(axis=-1, keepdims=True)
    weights: Floats = total / np.maximum(total - sizes, 1.0)
    return weights


def unit_error(residuals: Floats, sizes: Floats) -> float:
    """Return the standard error of a mean over all queries from the residuals of units."""
    n = len(sizes)
    squares = float(((residuals * unit_weights(sizes)) ** 2).sum())
    return math.sqrt(squares * (n - 1) / n) / float(sizes.sum())


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
        units = np.unique(numbers[complete])
        sums, sizes = units_table(table, None if len(units) == complete.sum() else numbers)
        total, n = sizes.sum(), len(sizes)
        if n == 0:
            unknown = np.full(len(pairs), math.nan)
            return cls(sums, sizes, units, n_all, pairs, at, unknown, unknown)
        # What a query has of all systems is in no difference; without it the grid is finer.
        sums = sums - sums.mean(axis=0)
        means = np.array([math.fsum(row) for row in sums.tolist()]) / total
        residuals = sums - means[:, None] * sizes
        differences = means[pairs[:, 0]] - means[pairs[:, 1]]
        noise = SAME * float(np.abs(table[:, complete]).max(initial=0.0))
        differences[np.abs(differences) <= noise] = 0.0
        weights = unit_weights(sizes)
        squares = _pair_squares(residuals * weights, pairs)
        squares[squares <= n * (2 * noise * sizes.max()) ** 2] = 0.0
        errors = np.sqrt(squares * (n - 1) / n) / total
        return cls(residuals * weights, sizes, units, n_all, pairs, at, differences, errors)

    def draw(self, key: int, resamples: int) -> Iterator[Drawn]:
        """Return the statistics of pairs with the same first system, in turn."""
        n, total = len(self.sizes), float(self.sizes.sum())
        weights = unit_weights(self.sizes) ** 2
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
        """As `SameUnits.of`, with gaps in any place."""
        order = np.argsort(numbers, kind="stable")
        units, starts = np.unique(numbers[order], return_index=True)
        single = len(units) == len(numbers)
        n_units = np.zeros(len(pairs), np.int64)
        differences, errors = (np.full(len(pairs), math.nan) for _ in range(2))
        sample = cls(
            table[:, order],
            None if single else starts,
            units,
            n_all,
            pairs,
            at,
            n_units,
            differences,
            errors,
        )
        for rows in sample._batches():
            n_units[rows], differences[rows], errors[rows] = sample._summarise(rows)
        return sample

    def _batches(self) -> Iterator[slice]:
        for first in range(0, len(self.pairs), _BATCH):
            yield slice(first, min(first + _BATCH, len(self.pairs)))

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
        noise = SAME * self._largest(rows)
        means[np.abs(means) <= noise] = 0.0
        squares = ((sums - means[:, None] * sizes) ** 2 * unit_weights(sizes) ** 2).sum(axis=1)
        squares[squares <= n * (2 * noise * sizes.max(axis=1, initial=0.0)) ** 2] = 0.0
        errors = np.sqrt(squares * (n - 1) / np.maximum(n, 1)) / total
        return n, np.where(n, means, math.nan), np.where(n, errors, math.nan)

    def _largest(self, rows: slice) -> Floats:
        """Return the largest score of each pair on the queries that both have."""
        first, second = np.abs(self.table[self.pairs[rows]]).swapaxes(0, 1)
        shared = np.where(np.isnan(first + second), 0.0, np.fmax(first, second))
        largest: Floats = shared.max(axis=1, initial=0.0)
        return largest

    def draw(self, key: int, resamples: int) -> Iterator[Drawn]:
        """Return the statistics of some pairs in some resamples, in turn."""
        count = max(_SIGNS // max(self.n_all, 1), 1)
        for start in range(0, resamples, count):
            columns = slice(start, min(start + count, resamples))
            tell("resampling", start, resamples)
            signs = _signs(key, columns, self.n_all)[:, self.units]
            for rows in self._batches():
                yield self.at[rows], columns, self._draw_batch(rows, signs)

    def _draw_batch(self, rows: slice, signs: Floats) -> Floats:
        sums, sizes = self._sums(rows)
        total = np.maximum(sizes.sum(axis=1, keepdims=True), 1.0)
        weights = unit_weights(sizes)
        residuals = (sums - self._means(rows) * sizes) * weights
        means = _exact_product(residuals, signs) / total
        if self.starts is None:
            weight = weights.max(axis=1, keepdims=True, initial=0.0) ** 2
            cross = means * total * weight
        else:
            cross = _exact_product(residuals * sizes * weights**2, signs)
        squares = ((residuals * weights) ** 2).sum(axis=1, keepdims=True)
        squares[(self.errors[rows] == 0) | (self.n_units[rows] < FEWEST)] = 0.0
        size_squares = ((weights * sizes) ** 2).sum(axis=1, keepdims=True)
        left = squares - 2 * means * cross + means**2 * size_squares
        n = np.maximum(self.n_units[rows], FEWEST)[:, None]
        return _studentise(np.abs(means), left, squares, n, total)

    def _means(self, rows: slice) -> Floats:
        return np.nan_to_num(self.differences[rows])[:, None]


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
        differences[np.abs(differences) <= 4 * SAME * np.abs(summed).sum(axis=0)] = 0.0
        few = min(block.n_units for block in used) < FEWEST
        n_units = len(np.unique(np.concatenate([block.units for block in used])))
        freedom = _satterthwaite(squares, [block.freedom for block in used])
        total = cls(
            used,
            factors,
            at,
            0 if few else n_units,
            np.maximum(np.minimum(freedom, n_units - 1.0), 1.0),
            differences,
            np.zeros(len(at)),
        )
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
        again = [np.sqrt(unit_weights(b.sizes) * (1 - 1 / b.n_units)) for b in self.blocks]
        variances = _pair_squares(self._shares(again), pairs) * (1 + 1 / self.freedom)
        variances[self.errors == 0] = 0.0
        most = np.maximum(_pair_squares(shares, pairs) * (self.freedom + 1), 1e-300)
        for first, seconds, rows in _by_first(pairs):
            drawn = np.abs(sums[seconds] - sums[first])
            variance = variances[rows][:, None]
            left = variance * np.maximum(1 - drawn**2 / most[rows][:, None], 0.0)
            yield self.at[rows], slice(0, resamples), _studentise(drawn, left, variance)


def _satterthwaite(squares: Floats, freedoms: Sequence[float]) -> Floats:
    """Degrees of freedom of a sum of variances, blocks × pairs; infinite where it is 0."""
    parts = squares / np.maximum(squares.sum(axis=0), 1e-300)
    spread = (parts**2 / np.array(freedoms)[:, None]).sum(axis=0)
    freedom: Floats = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1.0), np.inf)
    return freedom


def _flip(residuals: Floats, key: int, resamples: int) -> Floats:
    """Return sums over all units with random signs, the same for all systems.

    The result is systems × resamples.
    """
    grid, shift = to_grid(residuals, residuals.shape[1])
    flip = kernels().flip_sums
    return np.stack(
        [from_grid(flip(np.ascontiguousarray(row), key, 0, resamples, 0), shift) for row in grid]
    )


def _pair_squares(rows: Floats, pairs: Ints) -> Floats:
    """Σ (a − b)² over units for each pair of rows."""
    squares = np.empty(len(pairs))
    for first, seconds, at in _by_first(pairs):
        squares[at] = ((rows[seconds] - rows[first]) ** 2).sum(axis=1)
    return squares


def _by_first(pairs: Ints) -> Iterator[tuple[int, Ints | slice, Ints]]:
    """First system, second systems, and the places of the pairs, for each first system."""
    for first in np.unique(pairs[:, 0]).tolist():
        rows = np.flatnonzero(pairs[:, 0] == first)
        seconds = pairs[rows, 1]
        low, high = int(seconds[0]), int(seconds[-1]) + 1
        in_a_row = np.array_equal(seconds, np.arange(low, high))
        yield first, slice(low, high) if in_a_row else seconds, rows


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
