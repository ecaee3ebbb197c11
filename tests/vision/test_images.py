"""Images of every depth and colour become blue, green, red with eight bits."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from assay.errors import ShapeError, ValueRangeError
from assay.vision.opencv_features import as_bgr, grey, read_image, steady

rng = np.random.default_rng(0)
COLOUR = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
GREY = rng.integers(0, 256, (20, 30), dtype=np.uint8)


def _write(path, array):
    path.write_bytes(cv2.imencode(path.suffix, array)[1].tobytes())
    return path


def test_a_file_keeps_its_pixels_in_bgr(tmp_path):
    for name in ("a.png", "a.ppm", "a.bmp", "a.tiff"):
        np.testing.assert_array_equal(read_image(_write(tmp_path / name, COLOUR)), COLOUR)
    assert COLOUR[0, 0].tolist() == cv2.imread(str(tmp_path / "a.png"))[0, 0].tolist()


def test_grey_becomes_three_equal_channels(tmp_path):
    for image in (
        read_image(_write(tmp_path / "a.png", GREY)),
        as_bgr(GREY),
        as_bgr(GREY[..., None]),
    ):
        np.testing.assert_array_equal(image, np.stack([GREY] * 3, axis=2))
        np.testing.assert_array_equal(grey(image), GREY)


def test_sixteen_bits_are_scaled(tmp_path):
    deep = np.array([[0, 128, 129, 257, 32767, 65535]], np.uint16).repeat(4, axis=0)
    expected = np.rint(deep / 257).astype(np.uint8)
    assert expected[0].tolist() == [0, 0, 1, 1, 127, 255]
    for image in (
        as_bgr(deep),
        as_bgr(deep.astype(">u2")),
        read_image(_write(tmp_path / "a.png", deep)),
    ):
        np.testing.assert_array_equal(image[:, :, 0], expected)


def test_transparency_is_dropped(tmp_path):
    see_through = np.dstack([COLOUR, GREY])
    np.testing.assert_array_equal(read_image(_write(tmp_path / "a.png", see_through)), COLOUR)


def test_the_input_is_not_modified_and_strides_do_not_matter():
    view = COLOUR[::2, ::3]
    copy = view.copy()
    np.testing.assert_array_equal(as_bgr(view), copy)
    assert as_bgr(view).flags.c_contiguous
    frozen = COLOUR.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(read_image(frozen), COLOUR)


@pytest.mark.parametrize("shape", [(5,), (0, 5), (5, 5, 2), (5, 5, 4), (2, 5, 5, 3)])
def test_strange_shapes_are_refused(shape):
    with pytest.raises(ShapeError, match="rows × columns"):
        as_bgr(np.zeros(shape, np.uint8))


@pytest.mark.parametrize("dtype", [np.float32, np.int16, bool])
def test_values_of_unknown_range_are_refused(dtype):
    with pytest.raises(ValueRangeError, match="uint8 or uint16"):
        as_bgr(np.zeros((5, 5), dtype))


def test_what_follows_the_end_of_an_image_does_no_harm(tmp_path):
    for ending in (".png", ".jpg"):
        data = cv2.imencode(ending, COLOUR)[1].tobytes()
        path = tmp_path / f"long{ending}"
        path.write_bytes(data + b"\0" * 500)
        assert read_image(path).shape == COLOUR.shape


def test_opencv_stays_on_one_thread_until_the_last_user_has_left():
    """Settings of OpenCV are the process's: who left first put them back for all."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(3)
    try:
        first, second = steady(), steady()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert cv2.getNumThreads() == 1
        second.__exit__(None, None, None)
        assert cv2.getNumThreads() == 3
    finally:
        cv2.setNumThreads(before)
