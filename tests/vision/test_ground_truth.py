"""True matches against plain loops, and by homographies known to the bit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from assay.errors import InputError, UsageError
from assay.vision.ground_truth import Status, match_truth, match_truths

SHIFT = [[1, 0, 5], [0, 1, -2], [0, 0, 1]]
VIEW = np.array([[0.9, 0.05, 4.0], [-0.04, 1.1, -3.0], [1e-3, -4e-4, 1.0]])


def _projected(xy, H):
    x, y = xy
    w = H[2][0] * x + H[2][1] * y + H[2][2]
    if w <= 0:
        return None
    return (H[0][0] * x + H[0][1] * y + H[0][2]) / w, (H[1][0] * x + H[1][1] * y + H[1][2]) / w


def _brute(queries, targets, H, tau, shape):
    """Status, target and distance of each query by plain loops."""
    rows = []
    for query in queries.tolist():
        ahead = _projected(query, H.tolist())
        if ahead is None or not (0 <= ahead[0] <= shape[1] - 1 and 0 <= ahead[1] <= shape[0] - 1):
            rows.append((Status.OUTSIDE, -1, np.inf))
            continue
        apart = [math.hypot(ahead[0] - u, ahead[1] - v) for u, v in targets.tolist()]
        best = min(range(len(apart)), key=lambda j: (apart[j], j))
        near = apart[best] <= tau
        rows.append((Status.MATCHED, best, apart[best]) if near else (Status.NO_MATCH, -1, np.inf))
    return rows


@pytest.mark.parametrize("seed", range(6))
def test_same_as_plain_loops(seed):
    rng = np.random.default_rng(seed)
    queries = np.round(rng.uniform(0, 80, (150, 2)))
    targets = np.round(rng.uniform(0, 80, (120, 2)))
    targets[60:] = targets[:60]  # every place twice: ties by row
    H = np.array(SHIFT, float) if seed % 2 else VIEW + rng.normal(0, 1e-4, (3, 3))
    truths = match_truths(queries, targets, H, taus=[0, 1, 3, 10], target_shape=(70, 75))
    for tau, truth in truths.items():
        found = list(zip(truth.status, truth.target, truth.distance, strict=True))
        expected = _brute(queries, targets, H, tau, (70, 75))
        assert [row[:2] for row in found] == [row[:2] for row in expected]
        np.testing.assert_allclose(truth.distance, [row[2] for row in expected], rtol=1e-12)
        assert len({status for status, *_ in expected}) == 3 or tau == 0


def test_homography_known_to_the_bit_gives_exact_truth():
    # Halves and quarters are exact in binary, so the projections are, too.
    H = np.array([[0.5, 0.25, 3.0], [-0.25, 0.5, 40.0], [0.0, 0.0, 0.5]])
    queries = np.array([[x, y] for x in range(0, 40, 4) for y in range(0, 40, 8)], float)
    exact = [
        tuple(float(value) for value in _projected(tuple(map(Fraction, query)), _fractions(H)))
        for query in queries.tolist()
    ]
    order = np.random.default_rng(1).permutation(len(exact))
    truth = match_truth(queries, np.array(exact)[order], H, tau=0, target_shape=(500, 500))
    assert truth.distance.tolist() == [0.0] * len(queries)
    assert order[truth.target].tolist() == list(range(len(queries)))


def _fractions(H):
    return [[Fraction(cell) for cell in row] for row in H.tolist()]


def test_tolerance_is_inclusive_and_the_lower_row_wins():
    truth = match_truth([[0, 2]], [[5, 3], [8, 0], [5, -3]], SHIFT, tau=3, target_shape=(99, 99))
    assert (truth.target[0], truth.distance[0]) == (0, 3.0)
    above = np.nextafter(3.0, 4.0)
    truth = match_truth([[0, 2]], [[5, above]], SHIFT, tau=3, target_shape=(99, 99))
    assert truth.status.tolist() == [Status.NO_MATCH]


def test_bounds_are_those_of_the_image():
    queries = [[0, 2], [-5, 2], [-5.001, 2], [94, 2], [94.001, 2], [0, 51], [0, 52]]
    truth = match_truth(queries, np.zeros((0, 2)), SHIFT, target_shape=(50, 100))
    inside, outside = Status.NO_MATCH, Status.OUTSIDE
    assert truth.status.tolist() == [inside, inside, outside, inside, outside, inside, outside]


def test_points_at_and_behind_infinity_have_no_truth():
    H = [[1, 0, 0], [0, 1, 0], [-0.1, 0, 1]]  # w = 1 - x / 10
    truth = match_truth([[5, 1], [10, 1], [20, 1]], [[10, 2], [-20, -1]], H, target_shape=(99, 99))
    assert truth.status.tolist() == [Status.MATCHED, Status.OUTSIDE, Status.OUTSIDE]


def test_sign_and_scale_of_the_homography_mean_nothing():
    rng = np.random.default_rng(5)
    queries, targets = rng.uniform(0, 90, (80, 2)), rng.uniform(0, 90, (80, 2))
    plain = match_truth(queries, targets, VIEW, target_shape=(90, 90))
    for other in (-VIEW, 4 * VIEW, -0.5 * VIEW):  # powers of 2 keep every bit
        truth = match_truth(queries, targets, other, target_shape=(90, 90))
        np.testing.assert_array_equal(truth.target, plain.target)
        np.testing.assert_array_equal(truth.distance, plain.distance)


def _greedy(queries, targets, tau):
    pairs = sorted(
        (math.sqrt((x - u) ** 2 + (y - v) ** 2), i, j)
        for i, (x, y) in enumerate(queries.tolist())
        for j, (u, v) in enumerate(targets.tolist())
    )
    match, taken = {}, set()
    for apart, i, j in pairs:
        if apart <= tau and i not in match and j not in taken:
            match[i] = j
            taken.add(j)
    return [match.get(i, -1) for i in range(len(queries))]


@pytest.mark.parametrize("seed", range(4))
def test_one_to_one_is_greedy_from_the_nearest(seed):
    rng = np.random.default_rng(seed)
    queries, targets = (np.round(rng.uniform(0, 15, (60, 2))) for _ in range(2))
    truths = match_truths(
        queries, targets, np.eye(3), taus=(1, 2.5), target_shape=(20, 20), one_to_one=True
    )
    for tau, truth in truths.items():
        assert truth.target.tolist() == _greedy(queries, targets, tau)
        taken = truth.target[truth.target >= 0]
        assert len(set(taken.tolist())) == len(taken)
    plain = match_truth(queries, targets, np.eye(3), tau=2.5, target_shape=(20, 20))
    assert truths[2.5].count(Status.MATCHED) < plain.count(Status.MATCHED)


def test_symmetric_also_asks_in_the_other_direction():
    H = np.diag([0.1, 0.1, 1.0])  # 2 pixels there are 20 here
    queries, targets = [[100, 100], [300, 300]], [[12, 10], [30.1, 30]]
    assert match_truth(queries, targets, H, target_shape=(99, 99)).target.tolist() == [0, 1]
    truth = match_truth(queries, targets, H, target_shape=(99, 99), symmetric=True)
    assert truth.target.tolist() == [-1, 1]
    one = match_truth(queries, targets, H, target_shape=(99, 99), symmetric=True, one_to_one=True)
    assert one.target.tolist() == [-1, 1]


def test_symmetric_asks_that_the_target_comes_from_the_source_image():
    settings = {"target_shape": (99, 99), "symmetric": True}
    assert match_truth([[9, 5]], [[10.5, 5]], np.eye(3), **settings).target.tolist() == [0]
    inside = match_truth([[9, 5]], [[10.5, 5]], np.eye(3), source_shape=(10, 10), **settings)
    assert inside.target.tolist() == [-1]


@pytest.mark.parametrize("taus", [[], [3, 3.0], [-1], [float("nan")], [float("inf")], [True], 3])
def test_strange_tolerances_are_refused(taus):
    with pytest.raises((UsageError, InputError)):
        match_truths([[1, 1]], [[1, 1]], np.eye(3), taus=taus, target_shape=(9, 9))


@pytest.mark.parametrize("xy", [[1, 2], [[1, 2, 3]], [["a", "b"]], [[1, float("nan")]]])
def test_strange_points_are_refused(xy):
    with pytest.raises(InputError, match="query_xy"):
        match_truth(xy, [[1, 1]], np.eye(3), target_shape=(9, 9))


def test_real_keypoints_and_homographies(data_dir):
    """graf and leuven, whose homography has w < 0 in the file, against plain loops."""
    from assay.vision import KeypointSettings, find_scenes
    from assay.vision.scenes import keypoints_of

    scenes = {scene.name: scene for scene in find_scenes(data_dir("oxford_affine"))}
    for name, k in (("graf", 4), ("leuven", 5)):
        scene = scenes[name]
        images = {number: scene.image(number) for number in (1, k)}
        settings = KeypointSettings(detector="orb", strongest=300)
        left, right = (
            keypoints_of(scene, number, image, settings).xy for number, image in images.items()
        )
        H, shape = scene.homographies[k], images[k].shape
        truth = match_truth(left, right, H, target_shape=shape)
        expected = _brute(left, right, H, 3.0, shape)
        assert list(zip(truth.status, truth.target, strict=True)) == [row[:2] for row in expected]
        assert truth.count(Status.MATCHED) > 20


@pytest.mark.parametrize("shape", [None, (), (5,), (0, 5), (5, -1), "ab", (5.5, 3), 7])
def test_strange_shapes_are_refused(shape):
    with pytest.raises(UsageError, match="shape"):
        match_truth([[1, 1]], [[1, 1]], np.eye(3), target_shape=shape)


def test_one_to_one_refuses_what_does_not_fit_into_memory(monkeypatch):
    monkeypatch.setattr("assay.vision.ground_truth.MOST_KEPT", 100)
    points = np.ones((20, 2))
    with pytest.raises(InputError, match="smaller tolerance"):
        match_truth(points, points, np.eye(3), target_shape=(9, 9), one_to_one=True)
    match_truth(points, points, np.eye(3), target_shape=(9, 9))
