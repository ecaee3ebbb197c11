"""Patches whose number is their identity, as HPatches has them: row i of every file is one point.

A scene holds descriptors of reference patches (`ref`) and of the same patches in other images
(`e1` … `e5` easy, `h1` … `h5` hard, `t1` … `t5` tough), as CSV or .npy files of equal length.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core import checks
from assay.core.settings import as_settings
from assay.errors import (
    FormatError,
    InputError,
    MismatchError,
    ShapeError,
    UsageError,
)
from assay.io.arrays import load_npy
from assay.io.streams import list_folder, read_lines
from assay.runs.record import RunRecord
from assay.scoring.scores import Scores
from assay.search.engine.codes import Codes
from assay.stats import Interval, interval
from assay.stats.jackknife import jackknife_interval
from assay.stats.separation import false_positive_rate
from assay.tasks.descriptors.compare import CategorySummary, summarize
from assay.tasks.descriptors.distances import paired_distances
from assay.tasks.descriptors.hpatches import (
    DIFFICULTIES,
    REFERENCE,
    PatchNumber,
    ProtocolResult,
    evaluate_protocol,
    matching_chance,
    scene_sizes,
)
from assay.tasks.descriptors.patch_tasks import read_tasks, split_scenes
from assay.tasks.descriptors.ranks import PairRanks, rank_pair
from assay.tasks.descriptors.result import DescriptorCost, DescriptorResult
from assay.tasks.descriptors.sampling import draw
from assay.tasks.descriptors.tables import result_data
from assay.tasks.vision.demo_scenes import make_demo_patches
from assay.tasks.vision.describe import describe
from assay.tasks.vision.images import Image, read_image
from assay.tasks.vision.keypoints import Keypoints
from assay.tasks.vision.patch_networks import describe_patches, load_network, network_file
from assay.tasks.vision.scenes import category_of

__all__ = [
    "PatchResult",
    "PatchScene",
    "demo_patch_scenes",
    "describe_patch_scenes",
    "evaluate_patches",
    "read_patch_scenes",
]


_TARGET: Final = re.compile(r"[eht]\d{1,2}")
_RECALL: Final = 0.95
_ALL: Final = "all"


@dataclass(frozen=True, eq=False)
class PatchScene:
    """The descriptors of a scene's patches by file: `ref`, and `e1`, `h1`, `t1`, …"""

    name: str
    category: str
    vectors: Mapping[str, NDArray[Any]]
    seconds: float = 0.0  # of describing them, if that was done here

    def __post_init__(self) -> None:
        """Refuse a scene without a reference, or files of different lengths."""
        if REFERENCE not in self.vectors or len(self.vectors) < 2:
            found = ", ".join(self.vectors) or "none"
            raise FormatError(
                f"Scene {self.name!r} needs ref and at least one of e1, h1, t1, …; found {found}."
            )
        sizes = {key: len(rows) for key, rows in self.vectors.items()}
        if len(set(sizes.values())) > 1:
            raise MismatchError(
                f"Scene {self.name!r}: patch i of each file is the same point, so all files have "
                f"one length; found {sizes}."
            )


@dataclass(frozen=True, eq=False)
class PatchResult:
    """Patch retrieval and matching as a `DescriptorResult`, FPR at 95 % recall, and the benchmark.

    `error_rates` are over all scenes: right pairs are the same patch in two images, wrong pairs
    different patches, as many, drawn by `seed` from the scene itself (`same`) or others (`other`).
    `protocol` are HPatches' own tasks, where a split was asked for.
    """

    result: DescriptorResult
    error_rates: dict[str, Interval]
    seed: int
    cost: DescriptorCost
    protocol: ProtocolResult | None = None
    resampling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The descriptor."""
        return self.result.name

    @property
    def patch_map(self) -> float:
        """Mean AP over patches: rank of the same patch among all patches of the other image."""
        return float(self.result.mean(empty="skip")["AP"])

    @property
    def fpr95(self) -> dict[str, float]:
        """Share of wrong pairs as near as the 95 % nearest right ones, by kind of wrong pair."""
        return {kind: one.estimate for kind, one in self.error_rates.items()}

    @cached_property
    def summaries(self) -> list[CategorySummary]:
        """Means of all scenes and of each category, with intervals over scenes."""
        return summarize(self.result, **self.resampling)

    @property
    def by_difficulty(self) -> dict[str, dict[str, float]]:
        """Patch mAP and matching mAP of easy, hard and tough patches, as far as there are any."""
        return {
            one.task: {part: each.estimate for part, each in one.found.items() if part != _ALL}
            for one in self.numbers[:2]
        }

    @cached_property
    def numbers(self) -> list[PatchNumber]:
        """Patch mAP, matching mAP and FPR@95, by difficulty and of all patches, with intervals."""
        keys = dict.fromkeys(_difficulty(pair.pair) for pair in self.result.pairs)
        parts = {
            key: tuple(one for one in self.result.pairs if key in (_ALL, _difficulty(one.pair)))
            for key in (*(each for each in DIFFICULTIES.values() if each in keys), _ALL)
        }
        results = {key: replace(self.result, pairs=pairs) for key, pairs in parts.items()}
        sizes = [pair.n_docs for pair in self.result.pairs]
        patches = {key: self._mean(one.scores) for key, one in results.items()}
        matching = {
            key: self._mean(one.matching)
            for key, one in results.items()
            if one.matching is not None
        }
        chance = self.result.chance()["AP"]
        return [
            PatchNumber("patch mAP", "", "AP", patches, chance, sum(sizes), "patches"),
            PatchNumber(
                "matching mAP", "", "AP", matching, matching_chance(sizes), len(sizes), "patches"
            ),
            *self._rates(list(parts)),
        ]

    def _mean(self, scores: Scores) -> Interval:
        return interval(
            scores["AP"], clusters=scores.groups["scene"], bounds=(0.0, 1.0), **self.resampling
        )

    def _rates(self, parts: Sequence[str]) -> Iterator[PatchNumber]:
        """FPR@95 against both kinds of wrong pairs."""
        n = sum(pair.n_queries for pair in self.result.pairs)
        for where, place in (("same", "the same scene"), ("other", "other scenes")):
            if where in self.error_rates:
                keys = {part: where if part == _ALL else f"{where}/{part}" for part in parts}
                found = {part: self.error_rates[key] for part, key in keys.items()}
                about = f"wrong pairs of {place}"
                yield PatchNumber("FPR@95", about, "FPR@95", found, _RECALL, n, "patches")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "descriptor": self.name,
            "numbers": [one.to_dict() for one in self.numbers],
            "fpr95": self.fpr95,
            "by_difficulty": self.by_difficulty,
            "seed": self.seed,
            "bytes_per_descriptor": self.cost.row_bytes,
            "protocol": None if self.protocol is None else self.protocol.to_dict(),
            "result": result_data(
                self.result, self.summaries, rule="paper", resampling=self.resampling
            ),
        }

    def records(self) -> list[RunRecord]:
        """The record of the descriptor; its scenes are resampled as a whole."""
        protocol = [] if self.protocol is None else self.protocol.aggregates()
        numbers = [each for one in self.numbers for each in one.aggregates()]
        details = {"fpr95": self.fpr95, "by_difficulty": self.by_difficulty}
        return [
            record.but(
                details=details if self.protocol is None else {**details, **self._curves()},
                aggregates=(*record.aggregates, *numbers, *protocol),
            )
            for record in self.result.records(
                seeds={"wrong pairs": self.seed}, resampling=self.resampling
            )
        ]

    def _curves(self) -> dict[str, Any]:
        assert self.protocol is not None
        return {"curves": [one.to_dict() for one in self.protocol.curves]}


def _difficulty(pair: str) -> str:
    """Easy, hard or tough, by the name of a pair such as `ref-h2`."""
    return DIFFICULTIES[pair.removeprefix(f"{REFERENCE}-")[0]]


def read_patch_scenes(folder: str | os.PathLike[str]) -> list[PatchScene]:
    """Scenes of a folder, one a sub-folder, with files such as ref.csv, e1.csv or e1.npy."""
    return _read_scenes(folder, (".csv", ".npy"), _read)


def _read_scenes(
    folder: str | os.PathLike[str], endings: tuple[str, ...], read: Callable[[Path], NDArray[Any]]
) -> list[PatchScene]:
    """A scene of each sub-folder that has a file ref with one of the endings."""
    found = [_scene(path, endings, read) for path in list_folder(folder) if path.is_dir()]
    scenes = [scene for scene in found if scene is not None]
    if not scenes:
        names = " or ".join(f"{REFERENCE}{ending}" for ending in endings)
        raise FormatError(f"There are no scenes of patches: no folder has {names}.")
    return scenes


def _scene(
    folder: Path, endings: tuple[str, ...], read: Callable[[Path], NDArray[Any]]
) -> PatchScene | None:
    files = {
        path.stem: path
        for path in sorted(folder.iterdir())
        if path.suffix in endings and (path.stem == REFERENCE or _TARGET.fullmatch(path.stem))
    }
    if REFERENCE not in files:
        return None
    vectors = {name: read(path) for name, path in files.items()}
    return PatchScene(folder.name, category_of(folder.name), vectors)


def _read(path: Path) -> NDArray[Any]:
    if path.suffix == ".npy":
        return np.asarray(load_npy(path))
    rows = [line.replace(";", ",").split(",") for line in read_lines(path) if line.strip()]
    try:
        return np.array(rows, np.float32)
    except ValueError as error:
        raise FormatError(f"{path}: each line must hold as many numbers: {error}.") from None


def evaluate_patches(
    scenes: Sequence[PatchScene],
    *,
    name: str = "patches",
    metric: str = "l2",
    seed: int = 0,
    split: str | None = None,
    tasks: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    **resampling: Any,
) -> PatchResult:
    """Rank the same patch among all patches of each other image, and verify pairs of patches.

    With a `split` (a, b, c, view, illum, full) its test sequences are taken and HPatches' own tasks
    evaluated, by the files of the folder `tasks` or by draws. `resampling` sets the level, the
    number of resamples and the seed of intervals, which resample whole scenes.

    >>> rows = np.eye(3, dtype=np.float32)
    >>> found = evaluate_patches([PatchScene("v_a", "viewpoint", {"ref": rows, "e1": rows})])
    >>> found.patch_map, found.fpr95["same"]
    (1.0, 0.0)
    """
    chosen = _choose_split(scenes, split, tasks)
    pairs = [pair for scene in chosen for pair in _pairs(scene, metric, threads)]
    result = DescriptorResult.of(name, pairs, keypoints="patches", metric=metric, tau=0.0)
    protocol = None
    if split is not None:
        vectors = {scene.name: scene.vectors for scene in chosen}
        asked = read_tasks(split, scene_sizes(vectors), tasks, seed=seed)
        protocol = evaluate_protocol(vectors, asked, name=name, metric=metric, **resampling)
        settings = as_settings(split=split, tasks=asked.source)
        result = replace(result, settings=settings)
    level = resampling.get("level", 0.95)
    rates = _verify(chosen, metric, seed, level)
    return PatchResult(result, rates, seed, _cost_of(chosen), protocol, resampling)


def _choose_split(
    scenes: Sequence[PatchScene], split: str | None, tasks: str | os.PathLike[str] | None
) -> list[PatchScene]:
    known = {scene.name: scene for scene in scenes}
    if split is None and tasks is not None:
        raise UsageError("Task files belong to a split, such as a. Name it.")
    names = list(known) if split is None else split_scenes(split, list(known), tasks)
    if not names:
        place = f" in split {split!r}" if split else ""
        raise UsageError(f"There are no scenes of patches{place}.")
    return [known[name] for name in names]


def _cost_of(scenes: Sequence[PatchScene]) -> DescriptorCost:
    """Of all files: one row each, described or read."""
    rows = scenes[0].vectors[REFERENCE]
    size = 1 if rows.dtype == np.uint8 else 4  # floats count as float32, whatever the file has
    n = sum(len(one) for scene in scenes for one in scene.vectors.values())
    seconds = math.fsum(scene.seconds for scene in scenes)
    return DescriptorCost(size * rows.shape[1], n, seconds)


def _pairs(scene: PatchScene, metric: Any, threads: int | None) -> list[PairRanks]:
    reference = scene.vectors[REFERENCE]
    return [
        rank_pair(
            reference,
            vectors,
            truth=np.arange(len(reference)),
            scene=scene.name,
            pair=f"{REFERENCE}-{key}",
            category=scene.category,
            metric=metric,
            matching=True,
            threads=threads,
        )
        for key, vectors in scene.vectors.items()
        if key != REFERENCE
    ]


class _Judged(NamedTuple):
    """Distances of right or wrong pairs of one file, by scene."""

    scene: int
    distance: Floats


def _verify(
    scenes: Sequence[PatchScene], metric: str, seed: int, level: float
) -> dict[str, Interval]:
    """FPR@95 against wrong pairs of the same scene and of other scenes, by difficulty too."""
    sets = [rows for scene in scenes for rows in scene.vectors.values()]
    checks.check_lengths(**{f"columns of set {i}": s.shape[1] for i, s in enumerate(sets)})
    right: dict[str, list[_Judged]] = {}
    wrong: dict[tuple[str, str], list[_Judged]] = {}
    for number, scene in enumerate(scenes):
        for key, rows in scene.vectors.items():
            if key == REFERENCE:
                continue
            ref = scene.vectors[REFERENCE]
            chance = draw(seed, f"{scene.name}/{key}", len(ref))
            others = {"same": rows[_another(chance, len(ref))] if len(ref) > 1 else rows[:0]}
            if len(scenes) > 1:
                others["other"] = _elsewhere(scenes, number, chance)
            near = _Judged(number, paired_distances(ref, rows, metric))
            far = {
                kind: _Judged(number, paired_distances(ref[: len(picked)], picked, metric))
                for kind, picked in others.items()
            }
            for group in ("", key[0]):
                right.setdefault(group, []).append(near)
                for kind, judged in far.items():
                    wrong.setdefault((kind, group), []).append(judged)
    return {
        kind + (f"/{DIFFICULTIES[group]}" if group else ""): _error_rate(
            right[group], parts, len(scenes), level
        )
        for (kind, group), parts in wrong.items()
    }


def _error_rate(
    right: Sequence[_Judged], wrong: Sequence[_Judged], n_scenes: int, level: float
) -> Interval:
    """FPR@95, and an interval from what it is without each scene."""

    def rate(without: int) -> float:
        near, far = (
            np.concatenate([one.distance for one in parts if one.scene != without] or [np.empty(0)])
            for parts in (right, wrong)
        )
        return false_positive_rate(-near, -far, _RECALL) if len(near) and len(far) else math.nan

    return jackknife_interval(rate(-1), np.array(list(map(rate, range(n_scenes)))), level=level)


def _another(chance: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """For each row a row that is not itself, all equally likely."""
    shift = (chance % np.uint64(n - 1)).astype(np.int64) + 1
    return np.asarray((np.arange(n) + shift) % n, np.int64)


def _elsewhere(
    scenes: Sequence[PatchScene], number: int, chance: NDArray[np.uint64]
) -> NDArray[Any]:
    """For each row a reference patch of another scene, all equally likely."""
    pool = np.concatenate([s.vectors[REFERENCE] for i, s in enumerate(scenes) if i != number])
    return np.asarray(pool[(chance % np.uint64(len(pool))).astype(np.int64)])


# SIFT's grid is six keypoint sizes wide, so this size makes it cover the patch.
_GRID: Final = 6.0


def describe_patch_scenes(
    folder: str | os.PathLike[str],
    descriptor: str = "SIFT",
    *,
    options: Mapping[str, Any] | None = None,
) -> list[PatchScene]:
    """Read ref.png, e1.png, … of every scene in a folder and describe each patch by itself.

    A network (`onnx:FILE`, `torch:FILE`) gets the whole patch; for any other descriptor the
    keypoint is the centre, upright. A patch that cannot be described has failed.
    """
    strips = _read_scenes(folder, (".png",), _read_strip)
    return [_describe_scene(scene, descriptor, options or {}) for scene in strips]


def demo_patch_scenes(descriptor: str = "SIFT", *, seed: int = 0) -> list[PatchScene]:
    """Patches of small scenes that are made on the spot, described."""
    return [
        _describe_scene(PatchScene(name, category_of(name), strips), descriptor, {})
        for name, strips in make_demo_patches(seed=seed).items()
    ]


def _read_strip(path: Path) -> Image:
    """Square patches, one below the other, as HPatches ships them."""
    strip = read_image(path)
    height, side = strip.shape[:2]
    if height % side:
        raise ShapeError(f"{path}: {side} × {height} pixels are not a column of square patches.")
    return strip.reshape(-1, side, side, 3)


def _describe_scene(strips: PatchScene, descriptor: str, options: Mapping[str, Any]) -> PatchScene:
    if network_file(descriptor) is not None:
        load_network(descriptor)  # what it takes is not the time of a descriptor
    start = perf_counter()
    vectors = {
        key: _describe_rows(patches, descriptor, options, f"{strips.name}/{key}")
        for key, patches in strips.vectors.items()
    }
    return replace(strips, vectors=vectors, seconds=perf_counter() - start)


def _describe_rows(
    patches: Image, descriptor: str, options: Mapping[str, Any], what: str
) -> NDArray[Any]:
    if network_file(descriptor) is not None:
        return describe_patches(descriptor, patches, options).astype(np.float32)
    found = [_row(patch, descriptor, options) for patch in patches]
    known = next((row for row in found if row is not None), None)
    if known is None:
        raise FormatError(f"{what}: {descriptor} described none of {len(found)} patches.")
    return np.stack([np.zeros_like(known) if row is None else row for row in found])


def _row(patch: NDArray[Any], descriptor: str, options: Mapping[str, Any]) -> NDArray[Any] | None:
    side = len(patch)
    centre = (side - 1) / 2
    try:
        keypoint = Keypoints.of([[centre, centre]], size=side / _GRID)
        vectors = describe(
            np.ascontiguousarray(patch), keypoint, descriptor, options=options
        ).vectors
    except InputError:
        return None
    rows = vectors.packed if isinstance(vectors, Codes) else vectors
    return np.array(rows[0])
