"""Confidence intervals of a mean over queries, and of a number that is no mean (jackknife).

The interval that a test implies: all differences that the test would not reject.

A p-value is then at most α exactly if the interval leaves out 0. Under random signs the differences
of the queries in a random subset, whose mean is at most θ, are as extreme as the data about θ; so
the ends are order statistics of the means of random subsets (Hartigan 1969, JASA 64).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, exp, from_grid, log, or_none, stream_key, to_grid
from assay.core.checks import as_list, check_choice, check_lengths
from assay.core.text import bracket, interval_heading
from assay.errors import UsageError, ValueRangeError
from assay.native import kernels
from assay.stats import bounded, samples
from assay.stats.bounded import Bounds
from assay.stats.choices import CONFIDENCE, INTERVAL, INTERVALS, RESAMPLES
from assay.stats.joint import allowed_draws
from assay.stats.samples import Units
from assay.stats.tests import EXACT_SIGNS_UP_TO, TestResult, paired_test, signs_of_all
from assay.tables.table import Cell

_BOOTSTRAPS = ("bca", "percentile", "studentised")
_MOST_DRAWN = 5000  # with more, the mean is as good as normal and a bootstrap only slower
_FEWEST_DRAWN = 8  # with fewer, a bootstrap is too narrow: resamples of one value reach its tails
_UNEVEN = 0.9  # effective groups as a share of groups
_CONSTANT = "all values are equal, so no variation was seen"
_NO_BOUNDS = f"{_CONSTANT}; give the bounds of the measure for an interval"
INTERVAL_METHODS = (*INTERVALS, "wilson")
INTERVAL_NAMES = {
    "auto": "for the kind of values",
    "bca": "BCa",
    "percentile": "percentile",
    "studentised": "studentised",
    "t": "Student t",
    "score": "score-test",
    "wilson": "Wilson",
    "unseen": "Clopper–Pearson of what was not seen",
    "two-way": "two-way",
    "jackknife": "jackknife",
    "randomisation": "inverted randomisation",
    "bootstrap": "symmetric bootstrap t",
    "max-t": "simultaneous max-t",
    "tukey": "simultaneous randomised Tukey HSD",
    "order": "order statistics",
}


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval around it.

    `low` and `high` are NaN, and `note` says why, where there are too few values. `n` values
    were used and `n_removed` left out because they are NaN; `resamples` is 0 and `seed` None where
    nothing was drawn. `groups` is the effective number of groups, None where queries have none.
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
    groups: float | None = None

    @property
    def half_width(self) -> float:
        """Half the distance between the ends."""
        return (self.high - self.low) / 2

    @property
    def kind(self) -> str:
        """The method in words, such as BCa."""
        return INTERVAL_NAMES[self.method]

    def text(self, *, sign: bool = False) -> str | None:
        """Return the ends as `[0.1234, 0.5678]`, with signs if wanted; None where there are none.

        >>> Interval(0.5, 0.25, 0.75, 0.95, "t", 9).text(sign=True)
        '[+0.2500, +0.7500]'
        """
        return bracket(self.low, self.high, sign=sign)

    def cell(self, *, sign: bool = False) -> Cell:
        """Return the ends as a cell of a table."""
        return Cell(self.text(sign=sign), "figure")

    def words(self, spell: Callable[[float], str]) -> str:
        """Return level and ends as people say them, each end spelled by a function.

        >>> Interval(0.5, 0.25, 0.75, 0.95, "t", 9).words("{:.1f}".format)
        '95 % CI 0.2 to 0.8'
        """
        return f"{self.heading(self.level)} {spell(self.low)} to {spell(self.high)}"

    def sentence(self) -> str:
        """Return the ends inside a sentence: `[0.1234, 0.5678]` or `no interval`."""
        return self.text() or "no interval"

    @staticmethod
    def heading(level: float = CONFIDENCE) -> str:
        """Return the heading of a column of intervals of this confidence level.

        >>> Interval.heading()
        '95 % CI'
        """
        return interval_heading(level)

    def to_dict(self, name: str = "estimate") -> dict[str, float | None]:
        """Return estimate (under this name) and ends as plain data; undefined numbers are None."""
        return {name: or_none(self.estimate), "low": or_none(self.low), "high": or_none(self.high)}

    def __neg__(self) -> Interval:
        return replace(self, estimate=-self.estimate, low=-self.high, high=-self.low)

    def within(self, low: float, high: float) -> Interval:
        """Return the interval clipped to the range of the measure, which Student's ignores."""
        ends = np.clip([self.low, self.high], low, high).tolist()  # NaN stays NaN
        return replace(self, low=ends[0], high=ends[1])

    def of_difference(self, bounds: Bounds | None) -> Interval:
        """Return the interval clipped to how far two values within these bounds can differ."""
        width = math.inf if bounds is None else bounds[1] - bounds[0]
        return self.within(-width, width)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __repr__(self) -> str:
        ends = (
            "no interval"
            if math.isnan(self.low)
            else f"[{samples.spell(self.low)}, {samples.spell(self.high)}]"
        )
        what = f"{self.level * 100:g} % {self.kind}, n={self.n}"
        if self.groups is not None:
            what += f" in {self.groups:.1f} effective groups"
        removed = f", {self.n_removed} removed" if self.n_removed else ""
        note = f"; {self.note}" if self.note else ""
        return f"Interval({samples.spell(self.estimate)} {ends}, {what}{removed}{note})"


def interval(
    values: Any,
    *,
    method: str = INTERVAL,
    level: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    clusters: Any = None,
    strata: Any = None,
    bounds: Bounds | None = None,
) -> Interval:
    """Return the interval for the mean of `values`, one per query.

    auto takes the score interval where the `bounds` of the measure are known, Wilson's for zeros
    and ones; else bca, and t for groups, fewer than 8 values or more than 5,000. score is Wilson's
    with the number of zeros and ones that would be as uncertain; bca (bootstrap, corrected for bias
    and skew), percentile (plain bootstrap) and studentised (bootstrap t) need 8 values (clusters)
    or more. With `clusters`, one label per value, whole groups vary: queries of one scene or user
    are not independent. With `strata` the number drawn from each stratum is fixed. `bounds` are the
    least and the largest value of the measure: no end lies outside, and values that are all equal
    have an interval of what may not have been seen.

    Args:
        values: A number for each query; NaN values are removed and counted.
        method: auto, score, bca, percentile, studentised, t or wilson.
        level: Confidence level.
        resamples: Number of resamples.
        seed: Seed of the draws.
        clusters: A label for each value; whole groups vary.
        strata: A label for each value; the number drawn from each stratum is fixed.
        bounds: The least and the largest value of the measure.

    Returns:
        The mean and its interval.

    Raises:
        UsageError: An argument is out of range.
        ValueRangeError: Values do not suit the method.

    Example:
        >>> interval([0.2, 0.5, 0.4, 0.9, 0.6, 0.3], method="t")
        Interval(0.4833 [0.2227, 0.7439], 95 % Student t, n=6)
        >>> interval([0.2, 0.5, 0.4, 0.9, 0.6, 0.3], bounds=(0, 1))
        Interval(0.4833 [0.2418, 0.7329], 95 % score-test, n=6)
        >>> interval([1] * 30)
        Interval(1.0000 [0.8865, 1.0000], 95 % Wilson, n=30)
    """
    plan = _plan(method, level, resamples, seed)
    sample = _sample(samples.finite_or_nan(values, "values"), plan.method, clusters, strata)
    return _fill(plan, sample, bounded.check_bounds(bounds), None)


def intervals(
    values: Any,
    *,
    method: str = INTERVAL,
    level: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    clusters: Any = None,
    strata: Any = None,
    bounds: Sequence[Bounds | None] | None = None,
) -> list[Interval]:
    """Return intervals for each row of measures × queries, faster than one by one.

    Measures that are defined on the same queries share their draws; each interval is what
    `interval` gives.

    Args:
        values: Measures × queries.
        method: auto, score, bca, percentile, studentised, t or wilson.
        level: Confidence level.
        resamples: Number of resamples.
        seed: Seed of the draws.
        clusters: A label for each value; whole groups are resampled.
        strata: A label for each value; the number drawn from each stratum is fixed.
        bounds: A pair for each row, None where there are none.

    Returns:
        An interval for each row.

    Raises:
        UsageError: An argument is out of range.

    Example:
        >>> [each.n for each in intervals([[0.2, 0.5, 0.4], [0.1, 0.3, 0.9]], method="t")]
        [3, 3]
    """
    plan = _plan(method, level, resamples, seed)
    rows = samples.finite_or_nan(values, "values", dimensions=2)
    limits = [None] * len(rows) if bounds is None else list(map(bounded.check_bounds, bounds))
    check_lengths(bounds=len(limits), values=len(rows))
    measures = [_sample(row, plan.method, clusters, strata) for row in rows]
    drawn: dict[int, tuple[Floats, float]] = {}
    alike: dict[bytes, list[int]] = {}
    for number, (sample, limit) in enumerate(zip(measures, limits, strict=True)):
        is_drawn = _choose(plan.method, sample, limit) in ("bca", "percentile")
        if is_drawn and not _why_not(sample, "bca") and np.ptp(sample.values):
            alike.setdefault(sample.defined.tobytes(), []).append(number)
    for numbers in alike.values():
        family = [measures[number].units for number in numbers]
        drawn.update(zip(numbers, samples.joint_means(family, plan.resamples, seed), strict=True))
    return [
        _fill(plan, sample, limit, drawn.get(number))
        for number, (sample, limit) in enumerate(zip(measures, limits, strict=True))
    ]


def difference_interval(
    a: Any,
    b: Any,
    *,
    method: str = INTERVAL,
    level: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    clusters: Any = None,
    strata: Any = None,
    bounds: Bounds | None = None,
) -> Interval:
    """Return the interval for the mean of a − b on the same queries; see `interval`.

    Args:
        a: Scores of one system, a number for each query.
        b: Scores of the other on the same queries.
        method: As of `interval`, but not wilson.
        level: Confidence level.
        resamples: Number of resamples.
        seed: Seed of the draws.
        clusters: A label for each value; whole groups are resampled.
        strata: A label for each value; the number drawn from each stratum is fixed.
        bounds: The least and the largest score, not those of differences.

    Returns:
        The mean difference and its interval.

    Raises:
        UsageError: An argument is out of range.

    Example:
        >>> difference_interval([0.2, 0.5, 0.4, 0.9], [0.1, 0.5, 0.2, 0.6], method="t")
        Interval(0.1500 [-0.0554, 0.3554], 95 % Student t, n=4)
    """
    pairs = samples.clean_pairs(a, b)
    if method == "wilson":
        raise UsageError("Wilson's interval is for one share, not for a difference. Use bca or t.")
    defined = pairs.defined
    differences = np.full(len(defined), np.nan)
    differences[defined] = pairs.differences
    plan = _plan(method, level, resamples, seed)
    sample = _sample(differences, plan.method, clusters, strata)
    if plan.method == INTERVAL:
        plan = replace(plan, method=_by_number(sample.units))
    limits = bounded.check_bounds(bounds)
    width = 0.0 if limits is None or plan.method != "score" else limits[1] - limits[0]
    scored = width > 0 and len(np.unique(sample.values)) > 1
    result = _fill(plan, sample, (-width, width) if scored else None, None)
    if result.note != _NO_BOUNDS:
        return result.of_difference(limits)
    n, span = len(sample.units.sums), bounded.span_of(np.stack([pairs.a, pairs.b]), limits)
    reach = bounded.constant_difference_reach(result.estimate, n, result.level, span)
    ends = (result.estimate - reach, result.estimate + reach)
    return replace(result, low=ends[0], high=ends[1], note=_CONSTANT).of_difference(limits)


def _choose(method: str, sample: _Sample, bounds: Bounds | None) -> str:
    """Return the method for these values; only `auto` leaves a choice."""
    if method != INTERVAL or not len(sample.values):
        return method if method != INTERVAL else "t"
    single = not sample.units.clustered and len(sample.units.offsets) == 2
    if single and _are_hits(sample.values):
        return "wilson"
    return _by_number(sample.units) if bounds is None else "score"


def _are_hits(values: Floats) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def _by_number(units: Units) -> str:
    """Return bca where a bootstrap pays, else t."""
    drawn = _FEWEST_DRAWN <= len(units.sums) <= _MOST_DRAWN and not units.clustered
    return "bca" if drawn else "t"


def _plan(method: str, level: float, resamples: int, seed: int) -> Interval:
    """Check the arguments; the numbers are still to be filled in."""
    name = check_choice(method, INTERVAL_METHODS, "method")
    empty = Interval(math.nan, math.nan, math.nan, samples.check_level(level), name, 0)
    drawn = name in (*_BOOTSTRAPS, INTERVAL)
    resamples = samples.check_bootstraps(resamples) if drawn else samples.check_resamples(resamples)
    seed = samples.check_seed(seed)
    return replace(empty, resamples=resamples, seed=seed) if drawn else empty


@dataclass(frozen=True, eq=False)
class _Sample:
    """Values that are not NaN, where they stood, and the units to resample."""

    values: Floats
    defined: NDArray[np.bool_]
    units: Units


def _sample(values: Floats, method: str, clusters: Any, strata: Any) -> _Sample:
    defined = ~np.isnan(values)
    labels = []
    for what, column in (("clusters", clusters), ("strata", strata)):
        each = None if column is None else as_list(column, what)
        if each is not None:
            check_lengths(**{what: len(each), "values": len(defined)})
            each = [label for label, keep in zip(each, defined, strict=True) if keep]
        labels.append(each)
    _check_method(method, values[defined], grouped=labels != [None, None])
    return _Sample(values[defined], defined, samples.units_of(values[defined], *labels))


def _fill(
    plan: Interval, sample: _Sample, bounds: Bounds | None, drawn: tuple[Floats, float] | None
) -> Interval:
    """Complete the interval; `drawn` are resampled means, if they are there already."""
    n = len(sample.values)
    if bounds is None and n and _are_hits(sample.values) and sample.values.any():
        bounds = (0.0, 1.0)
    method = _choose(plan.method, sample, bounds)
    removed, groups, note = int((~sample.defined).sum()), None, ""
    if sample.units.clustered:
        groups, number = samples.effective_number(sample.units.sizes), len(sample.units.sums)
        if groups < _UNEVEN * number:
            note = f"{number:,} groups of uneven size count like {groups:.1f}"
    plan = replace(plan, method=method, n=n, n_removed=removed, groups=groups, note=note)
    if method not in _BOOTSTRAPS:
        plan = replace(plan, resamples=0, seed=None)
    if n:
        plan = replace(plan, estimate=math.fsum(sample.values.tolist()) / n)
    note = _why_not(sample, method)
    if note:
        return replace(plan, note=note, resamples=0, seed=None)
    if method != "wilson" and sample.values.min() == sample.values.max():
        plan = replace(plan, method="unseen", resamples=0, seed=None)
        if bounds is None:
            return replace(plan, note=_NO_BOUNDS)
        units = len(sample.units.sums)  # at most a share of other values was missed
        low, high = bounded.constant_ends(plan.estimate, units, plan.level, bounds)
        return replace(plan, low=low, high=high, note=_CONSTANT)
    result = _with_ends(plan, sample, bounds, drawn)
    if bounds is None:
        return result
    note = result.note or bounded.describe_few(sample.values, bounds, plan.level)
    return replace(result, note=note).within(*bounds)


def _why_not(sample: _Sample, method: str) -> str:
    """Say why there is nothing to compute; empty if there is."""
    units = sample.units
    note, n = samples.too_few(len(sample.values)), len(units.sums)
    if not note and units.clustered:  # clusters are what varies
        note = samples.too_few(n, "clusters")
    if not note and len(units.offsets) > 2 and units.fewest < 2:
        note = "too few units in a stratum (1): at least 2 are needed"
    if not note and method in _BOOTSTRAPS and n < _FEWEST_DRAWN:
        few = samples.too_few(n, "clusters" if units.clustered else "queries", _FEWEST_DRAWN)
        note = f"{few} for a bootstrap; use t"
    return note or ""


def _with_ends(
    plan: Interval, sample: _Sample, bounds: Bounds | None, drawn: tuple[Floats, float] | None
) -> Interval:
    units = sample.units
    if plan.method == "studentised":
        return _studentised(units, plan)
    if plan.method == "wilson":
        low, high = bounded.wilson_ends(plan.estimate, plan.n, plan.level)
    elif plan.method == "score":
        low, high = _score(units, plan, bounds)
    elif plan.method == "t":
        low, high = _student(units, plan)
    else:
        means, observed = drawn or samples.bootstrap_means(units, plan.resamples, plan.seed or 0)
        z = samples.expanded_z(units, plan.level)
        if plan.method == "bca":
            low, high = samples.bca_ends(means, observed, samples.acceleration(units), z)
        else:
            low, high = samples.cut_at(means, bounded.normal_cdf(-z), bounded.normal_cdf(z))
    return replace(plan, low=low, high=high)


def _check_method(method: str, values: Floats, *, grouped: bool) -> None:
    if grouped and method in ("wilson", "studentised"):
        raise UsageError(
            f"method={method!r} takes no clusters or strata. Use bca, percentile or t."
        )
    odd = (values != 0) & (values != 1)
    if method == "wilson" and odd.any():
        row = int(np.argmax(odd))
        raise ValueRangeError(
            f"Wilson's interval is for values 0 and 1; value {row} is {values[row]}. "
            "Use bca, percentile or t for other measures."
        )


def _score(units: Units, plan: Interval, bounds: Bounds | None) -> tuple[float, float]:
    """Return the ends of the score interval on the scale of the bounds."""
    if bounds is None:
        raise UsageError("The score interval needs the bounds of the measure; give bounds=(0, 1).")
    low, width = bounds[0], bounds[1] - bounds[0]
    mean = min(max((plan.estimate - low) / width, 0.0), 1.0)
    size = bounded.effective_size(mean, standard_error(units) / width, plan.n)
    ends = bounded.score_ends(mean, size, units.t_quantile(plan.level))
    return low + width * ends[0], low + width * ends[1]


def _student(units: Units, plan: Interval) -> tuple[float, float]:
    reach = units.t_quantile(plan.level) * standard_error(units)
    return plan.estimate - reach, plan.estimate + reach


def standard_error(units: Units) -> float:
    """Return the standard error of the mean over all queries, with units as what varies.

    For single queries this is s / √n; for clusters that of leaving out each in turn; in strata the
    linearised error of a ratio of sums.
    """
    total = int(units.sizes.sum())
    residuals = units.sums - units.sums.sum() / total * units.sizes
    if len(units.offsets) == 2:
        return samples.unit_error(residuals, units.sizes.astype(np.float64))
    counts = np.diff(units.offsets)
    means = np.add.reduceat(residuals, units.offsets[:-1]) / counts
    squares = (residuals - means[units.strata]) ** 2
    return math.sqrt(float((squares * (counts / (counts - 1))[units.strata]).sum())) / total


def _studentised(units: Units, plan: Interval) -> Interval:
    """Return bootstrap t, or Student's where too many resamples have no spread."""
    tail = (1 - plan.level) / 2
    drawn = np.sort(samples.bootstrap_t(units.sums, plan.resamples, plan.seed or 0))
    places = [math.floor(tail * len(drawn)), math.ceil((1 - tail) * len(drawn)) - 1]
    low, high = (float(drawn[place]) for place in places)
    if not (math.isfinite(low) and math.isfinite(high)):
        ends = _student(units, plan)
        note = "Student t: too many resamples had no spread"
        return replace(plan, low=ends[0], high=ends[1], method="t", note=note)
    error = standard_error(units)
    return replace(plan, low=plan.estimate - high * error, high=plan.estimate - low * error)


def jackknife_interval(estimate: float, left_out: Floats, *, level: float = CONFIDENCE) -> Interval:
    """Return Student's interval of a share such as a pooled AP, by the jackknife.

    Errors are those of the jackknife over groups (Efron & Stein 1981), on the scale of the logit,
    or of the share itself where one of the values is 0 or 1.

    >>> jackknife_interval(0.5, np.array([0.4, 0.5, 0.6]))
    Interval(0.5000 [0.1177, 0.8823], 95 % jackknife, n=3)
    """
    defined = left_out[np.isfinite(left_out)]
    n, share = len(defined), samples.check_level(level)
    note = "" if math.isnan(estimate) else samples.too_few(n, "groups") or ""
    if math.isnan(estimate) or note:
        return Interval(estimate, math.nan, math.nan, share, "jackknife", n, note=note)
    if np.ptp(defined) == 0:
        low, high = bounded.constant_ends(estimate, n, share, (0.0, 1.0))
    else:
        low, high = _student_ends(estimate, defined, share)
    return Interval(estimate, low, high, share, "jackknife", n).within(0, 1)


def _student_ends(estimate: float, left_out: Floats, level: float) -> tuple[float, float]:
    values, n = np.append(left_out, estimate), len(left_out)
    curved = bool(((values > 0) & (values < 1)).all())
    moved = log(values / (1 - values)) if curved else values
    apart = moved[:-1] - moved[:-1].mean()
    half = bounded.t_quantile((1 + level) / 2, n - 1) * math.sqrt((apart @ apart) * (n - 1) / n)
    ends = np.array([moved[-1] - half, moved[-1] + half])
    low, high = (1 / (1 + exp(-ends)) if curved else ends).tolist()
    return low, high


INVERTIBLE: Final = ("randomisation", "t", "bootstrap")
_FLAT: Final = "all differences are equal, so no variation was seen"


def test_units(a: Any, b: Any, clusters: Any, **arguments: Any) -> TestResult:
    """Return `paired_test` with groups of queries as units.

    Signs and ranks are of the sums of groups; t and bootstrap use the error of a mean over all
    queries, in which larger groups weigh more.
    """
    if clusters is None:
        return paired_test(a, b, **arguments)
    if arguments.get("method") in ("t", "bootstrap"):
        spread = pseudo_values(a, b, clusters)
        result = paired_test(spread, np.zeros(len(spread)), **arguments)
    else:
        (left, right), _ = samples.units_table(np.stack([a, b]), clusters)
        result = paired_test(left, right, **arguments)
    return replace(result, note=result.note.replace("queries", "groups"))


def pseudo_values(a: Any, b: Any, clusters: Any) -> Floats:
    """Return a number for each unit.

    Their mean and its error are those of the mean of a − b.
    """
    pairs = samples.clean_pairs(a, b)
    if clusters is None or not len(pairs.differences):
        return pairs.differences
    (sums,), sizes = samples.units_table(
        pairs.differences[None, :], np.asarray(clusters)[pairs.defined]
    )
    mean = math.fsum(pairs.differences.tolist()) / len(pairs.differences)
    residuals = sums - mean * sizes
    spread = float(residuals.std(ddof=1)) if len(sizes) > 1 else 0.0
    scale = samples.unit_error(residuals, sizes) * math.sqrt(len(sizes)) / spread if spread else 0.0
    pseudo: Floats = mean + (residuals - residuals.mean()) * scale
    return pseudo


def inverted_interval(
    a: Any,
    b: Any,
    test: TestResult,
    *,
    level: float,
    separate: bool,
    clusters: Any = None,
    bounds: Bounds | None = None,
) -> Interval:
    """Return the interval for the mean of a − b that belongs to `test`, one of `INVERTIBLE`.

    The test is one of `INVERTIBLE`.

    Args:
        a: Scores of one system, a number for each query.
        b: Scores of the other on the same queries.
        test: The test of the two.
        level: Significance level.
        separate: Whether the test, after corrections, rejects; the side of 0 follows it to the
            last bit.
        clusters: A label for each query; groups were tested.
        bounds: The least and the largest score.

    Returns:
        The mean difference and the interval that belongs to `test`.

    Example:
        >>> from assay.stats import paired_test
        >>> a, b = [0.3, 0.5, 0.6, 0.9], [0.1, 0.4, 0.3, 0.5]
        >>> inverted_interval(a, b, paired_test(a, b, method="t"), level=0.05, separate=True)
        Interval(0.2500 [0.0446, 0.4554], 95 % Student t, n=4)
    """
    pairs = samples.clean_pairs(a, b)
    n = len(pairs.differences)
    mean = math.fsum(pairs.differences.tolist()) / n if n else math.nan
    drawn = (test.resamples, test.seed, pairs.n_removed, test.note)
    blank = Interval(mean, math.nan, math.nan, 1 - level, test.method, n, *drawn)
    labels = None if clusters is None else np.asarray(clusters)[pairs.defined]
    (sums,), sizes = samples.units_table(pairs.differences[None, :], labels)
    if samples.too_few(len(sizes)):
        return blank
    scores, bounds = np.concatenate([pairs.a, pairs.b]), bounded.check_bounds(bounds)
    span = bounded.span_of(scores, bounds)
    if np.ptp(sums / sizes) <= 4 * samples.SAME * float(np.abs(scores).max()):
        reach = bounded.constant_difference_reach(mean, len(sizes), blank.level, span)
        low, high = settle(mean, mean - reach, mean + reach, separate=separate)
        flat = replace(blank, low=low, high=high, resamples=0, seed=None, note=_FLAT)
        return flat.of_difference(bounds)
    if test.method == "randomisation":
        low, high = _subset_ends(sums, sizes, test, level)
    else:
        low, high = _studentised_ends(pseudo_values(a, b, clusters), mean, test, level)
    wide = bounded.sparse_ends(sums / sizes.mean(), 1 - level, span)
    if wide is not None:
        low, high = np.minimum(low, wide[0]).item(), np.maximum(high, wide[1]).item()
    low, high = settle(mean, low, high, separate=separate)
    return replace(blank, low=low, high=high).of_difference(bounds)


def settle(mean: float, low: float, high: float, *, separate: bool) -> tuple[float, float]:
    """Move the end next to 0 to the side of 0 where the decision of the test puts it.

    It is at most as far away as draws and rounding may err.
    """
    if math.isnan(low) or math.isnan(high):
        return low, high
    if separate:
        least = 1e-12 * abs(mean)
        return (max(low, least), high) if mean > 0 else (low, min(high, -least))
    return min(low, 0.0), max(high, 0.0)


def _subset_ends(
    sums: Floats, sizes: Floats, test: TestResult, level: float
) -> tuple[float, float]:
    """Return ends from the means of random subsets and of what they leave.

    The first are the lower, the second the higher.
    """
    n = len(sums)
    grid, shift = to_grid(sums, n)
    weights = sizes.astype(np.int64)
    if n <= EXACT_SIGNS_UP_TO:
        flipped, counted = signs_of_all(grid), signs_of_all(weights)
        allowed = math.floor(level * len(flipped) * (1 + 1e-12))
    else:
        resamples, key = test.resamples or RESAMPLES, stream_key(test.seed or 0, "sign flips")
        flipped, counted = (
            kernels().flip_sums(column, key, 0, resamples, 0) for column in (grid, weights)
        )
        allowed = allowed_draws(level, resamples)
    if allowed < 0 or allowed >= len(flipped):
        return math.nan, math.nan
    halves = []
    for turn in (-1, 1):
        inside = from_grid(grid.sum() + turn * flipped, shift + 1)
        number = (weights.sum() + turn * counted) / 2
        halves.append(np.where(number > 0, inside / np.maximum(number, 1), math.nan))
    lower = np.where(np.isnan(halves[0] + halves[1]), -np.inf, np.fmin(*halves))
    higher = np.where(np.isinf(lower), np.inf, np.fmax(*halves))
    low = float(np.partition(lower, allowed)[allowed])
    high = float(-np.partition(-higher, allowed)[allowed])
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (math.nan, math.nan)


def _studentised_ends(
    spread: Floats, mean: float, test: TestResult, level: float
) -> tuple[float, float]:
    n = len(spread)
    error = float(spread.std(ddof=1)) / math.sqrt(n)
    reach = -bounded.t_quantile(level / 2, n - 1)
    if test.method == "bootstrap":
        allowed = allowed_draws(level, test.resamples)
        if allowed < 0:
            return math.nan, math.nan
        drawn = np.abs(samples.bootstrap_t(spread - mean, test.resamples, test.seed or 0))
        quantile = float(-np.partition(-drawn, allowed)[allowed])
        if math.isfinite(quantile):  # else too many resamples are of one value and have no spread
            reach = quantile
    return mean - reach * error, mean + reach * error
