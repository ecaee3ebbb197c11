"""ORB, BRISK and AKAZE: descriptors of bits, eight to a byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.errors import UsageError
from assay.vision.computing import Rows, Scale, compute, positive_option
from assay.vision.images import Image, grey
from assay.vision.keypoints import Floats, Keypoints

__all__ = ["akaze", "brisk", "orb"]


def orb(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    """256 bits; keypoints nearer than 31 pixels (edgeThreshold) to the border fail."""
    return compute(grey(image), keypoints, "orb", scale_of=_orb_scale, options=options)


def brisk(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    """512 bits; OpenCV takes the direction from the image, not from the keypoint.

    Keypoints whose pattern does not fit into the image fail.
    """
    return compute(grey(image), keypoints, "brisk", scale_of=_no_scale, options=options)


def akaze(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    """486 bits in 61 bytes; the two bits that are left over are 0 in every descriptor."""
    return compute(grey(image), keypoints, "akaze", scale_of=_akaze_scale, options=options)


def _no_scale(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> Scale:
    return Scale(np.zeros(len(size), np.int64), np.full(len(size), -1))


def _orb_scale(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> Scale:
    """The level of the pyramid: sizes are 31 · 1.2^level."""
    patch = positive_option(options, "patchSize", 31)
    factor = positive_option(options, "scaleFactor", 1.2)
    if factor <= 1:
        raise UsageError(f"scaleFactor must be above 1, found {factor!r}.")
    level = np.rint(np.log(size / patch) / np.log(factor))
    octave = np.clip(level, 0, int(positive_option(options, "nlevels", 8)) - 1).astype(np.int64)
    return Scale(octave, np.full(len(size), -1))


def _akaze_scale(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> Scale:
    """The level of the nonlinear scale space: sizes are 4.8 · 2^(level / 4).

    OpenCV builds an octave only if it is at least 80 pixels wide and 40 high.
    """
    layers = int(positive_option(options, "nOctaveLayers", 4))
    octaves = _akaze_octaves(shape, int(positive_option(options, "nOctaves", 4)))
    level = np.rint(np.log2(size / 4.8) * layers).astype(np.int64)
    level = np.clip(level, 0, octaves * layers - 1)
    return Scale(level // layers, level)


def _akaze_octaves(shape: tuple[int, ...], most: int) -> int:
    height, width = shape[:2]
    return next((k for k in range(1, most) if width >> k < 80 or height >> k < 40), most)
