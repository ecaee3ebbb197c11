"""OpenCV's descriptors at given keypoints, row by row: which were described, and how.

Each family has its own words for the scale of a keypoint (`octave`, `class_id`). A keypoint that
the same family detected keeps them; any other gets those of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.encoders.base import told
from assay.errors import InputError, UsageError
from assay.vision.detect import build_feature
from assay.vision.homography import inside
from assay.vision.images import Image
from assay.vision.keypoints import UPRIGHT, Floats, Keypoints, Longs
from assay.vision.opencv import steady

__all__ = ["Rows", "Scale", "compute", "positive_option"]


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

    Keypoints outside the image are left out here. OpenCV may change the order, so each keypoint
    carries its row. A `sentinel` is a keypoint of that scale that is described, too, and dropped.
    """
    seen = np.flatnonzero(inside(keypoints.xy, image.shape))
    inner = keypoints.take(seen)
    with steady() as cv2:
        feature = build_feature(cv2, family, options)
        scale = Scale(inner.octave, inner.level)
        if keypoints.detector != family:
            scale = scale_of(inner.size, image.shape, options)
        try:
            points = _points(cv2, inner, scale)
            if sentinel is not None:
                points.append(_sentinel(cv2, image, len(points), sentinel))
            found, values = feature.compute(image, points) if points else ((), None)
        except (cv2.error, TypeError, OverflowError) as error:
            raise InputError(
                f"{family} cannot describe these keypoints ({told(error)}). Are their octaves "
                f"and levels those of {family}?"
            ) from None
    places, values = _ordered(found, values, len(inner))
    return Rows(seen[places], values)


def positive_option(options: Mapping[str, Any], key: str, default: float) -> float:
    """A number above 0 among the options of OpenCV."""
    value = options.get(key, default)
    if not isinstance(value, int | float) or not 0 < value < np.inf:
        raise UsageError(f"{key} must be a number above 0, found {value!r}.")
    return value


def _points(cv2: Any, keypoints: Keypoints, scale: Scale) -> list[Any]:
    """Keypoints for OpenCV; the response, which no descriptor reads, carries the row.

    Angles go once around and sizes stay finite in float32: OpenCV checks neither, and ORB would
    read beyond the image.
    """
    if len(keypoints) >= 1 << 24:
        raise UsageError(f"{len(keypoints)} keypoints are more than OpenCV can tell apart.")
    angle = np.where(keypoints.angle == UPRIGHT, 0.0, keypoints.angle % 360.0)
    size = np.clip(keypoints.size, 1e-6, 1e6)
    columns = (keypoints.xy[:, 0], keypoints.xy[:, 1], size, angle, np.arange(len(keypoints)),
               scale.octave, scale.level)  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        cv2.KeyPoint(x, y, diameter, turn, float(row), octave, level)
        for x, y, diameter, turn, row, octave, level in rows
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
