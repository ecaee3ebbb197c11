"""OpenCV's descriptors at given keypoints, row by row: which were described, and how.

Each family has its own words for the scale of a keypoint (`octave`, `class_id`). A keypoint that
the same family detected keeps them; any other gets those of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core.text import did_you_mean
from assay.errors import InputError, UsageError, error_text
from assay.tasks.vision.homography import inside
from assay.tasks.vision.images import Image, as_bgr, grey, steady
from assay.tasks.vision.keypoints import UPRIGHT, Keypoints

__all__ = ["DETECTORS", "Rows", "Scale", "build_feature", "compute", "detect", "positive_option"]

# OpenCV's own settings, but for ORB: its 500 keypoints are too few to choose from.
DETECTORS: Final[dict[str, dict[str, Any]]] = {
    "sift": {},
    "orb": {"nfeatures": 2000},
    "brisk": {},
    "akaze": {},
}
_CREATE: Final = {"sift": "SIFT", "orb": "ORB", "brisk": "BRISK", "akaze": "AKAZE"}


def detect(
    image: Any, detector: str = "sift", *, options: Mapping[str, Any] | None = None
) -> Keypoints:
    """The keypoints of an image, with the ids 0, 1, … in OpenCV's order.

    `detector` is sift, orb, brisk or akaze; `options` go to OpenCV, such as {"nfeatures": 500}.
    """
    bright = grey(as_bgr(image))
    with steady() as cv2:
        found = build_feature(cv2, detector, options or {}).detect(bright, None)
    points = np.array([point.pt for point in found], np.float64).reshape(-1, 2)
    return Keypoints.of(
        points,
        size=[point.size for point in found] or 1.0,
        angle=[_direction(point.angle) for point in found] or UPRIGHT,
        response=[point.response for point in found] or 0.0,
        octave=[point.octave for point in found] or 0,
        level=[point.class_id for point in found] or -1,
        detector=_known(detector),
        what=f"Keypoints of {detector}",
    )


def _direction(angle: float) -> float:
    return UPRIGHT if angle < 0 else angle


def build_feature(cv2: Any, name: str, options: Mapping[str, Any]) -> Any:
    """OpenCV's detector and descriptor of that name."""
    key = _known(name)
    make = getattr(cv2, f"{_CREATE[key]}_create", None)
    if make is None:
        raise UsageError(
            f"This OpenCV ({cv2.__version__}) has no {_CREATE[key]}. "
            "Install one that has: pip install 'assay[vision]'"
        )
    try:
        return make(**{**DETECTORS[key], **options})
    except (TypeError, ValueError, OverflowError, cv2.error) as error:
        told = str(error).strip().splitlines()[-1][:160]
        raise UsageError(
            f"{_CREATE[key]} does not take the options {dict(options)}: {told}"
        ) from None


def _known(name: str) -> str:
    key = str(name).lower()
    if key not in DETECTORS:
        hint = did_you_mean(key, DETECTORS)
        raise UsageError(f"Unknown detector {name!r}.{hint} There are {', '.join(DETECTORS)}.")
    return key


class Scale(NamedTuple):
    """OpenCV's words for the scales of keypoints."""

    octave: Ints
    level: Ints


class Rows(NamedTuple):
    """What was described: rows of the keypoints, rising, and a descriptor for each."""

    places: Ints
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
                f"{family} cannot describe these keypoints ({error_text(error)}). Are their octaves "
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
    columns = (
        keypoints.xy[:, 0],
        keypoints.xy[:, 1],
        size,
        angle,
        np.arange(len(keypoints)),
        scale.octave,
        scale.level,
    )
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
