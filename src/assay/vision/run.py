"""Run an experiment: every descriptor on every scene, resumable, with all failures in sight.

A scene is evaluated from images to ranks, label counts and samples of descriptors.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array
from assay.core import checks
from assay.core.checks import thread_count
from assay.core.conventions import as_settings
from assay.core.work import Once
from assay.errors import InputError, StorageError, UsageError
from assay.runs.record import RunRecord
from assay.search.engine.workers import Control, run
from assay.vision.experiment import (
    DEMO,
    DatasetSettings,
    DescriptorSettings,
    DistractorSettings,
    EvaluationSettings,
    Experiment,
    SceneCheckpoint,
    fingerprint,
)
from assay.vision.ground_truth import Truth, project_points
from assay.vision.keypoints import choose_names, choose_rows
from assay.vision.matching import evaluate_image_retrieval
from assay.vision.pairs import (
    Detections,
    KeypointSettings,
    Side,
    describe_image,
    timed,
    true_matches,
    usable_rows,
)
from assay.vision.ranks import OUTSIDE, PairRanks, choose_metric, rank_pair
from assay.vision.result import DescriptorCost, DescriptorResult, Failure, ScenePart
from assay.vision.scenes import Scene, find_scenes, make_demo_scenes
from assay.vision.verification import (
    LOST,
    NO_MATCH,
    TASKS,
    CandidateCounts,
    Candidates,
    PlacedRows,
    count_candidates,
    match_like_authors,
)

BROKEN: Final = (InputError, StorageError)


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
        picked = {}
        for name in names:
            try:
                rows = usable_rows(self.first(self.scenes[name]))
            except BROKEN:  # the scene itself says why
                continue
            label = f"distractors from {name}"
            picked[name] = rows[choose_rows(settings.seed, label, len(rows), settings.keypoints)]
        return Distractors(picked, [name for name in names if name not in picked])


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
        ranks = rank_pair(
            self.vectors,
            vectors,
            truth=truth.target,
            scene=self.scene.name,
            pair=f"1-{k}",
            category=self.scene.category,
            metric=self.metric,  # type: ignore[arg-type]
            query_ids=[str(keypoint_id) for keypoint_id in self.first.keypoints.ids],
            outside=truth.status == OUTSIDE,
            failed_queries=self.lost,
            failed_targets=lost,
            matching=self.context.evaluation.matching,
            threads=self.context.threads,
        )
        return replace(ranks, truth=_fingerprint(self.first, side, truth))

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
        for task in TASKS:
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

    def _count_pooled(self, task: str, settings: DistractorSettings) -> list[CandidateCounts]:
        rows, broken = self.context.distractors(self.scene.name, settings)
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
            query_ids=[str(keypoint_id) for keypoint_id in self.first.keypoints.ids],
            chosen=list(rows),
            seed=settings.seed,
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
    """Return described keypoints, and each query's match among them."""
    ids = side.keypoints.ids
    place = ids.match(side.described.keypoints.ids)
    place = np.where(place >= 0, place, LOST)
    match_rows = np.where(truth.target >= 0, place[truth.target], NO_MATCH)
    return Candidates(usable_rows(side), match_rows)


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


def _fingerprint(first: Side, other: Side, truth: Truth) -> str:
    """Return a digest of keypoints and true matches, not descriptors."""
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


Progress = Callable[[int, int | None], object]
Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """The result of each descriptor for each tolerance, in the order of the experiment file."""

    experiment: Experiment
    results: tuple[DescriptorResult, ...]
    n_computed: int
    n_reused: int
    notes: tuple[str, ...] = ()
    scenes: tuple[Scene, ...] = field(default=(), repr=False)

    @property
    def headline(self) -> tuple[DescriptorResult, ...]:
        """The results for the first tolerance."""
        return self.at(self.experiment.evaluation.tau[0])

    def at(self, tau: float) -> tuple[DescriptorResult, ...]:
        """Return the results for one tolerance."""
        return tuple(result for result in self.results if result.tau == tau)

    @property
    def failures(self) -> tuple[tuple[str, Failure], ...]:
        """What could not be evaluated, with the descriptor."""
        return tuple(
            (result.name, failure) for result in self.headline for failure in result.failures
        )

    @property
    def n_failed(self) -> int:
        """Pairs and single keypoints that failed, of all descriptors."""
        return len(self.failures) + sum(result.n_failed for result in self.headline)

    def records(self, *, rule: str | None = None) -> list[RunRecord]:
        """Return a record for each descriptor and tolerance.

        Scenes are resampled as a whole.
        """
        how = self.experiment.evaluation
        stated = rule or how.rule
        several = len(how.tau) > 1
        return [
            record
            for result in self.results
            for record in result.records(
                rule=stated,
                name=f"{result.name} τ={result.tau:g}" if several else result.name,
                config={"experiment": self.experiment.to_dict()},
                seeds={"intervals": how.seed},
                resampling=how.resampling,
            )
        ]


def load_scenes(dataset: DatasetSettings) -> list[Scene]:
    """Load the scenes that an experiment names, sorted by name."""
    if dataset.path == DEMO:
        available = make_demo_scenes()
    else:
        available = find_scenes(dataset.path, layout=dataset.layout, categories=dataset.categories)
    by_name = {scene.name: scene for scene in available}
    absent = [name for name in dataset.scenes if name not in by_name]
    if absent:
        raise InputError(
            f"{dataset.path} has no scene {absent[0]!r}. Scenes: {', '.join(sorted(by_name))}."
        )
    return [by_name[name] for name in sorted(dataset.scenes or by_name)]


def run_experiment(
    experiment: Experiment,
    *,
    work_folder: Any = None,
    scenes: Sequence[Scene] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ExperimentResult:
    """Evaluate every descriptor on every scene.

    Args:
        experiment: Scenes, keypoints, descriptors and what is measured.
        work_folder: Where finished scenes are stored; one is evaluated again only if its settings,
            images or versions have changed.
        scenes: Scenes to use instead of the experiment's.
        threads: Scenes to evaluate side by side; numbers do not depend on it.
        progress: Called with (scenes done, scenes in all).

    Returns:
        The result of each descriptor for each tolerance.

    Raises:
        UsageError: If there are too few scenes for what is measured.
    """
    loaded = load_scenes(experiment.dataset) if scenes is None else list(scenes)
    if not loaded:
        raise UsageError("There are no scenes.")
    how = experiment.evaluation
    if len(loaded) < 2 and (how.verification or how.retrieval or how.image_retrieval):
        raise UsageError(
            "verification, retrieval and image_retrieval need other scenes, and there is only "
            f"{loaded[0].name!r}. Leave them out, or add scenes."
        )
    checkpoint = SceneCheckpoint(work_folder)
    computed: list[bool] = []

    def evaluate(scene: Scene, context: SceneContext) -> ScenePart:
        name, digest = context.descriptor.name, fingerprint(scene, context)
        part = checkpoint.load(name, scene.name, digest)
        computed.append(part is None)
        if part is None:
            part = evaluate_scene(scene, context)
            if not part.failures:  # what failed is tried again
                checkpoint.save(part, name, digest)
        return part

    parts = evaluate_scenes(experiment, loaded, evaluate, threads=threads, progress=progress)
    return ExperimentResult(
        experiment,
        tuple(
            result for context, scene_parts in parts for result in join_scenes(scene_parts, context)
        ),
        sum(computed),
        len(computed) - sum(computed),
        tuple(note for _, scene_parts in parts for part in scene_parts for note in part.notes),
        tuple(loaded),
    )


def evaluate_scenes(
    experiment: Experiment,
    scenes: Sequence[Scene],
    evaluate: Callable[[Scene, SceneContext], Part],
    *,
    threads: int | None,
    progress: Progress | None,
) -> list[tuple[SceneContext, list[Part]]]:
    """Evaluate every descriptor on every scene; return its parts by scene.

    Scenes run side by side, the descriptors of one after the other. So each image is searched for
    keypoints once, and results do not depend on the threads. Of several errors, that of the first
    scene is raised.
    """
    n_threads = thread_count(threads)
    side_by_side = min(n_threads, len(scenes))
    detections, control = Detections(), Control.new()
    named = {scene.name: scene for scene in scenes}
    contexts = [
        SceneContext(
            named,
            descriptor,
            descriptor.keypoints or experiment.keypoints,
            experiment.evaluation,
            n_threads // side_by_side,
            detections,
            control,
        )
        for descriptor in experiment.descriptors
    ]
    parts: dict[int, list[Part]] = {}
    errors: dict[int, BaseException] = {}

    def evaluate_all(place: int, control: Control) -> None:
        if errors:
            return
        parts[place] = []
        try:
            for context in contexts:
                parts[place].append(evaluate(scenes[place], context))
                control.add(1)
        except BaseException as error:  # scenes before this one may be under way
            errors[place] = error
        detections.forget(scenes[place])

    tasks = [partial(evaluate_all, place) for place in range(len(scenes))]
    total = len(scenes) * len(contexts)
    run(tasks, threads=side_by_side, progress=progress, total=total, control=control)
    if errors:
        raise errors[min(errors)]
    columns = zip(*(parts[place] for place in range(len(scenes))), strict=True)
    return [(context, list(column)) for context, column in zip(contexts, columns, strict=True)]


def join_scenes(parts: Sequence[ScenePart], context: SceneContext) -> Iterable[DescriptorResult]:
    """Yield a descriptor's results from its scenes, by tolerance."""
    seconds: dict[str, float] = {}
    for part in parts:
        for stage in part.seconds:
            seconds[stage] = math.fsum((seconds.get(stage, 0.0), part.seconds[stage]))
    shared: dict[str, Any] = {
        "keypoints": keypoint_name(context.keypoints),
        "timings": seconds,
        "metric": next((part.metric for part in parts if part.samples), "l2"),
        "failures": tuple(failure for part in parts for failure in part.failures),
        "cost": DescriptorCost(
            max((part.row_bytes for part in parts), default=0),
            sum(part.described for part in parts),
            seconds.get("describe", 0.0),
        ),
    }
    for tau in context.evaluation.tau:
        headline = tau == context.evaluation.tau[0]
        yield DescriptorResult.of(
            context.descriptor.name,
            (pair for part in parts for pair in part.ranks[tau]),
            conventions=context.evaluation.conventions,
            tau=tau,
            settings=as_settings(
                descriptor=os.path.basename(context.descriptor.type),
                options=context.descriptor.options or None,
            ),
            pooled=tuple(counts for part in parts for counts in part.pooled) if headline else (),
            image_retrieval=_image_retrieval(parts, context) if headline else None,
            **shared,
        )


def _image_retrieval(parts: Sequence[ScenePart], context: SceneContext) -> Any:
    settings = context.evaluation.image_retrieval
    images = {part.scene: part.samples for part in parts if part.samples}
    if settings is None or len(images) < 2:
        return None
    metric = next(part.metric for part in parts if part.samples)
    return evaluate_image_retrieval(
        images, conventions=context.evaluation.conventions, metric=metric, ratio=settings.ratio
    )


def keypoint_name(settings: Any) -> str:
    """Describe a keypoint set in a few words.

    >>> from assay.vision.pairs import KeypointSettings
    >>> keypoint_name(KeypointSettings(strongest=500))
    'detect sift, border 40, strongest 500'
    """
    parts = [f"{settings.source} {settings.path or settings.detector}"]
    if settings.shared_with:
        parts.append(f"shared with {settings.shared_with}")
    parts.append(f"border {settings.border:g}")
    if settings.least_size > 0 or settings.most_size < math.inf:
        parts.append(f"size {settings.least_size:g} to {settings.most_size:g}")
    parts += [f"strongest {settings.strongest}"] if settings.strongest else []
    parts += [f"random {settings.random} by seed {settings.seed}"] if settings.random else []
    return ", ".join(parts)
