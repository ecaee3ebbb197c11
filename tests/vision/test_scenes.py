"""Scenes in folders: both layouts, categories, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from assay.errors import FormatError, InputError, MismatchError, UsageError
from assay.vision import Scene, find_scenes, write_scenes
from assay.vision.scenes import category_of, make_demo_scenes
from assay.vision.settings import (
    DatasetSettings,
    DescriptorSettings,
    Experiment,
    KeypointSettings,
)

PIXELS = np.zeros((8, 9, 3), np.uint8)
PNG = cv2.imencode(".png", PIXELS)[1].tobytes()


def _scene(folder: Path, image="{}.png", homography="H_1_{}", n=3) -> Path:
    folder.mkdir(parents=True)
    for k in range(1, n + 1):
        (folder / image.format(k)).write_bytes(PNG)
    for k in range(2, n + 1):
        (folder / homography.format(k)).write_text(f"1 0 {k}\n0 1 0\n0 0 1\n")
    return folder


def _oxford_too(folder):
    for k in (1, 2):
        (folder / f"img{k}.png").write_bytes(PNG)
    (folder / "H1to2p").write_text("1 0 0\n0 1 0\n0 0 1")


def test_both_layouts_are_known_by_their_names(tmp_path):
    _scene(tmp_path / "v_one")
    _scene(tmp_path / "i_two", "img{}.png", "H1to{}p", n=12)
    (tmp_path / "notes").mkdir()
    (tmp_path / ".hidden").mkdir()
    scenes = find_scenes(tmp_path)
    assert [(scene.name, scene.category) for scene in scenes] == [
        ("i_two", "illumination"),
        ("v_one", "viewpoint"),
    ]
    assert [path.name for path in scenes[0].images] == [f"img{k}.png" for k in range(1, 13)]
    assert {k: H[0, 2] for k, H in scenes[0].homographies.items()} == {
        k: float(k) for k in range(2, 13)
    }
    assert [scene.name for scene in find_scenes(tmp_path, layout="oxford")] == ["i_two"]
    assert scenes[1].pairs == (2, 3)
    np.testing.assert_array_equal(scenes[1].image(3), PIXELS)


def test_a_single_scene_is_found_by_its_folder(tmp_path):
    folder = _scene(tmp_path / "v_one")
    _scene(folder / "v_one", n=2)  # what lies inside a scene is no part of it
    (found,) = find_scenes(folder)
    assert (found.name, found.pairs) == ("v_one", (2, 3))


def test_real_scenes(data_dir):
    scenes = {scene.name: scene for scene in find_scenes(data_dir("oxford_affine"))}
    assert {name: scene.category for name, scene in scenes.items()} == {
        "bikes": "blur",
        "graf": "viewpoint",
        "leuven": "illumination",
        "wall": "viewpoint",
    }
    assert scenes["graf"].image(6).shape == (640, 800, 3)
    assert scenes["graf"].homographies[2][0, 2] == -3.9430589e01


@pytest.mark.parametrize("form", ["mapping", "rule", "json", "csv"])
def test_categories_of_your_own(tmp_path, form):
    _scene(tmp_path / "data" / "v_one")
    _scene(tmp_path / "data" / "two")
    mapping = {"v_one": "day", "two": "night"}
    (tmp_path / "c.json").write_text(json.dumps(mapping))
    (tmp_path / "c.csv").write_text("scene,category\nv_one,day\n\ntwo,night\n")
    given = {
        "mapping": mapping,
        "rule": lambda name: mapping[name],
        "json": tmp_path / "c.json",
        "csv": str(tmp_path / "c.csv"),
    }[form]
    found = find_scenes(tmp_path / "data", categories=given)
    assert {scene.name: scene.category for scene in found} == mapping


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scene,category\nV_one,day\n", "'v_one' and 'V_one' differ in upper and lower case"),
        ("scene,category\nv_one,day\nv_one,night\n", "line 3: scene 'v_one' appears twice"),
        ("scene,category\nv_one\n", "expected 2 columns"),
        ("name,kind\nv_one,day\n", "first line must be"),
        ("scene,category\nv_one, \n", r"c\.csv, scene 'v_one': categories must be non-empty text"),
    ],
)
def test_categories_that_do_not_fit(tmp_path, text, words):
    _scene(tmp_path / "data" / "v_one")
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises((FormatError, MismatchError), match=words):
        find_scenes(tmp_path / "data", categories=tmp_path / "c.csv")


def test_categories_of_the_wrong_kind(tmp_path):
    _scene(tmp_path / "v_one")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(UsageError):
        find_scenes(tmp_path, categories=7)
    for wrong in ({"v_one": 3}, lambda _: None, tmp_path / "list.json"):
        with pytest.raises(FormatError):
            find_scenes(tmp_path, categories=wrong)


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda f: (f / "2.png").unlink(), "lacks the image 2"),
        (lambda f: (f / "H_1_3").unlink(), "lacks the homography from image 1 to 3"),
        (lambda f: (f / "2.jpg").write_bytes(PNG), "g are both number 2"),
        (lambda f: (f / "02.png").write_bytes(PNG), "g are both number 2"),
        (lambda f: (f / "H_1_1").write_text("1 0 0\n0 1 0\n0 0 1"), "maps image 1 to itself"),
        (lambda f: (f / "H_1_9").write_text("1 0 0\n0 1 0\n0 0 1"), "lacks the image 4, 5"),
        (lambda f: (f / "H_1_2").write_text("1 0\n0 1"), "H_1_2"),
        (_oxford_too, "two layouts"),
    ],
)
def test_scenes_with_gaps_are_refused(tmp_path, break_it, words):
    break_it(_scene(tmp_path / "v_one"))
    with pytest.raises(InputError, match=words):
        find_scenes(tmp_path)


def test_scenes_made_by_hand_are_checked():
    with pytest.raises(
        InputError, match=r"Scene 's' has 2 images: homographies \[3\], needed \[2\]"
    ):
        Scene("s", "c", (PIXELS, PIXELS), {3: np.eye(3)})
    with pytest.raises(
        InputError, match=r"Scene 's' has 1 images: homographies \[\], needed at least one"
    ):
        Scene("s", "c", (PIXELS,), {})
    with pytest.raises(InputError, match="scene 's' to image 2 is singular"):
        Scene("s", "c", (PIXELS, PIXELS), {2: np.ones((3, 3))})
    scene = Scene("s", "c", (PIXELS, PIXELS), {2: np.eye(3)})
    for k in (0, 3, -1, 1.0, True, "1"):
        with pytest.raises(UsageError, match="images 1 to 2"):
            scene.image(k)
    with pytest.raises(ValueError, match="read-only"):
        scene.homographies[2][0, 0] = 5


def test_categories_by_name():
    assert [category_of(name) for name in ("i_dome", "v_wall", "graf", "ubc", "my_scene", "")] == [
        "illumination",
        "viewpoint",
        "viewpoint",
        "compression",
        "uncategorised",
        "uncategorised",
    ]


def test_demo_scenes_are_the_same_each_time_and_differ_by_seed():
    first, again = (make_demo_scenes(["v_brick", "i_rocket"], n_images=3) for _ in range(2))
    other = make_demo_scenes(["v_brick", "i_rocket"], n_images=3, seed=1)
    for one, two, three in zip(first, again, other, strict=True):
        for k in (2, 3):
            np.testing.assert_array_equal(one.image(k), two.image(k))
            assert (one.image(k) != three.image(k)).any()
    alone = make_demo_scenes(["i_rocket"], n_images=3)[0]
    np.testing.assert_array_equal(alone.image(3), first[1].image(3))


def test_demo_views_show_what_their_homographies_say():
    scene = make_demo_scenes(["v_astronaut"])[0]
    source = scene.image(1).astype(float)
    for k, H in scene.homographies.items():
        back = np.linalg.inv(H)
        view = scene.image(k).astype(float)
        ys, xs = np.mgrid[30:480:50, 30:480:50].reshape(2, -1)
        u, v, w = back @ np.stack([xs, ys, np.ones(len(xs))])
        u, v = u / w, v / w
        assert 0 < min(u.min(), v.min()) < max(u.max(), v.max()) < 511
        near = [
            _mean_around(view, x, y) - _mean_around(source, a, b)
            for x, y, a, b in zip(xs, ys, u, v, strict=True)
        ]
        assert np.median(np.abs(near)) < 4


def _mean_around(image, x, y):
    """The mean of the 3 × 3 pixels around a place."""
    x, y = round(float(x)), round(float(y))
    return image[y - 1 : y + 2, x - 1 : x + 2].mean()


def test_scenes_are_written_and_read_back_the_same(tmp_path):
    scenes = make_demo_scenes(["i_chelsea", "v_coffee"], n_images=3)
    write_scenes(scenes, tmp_path / "scenes")
    for before, after in zip(scenes, find_scenes(tmp_path / "scenes"), strict=True):
        assert (before.name, before.category) == (after.name, after.category)
        for k in (1, 2, 3):
            np.testing.assert_array_equal(before.image(k), after.image(k))
        for k in (2, 3):
            np.testing.assert_array_equal(before.homographies[k], after.homographies[k])


def test_demo_scenes_refuse_what_they_do_not_know():
    with pytest.raises(UsageError, match="v_moon"):
        make_demo_scenes(["v_moon"])
    for wrong in (1, 0, 2.5, "6"):
        with pytest.raises(UsageError, match="Pass at least 2"):
            make_demo_scenes(n_images=wrong)


@pytest.mark.parametrize("side", [60, 97])
def test_resized_images_show_what_their_homographies_say(side):
    rng = np.random.default_rng(7)
    spots = rng.uniform([20, 20], [180, 130], (40, 2))
    turned = np.array([[2.7, -0.3, 60.0], [0.3, 2.8, 9.0], [0.0, 0.0, 1.0]])

    def blobs(points, height, width):
        y, x = np.mgrid[:height, :width]
        apart = ((x - points[:, 0, None, None]) ** 2 + (y - points[:, 1, None, None]) ** 2) / 18
        return np.clip(255 * np.exp(-apart), 0, 255).astype(np.uint8)

    moved, errors = np.c_[spots, np.ones(40)] @ turned.T, []
    for spot, place in zip(spots[:8], moved[:8, :2], strict=True):
        first, second = (
            np.repeat(blobs(point[None], *size)[0][..., None], 3, axis=2)
            for point, size in ((spot, (150, 200)), (place, (480, 660)))
        )
        scene = Scene("spot", "viewpoint", (first, second), {2: turned}).resize(side)
        assert min(scene.image(1).shape[:2]) == min(scene.image(2).shape[:2]) == side
        centres = []
        for k in (1, 2):
            grey = scene.image(k)[..., 0].astype(float)
            y, x = np.mgrid[: grey.shape[0], : grey.shape[1]]
            centres.append(np.array([(x * grey).sum(), (y * grey).sum()]) / grey.sum())
        expected = scene.homographies[2] @ [*centres[0], 1.0]
        errors.append(centres[1] - expected[:2] / expected[2])
    assert np.abs(errors).max() < 0.05
    assert np.abs(np.mean(errors, axis=0)).max() < 0.01


def test_keypoints_of_files_are_not_resized():
    dataset = DatasetSettings("scenes", resize=480)
    keypoints = KeypointSettings(source="file", path="{scene}.npy")
    with pytest.raises(UsageError, match="Keypoints from files exclude resize"):
        Experiment(dataset, (DescriptorSettings("SIFT", "SIFT"),), keypoints=keypoints)
    with pytest.raises(UsageError, match="at least 16 pixels"):
        DatasetSettings("scenes", resize=3)
