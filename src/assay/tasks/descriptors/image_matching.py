"""Image matching: where the matches of a pair of images lead, and the homography they give.

Repeatability, matching score and homography estimation follow SuperPoint (DeTone, Malisiewicz,
Rabinovich, CVPR workshops 2018, appendix), mean matching accuracy (MMA) D2-Net (Dusmanu et al.,
CVPR 2019), the area under the curve of errors SuperGlue (Sarlin et al., CVPR 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core.checks import is_real
from assay.core.numbers import parse_number
from assay.core.text import did_you_mean
from assay.errors import UsageError
from assay.tasks.descriptors.distances import Neighbours, nearest_two
from assay.tasks.descriptors.pooled_hits import counts_among
from assay.tasks.descriptors.pr_curves import RECALLS, curve_of
from assay.tasks.descriptors.scene import usable_rows
from assay.tasks.vision.homography import image_size, inside, project_points
from assay.tasks.vision.images import steady
from assay.tasks.vision.near_points import nearest_within, pairs_within
from assay.tasks.vision.pair import Side
from assay.tasks.vision.scenes import Scene

__all__ = [
    "ESTIMATORS",
    "HEADLINE",
    "MATCHERS",
    "PIXELS",
    "RATIO",
    "Estimator",
    "MatchedPair",
    "Matcher",
    "choose_matches",
    "corner_error",
    "error_auc",
    "match_pair",
]

HEADLINE: Final = 3  # pixels within which a match is right, where one number is asked for
PIXELS: Final = tuple(range(1, 11))  # tolerances of D2-Net's curve
RATIO: Final = 0.8  # Lowe, IJCV 60 (2004)
MATCHERS: Final = {
    "nn": (False, False),
    "mutual": (True, False),
    "ratio": (False, True),
    "mutual-ratio": (True, True),
}
ESTIMATORS: Final = {"ransac": "RANSAC", "magsac": "USAC_MAGSAC"}


@dataclass(frozen=True)
class Matcher:
    """Which nearest neighbours are matches: all, mutual ones, those that pass Lowe's ratio test."""

    name: str
    mutual: bool = False
    ratio: float | None = None

    def __post_init__(self) -> None:
        """Refuse a ratio that no two distances have."""
        if self.ratio is not None and not (is_real(self.ratio) and 0 < self.ratio <= 1):
            raise UsageError(f"A ratio is above 0 and not above 1, found {self.ratio!r}.")

    @classmethod
    def of(cls, text: str) -> Matcher:
        """A matcher by its name; those with a ratio test take another limit after a colon.

        >>> Matcher.of("mutual-ratio:0.9")
        Matcher(name='mutual-ratio:0.9', mutual=True, ratio=0.9)
        """
        name, colon, limit = text.partition(":")
        if name not in MATCHERS:
            hint = did_you_mean(name, MATCHERS)
            raise UsageError(f"Unknown matcher {text!r}.{hint} There are {', '.join(MATCHERS)}.")
        mutual, tested = MATCHERS[name]
        ratio = parse_number(limit) if colon else RATIO
        if (colon and not tested) or ratio is None or not 0 < ratio <= 1:
            raise UsageError(
                f"The matcher {text!r}: a number above 0 and not above 1 may follow ratio and "
                f"mutual-ratio, such as ratio:{RATIO}."
            )
        return cls(text, mutual, ratio if tested else None)


def choose_matches(ahead: Neighbours, back: Neighbours, matcher: Matcher, metric: str) -> Ints:
    """Rows of both sides that match, one match a line, from left to right."""
    rows = np.arange(len(ahead.nearest))
    good = np.isfinite(ahead.best)
    if matcher.mutual and len(back.nearest):
        good &= back.nearest[ahead.nearest] == rows
    if matcher.ratio is not None:
        limit = matcher.ratio if metric == "hamming" else matcher.ratio**2  # others are squared
        good &= np.isinf(ahead.second) | (ahead.best < limit * ahead.second)
    return np.stack([rows[good], ahead.nearest[good]], axis=1)


@dataclass(frozen=True)
class Estimator:
    """How OpenCV estimates a homography; `pixels` is the largest error of an inlier."""

    name: str = "ransac"
    pixels: float = 3.0

    def __post_init__(self) -> None:
        """Refuse an unknown estimator."""
        if self.name not in ESTIMATORS:
            hint = did_you_mean(self.name, ESTIMATORS)
            raise UsageError(
                f"Unknown estimator {self.name!r}.{hint} There are {', '.join(ESTIMATORS)}."
            )
        if not is_real(self.pixels) or not 0 < self.pixels < math.inf:
            raise UsageError(f"An inlier's error is above 0 pixels, found {self.pixels!r}.")

    def estimate(self, left: Floats, right: Floats) -> Floats | None:
        """The homography from points to points; None for fewer than four, or where none fits."""
        if len(left) < 4:
            return None
        with steady() as cv2:
            method = getattr(cv2, ESTIMATORS[self.name])
            try:
                found = cv2.findHomography(left, right, method, self.pixels)[0]
            except cv2.error:  # points on a line, or all at one place
                return None
        return None if found is None else np.asarray(found, np.float64)


def corner_error(true: Floats, found: Floats | None, shape: tuple[int, ...]) -> float:
    """How far apart two homographies put the corners of image 1, on average (SuperPoint).

    Infinite where none was found; NaN where the true one puts a corner behind the camera.

    >>> corner_error(np.eye(3), np.array([[1.0, 0, 3], [0, 1, 4], [0, 0, 1]]), (10, 20))
    5.0
    """
    height, width = image_size(shape)
    corners = np.array([[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1]], float)
    expected = project_points(corners, true)
    if np.isnan(expected).any():
        return math.nan
    if found is None:
        return math.inf
    apart = np.linalg.norm(project_points(corners, found) - expected, axis=1)
    return math.inf if np.isnan(apart).any() else float(apart.mean())


def error_auc(errors: Floats, threshold: float) -> float:
    """Area under the share of errors below x, for x from 0 to the threshold, as in SuperGlue.

    Its points are joined by straight lines. The mean of max(0, 1 − error/threshold) is the area
    under the steps, and lower by 1/(2n) at most.

    >>> error_auc(np.array([1.0, np.inf]), 4.0)
    0.4375
    """
    if not is_real(threshold) or not 0 < threshold < math.inf:
        raise UsageError(f"The threshold of errors is above 0, found {threshold!r}.")
    if not len(errors):
        return math.nan
    below = np.sort(errors[errors < threshold])
    x = np.concatenate([[0.0], below, [threshold]])
    share = np.arange(len(below) + 1) / len(errors)
    y = np.append(share, share[-1])
    return float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum() / threshold)


@dataclass(frozen=True, eq=False)
class MatchedPair:
    """One pair of images and one matcher; the arrays have a value for each of `PIXELS`.

    `repeatability` and `score` are over keypoints that lie in both images, `accuracy` (MMA) over
    matches, 0 without any; `chance` is that of random nearest neighbours. `corners` is the mean
    error of the corners in pixels.
    """

    scene: str
    pair: str
    category: str
    keypoints: int  # of both images, in the part that both show
    matches: int
    repeatability: Floats
    score: Floats
    accuracy: Floats
    chance: Floats
    corners: float
    precision: Floats  # at each recall, by the distance of descriptors; see `_precision`


def match_pair(
    scene: Scene,
    k: int,
    sides: tuple[Side, Side],
    *,
    matchers: tuple[Matcher, ...],
    metric: str,
    estimator: Estimator,
) -> list[MatchedPair]:
    """Match images 1 and k by each matcher, and say where the matches lead."""
    views = _views(scene, k, *sides)
    left, right = map(usable_rows, sides)
    ahead, back = nearest_two(left, right, metric), nearest_two(right, left, metric)
    repeated, chance = _repeatability(*views), _chance(views[0])
    found = []
    for matcher in matchers:
        rows = choose_matches(ahead, back, matcher, metric)
        returned = choose_matches(back, ahead, matcher, metric)
        errors = views[0].errors(rows)
        points = [view.points[rows[:, column]] for column, view in enumerate(views)]
        homography = estimator.estimate(points[0], points[1])
        shares = [view.share(own) for view, own in zip(views, (rows, returned), strict=True)]
        found.append(
            MatchedPair(
                scene.name,
                f"1-{k}",
                scene.category,
                sum(view.n_seen for view in views),
                len(rows),
                repeated,
                np.mean(shares, axis=0),
                _within(errors) / max(1, len(errors)),
                chance,
                corner_error(scene.homographies[k], homography, sides[0].shape),
                _precision(ahead.best[rows[:, 0]], errors, views[0].n_true(HEADLINE)),
            )
        )
    return found


def _precision(distances: Floats, errors: Floats, n_true: int) -> Floats:
    """Precision over recall as the limit of the distance grows (Mikolajczyk and Schmid, 2005).

    Recall is over the keypoints that have a true match; a wrong match stands before a right one
    of the same distance.
    """
    right = errors <= HEADLINE
    wrong = sum(counts_among(distances[right], distances[~right]))
    return curve_of(np.sort(wrong), n_true) if n_true else np.full(len(RECALLS), np.nan)


class _OwnView(NamedTuple):
    """One image as the other sees it: all keypoints, and those that have a descriptor."""

    places: Floats  # of keypoints that lie in both images, here
    projected: Floats  # the same, in the other image
    points: Floats  # of keypoints with a descriptor, here
    ahead: Floats  # the same, in the other image
    seen: NDArray[np.bool_]
    others: Floats  # the other image's keypoints with a descriptor

    @property
    def n_seen(self) -> int:
        return len(self.places)

    def n_true(self, pixels: float) -> int:
        """How many keypoints have one of the other image where they should be."""
        before = self.ahead[np.isfinite(self.ahead).all(axis=1)]  # the camera
        nearest = nearest_within(before, self.others, pixels).distance
        return int((nearest <= pixels).sum())

    def errors(self, rows: Ints) -> Floats:
        """Pixels between where a match is and where it should be; NaN behind the camera."""
        apart = self.ahead[rows[:, 0]] - self.others[rows[:, 1]]
        return np.asarray(np.sqrt((apart * apart).sum(axis=1)), np.float64)

    def share(self, rows: Ints) -> Floats:
        """Right matches of keypoints in both images, over all such keypoints."""
        errors = self.errors(rows[self.seen[rows[:, 0]]])
        return _within(errors) / self.n_seen if self.n_seen else np.full(len(PIXELS), np.nan)


def _views(scene: Scene, k: int, first: Side, other: Side) -> tuple[_OwnView, _OwnView]:
    H = scene.homographies[k]
    inverse = np.linalg.inv(H).astype(np.float64)  # keeps the sign: w > 0 before both images
    return _view(first, other, H), _view(other, first, inverse)


def _view(here: Side, there: Side, H: Floats) -> _OwnView:
    whole = project_points(here.keypoints.xy, H)
    common = inside(whole, there.shape)
    points = here.described.keypoints.xy
    ahead = project_points(points, H)
    return _OwnView(
        here.keypoints.xy[common],
        whole[common],
        points,
        ahead,
        inside(ahead, there.shape),
        there.described.keypoints.xy,
    )


def _within(distances: Floats) -> Floats:
    """How many distances are within each tolerance; NaN and infinity never are."""
    return np.array([(distances <= pixels).sum() for pixels in PIXELS], np.float64)


def _repeatability(first: _OwnView, other: _OwnView) -> Floats:
    """Share of the keypoints in both images that have one of the other image near, in image k."""
    total = first.n_seen + other.n_seen
    if not total:
        return np.full(len(PIXELS), np.nan)
    widest = float(PIXELS[-1])
    ahead = nearest_within(first.projected, other.places, widest).distance
    back = nearest_within(other.places, first.projected, widest).distance
    return (_within(ahead) + _within(back)) / total


def _chance(first: _OwnView) -> Floats:
    """MMA of nearest neighbours that are random: the share of all pairs that are near enough."""
    near = pairs_within(first.ahead, first.others, float(PIXELS[-1])).distance
    return _within(near) / (len(first.ahead) * len(first.others))
