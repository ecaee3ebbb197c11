"""The resampling kernels: the compiled ones and their twins give the same bytes, however cut."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from assay.native import load

if TYPE_CHECKING:
    from assay.native.signatures import Kernels

RNG = np.random.default_rng(1)
KEY = 0xFEDCBA9876543210


@pytest.fixture(scope="module", params=["native", "numpy"])
def engine(request: pytest.FixtureRequest) -> Kernels:
    try:
        return load(request.param)
    except ImportError:
        pytest.skip("assay.native._kernels is not built")


def integers(count: int) -> np.ndarray:
    return RNG.integers(-(2**40), 2**40, count)


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 130, 1000])
def test_flips(engine: Kernels, n: int) -> None:
    values = integers(n)
    expected = load("numpy").flip_sums(values, KEY, 0, 100)
    assert (engine.flip_sums(values, KEY, 0, 100) == expected).all()
    for threads in (1, 2, 5, 200):
        assert (engine.flip_sums(values, KEY, 0, 100, threads) == expected).all()
    cut = [engine.flip_sums(values, KEY, at, 20) for at in range(0, 100, 20)]
    assert (np.concatenate(cut) == expected).all()


@pytest.mark.parametrize("columns", [1, 2, 5, 8, 9, 16, 21])
@pytest.mark.parametrize("offsets", [[0, 1], [0, 2], [0, 131], [0, 40, 131], [0, 0, 131, 131]])
def test_draws(engine: Kernels, columns: int, offsets: list[int]) -> None:
    values, cuts = integers(offsets[-1] * columns), np.array(offsets)
    expected = load("numpy").bootstrap_sums(values, columns, cuts, KEY, 0, 60)
    for threads in (0, 1, 2, 5):
        found = engine.bootstrap_sums(values, columns, cuts, KEY, 0, 60, threads)
        assert (found == expected).all()
    parts = [engine.bootstrap_sums(values, columns, cuts, KEY, at, 20) for at in (0, 20, 40)]
    assert (np.concatenate(parts) == expected).all()


@pytest.mark.parametrize("systems", [2, 3, 4, 5, 17])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_shuffles(engine: Kernels, n: int, systems: int) -> None:
    values = integers(n * systems)
    expected = load("numpy").shuffled_ranges(values, systems, KEY, 0, 60)
    for threads in (0, 1, 2, 5):
        assert (engine.shuffled_ranges(values, systems, KEY, 0, 60, threads) == expected).all()
    parts = [engine.shuffled_ranges(values, systems, KEY, at, 30) for at in (0, 30)]
    assert (np.concatenate(parts) == expected).all()


def test_blocks_larger_than_one(engine: Kernels) -> None:
    """More words than the twin takes at a time."""
    values = integers(3000)
    expected = load("numpy").bootstrap_sums(values, 1, np.array([0, 3000]), KEY, 0, 300)
    assert (engine.bootstrap_sums(values, 1, np.array([0, 3000]), KEY, 0, 300) == expected).all()


def test_every_sign_and_every_unit_is_as_likely(engine: Kernels) -> None:
    powers = 2 ** np.arange(0, 60, 3, dtype=np.int64)
    sums = engine.flip_sums(powers, KEY, 0, 20_000)
    minus = ((powers.sum() - sums)[:, None] // 2 & powers) > 0
    assert minus.mean(axis=0) == pytest.approx(0.5, abs=0.02)
    drawn = engine.bootstrap_sums(
        np.eye(7, dtype=np.int64).ravel(), 7, np.array([0, 3, 7]), KEY, 0, 20_000
    )
    counts = drawn.reshape(-1, 7)
    assert (counts[:, :3].sum(axis=1) == 3).all()
    assert counts.mean(axis=0) == pytest.approx(1, abs=0.03)
    assert counts.var(axis=0) == pytest.approx([2 / 3] * 3 + [3 / 4] * 4, abs=0.03)


def test_every_order_is_as_likely(engine: Kernels) -> None:
    orders = list(itertools.permutations((0, 1, 10)))
    sums = [np.add(first, second) for first in orders for second in orders]
    expected = Counter(int(np.ptp(each)) for each in sums)
    found = engine.shuffled_ranges(np.array([0, 1, 10, 0, 1, 10]), 3, KEY, 0, 36_000)
    values, counts = np.unique(found, return_counts=True)
    assert values.tolist() == sorted(expected)
    assert counts / 1000 == pytest.approx([expected[value] for value in values.tolist()], abs=0.5)


@pytest.mark.parametrize(
    "call",
    [
        lambda k: k.bootstrap_sums(np.arange(5), 2, np.array([0, 2]), 1, 0, 1),
        lambda k: k.bootstrap_sums(np.arange(4), 0, np.array([0, 4]), 1, 0, 1),
        lambda k: k.bootstrap_sums(np.arange(4), 1, np.array([0, 5]), 1, 0, 1),
        lambda k: k.bootstrap_sums(np.arange(4), 1, np.array([0, 5, 4]), 1, 0, 1),
        lambda k: k.bootstrap_sums(np.arange(4), 1, np.array([1, 4]), 1, 0, 1),
        lambda k: k.bootstrap_sums(np.arange(4), 1, np.array([], np.int64), 1, 0, 1),
        lambda k: k.shuffled_ranges(np.arange(5), 2, 1, 0, 1),
        lambda k: k.shuffled_ranges(np.arange(5), 1, 1, 0, 1),
        lambda k: k.count_pairs(np.array([0, 2]), np.array([0, 1]), np.array([1, 2])),
        lambda k: k.count_pairs(np.array([0, 2]), np.array([1, 2]), np.array([1, 3])),
        lambda k: k.count_pairs(np.array([0, 1, 2]), np.array([1, 2]), np.array([1, 1])),
        lambda k: k.count_pairs(np.array([0, 2]), np.array([1, 2]), np.array([1])),
        lambda k: k.count_pairs(np.array([0, 3]), np.array([1, 2]), np.array([1, 2])),
    ],
)
def test_wrong_sizes_never_reach_memory(engine: Kernels, call: object) -> None:
    with pytest.raises(ValueError, match="must"):
        call(engine)  # type: ignore[operator]


def test_pairs_are_counted_as_one_after_the_other(engine: Kernels) -> None:
    sizes = [0, 1, 2, 7, 0, 40, 3, 130]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    for ties in (1, 3, 40):
        ranks = [[RNG.integers(0, -(-size // ties), size) * ties + 1 for size in sizes if size]]
        ranks.append([RNG.permutation(size) + 1 for size in sizes if size])
        a, b = (np.concatenate(side) for side in ranks)
        tied, discordant = engine.count_pairs(offsets, a, b)
        for row, (start, stop) in enumerate(itertools.pairwise(offsets.tolist())):
            pairs = list(itertools.combinations(range(start, stop), 2))
            assert tied[row] == sum(a[i] == a[j] and b[i] == b[j] for i, j in pairs)
            assert discordant[row] == sum((a[i] - a[j]) * (b[i] - b[j]) < 0 for i, j in pairs)
        assert engine.count_pairs(offsets, a, a)[0].sum() == sum(
            count * (count - 1) // 2
            for start, stop in itertools.pairwise(offsets.tolist())
            for count in Counter(a[start:stop].tolist()).values()
        )
