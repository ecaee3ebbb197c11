"""Faults of images, keypoints, descriptors and homographies; the numbers are those of the list."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from assay.errors import (
    FormatError,
    IdError,
    InputError,
    MismatchError,
    MissingPackageError,
    ShapeError,
    StorageError,
    UsageError,
    ValueRangeError,
    install_command,
)
from assay.vision import Keypoints, KeypointSettings, Scene, find_scenes, make_pair
from assay.vision import scenes as demo_module
from assay.vision.descriptors import describe
from assay.vision.ground_truth import read_homography
from assay.vision.opencv_features import read_image

NOISE = np.random.default_rng(0).integers(0, 256, (20, 40, 3), dtype=np.uint8)
IMAGE = cv2.resize(NOISE, (320, 160), interpolation=cv2.INTER_CUBIC)
KEYPOINTS = Keypoints.of([[80.0, 80.0], [100.0, 90.0]], ["left", "right"], size=12, angle=0)


def _file(folder: Path, **arrays) -> str:
    np.savez(folder / "d.npz", **arrays)
    return str(folder / "d.npz")


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_not_a_number_in_a_descriptor_is_named_with_row_and_id(tmp_path, odd):
    vectors = np.ones((2, 4))
    vectors[1, 2] = odd
    with pytest.raises(ValueRangeError, match=r"keypoint 'right' \(row 1\)"):
        describe(IMAGE, KEYPOINTS, _file(tmp_path, vectors=vectors))


def test_a_descriptor_of_zeros_has_failed_and_is_named():
    dark = IMAGE.copy()
    dark[:, :180] = 0
    points = Keypoints.of([[80.0, 80.0], [250.0, 80.0]], ["dark", "bright"], size=12, angle=0)
    for name in ("SIFT", "RootSIFT", "RGBSIFT", "DSP-SIFT", "DSP-RGBSIFT"):
        sizes = {"sizes": [1.0]} if name.startswith("DSP") else None
        described = describe(dark, points, name, options=sizes)
        assert described.failed.to_list() == ["dark"]
        assert described.keypoints.ids.to_list() == ["bright"]


@pytest.mark.parametrize("shape", [(2,), (2, 0), (0, 4), (1, 2, 4)])
def test_shapes_of_descriptors_are_in_the_message(tmp_path, shape):
    with pytest.raises(ShapeError, match=str(shape).replace("(", r"\(").replace(")", r"\)")):
        describe(IMAGE, KEYPOINTS, _file(tmp_path, vectors=np.ones(shape)))


def test_homographies_of_another_shape():
    for matrix in (np.eye(2), np.ones((3, 4)), np.ones(9)):
        with pytest.raises(ShapeError, match="3 × 3"):
            Scene("s", "c", (IMAGE, IMAGE), {2: matrix})


def test_an_image_without_keypoints():
    flat = np.zeros((100, 100), np.uint8)
    scene = Scene("s", "c", (IMAGE, flat), {2: np.eye(3)})
    with pytest.raises(InputError, match="Image 2 of scene 's' has no keypoints left: 0 found"):
        make_pair(scene, 2)
    with pytest.raises(InputError, match="no keypoints left"):
        make_pair(scene, 2, keypoints=KeypointSettings(border=90))


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((3, 3)),
        np.ones((3, 3)),
        [[1, 2, 3], [2, 4, 6], [0, 0, 1]],
        1e-200 * np.ones((3, 3)),
    ],
)
def test_a_singular_homography(matrix):
    with pytest.raises(ValueRangeError, match="scene 's' to image 2 is singular"):
        Scene("s", "c", (IMAGE, IMAGE), {2: matrix})


def test_pickled_descriptors_and_keypoints_are_never_loaded(tmp_path):
    payload = np.array([{"ran": True}], object)
    np.savez(tmp_path / "d.npz", vectors=payload)
    with pytest.raises(FormatError, match="never loaded"):
        describe(IMAGE, KEYPOINTS, str(tmp_path / "d.npz"))


def test_ids_of_keypoints():
    for ids, words in (
        (["a", "a"], "twice"),
        ([1, "1"], ""),
        (["a", ""], "empty"),
        (["a", "b c"], "white space"),
        (["a", "b\0"], "NUL"),
    ):
        with pytest.raises(IdError, match=words or None):
            Keypoints.of([[1, 1], [2, 2]], ids, size=5)


def test_as_many_descriptors_as_keypoints(tmp_path):
    with pytest.raises(MismatchError, match="3 descriptors for 2 keypoints"):
        describe(IMAGE, KEYPOINTS, _file(tmp_path, vectors=np.ones((3, 4))))
    with pytest.raises(MismatchError, match="ids has 3, descriptors has 2"):
        describe(IMAGE, KEYPOINTS, _file(tmp_path, vectors=np.ones((2, 4)), ids=np.arange(3)))


@pytest.mark.parametrize("ending", [".png", ".jpg", ".ppm", ".bmp", ".tiff", ".webp"])
@pytest.mark.parametrize("part", [0.02, 0.5, 0.97])
def test_a_truncated_image_is_refused_and_nothing_else_is_said(tmp_path, ending, part, capfd):
    data = cv2.imencode(ending, IMAGE)[1].tobytes()
    path = tmp_path / f"cut{ending}"
    path.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(FormatError, match="cut"):
        read_image(path)
    assert capfd.readouterr().err == ""


BOMB = '<!DOCTYPE x [<!ENTITY a "1 1 1"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    "head", [BOMB, '<!DOCTYPE x SYSTEM "file:///etc/passwd">', "<!DOCTYPE opencv_storage>"]
)
def test_entities_of_xml_are_refused_unread(tmp_path, head):
    (tmp_path / "H.xml").write_text(
        f'<?xml version="1.0"?>{head}<opencv_storage><H type_id="opencv-matrix"><rows>3</rows>'
        "<cols>3</cols><dt>d</dt><data>&b;</data></H></opencv_storage>"
    )
    with pytest.raises(FormatError, match="XML types and entities are not allowed"):
        read_homography(tmp_path / "H.xml")


@pytest.mark.parametrize("name", ["..", "a/b", "", "/etc"])
def test_the_name_of_a_scene_is_never_a_path(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be part of a path"):
        describe(IMAGE, KEYPOINTS, f"{tmp_path}/{{scene}}/x.npz", names={"scene": name})


def test_what_is_no_image(tmp_path):
    (tmp_path / "text.png").write_text("no image at all")
    (tmp_path / "empty.png").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe.png")
    for name, error in (
        ("text.png", FormatError),
        ("empty.png", FormatError),
        ("absent.png", StorageError),
        ("pipe.png", StorageError),
        (".", StorageError),
    ):
        with pytest.raises(error):
            read_image(tmp_path / name)


def test_folders_without_scenes(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "1.png").write_bytes(cv2.imencode(".png", IMAGE)[1].tobytes())
    with pytest.raises(InputError, match="holds no scenes"):
        find_scenes(tmp_path)
    for wrong in (tmp_path / "absent", tmp_path / "pictures" / "1.png"):
        with pytest.raises(StorageError):
            find_scenes(wrong)


def test_misspelt_descriptors():
    with pytest.raises(UsageError, match="Did you mean RootSIFT"):
        describe(IMAGE, KEYPOINTS, "RotSIFT")
    for wrong in (7, None):
        with pytest.raises(UsageError):
            describe(IMAGE, KEYPOINTS, wrong)
    with pytest.raises(UsageError, match="SIFT does not take the options"):
        describe(IMAGE, KEYPOINTS, "SIFT", options={"colour": 3})


def test_without_scikit_image(monkeypatch):
    monkeypatch.setattr(demo_module, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=re.escape(install_command("vision-demo"))):
        demo_module.make_demo_scenes(["i_camera"])


def test_without_the_package_of_vision(monkeypatch, tmp_path):
    (tmp_path / "1.png").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingPackageError, match=re.escape(install_command("vision"))):
        read_image(tmp_path / "1.png")
