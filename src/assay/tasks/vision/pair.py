"""One pair of images, ready to be evaluated: descriptors of both and the true matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import UsageError
from assay.search.engine.codes import Codes
from assay.tasks.vision.describe import Described, Kind, describe
from assay.tasks.vision.ground_truth import Status, Truth, check_taus, match_truths
from assay.tasks.vision.homography import inside, project_points
from assay.tasks.vision.keypoint_sources import (
    Detections,
    KeypointSettings,
    keypoints_of,
    project_keypoints,
)
from assay.tasks.vision.keypoints import Keypoints
from assay.tasks.vision.patch_networks import load_network, network_file
from assay.tasks.vision.scenes import Scene

__all__ = [
    "PairCounts",
    "PairData",
    "Side",
    "describe_image",
    "make_pair",
    "timed",
    "true_matches",
]

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
    """Keypoints, descriptors and true matches of images 1 and k.

    `reference` is image 1, made by `describe_image` with the same settings: make it once for all
    pairs of a scene. Keypoints that were projected are true matches of themselves, by id.
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
    seconds = _add_seconds(left.seconds, right.seconds)
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
    """Read image k, find its keypoints (or project those of image 1) and describe them.

    `detections`, shared by several descriptors, finds keypoints once for all of them.
    """
    settings = keypoints or KeypointSettings()
    seconds: Seconds = {}
    with timed(seconds, "read"):
        image = scene.image(k)
    with timed(seconds, "keypoints"):
        if projected is None:
            found = keypoints_of(scene, k, image, settings, detections)
        else:
            found = project_keypoints(scene, k, projected, image.shape, border=settings.border)
    if network_file(descriptor) is not None:
        with timed(seconds, "load"):  # once for all images
            load_network(descriptor)
    with timed(seconds, "describe"):
        names = {"scene": scene.name, "image": k}
        described = describe(image, found, descriptor, options=options, names=names)
    return Side(image.shape, found, described, seconds)


@contextmanager
def timed(seconds: Seconds, stage: str) -> Iterator[None]:
    """Add the time of a block to a stage."""
    start = perf_counter()
    yield
    seconds[stage] = seconds.get(stage, 0.0) + perf_counter() - start


def _add_seconds(*parts: Mapping[str, float]) -> Seconds:
    stages = dict.fromkeys(stage for part in parts for stage in part)
    return {stage: sum(part.get(stage, 0.0) for part in parts) for stage in stages}


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
    """The true match of every keypoint of image 1 among all of image k, described or not.

    `by_id` if the keypoints were projected: each is then the match of its own projection.
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
    """Each query's own projection, at distance 0, whatever the tolerance."""
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
    """Rows among the described targets instead of rows among all of them."""
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
