"""Which keypoints stay: away from the border, of some size, the strongest, some, or the shared."""

from __future__ import annotations

import numpy as np

from assay.core import checks
from assay.errors import UsageError
from assay.native.random_words import stream_key, words
from assay.stats.samples import check_seed
from assay.tasks.vision.homography import image_size
from assay.tasks.vision.keypoints import Keypoints
from assay.tasks.vision.near_points import nearest_within

__all__ = ["BORDER", "by_size", "inside_border", "random_subset", "shared", "strongest"]

BORDER = 40.0


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
    if not 0 <= least <= most:
        raise UsageError(f"Sizes must run from a number ≥ 0 upwards, found {least} to {most}.")
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
    renamed = Keypoints(
        ours.ids,
        theirs.xy,
        theirs.size,
        theirs.angle,
        theirs.response,
        theirs.octave,
        theirs.level,
        theirs.detector,
    )
    return ours, renamed


def _require_pixels(value: float, name: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < np.inf:
        raise UsageError(f"{name} must be a number of pixels ≥ 0, found {value!r}.")
