"""One pair of images, ready to be evaluated: keypoints, descriptors and the true matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array, Ints
from assay.core import checks
from assay.core.ids import Ids
from assay.core.work import Once
from assay.errors import InputError, UsageError
from assay.search.engine.codes import Codes
from assay.vision.descriptors import Described, Kind, describe, load_network, network_file
from assay.vision.ground_truth import (
    Status,
    Truth,
    check_taus,
    inside,
    match_truths,
    project_points,
)
from assay.vision.keypoints import (
    BORDER,
    Keypoints,
    by_size,
    fill_path,
    inside_border,
    project,
    random_subset,
    read_keypoints,
    shared,
    strongest,
)
from assay.vision.opencv_features import Image, detect
from assay.vision.scenes import Scene

Source = Literal["detect", "project", "file"]


@dataclass(frozen=True)
class KeypointSettings:
    """How keypoints are chosen.

    `source`: "detect" finds them in each image, "project" takes those of image 1 through the
    homography, "file" reads `path`, in which {scene} and {image} stand for names. Then those near
    the border go, and those of other sizes; `shared_with` keeps what a second detector found, too;
    then the `strongest` and a `random` choice of so many stay.
    """

    source: Source = "detect"
    detector: str = "sift"
    options: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None
    border: float = BORDER
    least_size: float = 0.0
    most_size: float = float("inf")
    shared_with: str | None = None
    shared_side: Literal["left", "right"] = "left"  # whose sizes and angles: detector or the other
    tolerance: float = 3.0
    strongest: int | None = None
    random: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        if self.source not in ("detect", "project", "file"):
            raise UsageError(f"source must be detect, project or file; found {self.source!r}.")
        if self.shared_side not in ("left", "right"):
            raise UsageError(f"shared_side must be left or right; found {self.shared_side!r}.")
        if self.source == "file" and self.path is None:
            raise UsageError(
                "Keypoints from files need a path such as keypoints/{scene}/{image}.csv."
            )
        if self.source == "detect" and self.path is not None:
            raise UsageError("A path of keypoints needs the source file or project, not detect.")


class Detections:
    """What detectors found in images, so that each is asked once, whoever describes it."""

    def __init__(self) -> None:
        self._found: Once[tuple[str, int, str], Keypoints] = Once()

    def detect(
        self, scene: Scene, k: int, image: Image, detector: str, options: Mapping[str, Any]
    ) -> Keypoints:
        """Detect all keypoints of image k of a scene, once."""
        key = scene.name, k, f"{detector.lower()} {sorted(options.items())!r}"
        return self._found.get(key, lambda: detect(image, detector, options=options))

    def forget(self, scene: Scene) -> None:
        """Forget a scene but its first image, a distractor in others."""
        self._found.forget(lambda key: key[0] == scene.name and key[1] > 1)


def keypoints_of(
    scene: Scene,
    k: int,
    image: Image,
    settings: KeypointSettings,
    detections: Detections | None = None,
) -> Keypoints:
    """Return the keypoints of image k; refuse an image without any."""
    ask = partial((detections or Detections()).detect, scene, k, image)
    if settings.path is None:
        candidates = ask(settings.detector, settings.options)
    else:
        candidates = read_keypoints(fill_path(settings.path, {"scene": scene.name, "image": k}))
    selected = _select(candidates, image, settings, ask)
    if not len(selected):
        raise InputError(
            f"Image {k} of scene {scene.name!r} has no keypoints left: {len(candidates)} found, "
            f"none of which is {settings.border:g} pixels from the border of its "
            f"{image.shape[1]} × {image.shape[0]} pixels and within the other limits. Change the "
            "limits, or leave the image out."
        )
    return selected


def project_keypoints(
    scene: Scene, k: int, reference: Keypoints, shape: tuple[int, ...], *, border: float = BORDER
) -> Keypoints:
    """Project the keypoints of image 1 into image k, with ids."""
    ahead = inside_border(project(reference, scene.homographies[k], shape), shape, border=border)
    if not len(ahead):
        raise InputError(
            f"None of the {len(reference)} keypoints of scene {scene.name!r} lies in image {k}, "
            f"{border:g} pixels from its border."
        )
    return ahead


def _select(
    candidates: Keypoints,
    image: Image,
    settings: KeypointSettings,
    ask: Callable[[str, Mapping[str, Any]], Keypoints],
) -> Keypoints:
    ours = _limit(candidates, image, settings)
    if settings.shared_with is None:
        return _subset(ours, settings)
    theirs = _limit(ask(settings.shared_with, {}), image, settings)
    left, right = shared(ours, theirs, tolerance=settings.tolerance)
    selected = _subset(left, settings)
    return selected if settings.shared_side == "left" else right.take(selected.ids.match(right.ids))


def _limit(keypoints: Keypoints, image: Image, settings: KeypointSettings) -> Keypoints:
    inner = inside_border(keypoints, image.shape, border=settings.border)
    return by_size(inner, least=settings.least_size, most=settings.most_size)


def _subset(keypoints: Keypoints, settings: KeypointSettings) -> Keypoints:
    if settings.strongest is not None:
        keypoints = strongest(keypoints, settings.strongest)
    if settings.random is not None:
        keypoints = random_subset(keypoints, settings.random, seed=settings.seed)
    return keypoints


Seconds = dict[str, float]


class PairCounts(NamedTuple):
    """What became of every query keypoint of a pair, for one tolerance."""

    matched: int  # its true match and both descriptors are there
    no_match: int
    outside: int
    failed: int  # it has a true match, but a descriptor of the two failed


@dataclass(frozen=True, eq=False)
class Side:
    """One image of a pair: all its keypoints, and those that were described."""

    shape: tuple[int, ...]
    keypoints: Keypoints
    described: Described
    seconds: Mapping[str, float]


def usable_rows(side: Side) -> Array:
    """Return the descriptors that did not fail."""
    vectors = side.described.vectors
    return vectors.packed if isinstance(vectors, Codes) else vectors


@dataclass(frozen=True, eq=False)
class PairData:
    """Queries of image 1 and targets of image k; rows of the vectors are rows of the ids.

    `truths[tau].target` is a row among the targets. A described query whose true match has no
    descriptor has `Status.FAILED` there. `counts[tau]` counts all queries, also those without a
    descriptor: if such a query has a true match, it failed.
    """

    scene: str
    category: str
    image: int
    descriptor: str
    query: Described
    target: Described
    truths: Mapping[float, Truth]
    counts: Mapping[float, PairCounts]
    seconds: Mapping[str, float]
    failures: tuple[str, ...]

    @property
    def query_ids(self) -> Ids:
        """Ids of the queries that were described."""
        return self.query.keypoints.ids

    @property
    def target_ids(self) -> Ids:
        """Ids of the targets that were described."""
        return self.target.keypoints.ids

    @property
    def query_vectors(self) -> NDArray[np.float32] | Codes:
        """Descriptors of the queries."""
        return self.query.vectors

    @property
    def target_vectors(self) -> NDArray[np.float32] | Codes:
        """Descriptors of the targets."""
        return self.target.vectors

    @property
    def kind(self) -> Kind:
        """Floats or bits."""
        return self.query.kind

    @property
    def truth(self) -> Truth:
        """The truth for the first tolerance."""
        return next(iter(self.truths.values()))

    @property
    def n_failed(self) -> int:
        """Queries that failed, for the first tolerance."""
        return next(iter(self.counts.values())).failed


def make_pair(
    scene: Scene,
    k: int,
    *,
    keypoints: KeypointSettings | None = None,
    descriptor: str = "SIFT",
    options: Mapping[str, Any] | None = None,
    taus: Iterable[float] = (3.0,),
    one_to_one: bool = False,
    symmetric: bool = False,
    reference: Side | None = None,
) -> PairData:
    """Prepare keypoints, descriptors and true matches of images 1 and k.

    Keypoints that were projected are true matches of themselves, by id.

    Args:
        scene: The scene.
        k: Number of the second image, from 2.
        keypoints: How keypoints are chosen.
        descriptor: Name of a descriptor, a file, a network or `module:function`.
        options: Options of the descriptor.
        taus: Tolerances in pixels.
        one_to_one: Match each query and target once, nearest pairs first.
        symmetric: Ask that a match holds in both directions.
        reference: Image 1 by `describe_image`, for all pairs of a scene.

    Returns:
        The pair, with what became of every query.

    Raises:
        UsageError: If the scene has no image k.
        InputError: If an image has no keypoints that can be described.
    """
    settings = keypoints or KeypointSettings()
    radii = check_taus(taus)
    if k not in scene.pairs:
        raise UsageError(f"Scene {scene.name!r} has the pairs 1–{scene.pairs}; there is no 1–{k}.")
    left = reference or describe_image(
        scene, 1, keypoints=settings, descriptor=descriptor, options=options
    )
    right = describe_image(
        scene,
        k,
        keypoints=settings,
        descriptor=descriptor,
        options=options,
        projected=left.keypoints if settings.source == "project" else None,
    )
    seconds = dict(left.seconds)
    for stage, spent in right.seconds.items():
        seconds[stage] = seconds.get(stage, 0.0) + spent
    with timed(seconds, "truth"):
        whole = true_matches(
            scene,
            k,
            left=left,
            right=right,
            taus=radii,
            one_to_one=one_to_one,
            symmetric=symmetric,
            by_id=settings.source == "project",
        )
        truths, counts = _select_described(whole, left, right)
    return PairData(
        scene.name,
        scene.category,
        k,
        descriptor,
        left.described,
        right.described,
        truths,
        counts,
        seconds,
        _failures(scene.name, descriptor, ((1, left), (k, right))),
    )


def describe_image(
    scene: Scene,
    k: int,
    *,
    keypoints: KeypointSettings | None = None,
    descriptor: str = "SIFT",
    options: Mapping[str, Any] | None = None,
    projected: Keypoints | None = None,
    detections: Detections | None = None,
) -> Side:
    """Read image k, find (or project) its keypoints and describe them.

    Args:
        scene: The scene.
        k: Number of the image, from 1.
        keypoints: How keypoints are chosen.
        descriptor: Name of a descriptor, a file, a network or `module:function`.
        options: Options of the descriptor.
        projected: Keypoints of image 1, to be projected.
        detections: Shared by several descriptors, so that keypoints are found once.

    Returns:
        All keypoints, those that were described, and seconds by stage.

    Raises:
        InputError: If no keypoint is left, or none can be described.
    """
    settings = keypoints or KeypointSettings()
    seconds: Seconds = {}
    with timed(seconds, "read"):
        image = scene.image(k)
    with timed(seconds, "keypoints"):
        if projected is None:
            points = keypoints_of(scene, k, image, settings, detections)
        else:
            points = project_keypoints(scene, k, projected, image.shape, border=settings.border)
    if network_file(descriptor) is not None:
        with timed(seconds, "load"):  # once for all images
            load_network(descriptor)
    with timed(seconds, "describe"):
        names = {"scene": scene.name, "image": k}
        described = describe(image, points, descriptor, options=options, names=names)
    return Side(image.shape, points, described, seconds)


@contextmanager
def timed(seconds: Seconds, stage: str) -> Iterator[None]:
    """Add the time of a block to a stage."""
    start = perf_counter()
    yield
    seconds[stage] = seconds.get(stage, 0.0) + perf_counter() - start


def true_matches(
    scene: Scene,
    k: int,
    *,
    left: Side,
    right: Side,
    taus: Iterable[float] = (3.0,),
    one_to_one: bool = False,
    symmetric: bool = False,
    by_id: bool = False,
) -> dict[float, Truth]:
    """Find the true match of every keypoint of image 1.

    Args:
        scene: The scene.
        k: Number of the second image, from 2.
        left: Image 1; all keypoints count, described or not.
        right: Image k, likewise.
        taus: Tolerances in pixels.
        one_to_one: Match each query and target once, nearest pairs first.
        symmetric: Ask that a match holds in both directions.
        by_id: Keypoints were projected: each matches its own projection.

    Returns:
        The truth for each tolerance.
    """
    radii = check_taus(taus)
    if by_id:
        return _truths_by_id(scene, k, left, right, radii)
    return match_truths(
        left.keypoints.xy,
        right.keypoints.xy,
        scene.homographies[k],
        taus=radii,
        target_shape=right.shape,
        source_shape=left.shape,
        one_to_one=one_to_one,
        symmetric=symmetric,
    )


def _truths_by_id(
    scene: Scene, k: int, left: Side, right: Side, taus: list[float]
) -> dict[float, Truth]:
    """Match each query with its own projection, at distance 0."""
    target = left.keypoints.ids.match(right.keypoints.ids)
    ahead = project_points(left.keypoints.xy, scene.homographies[k])
    status = np.where(target >= 0, Status.MATCHED, Status.NO_MATCH).astype(np.int8)
    status[~inside(ahead, right.shape)] = Status.OUTSIDE
    distance = np.where(target >= 0, 0.0, np.inf)
    return {tau: Truth(tau, target, status, distance) for tau in taus}


def _select_described(
    whole: Mapping[float, Truth], left: Side, right: Side
) -> tuple[dict[float, Truth], dict[float, PairCounts]]:
    queries = left.described.keypoints.ids.match(left.keypoints.ids)
    targets = right.keypoints.ids.match(right.described.keypoints.ids)
    truths, counts = {}, {}
    for tau, truth in whole.items():
        truths[tau] = _renumber(truth.take(queries), targets)
        matched = truths[tau].count(Status.MATCHED)
        counts[tau] = PairCounts(
            matched,
            truth.count(Status.NO_MATCH),
            truth.count(Status.OUTSIDE),
            truth.count(Status.MATCHED) - matched,
        )
    return truths, counts


def _renumber(truth: Truth, targets: Ints) -> Truth:
    """Renumber targets: rows among those that were described."""
    target = np.where(truth.target >= 0, targets[truth.target], -1)
    lost = (truth.status == Status.MATCHED) & (target < 0)
    status = np.where(lost, Status.FAILED, truth.status).astype(np.int8)
    return Truth(truth.tau, target, status, np.where(target >= 0, truth.distance, np.inf))


def _failures(scene: str, descriptor: str, sides: Iterable[tuple[int, Side]]) -> tuple[str, ...]:
    return tuple(
        f"{scene}/{k}: {descriptor} failed for {len(side.described.failed)} of "
        f"{len(side.keypoints)} keypoints: {checks.name_few(side.described.failed)}"
        for k, side in sides
        if len(side.described.failed)
    )
