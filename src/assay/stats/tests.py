"""Significance tests of two systems.

A gate that is asked again and again on the same queries: evidence that holds over all looks.

Each look tests another system on the same queries, so that the looks depend on each other in ways
that nobody knows, and many looks leave each a small level, at which no test is right that trusts
the shape of what was seen. What holds then is an e-value: what a gambler owns who began with 1 and
bets on scores within known bounds. If their mean is what he bets against, he owns 1 on average, and
1/α with probability α at most (Waudby-Smith & Ramdas 2024, JRSS B 86; a mixture of constant bets,
there "diversified Kelly", does not depend on the order of queries). The levels of the looks sum up
to that of all, which no dependence can break (Tian & Ramdas 2021, Statistical Methods in Medical
Research 30: alpha-spending).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from assay.arrays import Floats, Ints, exp, log1p, slack, stream_key, to_grid
from assay.core.checks import check_choice, check_cutoff
from assay.errors import ValueRangeError
from assay.native import kernels
from assay.stats import samples
from assay.stats.bounded import beta_tail, normal_cdf, t_tail
from assay.stats.choices import RESAMPLES
from assay.stats.samples import Pairs

EXACT_RANKS_UP_TO = 50
_GRID = 2.0**-40  # sizes closer than this share of the largest are one size, split by rounding


def signed_rank_p(differences: Floats, alternative: str) -> tuple[float, float, bool]:
    """Compute (p, sum of the ranks of positive differences, whether p is exact).

    Zero differences are left out (Wilcoxon's own rule), equal sizes share their mean rank. Up to
    50 differences the distribution of the rank sum is exact, ties included; beyond, it is normal
    with the variance corrected for ties.
    """
    moved = differences[differences != 0]
    if not len(moved):
        return 1.0, 0.0, True
    sizes = np.abs(moved)
    grid = np.rint(sizes / (sizes.max() * _GRID))
    _, places, counts = np.unique(grid, return_inverse=True, return_counts=True)
    doubled = (2 * np.cumsum(counts) - counts + 1)[places]  # twice the mean rank, a whole number
    positive = int(doubled[moved > 0].sum())
    exact = len(moved) <= EXACT_RANKS_UP_TO
    below, above = _exact_tails(doubled, positive) if exact else _normal_tails(counts, positive)
    p = {"greater": above, "less": below}.get(alternative, min(1.0, 2 * min(below, above)))
    return p, positive / 2, exact


def _exact_tails(doubled: Ints, positive: int) -> tuple[float, float]:
    """Return P(W ≤ w) and P(W ≥ w), by counting the subsets with each sum of ranks."""
    ways = np.zeros(int(doubled.sum()) + 1, np.int64)
    ways[0] = 1
    for rank in doubled:
        ways[rank:] += ways[:-rank].copy()
    total = 2.0 ** len(doubled)
    return float(ways[: positive + 1].sum()) / total, float(ways[positive:].sum()) / total


def _normal_tails(tie_sizes: Ints, positive: int) -> tuple[float, float]:
    n = float(tie_sizes.sum())
    sizes = tie_sizes.astype(np.float64)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((sizes**3 - sizes).sum()) / 48
    z = (positive / 2 - n * (n + 1) / 4) / math.sqrt(variance)
    return normal_cdf(z), normal_cdf(-z)


EXACT_SIGNS_UP_TO = 20  # 2^20 choices of signs are listed in a few milliseconds


def sign_flip_p(
    differences: Floats, largest: float, alternative: str, *, resamples: int, seed: int
) -> tuple[float, bool]:
    """Return share of sign choices at least as extreme as the data's, and whether all were tried.

    Queries without a difference change no sum, so only the others count for what is exact.
    `largest` is the largest score: sums that differ by no more than its rounding are ties.
    """
    moved = differences[differences != 0]
    values, shift = to_grid(moved, max(len(moved), 1))
    exact = len(moved) <= EXACT_SIGNS_UP_TO
    if exact:
        sums = signs_of_all(values)
    else:
        sums = kernels().flip_sums(values, stream_key(seed, "sign flips"), 0, resamples, 0)
    observed, near = int(values.sum()), slack(len(moved), largest, shift)
    if alternative == "two-sided":
        reached = np.abs(sums) >= abs(observed) - near
    else:
        greater = alternative == "greater"
        reached = sums >= observed - near if greater else sums <= observed + near
    extreme = int(reached.sum())
    return (extreme / len(sums) if exact else (extreme + 1) / (resamples + 1)), exact


def signs_of_all(values: Ints) -> Ints:
    """Return the sums of the values with every choice of signs.

    The first has no minus.
    """
    sums = np.zeros(1, np.int64)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


ALTERNATIVES = ("two-sided", "greater", "less")
TEST_METHODS = ("randomisation", "t", "wilcoxon", "sign", "bootstrap")
_SMALLEST_P = sys.float_info.min
_CONSTANT = "both samples are constant, so Welch's test is not defined"
_NO_SPREAD = "all differences are equal, so a t test is not defined; use randomisation"


@dataclass(frozen=True)
class TestResult:
    """The p-value of one test and how it was computed.

    `p` is never 0; it is NaN, and `note` says why, where there are too few queries. `exact` says
    that p has no sampling or approximation error under the null hypothesis of the method. `n`
    pairs were used, `n_removed` left out for a NaN; `resamples` is 0 and `seed` None where nothing
    was drawn. `statistic` is the mean difference for randomisation, t for t, Welch and bootstrap,
    the sum of positive ranks for Wilcoxon, the number of wins for sign.
    """

    __test__: ClassVar[bool] = False  # the name begins like a test case of pytest

    p: float
    statistic: float
    method: str
    n: int
    n_removed: int = 0
    exact: bool = False
    resamples: int = 0
    seed: int | None = None
    alternative: str = "two-sided"
    note: str = ""

    def __repr__(self) -> str:
        p = "no p" if math.isnan(self.p) else f"p={self.p:.4g}"
        kind = (
            ", exact" if self.exact else f", {self.resamples} resamples" if self.resamples else ""
        )
        removed = f", {self.n_removed} removed" if self.n_removed else ""
        note = f"; {self.note}" if self.note else ""
        what = f"{self.method}, {self.alternative}, n={self.n}"
        return f"TestResult({p}, {what}{removed}{kind}{note})"


def paired_test(
    a: Any,
    b: Any,
    *,
    method: str = "randomisation",
    alternative: str = "two-sided",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> TestResult:
    """Test whether a and b, on the same queries, have the same mean.

    Randomisation draws random signs of the differences, all 2^n of them up to 20 differing queries;
    bootstrap is studentised.

    Args:
        a: Scores of one system, a number for each query.
        b: Scores of the other on the same queries.
        method: randomisation, t, wilcoxon, sign or bootstrap.
        alternative: two-sided, greater (a is better than b) or less.
        resamples: Number of resamples.
        seed: Seed of the draws.

    Returns:
        p and how it was computed.

    Example:
        >>> paired_test([0.3, 0.5, 0.6, 0.9], [0.1, 0.4, 0.3, 0.5])
        TestResult(p=0.125, randomisation, two-sided, n=4, exact)
    """
    return _test(samples.clean_pairs(a, b), 0.0, _request(method, alternative, resamples, seed))


def non_inferior(
    a: Any,
    b: Any,
    margin: float,
    *,
    method: str = "randomisation",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> TestResult:
    """Test whether a is worse than b by less than `margin`.

    The null hypothesis is mean(a − b) ≤ −margin.

    Args:
        a: Scores of one system, a number for each query.
        b: Scores of the other on the same queries.
        margin: The largest loss that does not matter, in the units of the measure.
        method: randomisation, t, wilcoxon, sign or bootstrap.
        resamples: Number of resamples.
        seed: Seed of the draws.

    Returns:
        The test; a small p says that a is within the margin.

    Example:
        >>> non_inferior([0.5] * 9, [0.5] * 9, 0.01).p == 1 / 2**9
        True
    """
    request = _request(method, "greater", resamples, seed)
    return _test(samples.clean_pairs(a, b), samples.check_margin(margin), request)


def equivalent(
    a: Any,
    b: Any,
    margin: float,
    *,
    method: str = "randomisation",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> TestResult:
    """Test whether a and b differ by less than `margin`, by two one-sided tests (TOST).

    Args:
        a: Scores of one system, a number for each query.
        b: Scores of the other on the same queries.
        margin: The largest loss that does not matter, in the units of the measure.
        method: randomisation, t, wilcoxon, sign or bootstrap.
        resamples: Number of resamples.
        seed: Seed of the draws.

    Returns:
        The weaker of the two tests; a small p says that the systems are equivalent.

    Example:
        >>> equivalent([0.5] * 9, [0.5] * 9, 0.01).p == 1 / 2**9
        True
    """
    shift, pairs = samples.check_margin(margin), samples.clean_pairs(a, b)
    above = _test(pairs, shift, _request(method, "greater", resamples, seed))
    below = _test(pairs, -shift, _request(method, "less", resamples, seed))
    weaker = above if math.isnan(above.p) or above.p >= below.p else below
    return replace(weaker, alternative="equivalent")


def welch_test(a: Any, b: Any, *, alternative: str = "two-sided") -> TestResult:
    """Test whether two independent samples, such as runs with other seeds, have the same mean.

    Args:
        a: Values of one sample.
        b: Values of the other.
        alternative: two-sided, greater or less.

    Returns:
        p and t of Welch's test.

    Example:
        >>> welch_test([0.41, 0.43, 0.42], [0.44, 0.47, 0.45])
        TestResult(p=0.04191, welch, two-sided, n=6)
    """
    left, right = samples.finite_or_nan(a, "a"), samples.finite_or_nan(b, "b")
    removed = int(np.isnan(left).sum() + np.isnan(right).sum())
    left, right = left[~np.isnan(left)], right[~np.isnan(right)]
    side = check_choice(alternative, ALTERNATIVES, "alternative")
    n, fewest = len(left) + len(right), min(len(left), len(right))
    blank = TestResult(math.nan, math.nan, "welch", n, removed, alternative=side)
    if fewest < samples.FEWEST:
        return replace(blank, note=samples.too_few(fewest, "values on one side") or "")
    parts = [_spread(sample) ** 2 / len(sample) for sample in (left, right)]
    square = sum(parts)
    if square == 0:
        same = left[0] == right[0]  # their means may differ by rounding
        return replace(blank, p=1.0) if same else replace(blank, note=_CONSTANT)
    t = (_mean(left) - _mean(right)) / math.sqrt(square)
    freedom = square**2 / sum(
        part**2 / (len(sample) - 1) for part, sample in zip(parts, (left, right), strict=True)
    )
    return replace(blank, p=_at_least_tiny(_t_p(t, freedom, side)), statistic=t)


def _request(method: str, alternative: str, resamples: int, seed: int) -> TestResult:
    """Check the arguments; the numbers are still to be filled in."""
    name = check_choice(method, TEST_METHODS, "method")
    side = check_choice(alternative, ALTERNATIVES, "alternative")
    resamples, seed = samples.check_resamples(resamples), samples.check_seed(seed)
    blank = TestResult(math.nan, math.nan, name, 0, alternative=side)
    drawn = name in ("randomisation", "bootstrap")
    return replace(blank, resamples=resamples, seed=seed) if drawn else blank


def _test(pairs: Pairs, shift: float, request: TestResult) -> TestResult:
    """Test mean(a − b) + shift against 0."""
    differences = pairs.differences + shift
    blank = replace(request, n=len(differences), n_removed=pairs.n_removed)
    note = samples.too_few(len(differences))
    if note:
        return replace(blank, note=note, resamples=0, seed=None)
    if not differences.any():
        return replace(blank, p=1.0, statistic=0.0, exact=True, resamples=0, seed=None)
    largest = max(np.abs(pairs.a).max(), np.abs(pairs.b).max(), abs(shift))
    result = _METHODS[blank.method](differences, float(largest), blank)
    return replace(result, p=_at_least_tiny(result.p))


def _at_least_tiny(p: float) -> float:
    """Return p, or the smallest float: no p is zero."""
    return max(p, _SMALLEST_P) if not math.isnan(p) else p


def _mean(values: Floats) -> float:
    return math.fsum(values.tolist()) / len(values)


def _spread(values: Floats) -> float:
    """Return the standard deviation with n − 1.

    Exactly 0 where all values are equal.
    """
    if values.min() == values.max():
        return 0.0
    return math.sqrt(float(((values - _mean(values)) ** 2).sum()) / (len(values) - 1))


def _randomisation(differences: Floats, largest: float, blank: TestResult) -> TestResult:
    drawn = {"resamples": blank.resamples, "seed": blank.seed or 0}
    p, exact = sign_flip_p(differences, largest, blank.alternative, **drawn)
    result = replace(blank, p=p, statistic=_mean(differences), exact=exact)
    return replace(result, resamples=0, seed=None) if exact else result


def _student(differences: Floats, largest: float, blank: TestResult) -> TestResult:
    t = _t_of(differences, largest)
    if t is None:
        return replace(blank, note=_NO_SPREAD)
    p = _t_p(t, len(differences) - 1, blank.alternative)
    return replace(blank, p=p, statistic=t)


def _t_of(differences: Floats, largest: float) -> float | None:
    """Return the mean over its standard error.

    None where the spread is nothing but rounding.
    """
    if np.ptp(differences) <= 4 * np.finfo(np.float64).eps * largest:
        return None
    return _mean(differences) / (_spread(differences) / math.sqrt(len(differences)))


def _t_p(t: float, freedom: float, alternative: str) -> float:
    if alternative == "two-sided":
        return 2 * t_tail(abs(t), freedom)
    return t_tail(t if alternative == "greater" else -t, freedom)


def _wilcoxon(differences: Floats, largest: float, blank: TestResult) -> TestResult:
    p, ranks, exact = signed_rank_p(differences, blank.alternative)
    return replace(blank, p=p, statistic=ranks, exact=exact)


def _sign(differences: Floats, largest: float, blank: TestResult) -> TestResult:
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    if blank.alternative == "two-sided":
        p = min(1.0, 2 * _at_most(min(wins, losses), wins + losses))
    else:
        p = _at_most(losses if blank.alternative == "greater" else wins, wins + losses)
    return replace(blank, p=p, statistic=float(wins), exact=True)


def _at_most(k: int, n: int) -> float:
    """Return P(X ≤ k) heads in n tosses of a fair coin."""
    return 1.0 if k >= n else beta_tail(n - k, k + 1, 0.5, 0.5)


def _bootstrap(differences: Floats, largest: float, blank: TestResult) -> TestResult:
    """Return how often t of centred resamples is as extreme as t of the data."""
    t = _t_of(differences, largest)
    if t is None:
        return replace(blank, note=_NO_SPREAD)
    drawn = samples.bootstrap_t(differences - _mean(differences), blank.resamples, blank.seed or 0)
    least = 0.0
    if blank.alternative == "two-sided":
        extreme = np.abs(drawn) >= abs(t)
        # n of n^n resamples are of one query alone and as extreme as can be, drawn or not.
        least = float(blank.n) ** (1 - blank.n)
    else:
        extreme = drawn >= t if blank.alternative == "greater" else drawn <= t
    p = (int(extreme.sum()) + 1) / (blank.resamples + 1)
    return replace(blank, p=max(p, least), statistic=t)


_METHODS: dict[str, Callable[[Floats, float, TestResult], TestResult]] = {
    "randomisation": _randomisation,
    "t": _student,
    "wilcoxon": _wilcoxon,
    "sign": _sign,
    "bootstrap": _bootstrap,
}


_HALF_SPENT: Final = 100  # after so many looks half of the level is spent
_STAKES: Final = np.arange(1, 41) / 40  # shares of the largest bet that cannot ruin
_STEPS: Final = 30  # of bisection: 1e-9 of the range


def look_share(look: int) -> float:
    """Return the share of the level that one look may spend: 100 / ((99 + look) (100 + look)).

    All looks together, however many, spend the whole: t of them t / (100 + t).

    >>> round(1 / look_share(1)), round(1 / look_share(200))
    (101, 897)
    """
    number = check_cutoff(look, "look")
    share = _HALF_SPENT / ((_HALF_SPENT + number - 1) * (_HALF_SPENT + number))
    return max(share, _SMALLEST_P)


@dataclass(frozen=True, eq=False)
class EProcess:
    """Bets on differences a − b of scores, none larger than `width`, being small on average.

    Valid for any distribution within the bounds, whatever the number of units (queries, or groups
    of dependent ones, of which none is larger than the largest here), if they are independent.
    """

    sums: Floats
    sizes: Floats
    width: float

    @classmethod
    def of(cls, a: Any, b: Any, width: float, clusters: Any = None) -> EProcess:
        """Return bets on the scores of two systems; undefined pairs are left out."""
        pairs = samples.clean_pairs(a, b)
        largest = float(np.abs(pairs.differences).max(initial=0.0))
        if not 0 < width < math.inf or largest > width * (1 + 1e-9):
            raise ValueRangeError(
                f"Scores must lie within known bounds: they differ by {largest:g}, at most "
                f"{width:g} is possible."
            )
        labels = None if clusters is None else np.asarray(clusters)[pairs.defined]
        (sums,), sizes = samples.units_table(pairs.differences[None, :], labels)
        return cls(sums, sizes, float(width))

    @property
    def n_units(self) -> int:
        """Number of queries, or of groups."""
        return len(self.sizes)

    @cached_property
    def difference(self) -> float:
        """Mean of a − b over all queries."""
        total = float(self.sizes.sum())
        return math.fsum(self.sums.tolist()) / total if total else math.nan

    def p(self, at: float = 0.0) -> float:
        """Test of the mean difference being `at` or more: 1 over the e-value, at most 1.

        >>> EProcess.of([0.0] * 30, [0.5] * 30, 1.0).p() < 0.001
        True
        """
        return math.exp(-max(self.log_wealth(at), 0.0)) or _SMALLEST_P

    def smallest_p(self, at: float = 0.0) -> float:
        """Return p if every difference were as small as possible."""
        return EProcess(-self.width * self.sizes, self.sizes, self.width).p(at)

    def highest(self, level: float, at: float = 0.0) -> float:
        """Return the upper bound of the mean difference.

        It is below `at` exactly if p(at) ≤ level.
        """
        low, high = (-self.width, at) if self.p(at) <= level else (at, self.width)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.p(middle) <= level else (middle, high)
        return high

    def log_wealth(self, at: float) -> float:
        """Log of the mean over stakes of Π (1 − stake · (sum − at · size) / largest possible)."""
        if not self.n_units:
            return 0.0
        at = min(at, self.width * (1 - 1e-12))
        largest = (self.width - at) * float(self.sizes.max())
        gains = np.minimum((self.sums - at * self.sizes) / largest, 1.0)
        with np.errstate(divide="ignore"):  # the largest stake may be lost as a whole
            logs = np.array([log1p(-stake * gains).sum() for stake in _STAKES])
        top = float(logs.max())
        return top + math.log(float(exp(logs - top).mean())) if top > -math.inf else -math.inf
