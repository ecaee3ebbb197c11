"""Confidence intervals for a mean over queries."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core.checks import as_list, check_choice, check_lengths
from assay.errors import UsageError, ValueRangeError
from assay.stats.bootstrap import (
    Units,
    acceleration,
    bca_ends,
    bootstrap_means,
    bootstrap_t,
    cut_at,
    expanded_z,
    joint_means,
    units_of,
)
from assay.stats.samples import (
    check_bootstraps,
    check_level,
    check_resamples,
    check_seed,
    clean_pairs,
    finite_or_nan,
    spell,
    too_few,
)
from assay.stats.special import normal_cdf, normal_quantile, t_quantile

__all__ = [
    "INTERVAL_METHODS",
    "Interval",
    "difference_interval",
    "interval",
    "interval_method",
    "intervals",
]


_BOOTSTRAPS = ("bca", "percentile", "studentised")
_MOST_DRAWN = 5000  # with more, the mean is as good as normal and a bootstrap only slower
_FEWEST_DRAWN = 8  # with fewer, a bootstrap is too narrow: resamples of one value reach its tails
_CONSTANT = "all values are equal, so no variation was seen"
INTERVAL_METHODS = ("bca", "percentile", "studentised", "t", "wilson")
_NAMES = {
    "bca": "BCa",
    "percentile": "percentile",
    "studentised": "studentised",
    "t": "Student t",
    "wilson": "Wilson",
    "two-way": "two-way bootstrap",
}


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval around it.

    `low` and `high` are NaN, and `note` says why, where there are too few values. `n` values
    were used and `n_removed` left out because they are NaN; `resamples` is 0 and `seed` None where
    nothing was drawn.
    """

    estimate: float
    low: float
    high: float
    level: float
    method: str
    n: int
    resamples: int = 0
    seed: int | None = None
    n_removed: int = 0
    note: str = ""

    @property
    def half_width(self) -> float:
        """Half the distance between the ends."""
        return (self.high - self.low) / 2

    def within(self, low: float, high: float) -> Interval:
        """The same, clipped to the range of the measure, which Student's interval ignores."""
        ends = np.clip([self.low, self.high], low, high).tolist()  # NaN stays NaN
        return replace(self, low=ends[0], high=ends[1])

    def __contains__(self, value: float) -> bool:
        """Whether a value lies inside; nothing lies inside an undefined interval."""
        return self.low <= value <= self.high

    def __repr__(self) -> str:
        """Estimate, ends, and what they are."""
        ends = "no interval" if math.isnan(self.low) else f"[{spell(self.low)}, {spell(self.high)}]"
        what = f"{self.level * 100:g} % {_NAMES[self.method]}, n={self.n}"
        removed = f", {self.n_removed} removed" if self.n_removed else ""
        note = f"; {self.note}" if self.note else ""
        return f"Interval({spell(self.estimate)} {ends}, {what}{removed}{note})"


def interval_method(n: int) -> str:
    """The method for n independent values, or n clusters: bca where a bootstrap pays, else t.

    >>> interval_method(7), interval_method(8)
    ('t', 'bca')
    """
    return "bca" if _FEWEST_DRAWN <= n <= _MOST_DRAWN else "t"


def interval(
    values: Any,
    *,
    method: str = "bca",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    clusters: Any = None,
    strata: Any = None,
) -> Interval:
    """Interval for the mean of `values`, one per query; NaN values are removed and counted.

    `method` is bca (bootstrap, corrected for bias and skew), percentile (plain bootstrap),
    studentised (bootstrap t, the best of them for few and skewed values), t, or wilson (values
    0 and 1 only). The first three need 8 values (clusters) or more. With `clusters`, one label per
    value, whole groups are resampled: queries of one scene or user are not independent. With
    `strata` the number drawn from each stratum is fixed.

    >>> interval([0.2, 0.5, 0.4, 0.9, 0.6, 0.3], method="t")
    Interval(0.4833 [0.2227, 0.7439], 95 % Student t, n=6)
    """
    plan = _plan(method, level, resamples, seed)
    sample = _sample(finite_or_nan(values, "values"), plan.method, clusters, strata)
    return _fill(plan, sample, None)


def intervals(
    values: Any,
    *,
    method: str = "bca",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    clusters: Any = None,
    strata: Any = None,
) -> list[Interval]:
    """Intervals for each row of measures × queries: what `interval` gives for each, but faster.

    Measures that are defined on the same queries share their draws.
    """
    plan = _plan(method, level, resamples, seed)
    rows = finite_or_nan(values, "values", dimensions=2)
    samples = [_sample(row, plan.method, clusters, strata) for row in rows]
    drawn: dict[int, tuple[Floats, float]] = {}
    if plan.method in ("bca", "percentile"):
        alike: dict[bytes, list[int]] = {}
        for number, sample in enumerate(samples):
            if not _why_not(sample, plan.method):
                alike.setdefault(sample.kept.tobytes(), []).append(number)
        for numbers in alike.values():
            family = [samples[number].units for number in numbers]
            drawn.update(zip(numbers, joint_means(family, plan.resamples, seed), strict=True))
    return [_fill(plan, sample, drawn.get(number)) for number, sample in enumerate(samples)]


def difference_interval(
    a: Any,
    b: Any,
    *,
    method: str = "bca",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    clusters: Any = None,
    strata: Any = None,
) -> Interval:
    """Interval for the mean of a − b on the same queries; see `interval`.

    >>> difference_interval([0.2, 0.5, 0.4, 0.9], [0.1, 0.5, 0.2, 0.6], method="t")
    Interval(0.1500 [-0.0554, 0.3554], 95 % Student t, n=4)
    """
    pairs = clean_pairs(a, b)
    if method == "wilson":
        raise UsageError("Wilson's interval is for one share, not for a difference; use bca or t.")
    kept = pairs.kept
    differences = np.full(len(kept), np.nan)
    differences[kept] = pairs.differences
    return interval(
        differences,
        method=method,
        level=level,
        resamples=resamples,
        seed=seed,
        clusters=clusters,
        strata=strata,
    )


def _plan(method: str, level: float, resamples: int, seed: int) -> Interval:
    """Check the arguments; the numbers are still to be filled in."""
    name = check_choice(method, INTERVAL_METHODS, "method")
    empty = Interval(math.nan, math.nan, math.nan, check_level(level), name, 0)
    drawn = name in _BOOTSTRAPS
    resamples = check_bootstraps(resamples) if drawn else check_resamples(resamples)
    seed = check_seed(seed)
    return replace(empty, resamples=resamples, seed=seed) if drawn else empty


@dataclass(frozen=True, eq=False)
class _Sample:
    """Values that are not NaN, where they stood, and the units to resample."""

    values: Floats
    kept: NDArray[np.bool_]
    units: Units


def _sample(values: Floats, method: str, clusters: Any, strata: Any) -> _Sample:
    kept = ~np.isnan(values)
    labels = (_select_labels(clusters, kept, "clusters"), _select_labels(strata, kept, "strata"))
    _check_method(method, values[kept], grouped=labels != (None, None))
    return _Sample(values[kept], kept, units_of(values[kept], *labels))


def _select_labels(labels: Any, kept: NDArray[np.bool_], what: str) -> Any:
    """The labels of the values that are not NaN."""
    if labels is None:
        return None
    each = as_list(labels, what)
    check_lengths(**{what: len(each), "values": len(kept)})
    return [label for label, keep in zip(each, kept, strict=True) if keep]


def _fill(plan: Interval, sample: _Sample, drawn: tuple[Floats, float] | None) -> Interval:
    """Complete the interval; `drawn` are resampled means, if they are there already."""
    n = len(sample.values)
    plan = replace(plan, n=n, n_removed=int((~sample.kept).sum()))
    if n:
        plan = replace(plan, estimate=math.fsum(sample.values.tolist()) / n)
    note = _why_not(sample, plan.method)
    if note:
        ends = (plan.estimate,) * 2 if note == _CONSTANT else (math.nan, math.nan)
        return replace(plan, low=ends[0], high=ends[1], note=note, resamples=0, seed=None)
    low, high = _ends(plan, sample.units, drawn)
    if not (math.isfinite(low) and math.isfinite(high)):
        return replace(plan, note="too many resamples without any spread; use bca")
    return replace(plan, low=low, high=high)


def _why_not(sample: _Sample, method: str) -> str:
    """Say why there is nothing to compute; empty if there is."""
    note = too_few(len(sample.values)) or _too_few_units(sample.units)
    if not note and method in _BOOTSTRAPS:
        note = _too_few_to_draw(sample.units)
    if note:
        return note
    constant = sample.values.min() == sample.values.max()
    return _CONSTANT if constant and method != "wilson" else ""


def _ends(plan: Interval, units: Units, drawn: tuple[Floats, float] | None) -> tuple[float, float]:
    if plan.method == "wilson":
        return _wilson(plan.estimate, plan.n, plan.level)
    if plan.method == "t":
        return _student(units, plan)
    if plan.method == "studentised":
        return _studentised(units, plan)
    means, observed = drawn or bootstrap_means(units, plan.resamples, plan.seed or 0)
    z = expanded_z(units, plan.level)
    if plan.method == "bca":
        return bca_ends(means, observed, acceleration(units), z)
    return cut_at(means, normal_cdf(-z), normal_cdf(z))


def _too_few_units(units: Units) -> str | None:
    """Clusters are what varies, and a stratum of one unit shows no variation at all."""
    if units.clustered and too_few(len(units.sums)):
        return too_few(len(units.sums), "clusters")
    if len(units.offsets) > 2 and units.fewest < 2:
        return "too few units in a stratum: 1, at least 2 are needed"
    return None


def _too_few_to_draw(units: Units) -> str | None:
    what = "clusters" if units.clustered else "queries"
    note = too_few(len(units.sums), what, _FEWEST_DRAWN)
    return note and f"{note} for a bootstrap; use t"


def _check_method(method: str, values: Floats, *, grouped: bool) -> None:
    if grouped and method in ("wilson", "studentised"):
        raise UsageError(
            f"method={method!r} supports no clusters or strata; use bca, percentile or t."
        )
    odd = (values != 0) & (values != 1)
    if method == "wilson" and odd.any():
        row = int(np.argmax(odd))
        raise ValueRangeError(
            f"Wilson's interval is for values 0 and 1; value {row} is {values[row]}. "
            "Use bca, percentile or t for other measures."
        )


def _wilson(share: float, n: int, level: float) -> tuple[float, float]:
    z = -normal_quantile((1 - level) / 2)
    centre = share + z * z / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (centre - reach) / (1 + z * z / n), (centre + reach) / (1 + z * z / n)
    return (0.0 if share == 0 else low), (1.0 if share == 1 else high)


def _student(units: Units, plan: Interval) -> tuple[float, float]:
    freedom = len(units.sums) - (len(units.offsets) - 1)
    reach = -t_quantile((1 - plan.level) / 2, freedom) * standard_error(units)
    return plan.estimate - reach, plan.estimate + reach


def standard_error(units: Units) -> float:
    """Standard error of the mean over all queries, with units as what varies.

    For single queries this is s / √n; for clusters the linearised error of a ratio of sums.
    """
    total = int(units.sizes.sum())
    residuals = units.sums - units.sums.sum() / total * units.sizes
    return math.sqrt(_stratum_squares(residuals, units)) / total


def _stratum_squares(residuals: Floats, units: Units) -> float:
    counts = np.diff(units.offsets)
    means = np.add.reduceat(residuals, units.offsets[:-1]) / counts
    squares = (residuals - means[units.strata]) ** 2
    return float((squares * (counts / (counts - 1))[units.strata]).sum())


def _studentised(units: Units, plan: Interval) -> tuple[float, float]:
    tail = (1 - plan.level) / 2
    drawn = np.sort(bootstrap_t(units.sums, plan.resamples, plan.seed or 0))
    places = [math.floor(tail * len(drawn)), math.ceil((1 - tail) * len(drawn)) - 1]
    low, high = (float(drawn[place]) for place in places)
    error = standard_error(units)
    return plan.estimate - high * error, plan.estimate - low * error
