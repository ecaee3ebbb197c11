"""Keypoints: places in an image with a size and a direction, each with an id of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.arrays import Floats, Ints
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import ShapeError, ValueRangeError
from assay.tasks.vision.homography import as_homography, inside, local_affine, project_points

__all__ = ["UPRIGHT", "Keypoints", "project"]


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
        return Keypoints(
            self.ids.take(at),
            _frozen(self.xy[at]),
            _frozen(self.size[at]),
            _frozen(self.angle[at]),
            _frozen(self.response[at]),
            _frozen(self.octave[at]),
            _frozen(self.level[at]),
            self.detector,
        )


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
        angle=_turned(kept.angle, affine),
        response=kept.response,
        what="The projected keypoints",
    )


def _turned(angle: Floats, affine: Floats) -> Floats:
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
