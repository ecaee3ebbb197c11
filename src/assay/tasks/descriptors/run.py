"""Run an experiment: every descriptor on every scene, resumable, with all failures in sight."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from assay.core.settings import as_settings
from assay.errors import InputError, UsageError
from assay.runs.record import RunRecord
from assay.search.engine.workers import Control, run, thread_count
from assay.tasks.descriptors.checkpoint import SceneCheckpoint, fingerprint
from assay.tasks.descriptors.experiment import DEMO, DatasetSettings, Experiment
from assay.tasks.descriptors.image_retrieval import evaluate_image_retrieval
from assay.tasks.descriptors.result import DescriptorCost, DescriptorResult, Failure
from assay.tasks.descriptors.scene import SceneContext, ScenePart, evaluate_scene
from assay.tasks.vision.demo_scenes import make_demo_scenes
from assay.tasks.vision.keypoint_sources import Detections
from assay.tasks.vision.scenes import Scene, find_scenes

__all__ = ["ExperimentResult", "load_scenes", "run_experiment"]

Progress = Callable[[int, int | None], object]


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
        """The results for one tolerance."""
        return tuple(one for one in self.results if one.tau == tau)

    @property
    def failures(self) -> tuple[tuple[str, Failure], ...]:
        """What could not be evaluated, with the descriptor."""
        return tuple((one.name, failure) for one in self.headline for failure in one.failures)

    @property
    def n_failed(self) -> int:
        """Pairs and single keypoints that failed, of all descriptors."""
        return len(self.failures) + sum(one.n_failed for one in self.headline)

    def records(self, *, rule: str | None = None) -> list[RunRecord]:
        """A record for each descriptor and tolerance; scenes are resampled as a whole."""
        how = self.experiment.evaluation
        chosen = rule or how.rule
        several = len(how.tau) > 1
        return [
            record
            for one in self.results
            for record in one.records(
                rule=chosen,
                name=f"{one.name} τ={one.tau:g}" if several else one.name,
                config={"experiment": self.experiment.to_dict()},
                seeds={"intervals": how.seed},
                resampling=how.resampling,
            )
        ]


def load_scenes(dataset: DatasetSettings) -> list[Scene]:
    """The scenes that an experiment names, in order of their names."""
    if dataset.path == DEMO:
        found = make_demo_scenes()
    else:
        found = find_scenes(dataset.path, layout=dataset.layout, categories=dataset.categories)
    known = {scene.name: scene for scene in found}
    absent = [name for name in dataset.scenes if name not in known]
    if absent:
        raise InputError(
            f"{dataset.path} has no scene {absent[0]!r}. Scenes: {', '.join(sorted(known))}."
        )
    return [known[name] for name in sorted(dataset.scenes or known)]


def run_experiment(
    experiment: Experiment,
    *,
    work_folder: Any = None,
    scenes: Sequence[Scene] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ExperimentResult:
    """Evaluate every descriptor on every scene.

    Scenes that are done are kept in `work_folder` and not done again, unless their settings,
    images or versions have changed. `threads` evaluate scenes side by side, with the same numbers
    whatever their number. `progress` is called with (scenes done, scenes in all).
    """
    found = load_scenes(experiment.dataset) if scenes is None else list(scenes)
    if not found:
        raise UsageError("There are no scenes.")
    how = experiment.evaluation
    if len(found) < 2 and (how.verification or how.retrieval or how.image_retrieval):
        raise UsageError(
            "verification, retrieval and image_retrieval need other scenes, and there is only "
            f"{found[0].name!r}. Leave them out, or add scenes."
        )
    work = _Run(experiment, found, SceneCheckpoint(work_folder), threads)
    parts = work.evaluate(progress)
    return ExperimentResult(
        experiment,
        tuple(
            result
            for own, context in zip(parts, work.contexts, strict=True)
            for result in join_scenes(own, context)
        ),
        sum(work.computed.values()),
        len(work.computed) - sum(work.computed.values()),
        tuple(note for own in parts for part in own for note in part.notes),
        tuple(found),
    )


class _Run:
    """An experiment while it runs: scenes side by side, all descriptors of one after the other.

    So each image is searched for keypoints once, and results do not depend on the threads.
    """

    def __init__(
        self,
        experiment: Experiment,
        scenes: Sequence[Scene],
        checkpoint: SceneCheckpoint,
        threads: int | None,
    ) -> None:
        self.scenes, self.checkpoint = scenes, checkpoint
        n_threads = thread_count(threads)
        self.side_by_side = min(n_threads, len(scenes))
        self.detections, self.control = Detections(), Control.new()
        named = {scene.name: scene for scene in scenes}
        self.contexts = [
            SceneContext(
                named,
                one,
                one.keypoints or experiment.keypoints,
                experiment.evaluation,
                n_threads // self.side_by_side,
                self.detections,
                self.control,
            )
            for one in experiment.descriptors
        ]
        self.computed: dict[tuple[str, str], bool] = {}
        self.parts: dict[tuple[str, str], ScenePart] = {}
        self.errors: dict[int, BaseException] = {}

    def evaluate(self, progress: Progress | None) -> list[list[ScenePart]]:
        """The parts of each descriptor, in the order of the scenes."""
        tasks = [partial(self._scene, place) for place in range(len(self.scenes))]
        total = len(tasks) * len(self.contexts)
        run(tasks, threads=self.side_by_side, progress=progress, total=total, control=self.control)
        if self.errors:
            raise self.errors[min(self.errors)]
        return [
            [self.parts[context.descriptor.name, scene.name] for scene in self.scenes]
            for context in self.contexts
        ]

    def _scene(self, place: int, control: Control) -> None:
        """All descriptors of a scene. Of several errors, that of the first scene will be raised."""
        scene = self.scenes[place]
        if self.errors:
            return
        try:
            for context in self.contexts:
                self._part(scene, context)
                control.add(1)
        except BaseException as error:  # scenes before this one may be under way
            self.errors[place] = error
        self.detections.forget(scene)

    def _part(self, scene: Scene, context: SceneContext) -> None:
        name = context.descriptor.name
        print_ = fingerprint(scene, context)
        part = self.checkpoint.load(name, scene.name, print_)
        self.computed[name, scene.name] = part is None
        if part is None:
            part = evaluate_scene(scene, context)
            if not part.failures:  # what failed is tried again
                self.checkpoint.save(part, name, print_)
        self.parts[name, scene.name] = part


def join_scenes(parts: Sequence[ScenePart], context: SceneContext) -> Iterable[DescriptorResult]:
    """The results of a descriptor from its scenes, one for each tolerance."""
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
            pooled=tuple(one for part in parts for one in part.pooled) if headline else (),
            image_retrieval=_image_retrieval(parts, context) if headline else None,
            **shared,
        )


def _image_retrieval(parts: Sequence[ScenePart], context: SceneContext) -> Any:
    chosen = context.evaluation.image_retrieval
    images = {part.scene: part.samples for part in parts if part.samples}
    if chosen is None or len(images) < 2:
        return None
    metric = next(part.metric for part in parts if part.samples)
    return evaluate_image_retrieval(
        images, conventions=context.evaluation.conventions, metric=metric, ratio=chosen.ratio
    )


def keypoint_name(settings: Any) -> str:
    """A keypoint set in a few words.

    >>> from assay.tasks.vision.keypoint_sources import KeypointSettings
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
