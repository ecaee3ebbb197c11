"""Images, detectors and descriptors: OpenCV's (ORB, BRISK, AKAZE, SIFT and variants), and SURF.

Images are rows × columns × (blue, green, red), eight bits each. Each family of descriptors has its
own values for the scale of a keypoint (`octave`, `class_id`). A keypoint that the same family
detected keeps them; any other gets those of its size.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core import checks
from assay.core.text import did_you_mean
from assay.errors import (
    FormatError,
    InputError,
    ShapeError,
    UsageError,
    ValueRangeError,
    error_text,
    install_command,
    need,
)
from assay.io.formats import check_path
from assay.io.streams import open_chunks
from assay.vision.ground_truth import inside
from assay.vision.keypoints import UPRIGHT, Keypoints


def opencv() -> Any:
    """Return the module cv2, or say how to install it."""
    return need("cv2", "reading and describing images", "vision")


@contextmanager
def steady() -> Iterator[Any]:
    """Run OpenCV on one thread and silent.

    So keypoints and sums come in one order, and errors only as errors. These settings are the whole
    process's: the first of several threads makes them, and the last to leave puts back what was set
    before. Scenes are the unit to run side by side.
    """
    cv2 = opencv()
    log = cv2.utils.logging
    with _LOCK:
        _SETTINGS.append((cv2.getNumThreads(), log.getLogLevel()))
        cv2.setNumThreads(1)
        log.setLogLevel(log.LOG_LEVEL_SILENT)
    try:
        yield cv2
    finally:
        with _LOCK:
            threads, level = _SETTINGS.pop()  # the first goes last: what was set before all
            if not _SETTINGS:
                cv2.setNumThreads(threads)
                log.setLogLevel(level)


_LOCK: Final = Lock()
_SETTINGS: Final[list[tuple[int, int]]] = []  # what was set before, once for each user
Image = NDArray[np.uint8]
# How a file begins, where its last part begins, and how that ends; more may follow.
_ENDS = ((b"\x89PNG", b"IEND", b"\xaeB`\x82"), (b"\xff\xd8\xff", b"\xff\xda", b"\xff\xd9"))


def read_image(source: str | os.PathLike[str] | NDArray[Any]) -> Image:
    """Read an image file, or an array, as 8-bit colour.

    Grey becomes three equal channels, sixteen bits are scaled to eight, transparency is dropped.
    Pixels stay where the file has them: a homography knows nothing of a camera's rotation tag.

    Args:
        source: A file, or an array of rows × columns (× 3).

    Returns:
        Rows × columns × (blue, green, red).

    Raises:
        FormatError: If the file is truncated or no image.
        ShapeError: If the array has the shape of no image.
        ValueRangeError: If it is neither uint8 nor uint16.

    Example:
        image = read_image("v_wall/1.ppm")
    """
    if isinstance(source, np.ndarray):
        return as_bgr(source)
    name = os.fspath(check_path(source))
    data = b"".join(open_chunks(name))
    for start, last, end in _ENDS:  # OpenCV would fill a truncated file with grey
        at = data.rfind(last)
        if data.startswith(start) and (at < 0 or data.find(end, at) < 0):
            raise FormatError(f"{name} is truncated: its end is missing. Fetch it again.")
    with steady() as cv2:
        flags = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION
        try:
            image: NDArray[Any] | None = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error as error:
            raise FormatError(
                f"Cannot read the image {name}: {error.err}. Fetch it again."
            ) from None
    if image is None:
        raise FormatError(
            f"Cannot read the image {name}: OpenCV cannot decode its {len(data)} bytes. Fetch "
            "it again, or save it as PNG."
        )
    return as_bgr(image, what=name)


def as_bgr(image: Any, *, what: str = "The image") -> Image:
    """Return an array as 8-bit colour: blue, green, red."""
    array = checks.plain_array(image, what)
    if array.ndim not in (2, 3) or 0 in array.shape or array.shape[2:] not in ((), (1,), (3,)):
        raise ShapeError(
            f"{what} must have the shape rows × columns or rows × columns × 3 (blue, green, red); "
            f"found {array.shape}."
        )
    if array.dtype.newbyteorder("=") == np.uint16:  # 65535 = 257 · 255; halves go up
        array = ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if array.dtype != np.uint8:
        raise ValueRangeError(f"{what} holds {array.dtype}. Convert it to uint8 or uint16.")
    eight = array[:, :, None] if array.ndim == 2 else array
    return np.ascontiguousarray(np.broadcast_to(eight, (*eight.shape[:2], 3)))


def grey(image: Image) -> Image:
    """Return the brightness of a colour image, as OpenCV computes it."""
    cv2 = opencv()
    result: Image = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    return result


# OpenCV's own settings, but for ORB: its 500 keypoints are too few to choose from.
DETECTORS: Final[dict[str, dict[str, Any]]] = {
    "sift": {},
    "orb": {"nfeatures": 2000},
    "brisk": {},
    "akaze": {},
    "surf": {},
}


def detect(
    image: Any, detector: str = "sift", *, options: Mapping[str, Any] | None = None
) -> Keypoints:
    """Detect the keypoints of an image; ids follow the detector's order.

    `detector` is sift, orb, brisk, akaze or surf; `options` go to OpenCV, such as
    {"nfeatures": 500}, or to mahotas.
    """
    bright = grey(as_bgr(image))
    if _check_detector(detector) == "surf":
        return _detect_surf(bright, options or {})
    with steady() as cv2:
        points_found = build_feature(cv2, detector, options or {}).detect(bright, None)
    points = np.array([point.pt for point in points_found], np.float64).reshape(-1, 2)
    return Keypoints.of(
        points,
        size=[point.size for point in points_found] or 1.0,
        angle=[UPRIGHT if point.angle < 0 else point.angle for point in points_found] or UPRIGHT,
        response=[point.response for point in points_found] or 0.0,
        octave=[point.octave for point in points_found] or 0,
        level=[point.class_id for point in points_found] or -1,
        detector=_check_detector(detector),
        what=f"Keypoints of {detector}",
    )


def build_feature(cv2: Any, name: str, options: Mapping[str, Any]) -> Any:
    """Build OpenCV's detector and descriptor of that name."""
    key = _check_detector(name)
    function = f"{key.upper()}_create"
    more = getattr(cv2, "xfeatures2d", None)  # where OpenCV 5 has some of them
    make = getattr(cv2, function, getattr(more, function, None))
    if make is None:
        raise UsageError(
            f"This OpenCV ({cv2.__version__}) has no {key.upper()}. Install one that has: "
            f"{install_command('vision')}, or opencv-contrib-python-headless."
        )
    try:
        return make(**{**DETECTORS[key], **options})
    except (TypeError, ValueError, OverflowError, cv2.error) as error:
        reason = str(error).strip().splitlines()[-1][:160]
        raise UsageError(
            f"{key.upper()} does not take the options {dict(options)}: {reason}"
        ) from None


def _check_detector(name: str) -> str:
    key = str(name).lower()
    if key not in DETECTORS:
        hint = did_you_mean(key, DETECTORS)
        raise UsageError(f"Unknown detector {name!r}.{hint} Known: {', '.join(DETECTORS)}.")
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
                height, width = image.shape[:2]
                last = float(len(points))
                points.append(cv2.KeyPoint(width / 2, height / 2, 2.0, 0.0, last, *sentinel))
            described, values = feature.compute(image, points) if points else ((), None)
        except (cv2.error, TypeError, OverflowError) as error:
            raise InputError(
                f"{family} cannot describe these keypoints ({error_text(error)}). Use octaves "
                f"and levels of {family}."
            ) from None
    places, values = _order_rows(described, values, len(inner))
    return DescribedRows(seen[places], values)


def positive_option(options: Mapping[str, Any], key: str, default: float) -> float:
    """Return an option that must be a number above 0."""
    value = options.get(key, default)
    if not isinstance(value, int | float) or not 0 < value < np.inf:
        raise UsageError(f"{key} must be a number above 0, found {value!r}.")
    return value


def _points(cv2: Any, keypoints: Keypoints, scale: KeypointScale) -> list[Any]:
    """Build OpenCV's keypoints; the response carries the row.

    Angles go once around and sizes stay finite in float32: OpenCV checks neither, and ORB would
    read beyond the image.
    """
    if len(keypoints) >= 1 << 24:
        raise UsageError(f"{len(keypoints)} keypoints exceed OpenCV's limit. Use fewer.")
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


def _order_rows(points: Any, values: NDArray[Any] | None, n: int) -> DescribedRows:
    places = np.array([int(point.response) for point in points], np.int64)
    if values is None:
        values = np.zeros((0, 1), np.uint8)
    order = np.argsort(places, kind="stable")
    order = order[places[order] < n]
    return DescribedRows(places[order], values[order])


def orb(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Describe by ORB: 256 bits.

    Keypoints nearer than 31 pixels (edgeThreshold) to the border fail.
    """
    return compute(grey(image), keypoints, "orb", scale_of=_orb_scale, options=options)


def brisk(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Describe by BRISK: 512 bits.

    OpenCV takes the direction from the image, not from the keypoint. Keypoints whose pattern does
    not fit into the image fail.
    """
    return compute(grey(image), keypoints, "brisk", scale_of=_no_scale, options=options)


def akaze(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Describe by AKAZE: 486 bits in 61 bytes.

    The two bits that are left over are 0 in every descriptor.
    """
    return compute(grey(image), keypoints, "akaze", scale_of=_akaze_scale, options=options)


_MOST_OF_SURF: Final = {
    "nr_octaves": 8,
    "nr_scales": 16,
    "initial_step_size": 16,
    "max_points": 10**9,
}


def _detect_surf(image: Image, options: Mapping[str, Any]) -> Keypoints:
    """Detect blobs by SURF (Bay et al., CVIU 110, 2008), with the direction of each.

    A size is twice the scale, as SIFT's is. Near the border a direction is not known.
    """
    for key, value in options.items():  # mahotas does not check them, and would read beyond arrays
        if key == "threshold":
            positive_option(options, key, 0.1)
        elif key not in _MOST_OF_SURF or checks.check_cutoff(value, key) > _MOST_OF_SURF[key]:
            most = ", ".join(f"{name} up to {limit}" for name, limit in _MOST_OF_SURF.items())
            raise UsageError(f"SURF takes threshold, {most}; found {key}: {value!r}.")
    blobs = _mahotas_surf().interest_points(image, **options)
    xy = blobs[:, 1::-1]
    angle = np.full(len(blobs), UPRIGHT)
    places, turns, _ = describe_blobs(image, xy, blobs[:, 2])
    angle[places] = turns
    size, response = 2 * blobs[:, 2], blobs[:, 3]
    return Keypoints.of(xy, size=size, angle=angle, response=response, what="Keypoints of surf")


def surf(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Describe by SURF: 64 numbers of norm 1.

    mahotas takes the direction from the image. Keypoints whose pattern does not fit into the image
    fail.
    """
    if options:
        raise UsageError(f"The descriptor SURF takes no options, found {dict(options)}.")
    seen = np.flatnonzero(inside(keypoints.xy, image.shape))
    inner = keypoints.take(seen)
    places, _, values = describe_blobs(grey(image), inner.xy, inner.size / 2)
    return DescribedRows(seen[places], values.astype(np.float32))


def _mahotas_surf() -> Any:
    return need("mahotas.features.surf", "SURF", "vision")


def describe_blobs(image: Image, xy: Floats, scale: Floats) -> tuple[Ints, Floats, Floats]:
    """Return rows that fit into the image, their directions in degrees, and descriptors."""
    row = np.arange(len(xy), dtype=np.float64)
    inner = np.minimum(scale, max(image.shape))  # no larger one fits, nor into mahotas' integers
    blobs = np.column_stack([xy[:, ::-1], inner, row, np.ones(len(xy))])
    described = _mahotas_surf().descriptors(image, blobs)
    angle = (-90.0 - np.rad2deg(described[:, 5])) % 360.0  # of mahotas: from −y, the other way
    return described[:, 3].astype(np.int64), angle, described[:, 6:]


def _no_scale(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> KeypointScale:
    return KeypointScale(np.zeros(len(size), np.int64), np.full(len(size), -1))


def _orb_scale(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> KeypointScale:
    """Return the level of the pyramid: sizes are 31 · 1.2^level."""
    patch = positive_option(options, "patchSize", 31)
    factor = positive_option(options, "scaleFactor", 1.2)
    if factor <= 1:
        raise UsageError(f"scaleFactor must be above 1, found {factor!r}.")
    level = np.rint(np.log(size / patch) / np.log(factor))
    octave = np.clip(level, 0, int(positive_option(options, "nlevels", 8)) - 1).astype(np.int64)
    return KeypointScale(octave, np.full(len(size), -1))


def _akaze_scale(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> KeypointScale:
    """Return the scale-space level: sizes are 4.8 · 2^(level / 4).

    OpenCV builds an octave only if it is at least 80 pixels wide and 40 high.
    """
    layers = int(positive_option(options, "nOctaveLayers", 4))
    most, (height, width) = int(positive_option(options, "nOctaves", 4)), shape[:2]
    octaves = next((k for k in range(1, most) if width >> k < 80 or height >> k < 40), most)
    level = np.rint(np.log2(size / 4.8) * layers).astype(np.int64)
    level = np.clip(level, 0, octaves * layers - 1)
    return KeypointScale(level // layers, level)


POOLED_SIZES: Final = tuple(float(size) for size in np.linspace(1 / 6, 3, 10))
# OpenCV doubles the image only if some keypoint is small. One always is, so that a descriptor
# never depends on which other keypoints are described with it.
_SMALLEST: Final = (255 | 1 << 8, -1)


def sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Describe by SIFT: 128 numbers from 0 to 255.

    Their norm is about 512, as OpenCV gives them.
    """
    return _sift(grey(image), keypoints, options)


def root_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Return the root of SIFT divided by its sum.

    Arandjelović & Zisserman, CVPR 2012.
    """
    places, values = sift(image, keypoints, options)
    wide = values.astype(np.float64)
    total = wide.sum(axis=1, keepdims=True)
    return DescribedRows(places, np.sqrt(wide / np.where(total > 0, total, 1.0)).astype(np.float32))


def rgb_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Describe red, green and blue by SIFT, one after the other.

    Each third is normalised by itself, as SIFT is; the whole is not normalised again.
    """
    return _for_each_colour(image, lambda channel: _sift(channel, keypoints, options))


def dsp_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Return the mean of SIFT over domain sizes, of norm 1.

    Dong & Soatto, CVPR 2015. The option `sizes` lists the domain sizes as multiples of the
    keypoint's size.
    """
    return _pool_sizes(grey(image), keypoints, options)


def dsp_rgb_sift(image: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Describe red, green and blue by pooled SIFT; thirds have norm 1."""
    return _for_each_colour(image, lambda channel: _pool_sizes(channel, keypoints, options))


def _sift(channel: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    return compute(
        channel, keypoints, "sift", scale_of=_scale_of, options=options, sentinel=_SMALLEST
    )


def _for_each_colour(image: Image, describe: Any) -> DescribedRows:
    parts = [describe(np.ascontiguousarray(image[:, :, channel])) for channel in (2, 1, 0)]
    return DescribedRows(parts[0].places, np.hstack([part.values for part in parts]))


def _pool_sizes(channel: Image, keypoints: Keypoints, options: Mapping[str, Any]) -> DescribedRows:
    """Describe all sizes in one call and average them.

    The pyramid level of each follows its size.
    """
    stated = options.get("sizes", POOLED_SIZES)
    sizes = np.asarray(stated)
    if sizes.ndim != 1 or not sizes.size or sizes.dtype.kind not in "iuf":
        raise UsageError(f"sizes must be a list of numbers such as [0.5, 1, 2], found {stated!r}.")
    if not (np.isfinite(sizes) & (sizes > 0)).all():
        raise UsageError(f"sizes are multiples above 0 of a keypoint's size, found {stated!r}.")
    rest = {key: value for key, value in options.items() if key != "sizes"}
    n = len(keypoints)
    rows = np.repeat(np.arange(n), len(sizes))
    every = keypoints.take(rows)
    scaled = replace(every, size=every.size * np.tile(sizes.astype(np.float64), n), detector="")
    places, values = _sift(channel, scaled, rest)
    # SIFT leaves out what lies outside the image only: all sizes of a keypoint, or none.
    pooled = values.astype(np.float64).reshape(-1, len(sizes), values.shape[1]).mean(axis=1)
    norm = np.sqrt((pooled * pooled).sum(axis=1, keepdims=True))
    unit = (pooled / np.where(norm > 0, norm, 1.0)).astype(np.float32)
    return DescribedRows(rows[places[:: len(sizes)]], unit)


def _scale_of(size: Floats, shape: tuple[int, ...], options: Mapping[str, Any]) -> KeypointScale:
    """Return SIFT's octave and layer of keypoints of that size.

    It gives the size 2 σ · 2^(octave + layer / layers), and octaves begin at −1.
    """
    layers = int(positive_option(options, "nOctaveLayers", 3))
    base = 2.0 * positive_option(options, "sigma", 1.6)
    place = np.rint(np.log2(size / base) * layers).astype(np.int64)
    top = max(0, round(math.log2(min(shape[:2]))) - 2)
    octave = np.clip((place - 1) // layers, -1, top)
    layer = np.clip(place - octave * layers, 0, layers)
    return KeypointScale((octave & 255) | (layer << 8), np.full(len(size), -1))


def cut_patches(
    image: Any,
    keypoints: Keypoints,
    *,
    side: int = 32,
    magnification: float = 12.0,
    upright: bool = False,
) -> Image:
    """Cut square patches around keypoints, in colour.

    The result is samples × side × side × (blue, green, red). Large ones are cut from a smaller copy
    of the image, so that nothing finer than a pixel of the patch is left in them; beyond the edge
    the outermost pixel is repeated.
    """
    steps = keypoints.size / 2 * magnification / side  # pixels of the image in one of the patch
    level = np.maximum(np.floor(np.log2(np.maximum(steps, 1e-9))), 0).astype(np.int64)
    angle = np.where((keypoints.angle == UPRIGHT) | upright, 0.0, np.deg2rad(keypoints.angle))
    patches = np.empty((len(keypoints), side, side, 3), np.uint8)
    with steady() as cv2:
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        smaller = as_bgr(image)
        for height in range(int(level.max(initial=0)) + 1):
            for row in np.flatnonzero(level == height):
                scale, turn = 0.5 ** level[row], float(angle[row])
                to_image = _patch_map(keypoints.xy[row] * scale, steps[row] * scale, turn, side)
                patches[row] = cv2.warpAffine(
                    smaller, to_image, (side, side), flags=flags, borderMode=cv2.BORDER_REPLICATE
                )
            smaller = cv2.pyrDown(smaller)
    return patches


def _patch_map(place: Floats, step: float, angle: float, side: int) -> Floats:
    """Return the map from patch to image; the keypoint is central."""
    turn = step * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle = np.full(2, (side - 1) / 2)
    return np.hstack([turn, (place - turn @ middle)[:, None]])
