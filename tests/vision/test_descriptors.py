"""Descriptors against plain computations of what they claim to be."""

from __future__ import annotations

import sys
import types

import cv2
import numpy as np
import pytest

from assay.errors import (
    FormatError,
    InputError,
    MismatchError,
    ShapeError,
    UsageError,
    ValueRangeError,
)
from assay.search.engine import Codes
from assay.vision import DESCRIPTORS, Keypoints, read_keypoints, strongest
from assay.vision.descriptors import describe
from assay.vision.opencv_features import POOLED_SIZES, detect
from assay.vision.scenes import make_demo_scenes


@pytest.fixture(scope="module")
def image():
    return make_demo_scenes(["v_coffee"], n_images=2)[0].image(1)


@pytest.fixture(scope="module")
def keypoints(image):
    found = detect(image, "sift")
    return found.take(np.arange(0, len(found), 12))


def _raw(described):
    vectors = described.vectors
    return vectors.packed if isinstance(vectors, Codes) else vectors


def _plain_sift(channel, keypoints, sizes=None):
    """SIFT of one channel by OpenCV, in the octave and layer of each size."""
    points = []
    for row in range(len(keypoints)):
        size = keypoints.size[row] if sizes is None else sizes[row]
        octave = int(keypoints.octave[row]) if sizes is None else _octave(size)
        x, y = keypoints.xy[row]
        points.append(cv2.KeyPoint(x, y, size, keypoints.angle[row], 0, octave, -1))
    small = cv2.KeyPoint(20, 20, 2, 0, 0, 255 | 1 << 8, -1)
    return cv2.SIFT_create().compute(channel, [*points, small])[1][:-1]


def _octave(size):
    """Octave −1 holds sizes to 3.2 in layers 1 to 3, octave 0 those to 6.4, and so on."""
    best = min(
        (
            (abs(np.log2(3.2 * 2 ** (octave + layer / 3) / size)), octave, layer)
            for octave in range(-1, 7)
            for layer in (1, 2, 3)
        ),
    )
    _, octave, layer = best
    if size < 3.2 * 2 ** (-1 + 0.5 / 3):
        layer = 0
    return (octave & 255) | (layer << 8)


@pytest.mark.parametrize("name", ["SIFT", "ORB", "BRISK", "AKAZE"])
def test_own_keypoints_are_described_as_opencv_does(image, name):
    bright = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    options = {"nfeatures": 2000} if name == "ORB" else {}
    home = cv2 if hasattr(cv2, f"{name}_create") else cv2.xfeatures2d  # OpenCV 5 moved two
    _, expected = getattr(home, f"{name}_create")(**options).detectAndCompute(bright, None)
    keypoints = detect(image, name)
    described = describe(image, keypoints, name)
    assert len(described.failed) == 0
    np.testing.assert_array_equal(_raw(described), expected)


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_a_descriptor_depends_on_its_keypoint_alone(image, keypoints, name):
    """Neither on its order nor on which others are described."""
    whole = describe(image, keypoints, name)
    rows = np.random.default_rng(0).permutation(len(keypoints))[:40]
    rows = rows[keypoints.size[rows] > np.median(keypoints.size)]
    part = describe(image, keypoints.take(rows), name)
    at = part.keypoints.ids.match(whole.keypoints.ids)
    np.testing.assert_array_equal(_raw(part), _raw(whole)[at])
    assert part.keypoints.ids.to_list() == [
        i for i in keypoints.take(rows).ids if i not in set(part.failed)
    ]


def test_root_sift(image, keypoints):
    plain = _plain_sift(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), keypoints).astype(float)
    expected = np.sqrt(plain / np.abs(plain).sum(axis=1, keepdims=True))
    found = describe(image, keypoints, "RootSIFT").vectors
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose((found.astype(float) ** 2).sum(axis=1), 1, rtol=1e-6)


def test_rgb_sift_is_red_green_blue(image, keypoints):
    blue, green, red = cv2.split(image)
    expected = np.hstack([_plain_sift(channel, keypoints) for channel in (red, green, blue)])
    found = describe(image, keypoints, "RGBSIFT").vectors
    np.testing.assert_array_equal(found, expected)
    assert (found[:, :128] != found[:, 256:]).any()


def test_dsp_sift_is_the_mean_over_sizes(image, keypoints):
    few = keypoints.take(np.arange(25))
    bright = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    sizes = (0.5, 1.0, 1.7, 3.0)
    pooled = sum(_plain_sift(bright, few, few.size * size).astype(float) for size in sizes)
    expected = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    found = describe(image, few, "dsp_sift", options={"sizes": sizes}).vectors
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(POOLED_SIZES) == 10
    assert POOLED_SIZES[0] == pytest.approx(1 / 6)
    assert POOLED_SIZES[-1] == 3
    one = describe(image, few, "DSP-SIFT", options={"sizes": [1.0]}).vectors
    sift = _plain_sift(bright, few, few.size).astype(float)
    np.testing.assert_allclose(one, sift / np.linalg.norm(sift, axis=1)[:, None], atol=1e-6)


def test_dsp_rgb_sift_pools_each_channel(image, keypoints):
    few = keypoints.take(np.arange(15))
    found = describe(image, few, "DSP-RGBSIFT").vectors
    for third, channel in enumerate((2, 1, 0)):
        alone = describe(image[:, :, channel], few, "DSP-SIFT").vectors
        np.testing.assert_array_equal(found[:, 128 * third : 128 * (third + 1)], alone)


@pytest.mark.parametrize("sizes", [[], [0], [-1], [float("nan")], "all", [[1]], None])
def test_sizes_that_make_no_sense(image, keypoints, sizes):
    with pytest.raises(UsageError, match="sizes"):
        describe(image, keypoints, "DSP-SIFT", options={"sizes": sizes})


@pytest.mark.parametrize("name", ["ORB", "BRISK", "AKAZE", "SIFT"])
@pytest.mark.parametrize("detector", ["sift", "orb", "brisk", "akaze"])
def test_any_descriptor_takes_any_keypoints(image, name, detector):
    found = detect(image, detector)
    keypoints = found.take(np.arange(0, len(found), 10))
    described = describe(image, keypoints, name)
    assert len(described) + len(described.failed) == len(keypoints)
    assert {*described.keypoints.ids} | {*described.failed} == {*keypoints.ids}


@pytest.mark.parametrize("name", ["SIFT", "AKAZE", "ORB"])
def test_the_scale_of_a_size_is_the_scale_that_the_detector_said(image, name):
    """Without the detector's own words, nearly all of its keypoints are described the same."""
    keypoints = detect(image, name)
    nameless = Keypoints.of(keypoints.xy, size=keypoints.size, angle=keypoints.angle)
    own, other = (_raw(describe(image, points, name)) for points in (keypoints, nameless))
    assert (own == other).all(axis=1).mean() > 0.97


def test_keypoints_at_the_rim_fail_and_are_named(image):
    keypoints = Keypoints.of([[3, 3], [200, 200], [4, 300]], ["a", "b", "c"], size=12)
    for name in ("ORB", "BRISK"):
        described = describe(image, keypoints, name)
        assert described.keypoints.ids.to_list() == ["b"]
        assert described.failed.to_list() == ["a", "c"]
    with pytest.raises(InputError, match="ORB described none of 1 keypoints"):
        describe(image, keypoints.take([0]), "ORB")


def test_no_keypoints(image):
    with pytest.raises(InputError, match="No keypoints for SIFT"):
        describe(image, Keypoints.of([], size=1), "SIFT")


@pytest.mark.parametrize("name", DESCRIPTORS)
@pytest.mark.parametrize(
    ("xy", "size"),
    [((200.0, 200.0), 1e-6), ((200.0, 200.0), 1e6), ((599.0, 399.0), 5.0)],
)
def test_strange_keypoints_never_crash(image, name, xy, size):
    keypoints = Keypoints.of([xy, (300.0, 200.0)], ["odd", "even"], size=[size, 14.0], angle=10.0)
    described = describe(image, keypoints, name)
    assert "even" in described.keypoints.ids.to_list()


@pytest.mark.parametrize("name", DESCRIPTORS)
@pytest.mark.parametrize("angle", [1e300, -720.5, 360.0])
def test_angles_go_around(image, name, angle):
    """ORB would read beyond the image for an angle that float32 does not hold."""
    xy = [[300.0, 200.0]]
    found, plain = (
        _raw(describe(image, Keypoints.of(xy, size=14, angle=turn), name))
        for turn in (angle, angle % 360)
    )
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("name", ["SIFT", "ORB", "AKAZE"])
@pytest.mark.parametrize("scale", [-5, 1000, 2**40])
def test_words_of_a_detector_that_it_never_said(image, name, scale):
    keypoints = Keypoints.of(
        [[300.0, 200.0]], size=14, octave=scale, level=scale, detector=name.lower()
    )
    with pytest.raises(InputError, match="octaves and levels"):
        describe(image, keypoints, name)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SIFT", {"nOctaveLayers": 0}),
        ("SIFT", {"sigma": -1.0}),
        ("ORB", {"scaleFactor": 1.0}),
        ("ORB", {"nlevels": 0}),
        ("AKAZE", {"nOctaves": 0}),
        ("AKAZE", {"nOctaveLayers": "x"}),
    ],
)
def test_options_that_make_no_sense(image, name, options):
    with pytest.raises(UsageError):
        describe(image, Keypoints.of([[300.0, 200.0]], size=14), name, options=options)


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_keypoints_outside_the_image_have_failed(image, name):
    keypoints = Keypoints.of([[-1.0, 5.0], [300.0, 200.0], [1e300, 9.0]], list("abc"), size=14)
    described = describe(image, keypoints, name)
    assert described.failed.to_list() == ["a", "c"]
    with pytest.raises(InputError, match="described none of 2 keypoints"):
        describe(image, keypoints.take([0, 2]), name)


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_small_images_never_crash(name):
    tiny = np.random.default_rng(0).integers(0, 256, (24, 31), dtype=np.uint8)
    keypoints = Keypoints.of([[12.0, 12.0]], size=[40.0])
    if name in ("ORB", "BRISK", "SURF"):
        with pytest.raises(InputError, match="described none"):
            describe(tiny, keypoints, name)
    else:
        assert len(describe(tiny, keypoints, name)) == 1


# -- descriptors from files and functions ------------------------------------------------------


FIVE = Keypoints.of(np.full((5, 2), 50.0), list("abcde"), size=9)
PIXELS = np.zeros((99, 99), np.uint8)


def test_files_by_id_and_by_row(tmp_path):
    vectors = np.arange(1, 16, dtype=np.float64).reshape(5, 3)
    (tmp_path / "s").mkdir()
    np.savez(tmp_path / "s" / "2.npz", vectors=vectors[::-1], ids=np.array(list("edcba")))
    np.save(tmp_path / "rows.npy", vectors)
    named = describe(
        PIXELS, FIVE, f"{tmp_path}/{{scene}}/{{image}}.npz", names={"scene": "s", "image": 2}
    )
    rows = describe(PIXELS, FIVE, str(tmp_path / "rows.npy"))
    for described in (named, rows):
        np.testing.assert_array_equal(described.vectors, vectors.astype(np.float32))
        assert described.kind == "float"


@pytest.mark.parametrize("dtype", ["f2", ">f4", "<f8", "i1", "u1", ">i4"])
def test_numbers_of_any_type_are_widened(tmp_path, dtype):
    vectors = np.arange(1, 16).reshape(5, 3).astype(dtype)
    np.savez(tmp_path / "v.npz", vectors=np.asfortranarray(vectors))
    described = describe(PIXELS, FIVE, str(tmp_path / "v.npz"))
    assert described.kind == "float"
    np.testing.assert_array_equal(described.vectors, vectors.astype(np.float32))


def test_a_file_without_some_keypoints_fails_for_them(tmp_path):
    codes = np.array([[1, 2], [0, 0]], np.uint8)
    np.savez(tmp_path / "c.npz", codes=codes, ids=np.array(["d", "b"]))
    described = describe(PIXELS, FIVE, str(tmp_path / "c.npz"))
    assert described.kind == "binary"
    assert described.keypoints.ids.to_list() == ["b", "d"]
    assert described.failed.to_list() == ["a", "c", "e"]
    assert described.vectors.packed.tolist() == [[0, 0], [1, 2]]  # no bits set is a sound code
    assert described.vectors.bits == 16


def test_bits_of_a_npy_are_packed(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2, (5, 12)).astype(bool)
    np.save(tmp_path / "b.npy", bits)
    found = describe(PIXELS, FIVE, str(tmp_path / "b.npy")).vectors
    np.testing.assert_array_equal(found.packed, np.packbits(bits, axis=1))


def _features(path, **changes):
    """A file as learned features are stored, with seven keypoints."""
    rng = np.random.default_rng(5)
    arrays = {
        "keypoints": rng.uniform(10, 80, (7, 2)).astype(np.float32),
        "scores": np.array([3, 1, 4, 1.5, 9, 2, 6], np.float32),
        "descriptors": rng.normal(size=(7, 4)).astype(np.float32),
        "imsize": np.array([99, 99]),
    }
    np.savez(path, **{**arrays, **changes})
    return arrays


@pytest.mark.parametrize("turned", [False, True])
def test_learned_features_bring_keypoints_and_descriptors(tmp_path, turned):
    path = tmp_path / "1.npz"
    arrays = _features(path)
    if turned:
        _features(path, descriptors=arrays["descriptors"].T)
    whole = read_keypoints(path)
    np.testing.assert_array_equal(whole.xy, arrays["keypoints"].astype(np.float64))
    np.testing.assert_array_equal(whole.response, arrays["scores"].astype(np.float64))
    chosen = strongest(whole, 3)
    described = describe(PIXELS, chosen, str(path))
    rows = [int(one) for one in described.keypoints.ids]
    assert sorted(rows) == [2, 4, 6]
    np.testing.assert_array_equal(described.vectors, arrays["descriptors"][rows])


def test_learned_keypoints_may_have_a_size_and_no_score(tmp_path):
    places = np.array([[10.0, 20, 3], [30, 40, 5]])
    np.savez(tmp_path / "1.npz", keypoints=places, descriptors=np.eye(2) > 0)
    found = read_keypoints(tmp_path / "1.npz")
    assert (found.size.tolist(), found.response.tolist()) == ([3, 5], [0, 0])
    bits = describe(PIXELS, found, str(tmp_path / "1.npz"))
    assert (bits.kind, bits.vectors.packed.tolist()) == ("binary", [[128], [64]])


def test_learned_descriptors_of_other_keypoints_are_refused(tmp_path):
    path = tmp_path / "1.npz"
    _features(path)
    moved = Keypoints.of(np.full((7, 2), 50.0), size=9)
    for others in (FIVE, moved):
        with pytest.raises(MismatchError, match="describes other keypoints"):
            describe(PIXELS, others, str(path))
    whole = read_keypoints(path)
    for changes, error, words in (
        ({"descriptors": np.ones((6, 4), np.float32)}, MismatchError, "same length"),
        ({"descriptors": np.ones((7, 4), np.uint8)}, FormatError, "packed bits"),
        ({"keypoints": np.ones(7)}, ShapeError, r"\(7,\)"),
    ):
        _features(path, **changes)
        with pytest.raises(error, match=words):
            describe(PIXELS, whole, str(path))
    for changes, error in (
        ({"keypoints": np.ones((7, 1))}, ShapeError),
        ({"scores": np.ones(3)}, InputError),
    ):
        _features(path, **changes)
        with pytest.raises(error):
            read_keypoints(path)


@pytest.mark.parametrize(
    ("arrays", "error", "words"),
    [
        ({"vectors": np.ones((4, 3))}, MismatchError, "4 descriptors for 5 keypoints"),
        ({"vectors": np.ones((5, 0))}, ShapeError, r"\(5, 0\)"),
        ({"vectors": np.ones(5)}, ShapeError, r"\(5,\)"),
        ({"vectors": np.ones((5, 3)), "codes": np.ones((5, 3), np.uint8)}, FormatError, "either"),
        ({"ids": np.arange(5)}, FormatError, "either"),
        ({"codes": np.ones((5, 3))}, FormatError, "uint8"),
        (
            {"vectors": np.ones((5, 3)), "ids": np.arange(5)},
            InputError,
            r"d\.npz described none of 5 keypoints",
        ),
        ({"vectors": np.ones((5, 3)), "ids": np.array(list("abcd"))}, MismatchError, "same length"),
        ({"vectors": np.ones((5, 3)), "ids": np.array(list("aabcd"))}, InputError, "twice"),
        ({"vectors": np.full((5, 3), np.nan)}, ValueRangeError, r"keypoint 'a' \(row 0\)"),
        ({"vectors": np.full((5, 3), 1e300)}, ValueRangeError, "beyond float32"),
        ({"vectors": np.zeros((5, 3))}, InputError, r"d\.npz described none of 5 keypoints"),
        ({"vectors": np.array([["x"]])}, ShapeError, "rows of numbers"),
    ],
)
def test_files_that_do_not_fit(tmp_path, arrays, error, words):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(error, match=words):
        describe(PIXELS, FIVE, str(tmp_path / "d.npz"))


def test_bytes_without_a_meaning(tmp_path):
    np.save(tmp_path / "d.npy", np.ones((5, 3), np.uint8))
    with pytest.raises(FormatError, match="numbers or packed bits"):
        describe(PIXELS, FIVE, str(tmp_path / "d.npy"))


@pytest.fixture
def function(monkeypatch):
    def install(answer):
        module = types.ModuleType("made_up")
        module.answer = answer
        monkeypatch.setitem(sys.modules, "made_up", module)
        return "made_up:answer"

    return install


def test_a_function_of_your_own(function):
    def answer(image, keypoints, *, factor=1):
        assert image.shape == (99, 99, 3)
        return keypoints.xy * factor

    spec = function(answer)
    np.testing.assert_array_equal(describe(PIXELS, FIVE, spec).vectors, FIVE.xy)
    doubled = describe(PIXELS, FIVE, spec, options={"factor": 2})
    np.testing.assert_array_equal(doubled.vectors, 2 * FIVE.xy)
    spec = function(lambda image, keypoints: np.full((5, 4), 3, np.uint8))
    assert describe(PIXELS, FIVE, spec).vectors.bits == 32


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (lambda image, keypoints: 1 / 0, InputError, "ZeroDivisionError"),
        (lambda image, keypoints: None, ShapeError, "rows of numbers"),
        (lambda image, keypoints: np.ones((4, 2)), MismatchError, "4 descriptors for 5"),
        (lambda image, keypoints: np.full((5, 2), np.inf), ValueRangeError, "keypoint 'a'"),
        (lambda image: 1, InputError, "TypeError"),
        (7, UsageError, "no function"),
    ],
)
def test_functions_that_fail(function, answer, error, words):
    with pytest.raises(error, match=words):
        describe(PIXELS, FIVE, function(answer))
