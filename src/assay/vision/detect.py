"""Keypoints found by OpenCV's detectors."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import numpy as np

from assay.errors import UsageError
from assay.vision.images import as_bgr, grey
from assay.vision.keypoints import UPRIGHT, Keypoints
from assay.vision.opencv import steady

__all__ = ["DETECTORS", "build_feature", "detect"]

# OpenCV's own settings, but for ORB: its 500 keypoints are too few to choose from.
DETECTORS: Final[dict[str, dict[str, Any]]] = {
    "sift": {}, "orb": {"nfeatures": 2000}, "brisk": {}, "akaze": {},
}  # fmt: skip
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
        near = get_close_matches(key, DETECTORS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(f"Unknown detector {name!r}.{hint} There are {', '.join(DETECTORS)}.")
    return key
