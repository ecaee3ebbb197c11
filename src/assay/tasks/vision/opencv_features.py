"""OpenCV's detectors and descriptors at given keypoints: ORB, BRISK, AKAZE, SIFT and variants.

Each family has its own values for the scale of a keypoint (`octave`, `class_id`). A keypoint that
the same family detected keeps them; any other gets those of its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core.text import did_you_mean
from assay.errors import InputError, UsageError, error_text
from assay.tasks.vision.homography import inside
from assay.tasks.vision.images import Image, as_bgr, grey, steady
from assay.tasks.vision.keypoints import UPRIGHT, Keypoints

__all__ = [
    "DETECTORS",
    "POOLED_SIZES",
    "DescribedRows",
    "KeypointScale",
    "akaze",
    "brisk",
    "build_feature",
    "compute",
    "detect",
    "dsp_rgb_sift",
    "dsp_sift",
    "orb",
    "positive_option",
    "rgb_sift",
    "root_sift",
    "sift",
]

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
        detector=_check_detector(detector),
        what=f"Keypoints of {detector}",
    )


def _direction(angle: float) -> float:
    return UPRIGHT if angle < 0 else angle


def build_feature(cv2: Any, name: str, options: Mapping[str, Any]) -> Any:
    """OpenCV's detector and descriptor of that name."""
    key = _check_detector(name)
    made = f"{_CREATE[key]}_create"
    more = getattr(cv2, "xfeatures2d", None)  # where OpenCV 5 has some of them
    make = getattr(cv2, made, getattr(more, made, None))
    if make is None:
        raise UsageError(
            f"This OpenCV ({cv2.__version__}) has no {_CREATE[key]}. Install one that has: "
            'pip install "assay-eval[vision]", or opencv-contrib-python-headless'
        )
    try:
        return make(**{**DETECTORS[key], **options})
    except (TypeError, ValueError, OverflowError, cv2.error) as error:
        reason = str(error).strip().splitlines()[-1][:160]
        raise UsageError(
            f"{_CREATE[key]} does not take the options {dict(options)}: {reason}"
        ) from None


def _check_detector(name: str) -> str:
    key = str(name).lower()
    if key not in DETECTORS:
        hint = did_you_mean(key, DETECTORS)
        raise UsageError(f"Unknown detector {name!r}.{hint} There are {', '.join(DETECTORS)}.")
    return key


class KeypointScale(NamedTuple):
    """OpenCV's words for the scales of keypoints."""

    octave: Ints
    level: Ints


class DescribedRows(NamedTuple):
    """What was described: rows of the keypoints, rising, and a descriptor for each."""

    places: Ints
    values: NDArray[Any]


ScaleOf = Callable[[Floats, tuple[int, ...], Mapping[str, Any]], KeypointScale]


def compute(
    image: Image,
    keypoints: Keypoints,
    family: str,
    *,
    scale_of: ScaleOf,
    options: Mapping[str, Any],
    sentinel: tuple[int, int] | None = None,
) -> DescribedRows:
    """Describe the keypoints; the family may leave some out, as ORB does near the border.

    Keypoints outside the image are left out here. OpenCV may change the order, so each keypoint
    carries its row. A `sentinel` is a keypoint of that scale that is described, too, and dropped.
    """
    seen = np.flatnonzero(inside(keypoints.xy, image.shape))
    inner = keypoints.take(seen)
    with steady() as cv2:
        feature = build_feature(cv2, family, options)
        scale = KeypointScale(inner.octave, inner.level)
        if keypoints.detector != family:
            scale = scale_of(inner.size, image.shape, options)
        try:
            points = _points(cv2, inner, scale)
            if sentinel is not None:
                points.append(_sentinel(cv2, image, len(points), sentinel))
            found, values = feature.compute(image, points) if points else ((), None)
        except (cv2.error, TypeError, OverflowError) as error:
            raise InputError(
                f"{family} cannot describe these keypoints ({error_text(error)}). Are their "
                f"octaves and levels those of {family}?"
            ) from None
    places, values = _order_rows(found, values, len(inner))
    return DescribedRows(seen[places], values)


def positive_option(options: Mapping[str, Any], key: str, default: float) -> float:
    """A number above 0 among the options of OpenCV."""
    value = options.get(key, default)
    if not isinstance(value, int | float) or not 0 < value < np.inf:
        raise UsageError(f"{key} must be a number above 0, found {value!r}.")
    return value


def _points(cv2: Any, keypoints: Keypoints, scale: KeypointScale) -> list[Any]:
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


def _order_rows(found: Any, values: NDArray[Any] | None, n: int) -> DescribedRows:
    places = np.array([int(point.response) for point in found], np.int64)
    if values is None:
        values = np.zeros((0, 1), np.uint8)
    order = np.argsort(places, kind="stable")
    order = order[places[order] < n]
    return DescribedRows(places[order], values[order])


def orb(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """256 bits; keypoints nearer than 31 pixels (edgeThreshold) to the border fail."""
    return compute(grey(image), keypoints, "orb", scale_of=_orb_scale, options=options)


def brisk(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """512 bits; OpenCV takes the direction from the image, not from the keypoint.

    Keypoints whose pattern does not fit into the image fail.
    """
    return compute(grey(image), keypoints, "brisk", scale_of=_no_scale, options=options)


def akaze(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """486 bits in 61 bytes; the two bits that are left over are 0 in every descriptor."""
    return compute(grey(image), keypoints, "akaze", scale_of=_akaze_scale, options=options)


def _no_scale(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> KeypointScale:
    return KeypointScale(np.zeros(len(size), np.int64), np.full(len(size), -1))


def _orb_scale(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> KeypointScale:
    """The level of the pyramid: sizes are 31 · 1.2^level."""
    patch = positive_option(options, "patchSize", 31)
    factor = positive_option(options, "scaleFactor", 1.2)
    if factor <= 1:
        raise UsageError(f"scaleFactor must be above 1, found {factor!r}.")
    level = np.rint(np.log(size / patch) / np.log(factor))
    octave = np.clip(level, 0, int(positive_option(options, "nlevels", 8)) - 1).astype(np.int64)
    return KeypointScale(octave, np.full(len(size), -1))


def _akaze_scale(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> KeypointScale:
    """The level of the nonlinear scale space: sizes are 4.8 · 2^(level / 4).

    OpenCV builds an octave only if it is at least 80 pixels wide and 40 high.
    """
    layers = int(positive_option(options, "nOctaveLayers", 4))
    octaves = _akaze_octaves(shape, int(positive_option(options, "nOctaves", 4)))
    level = np.rint(np.log2(size / 4.8) * layers).astype(np.int64)
    level = np.clip(level, 0, octaves * layers - 1)
    return KeypointScale(level // layers, level)


def _akaze_octaves(shape: tuple[int, ...], most: int) -> int:
    height, width = shape[:2]
    return next((k for k in range(1, most) if width >> k < 80 or height >> k < 40), most)


POOLED_SIZES: Final = tuple(float(size) for size in np.linspace(1 / 6, 3, 10))
# OpenCV doubles the image only if some keypoint is small. One always is, so that a descriptor
# never depends on which other keypoints are described with it.
_SMALLEST: Final = (255 | 1 << 8, -1)


def sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """128 numbers from 0 to 255, as OpenCV gives them (norm about 512)."""
    return _sift(grey(image), keypoints, options)


def root_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """The square root of SIFT divided by its sum (Arandjelović & Zisserman, CVPR 2012)."""
    places, values = sift(image, keypoints, options)
    wide = values.astype(np.float64)
    total = wide.sum(axis=1, keepdims=True)
    return DescribedRows(places, np.sqrt(wide / np.where(total > 0, total, 1.0)).astype(np.float32))


def rgb_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """SIFT of the red, the green and the blue channel, one after the other: 384 numbers.

    Each third is normalised by itself, as SIFT is; the whole is not normalised again.
    """
    return _for_each_colour(image, lambda channel: _sift(channel, keypoints, options))


def dsp_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """The mean of SIFT over domain sizes, scaled to norm 1 (Dong & Soatto, CVPR 2015).

    The option `sizes` lists the domain sizes as multiples of the keypoint's size.
    """
    return _pool_sizes(grey(image), keypoints, options)


def dsp_rgb_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Pooled SIFT of red, green and blue, one after the other; each third has norm 1."""
    return _for_each_colour(image, lambda channel: _pool_sizes(channel, keypoints, options))


def _sift(channel: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    return compute(
        channel, keypoints, "sift", scale_of=_scale_of, options=options, sentinel=_SMALLEST
    )


def _for_each_colour(image: Image, describe: Any) -> DescribedRows:
    parts = [describe(np.ascontiguousarray(image[:, :, channel])) for channel in (2, 1, 0)]
    return DescribedRows(parts[0].places, np.hstack([part.values for part in parts]))


def _pool_sizes(channel: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """One call for all sizes; the pyramid level of each follows its size."""
    sizes = _check_sizes(options.get("sizes", POOLED_SIZES))
    rest = {key: value for key, value in options.items() if key != "sizes"}
    n = len(keypoints)
    rows = np.repeat(np.arange(n), len(sizes))
    every = keypoints.take(rows)
    scaled = replace(every, size=every.size * np.tile(sizes, n), detector="")
    places, values = _sift(channel, scaled, rest)
    # SIFT leaves out what lies outside the image only: all sizes of a keypoint, or none.
    pooled = values.astype(np.float64).reshape(-1, len(sizes), values.shape[1]).mean(axis=1)
    norm = np.sqrt((pooled * pooled).sum(axis=1, keepdims=True))
    unit = (pooled / np.where(norm > 0, norm, 1.0)).astype(np.float32)
    return DescribedRows(rows[places[:: len(sizes)]], unit)


def _check_sizes(sizes: Any) -> Floats:
    found = np.asarray(sizes)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iuf":
        raise UsageError(f"sizes must be a list of numbers such as [0.5, 1, 2], found {sizes!r}.")
    if not (np.isfinite(found) & (found > 0)).all():
        raise UsageError(f"sizes are multiples above 0 of a keypoint's size, found {sizes!r}.")
    return found.astype(np.float64)


def _scale_of(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> KeypointScale:
    """The octave and layer where OpenCV's SIFT would have found a keypoint of that size.

    It gives the size 2 σ · 2^(octave + layer / layers), and octaves begin at −1.
    """
    layers = int(positive_option(options, "nOctaveLayers", 3))
    base = 2.0 * positive_option(options, "sigma", 1.6)
    place = np.rint(np.log2(size / base) * layers).astype(np.int64)
    top = max(0, round(math.log2(min(shape[:2]))) - 2)
    octave = np.clip((place - 1) // layers, -1, top)
    layer = np.clip(place - octave * layers, 0, layers)
    return KeypointScale((octave & 255) | (layer << 8), np.full(len(size), -1))
