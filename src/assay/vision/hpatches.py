"""HPatches' own benchmark: its task files; verification, matching and retrieval of patches.

Balntas, Lenc, Vedaldi, Mikolajczyk, "HPatches: a benchmark and evaluation of handcrafted and
learned local descriptors" (CVPR 2017), as the program of its authors computes them
(github.com/hpatches/hpatches-benchmark): areas are those of trapezoids, all images of a sequence
count alike, and of equal distances wrong pairs stand first in verification, last in retrieval.

A folder as `tasks` of the hpatches-benchmark repository holds `splits/splits.json` and, for each
split, verif_pos_split-a.csv, verif_neg_intra_split-a.csv and verif_neg_inter_split-a.csv (columns
s1, t1, idx1, s2, t2, idx2), retr_queries_split-a.csv and retr_distractors_split-a.csv (s, idx). A
sequence is `s`, an image `t` (0 is the reference), a patch `idx`. Files that are not there are
replaced by a draw of the same kind.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array, Floats, Ints, or_none
from assay.core.checks import check_unique, name_few
from assay.core.ids import Ids
from assay.errors import FormatError, MismatchError, UsageError
from assay.io.columns import numbered_rows
from assay.io.plain_data import parse_json
from assay.io.streams import read_text
from assay.runs.results import Aggregate
from assay.scoring.scores import Scores
from assay.stats import Interval, interval
from assay.stats.confidence import jackknife_interval
from assay.tables.table import Cell, Table, table_of
from assay.vision import ranks
from assay.vision.keypoints import as_id, draw
from assay.vision.ranks import PRCurve, curve_of, mean_curve, trapezoid_area
from assay.vision.report import interval_data
from assay.vision.result import interval_aggregate, plain_scores

REFERENCE: Final = "ref"
DIFFICULTIES: Final = {"e": "easy", "h": "hard", "t": "tough"}
POOLS: Final = (100, 500, 1000, 5000, 10_000, 15_000, 20_000)
_RIGHT_SHARE: Final = 0.2  # of the right pairs, in the imbalanced protocol
_BATCH: Final = 1 << 16
_MEAN: Final = "mean"
Vectors = Mapping[str, Mapping[str, NDArray[Any]]]
PAIRS: Final = ("right", "intra", "inter")
_FILES: Final = {
    "right": "verif_pos",
    "intra": "verif_neg_intra",
    "inter": "verif_neg_inter",
    "queries": "retr_queries",
    "distractors": "retr_distractors",
}
_OF_PAIRS: Final = ("s1", "t1", "idx1", "s2", "t2", "idx2")
_OF_ROWS: Final = ("s", "idx")
_BY_NAME: Final = {"view": "v_", "illum": "i_", "full": ""}  # these splits need no list
_DRAWN: Final = {"pairs": 100_000, "queries": 10_000, "distractors": 20_000}  # at most


class SceneSize(NamedTuple):
    """Number of patches of a sequence, and numbers of its images."""

    patches: int
    images: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PatchTasks:
    """What is judged: sequences as numbers into `scenes`, a row for each pair or patch.

    Pairs have the columns sequence, image, patch, twice; queries and distractors sequence and
    patch. `drawn` are the files that were not there.
    """

    split: str
    scenes: tuple[str, ...]
    pairs: Mapping[str, Ints]
    queries: Ints
    distractors: Ints
    drawn: tuple[str, ...] = ()
    seed: int = 0

    @cached_property
    def source(self) -> str:
        """Source and digest of the tasks, for the signature."""
        digest = hashlib.sha256()
        for rows in (*self.pairs.values(), self.queries, self.distractors):
            digest.update(np.ascontiguousarray(rows).tobytes())
        return f"{'drawn' if self.drawn else 'files'}-{digest.hexdigest()[:8]}"


def split_scenes(
    split: str, names: Sequence[str], folder: str | os.PathLike[str] | None = None
) -> tuple[str, ...]:
    """Return the test sequences of a split; all must exist.

    Without a list view and illum are the sequences v_… and i_…, full is all of them.
    """
    listed = {} if folder is None else read_splits(Path(folder))
    if split not in listed:
        if split not in _BY_NAME:
            has = f" {folder} has: {', '.join(listed)}." if listed else ""
            raise UsageError(
                f"The split {split!r} needs splits.json. Pass its folder with --tasks.{has} "
                f"Without it: {', '.join(_BY_NAME)}."
            )
        return tuple(sorted(name for name in names if name.startswith(_BY_NAME[split])))
    absent = [name for name in listed[split] if name not in names]
    if absent:
        raise MismatchError(
            f"The split {split!r} has the sequences {name_few(absent)}, which have no "
            "patches. Choose another split, or add them."
        )
    return listed[split]


def read_splits(folder: Path) -> dict[str, tuple[str, ...]]:
    """Read the test sequences of each split that is listed."""
    places = (folder / "splits" / "splits.json", folder / "splits.json")
    file = next((path for path in places if path.is_file()), None)
    listed = {} if file is None else parse_json(read_text(file), str(file))
    listings = listed.values() if isinstance(listed, dict) else [None]
    tests = [listing.get("test") if isinstance(listing, dict) else None for listing in listings]
    if not all(
        isinstance(test, list) and all(isinstance(name, str) for name in test) for test in tests
    ):
        raise FormatError(f"{file}: each split needs a list of sequences under 'test'.")
    return {split: tuple(listing["test"]) for split, listing in listed.items()}


def read_tasks(
    split: str,
    sizes: Mapping[str, SceneSize],
    folder: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
) -> PatchTasks:
    """Read a split's tasks from a folder, or draw them."""
    scenes = tuple(sizes)
    rows: dict[str, Ints] = {}
    for kind, name in _FILES.items():
        path = None if folder is None else Path(folder) / f"{name}_split-{split}.csv"
        if path is not None and path.is_file():
            columns = _OF_PAIRS if kind in PAIRS else _OF_ROWS
            rows[kind] = _read(path, columns, sizes)
    drawn: list[str] = []
    for kinds, make in ((PAIRS, _draw_pairs), (("queries", "distractors"), _draw_rows)):
        if not rows.keys() >= set(kinds):  # they belong together
            drawn += kinds
            rows.update(make(sizes, seed))
    pairs = {kind: rows[kind] for kind in PAIRS}
    return PatchTasks(
        split, scenes, pairs, rows["queries"], rows["distractors"], tuple(drawn), seed
    )


def _read(path: Path, columns: tuple[str, ...], sizes: Mapping[str, SceneSize]) -> Ints:
    """Read a task file, sequences as numbers; check its ranges."""
    lines = numbered_rows(path)
    header = next(lines, (0, []))[1]
    if tuple(header) != columns:
        raise FormatError(
            f"{path}: the first line must be {','.join(columns)}, found {','.join(header)[:100]!r}."
        )
    number = {name: i for i, name in enumerate(sizes)}
    rows = []
    for line, row in lines:
        cells = zip(columns, row, strict=False)
        if len(row) != len(columns) or not all(_is_cell(*cell, number) for cell in cells):
            raise FormatError(
                f"{path}, line {line}: {','.join(row)[:100]!r} is not a row of "
                f"{','.join(columns)} with a sequence of the split. Write those columns."
            )
        rows.append(
            [number[c] if n[0] == "s" else int(c) for n, c in zip(columns, row, strict=True)]
        )
    table = np.array(rows, np.int64).reshape(-1, len(columns))
    _check_places(table, columns, sizes, path)
    return table


def _is_cell(column: str, cell: str, number: dict[str, int]) -> bool:
    return cell in number if column[0] == "s" else cell.isdecimal() and len(cell) < 16


def _check_places(
    rows: Ints, columns: tuple[str, ...], sizes: Mapping[str, SceneSize], path: Path
) -> None:
    """Refuse patches and images beyond those of their sequence."""
    names = list(sizes)
    patches = np.array([size.patches for size in sizes.values()])
    images = np.array([max(size.images) for size in sizes.values()])
    for at, name in enumerate(columns):
        if name.startswith("s"):
            scene = rows[:, at]
            continue
        limit = images[scene] + 1 if name.startswith("t") else patches[scene]
        bad = np.flatnonzero((rows[:, at] < 0) | (rows[:, at] >= limit))
        if len(bad):
            row = int(bad[0])
            raise MismatchError(
                f"{path}: {name} is {rows[row, at]}, but {names[scene[row]]!r} has only "
                f"{limit[row]}. Check that patches and tasks belong together."
            )


def _draw_pairs(sizes: Mapping[str, SceneSize], seed: int) -> dict[str, Ints]:
    """Draw as many right, intra and inter pairs.

    The other two take the first patch of a right pair.
    """
    all_sizes = list(sizes.values())
    some = [i for i, size in enumerate(all_sizes) if size.patches > 1]
    if not some or len(sizes) < 2:
        raise UsageError("Verification needs two sequences, one with two patches. Add some.")
    n = min(_DRAWN["pairs"], 4 * sum(size.patches * len(size.images) for size in all_sizes))
    rng = _SeededDraws(seed, "patch pairs", n)
    scene = np.array(some)[rng.below(np.full(n, len(some)))]
    patches = np.array([size.patches for size in all_sizes])
    first, second = rng.two_below(patches[scene])
    images = [(0, *size.images) for size in all_sizes]
    counts = np.array(list(map(len, images)))
    left, right = rng.two_below(counts[scene])
    other = rng.below(np.full(n, len(all_sizes)))
    far = rng.below(patches[other])
    t1, t2, t3 = (
        np.array([images[s][k] for s, k in zip(rows, places, strict=True)])
        for rows, places in ((scene, left), (scene, right), (other, right % counts[other]))
    )
    return {
        "right": np.stack([scene, t1, first, scene, t2, first], axis=1),
        "intra": np.stack([scene, t1, first, scene, t2, second], axis=1),
        "inter": np.stack([scene, t1, first, other, t3, far], axis=1),
    }


class _SeededDraws:
    """Random numbers by a seed, column after column."""

    def __init__(self, seed: int, name: str, n: int) -> None:
        self._seed, self._name, self._n, self._column = seed, name, n, 0

    def below(self, limit: Array) -> Ints:
        """Draw a number from 0 to below each limit."""
        self._column += 1
        words = draw(self._seed, f"{self._name} {self._column}", self._n)
        return np.asarray(words % limit.astype(np.uint64), np.int64)

    def two_below(self, limit: Array) -> tuple[Ints, Ints]:
        """Draw two different numbers from 0 to below each limit (≥ 2)."""
        first = self.below(limit)
        return first, (first + 1 + self.below(limit - 1)) % limit


def _draw_rows(sizes: Mapping[str, SceneSize], seed: int) -> dict[str, Ints]:
    """Draw queries and distractors: different reference patches."""
    patches = [(at, row) for at, size in enumerate(sizes.values()) for row in range(size.patches)]
    every = np.array(patches, np.int64).reshape(-1, 2)
    order = np.argsort(draw(seed, "retrieval patches", len(every)), kind="stable")
    n = min(_DRAWN["queries"], len(every) // 3)
    shuffled = every[order]
    return {"queries": shuffled[:n], "distractors": shuffled[n : n + _DRAWN["distractors"]]}


@dataclass(frozen=True)
class PatchNumber:
    """One number by difficulty (easy, …) and of all together, with intervals and chance.

    The last of `intervals` is over all difficulties: their mean, or that of all patches.
    """

    task: str
    variant: str
    measure: str
    intervals: Mapping[str, Interval]
    chance: float
    n: int
    average: str = "hpatches"

    @property
    def name(self) -> str:
        """Task and variant, and the measure of the benchmark's tasks."""
        words = ", ".join(filter(None, (self.task, self.variant)))
        return f"{words}: {self.measure}" if self.average == "hpatches" else words

    @property
    def whole(self) -> Interval:
        """The number over all difficulties."""
        return list(self.intervals.values())[-1]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        about = {"task": self.task, "variant": self.variant, "measure": self.measure}
        parts = {
            part: interval_data(part_interval) for part, part_interval in self.intervals.items()
        }
        return {**about, "n": self.n, "chance": or_none(self.chance), **parts}

    def aggregates(self) -> Iterator[Aggregate]:
        """Yield the numbers of a stored run."""
        for part, part_interval in self.intervals.items():
            subset = "/".join(filter(None, (self.task, self.variant, part)))
            about = {"average": self.average, "subset": subset, "chance": self.chance, "n": self.n}
            yield interval_aggregate(self.measure, part_interval, **about)


def number_table(
    names: Sequence[str],
    numbers: Sequence[Sequence[PatchNumber]],
    leaders: Mapping[str, Container[str]],
) -> Table:
    """Tabulate numbers as papers print them: easy, hard, tough, all.

    `leaders` may be the best on a task that was tested; elsewhere it is the highest value.
    """
    first = numbers[0][0]
    rows = []
    for same in zip(*numbers, strict=True):
        choose = min if same[0].measure.startswith("FPR") else max
        best = choose(number.whole.estimate for number in same) if len(same) > 1 else math.nan
        for name, number in zip(names, same, strict=True):
            *parts, whole = (each.estimate for each in number.intervals.values())
            leads = whole == best or name in leaders.get(number.name, ())
            last = Cell(whole, "fraction", leads), number.whole.cell(), number.chance
            rows.append((number.name, name, *parts, *last))
    level = Interval.heading(first.whole.level)
    return table_of(("task", "descriptor", *first.intervals, level, "chance"), rows)


@dataclass(frozen=True, eq=False)
class ProtocolResult:
    """A descriptor on the tasks of a split.

    `matching` has the area of each pair of images, `retrieval` that of each query among the whole
    pool, a mean over difficulties; `empty_rows` descriptors are all zeros.
    """

    name: str
    tasks: PatchTasks
    numbers: tuple[PatchNumber, ...]
    matching: Scores
    retrieval: Scores
    curves: tuple[PRCurve, ...]
    empty_rows: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "split": self.tasks.split,
            "sequences": list(self.tasks.scenes),
            "drawn": list(self.tasks.drawn),
            "empty_rows": self.empty_rows,
            "numbers": [item.to_dict() for item in self.numbers],
            "curves": [item.to_dict() for item in self.curves],
        }

    def aggregates(self) -> list[Aggregate]:
        """Return all numbers of a stored run."""
        return [aggregate for number in self.numbers for aggregate in number.aggregates()]


def scene_sizes(vectors: Vectors) -> dict[str, SceneSize]:
    """Return patches and images of each sequence.

    An image counts where every difficulty has it.
    """
    sizes = {}
    for name, files in vectors.items():
        images = [
            {int(key[1:]) for key in files if key != REFERENCE and key[0] == letter}
            for letter in _letters(vectors)
        ]
        shared = tuple(sorted(set.intersection(*images)))
        sizes[name] = SceneSize(len(files[REFERENCE]), shared)
    return sizes


def _letters(vectors: Vectors) -> str:
    """Return the difficulties that all sequences have."""
    per_scene = [{key[0] for key in files if key != REFERENCE} for files in vectors.values()]
    return "".join(
        letter for letter in DIFFICULTIES if all(letter in letters for letters in per_scene)
    )


def evaluate_protocol(
    vectors: Vectors, tasks: PatchTasks, *, name: str, metric: str = "l2", **resampling: Any
) -> ProtocolResult:
    """Evaluate verification, matching and retrieval.

    `vectors` are rows by sequence and file (ref, e1, …). `resampling` goes to the intervals: level,
    resamples, seed. Whole sequences are resampled.
    """
    judged = {scene: vectors[scene] for scene in tasks.scenes}
    work = _Protocol(judged, tasks, metric, resampling, name)
    verification = [number for kind in ("intra", "inter") for number in work.verify(kind)]
    matching, matched = work.match()
    retrieval, retrieved = work.retrieve()
    numbers = (*verification, matching, *retrieval)
    every = [rows for files in judged.values() for rows in files.values()]
    empty = sum(int((~rows.any(axis=1)).sum()) for rows in every)
    return ProtocolResult(name, tasks, numbers, matched, retrieved, tuple(work.curves), empty)


class _Protocol:
    """One descriptor while it is judged."""

    def __init__(
        self,
        vectors: Vectors,
        tasks: PatchTasks,
        metric: str,
        resampling: Mapping[str, Any],
        name: str,
    ) -> None:
        self.vectors, self.tasks, self.metric, self.name = vectors, tasks, metric, name
        self.files = list(vectors.values())
        self.letters, self.resampling = _letters(vectors), resampling
        self.sizes = list(scene_sizes(vectors).values())
        self.curves: list[PRCurve] = []

    def verify(self, kind: str) -> Iterator[PatchNumber]:
        """Yield areas under ROC and precision-recall, balanced and imbalanced.

        The imbalanced list has a fifth of the right pairs.
        """
        right, wrong = self.tasks.pairs["right"], self.tasks.pairs[kind]
        apart = {key: (self._apart(key, right), self._apart(key, wrong)) for key in self.letters}
        where = "same sequence" if kind == "intra" else "other sequences"
        few = int(len(right) * _RIGHT_SHARE)
        for balance, n in (("balanced", len(right)), ("imbalanced", few)):
            lists = {
                key: _PairList.of(near[:n], far, right[:n], wrong)
                for key, (near, far) in apart.items()
            }
            size = n + len(wrong)
            chance = {"AUC": 0.5, "AP": float(ranks.chance_area(n, size))}
            # The area under ROC hardly depends on the balance.
            for measure in ("AUC", "AP") if balance == "balanced" else ("AP",):
                areas = self._pooled(lists, _PairList.auc if measure == "AUC" else _PairList.ap)
                variant = f"{where}, {balance}"
                yield PatchNumber("verification", variant, measure, areas, chance[measure], size)
        for letter, pair_list in lists.items():
            precision = curve_of(pair_list.wrong_nearer, few)
            self._add_curve(f"verification, {where}", letter, precision, few / size)

    def _add_curve(self, task: str, letter: str, precision: Floats, chance: float) -> None:
        self.curves.append(PRCurve(task, self.name, DIFFICULTIES[letter], precision, chance))

    def _apart(self, letter: str, pairs: Ints) -> Floats:
        distances = np.empty(len(pairs))
        for start in range(0, len(pairs), _BATCH):
            left, right = np.hsplit(pairs[start : start + _BATCH], 2)
            rows = self._rows(letter, left), self._rows(letter, right)
            distances[start : start + _BATCH] = ranks.paired_distances(*rows, self.metric)
        return distances

    def _rows(self, letter: str, places: Ints) -> Array:
        """Return descriptors by sequence, image and patch."""
        some = self.files[0][REFERENCE]
        descriptors = np.empty((len(places), some.shape[1]), some.dtype)
        key = places[:, 0] * 64 + places[:, 1]
        for code in np.unique(key):
            rows = np.flatnonzero(key == code)
            scene, image = divmod(int(code), 64)
            file = f"{letter}{image}" if image else REFERENCE
            descriptors[rows] = self.files[scene][file][places[rows, 2]]
        return descriptors

    def _pooled(
        self, lists: Mapping[str, _PairList], area: Callable[[_PairList, int], float]
    ) -> dict[str, Interval]:
        """Return the area of each list with a jackknife over sequences."""
        table = np.array(
            [
                [area(pair_list, without) for pair_list in lists.values()]
                for without in range(-1, len(self.files))
            ]
        )
        named = {DIFFICULTIES[letter]: table[:, at] for at, letter in enumerate(lists)}
        level = self.resampling.get("level", 0.95)
        return {
            part: jackknife_interval(float(column[0]), column[1:], level=level)
            for part, column in {**named, _MEAN: table.mean(axis=1)}.items()
        }

    def match(self) -> tuple[PatchNumber, Scores]:
        """Match the reference's patches in every image.

        All of them have a right match.
        """
        images = [
            (scene, files, image)
            for scene, files, size in zip(self.vectors, self.files, self.sizes, strict=True)
            for image in size.images
        ]
        sizes = [len(files[REFERENCE]) for _, files, _ in images]
        areas: dict[str, Floats] = {}
        for letter in self.letters:
            lists = [
                (_count_wrong(files[REFERENCE], files[f"{letter}{image}"], self.metric), n)
                for (_, files, image), n in zip(images, sizes, strict=True)
            ]
            areas[letter] = np.array([float(trapezoid_area(wrong, n)) for wrong, n in lists])
            curve = mean_curve(curve_of(wrong, n) for wrong, n in lists)
            self._add_curve("matching", letter, curve, float(np.mean([1 / n for n in sizes])))
        intervals = self._means(areas, [scene for scene, _, _ in images])
        n = len(images) * len(areas)
        named = [
            (as_id(f"{scene}/{letter}{image}"), scene)
            for letter in areas
            for scene, _, image in images
        ]
        number = PatchNumber("matching", "", "AP", intervals, trapezoid_chance(sizes), n)
        return number, self._scores(named, np.concatenate(list(areas.values())).tolist())

    def _means(self, values: Mapping[str, Floats], scenes: list[str]) -> dict[str, Interval]:
        """Return means by difficulty and over difficulties.

        Whole sequences are resampled.
        """
        mean = np.mean(list(values.values()), axis=0)
        named = {DIFFICULTIES[letter]: numbers for letter, numbers in values.items()}
        return {
            part: interval(numbers, clusters=scenes, bounds=(0.0, 1.0), **self.resampling)
            for part, numbers in {**named, _MEAN: mean}.items()
        }

    def _scores(self, named: list[tuple[str, str]], values: Sequence[float]) -> Scores:
        """Return areas as AP of lists with these ids and sequences."""
        check_unique(Ids.of([key for key, _ in named]), "query")
        by_id = {key: value for (key, _), value in zip(named, values, strict=True)}
        about = {"split": self.tasks.split, "tasks": self.tasks.source, "metric": self.metric}
        scores = plain_scores("AP", by_id).with_groups(scene=dict(named))
        return scores.but_settings(area="trapezoids", **about)

    def retrieve(self) -> tuple[list[PatchNumber], Scores]:
        """Retrieve the query's patch among patches of other sequences."""
        tasks, n = self.tasks, len(self.tasks.queries)
        # The benchmark's sizes up to the first with all distractors.
        whole = [at for at, size in enumerate(POOLS) if size >= len(tasks.distractors)]
        pools = list(POOLS[: whole[0] + 1 if whole else len(POOLS)])
        areas = {letter: np.zeros((n, len(pools))) for letter in self.letters}
        chance = np.zeros((n, len(pools)))
        for scene in np.unique(tasks.queries[:, 0]):
            rows = np.flatnonzero(tasks.queries[:, 0] == scene)
            pool = tasks.distractors[tasks.distractors[:, 0] != scene]
            by_letter = self._search(int(scene), tasks.queries[rows, 1], pool, pools)
            for letter, part in by_letter.items():
                areas[letter][rows] = part
            right = len(self.sizes[scene].images)
            chance[rows] = ranks.chance_area(right, np.minimum(pools, right + len(pool)))
        scenes = [tasks.scenes[number] for number in tasks.queries[:, 0]]
        numbers = [
            PatchNumber(
                "retrieval",
                f"pool of {size}",
                "AP",
                self._means({key: part[:, at] for key, part in areas.items()}, scenes),
                float(chance[:, at].mean()) if n else math.nan,
                n,
            )
            for at, size in enumerate(pools)
        ]
        named = [
            (as_id(f"{tasks.scenes[scene]}/{row}"), tasks.scenes[scene])
            for scene, row in tasks.queries.tolist()
        ]
        last = np.mean([part[:, -1] for part in areas.values()], axis=0)
        return numbers, self._scores(named, last.tolist())

    def _search(
        self, scene: int, patches: Ints, pool: Ints, pools: Sequence[int]
    ) -> dict[str, Floats]:
        """Return the areas of a sequence's queries by size of pool."""
        files, images = self.files[scene], self.sizes[scene].images
        queries = files[REFERENCE][patches]
        distractors = self._rows("", np.insert(pool, 1, 0, axis=1))
        right = {
            letter: [files[f"{letter}{image}"][patches] for image in images]
            for letter in self.letters
        }
        every = [rows for per_image in right.values() for rows in per_image]
        scale = ranks.largest_distance(queries, distractors, *every, metric=self.metric)
        table = ranks.pair_distances(queries, distractors, self.metric, scale)
        ends = [max(0, min(size - len(images), len(pool))) for size in pools]
        areas = {}
        for letter, rows in right.items():
            near = np.stack(
                [ranks.row_distances(queries, image, self.metric, scale) for image in rows], axis=1
            )
            near.sort(axis=1)
            nearer = np.stack([_count_nearer(table, limits, ends) for limits in near.T], axis=-1)
            areas[letter] = trapezoid_area(nearer, len(images))
        return areas


def _count_nearer(table: Floats, limit: Floats, ends: Sequence[int]) -> Ints:
    """Count nearer distractors among the first ones, for each end."""
    nearer = table < limit[:, None]
    starts = (0, *ends[:-1])
    more = [nearer[:, start:end].sum(axis=1) for start, end in zip(starts, ends, strict=True)]
    return np.cumsum(np.stack(more, axis=1), axis=1)


def _count_wrong(reference: Array, rows: Array, metric: str) -> Ints:
    """Count the wrong nearest neighbours before each right one."""
    near = ranks.nearest_two(reference, rows, metric)
    right = near.nearest == np.arange(len(reference))
    judged = right[np.argsort(near.best, kind="stable")]
    return np.asarray(np.cumsum(~judged)[judged], np.int64)


def matching_chance(sizes: Sequence[int]) -> float:
    """Return the mean AP of random nearest neighbours, for images of so many patches."""
    return float(np.mean([_chance_list(n) / n for n in sizes]))


def trapezoid_chance(sizes: Sequence[int]) -> float:
    """Return the mean area of random nearest neighbours, for images of so many patches.

    m of n are right, m binomial with mean 1.
    """
    return float(np.mean([(2 / n - 1 / n**2 + _chance_list(n)) / (2 * n) for n in sizes]))


def _chance_list(n: int) -> float:
    mean = float((1 / np.arange(1, n + 1)).sum()) / n
    return mean + (1 - mean) / n


@dataclass(frozen=True, eq=False)
class _PairList:
    """Right and wrong pairs by distance: the sequences of each, and how many others are nearer."""

    right_scenes: Ints  # two columns
    wrong_scenes: Ints
    wrong_nearer: Ints  # than each right pair, or as near
    right_nearer: Ints  # than each wrong pair

    @classmethod
    def of(cls, right: Floats, wrong: Floats, pairs: Ints, others: Ints) -> _PairList:
        """Build the list from distances and their pairs."""
        first, second = np.argsort(right, kind="stable"), np.argsort(wrong, kind="stable")
        right, wrong = right[first], wrong[second]
        return cls(
            pairs[first][:, [0, 3]],
            others[second][:, [0, 3]],
            np.searchsorted(wrong, right, side="right"),
            np.searchsorted(right, wrong, side="left"),
        )

    def ap(self, without: int = -1) -> float:
        """Return the area under precision-recall, perhaps without a sequence."""
        right, wrong = self._kept(without)
        counts = np.concatenate([[0], np.cumsum(wrong)])[self.wrong_nearer][right]
        return float(trapezoid_area(counts, len(counts))) if len(counts) else math.nan

    def auc(self, without: int = -1) -> float:
        """Return the area under ROC, perhaps without a sequence.

        It is the share of right pairs that are nearer than a wrong one.
        """
        right, wrong = self._kept(without)
        counts = np.concatenate([[0], np.cumsum(right)])[self.right_nearer][wrong]
        total = int(right.sum())
        return float(counts.mean() / total) if total and len(counts) else math.nan

    def _kept(self, without: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        right, wrong = (
            (scenes != without).all(axis=1) for scenes in (self.right_scenes, self.wrong_scenes)
        )
        return right, wrong
