"""The joint inference of all pairs: by definition, and that its answers never disagree."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from assay.arrays import stream_key, words
from assay.errors import ShapeError, UsageError
from assay.stats import compare_jointly, joint, rank_intervals
from assay.stats.confidence import standard_error
from assay.stats.joint import allowed_draws, smallest_flip_p
from assay.stats.samples import units_of
from tests.examples import examples

RNG = np.random.default_rng(11)


def signs(n: int, resamples: int, seed: int) -> np.ndarray:
    """The signs that the kernels draw: a set bit is a minus."""
    width = -(-n // 64)
    drawn = words(stream_key(seed, "sign flips"), 0, resamples * width).reshape(resamples, width)
    bits = np.unpackbits(drawn.view(np.uint8), axis=1, bitorder="little")[:, :n]
    return 1.0 - 2.0 * bits


def by_definition(values, pairs, clusters, level, resamples):
    """Every step for every pair and resample, one by one."""
    labels = np.arange(values.shape[1]) if clusters is None else np.asarray(clusters)
    units = np.unique(labels)
    observed, drawn = [], []
    flips = signs(len(units), resamples, 0)
    for a, b in pairs:
        d = values[a] - values[b]
        mean = d.mean()
        residuals = np.array([(d[labels == unit] - mean).sum() for unit in units])
        sizes = np.array([(labels == unit).sum() for unit in units])

        n = len(d)
        weights = n / (n - sizes)  # leaving out a unit changes the mean by as much

        def error(rest, weights=weights):
            u = len(units)
            return np.sqrt(((rest * weights) ** 2).sum() * (u - 1) / u) / values.shape[1]

        observed.append((mean, error(residuals)))
        row = []
        for sign in flips:
            drawn_sums = sign * residuals * weights
            flipped = drawn_sums.sum() / n
            row.append(abs(flipped) / error(drawn_sums - flipped * sizes))
        drawn.append(row)
    largest = np.sort(np.max(drawn, axis=0))[::-1]
    t = np.array([abs(mean) / error for mean, error in observed])
    p = np.array([(1 + (largest >= each * (1 - 1e-9)).sum()) / (resamples + 1) for each in t])
    critical = largest[int(np.floor(level * (resamples + 1))) - 1]
    return p, critical, observed


@pytest.mark.parametrize("grouped", [False, True])
def test_the_definition(grouped: bool) -> None:
    values = np.round(RNG.random((4, 24)), 1)
    values[1] += 0.25
    clusters = [f"g{i}" for i in np.sort(RNG.integers(0, 9, 24))] if grouped else None
    pairs = list(combinations(range(4), 2))
    found = compare_jointly(values, pairs, clusters=clusters, resamples=300, level=0.1)
    p, critical, observed = by_definition(values, pairs, clusters, 0.1, 300)
    least = 2.0 ** (1 - found.n_units)
    assert found.p == pytest.approx(np.maximum(p, least), abs=1e-12)
    assert found.critical == pytest.approx(critical, rel=1e-6)
    for (mean, error), low, high in zip(observed, found.low, found.high, strict=True):
        assert low == pytest.approx(mean - critical * error, abs=1e-6)
        assert high == pytest.approx(mean + critical * error, abs=1e-6)


def test_errors_are_those_of_the_mean() -> None:
    values = RNG.random((2, 40))
    for clusters in (None, RNG.integers(0, 12, 40)):
        found = compare_jointly(values, [(0, 1)], clusters=clusters, resamples=100)
        expected = standard_error(units_of(values[0] - values[1], clusters))
        assert found.errors[0] == pytest.approx(expected, rel=1e-12)


@examples(150)
@given(
    st.integers(2, 6),
    st.integers(3, 40),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["ties", "binary", "sparse", "shifted", "identical", "undefined"]),
    st.booleans(),
    st.sampled_from([0.01, 0.05, 0.1]),
)
def test_p_and_interval_never_disagree(systems, n, seed, kind, grouped, level) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((systems, n))
    if kind == "ties":
        values = np.round(values, 1)
    elif kind == "binary":
        values = (values < rng.random((systems, 1))).astype(float)
    elif kind == "sparse":
        values = np.where(rng.random((systems, n)) < 0.1, values, values[0])
    elif kind == "shifted":
        values = values[0] + np.linspace(0, 1, systems)[:, None]
    elif kind == "identical":
        values = np.tile(values[0], (systems, 1)) + 1e-17 * values
    elif kind == "undefined":
        values[rng.random(values.shape) < 0.1] = np.nan
    clusters = rng.integers(0, max(3, n // 3), n) if grouped else None
    pairs = list(combinations(range(systems), 2))
    found = compare_jointly(values, pairs, clusters=clusters, level=level, resamples=200)
    known = ~np.isnan(found.low)
    excludes = (found.low > 0) | (found.high < 0)
    assert (excludes[known] == (found.p[known] <= level)).all()
    assert not (found.p[~known] <= level).any()
    assert (found.p_alone[known] <= found.p[known]).all()
    assert ((found.low <= found.differences) & (found.differences <= found.high))[known].all()
    if kind == "shifted":
        assert (found.high - found.low > 0)[known].all()


def test_many_systems_are_decided() -> None:
    values = RNG.random((40, 200))
    values[0] += 0.3
    pairs = list(combinations(range(40), 2))
    found = compare_jointly(values, pairs)  # Holm would leave no p below 780 / 10,001
    assert (found.p[:39] < 0.001).all()
    assert (found.p[39:] > 0.05).all()


def test_a_pair_with_undefined_queries_uses_its_own() -> None:
    values = RNG.random((3, 30))
    values[2, :5] = np.nan
    found = compare_jointly(values, [(0, 1), (0, 2)], resamples=200)
    assert found.differences[0] == pytest.approx((values[0] - values[1]).mean(), rel=1e-12)
    assert found.differences[1] == pytest.approx((values[0] - values[2])[5:].mean(), rel=1e-12)


def test_few_queries_decide_nothing() -> None:
    values = np.stack([RNG.random(5) + 1, RNG.random(5), RNG.random(5)])
    found = compare_jointly(values, [(0, 1), (0, 2), (1, 2)])
    assert (found.p >= 2.0**-4).all()
    assert np.isnan(found.low).all()
    none = compare_jointly(values[:, :2], [(0, 1)])
    assert np.isnan(none.p).all()
    assert "too few queries (2)" in none.note
    assert all("too few" in one.note for one in rank_intervals(values[:, :2]))


def test_how_many_draws_a_level_allows() -> None:
    for level in (0.001, 0.01, 0.05, 0.1, 0.3):
        for resamples in (99, 100, 999, 1000, 10_000):
            reached = allowed_draws(level, resamples)
            assert (reached + 1) / (resamples + 1) <= level * (1 + 1e-9)
            assert (reached + 2) / (resamples + 1) > level
    assert smallest_flip_p(6, 10_000) == 1 / 32  # all plus and all minus, of 64
    assert smallest_flip_p(60, 99) == 0.01


def test_one_pair_is_a_family_of_its_own() -> None:
    values = RNG.random((2, 30))
    found = compare_jointly(values, [(0, 1)], resamples=999, level=0.1)
    back = compare_jointly(values, [(1, 0)], resamples=999, level=0.1)
    assert found.p == found.p_alone == back.p
    assert (found.low, found.high) == (-back.high, -back.low)
    assert found.n_units == 30
    tail = 2 * scipy.stats.t.sf(found.critical, 29)
    assert found.level_of_one == pytest.approx(min(tail, 0.1), rel=1e-9)
    half = (found.high - found.low) / 2
    assert half == pytest.approx(found.critical * found.errors, rel=1e-9)
    t = found.differences / found.errors
    expected = scipy.stats.ttest_rel(*values).statistic
    assert t == pytest.approx(expected, rel=1e-9)
    assert found.smallest == pytest.approx(1 / 1000)


def test_a_family_is_stricter_than_a_pair() -> None:
    values = RNG.random((6, 50))
    found = compare_jointly(values, list(combinations(range(6), 2)), resamples=2000)
    assert 0.05 / 15 / 2 < found.level_of_one < 0.05 / 3
    assert found.level_of_one == pytest.approx(2 * scipy.stats.t.sf(found.critical, 49), rel=1e-9)


def test_equal_differences_reach_as_far_as_what_was_not_seen() -> None:
    values = np.stack([RNG.integers(0, 9, 20) / 8] * 3)
    values[2] += 0.25
    found = compare_jointly(values, [(0, 1), (2, 0)], resamples=999, bounds=(0, 2))
    assert found.p.tolist() == pytest.approx([1, 0.001])
    unseen = 1 - (0.05 / 2 / 2) ** (1 / 20)  # both sides of each of two pairs
    assert [found.low[0], found.high[0]] == pytest.approx([-2 * unseen, 2 * unseen])
    assert [found.low[1], found.high[1]] == pytest.approx(
        [0.25 - 0.25 * unseen, 0.25 * (1 + unseen)]
    )
    seen = compare_jointly(values[:2], [(0, 1)], resamples=999)
    unseen = 1 - 0.025 ** (1 / 20)
    assert seen.high[0] == pytest.approx(np.ptp(values[:2]) * unseen)


def test_ends_lie_within_the_bounds() -> None:
    values = np.array([[1.0, 1, 0, 1, 0, 1, 1, 0], [0, 0, 1, 0, 0.5, 0, 0, 0.5]])
    wide = compare_jointly(values, [(0, 1)], level=0.01, resamples=999)
    assert wide.high[0] > 1
    clipped = compare_jointly(values, [(0, 1)], level=0.01, resamples=999, bounds=(0, 1))
    assert (clipped.low[0], clipped.high[0]) == (wide.low[0], 1)
    turned = compare_jointly(values, [(1, 0)], level=0.01, resamples=999, bounds=(0, 1))
    assert (turned.low[0], turned.high[0]) == (-1, -wide.low[0])


def test_senseless_families_are_refused() -> None:
    with pytest.raises(ShapeError):
        compare_jointly([[1.0, 2.0, 3.0]], [(0, 0)])
    with pytest.raises(UsageError):
        compare_jointly(RNG.random((2, 9)), [(0, 1)], level=2)


def test_systems_that_agree_on_a_few_queries_may_differ_on_others() -> None:
    rng = np.random.default_rng(2)
    pairs = list(combinations(range(10), 2))
    truth = np.linspace(0.4, 0.55, 10)
    missed = 0
    for _ in range(200):
        values = (rng.random((10, 10)) < truth[:, None]).astype(float)
        found = compare_jointly(values, pairs, resamples=300)
        wide = found.high - found.low
        assert (wide[~np.isnan(wide)] > 0).all()
        true = np.array([truth[a] - truth[b] for a, b in pairs])
        missed += bool(((true < found.low) | (true > found.high)).any())
    assert missed <= 20


def test_noisy_systems_do_not_make_others_differ() -> None:
    """Randomised Tukey separates equal systems in some 40 % here: it pools the variances."""
    rng = np.random.default_rng(5)
    pairs = list(combinations(range(12), 2))
    wrong = 0
    for _ in range(200):
        spread = np.r_[1.0, 1.0, np.full(10, 0.1)][:, None]
        values = rng.normal(size=50) + spread * rng.normal(size=(12, 50))
        wrong += bool((compare_jointly(values, pairs, resamples=400).p <= 0.05).any())
    assert wrong <= 20


@pytest.mark.parametrize("grouped", [False, True])
def test_scattered_gaps_are_drawn_as_each_pair_alone(grouped: bool) -> None:
    rng = np.random.default_rng(8)
    values = np.round(rng.random((5, 70)), 2)
    values[3:] = values[0] + [[0.1], [0.0]]  # equal differences but for rounding, and none
    values[rng.random(values.shape) < 0.2] = np.nan
    clusters = rng.integers(0, 25, 70) if grouped else None
    pairs = list(combinations(range(5), 2))
    found = compare_jointly(values, pairs, clusters=clusters, resamples=400)
    for number, pair in enumerate(pairs):
        own = np.where(np.isnan(values[list(pair)]).any(axis=0), np.nan, values[list(pair)])
        alone = compare_jointly(own, [(0, 1)], clusters=clusters, resamples=400)
        assert found.differences[number] == pytest.approx(alone.differences[0], rel=1e-12)
        assert found.errors[number] == pytest.approx(alone.errors[0], rel=1e-12)
        assert found.p_alone[number] == alone.p_alone[0]


def test_how_gaps_are_cut_into_blocks_changes_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    values = RNG.random((7, 90))
    values[RNG.random(values.shape) < 0.1] = np.nan
    pairs = list(combinations(range(7), 2))
    whole = compare_jointly(values, pairs, resamples=500)
    monkeypatch.setattr(joint, "BATCH", 2)
    monkeypatch.setattr(joint, "SIGNS", 90 * 64)
    parts = compare_jointly(values, pairs, resamples=500)
    for name in ("differences", "errors", "p", "p_alone", "low", "high"):
        assert getattr(whole, name).tobytes() == getattr(parts, name).tobytes()
