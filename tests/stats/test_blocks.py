"""Blocks of queries in one family, and weighted sums of their differences: by definition."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ShapeError
from assay.stats import compare_jointly
from assay.stats.bounded import normal_quantile
from tests.examples import examples
from tests.stats.test_joint import signs

RNG = np.random.default_rng(12)


def shares(values, labels, a, b, inside):
    """Difference in a block; the share of each unit in it; and the sizes of the units."""
    d = values[a] - values[b]
    mean, n = d[inside].mean(), inside.sum()
    units = np.unique(labels)
    rest = np.array([(d - mean)[inside & (labels == unit)].sum() for unit in units])
    sizes = np.array([(inside & (labels == unit)).sum() for unit in units])
    return mean, rest / (n - sizes), sizes


def wallace(t, freedom):
    found = np.sqrt(freedom * np.log1p(t**2 / freedom))
    return found * (8 * freedom + 1) / (8 * freedom + 3)


def blocks_by_definition(values, pairs, labels, blocks, resamples):
    """p of each pair in each block: every statistic of every resample on the normal's scale."""
    flips = signs(len(np.unique(labels)), resamples, 0)
    observed, drawn = [], []
    for block in range(blocks.max() + 1):
        for a, b in pairs:
            mean, own, sizes = shares(values, labels, a, b, blocks == block)
            n, u = sizes.sum(), (sizes > 0).sum()
            weights = n / (n - sizes)
            most = -normal_quantile(2.0**-u)
            error = np.sqrt((own**2).sum() * (u - 1) / u)
            observed.append(min(wallace(abs(mean) / error, u - 1), most))
            row = []
            for sign in flips:
                flipped = (sign * own).sum()
                rest = (sign * own - flipped * sizes / n) * weights
                with np.errstate(divide="ignore"):
                    t = abs(flipped) / np.sqrt((rest**2).sum() * (u - 1) / u)
                row.append(min(wallace(t, u - 1), most))
            drawn.append(row)
    largest = np.max(drawn, axis=0)
    return [(1 + (largest >= t * (1 - 1e-9)).sum()) / (resamples + 1) for t in observed]


@pytest.mark.parametrize("grouped", [False, True])
def test_blocks_are_one_family(grouped: bool) -> None:
    values = np.round(RNG.random((3, 60)), 1)
    values[1, :20] += 0.2
    blocks = RNG.choice(3, 60, p=[0.5, 0.3, 0.2])
    labels = RNG.integers(0, 25, 60) if grouped else np.arange(60)  # groups reach over blocks
    pairs = list(combinations(range(3), 2))
    found = compare_jointly(
        values, pairs, clusters=labels if grouped else None, blocks=blocks, resamples=300
    )
    assert found.p == pytest.approx(blocks_by_definition(values, pairs, labels, blocks, 300))
    for number, (block, (a, b)) in enumerate((i, pair) for i in range(3) for pair in pairs):
        inside = blocks == block
        expected = (values[a] - values[b])[inside].mean()
        assert found.differences[number] == pytest.approx(expected, abs=1e-12)


def test_a_weighted_sum_of_blocks() -> None:
    values = RNG.random((2, 50))
    values[0, :20] *= 3
    blocks = np.repeat([0, 1, 2], [20, 18, 12])
    weights = np.array([1.0, -0.5, -0.5])
    found = compare_jointly(values, [(0, 1)], blocks=blocks, contrasts=[weights], resamples=400)
    d = values[0] - values[1]
    parts = [d[blocks == i] for i in range(3)]
    squares = np.array([w**2 * x.var(ddof=1) / len(x) for w, x in zip(weights, parts, strict=True)])
    error = np.sqrt(squares.sum())
    mean = sum(w * x.mean() for w, x in zip(weights, parts, strict=True))
    freedom = squares.sum() ** 2 / sum(
        s**2 / (len(x) - 1) for s, x in zip(squares, parts, strict=True)
    )
    assert found.differences[0] == pytest.approx(mean, rel=1e-12)
    assert found.errors[0] == pytest.approx(error, rel=1e-12)
    flips = signs(50, 400, 0)
    size = np.array([len(x) for x in parts])[blocks]
    z = np.concatenate(
        [w * (x - x.mean()) / (len(x) - 1) for w, x in zip(weights, parts, strict=True)]
    )
    t = np.abs(flips @ z)
    t /= np.sqrt((z**2 * size / (size - 1)).sum() * (1 - t**2 / (z @ z) / (freedom + 1)))
    expected = (1 + (t >= abs(mean) / error * (1 - 1e-9)).sum()) / 401
    assert found.p[0] == pytest.approx(expected)
    assert (found.low[0] > 0 or found.high[0] < 0) == (found.p[0] <= 0.05)


def test_the_mean_of_equal_blocks_is_the_mean() -> None:
    values = RNG.random((2, 40))
    blocks = np.tile([0, 1], 20)
    found = compare_jointly(values, [(0, 1)], blocks=blocks, contrasts=[[0.5, 0.5]])
    plain = compare_jointly(values, [(0, 1)])
    assert found.differences == pytest.approx(plain.differences)
    assert found.p == pytest.approx(plain.p, abs=0.05)


def test_a_block_of_six_does_not_forbid_the_others() -> None:
    """All signs of six equal differences come up in 3 % of resamples, with t = infinite."""
    values = np.zeros((2, 218))
    values[0] = RNG.normal(0.5, 1, 218)
    values[0, :18] = np.tile([0.5, -0.5], 9)
    blocks = np.repeat([0, 1, 2, 3], [6, 6, 6, 200])
    found = compare_jointly(values, [(0, 1)], blocks=blocks)
    assert found.p[3] < 0.001
    assert found.low[3] > 0
    assert (found.smallest[:3] > 0.05).all()
    assert found.smallest[3] < 0.001


@examples(100)
@given(
    st.integers(2, 4),
    st.integers(12, 60),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["any", "binary", "sparse", "flat", "twins", "undefined", "tiny"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.01, 0.05, 0.2]),
)
def test_blocks_never_contradict_themselves(systems, n, seed, kind, grouped, summed, level) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((systems, n)) + 0.3 * rng.random((systems, 1))
    if kind == "binary":
        values = (values < 0.6).astype(float)
    elif kind == "sparse":
        values = np.where(rng.random((systems, n)) < 0.15, values, np.round(values[0]))
    elif kind == "flat":
        values = values[0] * 0.5 + np.linspace(0, 0.4, systems)[:, None]
    elif kind == "twins":
        values[1] = values[0]
    elif kind == "undefined":
        values[rng.random(values.shape) < 0.2] = np.nan
    elif kind == "tiny":
        values *= 1e-90
    blocks = rng.integers(-1, 4, n)
    clusters = rng.integers(0, max(3, n // 3), n) if grouped else None
    weights = [[0.25] * 4, [1, -1, 0, 0]] if summed and len(set(blocks) - {-1}) == 4 else None
    if blocks.max() < 3 and summed:
        return
    found = compare_jointly(
        values,
        list(combinations(range(systems), 2)),
        clusters=clusters,
        blocks=blocks,
        contrasts=weights,
        level=level,
        resamples=200,
    )
    known = ~np.isnan(found.low)
    excludes = (found.low > 0) | (found.high < 0)
    assert (excludes[known] == (found.p[known] <= level)).all()
    assert not (found.p[~known] <= level).any()
    decided = ~np.isnan(found.p)
    assert (found.smallest[decided] <= found.p[decided] + 1e-12).all()


def test_equal_differences_are_not_said_to_depend_on_the_block() -> None:
    """Wrong in 5 % of samples, also where small blocks vary most."""
    rng = np.random.default_rng(3)
    spread = np.repeat([4.0, 2.0, 1.0], [8, 20, 60])
    blocks = np.repeat([0, 1, 2], [8, 20, 60])
    contrasts = np.full((3, 3), -0.5) + 1.5 * np.eye(3)
    wrong = 0
    for _ in range(400):
        values = np.stack([0.3 + spread * rng.normal(size=88), np.zeros(88)])
        found = compare_jointly(values, [(0, 1)], blocks=blocks, contrasts=contrasts, resamples=300)
        wrong += bool((found.p <= 0.05).any())
    assert 5 <= wrong <= 36


@pytest.mark.parametrize(
    "wrong",
    [
        {"blocks": [0, 1]},
        {"blocks": ["a"] * 9},
        {"blocks": [-1] * 9},
        {"clusters": [1, 2]},
        {"blocks": [0] * 9, "contrasts": [[1, 2]]},
        {"blocks": [0] * 9, "contrasts": [[0]]},
        {"blocks": [0] * 9, "contrasts": [1]},
    ],
)
def test_senseless_blocks_are_refused(wrong) -> None:
    with pytest.raises(ShapeError):
        compare_jointly(RNG.random((2, 9)), [(0, 1)], **wrong)
