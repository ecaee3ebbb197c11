"""Intervals against scipy, statsmodels and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from assay.arrays import stream_key, words
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.stats import compare_seeds, difference_interval, interval, intervals, rank_intervals
from assay.stats.confidence import standard_error
from assay.stats.samples import (
    acceleration,
    bca_ends,
    bootstrap_means,
    bootstrap_t,
    expanded_z,
    units_of,
)
from tests.examples import examples

RNG = np.random.default_rng(3)
VALUES = RNG.beta(0.5, 1.5, 60)
Z = 1.959963984540054


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_student_is_scipys(level: float) -> None:
    found = interval(VALUES, method="t", level=level)
    expected = scipy.stats.ttest_1samp(VALUES, 0).confidence_interval(level)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert (found.resamples, found.seed) == (0, None)


@pytest.mark.parametrize(("wins", "n"), [(0, 10), (3, 10), (10, 10), (250, 1000), (1, 3)])
def test_wilson_is_statsmodels(wins: int, n: int) -> None:
    found = interval([1.0] * wins + [0.0] * (n - wins), method="wilson")
    expected = proportion_confint(wins, n, method="wilson")
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert found.low <= found.estimate <= found.high


def test_bca_is_scipys_on_the_same_resamples() -> None:
    theirs = scipy.stats.bootstrap(
        (VALUES,), np.mean, n_resamples=3000, method="BCa", rng=np.random.default_rng(1)
    )
    means = theirs.bootstrap_distribution
    ends = bca_ends(means, VALUES.mean(), acceleration(units_of(VALUES)), Z)
    expected = theirs.confidence_interval
    assert ends == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_bca_of_strata_is_scipys_for_several_samples() -> None:
    parts = [VALUES[:20], VALUES[20:35] + 1, VALUES[35:] * 2]

    def pooled(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
        shares = [len(part) / len(VALUES) for part in parts]
        return sum(w * np.mean(s, axis=axis) for w, s in zip(shares, samples, strict=True))

    theirs = scipy.stats.bootstrap(
        parts,
        pooled,
        n_resamples=2000,
        method="BCa",
        vectorized=True,
        rng=np.random.default_rng(1),
    )
    strata = np.repeat(["x", "y", "z"], [20, 15, 25])
    units = units_of(np.concatenate(parts), strata=strata)
    observed = float(np.concatenate(parts).mean())
    ends = bca_ends(theirs.bootstrap_distribution, observed, acceleration(units), Z)
    expected = theirs.confidence_interval
    assert ends == pytest.approx((expected.low, expected.high), rel=1e-11)


def test_acceleration_of_clusters_leaves_out_clusters() -> None:
    clusters = RNG.integers(0, 12, 60)
    left_out = np.array([VALUES[clusters != c].mean() for c in range(12)])
    u = left_out.mean() - left_out
    expected = (u**3).sum() / (6 * (u**2).sum() ** 1.5)
    assert acceleration(units_of(VALUES, clusters)) == pytest.approx(expected, rel=1e-11)


def drawn_means(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """The bootstrap as one would write it first, with the same random words."""
    n = len(values)
    per = -(-n // 2)
    means = []
    for r in range(resamples):
        word = words(stream_key(seed, "bootstrap"), r * per, per)
        halves = [h for w in word.tolist() for h in (w & 0xFFFFFFFF, w >> 32)][:n]
        means.append(math.fsum(values[(h * n) >> 32] for h in halves) / n)
    return np.array(means)


@pytest.mark.parametrize("n", [5, 60])
def test_bootstrap_means_are_what_they_say(n: int) -> None:
    means, observed = bootstrap_means(units_of(VALUES[:n]), 50, 7)
    assert means == pytest.approx(drawn_means(VALUES[:n], 50, 7), rel=1e-12)
    assert observed == pytest.approx(VALUES[:n].mean(), rel=1e-12)


def test_bootstrap_t_is_what_it_says() -> None:
    n = len(VALUES)
    per = -(-n // 2)
    word = words(stream_key(7, "bootstrap"), 0, per)
    halves = [h for w in word.tolist() for h in (w & 0xFFFFFFFF, w >> 32)][:n]
    x = VALUES[[(h * n) >> 32 for h in halves]]
    expected = (x.mean() - VALUES.mean()) / (x.std(ddof=1) / math.sqrt(n))
    assert bootstrap_t(VALUES, 1, 7)[0] == pytest.approx(expected, rel=1e-10)


def test_percentile_takes_quantiles_of_the_means() -> None:
    found = interval(VALUES, method="percentile", resamples=2000, seed=7)
    tail = scipy.stats.norm.cdf(-math.sqrt(60 / 59) * scipy.stats.t.isf(0.025, 59))
    expected = np.quantile(drawn_means(VALUES, 2000, 7), [tail, 1 - tail])
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-12)


def test_bootstrap_has_the_right_spread() -> None:
    means, _ = bootstrap_means(units_of(VALUES), 20_000, 0)
    assert means.mean() == pytest.approx(VALUES.mean(), abs=5 * VALUES.std() / math.sqrt(60 * 2e4))
    assert means.std() == pytest.approx(VALUES.std() / math.sqrt(60), rel=0.03)


def test_clustered_bootstrap_against_drawing_clusters() -> None:
    clusters = np.repeat(np.arange(15), 4)
    values = VALUES + np.repeat(RNG.normal(size=15), 4)
    means, _ = bootstrap_means(units_of(values, clusters), 20_000, 0)
    error = values.reshape(15, 4).mean(axis=1).std() / math.sqrt(15)
    assert means.std() == pytest.approx(error, rel=0.03)
    assert means.std() > 1.5 * values.std() / math.sqrt(60)


def test_clusters_of_unequal_sizes_are_a_ratio() -> None:
    clusters = np.repeat(np.arange(10), [1, 2, 3, 4, 5, 6, 7, 8, 9, 15])
    rng = np.random.default_rng(0)
    sums, sizes = np.bincount(clusters, VALUES), np.bincount(clusters)
    drawn = rng.integers(0, 10, (20_000, 10))
    expected = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    means, observed = bootstrap_means(units_of(VALUES, clusters), 20_000, 0)
    assert observed == pytest.approx(VALUES.mean(), rel=1e-12)
    assert np.quantile(means, [0.05, 0.5, 0.95]) == pytest.approx(
        np.quantile(expected, [0.05, 0.5, 0.95]), abs=0.005
    )


def test_strata_take_out_what_lies_between_them() -> None:
    strata = np.repeat(["easy", "hard"], 30)
    values = VALUES + (strata == "easy") * 10
    narrow = interval(values, strata=strata)
    assert narrow.half_width < interval(values).half_width / 5
    assert narrow.estimate == pytest.approx(values.mean())
    order = RNG.permutation(60)
    shuffled = interval(values[order], strata=strata[order], method="t")
    assert shuffled.half_width == pytest.approx(
        interval(values, strata=strata, method="t").half_width
    )


def test_standard_error_of_strata_and_clusters() -> None:
    strata = np.repeat(["x", "y"], [20, 40])
    parts = VALUES[:20], VALUES[20:]
    expected = math.sqrt(sum((len(p) / 60) ** 2 * p.var(ddof=1) / len(p) for p in parts))
    assert standard_error(units_of(VALUES, strata=strata)) == pytest.approx(expected, rel=1e-12)
    plain = VALUES.std(ddof=1) / math.sqrt(60)
    assert standard_error(units_of(VALUES)) == pytest.approx(plain, rel=1e-12)
    clusters = np.repeat(np.arange(15), 4)
    by_cluster = VALUES.reshape(15, 4).mean(axis=1).std(ddof=1) / math.sqrt(15)
    assert standard_error(units_of(VALUES, clusters)) == pytest.approx(by_cluster, rel=1e-12)


def test_clusters_inside_strata() -> None:
    clusters, strata = np.repeat(np.arange(12), 5), np.repeat(["x", "y", "z"], 20)
    found = interval(VALUES, clusters=clusters, strata=strata)
    assert found.low < found.estimate < found.high
    with pytest.raises(MismatchError, match="more than one stratum"):
        interval(VALUES, clusters=np.arange(60) % 7, strata=strata)


def test_the_order_of_clusters_names_does_not_matter() -> None:
    clusters = np.repeat(np.arange(15), 4)
    named = np.array([f"scene {c:02}" for c in clusters])
    assert interval(VALUES, clusters=clusters) == interval(VALUES, clusters=named)


def test_difference_is_the_interval_of_differences() -> None:
    other = RNG.random(60)
    found = difference_interval(VALUES, other, seed=4)
    alone = interval(VALUES - other, seed=4)
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), rel=1e-12)
    with pytest.raises(UsageError, match="one share"):
        difference_interval(VALUES, other, method="wilson")


@pytest.mark.parametrize("method", ["bca", "percentile", "t", "studentised"])
def test_many_measures_at_once_are_each_alone(method: str) -> None:
    table = RNG.random((11, 40))
    table[3, 5] = table[7, 5] = table[2, 0] = np.nan
    table[4] = 0.5
    table[5, 2:] = np.nan
    found = intervals(table, method=method, resamples=500)
    alone = [interval(row, method=method, resamples=500) for row in table]
    assert list(map(repr, found)) == list(map(repr, alone))
    assert [f.low for f in found if f.low == f.low] == [f.low for f in alone if f.low == f.low]


def test_many_measures_with_clusters() -> None:
    table, clusters = RNG.random((3, 40)), np.repeat(np.arange(10), 4)
    found = intervals(table, clusters=clusters, resamples=500)
    assert found == [interval(row, clusters=clusters, resamples=500) for row in table]


def test_intervals_in_one_line() -> None:
    holed = interval([0.2, 0.5, math.nan, 0.9, 0.6], method="t", level=0.9)
    assert repr(holed) == (
        f"Interval(0.5500 [{holed.low:.4f}, {holed.high:.4f}], 90 % Student t, n=4, 1 removed)"
    )
    few = "Interval(undefined no interval, 95 % Student t, n=0; too few queries (0): at least 3 are"
    assert repr(interval([])).startswith(few)
    assert holed.half_width == pytest.approx((holed.high - holed.low) / 2)
    assert holed.low in holed
    assert holed.high in holed
    assert holed.high + 1e-9 not in holed
    assert 0.5 not in interval([])


def test_the_number_of_values_chooses_the_method() -> None:
    values = np.random.default_rng(4).random(5001)
    for n, method in [(7, "t"), (8, "bca"), (5000, "bca"), (5001, "t")]:
        found = interval(values[:n], resamples=100)
        assert (found.method, found.resamples, found.seed is None) == (
            method,
            100 if method == "bca" else 0,
            method == "t",
        )
        assert difference_interval(values[:n], values[:n] ** 2, resamples=100).method == method
    zeros_and_ones = [0, 1, 1, 0, 1, 0, 0, 1, 1, 1]
    assert interval(zeros_and_ones).method == "wilson"
    assert interval(zeros_and_ones, strata=[0] * 5 + [1] * 5).method == "score"
    assert interval(zeros_and_ones * 2, clusters=np.arange(20) // 2).method == "score"
    assert interval(values[:20], clusters=np.arange(20) // 2).method == "t"
    for n in (3, 8, 5001):
        assert interval(values[:n], bounds=(0, 1)).method == "score"
    assert interval(np.r_[values[:3], np.ones(30)]).method == "bca"


def test_student_of_strata_loses_a_degree_for_each() -> None:
    strata = np.repeat(["x", "y", "z"], [20, 15, 25])
    found = interval(VALUES, method="t", strata=strata, level=0.9)
    error = standard_error(units_of(VALUES, strata=strata))
    assert found.half_width == pytest.approx(scipy.stats.t.isf(0.05, 57) * error, rel=1e-9)
    wide = scipy.stats.t.isf(0.05, 57) * math.sqrt(60 / 57)
    assert expanded_z(units_of(VALUES, strata=strata), 0.9) == pytest.approx(wide, rel=1e-9)
    single = interval(VALUES[:9], strata=[0] * 8 + [1])
    assert single.note == "too few units in a stratum (1): at least 2 are needed"
    assert math.isfinite(interval(VALUES[:9], strata=[0] * 7 + [1] * 2).low)
    groups = interval(VALUES[:9], method="t", clusters=[0] * 5 + [1] * 4)
    assert groups.note == "too few clusters (2): at least 3 are needed"


def test_studentised_ends_are_quantiles_of_t() -> None:
    drawn = np.sort(bootstrap_t(VALUES, 999, 0))
    error = VALUES.std(ddof=1) / math.sqrt(60)
    found = interval(VALUES, method="studentised", resamples=999, level=0.9)
    assert found.low == pytest.approx(VALUES.mean() - drawn[949] * error, rel=1e-12)
    assert found.high == pytest.approx(VALUES.mean() - drawn[49] * error, rel=1e-12)


def test_bca_where_its_correction_has_no_room() -> None:
    means = np.arange(101.0)
    assert bca_ends(means, 50.0, 0.0, Z) == pytest.approx((2.5, 97.5))
    assert bca_ends(means, 50.0, 0.6, Z)[1] == 100  # the bend turns round: the very end
    assert bca_ends(means, 50.0, -0.6, Z)[0] == 0
    bias = scipy.stats.norm.ppf(0.5 / 101)  # none below counts as half a resample
    expected = 100 * scipy.stats.norm.cdf(2 * bias + 4)
    assert bca_ends(means, -1.0, 0.0, 4.0)[1] == pytest.approx(expected)
    assert bca_ends(means, 101.0, 0.0, 4.0)[0] == pytest.approx(100 - expected)


def test_resamples_of_one_value_have_no_spread() -> None:
    drawn = bootstrap_t(np.array([0.0, 0.0, 0.3]), 2000, 0)
    assert np.isinf(drawn).mean() == pytest.approx((8 + 1) / 27, abs=0.05)
    assert (drawn[np.isinf(drawn)] < 0).mean() == pytest.approx(8 / 9, abs=0.05)
    assert not np.isnan(drawn).any()


def test_expanded_z_is_wider_than_normal() -> None:
    assert expanded_z(units_of(VALUES), 0.95) == pytest.approx(2.0179, abs=1e-3)
    assert expanded_z(units_of(np.arange(1e5)), 0.95) == pytest.approx(Z, abs=1e-4)


def test_constant_values_say_so() -> None:
    for method in ("auto", "bca", "t", "percentile", "studentised"):
        found = interval([0.3] * 10, method=method)
        assert math.isnan(found.low)
        assert "give the bounds" in found.note
        known = interval([0.3] * 10, method=method, bounds=(0, 1))
        unseen = 1 - 0.025**0.1  # Clopper and Pearson: none of ten
        assert known.low == pytest.approx(0.3 * (1 - unseen), rel=1e-12)
        assert known.high == pytest.approx(0.3 + 0.7 * unseen, rel=1e-12)
        assert "no variation" in known.note
        assert (known.resamples, known.seed) == (found.resamples, found.seed) == (0, None)
    assert interval([1.0] * 10, method="wilson").low < 0.9


def test_thirty_hits_of_thirty_are_not_certain() -> None:
    found = interval([1] * 30)
    assert found.method == "wilson"
    assert found.high == 1
    assert 0.87 < found.low < 0.9
    assert interval([0] * 30).high == pytest.approx(1 - found.low, rel=1e-9)
    groups = interval([1.0] * 30, clusters=np.arange(30) // 3, bounds=(0, 1))
    assert groups.low == pytest.approx(0.025**0.1, rel=1e-12)  # ten groups, not thirty queries


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("kind", ["missed", "second", "anywhere"])
def test_means_near_a_bound_are_covered(n: int, share: float, kind: str) -> None:
    rng = np.random.default_rng(7)
    loss = {
        "missed": np.ones,
        "second": lambda m: 1 - 1 / rng.integers(2, 8, m),
        "anywhere": rng.random,
    }[kind]
    truth = 1 - share * float(loss(200_000).mean())
    covered = 0
    for _ in range(300):
        values = np.where(rng.random(n) < share, 1 - loss(n), 1.0)
        found = interval(values, bounds=(0, 1), resamples=200)
        assert found.low < found.high
        covered += found.low <= truth <= found.high
    assert covered >= 270  # a bootstrap has 90 to 260 of 300 here


def test_no_end_lies_outside_the_bounds() -> None:
    values = [0.9, 1.0, 0.8, 0.97, 0.5]
    assert interval(values, method="t").high > 1
    assert interval(values, method="t", bounds=(0, 1)).high == 1
    with pytest.raises(UsageError, match="bounds must be the least"):
        interval(values, bounds=(1, 0))


def test_studentised_refuses_what_it_cannot_do() -> None:
    rare = interval([1.0] + [0.0] * 49, method="studentised")
    plain = interval([1.0] + [0.0] * 49, method="t")
    assert (rare.low, rare.high, rare.method) == (plain.low, plain.high, "t")
    assert "had no spread" in rare.note
    with pytest.raises(UsageError, match="clusters"):
        interval(VALUES, method="studentised", clusters=np.arange(60))
    assert "at least 8" in interval(VALUES[:7], method="studentised").note


@pytest.mark.parametrize(
    ("call", "error", "words_"),
    [
        (lambda: interval(VALUES, method="basic"), UsageError, "one of auto"),
        (lambda: interval(VALUES, level=95), UsageError, "between 0 and 1"),
        (lambda: interval(VALUES, level=True), UsageError, "between 0 and 1"),
        (lambda: interval(VALUES, resamples=0), UsageError, "resamples"),
        (lambda: interval(VALUES, resamples=1), UsageError, "100 or more"),
        (lambda: rank_intervals([VALUES, VALUES], resamples=1), UsageError, "100 or more"),
        (lambda: compare_seeds([VALUES] * 3, [VALUES] * 3, resamples=1), UsageError, "100 or more"),
        (lambda: interval(VALUES, clusters=5), ShapeError, "clusters must be a list"),
        (lambda: interval(VALUES, resamples=2.5), UsageError, "resamples"),
        (lambda: interval(VALUES, seed=-1), UsageError, "seed"),
        (lambda: interval(VALUES, seed=2**64), UsageError, "seed"),
        (lambda: interval([[0.1, 0.2]]), ShapeError, r"\(1, 2\)"),
        (lambda: interval(["a", "b"]), ValueRangeError, "numbers"),
        (lambda: interval([0.1, math.inf]), ValueRangeError, "inf at 1"),
        (lambda: interval([0, 1, 0.5, 1], method="wilson"), ValueRangeError, "value 2 is 0.5"),
        (lambda: interval([0, 1, 1], method="wilson", strata=[0, 0, 1]), UsageError, "strata"),
        (lambda: interval(VALUES, clusters=[1, 2]), MismatchError, "clusters has 2"),
        (lambda: difference_interval([1, 2, 3], [1, 2]), MismatchError, "b has 2"),
    ],
)
def test_nonsense_is_refused(call: object, error: type[Exception], words_: str) -> None:
    with pytest.raises(error, match=words_):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("method", ["bca", "percentile", "studentised"])
def test_too_few_for_a_bootstrap_give_no_ends(method: str) -> None:
    for n in range(3, 8):
        found = interval(VALUES[:n], method=method)
        assert math.isnan(found.low)
        assert math.isnan(found.high)
        note = f"too few queries ({n}): at least 8 are needed for a bootstrap; use t"
        assert (found.note, found.resamples, found.seed) == (note, 0, None)
        assert intervals(VALUES[None, :n], method=method)[0].note == note
    assert math.isfinite(interval(VALUES[:8], method=method).low)
    assert math.isfinite(interval(VALUES[:3], method="t").low)


def test_too_few_clusters_for_a_bootstrap_give_no_ends() -> None:
    found = interval(VALUES, method="bca", clusters=np.arange(60) % 7)
    assert math.isnan(found.low)
    assert interval(VALUES, clusters=np.arange(60) % 7).method == "t"
    assert found.note == "too few clusters (7): at least 8 are needed for a bootstrap; use t"
    assert math.isfinite(interval(VALUES, clusters=np.arange(60) % 8).low)


@examples(60)
@given(st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=30))
def test_ends_enclose_and_stay_in_range(values: list[float]) -> None:
    for method in ("bca", "percentile"):
        found = interval(values, method=method, resamples=200, bounds=(-1e6, 1e6))
        if found.method == "unseen":
            assert found.low < values[0] < found.high or abs(values[0]) == 1e6
            continue
        tiny = 1e-9 * max(map(abs, values))
        assert min(values) - tiny <= found.low <= found.high <= max(values) + tiny


@pytest.mark.parametrize("scale", [1e-40, 1e-12, 1e12, 1e40])
def test_any_scale_gives_the_same_interval(scale: float) -> None:
    plain, scaled = interval(VALUES, resamples=500), interval(VALUES * scale, resamples=500)
    assert (scaled.low / scale, scaled.high / scale) == pytest.approx(
        (plain.low, plain.high), rel=1e-9
    )


def test_equal_differences_have_ends_only_where_the_range_is_known() -> None:
    same = [3.0] * 30
    assert math.isnan(difference_interval(same, same).low)
    known = difference_interval(same, same, bounds=(0.0, 5.0))
    assert (known.low, known.high) == pytest.approx((-5 * 0.1157, 5 * 0.1157), abs=1e-3)
    far = difference_interval([5.0] * 30, [0.0] * 30, bounds=(0.0, 5.0))
    assert far.low < 5.0 == far.high
