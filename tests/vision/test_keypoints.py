"""Keypoints: their columns, projection, filters and files."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.errors import FormatError, IdError, InputError, MismatchError, UsageError
from assay.vision import (
    Keypoints,
    by_size,
    inside_border,
    project,
    random_subset,
    read_keypoints,
    shared,
    strongest,
    write_keypoints,
)
from assay.vision.opencv_features import detect


def _some(n=30, seed=0, ids=None):
    rng = np.random.default_rng(seed)
    return Keypoints.of(
        rng.uniform(0, 100, (n, 2)),
        ids,
        size=rng.uniform(2, 20, n),
        angle=rng.uniform(0, 360, n),
        response=rng.integers(0, 4, n),
        octave=rng.integers(0, 99, n),
        level=rng.integers(0, 9, n),
        detector="akaze",
    )


COLUMNS = ("xy", "size", "angle", "response", "octave", "level")


def _assert_same(left, right):
    assert left.ids == right.ids
    assert left.detector == right.detector
    for column in COLUMNS:
        mine, theirs = getattr(left, column), getattr(right, column)
        assert mine.dtype == theirs.dtype
        assert mine.tobytes() == theirs.tobytes(), column


def test_columns_are_read_only_and_inputs_stay_as_they_are():
    xy = np.array([[1.0, 2.0]])
    keypoints = Keypoints.of(xy, size=3)
    xy[0, 0] = 99
    assert keypoints.xy.tolist() == [[1.0, 2.0]]
    for column in COLUMNS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(keypoints, column)[0] = 7
        with pytest.raises(ValueError, match="read-only"):
            getattr(keypoints.take([0]), column)[0] = 7


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"xy": [[1, 2, 3]]}, InputError),
        ({"xy": [[1, float("nan")], [1, 2]]}, InputError),
        ({"xy": [[1, "a"], [2, 2]]}, InputError),
        ({"ids": ["a", "a"]}, IdError),
        ({"ids": ["a"]}, MismatchError),
        ({"ids": ["a", 1]}, IdError),
        ({"size": 0}, InputError),
        ({"size": [3, -1]}, InputError),
        ({"size": [3, 3, 3]}, InputError),
        ({"size": float("inf")}, InputError),
        ({"angle": "up"}, InputError),
        ({"angle": float("nan")}, InputError),
        ({"octave": 1.5}, InputError),
    ],
)
def test_keypoints_that_make_no_sense(change, error):
    given = {"xy": [[1, 2], [3, 4]], "size": 5, **change}
    with pytest.raises(error):
        Keypoints.of(given.pop("xy"), given.pop("ids", None), **given)


def test_projection_by_a_similarity_is_known_in_closed_form():
    turn, scale = math.radians(30), 2.0
    H = [
        [scale * math.cos(turn), -scale * math.sin(turn), 300.0],
        [scale * math.sin(turn), scale * math.cos(turn), 50.0],
        [0, 0, 1],
    ]
    keypoints = Keypoints.of([[10, 20], [30, 5]], ["a", "b"], size=[4, 8], angle=[350, -1])
    ahead = project(keypoints, H, (900, 900))
    np.testing.assert_allclose(ahead.size, [8, 16])
    np.testing.assert_allclose(ahead.angle, [20, -1])
    x, y = 10 * math.cos(turn) - 20 * math.sin(turn), 10 * math.sin(turn) + 20 * math.cos(turn)
    np.testing.assert_allclose(ahead.xy[0], [scale * x + 300, scale * y + 50])
    assert ahead.ids == keypoints.ids


def test_projection_follows_a_small_patch():
    """Size and direction against the image of two nearby points."""
    H = np.array([[0.9, 0.2, 5], [-0.1, 1.2, 3], [8e-4, -3e-4, 1]])
    keypoints = _some(40)
    ahead = project(keypoints, H, (10_000, 10_000))
    at = ahead.ids.match(keypoints.ids)
    assert len(at) > 30
    step = 1e-4

    def plain(xy):
        moved = np.column_stack([xy, np.ones(len(xy))]) @ H.T
        return moved[:, :2] / moved[:, 2:]

    xy, turn = keypoints.xy[at], np.radians(keypoints.angle[at])
    moved = plain(xy + step * np.column_stack([np.cos(turn), np.sin(turn)])) - plain(xy)
    np.testing.assert_allclose(
        ahead.angle, np.degrees(np.arctan2(moved[:, 1], moved[:, 0])) % 360, atol=1e-3
    )
    a, b = (plain(xy + step * axis) - plain(xy) for axis in np.eye(2))
    area = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / step**2
    np.testing.assert_allclose(ahead.size, keypoints.size[at] * np.sqrt(area), rtol=1e-5)


def test_projection_leaves_out_what_is_not_seen():
    keypoints = Keypoints.of([[0, 0], [50, 50], [99, 99]], ["a", "b", "c"], size=5)
    assert project(keypoints, [[1, 0, -20], [0, 1, 0], [0, 0, 1]], (100, 60)).ids.to_list() == ["b"]
    behind = [[1, 0, 0], [0, 1, 0], [-0.015, 0, 1]]
    assert project(keypoints, behind, (9999, 9999)).ids.to_list() == ["a", "b"]


def test_border_is_inclusive_on_all_sides():
    keypoints = Keypoints.of(
        [[40, 40], [39.9, 50], [50, 39.9], [59, 79], [59.1, 50], [50, 79.1]], size=5
    )
    assert inside_border(keypoints, (120, 100)).ids.to_list() == [0, 3]
    assert len(inside_border(keypoints, (120, 100), border=0)) == 6
    assert len(inside_border(keypoints, (70, 70))) == 0


def test_filters_keep_ids_and_order():
    keypoints = _some(50)
    best = strongest(keypoints, 20)
    order = sorted(range(50), key=lambda row: (-keypoints.response[row], row))[:20]
    assert best.ids.to_list() == sorted(order)
    assert strongest(keypoints, 500).ids == keypoints.ids
    sized = by_size(keypoints, least=5, most=10)
    assert sized.ids.to_list() == [i for i in range(50) if 5 <= keypoints.size[i] <= 10]


def test_a_random_subset_depends_on_its_seed_alone():
    keypoints = _some(200)
    first = random_subset(keypoints, 50, seed=1)
    assert first.ids == random_subset(keypoints, 50, seed=1).ids
    assert first.ids != random_subset(keypoints, 50, seed=2).ids
    assert first.ids.to_list() == sorted(set(first.ids.to_list()))
    assert len(random_subset(keypoints, 999)) == 200
    drawn = np.zeros(200)
    for seed in range(300):
        drawn[random_subset(keypoints, 50, seed=seed).ids.to_list()] += 1
    # 75 expected of 300; each count is binomial with standard deviation 7.5
    assert abs(drawn - 75).max() < 5 * 7.5


@pytest.mark.parametrize("seed", range(4))
def test_shared_keypoints_are_mutual_nearest(seed):
    rng = np.random.default_rng(seed)
    left, right = (
        Keypoints.of(np.round(rng.uniform(0, 25, (60, 2))), size=float(5 + side))
        for side in range(2)
    )
    right = right.take(np.arange(50))
    apart = np.array([[math.dist(a, b) for b in right.xy] for a in left.xy])
    ahead, back = apart.argmin(axis=1), apart.argmin(axis=0)  # the first of equal ones
    expected = [i for i in range(60) if back[ahead[i]] == i and apart[i, ahead[i]] <= 1.5]
    mine, theirs = shared(left, right, tolerance=1.5)
    assert mine.ids.to_list() == theirs.ids.to_list() == expected != []
    np.testing.assert_array_equal(theirs.xy, right.xy[ahead[expected]])
    assert set(theirs.size) == {6.0}
    assert len({tuple(row) for row in theirs.xy}) == len(theirs)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda k: strongest(k, 0),
        lambda k: random_subset(k, 2.5),
        lambda k: random_subset(k, 5, seed=-1),
        lambda k: inside_border(k, (9, 9), border=-1),
        lambda k: inside_border(k, (9, 9), border=float("nan")),
        lambda k: by_size(k, least=5, most=3),
        lambda k: shared(k, k, tolerance=-1),
    ],
)
def test_filters_refuse_nonsense(wrong):
    with pytest.raises(UsageError):
        wrong(_some())


def test_filters_of_no_keypoints_give_none():
    none = Keypoints.of([], size=1)
    assert len(none) == 0
    for found in (
        strongest(none, 5),
        random_subset(none, 5),
        inside_border(none, (99, 99)),
        *shared(none, _some()),
        *shared(_some(), none),
        project(none, np.eye(3), (9, 9)),
    ):
        assert len(found) == 0


@pytest.mark.parametrize("ending", ["csv", "npz"])
@pytest.mark.parametrize("ids", [None, "text", "zeros", "big"])
def test_files_give_back_the_same_bits(tmp_path, ending, ids):
    names = {
        None: None,
        "text": [f'k,{i}"é' for i in range(30)],
        "zeros": [f"{i:03d}" for i in range(30)],
        "big": [2**62 + i for i in range(30)],
    }[ids]
    keypoints = _some(ids=names)
    path = tmp_path / f"k.{ending}"
    write_keypoints(keypoints, path)
    _assert_same(read_keypoints(path), keypoints)


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_no_keypoints_in_a_file(tmp_path, ending):
    write_keypoints(Keypoints.of([], size=1), tmp_path / f"k.{ending}")
    assert len(read_keypoints(tmp_path / f"k.{ending}")) == 0


def test_a_file_of_the_least(tmp_path):
    (tmp_path / "k.csv").write_text("size,id,y,x\r\n8,a,2,1\r\n\r\n9,b,4,3\r\n")
    keypoints = read_keypoints(tmp_path / "k.csv")
    assert keypoints.xy.tolist() == [[1, 2], [3, 4]]
    assert keypoints.angle.tolist() == [-1, -1]
    assert keypoints.detector == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("id,x,y\na,1,2\n", "must name the columns"),
        ("id,x,y,size,colour\na,1,2,3,4\n", "must name the columns"),
        ("id,id,x,y,size\na,a,1,2,3\n", "must name the columns"),
        ("id,x,y,size\na,1,2\n", "keypoint 1: expected 4 columns, found 3"),
        ("id,x,y,size\na,1,2,3\nb,1,zwei,3\n", "keypoint 2: y is 'zwei'"),
        ("id,x,y,size\na,nan,2,3\n", "nan"),
        ("id,x,y,size\na,1,2,0\n", "size of 'a' is 0"),
        ("id,x,y,size\na,1,2,3\na,1,2,3\n", "'a' appears twice"),
        ("id,x,y,size\n,1,2,3\n", "empty"),
        ("id,x,y,size,detector\na,1,2,3,sift\nb,1,2,3,orb\n", "mixes the detectors"),
        ('id,x,y,size\n"a,1,2,3\n', "line"),
    ],
)
def test_files_that_hold_no_keypoints(tmp_path, text, words):
    path = tmp_path / "k.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_keypoints(path)


def test_npz_files_that_hold_no_keypoints(tmp_path):
    path = tmp_path / "k.npz"
    good = {"ids": np.arange(2), "xy": np.ones((2, 2)), "size": np.ones(2)}
    for change, error in (
        ({"ids": np.arange(3)}, MismatchError),
        ({"xy": np.ones((2, 3))}, InputError),
        ({"ids": np.ones(2)}, FormatError),
        ({"detector": np.array(["sift", "orb"])}, FormatError),
        ({"angles": np.ones(2)}, FormatError),
    ):
        np.savez(path, **{**good, **change})
        with pytest.raises(error):
            read_keypoints(path)
    np.savez(path, ids=np.arange(2), xy=np.ones((2, 2)))
    with pytest.raises(FormatError, match="lacks size"):
        read_keypoints(path)
    with pytest.raises(UsageError, match=r"Use \.csv or \.npz"):
        read_keypoints(tmp_path / "k.txt")


def test_detectors_and_their_options():
    rng = np.random.default_rng(0)
    image = np.kron(rng.integers(0, 256, (20, 20)), np.ones((8, 8))).astype(np.uint8)
    for name in ("sift", "ORB", "brisk", "akaze"):
        keypoints = detect(image, name)
        assert len(keypoints) > 20
        assert keypoints.detector == name.lower()
        assert keypoints.ids.to_list() == list(range(len(keypoints)))
    assert len(detect(image, "orb", options={"nfeatures": 10})) <= 12
    with pytest.raises(UsageError, match="Did you mean sift"):
        detect(image, "sifft")
    for wrong in ({"colour": 1}, {"nfeatures": "many"}, {"nfeatures": 2**40}):
        with pytest.raises(UsageError, match="ORB does not take the options"):
            detect(image, "orb", options=wrong)
    assert len(detect(np.zeros((50, 50), np.uint8))) == 0
