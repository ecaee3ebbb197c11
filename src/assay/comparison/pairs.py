"""Two systems on one measure: the test, the effect size, and the power."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
    INVERTIBLE,
    TEST_METHODS,
    Effect,
    Interval,
    TestResult,
    adjust,
    compare_jointly,
    difference_interval,
    effect,
    equivalent,
    guess_queries,
    inverted_interval,
    levels_of_one,
    minimum_detectable_difference,
    non_inferior,
    tukey_hsd,
)
from assay.stats.inverted import pseudo_values, settle, test_units
from assay.stats.joint import smallest_flip_p, units_table
from assay.stats.samples import (
    check_bootstraps,
    check_margin,
    check_seed,
    check_significance_level,
    too_few,
)

__all__ = [
    "ALL_CORRECTIONS",
    "INTERVALS",
    "POWER",
    "ComparisonSettings",
    "Pair",
    "compare_pairs",
]


POWER: Final = 0.8
ALL_CORRECTIONS: Final = ("max-t", *CORRECTIONS, "tukey")
INTERVALS: Final = tuple(name for name in INTERVAL_METHODS if name != "wilson")
FEWEST_FOR_MARGIN: Final = 20  # fewer queries show nothing of losses that are rare but large
_CHOICES: Final = {"test": TEST_METHODS, "correction": ALL_CORRECTIONS, "interval": INTERVALS}


@dataclass(frozen=True)
class ComparisonSettings:
    """How systems are compared: the arguments of `compare`.

    Without a correction it is max-t for the randomisation test, holm for the others.
    """

    test: str = "randomisation"
    correction: str = ""
    level: float = 0.05
    interval: str = "auto"
    resamples: int = 10_000
    seed: int = 0
    margin: float | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        """Refuse invalid values; names in American spelling become the British ones."""
        if not self.correction:
            usual = "max-t" if self.test in ("randomisation", "randomization") else "holm"
            object.__setattr__(self, "correction", usual)
        for name, choices in _CHOICES.items():
            object.__setattr__(self, name, check_choice(getattr(self, name), choices, name))
        check_significance_level(self.level)
        check_bootstraps(self.resamples)  # ranks are drawn whatever the test
        check_seed(self.seed)
        if self.margin is not None:
            check_margin(self.margin)
        if self.correction in ("tukey", "max-t") and self.test != "randomisation":
            raise UsageError(
                f"Correction {self.correction} is itself a randomisation test of all pairs; "
                f"test={self.test!r} goes with holm, bonferroni, bh or none."
            )

    @property
    def test_arguments(self) -> dict[str, Any]:
        """Arguments of every test of two systems."""
        return {"method": self.test, "resamples": self.resamples, "seed": self.seed}


@dataclass(frozen=True, eq=False)
class Pair:
    """Two systems on one measure. `p` is adjusted for the family of `n_pairs`, `test` is not.

    `smallest_p` is the smallest p that these queries and resamples could have given, adjusted, and
    `level_of_one` the level at which this pair alone is as strictly tested. Differences are a − b.
    `interval`, `minimum_detectable`, `queries_needed`, `non_inferiority` and `equivalence` are
    computed on first use.
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
    level_of_one: float
    _joint: Interval | None
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
        many = self.n_pairs > 1 and self.settings.correction in ("holm", "bonferroni")
        corrected = f", corrected for {self.n_pairs:,} pairs," if many else ""
        if self.smallest_p == 1:
            return f"p{corrected} is always 1"
        return f"p{corrected} is at least {self.smallest_p:.4f}"

    @property
    def _what_is_short(self) -> str:
        """Resamples, if more of them could make p smaller; else queries or groups."""
        resamples = self.settings.resamples
        drawn = self.test.resamples or self.settings.correction == "tukey"
        many = self.n_pairs if self.settings.correction in ("holm", "bonferroni") else 1
        if drawn and self.smallest_p <= many / (resamples + 1):
            return f"{resamples:,} resamples"
        return f"{len(self._spread)} {'queries' if self._clusters is None else 'groups'}"

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
        if self.test.method not in ("wilcoxon", "sign"):
            return self.difference
        moved = self.effect.wins + self.effect.losses
        middle = moved / 2 if self.test.method == "sign" else moved * (moved + 1) / 4
        return self.test.statistic - middle

    @property
    def coherent(self) -> bool:
        """Whether the interval is that of the test, so that it leaves out 0 exactly if p ≤ level.

        Tests of ranks and signs have none for a mean; another may be asked for with `interval`.
        """
        if self.settings.interval not in ("auto", self.test.method):
            return False
        return self._joint is not None or self.test.method in INVERTIBLE

    @cached_property
    def interval(self) -> Interval:
        """Interval of the difference, corrected as p is: that of the test where `coherent`."""
        if self.coherent:
            return self._joint or inverted_interval(
                *self._values,
                self.test,
                level=self.level_of_one,
                separate=self.p <= self.settings.level,
                clusters=self._clusters,
            )
        return difference_interval(
            *self._values,
            method=self.settings.interval,
            level=1 - self.level_of_one,
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

    @cached_property
    def _spread(self) -> Floats:
        """Numbers with the mean and the standard error of the difference, one per unit."""
        return pseudo_values(*self._values, self._clusters)

    @cached_property
    def minimum_detectable(self) -> float:
        """Minimum detectable difference of these queries (80 % power)."""
        n = len(self._spread)
        if n < 3:
            return math.nan
        return _detectable(n, self.level_of_one) * float(self._spread.std(ddof=1))

    @cached_property
    def queries_needed(self) -> tuple[int, int, int | None] | None:
        """How many queries (groups) might separate the two: least, best guess, most.

        See `guess_queries`; None if unknown, or if there are as many already.
        """
        guess = guess_queries(self._spread, power=POWER, level=self.level_of_one)
        return guess if guess is not None and guess[1] > len(self._spread) else None

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
            return self._if_enough(non_inferior(a, b, margin, **self.settings.test_arguments))
        shifted = np.asarray(a + margin, np.float64)
        settings = {**self.settings.test_arguments, "alternative": "greater"}
        return self._if_enough(test_units(shifted, b, self._clusters, **settings))

    @cached_property
    def equivalence(self) -> TestResult | None:
        """Test that the two differ by less than the margin; None without a margin."""
        margin = self.settings.margin
        if margin is None:
            return None
        if self._clusters is None:
            return self._if_enough(
                equivalent(*self._values, margin, **self.settings.test_arguments)
            )
        sides = [self.non_inferiority(name) for name in (self.a, self.b)]
        return max((side for side in sides if side), key=lambda side: side.p)

    def _if_enough(self, test: TestResult) -> TestResult:
        """The test of a margin; no p with so few queries that rare large losses do not show."""
        what = "queries" if self._clusters is None else "groups"
        note = too_few(test.n, what, FEWEST_FOR_MARGIN)
        return replace(test, p=math.nan, note=f"{note} for a margin") if note else test

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
    family = _infer_together if _is_joint(settings, len(wanted)) else _infer_apart
    return [
        Pair(
            measure,
            names[a],
            names[b],
            own.p,
            own.test,
            effect(values[a], values[b]),
            settings,
            len(wanted),
            own.smallest_p,
            own.level_of_one,
            own.interval,
            (values[a], values[b]),
            clusters,
        )
        for (a, b), own in zip(wanted, family(values, wanted, settings, clusters), strict=True)
    ]


@dataclass(frozen=True)
class _Inference:
    """What the family says of one pair; the interval is None where the pair has its own."""

    p: float
    test: TestResult
    smallest_p: float
    level_of_one: float
    interval: Interval | None = None


def _is_joint(settings: ComparisonSettings, n_pairs: int) -> bool:
    return settings.correction == "max-t" and n_pairs > 1


def _infer_together(
    values: Floats,
    wanted: Sequence[tuple[int, int]],
    settings: ComparisonSettings,
    clusters: NDArray[Any] | None,
) -> Iterator[_Inference]:
    """All pairs from the same draws."""
    drawn: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    found = compare_jointly(values, wanted, clusters=clusters, level=settings.level, **drawn)
    note = found.note.replace("queries", "queries" if clusters is None else "groups")
    least = smallest_flip_p(found.n_units, settings.resamples)
    for number, (a, b) in enumerate(wanted):
        n = int((~np.isnan(values[a] - values[b])).sum())
        mean = float(found.differences[number])
        removed = values.shape[1] - n
        test = TestResult(
            float(found.p_alone[number]), mean, "randomisation", n, removed, note=note, **drawn
        )
        ends = (float(found.low[number]), float(found.high[number]))
        yield _Inference(
            float(found.p[number]),
            test,
            least,
            found.level_of_one,
            Interval(
                mean, *ends, 1 - settings.level, "max-t", n, n_removed=removed, note=note, **drawn
            ),
        )


def _infer_apart(
    values: Floats,
    wanted: Sequence[tuple[int, int]],
    settings: ComparisonSettings,
    clusters: NDArray[Any] | None,
) -> Iterator[_Inference]:
    """Each pair by its own test, then corrected."""
    tests = [
        test_units(values[a], values[b], clusters, **settings.test_arguments) for a, b in wanted
    ]
    if settings.correction == "tukey":
        yield from _infer_by_range(values, wanted, tests, settings, clusters)
        return
    correction = "none" if settings.correction == "max-t" else settings.correction
    raw = [test.p for test in tests]
    factor = len(wanted) if correction in ("holm", "bonferroni") else 1
    for test, p, own in zip(
        tests,
        adjust(raw, correction).tolist(),
        levels_of_one(raw, correction, settings.level).tolist(),
        strict=True,
    ):
        yield _Inference(p, test, min(1.0, _smallest_raw_p(test) * factor), own)


def _infer_by_range(
    values: Floats,
    wanted: Sequence[tuple[int, int]],
    tests: list[TestResult],
    settings: ComparisonSettings,
    clusters: NDArray[Any] | None,
) -> Iterator[_Inference]:
    """Tukey's test: a difference counts against the range of all systems."""
    sums, sizes = units_table(values, clusters)
    found = tukey_hsd(sums, resamples=settings.resamples, seed=settings.seed)
    reach = found.half_width(settings.level) * len(sizes) / max(float(sizes.sum()), 1.0)
    n_systems = len(values)
    for (a, b), test in zip(wanted, tests, strict=True):
        # One system best on all n queries, one worst: as many of the shuffles leave such a pair.
        least = (n_systems * (n_systems - 1.0)) ** (1 - max(test.n, 1))
        p = float(found.p[a, b])
        mean = math.fsum((sums[a] - sums[b]).tolist()) / max(float(sizes.sum()), 1.0)
        separate = p <= settings.level
        ends = (math.nan, math.nan)
        if math.isfinite(reach):
            ends = settle(mean, mean - reach, mean + reach, separate=separate)
        yield _Inference(
            p,
            test,
            max(1 / (settings.resamples + 1), least),
            settings.level / len(wanted),
            Interval(
                mean,
                *ends,
                1 - settings.level,
                "tukey",
                test.n,
                settings.resamples,
                settings.seed,
                test.n_removed,
                found.note,
            ),
        )


def _smallest_raw_p(test: TestResult) -> float:
    n = max(test.n, 1)
    if test.method == "t":
        return 0.0
    if test.method == "bootstrap":
        # A resample of one query alone is as extreme as can be, and n of n^n are such.
        return max(1 / (test.resamples + 1), float(n) ** (1 - n)) if test.resamples else 0.0
    return 1 / (test.resamples + 1) if test.resamples else 2.0 ** (1 - n)
