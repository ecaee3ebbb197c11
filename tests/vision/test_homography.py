"""Homographies from files, and what they do to points and their surroundings."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import FormatError, InputError, ShapeError, ValueRangeError
from assay.vision.ground_truth import as_homography, local_affine, project_points, read_homography

H = np.array([[0.9, 0.1, -3.5], [-0.2, 1.05, 7.25], [1e-4, -2e-5, 1.0]])


def _xml(values, rows=3, columns=3, head="", kind="opencv-matrix"):
    data = " ".join(map(repr, np.ravel(values).tolist()))
    return (
        f'<?xml version="1.0"?>{head}<opencv_storage><H12 type_id="{kind}"><rows>{rows}</rows>'
        f"<cols>{columns}</cols><dt>d</dt><data>{data}</data></H12></opencv_storage>"
    )


def test_text_and_xml_give_the_same_bits(tmp_path):
    (tmp_path / "H_1_2").write_text("\n".join(" ".join(map(repr, row)) for row in H.tolist()))
    (tmp_path / "H1to2p.xml").write_text(_xml(H))
    for name in ("H_1_2", "H1to2p.xml"):
        np.testing.assert_array_equal(read_homography(tmp_path / name), H)


def test_xml_of_opencv_itself(tmp_path):
    import cv2

    storage = cv2.FileStorage(str(tmp_path / "H.xml"), cv2.FILE_STORAGE_WRITE)
    storage.write("H12", H)
    storage.release()
    np.testing.assert_allclose(read_homography(tmp_path / "H.xml"), H, rtol=1e-15)


def test_real_homographies_agree_with_opencv(data_dir):
    import cv2

    negative = []
    for path in sorted(data_dir("oxford_affine").glob("*/H1to*p.xml")):
        storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_READ)
        matrix = storage.root().getNode(storage.root().keys()[0]).mat()
        if matrix[2, 2] < 0:  # w < 0 everywhere: the same map, but nothing would be in front
            negative.append(path.parent.name)
            matrix = -matrix
        np.testing.assert_array_equal(read_homography(path), matrix)
    assert set(negative) == {"leuven"}


BOMB = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("1 0 0\n0 1 0", ShapeError, "three lines of three"),
        ("1 0 0 0\n0 1 0 0\n0 0 1 0", ShapeError, "three lines of three"),
        ("1 0 x\n0 1 0\n0 0 1", FormatError, "nine numbers"),
        ("1 0 nan\n0 1 0\n0 0 1", ValueRangeError, "row 0, column 2"),
        ("1 0 0\n0 inf 0\n0 0 1", ValueRangeError, "row 1, column 1"),
        ("1 0 0\n2 0 0\n0 0 1", ValueRangeError, "singular"),
        ("0 0 0\n0 0 0\n0 0 0", ValueRangeError, "singular"),
        ("# nothing", FormatError, "nine numbers"),
        ("1 " * 70_000, FormatError, "too long"),
        (_xml(np.ones(6), rows=2), ShapeError, "2 rows"),
        (_xml(np.eye(3)[:2]), ShapeError, "6 numbers"),
        (_xml(["x"] * 9), FormatError, "H_1_2: not a matrix of numbers:"),
        (_xml(np.eye(3), rows="x"), FormatError, "H_1_2: not a matrix of numbers:"),
        (_xml(np.eye(3), kind="opencv-sequence"), FormatError, "found 0"),
        ("<a><b></a>", FormatError, "not valid XML"),
    ],
)
def test_files_that_are_no_homography(tmp_path, text, error, words):
    path = tmp_path / "H_1_2"
    path.write_text(text)
    with pytest.raises(error, match=words) as found:
        read_homography(path)
    assert "H_1_2" in str(found.value)


@pytest.mark.parametrize("matrix", [np.eye(2), np.eye(4), [1, 2, 3], "H", [["a"] * 3] * 3, None])
def test_what_is_no_matrix(matrix):
    with pytest.raises(InputError):
        as_homography(matrix)


def test_extreme_but_sound_homographies_are_taken():
    for matrix in (1e-30 * H, 1e30 * H, np.array([[1, 0, 1e4], [0, 1, -1e4], [1e-6, 0, 1.0]])):
        as_homography(matrix)


def test_projection_is_that_of_opencv():
    import cv2

    points = np.random.default_rng(0).uniform(0, 500, (40, 2))
    expected = cv2.perspectiveTransform(points[None], H)[0]
    np.testing.assert_allclose(project_points(points, H), expected, rtol=1e-12)


def test_the_local_affine_is_the_derivative():
    points = np.random.default_rng(1).uniform(0, 500, (30, 2))
    step = 1e-4
    for axis in (0, 1):
        shift = np.eye(2)[axis] * step
        slope = (project_points(points + shift, H) - project_points(points - shift, H)) / (2 * step)
        np.testing.assert_allclose(local_affine(points, H)[:, :, axis], slope, atol=1e-7)
