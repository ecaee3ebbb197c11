"""Keypoints: places in an image with a size, a direction and an id; and which of them to keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.arrays import Floats, Ints
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import ShapeError, UsageError, ValueRangeError
from assay.native.random_words import stream_key, words
from assay.stats.samples import check_seed
from assay.tasks.vision.homography import (
    as_homography,
    image_size,
    inside,
    local_affine,
    project_points,
)
from assay.tasks.vision.near_points import nearest_within

__all__ = [
    "BORDER",
    "UPRIGHT",
    "Keypoints",
    "by_size",
    "inside_border",
    "project",
    "random_subset",
    "shared",
    "strongest",
]


BORDER = 40.0  # pixels from the edge within which keypoints are dropped
UPRIGHT = -1.0  # the angle of a keypoint whose direction is not known


@dataclass(frozen=True, eq=False)
class Keypoints:
    """Keypoints by id, read-only; make them with `Keypoints.of`, `detect` or `read_keypoints`."""

    ids: Ids
    xy: Floats  # pixels; the centre of the first pixel is (0, 0)
    size: Floats  # diameter in pixels
    angle: Floats  # degrees from the x axis towards the y axis, which points down; −1 unknown
    response: Floats  # strength; the larger the better
    octave: Ints  # these two are the detector's own words for the scale
    level: Ints
    detector: str = ""  # whose words; "" if the size alone tells the scale

    @staticmethod
    def of(
        xy: Any,
        ids: Ids | Iterable[object] | None = None,
        *,
        size: Any,
        angle: Any = UPRIGHT,
        response: Any = 0.0,
        octave: Any = 0,
        level: Any = -1,
        detector: str = "",
        what: str = "The keypoints",
    ) -> Keypoints:
        """Check and take over keypoints; one value stands for all of them, ids default to 0, 1, …

        >>> Keypoints.of([[10, 20], [30, 40]], ["a", "b"], size=8)
        Keypoints(2)
        """
        places = _places(xy, what)
        n = len(places)
        named = Ids.count(n) if ids is None else Ids.of(ids, "keypoint")
        checks.check_lengths(keypoints=n, ids=len(named))
        checks.check_unique(named, "keypoint")
        sizes = _column(size, n, np.float64, f"{what}: size")
        _refuse_no_size(sizes, named, what)
        return Keypoints(
            named,
            places,
            sizes,
            _column(angle, n, np.float64, f"{what}: angle"),
            _column(response, n, np.float64, f"{what}: response"),
            _column(octave, n, np.int64, f"{what}: octave"),
            _column(level, n, np.int64, f"{what}: level"),
            detector,
        )

    def __len__(self) -> int:
        """Number of keypoints."""
        return len(self.xy)

    def __repr__(self) -> str:
        """Number and detector in one line."""
        return f"Keypoints({len(self)}{f' of {self.detector}' if self.detector else ''})"

    def take(self, places: Any) -> Keypoints:
        """Some of the keypoints, by their places or by a mask."""
        chosen = np.asarray(places)
        at = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        columns = ("xy", "size", "angle", "response", "octave", "level")
        chosen_rows = {name: _frozen(getattr(self, name)[at]) for name in columns}
        return replace(self, ids=self.ids.take(at), **chosen_rows)


def project(keypoints: Keypoints, H: Any, shape: tuple[int, ...]) -> Keypoints:
    """The keypoints as another image of that shape sees them; those outside of it are left out.

    Places go through the homography. Sizes grow by √|det| of its derivative at the place, and
    directions turn with it. Ids stay.
    """
    matrix = as_homography(H)
    seen = np.flatnonzero(inside(project_points(keypoints.xy, matrix), shape))
    kept = keypoints.take(seen)
    affine = local_affine(kept.xy, matrix)
    size = kept.size * np.sqrt(np.abs(np.linalg.det(affine)))
    return Keypoints.of(
        project_points(kept.xy, matrix),
        kept.ids,
        size=size,
        angle=_turn(kept.angle, affine),
        response=kept.response,
        what="The projected keypoints",
    )


def _turn(angle: Floats, affine: Floats) -> Floats:
    radians = np.deg2rad(angle)
    ahead = np.stack([np.cos(radians), np.sin(radians)], axis=1)
    x, y = (affine @ ahead[:, :, None])[:, :, 0].T
    # What is not known stays unknown.
    return np.where(angle == UPRIGHT, UPRIGHT, np.rad2deg(np.arctan2(y, x)) % 360.0)


def _places(xy: Any, what: str) -> Floats:
    places = checks.plain_array(xy, f"{what}: xy")
    if places.size == 0:
        places = np.zeros((0, 2))
    if places.ndim != 2 or places.shape[1] != 2 or places.dtype.kind not in "iuf":
        raise ShapeError(
            f"{what}: xy must hold two numbers (x, y) a row, found shape {places.shape} of "
            f"{places.dtype}."
        )
    result: Floats = np.array(places, np.float64)
    checks.check_finite(result, f"{what}: xy")
    result.flags.writeable = False
    return result


def _column(values: Any, n: int, dtype: Any, what: str) -> Any:
    column = checks.plain_array(values, what)
    if column.dtype.kind not in ("iuf" if dtype is np.float64 else "iu"):
        raise ValueRangeError(f"{what} must be numbers, found {column.dtype}.")
    if column.shape not in ((), (n,)):
        raise ShapeError(f"{what} must be one number for each of {n}, found {column.shape}.")
    result = np.array(np.broadcast_to(column, n), dtype)
    if dtype is np.float64:
        checks.check_finite(result, what)
    return _frozen(result)


def _refuse_no_size(size: Floats, ids: Ids, what: str) -> None:
    bad = np.flatnonzero(size <= 0)
    if len(bad):
        row = int(bad[0])
        raise ValueRangeError(
            f"{what}: the size of {ids[row]!r} is {size[row]}; it is a diameter in pixels, above 0."
        )


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def inside_border(
    keypoints: Keypoints, shape: tuple[int, ...], *, border: float = BORDER
) -> Keypoints:
    """Those at least `border` pixels from each edge; 0 keeps what lies in the image.

    >>> inside_border(Keypoints.of([[39, 50], [40, 50]], size=5), (100, 100)).ids
    Ids(1 integer: 1)
    """
    _require_pixels(border, "border")
    height, width = image_size(shape)
    x, y = keypoints.xy[:, 0], keypoints.xy[:, 1]
    return keypoints.take(
        (x >= border) & (x <= width - 1 - border) & (y >= border) & (y <= height - 1 - border)
    )


def by_size(keypoints: Keypoints, *, least: float = 0.0, most: float = np.inf) -> Keypoints:
    """Those whose size, a diameter in pixels, lies from `least` to `most`, both inclusive."""
    if not checks.is_real(least) or not checks.is_real(most) or not 0 <= least <= most:
        raise UsageError(f"Sizes must run from a number ≥ 0 upwards, found {least!r} to {most!r}.")
    return keypoints.take((keypoints.size >= least) & (keypoints.size <= most))


def strongest(keypoints: Keypoints, n: int) -> Keypoints:
    """The n of the largest response, in their old order; of equal ones the first."""
    count = checks.check_cutoff(n, "n")
    order = np.argsort(-keypoints.response, kind="stable")
    return keypoints.take(np.sort(order[:count]))


def random_subset(keypoints: Keypoints, n: int, *, seed: int = 0) -> Keypoints:
    """n of them by a seed, in their old order; all, if there are no more than n."""
    count = checks.check_cutoff(n, "n")
    draw = words(stream_key(check_seed(seed), "keypoints"), 0, len(keypoints))
    return keypoints.take(np.sort(np.argsort(draw, kind="stable")[:count]))


def shared(
    left: Keypoints, right: Keypoints, *, tolerance: float = 3.0
) -> tuple[Keypoints, Keypoints]:
    """What two detectors both found: each the other's nearest, within `tolerance` pixels.

    Both answers have the ids of the left, row by row; each keypoint stands in at most one pair.
    """
    _require_pixels(tolerance, "tolerance")
    ahead = nearest_within(left.xy, right.xy, tolerance).number
    back = nearest_within(right.xy, left.xy, tolerance).number
    rows = np.flatnonzero(ahead >= 0)
    rows = rows[back[ahead[rows]] == rows]
    ours, theirs = left.take(rows), right.take(ahead[rows])
    return ours, replace(theirs, ids=ours.ids)


def _require_pixels(value: float, name: str) -> None:
    if not checks.is_real(value) or not 0 <= value < np.inf:
        raise UsageError(f"{name} must be a number of pixels ≥ 0, found {value!r}.")
