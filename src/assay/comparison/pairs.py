"""Two systems on one measure: the test, the effect size, and the power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core.checks import check_choice
from assay.errors import UsageError
from assay.stats import (
    CORRECTIONS,
    INTERVAL_METHODS,
    TEST_METHODS,
    Effect,
    Interval,
    TestResult,
    adjust,
    difference_interval,
    effect,
    equivalent,
    minimum_detectable_difference,
    non_inferior,
    paired_test,
    queries_needed,
    tukey_hsd,
)
from assay.stats.samples import (
    check_bootstraps,
    check_margin,
    check_seed,
    check_significance_level,
)

__all__ = [
    "ALL_CORRECTIONS",
    "INTERVALS",
    "POWER",
    "ComparisonSettings",
    "Pair",
    "compare_pairs",
    "unit_sums",
]


POWER: Final = 0.8
ALL_CORRECTIONS: Final = (*CORRECTIONS, "tukey")
INTERVALS: Final = tuple(name for name in INTERVAL_METHODS if name != "wilson")
_CHOICES: Final = {"test": TEST_METHODS, "correction": ALL_CORRECTIONS, "interval": INTERVALS}


@dataclass(frozen=True)
class ComparisonSettings:
    """How systems are compared: the arguments of `compare`."""

    test: str = "randomisation"
    correction: str = "holm"
    level: float = 0.05
    interval: str = "bca"
    resamples: int = 10_000
    seed: int = 0
    margin: float | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        """Refuse invalid values; names in American spelling become the British ones."""
        for name, choices in _CHOICES.items():
            object.__setattr__(self, name, check_choice(getattr(self, name), choices, name))
        check_significance_level(self.level)
        check_bootstraps(self.resamples)  # ranks have bootstrap intervals whatever the method
        check_seed(self.seed)
        if self.margin is not None:
            check_margin(self.margin)
        if self.correction == "tukey" and self.test != "randomisation":
            raise UsageError(
                f"Tukey's HSD is itself a randomisation test of all pairs; test={self.test!r} "
                "goes with holm, bonferroni, bh or none."
            )

    @property
    def test_arguments(self) -> dict[str, Any]:
        """Arguments of every test of two systems."""
        return {"method": self.test, "resamples": self.resamples, "seed": self.seed}


@dataclass(frozen=True, eq=False)
class Pair:
    """Two systems on one measure. `p` is adjusted for the number of pairs, `test` holds the raw p.

    `smallest_p` is the smallest p that these queries and resamples could have given, adjusted.
    Differences are a − b. `interval`, `minimum_detectable`, `queries_needed`, `non_inferiority`
    and `equivalence` are computed on first use.
    """

    measure: str
    a: str
    b: str
    p: float
    test: TestResult
    effect: Effect
    settings: ComparisonSettings
    n_pairs: int
    smallest_p: float
    _values: tuple[Floats, Floats]
    _clusters: NDArray[Any] | None

    @property
    def difference(self) -> float:
        """Mean of a − b over the queries that both have."""
        return self.effect.mean_difference

    @property
    def outcome(self) -> str:
        """One of better, worse, not separable, identical, contradictory, undecided.

        Contradictory: the test is clear, but the means point the other way (Wilcoxon, sign).
        """
        if math.isnan(self.p):
            return "undecided"
        if self.effect.wins == self.effect.losses == 0:
            return "identical"
        if self.untestable:
            return "undecided"
        if self.p > self.settings.level:
            return "not separable"
        if self.difference * self._direction > 0:
            return "better" if self.difference > 0 else "worse"
        return "contradictory"

    @property
    def untestable(self) -> str:
        """Why no difference, however large, can be significant; empty if one can."""
        if math.isnan(self.p):
            return self.test.note or "the test gives no p-value"
        if self.smallest_p <= self.settings.level or self.p <= self.settings.level:
            return ""
        return (
            f"no difference can be significant at {100 * self.settings.level:g} % with "
            f"{self._what_is_short}, as {self._least_p}"
        )

    @property
    def _least_p(self) -> str:
        """The smallest possible p, in words."""
        times = _p_factor(self.settings, self.n_pairs)
        corrected = f", corrected for {times:,} pairs," if times > 1 else ""
        if self.smallest_p == 1:
            return f"p{corrected} is always 1"
        return f"p{corrected} is at least {self.smallest_p:.4f}"

    @property
    def _what_is_short(self) -> str:
        """Resamples, if more of them could make p smaller; else queries or groups."""
        resamples = self.settings.resamples
        drawn = self.test.resamples or self.settings.correction == "tukey"
        if drawn and self.smallest_p <= _smallest_drawn_p(resamples) * _p_factor(
            self.settings, self.n_pairs
        ):
            return f"{resamples:,} resamples"
        return f"{self.test.n} {'queries' if self._clusters is None else 'groups'}"

    @property
    def winner(self) -> str | None:
        """The better system; None unless the comparison separates the two."""
        return {"better": self.a, "worse": self.b}.get(self.outcome)

    @property
    def loser(self) -> str | None:
        """The worse system; None unless the comparison separates the two."""
        return {"better": self.b, "worse": self.a}.get(self.outcome)

    @property
    def _direction(self) -> float:
        """Which way the test points; those of ranks and signs need not follow the means."""
        if self.settings.correction == "tukey" or self.test.method not in ("wilcoxon", "sign"):
            return self.difference
        moved = self.effect.wins + self.effect.losses
        middle = moved / 2 if self.test.method == "sign" else moved * (moved + 1) / 4
        return self.test.statistic - middle

    @cached_property
    def interval(self) -> Interval:
        """Interval of the difference; for this pair alone, not widened for the number of pairs."""
        return difference_interval(
            *self._values,
            method=self.settings.interval,
            level=1 - self.settings.level,
            resamples=self.settings.resamples,
            seed=self.settings.seed,
            clusters=self._clusters,
        )

    def difference_of(self, name: str) -> tuple[float, float, float]:
        """Difference of this system to the other, and the ends of its interval."""
        low, high = self.interval.low, self.interval.high
        if name == self.a:
            return self.difference, low, high
        return -self.difference, -high, -low

    @property
    def _level_of_one(self) -> float:
        """The level that one of several pairs must meet at worst."""
        corrected = self.settings.correction != "none"
        return self.settings.level / (self.n_pairs if corrected else 1)

    @cached_property
    def _spread(self) -> Floats:
        """Numbers with the mean and the standard error of the difference, one per unit."""
        a, b = self._values
        differences = (a - b)[~np.isnan(a - b)]
        if self._clusters is None or not len(differences):
            return differences
        left, right, sizes = unit_sums(np.stack([a, b]), self._clusters)
        residuals = left - right - self.difference * sizes
        return np.asarray(self.difference + residuals * len(sizes) / sizes.sum(), np.float64)

    @cached_property
    def minimum_detectable(self) -> float:
        """Minimum detectable difference of these queries (80 % power)."""
        n = len(self._spread)
        if n < 3:
            return math.nan
        return _detectable(n, self._level_of_one) * float(self._spread.std(ddof=1))

    @cached_property
    def queries_needed(self) -> int | None:
        """Number of queries (groups, if clustered) to detect this difference; None if unknown."""
        needed = queries_needed(self._spread, power=POWER, level=self._level_of_one)
        return needed if needed is None or needed > len(self._spread) else None

    @property
    def overstated(self) -> bool:
        """Whether a significant difference is below the minimum detectable one."""
        return self.winner is not None and abs(self.difference) < self.minimum_detectable

    def non_inferiority(self, of: str) -> TestResult | None:
        """Test that one of the two systems is worse by less than the margin; None without one."""
        margin = self.settings.margin
        if margin is None:
            return None
        a, b = self._values if of == self.a else self._values[::-1]
        if self._clusters is None:
            return non_inferior(a, b, margin, **self.settings.test_arguments)
        left, right, sizes = unit_sums(np.stack([a, b]), self._clusters)
        shifted = left + margin * sizes
        return _reword_for_groups(
            paired_test(shifted, right, alternative="greater", **self.settings.test_arguments)
        )

    @cached_property
    def equivalence(self) -> TestResult | None:
        """Test that the two differ by less than the margin; None without a margin."""
        margin = self.settings.margin
        if margin is None:
            return None
        if self._clusters is None:
            return equivalent(*self._values, margin, **self.settings.test_arguments)
        sides = [self.non_inferiority(name) for name in (self.a, self.b)]
        return max((side for side in sides if side), key=lambda side: side.p)

    def __repr__(self) -> str:
        """The two systems and the outcome."""
        return f"Pair({self.a} and {self.b} on {self.measure}: {self.outcome}, p={self.p:.4g})"


@cache
def _detectable(n: int, level: float) -> float:
    """Detectable difference in standard deviations of n differences, which it is proportional to.

    A hundred systems have 4,950 pairs with one n between them.
    """
    any_values = np.arange(n, dtype=np.float64)
    found = minimum_detectable_difference(any_values, power=POWER, level=level)
    return found / float(any_values.std(ddof=1))


def compare_pairs(
    measure: str,
    names: Sequence[str],
    values: Floats,
    wanted: Sequence[tuple[int, int]],
    *,
    settings: ComparisonSettings,
    clusters: NDArray[Any] | None,
) -> list[Pair]:
    """Compare systems (rows of `values`, one number per query) two by two on one measure."""
    tests = [_test(values[a], values[b], settings, clusters) for a, b in wanted]
    adjusted = _adjust(tests, values, wanted, settings, clusters)
    return [
        Pair(
            measure,
            names[a],
            names[b],
            float(p),
            test,
            effect(values[a], values[b]),
            settings,
            len(wanted),
            _smallest_p(test, len(values), settings, len(wanted)),
            (values[a], values[b]),
            clusters,
        )
        for (a, b), test, p in zip(wanted, tests, adjusted, strict=True)
    ]


def _test(
    a: Floats, b: Floats, settings: ComparisonSettings, clusters: NDArray[Any] | None
) -> TestResult:
    if clusters is None:
        return paired_test(a, b, **settings.test_arguments)
    # To flip all differences of a group at once is to flip their sum.
    left, right, _ = unit_sums(np.stack([a, b]), clusters)
    return _reword_for_groups(paired_test(left, right, **settings.test_arguments))


def _smallest_p(
    test: TestResult, n_systems: int, settings: ComparisonSettings, n_pairs: int
) -> float:
    """The smallest adjusted p that as many queries and resamples could give.

    Holm multiplies the smallest of all p by their number, and no other comes out below it.
    """
    if settings.correction == "tukey":
        # One system best on all n queries, one worst: as many of the shuffles leave such a pair.
        return max(
            _smallest_drawn_p(settings.resamples), (n_systems * (n_systems - 1.0)) ** (1 - test.n)
        )
    return min(1.0, _smallest_raw_p(test) * _p_factor(settings, n_pairs))


def _p_factor(settings: ComparisonSettings, n_pairs: int) -> int:
    """By how much the correction multiplies the smallest p."""
    return n_pairs if settings.correction in ("holm", "bonferroni") else 1


def _smallest_raw_p(test: TestResult) -> float:
    n = max(test.n, 1)
    if test.method == "t":
        return 0.0
    if test.method == "bootstrap":
        # A resample of one query alone is as extreme as can be, and n of n^n are such.
        return (
            max(_smallest_drawn_p(test.resamples), float(n) ** (1 - n)) if test.resamples else 0.0
        )
    return _smallest_drawn_p(test.resamples) if test.resamples else 2.0 ** (1 - n)


def _smallest_drawn_p(resamples: int) -> float:
    return 1 / (resamples + 1)


def _reword_for_groups(result: TestResult) -> TestResult:
    return replace(result, note=result.note.replace("queries", "groups"))


def unit_sums(values: Floats, clusters: NDArray[Any]) -> Floats:
    """Sums of each row over each group, and below them the sizes of the groups.

    Queries with a NaN in any row are left out.
    """
    kept = ~np.isnan(values).any(axis=0)
    labels, codes = np.unique(clusters[kept], return_inverse=True)
    rows = [*values[:, kept], np.ones(int(kept.sum()))]
    return np.stack([np.bincount(codes, row, len(labels)) for row in rows])


def _adjust(
    tests: list[TestResult],
    values: Floats,
    wanted: Sequence[tuple[int, int]],
    settings: ComparisonSettings,
    clusters: NDArray[Any] | None,
) -> Floats:
    if settings.correction != "tukey":
        return adjust([test.p for test in tests], settings.correction)
    table = values if clusters is None else unit_sums(values, clusters)[:-1]
    p = tukey_hsd(table, resamples=settings.resamples, seed=settings.seed).p
    return np.array([p[a, b] for a, b in wanted])
