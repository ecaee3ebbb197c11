"""HPatches' splits and task files: which sequences, pairs, queries and distractors are judged.

A folder as `tasks` of the hpatches-benchmark repository holds `splits/splits.json` and, for each
split, verif_pos_split-a.csv, verif_neg_intra_split-a.csv and verif_neg_inter_split-a.csv (columns
s1, t1, idx1, s2, t2, idx2), retr_queries_split-a.csv and retr_distractors_split-a.csv (s, idx). A
sequence is `s`, an image `t` (0 is the reference), a patch `idx`. Files that are not there are
replaced by a draw of the same kind.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from assay.arrays import Array, Ints
from assay.core.checks import name_few
from assay.errors import FormatError, MismatchError, UsageError
from assay.io.columns import numbered_rows
from assay.io.plain_data import parse_json
from assay.io.streams import read_text
from assay.vision.keypoints import draw

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
_BATCH: Final = 1 << 16
_DRAWN: Final = {"pairs": 100_000, "queries": 10_000, "distractors": 20_000}  # at most


@dataclass(frozen=True)
class SceneSize:
    """How many patches a sequence has, and in which images beside the reference, from 1 on."""

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
        """Where they come from, with a digest of what they are, for the signature."""
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
    listed = {} if folder is None else _read_splits(Path(folder))
    if split not in listed:
        if split not in _BY_NAME:
            has = f" {folder} has: {', '.join(listed)}." if listed else ""
            raise UsageError(
                f"The split {split!r} is a list of sequences in splits.json of HPatches' tasks: "
                f"name their folder.{has} Without a list there are {', '.join(_BY_NAME)}."
            )
        return tuple(sorted(name for name in names if name.startswith(_BY_NAME[split])))
    absent = [name for name in listed[split] if name not in names]
    if absent:
        raise MismatchError(
            f"The split {split!r} has the sequences {name_few(absent)}, for which there are no "
            "patches. Choose another split, or add them."
        )
    return listed[split]


def _read_splits(folder: Path) -> dict[str, tuple[str, ...]]:
    """Read the test sequences of each split that is listed."""
    places = (folder / "splits" / "splits.json", folder / "splits.json")
    file = next((path for path in places if path.is_file()), None)
    listed = {} if file is None else parse_json(read_text(file), str(file))
    tests = [listing.get("test") for listing in listed.values()] if _of_dicts(listed) else [None]
    if not all(
        isinstance(test, list) and all(isinstance(name, str) for name in test) for test in tests
    ):
        raise FormatError(f"{file}: each split needs a list of sequences under 'test'.")
    return {split: tuple(listing["test"]) for split, listing in listed.items()}


def _of_dicts(listed: Any) -> bool:
    return isinstance(listed, dict) and all(
        isinstance(listing, dict) for listing in listed.values()
    )


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
    drawn = tuple(kind for kind in _FILES if kind not in rows)
    if any(kind in drawn for kind in PAIRS):  # the three belong together
        drawn = tuple(dict.fromkeys((*PAIRS, *drawn)))
        rows.update(_draw_pairs(sizes, seed))
    if "queries" in drawn or "distractors" in drawn:
        drawn = tuple(dict.fromkeys((*drawn, "queries", "distractors")))
        rows.update(_draw_rows(sizes, seed))
    pairs = {kind: rows[kind] for kind in PAIRS}
    return PatchTasks(split, scenes, pairs, rows["queries"], rows["distractors"], drawn, seed)


def _read(path: Path, columns: tuple[str, ...], sizes: Mapping[str, SceneSize]) -> Ints:
    """Read a task file, sequences as numbers; check its ranges."""
    lines = numbered_rows(path)
    header = next(lines, (0, []))[1]
    if tuple(header) != columns:
        raise FormatError(
            f"{path}: the first line must be {','.join(columns)}, found {','.join(header)[:100]!r}."
        )
    number = {name: i for i, name in enumerate(sizes)}
    parts = [np.empty((0, len(columns)), np.int64)]
    while batch := list(islice(lines, _BATCH)):
        parts.append(_as_numbers(batch, columns, number, path))
    rows = np.concatenate(parts)
    _check_places(rows, columns, sizes, path)
    return rows


def _as_numbers(
    batch: list[tuple[int, list[str]]], columns: tuple[str, ...], number: dict[str, int], path: Path
) -> Ints:
    try:
        texts = list(zip(*(row for _, row in batch), strict=True))
        return np.array(
            [
                [number[text] for text in column] if name.startswith("s") else column
                for name, column in zip(columns, texts, strict=True)
            ],
            dtype=object,
        ).T.astype(np.int64)
    except (ValueError, KeyError, OverflowError):
        line, row = next((at, row) for at, row in batch if not _is_row(row, columns, number))
        raise FormatError(
            f"{path}, line {line}: {','.join(row)[:100]!r} is no row of {','.join(columns)} with "
            "a sequence of the split and whole numbers."
        ) from None


def _is_row(row: list[str], columns: tuple[str, ...], number: dict[str, int]) -> bool:
    return len(row) == len(columns) and all(
        cell in number if name.startswith("s") else cell.isdecimal() and len(cell) < 16
        for name, cell in zip(columns, row, strict=True)
    )


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
                f"{limit[row]}. Are the patches those that the tasks were made for?"
            )


def _draw_pairs(sizes: Mapping[str, SceneSize], seed: int) -> dict[str, Ints]:
    """Draw as many right, intra and inter pairs.

    The other two take the first patch of a right pair.
    """
    some = [i for i, size in enumerate(sizes.values()) if size.patches > 1]
    if not some or len(sizes) < 2:
        raise UsageError(
            "Verification needs two sequences or more, and one with two patches, to draw wrong "
            "pairs from."
        )
    per_scene = sum(size.patches * len(size.images) for size in sizes.values())
    n = min(_DRAWN["pairs"], 4 * per_scene)
    all_sizes = list(sizes.values())
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
