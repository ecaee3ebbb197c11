"""Adjusted p-values, Tukey's test and letters."""

from __future__ import annotations

import gc
import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from assay.errors import ShapeError, UsageError, ValueRangeError
from assay.stats import adjust, compact_letters, paired_test, tukey_hsd
from assay.stats.corrections import levels_of_one, split_letters
from tests.examples import examples

PEERS = {"holm": "holm", "bonferroni": "bonferroni", "bh": "fdr_bh"}


@pytest.mark.parametrize("method", PEERS)
@pytest.mark.parametrize("n", [1, 2, 10, 101])
def test_adjusted_p_is_statsmodels(method: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "collect", int)  # statsmodels does it for "holm", which takes a second
    p = np.random.default_rng(n).random(n) ** 3
    p[n // 2] = p[0]
    assert adjust(p, method) == pytest.approx(multipletests(p, method=PEERS[method])[1], rel=1e-12)


def test_unknown_p_counts_for_nothing() -> None:
    assert adjust([0.01, math.nan, 0.04]).tolist() == pytest.approx(
        [0.02, math.nan, 0.04], nan_ok=True
    )
    assert adjust([]).tolist() == []
    assert adjust([0.2, 0.1], "none").tolist() == [0.2, 0.1]


def test_the_largest_p_is_not_adjusted_by_the_rate() -> None:
    for m in range(1, 200):
        assert adjust([0.0] * (m - 1) + [0.05], "bh")[-1] == 0.05
        assert levels_of_one([0.0] * (m - 1) + [0.05], "bh", 0.05)[-1] == 0.05


def test_wrong_p_is_refused() -> None:
    with pytest.raises(ValueRangeError, match=r"1\.5 at 1"):
        adjust([0.1, 1.5])
    with pytest.raises(ValueRangeError, match=r"-0\.5 at 2"):
        adjust([0.0, 1.0, -0.5])
    with pytest.raises(UsageError, match="holm"):
        adjust([0.1], "tukey")


@examples(100)
@given(
    st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.03, 0.05, 0.2, 1.0, math.nan]), max_size=9),
    st.sampled_from([*PEERS, "none"]),
)
@example([0.0, 0.0, 0.05], "bh")
def test_each_p_alone_is_compared_with_its_own_level(p: list[float], method: str) -> None:
    levels = levels_of_one(p, method, 0.05)
    rejected = adjust(p, method) <= 0.05
    assert ((np.array(p) <= levels * (1 + 1e-12)) == rejected).all()
    m, k = sum(not math.isnan(one) for one in p), int(rejected.sum())
    if method == "holm":  # of k rejected the first met level / m, all others that of step k + 1
        steps = sorted(levels[rejected].tolist())
        assert steps == pytest.approx([0.05 / (m - step) for step in range(k)])
        assert levels[~rejected] == pytest.approx(0.05 / max(m - k, 1))
    else:
        # Benjamini and Hochberg: all others failed at the level of step k + 1
        steps = np.where(rejected, k, min(k + 1, m)) / max(m, 1) if m else np.ones(len(p))
        share = {"bonferroni": 1 / max(m, 1), "bh": steps, "none": 1}[method]
        assert levels == pytest.approx(np.full(len(p), 0.05) * share)


def all_shuffles(table: np.ndarray) -> np.ndarray:
    """p of Tukey's randomised test over every shuffle of every query."""
    systems, n = table.shape
    orders = list(itertools.permutations(range(systems)))
    means = table.mean(axis=1)
    gaps = np.abs(means[:, None] - means)
    reached = np.zeros_like(gaps)
    for choice in itertools.product(orders, repeat=n):
        sums = sum(table[list(order), q] for q, order in enumerate(choice))
        reached += np.ptp(sums) / n >= gaps - 1e-12
    return reached / len(orders) ** n


def test_tukey_comes_near_all_shuffles() -> None:
    table = np.random.default_rng(4).random((3, 5)) + np.array([[0], [0.1], [0.4]])
    exact = all_shuffles(table)
    found = tukey_hsd(table, resamples=40_000)
    assert found.p == pytest.approx(exact, abs=0.012)
    assert (found.p == found.p.T).all()
    assert found.differences[2, 0] == pytest.approx(table[2].mean() - table[0].mean())


def test_tukey_of_two_systems_is_the_sign_flip_test() -> None:
    table = np.random.default_rng(5).random((2, 30))
    pair = paired_test(table[0], table[1], resamples=40_000).p
    assert tukey_hsd(table, resamples=40_000).p[0, 1] == pytest.approx(pair, abs=0.015)


def test_tukey_of_equal_systems_is_one() -> None:
    row = np.random.default_rng(6).random(20)
    assert (tukey_hsd(np.stack([row, row, row])).p == 1).all()
    assert (tukey_hsd(np.stack([row, row, row + 0.5])).p[:2, :2] == 1).all()
    assert tukey_hsd(np.zeros((3, 10))).p.min() == 1


def test_tukey_removes_queries_with_nan() -> None:
    table = np.random.default_rng(7).random((3, 20))
    holed = np.insert(table, 4, math.nan, axis=1)
    found = tukey_hsd(holed)
    assert (found.n, found.n_removed) == (20, 1)
    assert (found.p == tukey_hsd(table).p).all()
    with pytest.raises(ShapeError, match="two systems"):
        tukey_hsd(table[:1])


def test_tukeys_interval_reaches_as_far_as_its_test() -> None:
    table = np.random.default_rng(8).random((6, 25)) + np.linspace(0, 0.4, 6)[:, None]
    found = tukey_hsd(table, resamples=999)
    gaps = np.abs(found.differences)
    assert (np.diff(found.ranges) >= 0).all()
    for level in (0.01, 0.05, 0.2, 0.5):
        assert ((gaps >= found.half_width(level)) == (found.p <= level)).all()
        assert found.half_width(level) == found.ranges[-round(level * 1000)]
    assert found.half_width(0.0009) == math.inf
    few = tukey_hsd(table[:, :2])
    assert few.half_width(0.05) == math.inf
    assert np.isnan(few.p).all()
    assert few.differences[1, 0] == pytest.approx(table[1, :2].mean() - table[0, :2].mean())
    assert np.isnan(tukey_hsd(np.empty((2, 0))).differences).all()


def test_tukeys_result_says_what_it_rests_on() -> None:
    table = np.random.default_rng(9).random((3, 6))
    table[1, 2] = math.nan
    assert repr(tukey_hsd(table, resamples=50)) == (
        "TukeyResult(3 systems, n=5, 1 removed, 50 resamples)"
    )
    assert repr(tukey_hsd(table[:2, :2], resamples=50)) == (
        "TukeyResult(2 systems, n=2, 50 resamples; too few queries (2): at least 3 are needed)"
    )


def check_letters(separable: np.ndarray) -> list[str]:
    """Share a letter exactly if not separated."""
    shown = compact_letters(separable)
    sets = [set(split_letters(each)) for each in shown]
    for i, j in itertools.combinations(range(len(sets)), 2):
        assert bool(sets[i] & sets[j]) != separable[i, j]
    assert all(sets)
    return shown


@pytest.mark.parametrize("n", [1, 2, 5, 26, 27, 100, 800])
def test_all_separable_never_runs_out_of_letters(n: int) -> None:
    shown = compact_letters(~np.eye(n, dtype=bool))
    assert len(set(shown)) == n
    assert shown[0] == "a"
    assert shown[-1] == {26: "z", 27: "A", 100: "V2", 800: "t16"}.get(n, shown[-1])


def test_nothing_separable_is_one_letter() -> None:
    assert compact_letters(np.zeros((4, 4), bool)) == ["a"] * 4
    assert compact_letters(np.zeros((0, 0), bool)) == []


def test_letters_of_means_with_one_threshold() -> None:
    means = np.array([9, 8, 7, 5, 4.5, 1])
    shown = check_letters(np.abs(means[:, None] - means) > 2)
    assert shown == ["a", "a", "ab", "bc", "c", "d"]


@examples(150)
@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_letters_of_any_matrix(n: int, seed: int, share: float) -> None:
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < share, 1)
    check_letters(upper | upper.T)


def test_letters_of_the_worst_matrix_stay_few() -> None:
    # Pairs that are separated from each other only: 2^50 largest groups exist.
    separable = np.zeros((100, 100), bool)
    for i in range(0, 100, 2):
        separable[i, i + 1] = separable[i + 1, i] = True
    letters = {letter for shown in check_letters(separable) for letter in split_letters(shown)}
    assert len(letters) < 100


@pytest.mark.parametrize(
    "matrix", [[[0, 1], [1, 0]], [[False, True]], [[False, True], [False, False]], [[True]]]
)
def test_wrong_matrix_is_refused(matrix: list[list[bool]]) -> None:
    with pytest.raises(ShapeError, match="separable must be"):
        compact_letters(matrix)
