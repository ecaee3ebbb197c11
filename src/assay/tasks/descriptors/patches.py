"""Patches whose number is their identity, as HPatches has them: row i of every file is one point.

A scene holds descriptors of reference patches (`ref`) and of the same patches in other images
(`e1` … `e5` easy, `h1` … `h5` hard, `t1` … `t5` tough), as CSV or .npy files of equal length.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core import checks
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
from assay.scoring.scores import signature_of
from assay.search.engine.codes import Codes
from assay.tables.table import Cell, Table
from assay.tasks.descriptors.compare import CategorySummary, summarize
from assay.tasks.descriptors.distances import largest_distance, row_distances
from assay.tasks.descriptors.pooled_hits import false_positive_rate
from assay.tasks.descriptors.ranks import PairRanks, rank_pair
from assay.tasks.descriptors.result import DescriptorResult
from assay.tasks.descriptors.sampling import draw
from assay.tasks.descriptors.tables import (
    category_data,
    category_table,
    result_data,
)
from assay.tasks.vision.describe import describe
from assay.tasks.vision.images import read_image
from assay.tasks.vision.keypoints import Keypoints
from assay.tasks.vision.scenes import category_of

__all__ = [
    "PatchResult",
    "PatchScene",
    "describe_patch_scenes",
    "evaluate_patches",
    "patch_folders",
    "read_patch_scenes",
    "read_scenes",
]


REFERENCE: Final = "ref"
_TARGET: Final = re.compile(r"[eht]\d+")
_DIFFICULTY: Final = {"e": "easy", "h": "hard", "t": "tough"}


@dataclass(frozen=True, eq=False)
class PatchScene:
    """The descriptors of a scene's patches by file: `ref`, and `e1`, `h1`, `t1`, …"""

    name: str
    category: str
    vectors: Mapping[str, NDArray[Any]]

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
    """Patch retrieval and matching as a `DescriptorResult`, and FPR at 95 % recall.

    `fpr95` is over all scenes: right pairs are the same patch in two images, wrong pairs different
    patches, as many, drawn by `seed` from the scene itself (`same`) or from others (`other`).
    """

    result: DescriptorResult
    fpr95: dict[str, float]
    seed: int

    @property
    def patch_map(self) -> float:
        """Mean AP over patches: rank of the same patch among all patches of the other image."""
        return float(self.result.mean(empty="skip")["AP"])

    @property
    def signature(self) -> str:
        """The conventions and the settings behind the numbers."""
        return signature_of([self.result.scores], {"seed": self.seed})

    @cached_property
    def summaries(self) -> list[CategorySummary]:
        """Means of all scenes and of each category, with intervals over scenes."""
        return summarize(self.result)

    def table(self) -> Table:
        """The categories with every digit, for programs."""
        return category_data(self.summaries)

    def tables(self) -> list[Table]:
        """Patch mAP by category; then patch mAP, matching mAP and FPR@95."""
        return [category_table(self.summaries), self._task_table()]

    @cached_property
    def by_difficulty(self) -> dict[str, dict[str, float]]:
        """Patch mAP and matching mAP of easy, hard and tough patches, as far as there are any."""
        keys = dict.fromkeys(_difficulty(pair.pair) for pair in self.result.pairs)
        chosen = {
            key: replace(
                self.result,
                pairs=tuple(pair for pair in self.result.pairs if _difficulty(pair.pair) == key),
            )
            for key in sorted(keys)
        }
        return {
            name: {key: _means(own)[name] for key, own in chosen.items()}
            for name in _means(self.result)
        }

    def _task_table(self) -> Table:
        rows = []
        for name, value in _means(self.result).items():
            rows.append((Cell(name), Cell(value, "fraction")))
            if len(self.by_difficulty[name]) > 1:
                rows += [
                    (Cell(f"{name}, {key}"), Cell(own, "fraction"))
                    for key, own in self.by_difficulty[name].items()
                ]
        for kind, value in self.fpr95.items():
            name = f"FPR@95, wrong pairs of {_describe_pairs(kind)}"
            rows.append((Cell(name), Cell(value, "fraction")))
        return Table(("task", self.result.name), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "signature": self.signature,
            "fpr95": self.fpr95,
            "by_difficulty": self.by_difficulty,
            "seed": self.seed,
            "result": result_data(self.result, self.summaries, rule="paper"),
        }

    def records(self) -> list[RunRecord]:
        """The record of the descriptor; its scenes are resampled as a whole."""
        return [
            record.but(details={"fpr95": self.fpr95, "by_difficulty": self.by_difficulty})
            for record in self.result.records(seeds={"wrong pairs": self.seed})
        ]


def _difficulty(pair: str) -> str:
    """Easy, hard or tough, by the name of a pair such as `ref-h2`."""
    return _DIFFICULTY[pair.removeprefix(f"{REFERENCE}-")[0]]


def _means(result: DescriptorResult) -> dict[str, float]:
    found = {"patch mAP": float(result.mean(empty="skip")["AP"])}
    if result.matching is not None:
        found["matching mAP"] = float(result.matching.mean(empty="skip")["AP"])
    return found


def _describe_pairs(kind: str) -> str:
    """The kind of wrong pairs in words: `same/easy` are those of the same scene, easy patches."""
    where, _, difficulty = kind.partition("/")
    place = "the same scene" if where == "same" else "other scenes"
    return f"{place}, {difficulty}" if difficulty else place


def read_patch_scenes(folder: str | os.PathLike[str]) -> list[PatchScene]:
    """Scenes of a folder, one a sub-folder, with files such as ref.csv, e1.csv or e1.npy."""
    return read_scenes(patch_folders(folder), (".csv", ".npy"), _read)


def patch_folders(folder: str | os.PathLike[str]) -> list[Path]:
    """The folders of a folder, by name."""
    return [path for path in list_folder(folder) if path.is_dir()]


def read_scenes(
    folders: Sequence[Path], endings: tuple[str, ...], read: Callable[[Path], NDArray[Any]]
) -> list[PatchScene]:
    """A scene of each folder that has a file ref with one of the endings."""
    found = [_scene(path, endings, read) for path in folders]
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
    threads: int | None = None,
) -> PatchResult:
    """Rank the same patch among all patches of each other image, and verify pairs of patches.

    >>> rows = np.eye(3, dtype=np.float32)
    >>> found = evaluate_patches([PatchScene("v_a", "viewpoint", {"ref": rows, "e1": rows})])
    >>> found.patch_map, found.fpr95["same"]
    (1.0, 0.0)
    """
    if not scenes:
        raise UsageError("There are no scenes of patches.")
    pairs = [pair for scene in scenes for pair in _pairs(scene, metric, threads)]
    result = DescriptorResult.of(name, pairs, keypoints="patches", metric=metric, tau=0.0)
    return PatchResult(result, _verify(scenes, metric, seed), seed)


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


def _verify(scenes: Sequence[PatchScene], metric: str, seed: int) -> dict[str, float]:
    """FPR@95 against wrong pairs of the same scene and of other scenes, by difficulty too."""
    sets = [rows for scene in scenes for rows in scene.vectors.values()]
    checks.check_lengths(**{f"columns of set {i}": s.shape[1] for i, s in enumerate(sets)})
    scale = largest_distance(*sets, metric=metric)
    right: dict[str, list[Floats]] = {}
    wrong: dict[tuple[str, str], list[Floats]] = {}
    for number, scene in enumerate(scenes):
        for key, rows in scene.vectors.items():
            if key == REFERENCE:
                continue
            ref = scene.vectors[REFERENCE]
            chance = draw(seed, f"{scene.name}/{key}", len(ref))
            others = {"same": rows[_another(chance, len(ref))] if len(ref) > 1 else rows[:0]}
            if len(scenes) > 1:
                others["other"] = _elsewhere(scenes, number, chance)
            for group in (key[0], ""):
                right.setdefault(group, []).append(row_distances(ref, rows, metric, scale))
                for kind, picked in others.items():
                    far = row_distances(ref[: len(picked)], picked, metric, scale)
                    wrong.setdefault((kind, group), []).append(far)
    return {
        kind + (f"/{_DIFFICULTY[group]}" if group else ""): false_positive_rate(
            np.concatenate(right[group]), np.concatenate(parts)
        )
        for (kind, group), parts in wrong.items()
    }


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

    The keypoint is the centre of the patch, upright; a patch that cannot be described has failed.
    """
    return read_scenes(
        patch_folders(folder),
        (".png",),
        lambda path: _describe_rows(path, descriptor, options or {}),
    )


def _describe_rows(path: Path, descriptor: str, options: Mapping[str, Any]) -> NDArray[Any]:
    strip = read_image(path)
    height, side = strip.shape[:2]
    if height % side:
        raise ShapeError(f"{path}: {side} × {height} pixels are not a column of square patches.")
    found = [_row(strip[top : top + side], descriptor, options) for top in range(0, height, side)]
    known = next((row for row in found if row is not None), None)
    if known is None:
        raise FormatError(f"{path}: {descriptor} described none of {len(found)} patches.")
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
