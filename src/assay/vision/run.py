"""Run an experiment: every descriptor on every scene, resumable, with all failures in sight.

Finished scenes are stored in a folder, one part for each descriptor and scene. A part is used again
only if its fingerprint fits: settings, images, homographies, the code of the user's own function,
and versions. A damaged part counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from assay import __version__
from assay.core.checks import thread_count
from assay.core.conventions import as_settings
from assay.core.specs import named_callable
from assay.errors import InputError, StorageError, UsageError
from assay.io.checkpoint import Checkpoint, file_label
from assay.io.fingerprints import digest_of_file
from assay.runs.record import RunRecord
from assay.search.engine.workers import Control, run
from assay.tables.table import Page, Shown, Words, table_of
from assay.vision.keypoints import fill_path
from assay.vision.matching import evaluate_image_retrieval
from assay.vision.opencv_features import opencv
from assay.vision.pairs import SceneContext, add_seconds, evaluate_scene
from assay.vision.ranks import PairRanks
from assay.vision.result import DescriptorCost, DescriptorResult, Failure, ScenePart
from assay.vision.scenes import Detections, Scene, find_scenes, make_demo_scenes
from assay.vision.settings import DEMO, DatasetSettings, Experiment, is_file, network_file
from assay.vision.verification import CandidateCounts

Progress = Callable[[int, int | None], object]
Part = TypeVar("Part")


@dataclass(frozen=True, eq=False, repr=False)
class ExperimentResult(Shown):
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
        """Failures, with their descriptor."""
        return tuple(
            (result.name, failure) for result in self.headline for failure in result.failures
        )

    @property
    def n_failed(self) -> int:
        """Pairs and single keypoints that failed, of all descriptors."""
        return len(self.failures) + sum(result.n_failed for result in self.headline)

    def page(self) -> Page:
        """Return a row for each descriptor and tolerance, then notes."""
        rows = [
            (each.name, f"{each.tau:g} px", len(each.scene_names), each.n_queries, mean["AP"])
            for each in self.results
            for mean in [each.mean(empty="skip")]
        ]
        table = table_of(("descriptor", "tolerance", "scenes", "queries", "mAP"), rows)
        return [table, *(Words(note, "remark") for note in self.notes)]

    def records(self, *, rule: str | None = None) -> list[RunRecord]:
        """Return a record for each descriptor and tolerance.

        Scenes are resampled as a whole.
        """
        how = self.experiment.evaluation
        several = len(how.tau) > 1
        return [
            record
            for result in self.results
            for record in result.records(
                rule=rule or how.rule,
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
    scenes = [by_name[name] for name in sorted(dataset.scenes or by_name)]
    return scenes if dataset.resize is None else [scene.resize(dataset.resize) for scene in scenes]


def size_of(scenes: Iterable[Scene]) -> str:
    """Return the size of resized images for a signature; else empty."""
    sides = sorted({scene.side for scene in scenes if scene.side is not None})
    return f" in images of {','.join(map(str, sides))} pixels" if sides else ""


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

    Example:
        result = run_experiment(read_experiment("experiment.yaml"), work_folder="parts")
        result.headline[0].mean()["AP"]
    """
    loaded = load_scenes(experiment.dataset) if scenes is None else list(scenes)
    if not loaded:
        raise UsageError("No scenes. Check the folder.")
    how = experiment.evaluation
    if len(loaded) < 2 and (how.verification or how.retrieval or how.image_retrieval):
        raise UsageError(
            "verification, retrieval and image_retrieval need other scenes than "
            f"{loaded[0].name!r}. Omit them, or add scenes."
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
        add_seconds(seconds, part.seconds)
    shared: dict[str, Any] = {
        "keypoints": keypoint_name(context.keypoints) + size_of(context.scenes.values()),
        "timings": seconds,
        "metric": next((part.metric for part in parts if part.samples), "l2"),
        "failures": tuple(failure for part in parts for failure in part.failures),
        "cost": DescriptorCost(
            max((part.row_bytes for part in parts), default=0),
            sum(part.described for part in parts),
            seconds.get("describe", 0.0),
        ),
    }
    how, retrieved = context.evaluation, None
    images = {part.scene: part.samples for part in parts if part.samples}
    if how.image_retrieval is not None and len(images) > 1:
        retrieved = evaluate_image_retrieval(
            images,
            conventions=how.conventions,
            metric=shared["metric"],
            ratio=how.image_retrieval.ratio,
        )
    for tau in how.tau:
        headline = tau == how.tau[0]
        yield DescriptorResult.of(
            context.descriptor.name,
            (pair for part in parts for pair in part.ranks[tau]),
            conventions=how.conventions,
            tau=tau,
            settings=as_settings(
                descriptor=os.path.basename(context.descriptor.type),
                options=context.descriptor.options or None,
            ),
            pooled=tuple(counts for part in parts for counts in part.pooled) if headline else (),
            image_retrieval=retrieved if headline else None,
            **shared,
        )


def keypoint_name(settings: Any) -> str:
    """Describe a keypoint set in a few words.

    >>> from assay.vision.settings import KeypointSettings
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


_LAYOUT: Final = 4  # of these files; a new number makes all old ones useless


class SceneCheckpoint:
    """The folder; without one nothing is stored and nothing found."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)

    def path(self, descriptor: str, scene: str) -> Path | None:
        """Return the file of a scene, without names used as paths."""
        return Checkpoint(self.folder).path(_name_of(descriptor, scene))

    def load(self, descriptor: str, scene: str, fingerprint: str) -> ScenePart | None:
        """Load the part with this fingerprint, if it exists and is sound."""
        part = Checkpoint(self.folder, fingerprint).load(_name_of(descriptor, scene))
        return None if part is None else _unpack(part.notes["part"], part.arrays)

    def save(self, part: ScenePart, descriptor: str, fingerprint: str) -> None:
        """Write a part atomically."""
        arrays: dict[str, Any] = {}
        name, notes = _name_of(descriptor, part.scene), {"part": _pack(part, arrays)}
        Checkpoint(self.folder, fingerprint).save(name, arrays, notes)


def _name_of(descriptor: str, scene: str) -> str:
    return f"{file_label(descriptor)}--{file_label(scene)}.part"


_KINDS: Final = {kind.__name__: kind for kind in (ScenePart, PairRanks, CandidateCounts, Failure)}


def _pack(value: Any, arrays: dict[str, Any]) -> Any:
    """Return what JSON can hold; arrays go to `arrays`, but empty ones are only described."""
    if isinstance(value, np.ndarray):
        if not value.size:
            return {"empty": value.shape, "dtype": value.dtype.str}
        key = f"array{len(arrays)}"
        arrays[key] = value
        return {"array": key}
    if type(value).__name__ in _KINDS:
        contents = [_pack(getattr(value, item.name), arrays) for item in fields(value)]
        return {"kind": type(value).__name__, "contents": contents}
    if isinstance(value, Mapping):
        return {"items": [[key, _pack(item, arrays)] for key, item in value.items()]}
    return [_pack(item, arrays) for item in value] if isinstance(value, tuple) else value


def _unpack(plain: Any, arrays: Mapping[str, Any]) -> Any:
    if isinstance(plain, list):
        return tuple(_unpack(item, arrays) for item in plain)
    if not isinstance(plain, dict):
        return plain
    if "array" in plain:
        return arrays[plain["array"]]
    if "empty" in plain:
        return np.empty(plain["empty"], plain["dtype"])
    if "items" in plain:
        return {key: _unpack(item, arrays) for key, item in plain["items"]}
    return _KINDS[plain["kind"]](*(_unpack(item, arrays) for item in plain["contents"]))


def fingerprint(scene: Scene, context: SceneContext) -> str:
    """Return a digest of all that the part of a scene depends on."""
    digest = hashlib.sha256()
    evaluation = asdict(context.evaluation)
    for key in ("ties", "rule", "level", "resamples", "seed"):
        del evaluation[key]  # these only read what is stored
    settings = {
        "layout": _LAYOUT,
        "assay": __version__,
        "opencv": opencv().__version__,
        "scene": scene.name,
        "category": scene.category,
        "evaluation": evaluation,
        "descriptor": asdict(context.descriptor),
        "keypoints": asdict(context.keypoints),
        **({} if scene.side is None else {"side": scene.side}),
    }
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    # Distractors come from all scenes.
    pooled = context.evaluation.verification or context.evaluation.retrieval
    for name in sorted(context.scenes) if pooled else [scene.name]:
        needed = context.scenes[name]
        print_ = context.prints.get(name, partial(_scene_print, needed))
        digest.update(f"{name}\0{print_}\0".encode())
        for spec in (context.keypoints.path, context.descriptor.type):
            if spec is not None and spec.lower().endswith((".npy", ".npz", ".csv")):
                for k in range(1, len(needed.images) + 1):
                    file = fill_path(spec, {"scene": name, "image": k})
                    digest.update(f"{file}\0{_file_print(file)}\0".encode())
    code = _code_file(context.descriptor.type)
    digest.update(f"{code}\0{_file_print(code)}\0".encode() if code else b"")
    return digest.hexdigest()


def _scene_print(scene: Scene) -> str:
    digest = hashlib.sha256()
    for image in scene.images:
        digest.update(
            _file_print(image).encode()
            if isinstance(image, Path)
            else np.ascontiguousarray(image).tobytes()
        )
    for k, matrix in scene.homographies.items():
        digest.update(f"{k}".encode() + np.ascontiguousarray(matrix).tobytes())
    return digest.hexdigest()


def _code_file(spec: str) -> str | None:
    """Return the file of a network or of the user's function."""
    module, colon, _ = spec.partition(":")
    if not colon or is_file(spec):
        return None
    if network_file(spec) is not None:
        return network_file(spec)
    named_callable(spec, "module:function")
    return getattr(sys.modules[module], "__file__", None)


def _file_print(file: str | Path) -> str:
    """Return a digest of a file; "absent" if it does not exist."""
    try:
        return digest_of_file(file)
    except StorageError:
        return "absent"
