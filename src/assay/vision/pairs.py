"""Pairs of images: keypoints, descriptors and the true matches; and the pairs of a scene, ranked.

A scene is evaluated from images to ranks, label counts and samples of descriptors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import InputError, StorageError, UsageError
from assay.search.engine.codes import Codes
from assay.search.engine.workers import Control
from assay.vision import verification
from assay.vision.descriptors import Described, Kind, describe, load_network
from assay.vision.ground_truth import (
    Status,
    Truth,
    check_taus,
    inside,
    match_truths,
    project_points,
)
from assay.vision.keypoints import Keypoints, as_ids, choose_names, choose_rows
from assay.vision.ranks import OUTSIDE, PairRanks, choose_metric, rank_pair
from assay.vision.result import Failure, ScenePart
from assay.vision.scenes import Detections, Once, Scene, keypoints_of, project_keypoints
from assay.vision.settings import (
    DescriptorSettings,
    DistractorSettings,
    EvaluationSettings,
    KeypointSettings,
    network_file,
)

Seconds = dict[str, float]


class PairCounts(NamedTuple):
    """Counts of the outcomes of a pair's query keypoints at one tolerance."""

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


def sort_by_place(side: Side) -> Side:
    """Sort described keypoints by place, then size, angle and descriptor."""
    points, rows = side.described.keypoints, np.ascontiguousarray(usable_rows(side))
    texts = rows.view(f"S{rows.itemsize * rows.shape[1]}")[:, 0]
    order = np.lexsort((texts, points.angle, points.size, *points.xy.T))
    vectors = side.described.vectors
    moved = replace(vectors, packed=rows[order]) if isinstance(vectors, Codes) else rows[order]
    return replace(
        side, described=replace(side.described, keypoints=points.take(order), vectors=moved)
    )


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

    Example:
        pair = make_pair(scene, 2, keypoints=KeypointSettings(strongest=200))
        pair.n_failed
    """
    settings = keypoints or KeypointSettings()
    radii = check_taus(taus)
    if k not in scene.pairs:
        raise UsageError(
            f"Scene {scene.name!r} has the pairs 1–{scene.pairs}, not 1–{k}. Choose another."
        )
    how: dict[str, Any] = {"keypoints": settings, "descriptor": descriptor, "options": options}
    left = reference or describe_image(scene, 1, **how)
    by_id = settings.source == "project"
    right = describe_image(scene, k, **how, projected=left.keypoints if by_id else None)
    seconds = dict(left.seconds)
    add_seconds(seconds, right.seconds)
    with timed(seconds, "truth"):
        rules: dict[str, Any] = {"one_to_one": one_to_one, "symmetric": symmetric, "by_id": by_id}
        whole = true_matches(scene, k, left=left, right=right, taus=radii, **rules)
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
        tuple(
            f"{scene.name}/{number}: {descriptor} failed for {len(side.described.failed)} of "
            f"{len(side.keypoints)} keypoints: {checks.name_few(side.described.failed)}"
            for number, side in ((1, left), (k, right))
            if len(side.described.failed)
        ),
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

    Example:
        side = describe_image(scene, 1, descriptor="RootSIFT")
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
    add_seconds(seconds, {stage: perf_counter() - start})


def add_seconds(seconds: Seconds, more: Mapping[str, float]) -> None:
    """Add the times of some stages."""
    for stage, spent in more.items():
        seconds[stage] = seconds.get(stage, 0.0) + spent


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

    Example:
        left, right = (describe_image(scene, k) for k in (1, 2))
        truths = true_matches(scene, 2, left=left, right=right, taus=[1, 3])
    """
    radii = check_taus(taus)
    if by_id:  # at distance 0
        target = left.keypoints.ids.match(right.keypoints.ids)
        ahead = project_points(left.keypoints.xy, scene.homographies[k])
        status = np.where(target >= 0, Status.MATCHED, Status.NO_MATCH).astype(np.int8)
        status[~inside(ahead, right.shape)] = Status.OUTSIDE
        distance = np.where(target >= 0, 0.0, np.inf)
        return {tau: Truth(tau, target, status, distance) for tau in radii}
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


def _select_described(
    whole: Mapping[float, Truth], left: Side, right: Side
) -> tuple[dict[float, Truth], dict[float, PairCounts]]:
    queries = left.described.keypoints.ids.match(left.keypoints.ids)
    targets = right.keypoints.ids.match(right.described.keypoints.ids)
    truths, counts = {}, {}
    for tau, truth in whole.items():
        part = truth.take(queries)
        # Rows among the targets that were described.
        target = np.where(part.target >= 0, targets[part.target], -1)
        lost = (part.status == Status.MATCHED) & (target < 0)
        status = np.where(lost, Status.FAILED, part.status).astype(np.int8)
        distance = np.where(target >= 0, part.distance, np.inf)
        truths[tau] = Truth(tau, target, status, distance)
        matched = truths[tau].count(Status.MATCHED)
        counts[tau] = PairCounts(
            matched,
            truth.count(Status.NO_MATCH),
            truth.count(Status.OUTSIDE),
            truth.count(Status.MATCHED) - matched,
        )
    return truths, counts


BROKEN: Final = (InputError, StorageError)


class Distractors(NamedTuple):
    """Descriptors from other scenes, by scene, their names, and drawn scenes that have none."""

    rows: dict[str, Array]
    ids: list[str]
    broken: list[str]


@dataclass(frozen=True, eq=False)
class SceneContext:
    """Shared evaluation settings of a descriptor's scenes."""

    scenes: Mapping[str, Scene]
    descriptor: DescriptorSettings
    keypoints: KeypointSettings
    evaluation: EvaluationSettings
    threads: int | None = None
    detections: Detections = field(default_factory=Detections)
    control: Control = field(default_factory=Control.new)
    prints: Once[str, str] = field(default_factory=Once)
    _firsts: Once[str, Side] = field(default_factory=Once)

    def side(self, scene: Scene, k: int, reference: Side | None = None) -> Side:
        """Describe image k of a scene.

        `reference` is image 1, if its keypoints are projected.
        """
        projected = None
        if reference is not None and self.keypoints.source == "project":
            projected = reference.keypoints
        return describe_image(
            scene,
            k,
            keypoints=self.keypoints,
            descriptor=self.descriptor.type,
            options=self.descriptor.options,
            projected=projected,
            detections=self.detections,
        )

    def first(self, scene: Scene) -> Side:
        """Describe image 1, once where it provides distractors."""
        if self.evaluation.verification is None and self.evaluation.retrieval is None:
            return self.side(scene, 1)
        return self._firsts.get(scene.name, lambda: self.side(scene, 1))

    def metric(self, side: Side) -> str:
        """Return the metric: Hamming for bits, else as stated, or L2."""
        kind = side.described.kind
        return choose_metric(
            self.descriptor.metric, kind, f"The descriptor {self.descriptor.name!r}"
        )

    def distractors(self, scene: str, settings: DistractorSettings) -> Distractors:
        """Draw keypoints of the first images of other scenes."""
        candidates = [name for name in self.scenes if name != scene]
        names = choose_names(settings.seed, f"distractors of {scene}", candidates, settings.scenes)
        picked, ids = {}, []
        for name in names:
            try:
                side = self.first(self.scenes[name])
            except BROKEN:  # the scene itself says why
                continue
            rows, label = usable_rows(side), f"distractors from {name}"
            at = choose_rows(settings.seed, label, len(rows), settings.keypoints)
            picked[name] = rows[at]
            ids += as_ids(f"{name}/", [str(key) for key in side.described.keypoints.ids.take(at)])
        return Distractors(picked, ids, [name for name in names if name not in picked])


def evaluate_scene(scene: Scene, context: SceneContext) -> ScenePart:
    """Evaluate all pairs of a scene; what cannot be evaluated is listed, never dropped."""
    pairs = wanted_pairs(scene, context.evaluation)
    try:
        first = context.first(scene)
    except BROKEN as error:
        failures = tuple(Failure(scene.name, f"1-{k}", str(error)) for k in pairs)
        return ScenePart(scene.name, dict.fromkeys(context.evaluation.tau, ()), failures=failures)
    done = _SceneEvaluation(scene, context, first)
    for k in pairs:
        if context.control.stop[0]:
            raise KeyboardInterrupt  # as in the thread that was interrupted
        done.add(k)
    return done.part()


def wanted_pairs(scene: Scene, evaluation: EvaluationSettings) -> tuple[int, ...]:
    """Return the images that image 1 is compared with.

    One that the scene lacks is refused.
    """
    absent = [k for k in evaluation.pairs if k not in scene.pairs]
    if absent:
        raise UsageError(
            f"Scene {scene.name!r} has no image {absent[0]}; it has 1 to {len(scene.images)}. "
            "Change pairs."
        )
    return evaluation.pairs or scene.pairs


class _SceneEvaluation:
    """The pairs of a scene that were evaluated so far."""

    def __init__(self, scene: Scene, context: SceneContext, first: Side) -> None:
        self.scene, self.context, self.first = scene, context, first
        self.seconds = dict(first.seconds)
        self.metric = context.metric(first)
        self.query_ids = list(map(str, first.keypoints.ids))
        self.vectors, self.lost = whole_rows(first)
        self.ranks: dict[float, list[PairRanks]] = {tau: [] for tau in context.evaluation.tau}
        self.images: list[verification.Candidates] = []
        self.placed: list[verification.PlacedRows] = []
        self.samples = [self._sample(first, 1)]
        self.failures: list[Failure] = []
        self.notes = list(_notes(scene, 1, context.descriptor, first))
        self.described = len(first.described)

    def add(self, k: int) -> None:
        """Evaluate the pair of images 1 and k."""
        try:
            side = self.context.side(self.scene, k, self.first)
        except BROKEN as error:
            self.failures.append(Failure(self.scene.name, f"1-{k}", str(error)))
            return
        add_seconds(self.seconds, side.seconds)
        self.notes += _notes(self.scene, k, self.context.descriptor, side)
        self.described += len(side.described)
        how = self.context.evaluation
        with timed(self.seconds, "truth"):
            by_id = self.context.keypoints.source == "project"
            truths = true_matches(
                self.scene, k, left=self.first, right=side, by_id=by_id, **how.truth
            )
        vectors, lost = whole_rows(side)
        with timed(self.seconds, "rank"):
            for tau, truth in truths.items():
                self.ranks[tau].append(self._rank(k, side, truth, vectors, lost))
        self.samples.append(self._sample(side, k))
        # Described keypoints, and each query's match among them.
        target = truths[how.tau[0]].target
        place = side.keypoints.ids.match(side.described.keypoints.ids)
        described = np.where(place >= 0, place, verification.LOST)
        match_rows = np.where(target >= 0, described[target], verification.NO_MATCH)
        self.images.append(verification.Candidates(usable_rows(side), match_rows))
        projected = project_points(self.first.keypoints.xy, self.scene.homographies[k])
        self.placed.append(
            verification.PlacedRows(usable_rows(side), side.described.keypoints.xy, projected)
        )

    def _rank(
        self, k: int, side: Side, truth: Truth, vectors: Array, lost: NDArray[np.bool_]
    ) -> PairRanks:
        about = {"scene": self.scene.name, "pair": f"1-{k}", "category": self.scene.category}
        ranks = rank_pair(
            self.vectors,
            vectors,
            truth=truth.target,
            metric=self.metric,  # type: ignore[arg-type]
            query_ids=self.query_ids,
            outside=truth.status == OUTSIDE,
            matching=self.context.evaluation.matching,
            threads=self.context.threads,
            failed_queries=self.lost,
            failed_targets=lost,
            **about,
        )
        # A digest of keypoints and true matches, not of descriptors.
        digest = hashlib.sha256()
        for part in (self.first.keypoints.xy, side.keypoints.xy, truth.target):
            digest.update(np.ascontiguousarray(part).tobytes())
        return replace(ranks, truth=digest.hexdigest()[:16])

    def _sample(self, side: Side, k: int) -> Array:
        """Return descriptors for image retrieval; none if not evaluated."""
        settings = self.context.evaluation.image_retrieval
        rows = usable_rows(side)
        if settings is None:
            return rows[:0]
        name = f"image {self.scene.name}/{k}"
        return rows[choose_rows(settings.seed, name, len(rows), settings.keypoints)]

    def part(self) -> ScenePart:
        """Return everything about the scene."""
        pooled = []
        for task in verification.TASKS:
            settings: DistractorSettings | None = getattr(self.context.evaluation, task)
            if settings is not None and self.images:
                with timed(self.seconds, task):
                    pooled += self._count_pooled(task, settings)
        return ScenePart(
            self.scene.name,
            {tau: tuple(ranks) for tau, ranks in self.ranks.items()},
            tuple(pooled),
            tuple(self.failures),
            tuple(self.notes),
            tuple(self.samples),
            self.metric,
            self.seconds,
            self.described,
            self.vectors.itemsize * self.vectors.shape[1],
        )

    def _count_pooled(
        self, task: str, settings: DistractorSettings
    ) -> list[verification.CandidateCounts]:
        rows, ids, broken = self.context.distractors(self.scene.name, settings)
        if broken:
            what = "fewer distractors" if rows else "not computed without distractors"
            self.notes.append(
                f"{self.context.descriptor.name}: {task} of {self.scene.name}: {what}: the "
                f"first image of {checks.name_few(broken)} was unusable"
            )
        if not rows:
            return []
        distractors = list(rows.values())
        how: dict[str, Any] = {"metric": self.metric, "failed": self.lost}
        counted = verification.count_candidates(
            self.vectors,
            self.images,
            np.concatenate(distractors),
            task=task,
            scene=self.scene.name,
            category=self.scene.category,
            query_ids=self.query_ids,
            distractor_ids=ids,
            seed=settings.seed,
            **how,
        )
        judged = verification.match_like_authors(
            task, self.vectors, self.placed, distractors, **how
        )
        authors = {f"author_{key}": value for key, value in judged._asdict().items()}
        return [replace(counted, **authors)]


def whole_rows(side: Side) -> tuple[Array, NDArray[np.bool_]]:
    """Return a row for every keypoint, and which failed.

    Rows that failed are zeros.
    """
    rows = usable_rows(side)
    at = side.described.keypoints.ids.match(side.keypoints.ids)
    whole = np.zeros((len(side.keypoints), rows.shape[1]), rows.dtype)
    whole[at] = rows
    lost = np.ones(len(whole), bool)
    lost[at] = False
    return whole, lost


def _notes(scene: Scene, k: int, descriptor: DescriptorSettings, side: Side) -> Iterable[str]:
    if len(side.described.failed):
        yield (
            f"{descriptor.name}: {len(side.described.failed)} of {len(side.keypoints)} "
            f"keypoints of {scene.name}/{k} could not be described"
        )
