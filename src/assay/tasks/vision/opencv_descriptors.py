"""SIFT and what is made of it: RootSIFT, one for each colour, and pooled over domain sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from assay.arrays import Floats
from assay.errors import UsageError
from assay.tasks.vision.images import Image, grey
from assay.tasks.vision.keypoints import Keypoints
from assay.tasks.vision.opencv_features import Rows, Scale, compute, positive_option

__all__ = [
    "POOLED_SIZES",
    "akaze",
    "brisk",
    "dsp_rgb_sift",
    "dsp_sift",
    "orb",
    "rgb_sift",
    "root_sift",
    "sift",
]


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


POOLED_SIZES: Final = tuple(float(size) for size in np.linspace(1 / 6, 3, 10))
# OpenCV doubles the image only if some keypoint is small. One always is, so that a descriptor
# never depends on which other keypoints are described with it.
_SMALLEST: Final = (255 | 1 << 8, -1)


def sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    """128 numbers from 0 to 255, as OpenCV gives them (norm about 512)."""
    return _sift(grey(image), keypoints, options)


def root_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    """The square root of SIFT divided by its sum (Arandjelović & Zisserman, CVPR 2012)."""
    places, values = sift(image, keypoints, options)
    wide = values.astype(np.float64)
    total = wide.sum(axis=1, keepdims=True)
    return Rows(places, np.sqrt(wide / np.where(total > 0, total, 1.0)).astype(np.float32))


def rgb_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    """SIFT of the red, the green and the blue channel, one after the other: 384 numbers.

    Each third is normalised by itself, as SIFT is; the whole is not normalised again.
    """
    return _for_each_colour(image, lambda channel: _sift(channel, keypoints, options))


def dsp_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    """The mean of SIFT over domain sizes, scaled to norm 1 (Dong & Soatto, CVPR 2015).

    The option `sizes` lists the domain sizes as multiples of the keypoint's size.
    """
    return _pooled(grey(image), keypoints, options)


def dsp_rgb_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    """Pooled SIFT of red, green and blue, one after the other; each third has norm 1."""
    return _for_each_colour(image, lambda channel: _pooled(channel, keypoints, options))


def _sift(channel: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    return compute(
        channel, keypoints, "sift", scale_of=_scale_of, options=options, sentinel=_SMALLEST
    )


def _for_each_colour(image: Image, describe: Any) -> Rows:
    parts = [describe(np.ascontiguousarray(image[:, :, channel])) for channel in (2, 1, 0)]
    return Rows(parts[0].places, np.hstack([part.values for part in parts]))


def _pooled(channel: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> Rows:
    """One call for all sizes; the pyramid level of each follows its size."""
    sizes = _checked_sizes(options.get("sizes", POOLED_SIZES))
    rest = {key: value for key, value in options.items() if key != "sizes"}
    n = len(keypoints)
    rows = np.repeat(np.arange(n), len(sizes))
    every = keypoints.take(rows)
    scaled = Keypoints(
        every.ids,
        every.xy,
        every.size * np.tile(sizes, n),
        every.angle,
        every.response,
        every.octave,
        every.level,
    )
    places, values = _sift(channel, scaled, rest)
    # SIFT leaves out what lies outside the image only: all sizes of a keypoint, or none.
    pooled = values.astype(np.float64).reshape(-1, len(sizes), values.shape[1]).mean(axis=1)
    norm = np.sqrt((pooled * pooled).sum(axis=1, keepdims=True))
    unit = (pooled / np.where(norm > 0, norm, 1.0)).astype(np.float32)
    return Rows(rows[places[:: len(sizes)]], unit)


def _checked_sizes(sizes: Any) -> Floats:
    found = np.asarray(sizes)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iuf":
        raise UsageError(f"sizes must be a list of numbers such as [0.5, 1, 2], found {sizes!r}.")
    if not (np.isfinite(found) & (found > 0)).all():
        raise UsageError(f"sizes are multiples above 0 of a keypoint's size, found {sizes!r}.")
    return found.astype(np.float64)


def _scale_of(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> Scale:
    """The octave and layer where OpenCV's SIFT would have found a keypoint of that size.

    It gives the size 2 σ · 2^(octave + layer / layers), and octaves begin at −1.
    """
    layers = int(positive_option(options, "nOctaveLayers", 3))
    base = 2.0 * positive_option(options, "sigma", 1.6)
    place = np.rint(np.log2(size / base) * layers).astype(np.int64)
    top = max(0, round(math.log2(min(shape[:2]))) - 2)
    octave = np.clip((place - 1) // layers, -1, top)
    layer = np.clip(place - octave * layers, 0, layers)
    return Scale((octave & 255) | (layer << 8), np.full(len(size), -1))
