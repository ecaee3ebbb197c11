"""The grid against all distances, with many ties."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.vision import ground_truth
from assay.vision.ground_truth import nearest_within, pairs_within


def _all_pairs(points, others, radius):
    """Every pair by a plain loop: (distance, left, right), sorted."""
    found = []
    for i, (x, y) in enumerate(points.tolist()):
        for j, (u, v) in enumerate(others.tolist()):
            apart = math.sqrt((x - u) * (x - u) + (y - v) * (y - v))
            if apart <= radius:
                found.append((apart, i, j))
    return sorted(found)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("radius", [0.0, 0.5, 1.0, 3.0, 100.0])
def test_grid_finds_what_all_distances_find(seed, radius):
    rng = np.random.default_rng(seed)
    step = [1.0, 0.25][seed % 2]  # places on a lattice: equal points and equal distances abound
    points = np.round(rng.uniform(-5, 12, (60, 2)) / step) * step
    others = np.round(rng.uniform(-5, 12, (50, 2)) / step) * step
    expected = _all_pairs(points, others, radius)
    pairs = pairs_within(points, others, radius)
    assert list(zip(pairs.distance, pairs.left, pairs.right, strict=True)) == expected
    near = nearest_within(points, others, radius)
    for i in range(len(points)):
        mine = sorted((apart, j) for apart, left, j in expected if left == i)
        assert (near.distance[i], near.number[i]) == (mine[0] if mine else (np.inf, -1))


def test_blocks_do_not_change_the_answer(monkeypatch):
    rng = np.random.default_rng(3)
    points, others = rng.uniform(0, 40, (300, 2)), rng.uniform(0, 40, (200, 2))
    whole, all_pairs = nearest_within(points, others, 3), pairs_within(points, others, 3)
    monkeypatch.setattr(ground_truth, "MOST_PAIRS", 7)
    np.testing.assert_array_equal(nearest_within(points, others, 3), whole)
    np.testing.assert_array_equal(pairs_within(points, others, 3), all_pairs)


def test_far_and_missing_points():
    others = np.array([[1e300, 0.0], [5.0, 5.0], [-1e12, 7.0]])
    points = np.array([[np.nan, 0.0], [5.0, 6.0], [1e300, 0.0], [-1e12, 7.5], [1e12, 1e12]])
    near = nearest_within(points, others, 2.0)
    assert near.number.tolist() == [-1, 1, 0, 2, -1]


def test_nothing_on_either_side():
    none = np.zeros((0, 2))
    assert nearest_within(none, np.ones((3, 2)), 1.0).number.tolist() == []
    assert nearest_within(np.ones((2, 2)), none, 1.0).number.tolist() == [-1, -1]
    assert len(pairs_within(none, none, 1.0).left) == 0


def test_many_equal_points_cost_as_much_as_one(monkeypatch):
    compared = []
    real = ground_truth.point_distances
    monkeypatch.setattr(
        ground_truth, "point_distances", lambda a, b: (compared.append(len(a)), real(a, b))[1]
    )
    others = np.ones((20_000, 2))
    assert nearest_within(np.ones((5000, 2)), others, 3.0).number.tolist() == [0] * 5000
    assert sum(compared) == 5000


def test_random_points_need_few_distances(monkeypatch):
    compared = []
    real = ground_truth.point_distances
    monkeypatch.setattr(
        ground_truth, "point_distances", lambda a, b: (compared.append(len(a)), real(a, b))[1]
    )
    rng = np.random.default_rng(0)
    points, others = rng.uniform(0, 1000, (20_000, 2)), rng.uniform(0, 1000, (20_000, 2))
    nearest_within(points, others, 3.0)
    assert sum(compared) < 0.001 * len(points) * len(others)
