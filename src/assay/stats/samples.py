"""Input of tests and intervals: one number per query, aligned, NaN removed.

The bootstrap of a mean: over queries, over groups of queries, or within strata.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, from_grid, offsets_of, stream_key, to_grid
from assay.core.checks import check_cutoff, check_labels, check_lengths, is_real
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.native import kernels
from assay.stats.bounded import normal_cdf, normal_quantile, t_quantile

_LARGEST = 1e100  # beyond, squares would overflow, and below its inverse underflow
_SMALLEST_LEVEL, _LARGEST_LEVEL = 1e-12, 0.5
FEWEST_BOOTSTRAPS = 100
FEWEST = 3  # with fewer values a standard deviation means nothing
SAME = 1e-12  # two scores that differ by less than this share of their size are the same score


@dataclass(frozen=True, eq=False)
class Pairs:
    """Scores of two systems on the same queries, and what was removed to get there."""

    a: Floats
    b: Floats
    differences: Floats
    defined: NDArray[np.bool_]

    @property
    def n_removed(self) -> int:
        """How many pairs had a NaN on one side or both."""
        return int((~self.defined).sum())


def clean_pairs(a: Any, b: Any) -> Pairs:
    """Align by position, remove pairs with a NaN, and take differences.

    A difference that is only rounding noise of the two scores (0.1 + 0.2 against 0.3) is zero.
    """
    left, right = finite_or_nan(a, "a"), finite_or_nan(b, "b")
    check_lengths(a=len(left), b=len(right))
    defined = ~(np.isnan(left) | np.isnan(right))
    left, right = left[defined], right[defined]
    differences = left - right
    noise = np.maximum(SAME * np.maximum(np.abs(left), np.abs(right)), 1 / _LARGEST)
    return Pairs(left, right, np.where(np.abs(differences) <= noise, 0.0, differences), defined)


def finite_or_nan(values: Any, what: str, dimensions: int = 1) -> Floats:
    """Return values as float64.

    NaN (undefined) is allowed, infinity, text and other shapes are not.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iufb":
        raise ValueRangeError(f"{what} must hold numbers, found dtype {array.dtype}.")
    if array.ndim != dimensions:
        shape = "one number per query" if dimensions == 1 else "a row per system, one per query"
        raise ShapeError(f"{what} must have {shape}; found shape {array.shape}.")
    numbers_ = array.astype(np.float64)
    huge = np.abs(numbers_) > _LARGEST
    if huge.any():
        place = tuple(int(i) for i in np.argwhere(huge)[0])
        where = place[0] if dimensions == 1 else place
        raise ValueRangeError(
            f"{what} holds {numbers_[place]} at {where}. Scores are finite (at most 1e100), or NaN "
            "where a measure is undefined."
        )
    return numbers_


def too_few(n: int, what: str = "queries", fewest: int = FEWEST) -> str | None:
    """Return the note in place of a number where there are too few values.

    None if there are enough.
    """
    return f"too few {what} ({n}): at least {fewest} are needed" if n < fewest else None


def check_level(level: Any, name: str = "level", example: float = 0.95) -> float:
    """Return a share strictly between 0 and 1."""
    if not is_real(level) or not 0 < float(level) < 1:
        raise UsageError(f"{name} must lie between 0 and 1, such as {example}; found {level!r}.")
    return float(level)


def check_significance_level(level: Any) -> float:
    """Return the significance level of a test.

    1 − level must still be below 1.
    """
    if not is_real(level) or not _SMALLEST_LEVEL <= float(level) <= _LARGEST_LEVEL:
        text = f"{level:g}" if isinstance(level, float) else repr(level)
        raise UsageError(
            f"level must lie between {_SMALLEST_LEVEL:g} and {_LARGEST_LEVEL:g}, such as 0.05: it "
            f"is the significance level, not the confidence level of intervals; found {text}."
        )
    return float(level)


def check_resamples(resamples: Any) -> int:
    """Return a whole number ≥ 1."""
    return check_cutoff(resamples, "resamples")


def check_bootstraps(resamples: Any) -> int:
    """Return a whole number ≥ 100.

    The ends of an interval are quantiles of what was drawn.
    """
    number = check_resamples(resamples)
    if number < FEWEST_BOOTSTRAPS:
        raise UsageError(
            f"resamples must be {FEWEST_BOOTSTRAPS} or more for a bootstrap interval; "
            f"found {number}. Take 10,000."
        )
    return number


def check_seed(seed: Any) -> int:
    """Return a whole number from 0 to 2^64 − 1."""
    whole = isinstance(seed, numbers.Integral) and not isinstance(seed, bool)
    if not whole or not 0 <= int(seed) < 1 << 64:
        raise UsageError(f"seed must be a whole number from 0 to 2^64 − 1; found {seed!r}.")
    return int(seed)


def check_margin(margin: Any, name: str = "margin") -> float:
    """Return a finite number above zero, in the units of the measure."""
    if not is_real(margin) or not 0 < float(margin) < math.inf:
        raise UsageError(
            f"{name} must be a number above 0, in units of the measure; found {margin!r}."
        )
    return float(margin)


def spell(value: float) -> str:
    """Return four digits for a result's repr; "undefined" for NaN."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"


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
    """Return weights that correct the share of each unit in the mean.

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
class Units:
    """Units of resampling, queries or clusters; those of a stratum are contiguous.

    `sums` and `sizes` are each unit's total and number of queries; stratum h holds the units from
    `offsets[h]` to `offsets[h + 1]`.
    """

    sums: Floats
    sizes: Ints
    offsets: Ints

    @property
    def clustered(self) -> bool:
        """Whether some unit has more than one query."""
        return bool((self.sizes > 1).any())

    @property
    def strata(self) -> Ints:
        """The number of the stratum of each unit."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def fewest(self) -> int:
        """The number of units in the smallest stratum."""
        return int(np.diff(self.offsets).min())

    def t_quantile(self, level: float) -> float:
        """Return Student's factor of an interval, by the effective number of units."""
        freedom = max(effective_number(self.sizes) - (len(self.offsets) - 1), 1.0)
        return -t_quantile((1 - level) / 2, freedom)


def effective_number(sizes: NDArray[Any]) -> float:
    """Return the number of groups of equal size that count like these (Kish 1965, Survey sampling).

    >>> effective_number(np.array([1, 1, 2])).__round__(2)
    2.67
    """
    return float(sizes.sum() ** 2 / (sizes**2).sum()) if len(sizes) else 0.0


def units_of(values: Floats, clusters: Any = None, strata: Any = None) -> Units:
    """Group values into the units that are resampled; labels are one per value."""
    cluster = _codes(clusters, len(values), "clusters")
    stratum = _codes(strata, len(values), "strata")
    if cluster is None:
        cluster = np.arange(len(values))
    if stratum is None:
        stratum = np.zeros(len(values), np.int64)
    n_units = int(cluster.max(initial=-1)) + 1
    stratum_of = np.zeros(n_units, np.int64)
    stratum_of[cluster] = stratum
    agrees = stratum_of[cluster] == stratum
    if not agrees.all():
        row = int(np.argmin(agrees))
        raise MismatchError(
            f"Cluster {clusters[row]!r} lies in more than one stratum (row {row} is in "
            f"{strata[row]!r}). A cluster is resampled as a whole, so it needs one stratum."
        )
    order = np.argsort(stratum_of, kind="stable")
    return Units(
        np.asarray(np.bincount(cluster, values, n_units)[order], np.float64),
        np.bincount(cluster, minlength=n_units).astype(np.int64)[order],
        offsets_of(np.bincount(stratum_of, minlength=1)),
    )


def _codes(labels: Any, n: int, what: str) -> Ints | None:
    if labels is None:
        return None
    array = check_labels(labels, what)
    check_lengths(**{what: len(array), "values": n})
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def bootstrap_means(units: Units, resamples: int, seed: int) -> tuple[Floats, float]:
    """Return means of resampled units, and the units' own mean by equal arithmetic."""
    ((means, observed),) = joint_means([units], resamples, seed)
    return means, observed


def joint_means(family: Sequence[Units], resamples: int, seed: int) -> list[tuple[Floats, float]]:
    """Return `bootstrap_means` of several measures on shared queries, from one set of draws.

    All must have the same sizes and strata. The numbers are those of each measure alone.
    """
    first = family[0]
    n = len(first.sums)
    grids = [to_grid(units.sums, n) for units in family]
    columns = [grid for grid, _ in grids] + ([first.sizes] if first.clustered else [])
    drawn = resample_sums(np.stack(columns, axis=1), first.offsets, resamples, seed)
    totals = drawn[:, -1] if first.clustered else n
    whole = int(first.sizes.sum())
    return [
        (from_grid(drawn[:, number], shift) / totals, float(from_grid(grid.sum(), shift) / whole))
        for number, (grid, shift) in enumerate(grids)
    ]


def bootstrap_t(values: Floats, resamples: int, seed: int) -> Floats:
    """Return the t statistic of each resample about the mean of the sample.

    A resample of one value alone has no spread; its t is infinite.
    """
    n = len(values)
    centred = values - math.fsum(values.tolist()) / n
    grids = [to_grid(column, n) for column in (centred, centred**2)]
    columns = np.stack([grid for grid, _ in grids], axis=1)
    drawn = resample_sums(columns, np.array([0, n]), resamples, seed)
    mean, square = (from_grid(drawn[:, i], grids[i][1]) / n for i in (0, 1))
    variance = np.maximum(square - mean**2, 0) / (n - 1)
    flat = variance * (n - 1) <= 1e-13 * square
    t = mean / np.sqrt(np.where(flat, 1, variance))
    return np.where(mean == 0, 0.0, np.where(flat, np.copysign(np.inf, mean), t))


def resample_sums(columns: Ints, offsets: Ints, resamples: int, seed: int) -> Ints:
    """Sum each column over units drawn with replacement within strata.

    The result is resamples × columns.
    """
    key = stream_key(seed, "bootstrap")
    flat = np.ascontiguousarray(columns).ravel()
    width = columns.shape[1]
    return kernels().bootstrap_sums(flat, width, offsets, key, 0, resamples, 0).reshape(-1, width)


def expanded_z(units: Units, level: float) -> float:
    """Return where to cut the bootstrap distribution: √(n / (n − 1)) · t in place of z.

    A bootstrap is too narrow by √((n − 1) / n), and knows nothing of t; for 50 queries a plain one
    covers some 93 % for 95 (Hesterberg 2015, The American Statistician 69, section 3.3).
    """
    n = len(units.sums)
    freedom = n - (len(units.offsets) - 1)
    return -t_quantile((1 - level) / 2, freedom) * math.sqrt(n / freedom)


def cut_at(means: Floats, low: float, high: float) -> tuple[float, float]:
    """Return interpolated quantiles of resampled means."""
    ends = np.quantile(means, [low, high])
    return float(ends[0]), float(ends[1])


def bca_ends(means: Floats, observed: float, bend: float, z: float) -> tuple[float, float]:
    """Return ends of a BCa interval (Efron 1987) from resampled means.

    `bend` is its acceleration.
    """
    n = len(means)  # ties count half, and the share is never 0 or 1
    share = ((means < observed).sum() + (means <= observed).sum()) / (2 * n)
    bias = normal_quantile(float(min(max(share, 0.5 / n), 1 - 0.5 / n)))
    return cut_at(means, *(_adjust_quantile(bias, bend, end) for end in (-z, z)))


def _adjust_quantile(bias: float, bend: float, z: float) -> float:
    """Return the corrected quantile of z.

    A bend so strong that it turns round gives the very end.
    """
    room = 1 - bend * (bias + z)
    if room <= 0:
        return 1.0 if bias + z > 0 else 0.0
    return normal_cdf(bias + (bias + z) / room)


def acceleration(units: Units) -> float:
    """Return the skewness constant of BCa, from leaving out each unit in turn.

    Influences are centred within strata, and a stratum of m units has weight m⁻³ in the cubes and
    m⁻² in the squares (Davison & Hinkley 1997, section 5.3).
    """
    counts = np.diff(units.offsets)
    left_out = _without_one(units.sums, units) / _without_one(units.sizes, units)
    centre = np.add.reduceat(left_out, units.offsets[:-1]) / counts
    influence = ((counts - 1)[units.strata]) * (centre[units.strata] - left_out)
    per_unit = influence / counts[units.strata]
    largest = float(np.abs(per_unit).max())
    if largest == 0:
        return 0.0
    shares: Floats = per_unit / largest  # so that no cube under- or overflows
    return float((shares**3).sum() / (6 * (shares**2).sum() ** 1.5))


def _without_one(amounts: NDArray[Any], units: Units) -> Floats:
    """Return totals without each unit; the rest of its stratum stands for the whole."""
    counts, stratum = np.diff(units.offsets), units.strata
    in_stratum = np.add.reduceat(amounts, units.offsets[:-1])
    scaled = (in_stratum[stratum] - amounts) * (counts / (counts - 1))[stratum]
    totals: Floats = in_stratum.sum() - in_stratum[stratum] + scaled
    return totals
