"""OpenCV's descriptors at given keypoints, row by row: which were described, and how.

Each family has its own words for the scale of a keypoint (`octave`, `class_id`). A keypoint that
the same family detected keeps them; any other gets those of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.errors import InputError, UsageError
from assay.vision.detect import build_feature
from assay.vision.images import Image
from assay.vision.keypoints import UPRIGHT, Floats, Keypoints, Longs
from assay.vision.opencv import steady

__all__ = ["Rows", "Scale", "compute"]


class Scale(NamedTuple):
    """OpenCV's words for the scales of keypoints."""

    octave: Longs
    level: Longs


class Rows(NamedTuple):
    """What was described: rows of the keypoints, rising, and a descriptor for each."""

    places: Longs
    values: NDArray[Any]


ScaleOf = Callable[[Floats, tuple[int, ...], Mapping[str, Any]], Scale]


def compute(
    image: Image,
    keypoints: Keypoints,
    family: str,
    *,
    scale_of: ScaleOf,
    options: Mapping[str, Any],
    sentinel: tuple[int, int] | None = None,
) -> Rows:
    """Describe the keypoints; the family may leave some out, as ORB does near the border.

    OpenCV may change the order, so each keypoint carries its row. A `sentinel` is a keypoint of
    that scale that is described, too, and dropped.
    """
    scale = Scale(keypoints.octave, keypoints.level)
    if keypoints.detector != family:
        scale = scale_of(keypoints.size, image.shape, options)
    with steady() as cv2:
        feature = build_feature(cv2, family, options)
        points = _points(cv2, keypoints, scale)
        if sentinel is not None:
            points.append(_sentinel(cv2, image, len(points), sentinel))
        try:
            found, values = feature.compute(image, points)
        except cv2.error as error:
            raise InputError(f"{family} cannot describe these keypoints: {error.err}.") from None
    return _ordered(found, values, len(keypoints))


def _points(cv2: Any, keypoints: Keypoints, scale: Scale) -> list[Any]:
    """Keypoints for OpenCV; the response, which no descriptor reads, carries the row."""
    if len(keypoints) >= 1 << 24:
        raise UsageError(f"{len(keypoints)} keypoints are more than OpenCV can tell apart.")
    angle = np.where(keypoints.angle == UPRIGHT, 0.0, keypoints.angle)
    columns = (keypoints.xy[:, 0], keypoints.xy[:, 1], keypoints.size, angle,
               np.arange(len(keypoints)), scale.octave, scale.level)  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        cv2.KeyPoint(x, y, size, turn, float(row), octave, level)
        for x, y, size, turn, row, octave, level in rows
    ]


def _sentinel(cv2: Any, image: Image, row: int, scale: tuple[int, int]) -> Any:
    height, width = image.shape[:2]
    return cv2.KeyPoint(width / 2, height / 2, 2.0, 0.0, float(row), *scale)


def _ordered(found: Any, values: NDArray[Any] | None, n: int) -> Rows:
    places = np.array([int(point.response) for point in found], np.int64)
    if values is None:
        values = np.zeros((0, 1), np.uint8)
    order = np.argsort(places, kind="stable")
    order = order[places[order] < n]
    return Rows(places[order], values[order])
