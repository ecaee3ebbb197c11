"""Two systems on one measure: the test, the effect size, and the power."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Floats, Ints
from assay.core.checks import check_choice
from assay.core.text import fixed
from assay.errors import UsageError
from assay.stats import (
    INVERTIBLE,
    Effect,
    Interval,
    JointPairs,
    TestResult,
    adjust,
    compare_jointly,
    difference_interval,
    effect,
    inverted_interval,
    levels_of_one,
    non_inferior,
    samples,
    tukey_hsd,
)
from assay.stats.bounded import Bounds, least_margin, least_mean, span_of, unseen_loss_p
from assay.stats.choices import CORRECTIONS, INTERVAL, INTERVALS, LEVEL, RESAMPLES, TESTS
from assay.stats.confidence import pseudo_values, settle, test_units
from assay.stats.effects import detectable_sizes
from assay.stats.tests import EProcess

POWER: Final = 0.8
FEWEST_FOR_MARGIN: Final = 20  # fewer queries show nothing of losses that are rare but large
# Of systems with equal means, unlike shapes and 10 to 50 queries, up to 80 % are called different;
# without those that these limits single out, at most 6.4 %. Of true differences with symmetric
# errors they single out 17 % at 10 queries, 9 % at 25, and none from 50 on.
_LOPSIDED: Final = 0.15  # skewness over √n, against the system that is ahead
_FEW_TO_SEE_VARIATION: Final = 100
NOISE: Final = 1e-12
_CHOICES: Final = {"test": TESTS, "correction": CORRECTIONS, "interval": INTERVALS}


@dataclass(frozen=True)
class ComparisonSettings:
    """How systems are compared: the arguments of `compare`.

    Without a correction it is max-t for the randomisation test, holm for the others.
    """

    test: str = "randomisation"
    correction: str = ""
    level: float = LEVEL
    interval: str = INTERVAL
    resamples: int = RESAMPLES
    seed: int = 0
    margin: float | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if name == "correction" and (value is None or (isinstance(value, str) and not value)):
                value = "max-t" if self.test == "randomisation" else "holm"
            object.__setattr__(self, name, check_choice(value, choices, name))
        samples.check_significance_level(self.level)
        samples.check_bootstraps(self.resamples)  # ranks are drawn whatever the test
        samples.check_seed(self.seed)
        if self.margin is not None:
            samples.check_margin(self.margin)
        if self.correction in ("tukey", "max-t") and self.test != "randomisation":
            raise UsageError(
                f"Correction {self.correction} is a test of all pairs by randomisation. With "
                f"test={self.test!r} take holm, bonferroni, bh or none."
            )

    @property
    def test_arguments(self) -> dict[str, Any]:
        """Arguments of every test of two systems."""
        return {"method": self.test, **self.draws}

    @property
    def draws(self) -> dict[str, Any]:
        """Arguments of everything that is drawn."""
        return {"resamples": self.resamples, "seed": self.seed}

    def joint_interval(
        self, joint: JointPairs, number: int, n: int, *, removed: int = 0, note: str = ""
    ) -> Interval:
        """Return the simultaneous interval of one difference of `compare_jointly`."""
        columns = (joint.differences, joint.low, joint.high)
        mean, low, high = (float(column[number]) for column in columns)
        drawn = {**self.draws, "n_removed": removed, "note": note}
        return Interval(mean, low, high, 1 - self.level, "max-t", n, **drawn)

    def joint_test(self, joint: JointPairs, number: int, interval: Interval) -> TestResult:
        """Return the test of one pair of `compare_jointly` alone."""
        p, counts = float(joint.p_alone[number]), (interval.n, interval.n_removed)
        note = interval.note
        return TestResult(p, interval.estimate, "randomisation", *counts, note=note, **self.draws)


@cache
def _detectable(n: int, levels: frozenset[float]) -> dict[float, float]:
    """Return the detectable difference in standard deviations of n differences, by level.

    A hundred systems may have 4,950 pairs with levels of their own under Holm.
    """
    ordered = sorted(levels)
    return dict(zip(ordered, detectable_sizes(ordered, n, power=POWER).tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Pair:
    """Two systems on one measure. `p` is adjusted for the family of `n_pairs`, `test` is not.

    The family may be of as many pairs in each of `n_slices` sets of queries.

    `smallest_p` is the smallest p that these queries and resamples could have given, adjusted, and
    `level_of_one` the level at which this pair alone is as strictly tested. Differences are a − b.
    `interval`, `minimum_detectable`, `non_inferiority` and `equivalence` are computed on first use.
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
    n_slices: int = 1
    bounds: Bounds | None = None
    _levels: frozenset[float] = frozenset()

    @property
    def difference(self) -> float:
        """Mean of a − b over the queries that both have."""
        return self.effect.mean_difference

    @property
    def outcome(self) -> str:
        """One of better, worse, not separable, identical, contradictory, undecided.

        Probably better or worse: p is small, but the sample shows that it is too small (`doubt`).
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
        if not self.difference * self._direction > 0:
            return "contradictory"
        outcome = "better" if self.difference > 0 else "worse"
        return f"probably {outcome}" if self.doubt else outcome

    @cached_property
    def doubt(self) -> str:
        """Sign in the sample that a small p is too small: `flat`, `lopsided`, or empty.

        Flat: one of the two, or their difference, is the same on all of few queries. Lopsided: many
        small wins stand against a few large losses. No sign counts where the lead remains even if
        losses as large as can be were missed as often as chance allows.
        """
        if self.test.method not in INVERTIBLE or not self.p <= self.settings.level:
            return ""
        ahead = self._units_of(self.a if self.difference > 0 else self.b)
        rows = (*self.values, ahead)
        sign = "lopsided" if skew_against(ahead) > _LOPSIDED else ""
        if self.n_units < _FEW_TO_SEE_VARIATION and any(np.ptp(row) <= NOISE for row in rows):
            sign = "flat"
        sure = sign and unseen_loss_p(ahead, 0.0, self._span) <= self.level_of_one / 2
        return "" if sure else sign

    @property
    def untestable(self) -> str:
        """Why no difference, however large, can be significant; empty if one can."""
        if math.isnan(self.p):
            return self.test.note or "the test gives no p-value"
        if self.smallest_p <= self.settings.level or self.p <= self.settings.level:
            return ""
        settings = self.settings
        corrected = self.n_pairs > 1 and settings.correction in ("holm", "bonferroni")
        # Resamples are short if more of them could make p smaller; else queries or groups are.
        drawn = self.test.resamples or settings.correction == "tukey"
        drawn_least = (self.n_pairs if corrected else 1) / (settings.resamples + 1)
        few = drawn and self.smallest_p <= drawn_least
        short = f"resamples ({settings.resamples:,})" if few else f"{self.units} ({self.n_units})"
        words = f", corrected for {self.n_pairs:,} pairs" if corrected else ""
        least = f"even a clean sweep gives p ≥ {self.smallest_p:.4g}"
        return f"too few {short}: {'p is always 1' if self.smallest_p == 1 else least}{words}"

    @property
    def units(self) -> str:
        """The units that are resampled and tested, in a word."""
        return "queries" if self._clusters is None else "groups"

    @property
    def n_units(self) -> int:
        """How many there are."""
        return len(self.spread)

    @property
    def items(self) -> str:
        """The items that wins, ties and losses count, in a word."""
        return "queries"

    @property
    def winner(self) -> str | None:
        """The better system, surely or probably; None unless the test separates the two."""
        return {"better": self.a, "worse": self.b}.get(self.outcome.removeprefix("probably "))

    @property
    def loser(self) -> str | None:
        """The worse system; None unless the test separates the two."""
        return None if self.winner is None else self.other(self.winner)

    @property
    def _direction(self) -> float:
        """Which way the test points; those of ranks and signs need not follow the means."""
        if self.test.method not in ("wilcoxon", "sign"):
            return self.difference
        (left, right), _ = samples.units_table(np.stack(self._values), self._clusters)
        moved = int(np.count_nonzero(samples.clean_pairs(left, right).differences))
        middle = moved / 2 if self.test.method == "sign" else moved * (moved + 1) / 4
        return self.test.statistic - middle

    @property
    def coherent(self) -> bool:
        """Whether the interval is that of the test, so that it leaves out 0 exactly if p ≤ level.

        Tests of ranks and signs have none for a mean; another may be asked for with `interval`.
        """
        if self.settings.interval not in (INTERVAL, self.test.method):
            return False
        return self._joint is not None or self.test.method in INVERTIBLE

    @cached_property
    def interval(self) -> Interval:
        """Interval of the difference, corrected as p is: that of the test where `coherent`."""
        if self.coherent:
            if self._joint is not None:
                return self._joint.of_difference(self.bounds)
            return inverted_interval(
                *self._values,
                self.test,
                level=self.level_of_one,
                separate=self.p <= self.settings.level,
                clusters=self._clusters,
                bounds=self.bounds,
            )
        return difference_interval(
            *self._values,
            method=self.settings.interval,
            level=1 - self.level_of_one,
            **self.settings.draws,
            clusters=self._clusters,
            bounds=self.bounds,
        )

    def other(self, name: str) -> str:
        """Return the other one of the two."""
        return self.b if name == self.a else self.a

    def interval_of(self, name: str) -> Interval:
        """Return the difference of this system to the other, with its interval."""
        interval = replace(self.interval, estimate=self.difference)
        return interval if name == self.a else -interval

    @property
    def values(self) -> tuple[Floats, Floats]:
        """The values of both systems on the queries that both have."""
        defined = ~np.isnan(self._values[0] + self._values[1])
        return self._values[0][defined], self._values[1][defined]

    @cached_property
    def spread(self) -> Floats:
        """Numbers with the mean and the standard error of the difference, one per unit."""
        return pseudo_values(*self._values, self._clusters)

    @cached_property
    def minimum_detectable(self) -> float:
        """Minimum detectable difference (80 % power); NaN beyond what the measure can differ."""
        n = len(self.spread)
        if n < 3:
            return math.nan
        sizes = _detectable(n, self._levels or frozenset([self.level_of_one]))
        size = sizes[self.level_of_one] * float(self.spread.std(ddof=1))
        return size if size <= self._span else math.nan

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
            return self._guard(non_inferior(a, b, margin, **self.settings.test_arguments), of)
        shifted = np.asarray(a + margin, np.float64)
        settings = {**self.settings.test_arguments, "alternative": "greater"}
        return self._guard(test_units(shifted, b, self._clusters, **settings), of)

    def least_difference(self, of: str) -> float:
        """Lower bound of this system's difference that belongs to its test of the margin.

        It is at most −margin exactly if the test does not show that the system is within it; NaN
        where the test has no bound of a mean.
        """
        test = self.non_inferiority(of)
        if test is None or math.isnan(test.p) or test.method not in INVERTIBLE:
            return math.nan
        a, b = self._values if of == self.a else self._values[::-1]
        margin, level = self.settings.margin or 0.0, self.settings.level
        within = test.p <= level
        both_sides = min(2 * level, 0.999)
        interval = inverted_interval(
            a + margin, b, test, level=both_sides, separate=within, clusters=self._clusters
        )
        seen = least_mean(self._units_of(of), level, self._span)
        low = min(interval.low, seen + margin)
        difference = self.interval_of(of).estimate
        return settle(difference + margin, low, math.inf, separate=within)[0] - margin

    def bets(self, of: str, width: float) -> EProcess:
        """Return bets on this system being worse than the other.

        `width` is the range of the measure.
        """
        a, b = self._values if of == self.a else self._values[::-1]
        return EProcess.of(a, b, width, self._clusters)

    @cached_property
    def equivalence(self) -> TestResult | None:
        """Test that the two differ by less than the margin; None without a margin."""
        sides = [self.non_inferiority(name) for name in (self.a, self.b)]
        return max((side for side in sides if side), key=lambda side: side.p, default=None)

    def _guard(self, test: TestResult, of: str) -> TestResult:
        """Return the test that a system is within the margin, with what it may not have seen.

        No p with so few queries that rare large losses do not show; else at least that of losses
        that are in none of these queries.
        """
        few = samples.too_few(test.n, self.units, FEWEST_FOR_MARGIN)
        if few:
            return replace(test, p=math.nan, note=f"{few} for a margin")
        margin, level = self.settings.margin or 0.0, self.settings.level
        unseen = unseen_loss_p(self._units_of(of), margin, self._span)
        if not unseen > test.p:
            return test
        if not test.p <= level < unseen:
            return replace(test, p=unseen)
        worst = -least_mean(self._units_of(of), level, self._span)
        missed = (
            f"{self.n_units} {self.units} cannot rule out a loss of {margin:g} (worst plausible "
            f"loss {fixed(worst)})"
        )
        return replace(test, p=unseen, note=missed)

    @property
    def unchanged(self) -> bool:
        """Whether both systems have the same value on every query, undefined ones included."""
        a, b = self._values
        return bool((~np.isnan(a)).any()) and np.array_equal(a, b, equal_nan=True)

    @cached_property
    def least_margin(self) -> float:
        """The smallest margin that these queries can show if none differs; else inf."""
        if self.n_units < FEWEST_FOR_MARGIN or self.drawn_too_rarely:
            return math.inf
        return least_margin(self.n_units, self.settings.level, self._span)

    @property
    def drawn_too_rarely(self) -> bool:
        """Whether no p of a drawn one-sided test can be as small as the level."""
        equal = np.zeros(self.n_units)
        return non_inferior(equal, equal, 1.0, **self.settings.test_arguments).p > (
            self.settings.level
        )

    def _units_of(self, system: str) -> Floats:
        """Return differences of this system to the other, one per unit."""
        return self.spread if system == self.a else -self.spread

    @property
    def _span(self) -> float:
        """The largest difference that can be."""
        return span_of(np.concatenate(self.values), self.bounds)

    def __repr__(self) -> str:
        return f"Pair({self.a} and {self.b} on {self.measure}: {self.outcome}, p={self.p:.4g})"


def skew_against(units: Floats) -> float:
    """Return skewness over √n, positive if the long tail is that of losses."""
    residuals = units - units.mean()
    scale = math.sqrt(float((residuals**2).mean()))
    if not scale > NOISE * float(np.abs(units).max()):
        return 0.0
    return -float(((residuals / scale) ** 3).mean()) / math.sqrt(len(units))


def shown_better(names: Sequence[str], pairs: Iterable[Pair]) -> Flags:
    """Return which system (row) was shown to be better than which (column)."""
    place = {name: number for number, name in enumerate(names)}
    better = np.zeros((len(names),) * 2, bool)
    for pair in pairs:
        if pair.winner is not None and pair.loser is not None:
            better[place[pair.winner], place[pair.loser]] = True
    return better


def compare_pairs(
    measure: str,
    names: Sequence[str],
    values: Floats,
    index_pairs: Sequence[tuple[int, int]],
    *,
    settings: ComparisonSettings,
    clusters: NDArray[Any] | None,
    slices: Ints | None = None,
    bounds: Bounds | None = None,
) -> list[Pair]:
    """Compare systems (rows of `values`, one number per query) two by two on one measure.

    With `slices`, the number of a slice for each query (−1 for none), in each slice in turn; all
    pairs in all slices are one family. `bounds` are those of the measure.
    """
    if settings.correction == "tukey":  # it shuffles the queries that all systems have
        values = np.where(np.isnan(values).any(axis=0), np.nan, values)
    sets: list[_Set] = [(values, clusters)]
    if slices is not None:
        masks = [slices == number for number in range(int(slices.max()) + 1)]
        sets = [(values[:, in_], None if clusters is None else clusters[in_]) for in_ in masks]
    n_pairs = len(sets) * len(index_pairs)
    if settings.correction == "max-t" and n_pairs > 1:
        options = {"level": settings.level, "bounds": bounds, **settings.draws}
        joint = compare_jointly(values, index_pairs, clusters=clusters, blocks=slices, **options)
        inferences = list(_infer_together(joint, sets, index_pairs, settings))
    else:
        inferences = list(_infer_apart(sets, index_pairs, settings))
    levels = frozenset(inference.level_of_one for inference in inferences)
    cells = [(part, groups, a, b) for part, groups in sets for a, b in index_pairs]
    return [
        Pair(
            measure,
            names[a],
            names[b],
            effect=effect(part[a], part[b]),
            settings=settings,
            n_pairs=n_pairs,
            **vars(inference),
            _values=(part[a], part[b]),
            _clusters=groups,
            n_slices=len(sets),
            bounds=bounds,
            _levels=levels,
        )
        for (part, groups, a, b), inference in zip(cells, inferences, strict=True)
    ]


_Set = tuple[Floats, NDArray[Any] | None]  # values of systems on some queries, and their groups


@dataclass(frozen=True)
class _Inference:
    """The joint inference on one pair; the interval is None where the pair has one."""

    p: float
    test: TestResult
    smallest_p: float
    level_of_one: float
    _joint: Interval | None = None


def _infer_together(
    joint: JointPairs,
    sets: list[_Set],
    index_pairs: Sequence[tuple[int, int]],
    settings: ComparisonSettings,
) -> Iterator[_Inference]:
    """Return all pairs from the same draws."""
    why = joint.note if sets[0][1] is None else joint.note.replace("queries", "groups")
    cells = [(part, a, b) for part, _ in sets for a, b in index_pairs]
    for number, (part, a, b) in enumerate(cells):
        n = int((~np.isnan(part[a] - part[b])).sum())
        removed = part.shape[1] - n
        note = why if math.isnan(joint.p[number]) else ""
        interval = settings.joint_interval(joint, number, n, removed=removed, note=note)
        test = settings.joint_test(joint, number, interval)
        p, least = float(joint.p[number]), float(joint.smallest[number])
        yield _Inference(p, test, least, joint.level_of_one, interval)


def _infer_apart(
    sets: list[_Set], index_pairs: Sequence[tuple[int, int]], settings: ComparisonSettings
) -> Iterator[_Inference]:
    """Return each pair by its own test, then corrected."""
    tests = [
        test_units(part[a], part[b], groups, **settings.test_arguments)
        for part, groups in sets
        for a, b in index_pairs
    ]
    if settings.correction == "tukey":
        yield from _infer_by_range(*sets[0], index_pairs, tests, settings)
        return
    correction = "none" if settings.correction == "max-t" else settings.correction
    raw = [test.p for test in tests]
    for test, p, least, level in zip(
        tests,
        adjust(raw, correction).tolist(),
        _smallest_adjusted(tests, correction).tolist(),
        levels_of_one(raw, correction, settings.level).tolist(),
        strict=True,
    ):
        yield _Inference(p, test, least, level)


def _smallest_adjusted(tests: list[TestResult], correction: str) -> Floats:
    """Return the smallest corrected p of each test, all others unchanged."""
    least = np.array([_smallest_raw_p(test) for test in tests])
    raw = np.array([test.p for test in tests])
    p_values = np.sort(raw[~np.isnan(raw)])
    if correction == "bonferroni":
        least *= len(p_values)
    elif correction == "holm" and len(p_values):
        steps = np.maximum.accumulate(p_values * np.arange(len(p_values), 0, -1))
        before = np.searchsorted(p_values, least)
        least *= len(p_values) - before
        least = np.where(before > 0, np.maximum(least, steps[before - 1]), least)
    elif correction == "bh" and len(p_values):
        least = smallest_by_rate(raw, least)
    adjusted: Floats = np.minimum(least, 1.0)
    return adjusted


def smallest_by_rate(raw: Floats, least: Floats) -> Floats:
    """Return the smallest Benjamini–Hochberg p of each test, all others unchanged.

    A p that falls to the first rank after those below it pushes what it passes one rank further.
    """
    m, order = int((~np.isnan(raw)).sum()), np.argsort(raw, kind="stable")
    p_values, ranks = raw[order][:m], np.arange(1, m + 1)
    after = np.append(np.minimum.accumulate((p_values / ranks)[::-1])[::-1][1:], np.inf)
    adjusted = np.full(len(raw), np.nan)
    for value in np.unique(least[order[:m]]):
        before = int(np.searchsorted(p_values, value))
        pushed = p_values[before:] / (ranks[before:] + 1)
        passed = np.minimum.accumulate(np.append(value / (before + 1), pushed))
        places = np.flatnonzero(least[order[:m]] == value)
        steps = passed[np.maximum(places - before, 0)]
        adjusted[order[places]] = m * np.minimum(steps, after[places])
    return adjusted


def _infer_by_range(
    values: Floats,
    clusters: NDArray[Any] | None,
    index_pairs: Sequence[tuple[int, int]],
    tests: list[TestResult],
    settings: ComparisonSettings,
) -> Iterator[_Inference]:
    """Run Tukey's test: compare each difference with the range of all systems."""
    sums, sizes = samples.units_table(values, clusters)
    total, n_systems = max(float(sizes.sum()), 1.0), len(values)
    tukey = tukey_hsd(sums, resamples=settings.resamples, seed=settings.seed)
    reach = tukey.half_width(settings.level) * len(sizes) / total
    for (a, b), test in zip(index_pairs, tests, strict=True):
        # One system best on all n queries, one worst: as many of the shuffles leave such a pair.
        least = (n_systems * (n_systems - 1.0)) ** (1 - max(test.n, 1))
        p = float(np.maximum(tukey.p[a, b], least))
        mean = math.fsum((sums[a] - sums[b]).tolist()) / total
        separate = p <= settings.level
        low, high = math.nan, math.nan
        if math.isfinite(reach):
            low, high = settle(mean, mean - reach, mean + reach, separate=separate)
        drawn = (test.n, settings.resamples, settings.seed, test.n_removed, tukey.note)
        yield _Inference(
            p,
            replace(test, p=float(np.minimum(test.p, p))),
            max(1 / (settings.resamples + 1), least),
            settings.level / len(index_pairs),
            Interval(mean, low, high, 1 - settings.level, "tukey", *drawn),
        )


def _smallest_raw_p(test: TestResult) -> float:
    n = max(test.n, 1)
    if test.method == "t":
        return 0.0
    if test.method == "bootstrap":
        # A resample of one query alone is as extreme as can be, and n of n^n are such.
        return max(1 / (test.resamples + 1), float(n) ** (1 - n)) if test.resamples else 0.0
    return 1 / (test.resamples + 1) if test.resamples else 2.0 ** (1 - n)
