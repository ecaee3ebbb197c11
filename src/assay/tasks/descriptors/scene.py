"""One scene and one descriptor: from images to ranks, label counts and samples of descriptors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array
from assay.core import checks
from assay.core.once import Once
from assay.errors import InputError, StorageError, UsageError
from assay.search.engine.codes import Codes
from assay.search.engine.workers import Control
from assay.tasks.descriptors.author_matches import PlacedRows, match_like_authors
from assay.tasks.descriptors.experiment import (
    DescriptorSettings,
    DistractorSettings,
    EvaluationSettings,
)
from assay.tasks.descriptors.pooled_hits import (
    LOST,
    NO_MATCH,
    TASKS,
    CandidateCounts,
    Candidates,
    count_candidates,
)
from assay.tasks.descriptors.ranks import OUTSIDE, PairRanks, choose_metric, rank_pair
from assay.tasks.descriptors.result import Failure
from assay.tasks.descriptors.sampling import choose_names, choose_rows
from assay.tasks.vision.ground_truth import Truth
from assay.tasks.vision.homography import project_points
from assay.tasks.vision.keypoint_sources import Detections, KeypointSettings
from assay.tasks.vision.pair import Side, describe_image, timed, true_matches
from assay.tasks.vision.scenes import Scene

__all__ = [
    "BROKEN",
    "SceneContext",
    "ScenePart",
    "evaluate_scene",
    "usable_rows",
    "wanted_pairs",
    "whole_rows",
]


BROKEN: Final = (InputError, StorageError)


@dataclass(frozen=True, eq=False)
class ScenePart:
    """What one scene adds to the result of a descriptor; ranks for each tolerance."""

    scene: str
    ranks: Mapping[float, tuple[PairRanks, ...]]
    pooled: tuple[CandidateCounts, ...] = ()
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    samples: tuple[Array, ...] = ()
    metric: str = "l2"
    seconds: Mapping[str, float] = field(default_factory=dict)
    described: int = 0  # descriptors that were computed
    row_bytes: int = 0  # of each


class Distractors(NamedTuple):
    """Descriptors from other scenes, by scene, and the chosen scenes that have none."""

    rows: dict[str, Array]
    broken: list[str]


@dataclass(frozen=True, eq=False)
class SceneContext:
    """How every scene of a descriptor is evaluated; `scenes` are all of the experiment."""

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
        """Image k of a scene, described; `reference` is image 1, if its keypoints are projected."""
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
        """Image 1 of a scene, described once where other scenes take distractors from it."""
        if self.evaluation.verification is None and self.evaluation.retrieval is None:
            return self.side(scene, 1)
        return self._firsts.get(scene.name, lambda: self.side(scene, 1))

    def metric(self, side: Side) -> str:
        """Bits are compared by Hamming, floats as the descriptor says, or else by L2."""
        kind = side.described.kind
        return choose_metric(
            self.descriptor.metric, kind, f"The descriptor {self.descriptor.name!r}"
        )

    def distractors(self, scene: str, chosen: DistractorSettings) -> Distractors:
        """Keypoints of the first images of other scenes."""
        others = [name for name in self.scenes if name != scene]
        names = choose_names(chosen.seed, f"distractors of {scene}", others, chosen.scenes)
        picked = {}
        for name in names:
            try:
                rows = usable_rows(self.first(self.scenes[name]))
            except BROKEN:  # the scene itself says why
                continue
            label = f"distractors from {name}"
            picked[name] = rows[choose_rows(chosen.seed, label, len(rows), chosen.keypoints)]
        return Distractors(picked, [name for name in names if name not in picked])


def usable_rows(side: Side) -> Array:
    """The descriptors that did not fail."""
    vectors = side.described.vectors
    return vectors.packed if isinstance(vectors, Codes) else vectors


def evaluate_scene(scene: Scene, context: SceneContext) -> ScenePart:
    """Evaluate all pairs of a scene; what cannot be evaluated is listed, never dropped."""
    pairs = wanted_pairs(scene, context.evaluation)
    seconds: dict[str, float] = {}
    try:
        first = context.first(scene)
    except BROKEN as error:
        failures = tuple(Failure(scene.name, f"1-{k}", str(error)) for k in pairs)
        return ScenePart(scene.name, dict.fromkeys(context.evaluation.tau, ()), failures=failures)
    _add(seconds, first.seconds)
    done = _SceneEvaluation(scene, context, first, seconds)
    for k in pairs:
        if context.control.stop[0]:
            raise KeyboardInterrupt  # as in the thread that was interrupted
        done.add(k)
    return done.part()


def wanted_pairs(scene: Scene, evaluation: EvaluationSettings) -> tuple[int, ...]:
    """The images that image 1 is compared with; one that the scene lacks is refused."""
    absent = [k for k in evaluation.pairs if k not in scene.pairs]
    if absent:
        raise UsageError(
            f"Scene {scene.name!r} has no image {absent[0]}; it has 1 to {len(scene.images)}. "
            "Change pairs."
        )
    return evaluation.pairs or scene.pairs


class _SceneEvaluation:
    """The pairs of a scene that were evaluated so far."""

    def __init__(
        self, scene: Scene, context: SceneContext, first: Side, seconds: dict[str, float]
    ) -> None:
        self.scene, self.context, self.first, self.seconds = scene, context, first, seconds
        self.metric = context.metric(first)
        self.vectors, self.lost = whole_rows(first)
        self.ranks: dict[float, list[PairRanks]] = {tau: [] for tau in context.evaluation.tau}
        self.images: list[Candidates] = []
        self.placed: list[PlacedRows] = []
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
        _add(self.seconds, side.seconds)
        self.notes += _notes(self.scene, k, self.context.descriptor, side)
        self.described += len(side.described)
        with timed(self.seconds, "truth"):
            truths = self._truths(k, side)
        vectors, lost = whole_rows(side)
        with timed(self.seconds, "rank"):
            for tau, truth in truths.items():
                self.ranks[tau].append(self._rank(k, side, truth, vectors, lost))
        self.samples.append(self._sample(side, k))
        headline = truths[self.context.evaluation.tau[0]]
        self.images.append(_candidates(headline, side))
        projected = project_points(self.first.keypoints.xy, self.scene.homographies[k])
        self.placed.append(PlacedRows(usable_rows(side), side.described.keypoints.xy, projected))

    def _truths(self, k: int, side: Side) -> dict[float, Truth]:
        how = self.context.evaluation
        return true_matches(
            self.scene,
            k,
            left=self.first,
            right=side,
            taus=how.tau,
            one_to_one=how.one_to_one,
            symmetric=how.symmetric,
            by_id=self.context.keypoints.source == "project",
        )

    def _rank(
        self, k: int, side: Side, truth: Truth, vectors: Array, lost: NDArray[np.bool_]
    ) -> PairRanks:
        found = rank_pair(
            self.vectors,
            vectors,
            truth=truth.target,
            scene=self.scene.name,
            pair=f"1-{k}",
            category=self.scene.category,
            metric=self.metric,  # type: ignore[arg-type]
            query_ids=[str(one) for one in self.first.keypoints.ids],
            outside=truth.status == OUTSIDE,
            failed_queries=self.lost,
            failed_targets=lost,
            matching=self.context.evaluation.matching,
            threads=self.context.threads,
        )
        return replace(found, truth=_fingerprint(self.first, side, truth))

    def _sample(self, side: Side, k: int) -> Array:
        """Descriptors for image retrieval; none where it is not evaluated."""
        chosen = self.context.evaluation.image_retrieval
        rows = usable_rows(side)
        if chosen is None:
            return rows[:0]
        name = f"image {self.scene.name}/{k}"
        return rows[choose_rows(chosen.seed, name, len(rows), chosen.keypoints)]

    def part(self) -> ScenePart:
        """Everything together."""
        pooled = []
        for task in TASKS:
            chosen: DistractorSettings | None = getattr(self.context.evaluation, task)
            if chosen is not None and self.images:
                with timed(self.seconds, task):
                    pooled += self._count_pooled(task, chosen)
        return ScenePart(
            self.scene.name,
            {tau: tuple(found) for tau, found in self.ranks.items()},
            tuple(pooled),
            tuple(self.failures),
            tuple(self.notes),
            tuple(self.samples),
            self.metric,
            self.seconds,
            self.described,
            self.vectors.itemsize * self.vectors.shape[1],
        )

    def _count_pooled(self, task: str, chosen: DistractorSettings) -> list[CandidateCounts]:
        rows, broken = self.context.distractors(self.scene.name, chosen)
        if broken:
            what = "fewer distractors" if rows else "not computed, as there are no distractors"
            self.notes.append(
                f"{self.context.descriptor.name}: {task} of {self.scene.name}: {what}: the first "
                f"image of {checks.name_few(broken)} could not be used"
            )
        if not rows:
            return []
        counted = count_candidates(
            self.vectors,
            self.images,
            np.concatenate(list(rows.values())),
            task=task,
            scene=self.scene.name,
            category=self.scene.category,
            metric=self.metric,
            query_ids=[str(one) for one in self.first.keypoints.ids],
            chosen=list(rows),
            seed=chosen.seed,
            failed=self.lost,
        )
        judged = match_like_authors(
            task,
            self.vectors,
            self.placed,
            list(rows.values()),
            metric=self.metric,
            failed=self.lost,
        )
        return [
            replace(counted, **{f"author_{key}": value for key, value in judged._asdict().items()})
        ]


def _candidates(truth: Truth, side: Side) -> Candidates:
    """Described keypoints of an image, and which of them is the match of each query."""
    ids = side.keypoints.ids
    place = ids.match(side.described.keypoints.ids)
    place = np.where(place >= 0, place, LOST)
    found = np.where(truth.target >= 0, place[truth.target], NO_MATCH)
    return Candidates(usable_rows(side), found)


def whole_rows(side: Side) -> tuple[Array, NDArray[np.bool_]]:
    """A row for every keypoint, zeros for those that failed, and which these are."""
    rows = usable_rows(side)
    at = side.described.keypoints.ids.match(side.keypoints.ids)
    whole = np.zeros((len(side.keypoints), rows.shape[1]), rows.dtype)
    whole[at] = rows
    lost = np.ones(len(whole), bool)
    lost[at] = False
    return whole, lost


def _fingerprint(first: Side, other: Side, truth: Truth) -> str:
    """A digest of both sets of keypoints and the true matches; never of the descriptors."""
    digest = hashlib.sha256(np.ascontiguousarray(first.keypoints.xy).tobytes())
    for part in (other.keypoints.xy, truth.target):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:16]


def _notes(scene: Scene, k: int, descriptor: DescriptorSettings, side: Side) -> Iterable[str]:
    if len(side.described.failed):
        yield (
            f"{descriptor.name}: {len(side.described.failed)} of {len(side.keypoints)} keypoints "
            f"of {scene.name}/{k} could not be described"
        )


def _add(seconds: dict[str, float], more: Mapping[str, float]) -> None:
    for stage, spent in more.items():
        seconds[stage] = seconds.get(stage, 0.0) + spent
