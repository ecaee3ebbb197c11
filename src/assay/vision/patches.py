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
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, exp, log
from assay.comparison.paper import paper_page
from assay.core import checks
from assay.core.conventions import as_settings
from assay.core.text import Remark
from assay.errors import FormatError, InputError, MismatchError, ShapeError, UsageError
from assay.io.arrays import load_npy
from assay.io.streams import list_folder, read_lines
from assay.runs.record import RunRecord
from assay.scoring.scores import Scores, signature_of
from assay.search.engine.codes import Codes
from assay.stats import Interval, bounded, samples
from assay.stats.choices import CONFIDENCE, RESAMPLES
from assay.stats.effects import false_positive_rate
from assay.tables.table import Page, Shown, Table
from assay.vision import hpatches, report
from assay.vision.descriptors import describe, describe_patches, load_network
from assay.vision.keypoints import Keypoints, draw
from assay.vision.opencv_features import Image, read_image
from assay.vision.ranks import PairRanks, PRCurve, paired_distances, rank_pair
from assay.vision.result import DescriptorCost, DescriptorResult, scene_interval
from assay.vision.scenes import category_of, make_demo_patches
from assay.vision.settings import network_file

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison


_TARGET: Final = re.compile(r"[eht]\d{1,2}")
_RECALL: Final = 0.95
_LIMITS: Final = 1 << 14  # distances at which a rate may stand; of more, as many in between
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
        if hpatches.REFERENCE not in self.vectors or len(self.vectors) < 2:
            names = ", ".join(self.vectors) or "none"
            raise FormatError(
                f"Scene {self.name!r} needs ref and at least one of e1, h1, t1, …; found {names}."
            )
        sizes = {key: len(rows) for key, rows in self.vectors.items()}
        if len(set(sizes.values())) > 1:
            raise MismatchError(
                f"Scene {self.name!r}: files differ in length: {sizes}. Patch i must be the "
                "same point in each."
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
    protocol: hpatches.ProtocolResult | None = None
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
        return {kind: rate.estimate for kind, rate in self.error_rates.items()}

    @cached_property
    def summaries(self) -> list[report.CategorySummary]:
        """Means of all scenes and of each category, with intervals over scenes."""
        return report.summarize(self.result, **self.resampling)

    @property
    def by_difficulty(self) -> dict[str, dict[str, float]]:
        """Patch mAP and matching mAP by difficulty, where present."""
        return {
            number.task: {
                part: each.estimate for part, each in number.intervals.items() if part != _ALL
            }
            for number in self.numbers[:2]
        }

    @cached_property
    def numbers(self) -> list[hpatches.PatchNumber]:
        """Patch mAP, matching mAP and FPR@95, by difficulty and of all patches, with intervals."""
        keys = dict.fromkeys(_difficulty(pair.pair) for pair in self.result.pairs)
        parts = {
            key: tuple(pair for pair in self.result.pairs if key in (_ALL, _difficulty(pair.pair)))
            for key in (*(each for each in hpatches.DIFFICULTIES.values() if each in keys), _ALL)
        }
        results = {key: replace(self.result, pairs=pairs) for key, pairs in parts.items()}
        sizes = [pair.n_docs for pair in self.result.pairs]
        how = self.resampling
        patches = {key: scene_interval(result.scores, **how) for key, result in results.items()}
        matching = {
            key: scene_interval(result.matching, **how)
            for key, result in results.items()
            if result.matching is not None
        }
        chance, by_pair = self.result.chance()["AP"], hpatches.matching_chance(sizes)
        number = partial(hpatches.PatchNumber, variant="", measure="AP", average="patches")
        return [
            number("patch mAP", intervals=patches, chance=chance, n=sum(sizes)),
            number("matching mAP", intervals=matching, chance=by_pair, n=len(sizes)),
            *self._rates(list(parts)),
        ]

    def _rates(self, parts: Sequence[str]) -> Iterator[hpatches.PatchNumber]:
        """Yield FPR@95 against both kinds of wrong pairs."""
        n = sum(pair.n_queries for pair in self.result.pairs)
        for where, place in (("same", "the same scene"), ("other", "other scenes")):
            if where in self.error_rates:
                keys = {part: where if part == _ALL else f"{where}/{part}" for part in parts}
                rates = {part: self.error_rates[key] for part, key in keys.items()}
                about = f"wrong pairs of {place}"
                yield hpatches.PatchNumber("FPR@95", about, "FPR@95", rates, _RECALL, n, "patches")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "descriptor": self.name,
            "numbers": [number.to_dict() for number in self.numbers],
            "fpr95": self.fpr95,
            "by_difficulty": self.by_difficulty,
            "seed": self.seed,
            "bytes_per_descriptor": self.cost.row_bytes,
            "protocol": None if self.protocol is None else self.protocol.to_dict(),
            "result": report.result_data(
                self.result, self.summaries, rule="authors", resampling=self.resampling
            ),
        }

    def records(self) -> list[RunRecord]:
        """Return the record of the descriptor.

        Its scenes are resampled as a whole.
        """
        protocol = [] if self.protocol is None else self.protocol.aggregates()
        numbers = [each for number in self.numbers for each in number.aggregates()]
        details: dict[str, Any] = {"fpr95": self.fpr95, "by_difficulty": self.by_difficulty}
        if self.protocol is not None:
            details["curves"] = [curve.to_dict() for curve in self.protocol.curves]
        return [
            record.replace(details=details, aggregates=(*record.aggregates, *numbers, *protocol))
            for record in self.result.records(
                seeds={"wrong pairs": self.seed}, resampling=self.resampling
            )
        ]


def _difficulty(pair: str) -> str:
    """Return easy, hard or tough for a pair such as `ref-h2`."""
    return hpatches.DIFFICULTIES[pair.removeprefix(f"{hpatches.REFERENCE}-")[0]]


def read_patch_scenes(folder: str | os.PathLike[str]) -> list[PatchScene]:
    """Read descriptors of patches: a sub-folder for each scene.

    Args:
        folder: Folder with files such as v_wall/ref.csv, v_wall/e1.csv or e1.npy.

    Returns:
        The scenes, sorted by name.

    Raises:
        FormatError: If there are no scenes, or a file holds no table of numbers.
        MismatchError: If files of a scene differ in length.

    Example:
        result = evaluate_patches(read_patch_scenes("descriptors/sift"))
    """
    return _read_scenes(folder, (".csv", ".npy"), _read)


def _read_scenes(
    folder: str | os.PathLike[str], endings: tuple[str, ...], read: Callable[[Path], NDArray[Any]]
) -> list[PatchScene]:
    """Read each sub-folder that has a reference of these endings."""
    scenes = []
    for home in filter(Path.is_dir, list_folder(folder)):
        paths = {path.stem: path for path in sorted(home.iterdir()) if path.suffix in endings}
        stems = (stem for stem in paths if stem == hpatches.REFERENCE or _TARGET.fullmatch(stem))
        files = {stem: paths[stem] for stem in stems}
        if hpatches.REFERENCE in files:
            vectors = {name: read(path) for name, path in files.items()}
            scenes.append(PatchScene(home.name, category_of(home.name), vectors))
    if not scenes:
        names = " or ".join(f"{hpatches.REFERENCE}{ending}" for ending in endings)
        raise FormatError(f"No scenes of patches: no folder holds {names}. Check the path.")
    return scenes


def _read(path: Path) -> NDArray[Any]:
    if path.suffix == ".npy":
        return np.asarray(load_npy(path))
    rows = [line.replace(";", ",").split(",") for line in read_lines(path) if line.strip()]
    try:
        with np.errstate(over="ignore"):  # infinite numbers are refused with their place
            return np.array(rows, np.float32)
    except ValueError as error:
        raise FormatError(f"{path}: lines differ in length: {error}. Write equal rows.") from None


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
    """Rank the same patch in every other image, and verify pairs of patches.

    Args:
        scenes: Descriptors of patches.
        name: Name of the descriptor.
        metric: "l2", "cosine" or "hamming".
        seed: Seed of wrong pairs, and of tasks that no file lists.
        split: Evaluate HPatches' own tasks on a split: a, b, c, view, illum or full.
        tasks: Folder with HPatches' task files; without it they are drawn.
        threads: Number of threads.
        **resampling: level, resamples and seed of intervals over scenes.

    Returns:
        Patch mAP, matching mAP, FPR@95 and, with a split, HPatches' own tasks.

    Raises:
        UsageError: If there are no scenes, or the split is unknown.
        MismatchError: If scenes of the split are missing.

    >>> rows = np.eye(3, dtype=np.float32)
    >>> result = evaluate_patches([PatchScene("v_a", "viewpoint", {"ref": rows, "e1": rows})])
    >>> result.patch_map, result.fpr95["same"]
    (1.0, 0.0)
    """
    by_name = {scene.name: scene for scene in scenes}
    if split is None and tasks is not None:
        raise UsageError("Task files need a split, such as a. Pass it.")
    names = list(by_name) if split is None else hpatches.split_scenes(split, list(by_name), tasks)
    if not names:
        place = f" in split {split!r}" if split else ""
        raise UsageError(f"No scenes of patches{place}. Check the folder.")
    test_scenes = [by_name[scene] for scene in names]
    pairs = [pair for scene in test_scenes for pair in _pairs(scene, metric, threads)]
    result = DescriptorResult.of(name, pairs, keypoints="patches", metric=metric, tau=0.0)
    protocol = None
    if split is not None:
        vectors = {scene.name: scene.vectors for scene in test_scenes}
        patch_tasks = hpatches.read_tasks(split, hpatches.scene_sizes(vectors), tasks, seed=seed)
        protocol = hpatches.evaluate_protocol(
            vectors, patch_tasks, name=name, metric=metric, **resampling
        )
        settings = as_settings(split=split, tasks=patch_tasks.source)
        result = replace(result, settings=settings)
    rates = _verify(test_scenes, metric, seed, resampling)
    rows = test_scenes[0].vectors[hpatches.REFERENCE]
    size = 1 if rows.dtype == np.uint8 else 4  # floats count as float32, whatever the file has
    cost = DescriptorCost(
        size * rows.shape[1],
        sum(len(vectors) for scene in test_scenes for vectors in scene.vectors.values()),
        math.fsum(scene.seconds for scene in test_scenes),
    )
    return PatchResult(result, rates, seed, cost, protocol, resampling)


def _pairs(scene: PatchScene, metric: Any, threads: int | None) -> list[PairRanks]:
    reference = scene.vectors[hpatches.REFERENCE]
    return [
        rank_pair(
            reference,
            vectors,
            truth=np.arange(len(reference)),
            scene=scene.name,
            pair=f"{hpatches.REFERENCE}-{key}",
            category=scene.category,
            metric=metric,
            matching=True,
            threads=threads,
        )
        for key, vectors in scene.vectors.items()
        if key != hpatches.REFERENCE
    ]


class JudgedPairs(NamedTuple):
    """Distances of right or wrong pairs of one file, by scene."""

    scene: int
    distance: Floats


def _verify(
    scenes: Sequence[PatchScene], metric: str, seed: int, resampling: Mapping[str, Any]
) -> dict[str, Interval]:
    """Return FPR@95 by kind of wrong pair and difficulty."""
    sets = [rows for scene in scenes for rows in scene.vectors.values()]
    checks.check_lengths(**{f"columns of set {i}": s.shape[1] for i, s in enumerate(sets)})
    right: dict[str, list[JudgedPairs]] = {}
    wrong: dict[tuple[str, str], list[JudgedPairs]] = {}
    for number, scene in enumerate(scenes):
        for key, rows in scene.vectors.items():
            if key == hpatches.REFERENCE:
                continue
            ref = scene.vectors[hpatches.REFERENCE]
            n, chance = len(ref), draw(seed, f"{scene.name}/{key}", len(ref))
            wrong_rows = {"same": rows[:0]}
            if n > 1:  # another row for each row, all equally likely
                steps = (chance % np.uint64(n - 1)).astype(np.int64) + 1
                wrong_rows["same"] = rows[(np.arange(n) + steps) % n]
            if len(scenes) > 1:
                distant = [
                    s.vectors[hpatches.REFERENCE] for i, s in enumerate(scenes) if i != number
                ]
                pool = np.concatenate(distant)
                wrong_rows["other"] = pool[(chance % np.uint64(len(pool))).astype(np.int64)]
            near = JudgedPairs(number, paired_distances(ref, rows, metric))
            far = {
                kind: JudgedPairs(number, paired_distances(ref[: len(picked)], picked, metric))
                for kind, picked in wrong_rows.items()
            }
            for group in ("", key[0]):
                right.setdefault(group, []).append(near)
                for kind, judged in far.items():
                    wrong.setdefault((kind, group), []).append(judged)
    return {
        kind + (f"/{hpatches.DIFFICULTIES[group]}" if group else ""): error_rate(
            right[group], parts, len(scenes), **resampling
        )
        for (kind, group), parts in wrong.items()
    }


def error_rate(
    right: Sequence[JudgedPairs],
    wrong: Sequence[JudgedPairs],
    n_scenes: int,
    *,
    level: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return FPR@95 with an interval over scenes.

    Scenes are drawn anew. With ties the rate jumps from one distance to the next, so no error of it
    is that of a smooth number: a jackknife covers 62 to 100 % and may be 5 times too wide. The
    interval joins the expanded percentiles of the draws (Hesterberg 2015) and Student's t around
    their mean on the logit; by simulation it covers 88 to 100 % (docs/descriptors.md).
    """
    sides = [
        [
            np.concatenate([j.distance for j in parts if j.scene == scene] or [np.empty(0)])
            for scene in range(n_scenes)
        ]
        for parts in (right, wrong)
    ]
    near, far = map(np.concatenate, sides)
    estimate = false_positive_rate(-near, -far, _RECALL) if len(near) and len(far) else math.nan
    blank = Interval(estimate, math.nan, math.nan, level, "percentile", n_scenes)
    note = samples.too_few(n_scenes, "groups")
    if math.isnan(estimate) or note:
        return replace(blank, note="" if math.isnan(estimate) else note or "")
    rates = resample_rates(sides[0], sides[1], resamples, seed)
    if np.ptp(rates) == 0:
        low, high = bounded.constant_ends(estimate, n_scenes, level, (0.0, 1.0))
    else:
        t = bounded.t_quantile((1 + level) / 2, n_scenes - 1) * math.sqrt(n_scenes / (n_scenes - 1))
        inner = (rates * len(far) + 0.5) / (len(far) + 1)
        logits = log(inner / (1 - inner))
        student = 1 / (1 + exp(-logits.mean() - np.array([-t, t]) * logits.std(ddof=1)))
        tail = bounded.normal_cdf(-t)
        ends = (estimate, *student, *np.quantile(rates, [tail, 1 - tail], method="inverted_cdf"))
        low, high = float(min(ends)), float(max(ends))
    return replace(blank, low=low, high=high, resamples=resamples, seed=seed)


def resample_rates(
    near: Sequence[Floats], far: Sequence[Floats], resamples: int, seed: int
) -> Floats:
    """Return FPR@95 of scenes drawn anew, from their right and wrong distances."""
    limits = np.unique(np.concatenate(near))
    limits = limits[np.linspace(0, len(limits) - 1, min(len(limits), _LIMITS)).astype(np.int64)]
    right, wrong = (
        np.array([np.searchsorted(np.sort(part), limits, side="right") for part in parts])
        for parts in (near, far)
    )
    n = len(near)
    times = samples.resample_sums(np.eye(n, dtype=np.int64), np.array([0, n]), resamples, seed)
    # The first limit that enough right pairs are within, by bisection: counts rise with limits.
    total = times @ right[:, -1], times @ np.array(list(map(len, far)))
    needed = np.ceil(_RECALL * total[0])
    low, high = np.zeros(resamples, np.int64), np.full(resamples, len(limits) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        enough = (times * right[:, middle].T).sum(axis=1) >= needed
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    rates: Floats = (times * wrong[:, high].T).sum(axis=1) / np.maximum(total[1], 1)
    return np.asarray(rates[(total[0] > 0) & (total[1] > 0)])


# SIFT's grid is six keypoint sizes wide, so this size makes it cover the patch.
_GRID: Final = 6.0


def describe_patch_scenes(
    folder: str | os.PathLike[str],
    descriptor: str = "SIFT",
    *,
    options: Mapping[str, Any] | None = None,
) -> list[PatchScene]:
    """Read strips of patches (ref.png, e1.png, …) and describe each patch.

    A network (`onnx:FILE`, `torch:FILE`) gets the whole patch; for any other descriptor the
    keypoint is the centre, upright. A patch that cannot be described has failed.

    Args:
        folder: Folder with a sub-folder for each scene.
        descriptor: Name of a descriptor, or a network.
        options: Options of the descriptor.

    Returns:
        The scenes with their descriptors.

    Raises:
        FormatError: If there are no scenes, or no patch can be described.
        ShapeError: If a picture is no column of squares.

    Example:
        scenes = describe_patch_scenes("hpatches", "RootSIFT")
    """
    strips = _read_scenes(folder, (".png",), _read_strip)
    return [_describe_scene(scene, descriptor, options or {}) for scene in strips]


def demo_patch_scenes(descriptor: str = "SIFT", *, seed: int = 0) -> list[PatchScene]:
    """Make and describe patches of small scenes.

    Args:
        descriptor: Name of a descriptor, or a network.
        seed: Seed of the scenes.

    Returns:
        Six scenes in the manner of HPatches.

    Raises:
        MissingPackageError: If scikit-image is not installed.

    Example:
        result = evaluate_patches(demo_patch_scenes("ORB"), metric="hamming")
    """
    return [
        _describe_scene(PatchScene(name, category_of(name), strips), descriptor, {})
        for name, strips in make_demo_patches(seed=seed).items()
    ]


def _read_strip(path: Path) -> Image:
    """Read square patches, one below the other, as HPatches ships them."""
    strip = read_image(path)
    height, side = strip.shape[:2]
    if height % side:
        raise ShapeError(
            f"{path}: {side} × {height} pixels are no column of square patches. Stack squares."
        )
    return strip.reshape(-1, side, side, 3)


def _describe_scene(strips: PatchScene, descriptor: str, options: Mapping[str, Any]) -> PatchScene:
    if network_file(descriptor) is not None:
        load_network(descriptor)  # what it takes is not the time of a descriptor
    start = perf_counter()
    vectors = {}
    for key, patches in strips.vectors.items():
        if network_file(descriptor) is not None:
            vectors[key] = describe_patches(descriptor, patches, options).astype(np.float32)
            continue
        rows = [_row(patch, descriptor, options) for patch in patches]
        example = next((row for row in rows if row is not None), None)
        if example is None:
            raise FormatError(
                f"{strips.name}/{key}: {descriptor} described none of {len(rows)} patches. "
                "Use larger patches."
            )
        vectors[key] = np.stack([np.zeros_like(example) if row is None else row for row in rows])
    return replace(strips, vectors=vectors, seconds=perf_counter() - start)


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


@dataclass(frozen=True, eq=False, repr=False)
class PatchReport(Shown):
    """Results of one descriptor or several on the same patches; `timings` adds a table."""

    results: tuple[PatchResult, ...]
    timings: bool = False

    @property
    def signature(self) -> str:
        """The conventions and the settings behind the numbers."""
        first = self.results[0]
        settings = {"seed": first.seed, **first.resampling}
        return signature_of([item.result.scores for item in self.results], settings)

    @property
    def protocols(self) -> list[hpatches.ProtocolResult]:
        """The results of HPatches' own tasks, where a split was asked for."""
        return [item.protocol for item in self.results if item.protocol is not None]

    @property
    def curves(self) -> list[PRCurve]:
        """Precision over recall of verification and matching."""
        return [curve for protocol in self.protocols for curve in protocol.curves]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Descriptors on the same patches, whole scenes resampled: a comparison for each number."""
        if len(self.results) < 2:
            return []
        judged: dict[str, list[Scores]] = {
            "patch AP": [item.result.scores for item in self.results]
        }
        if self.protocols:
            judged["matching AP"] = [item.matching for item in self.protocols]
            judged["retrieval AP"] = [item.retrieval for item in self.protocols]
        if len({item.result.query_set for item in self.results}) > 1:
            raise MismatchError(
                "The folders hold different patches. Use the same scenes, files and numbers "
                "of patches."
            )
        names = [item.name for item in self.results]
        how = self.results[0].resampling
        level = round(1 - how.get("level", 0.95), 12)
        drawn = {key: how[key] for key in ("resamples", "seed") if key in how}
        return [
            report.compare_named(name, "AP", scores, names, by="scene", level=level, **drawn)
            for name, scores in judged.items()
        ]

    @property
    def remarks(self) -> list[str]:
        """Return the warnings."""
        size = {item.name: item.cost.row_bytes for item in self.results}
        sizes = ", ".join(f"{name} {number}" for name, number in size.items())
        lines: list[str] = [Remark(f"bytes per descriptor: {sizes}", n=0)]
        for item in self.protocols[:1]:
            n_scenes = len(item.tasks.scenes)
            lines.append(Remark(f"split {item.tasks.split}: {n_scenes} sequences", n=0))
            if drawn := ", ".join(item.tasks.drawn):
                lines.append(f"no task file for {drawn} (pairs drawn by seed {item.tasks.seed})")
        lines += [
            f"{item.name}: {item.empty_rows} descriptors of zeros count in HPatches' tasks"
            for item in self.protocols
            if item.empty_rows
        ]
        return lines

    def tables(self) -> list[Table]:
        """Return tables of mAP, of HPatches' own tasks, and of cost."""
        summaries = [row for item in self.results for row in item.summaries]
        names = [item.name for item in self.results]
        leaders = {str(item.measures[0]): report.leaders_of(item) for item in self.comparisons}
        tables = [
            report.category_table(summaries, leaders.get("patch AP", ())),
            hpatches.number_table(names, [r.numbers for r in self.results], {}),
        ]
        if self.protocols:
            numbers = [item.numbers for item in self.protocols]
            tested = {
                "matching: AP": leaders.get("matching AP", ()),
                numbers[0][-1].name: leaders.get("retrieval AP", ()),  # the largest pool
            }
            tables.append(hpatches.number_table(names, numbers, tested))
        costs = [(item.name, {"describe": item.cost.seconds}, item.cost) for item in self.results]
        return [*tables, report.timing_table(costs)] if self.timings else tables

    def table(self) -> Table:
        """Return the categories with every digit, for programs."""
        return report.category_data([row for item in self.results for row in item.summaries])

    def page(self) -> Page:
        """Return tables, verdicts and remarks as a page."""
        tables: Page = list(self.tables())
        return report.lay_out(tables, self.comparisons, [], self.remarks, self.signature)

    def paper(self) -> Page:
        """Return one table for a paper: descriptors × AP of tasks, then every difficulty."""
        columns = {
            str(each.measures[0]): {row.name: row.mean.estimate for row in each.standings}
            for each in reversed(self.comparisons[1:])
        }
        columns["patch AP"] = {item.name: item.numbers[0].whole.estimate for item in self.results}
        first = self.comparisons[0] if self.comparisons else None
        patches = self.results[0].result.n_queries
        caption = f"Descriptors of {patches:,} patches."
        table = report.paper_of(first, columns, caption=caption, label="tab:patches")
        return paper_page(table, self.page(), self.tables()[1:])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "signature": self.signature,
            "results": [item.to_dict() for item in self.results],
            "comparisons": {str(item.measures[0]): item.to_dict() for item in self.comparisons},
            "remarks": self.remarks,
        }

    def records(self) -> list[RunRecord]:
        """Return a record for each descriptor."""
        return [record for patch_result in self.results for record in patch_result.records()]
