"""Image matching: where the matches of a pair of images lead, and the homography they give.

Repeatability, matching score and homography estimation follow SuperPoint (DeTone, Malisiewicz,
Rabinovich, CVPR workshops 2018, appendix), mean matching accuracy (MMA) D2-Net (Dusmanu et al.,
CVPR 2019), the area under the curve of errors SuperGlue (Sarlin et al., CVPR 2020).

Image retrieval asks whether the first image of a scene finds the others of that scene. Two images
are as alike as they have matches: pairs of keypoints that are each other's nearest, clearly nearer
than the second nearest (Lowe's ratio).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core.checks import check_cutoff, is_real
from assay.core.conventions import Conventions
from assay.core.hits import judge
from assay.core.judgments import Judgments
from assay.core.ranking import Ranking
from assay.core.text import did_you_mean, parse_number
from assay.errors import UsageError
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.vision import ground_truth
from assay.vision.keypoints import as_id, draw
from assay.vision.opencv_features import steady
from assay.vision.pairs import Side, sort_by_place, usable_rows
from assay.vision.ranks import RECALLS, Neighbours, curve_of, nearest_two
from assay.vision.scenes import Scene
from assay.vision.settings import ESTIMATORS
from assay.vision.verification import counts_among

HEADLINE: Final = 3  # pixels within which a match is right, where one number is asked for
PIXELS: Final = tuple(range(1, 11))  # tolerances of D2-Net's curve
RATIO: Final = 0.8  # Lowe, IJCV 60 (2004)
MATCHERS: Final = ("nn", "mutual", "ratio", "mutual-ratio")


@dataclass(frozen=True)
class Matcher:
    """Which nearest neighbours are matches: all, mutual ones, those that pass Lowe's ratio test."""

    name: str
    mutual: bool = False
    ratio: float | None = None

    def __post_init__(self) -> None:
        """Refuse a ratio that no two distances have."""
        if self.ratio is not None and not (is_real(self.ratio) and 0 < self.ratio <= 1):
            raise UsageError(f"The ratio is {self.ratio!r}. Pass above 0, up to 1.")

    @classmethod
    def of(cls, text: str) -> Matcher:
        """Parse a matcher's name, such as `ratio:0.9`.

        Those with a ratio test take another limit after a colon.

        >>> Matcher.of("mutual-ratio:0.9")
        Matcher(name='mutual-ratio:0.9', mutual=True, ratio=0.9)
        """
        name, colon, limit = text.partition(":")
        if name not in MATCHERS:
            hint = did_you_mean(name, MATCHERS)
            raise UsageError(f"Unknown matcher {text!r}.{hint} Known: {', '.join(MATCHERS)}.")
        mutual, tested = "mutual" in name, "ratio" in name
        ratio = parse_number(limit) if colon else RATIO
        if (colon and not tested) or ratio is None or not 0 < ratio <= 1:
            raise UsageError(
                f"The matcher {text!r}: only ratio and mutual-ratio take a limit above 0, up "
                f"to 1. Write ratio:{RATIO}."
            )
        return cls(text, mutual, ratio if tested else None)


def choose_matches(ahead: Neighbours, back: Neighbours, matcher: Matcher, metric: str) -> Ints:
    """Return rows of both sides that match, one match a line."""
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
    """How OpenCV estimates a homography; `pixels` is the largest error of an inlier.

    OpenCV draws samples by one fixed seed, so the order of matches decides. They are put into an
    order of their own, and drawn anew `repeats` times: shuffled by the seeds 0, 1, …
    """

    name: str = "ransac"
    pixels: float = 3.0
    repeats: int = 5

    def __post_init__(self) -> None:
        """Refuse an unknown estimator."""
        check_cutoff(self.repeats, "repeats")
        if self.name not in ESTIMATORS:
            hint = did_you_mean(self.name, ESTIMATORS)
            raise UsageError(
                f"Unknown estimator {self.name!r}.{hint} Known: {', '.join(ESTIMATORS)}."
            )
        if not is_real(self.pixels) or not 0 < self.pixels < math.inf:
            raise UsageError(f"The inlier error is {self.pixels!r}. Pass pixels above 0.")

    def estimate(self, left: Floats, right: Floats) -> list[Floats | None]:
        """Estimate the homography from points to points, once for each repeat.

        None for fewer than four, or where none fits. The order of the points changes nothing.
        """
        pairs = np.hstack([left, right])
        pairs = pairs[np.lexsort(pairs.T)]
        shuffles = [draw(seed, "matches", len(pairs)) for seed in range(self.repeats)]
        return [self._estimate(pairs[np.argsort(words)]) for words in shuffles]

    def _estimate(self, pairs: Floats) -> Floats | None:
        if len(pairs) < 4:
            return None
        with steady() as cv2:
            method = getattr(cv2, ESTIMATORS[self.name])
            try:
                matrix = cv2.findHomography(pairs[:, :2], pairs[:, 2:], method, self.pixels)[0]
            except cv2.error:  # points on a line, or all at one place
                return None
        return None if matrix is None else np.asarray(matrix, np.float64)


def corner_error(true: Floats, estimated: Floats | None, shape: tuple[int, ...]) -> float:
    """Return how far apart two homographies put image 1's corners.

    The mean over the four corners, as in SuperPoint. Infinite where none was found; NaN where the
    true one puts a corner behind the camera.

    >>> corner_error(np.eye(3), np.array([[1.0, 0, 3], [0, 1, 4], [0, 0, 1]]), (10, 20))
    5.0
    """
    height, width = ground_truth.image_size(shape)
    corners = np.array([[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1]], float)
    expected = ground_truth.project_points(corners, true)
    if np.isnan(expected).any():
        return math.nan
    if estimated is None:
        return math.inf
    apart = np.linalg.norm(ground_truth.project_points(corners, estimated) - expected, axis=1)
    return math.inf if np.isnan(apart).any() else float(apart.mean())


def error_auc(errors: Floats, threshold: float) -> float:
    """Return the area under the curve of errors, as in SuperGlue.

    The curve is the share of errors below x, its points joined by straight lines. The mean of
    max(0, 1 − error/threshold) is the area under the steps, and lower by 1/(2n) at most.

    Args:
        errors: Errors, such as those of corners in pixels; infinite where nothing was found.
        threshold: Where the curve ends.

    Returns:
        A number from 0 to 1; NaN without errors.

    Raises:
        UsageError: If the threshold is not above 0.

    >>> error_auc(np.array([1.0, np.inf]), 4.0)
    0.4375
    """
    if not is_real(threshold) or not 0 < threshold < math.inf:
        raise UsageError(f"The threshold is {threshold!r}. Pass a number above 0.")
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
    error of the corners in pixels, once for each repeat of the estimator.
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
    corners: Floats
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
    """Match images 1 and k by each matcher, and say where the matches lead.

    Of equally near neighbours the first by place is taken, whatever the order of keypoints.
    """
    H = scene.homographies[k]
    sides = sort_by_place(sides[0]), sort_by_place(sides[1])
    inverse = np.linalg.inv(H).astype(np.float64)  # keeps the sign: w > 0 before both images
    views = _OwnView(*sides, H), _OwnView(*sides[::-1], inverse)
    left, right = map(usable_rows, sides)
    ahead, back = nearest_two(left, right, metric), nearest_two(right, left, metric)
    repeated = _repeatability(*views)
    # MMA of random nearest neighbours: the share of all pairs that are near enough.
    near = ground_truth.pairs_within(views[0].ahead, views[0].others, float(PIXELS[-1])).distance
    chance = _within(near) / (len(views[0].ahead) * len(views[0].others))
    matched = []
    for matcher in matchers:
        rows = choose_matches(ahead, back, matcher, metric)
        returned = choose_matches(back, ahead, matcher, metric)
        errors = views[0].errors(rows)
        points = [view.points[rows[:, column]] for column, view in enumerate(views)]
        estimates = estimator.estimate(points[0], points[1])
        shares = [
            view.share(matches) for view, matches in zip(views, (rows, returned), strict=True)
        ]
        matched.append(
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
                np.array([corner_error(H, estimate, sides[0].shape) for estimate in estimates]),
                _precision(ahead.best[rows[:, 0]], errors, views[0].n_true(HEADLINE)),
            )
        )
    return matched


def _precision(distances: Floats, errors: Floats, n_true: int) -> Floats:
    """Return precision over recall as the distance limit grows.

    After Mikolajczyk and Schmid, 2005. Recall is over the keypoints that have a true match; a wrong
    match stands before a right one of the same distance.
    """
    right = errors <= HEADLINE
    wrong = sum(counts_among(distances[right], distances[~right]))
    return curve_of(np.sort(wrong), n_true) if n_true else np.full(len(RECALLS), np.nan)


class _OwnView:
    """One image as the other sees it: all keypoints, and those that have a descriptor."""

    def __init__(self, here: Side, there: Side, H: Floats) -> None:
        every = here.keypoints.xy
        whole = ground_truth.project_points(every, H)
        common = ground_truth.inside(whole, there.shape)
        # Keypoints that lie in both images, here and in the other image.
        self.places, self.projected, self.n_seen = every[common], whole[common], int(common.sum())
        # Keypoints with a descriptor, here and in the other image, and those of the other image.
        self.points, self.others = here.described.keypoints.xy, there.described.keypoints.xy
        self.ahead = ground_truth.project_points(self.points, H)
        self.seen = ground_truth.inside(self.ahead, there.shape)

    def n_true(self, pixels: float) -> int:
        """Count keypoints that have a keypoint where they should be."""
        before = self.ahead[np.isfinite(self.ahead).all(axis=1)]  # the camera
        nearest = ground_truth.nearest_within(before, self.others, pixels).distance
        return int((nearest <= pixels).sum())

    def errors(self, rows: Ints) -> Floats:
        """Return each match's error in pixels; NaN behind the camera."""
        apart = self.ahead[rows[:, 0]] - self.others[rows[:, 1]]
        return np.asarray(np.sqrt((apart * apart).sum(axis=1)), np.float64)

    def share(self, rows: Ints) -> Floats:
        """Return the share of common keypoints that are matched right."""
        errors = self.errors(rows[self.seen[rows[:, 0]]])
        return _within(errors) / self.n_seen if self.n_seen else np.full(len(PIXELS), np.nan)


def _within(distances: Floats) -> Floats:
    """Count distances within each tolerance; NaN and infinity never are."""
    return np.array([(distances <= pixels).sum() for pixels in PIXELS], np.float64)


def _repeatability(first: _OwnView, other: _OwnView) -> Floats:
    """Return the share of common keypoints that are found again."""
    total = first.n_seen + other.n_seen
    if not total:
        return np.full(len(PIXELS), np.nan)
    widest = float(PIXELS[-1])
    ahead = ground_truth.nearest_within(first.projected, other.places, widest).distance
    back = ground_truth.nearest_within(other.places, first.projected, widest).distance
    return (_within(ahead) + _within(back)) / total


def count_matches(
    left: NDArray[Any], right: NDArray[Any], *, metric: str = "l2", ratio: float = RATIO
) -> int:
    """Count mutual nearest neighbours that pass the ratio test.

    >>> rows = np.eye(4, dtype=np.float32)
    >>> count_matches(rows, rows[::-1]), count_matches(rows, np.ones((4, 4), np.float32))
    (4, 0)
    """
    matcher = Matcher("mutual-ratio", mutual=True, ratio=ratio)
    ahead, back = nearest_two(left, right, metric), nearest_two(right, left, metric)
    return len(choose_matches(ahead, back, matcher, metric))


def evaluate_image_retrieval(
    images: Mapping[str, Sequence[NDArray[Any]]],
    *,
    conventions: Conventions,
    metric: str = "l2",
    ratio: float = RATIO,
) -> Scores:
    """Return the AP of each scene's first image among all others.

    Images of the same scene are relevant; the score is the number of matches.

    Args:
        images: Descriptors of every image of every scene.
        conventions: Conventions of the score.
        metric: "l2", "cosine" or "hamming".
        ratio: Limit of Lowe's ratio test.

    Returns:
        A value for each scene.

    Raises:
        UsageError: If there are fewer than two scenes.

    Example:
        >>> from assay.vision.settings import default_conventions
        >>> images = {"a": [np.eye(4)] * 2, "b": [1 - np.eye(4)] * 2}
        >>> evaluate_image_retrieval(images, conventions=default_conventions())["AP"].tolist()
        [1.0, 1.0]
    """
    if len(images) < 2:
        raise UsageError("Image retrieval needs two scenes. Add scenes.")
    names = [(scene, number) for scene in images for number in range(1, len(images[scene]) + 1)]
    doc_ids = [as_id(f"{scene}/{number}") for scene, number in names]
    scenes = sorted(images)
    table = [
        [
            count_matches(images[scene][0], images[other][number - 1], metric=metric, ratio=ratio)
            for other, number in names
        ]
        for scene in scenes
    ]
    query_ids = [as_id(f"{scene}/1") for scene in scenes]
    ranking = Ranking.from_scores(np.array(table, np.float64), query_ids=query_ids, doc_ids=doc_ids)
    judgments = Judgments.from_labels(
        scenes, [scene for scene, _ in names], query_ids=query_ids, doc_ids=doc_ids
    )
    rules = conventions.replace(self_match="exclude")
    scores = score(judge(ranking, judgments, conventions=rules), "AP", conventions=rules)
    return scores.with_groups(scene=dict(zip(query_ids, scenes, strict=True)))
