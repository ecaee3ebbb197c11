"""The bootstrap of a mean: over queries, over groups of queries, or within strata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, from_grid, offsets_of, to_grid
from assay.core.checks import check_labels, check_lengths
from assay.errors import MismatchError
from assay.native import kernels
from assay.native.random_words import stream_key
from assay.stats.special import normal_cdf, normal_quantile, t_quantile


@dataclass(frozen=True, eq=False)
class Units:
    """What is resampled as a whole: a query or a cluster. Units of a stratum are contiguous.

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
    _check_nested(stratum_of[cluster] == stratum, clusters, strata)
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


def _check_nested(agrees: NDArray[np.bool_], clusters: Any, strata: Any) -> None:
    if not agrees.all():
        row = int(np.argmin(agrees))
        raise MismatchError(
            f"Cluster {clusters[row]!r} lies in more than one stratum (row {row} is in "
            f"{strata[row]!r}). A cluster is resampled as a whole, so it needs one stratum."
        )


def bootstrap_means(units: Units, resamples: int, seed: int) -> tuple[Floats, float]:
    """Means of resampled units, and the mean of the units themselves by the same arithmetic."""
    ((means, observed),) = joint_means([units], resamples, seed)
    return means, observed


def joint_means(family: Sequence[Units], resamples: int, seed: int) -> list[tuple[Floats, float]]:
    """`bootstrap_means` of several measures on the same queries, which share one set of draws.

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
        (
            from_grid(drawn[:, number], shift) / totals,
            float(from_grid(grid.sum(), shift) / whole),
        )
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
    """Where to cut the bootstrap distribution, in normal units: √(n / (n − 1)) · t instead of z.

    A bootstrap is too narrow by √((n − 1) / n), and knows nothing of t; for 50 queries a plain one
    covers some 93 % for 95 (Hesterberg 2015, The American Statistician 69, section 3.3).
    """
    n = len(units.sums)
    freedom = n - (len(units.offsets) - 1)
    return -t_quantile((1 - level) / 2, freedom) * math.sqrt(n / freedom)


def cut_at(means: Floats, low: float, high: float) -> tuple[float, float]:
    """Quantiles of resampled means, interpolated."""
    ends = np.quantile(means, [low, high])
    return float(ends[0]), float(ends[1])


def bca_ends(means: Floats, observed: float, bend: float, z: float) -> tuple[float, float]:
    """Return ends of a BCa interval (Efron 1987) from resampled means.

    `bend` is its acceleration.
    """
    bias = normal_quantile(_share_below(means, observed))
    return cut_at(means, *(_adjust_quantile(bias, bend, end) for end in (-z, z)))


def _share_below(means: Floats, observed: float) -> float:
    """Return share of resampled means below the observed one, ties counted half.

    Never 0 or 1.
    """
    n = len(means)
    share = ((means < observed).sum() + (means <= observed).sum()) / (2 * n)
    return float(min(max(share, 0.5 / n), 1 - 0.5 / n))


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
    """Totals without each unit; the rest of its stratum is scaled up to stand for the whole."""
    counts, stratum = np.diff(units.offsets), units.strata
    in_stratum = np.add.reduceat(amounts, units.offsets[:-1])
    scaled = (in_stratum[stratum] - amounts) * (counts / (counts - 1))[stratum]
    totals: Floats = in_stratum.sum() - in_stratum[stratum] + scaled
    return totals
