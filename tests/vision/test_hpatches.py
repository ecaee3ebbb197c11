"""HPatches' benchmark: its files, and its numbers against plain loops over sorted lists."""

from __future__ import annotations

import csv
import json
import math
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.errors import FormatError, MismatchError, UsageError
from assay.stats import interval
from assay.stats.confidence import jackknife_interval
from assay.vision import PatchScene, evaluate_patches, read_patch_scenes
from assay.vision.hpatches import (
    ProtocolResult,
    matching_chance,
    split_scenes,
    trapezoid_chance,
)
from assay.vision.ranks import RECALLS, chance_area, trapezoid_area

SCENES = ("i_dome", "i_fog", "v_wall", "v_yard")
LETTERS = {"e": "easy", "h": "hard", "t": "tough"}
NOISE = {"e": 0.4, "h": 1.0, "t": 2.0}
SIZES = {"i_dome": 9, "i_fog": 7, "v_wall": 12, "v_yard": 5}
WIDTH = 6

Files = dict[str, dict[str, Any]]


def make_vectors(*, step: float | None = None) -> Files:
    """Descriptors by sequence and file; a `step` rounds them, so that distances tie."""
    rng = np.random.default_rng(3)
    found: Files = {}
    for scene in SCENES:
        ref = rng.normal(size=(SIZES[scene], WIDTH))
        files = {"ref": ref}
        for letter, noise in NOISE.items():
            for image in range(1, 6):
                files[f"{letter}{image}"] = ref + noise * rng.normal(size=ref.shape)
        found[scene] = {
            key: (rows if step is None else np.round(rows / step) * step).astype(np.float32)
            for key, rows in files.items()
        }
    return found


def write_tasks(folder: Path, split: str, scenes: tuple[str, ...]) -> None:
    """A folder as `tasks` of the benchmark's repository, with its own names and headers."""
    rng = np.random.default_rng(5)
    (folder / "splits").mkdir(parents=True)
    listed = {split: {"name": split, "test": list(scenes), "train": []}}
    (folder / "splits" / "splits.json").write_text(json.dumps(listed))
    rows: dict[str, list[Any]] = {"verif_pos": [], "verif_neg_intra": [], "verif_neg_inter": []}
    for _ in range(150):
        scene, other = rng.choice(scenes), rng.choice(scenes)
        one, two = rng.choice(SIZES[scene], 2, replace=False)
        t1, t2 = rng.choice(6, 2, replace=False)
        far = rng.integers(SIZES[other])
        rows["verif_pos"].append((scene, t1, one, scene, t2, one))
        rows["verif_neg_intra"].append((scene, t1, one, scene, t2, two))
        rows["verif_neg_inter"].append((scene, t1, one, other, t2, far))
    patches = [(scene, row) for scene in scenes for row in range(SIZES[scene])]
    order = rng.permutation(len(patches))
    rows["retr_queries"] = [patches[at] for at in order[:8]]
    rows["retr_distractors"] = [patches[at] for at in order[8:]]
    for name, lines in rows.items():
        header = "s,idx" if name.startswith("retr") else "s1,t1,idx1,s2,t2,idx2"
        body = [",".join(map(str, line)) for line in lines]
        (folder / f"{name}_split-{split}.csv").write_text("\n".join([header, *body, ""]))


def _read(folder: Path, name: str, split: str) -> list[list[Any]]:
    with open(folder / f"{name}_split-{split}.csv") as file:
        lines = list(csv.reader(file))[1:]
    return [[cell if not cell.isdigit() else int(cell) for cell in line] for line in lines]


def _sorted_labels(entries: list[tuple[float, int]]) -> list[int]:
    """Labels by distance; equal distances keep their order."""
    return [label for _, label in sorted(entries, key=lambda entry: entry[0])]


def _plain_pr(entries: list[tuple[float, int]], total: int) -> float:
    """Points after each entry and one before all, joined by straight lines."""
    points, right, wrong = [(0.0, 1.0)], 0, 0
    for label in _sorted_labels(entries):
        right, wrong = right + label, wrong + 1 - label
        points.append((right / total, right / (right + wrong)))
    return _plain_area(points)


def _plain_roc(entries: list[tuple[float, int]]) -> float:
    n_right = sum(label for _, label in entries)
    points, right, wrong = [(0.0, 0.0)], 0, 0
    for label in _sorted_labels(entries):
        right, wrong = right + label, wrong + 1 - label
        points.append((wrong / (len(entries) - n_right), right / n_right))
    return _plain_area(points)


def _plain_area(points: list[tuple[float, float]]) -> float:
    pairs = pairwise(points)
    return math.fsum((x2 - x1) * (y1 + y2) / 2 for (x1, y1), (x2, y2) in pairs)


def _apart(a: Any, b: Any) -> float:
    return math.sqrt(sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True)))


def _at(files: Files, letter: str, scene: str, image: int, row: int) -> Any:
    return files[scene][f"{letter}{image}" if image else "ref"][row]


def _plain_verification(
    files: Files, folder: Path, split: str
) -> dict[tuple[str, str, str], float]:
    found = {}
    for kind, where in (("intra", "same sequence"), ("inter", "other sequences")):
        for letter, part in LETTERS.items():
            lists = [
                [
                    _apart(_at(files, letter, *row[:3]), _at(files, letter, *row[3:]))
                    for row in _read(folder, name, split)
                ]
                for name in ("verif_pos", f"verif_neg_{kind}")
            ]
            entries = [(one, 0) for one in lists[1]] + [(one, 1) for one in lists[0]]
            few = entries[: len(lists[1]) + int(0.2 * len(lists[0]))]
            found[f"{where}, balanced", "AUC", part] = _plain_roc(entries)
            found[f"{where}, balanced", "AP", part] = _plain_pr(entries, len(lists[0]))
            found[f"{where}, imbalanced", "AP", part] = _plain_pr(few, int(0.2 * len(lists[0])))
    return found


def _plain_matching(files: Files, scenes: tuple[str, ...], letter: str) -> dict[str, float]:
    found = {}
    for scene in scenes:
        ref = files[scene]["ref"]
        for image in range(1, 6):
            entries = []
            for row, query in enumerate(ref):
                far = [_apart(query, one) for one in files[scene][f"{letter}{image}"]]
                entries.append((min(far), int(far.index(min(far)) == row)))
            found[f"{scene}/{letter}{image}"] = _plain_pr(entries, len(ref))
    return found


def _plain_retrieval(
    files: Files, folder: Path, split: str, letter: str, pool: int
) -> dict[str, float]:
    found = {}
    for scene, row in _read(folder, "retr_queries", split):
        query = files[scene]["ref"][row]
        entries = [(_apart(query, _at(files, letter, scene, k, row)), 1) for k in range(1, 6)]
        for other, number in _read(folder, "retr_distractors", split):
            if other != scene:
                entries.append((_apart(query, files[other]["ref"][number]), 0))
        found[f"{scene}/{row}"] = _plain_pr(entries[:pool], 5)
    return found


def _scenes(files: Files) -> list[PatchScene]:
    return [PatchScene(name, "", rows) for name, rows in files.items()]


def _evaluate(files: Files, folder: Path | None, split: str = "a") -> ProtocolResult:
    found = evaluate_patches(_scenes(files), name="mine", split=split, tasks=folder, resamples=200)
    assert found.protocol is not None
    return found.protocol


def _number(result: ProtocolResult, task: str, variant: str, measure: str) -> Any:
    [found] = [
        one
        for one in result.numbers
        if (one.task, one.variant, one.measure) == (task, variant, measure)
    ]
    return found


@pytest.mark.parametrize("step", [None, 1.0])
def test_all_tasks_are_those_of_plain_loops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float | None
) -> None:
    """With a step many distances are equal: then the order of the program decides."""
    monkeypatch.setattr("assay.vision.hpatches.POOLS", (9, 13, 100))
    split = ("v_wall", "i_dome", "v_yard")
    write_tasks(tmp_path, "a", split)
    files = make_vectors(step=step)
    found = _evaluate(files, tmp_path)
    assert found.tasks.scenes == split
    assert found.tasks.drawn == ()
    for (variant, measure, part), value in _plain_verification(files, tmp_path, "a").items():
        number = _number(found, "verification", variant, measure)
        assert number.intervals[part].estimate == pytest.approx(value, abs=1e-9), (variant, part)
    matching = _number(found, "matching", "", "AP").intervals
    for letter, part in LETTERS.items():
        plain = _plain_matching(files, split, letter)
        assert matching[part].estimate == pytest.approx(np.mean(list(plain.values())), abs=1e-9)
        for one, value in plain.items():
            row = found.matching.query_ids.to_list().index(one)
            assert found.matching["AP"][row] == pytest.approx(value, abs=1e-9)
        for pool in (9, 13, 100):
            plain = _plain_retrieval(files, tmp_path, "a", letter, pool)
            number = _number(found, "retrieval", f"pool of {pool}", "AP")
            assert number.intervals[part].estimate == pytest.approx(np.mean(list(plain.values())))
    for number in found.numbers:
        parts = [number.intervals[part].estimate for part in LETTERS.values()]
        assert number.intervals["mean"].estimate == pytest.approx(np.mean(parts))


def test_intervals_are_over_sequences(tmp_path: Path) -> None:
    write_tasks(tmp_path, "full", SCENES)
    files = make_vectors()
    found = _evaluate(files, tmp_path, "full")
    plain = _plain_matching(files, SCENES, "h")
    wanted = interval(
        list(plain.values()),
        clusters=[one.partition("/")[0] for one in plain],
        bounds=(0.0, 1.0),
        resamples=200,
    )
    own = _number(found, "matching", "", "AP").intervals["hard"]
    assert (own.low, own.high) == pytest.approx((wanted.low, wanted.high))
    pooled = _number(found, "verification", "other sequences, imbalanced", "AP").intervals["hard"]
    left_out = []
    for scene in SCENES:
        (tmp_path / scene).mkdir()
        kept = {}
        few = int(0.2 * 150)
        for name in ("verif_pos", "verif_neg_inter"):
            rows = _read(tmp_path, name, "full")
            kept[name] = list(rows[: few if name == "verif_pos" else None])
        distances = {
            name: [
                _apart(_at(files, "h", *row[:3]), _at(files, "h", *row[3:]))
                for row in rows
                if scene not in (row[0], row[3])
            ]
            for name, rows in kept.items()
        }
        entries = [(one, 0) for one in distances["verif_neg_inter"]]
        entries += [(one, 1) for one in distances["verif_pos"]]
        left_out.append(_plain_pr(entries, len(distances["verif_pos"])))
    by_hand = jackknife_interval(pooled.estimate, np.array(left_out))
    assert (pooled.low, pooled.high) == pytest.approx((by_hand.low, by_hand.high))
    assert pooled.low < pooled.estimate < pooled.high


def test_splits_that_go_by_name_need_no_list_and_tasks_are_drawn() -> None:
    files = make_vectors()
    found = _evaluate(files, None, "view")
    assert found.tasks.scenes == ("v_wall", "v_yard")
    assert found.tasks.drawn == ("right", "intra", "inter", "queries", "distractors")
    assert split_scenes("illum", list(files)) == ("i_dome", "i_fog")
    assert split_scenes("full", list(files)) == SCENES
    right, intra, inter = (found.tasks.pairs[kind] for kind in ("right", "intra", "inter"))
    assert (right[:, :3] == intra[:, :3]).all()
    assert (right[:, :3] == inter[:, :3]).all()
    assert (right[:, [0, 2]] == right[:, [3, 5]]).all()
    assert (right[:, 1] != right[:, 4]).all()
    assert (intra[:, 2] != intra[:, 5]).all()
    assert not set(map(tuple, found.tasks.queries)) & set(map(tuple, found.tasks.distractors))
    again = _evaluate(files, None, "view")
    assert again.to_dict() == found.to_dict()
    other = evaluate_patches(_scenes(files), split="view", seed=1, resamples=200).protocol
    assert other is not None
    assert other.tasks.queries.tolist() != found.tasks.queries.tolist()
    with pytest.raises(UsageError, match=r"splits\.json"):
        _evaluate(files, None, "a")


def test_task_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    write_tasks(tmp_path, "a", SCENES)
    files = make_vectors()
    with pytest.raises(MismatchError, match="'v_yard'"):
        _evaluate({name: files[name] for name in SCENES[:3]}, tmp_path)
    with pytest.raises(UsageError, match="has: a"):
        _evaluate(files, tmp_path, "b")
    assert _evaluate(files, tmp_path, "view").tasks.scenes == ("v_wall", "v_yard")
    path = tmp_path / "retr_queries_split-a.csv"
    for text, words in (
        ("s,idx\ni_dome,3\ni_nowhere,1\n", "line 3: 'i_nowhere,1'"),
        ("s,idx\ni_dome,x\n", "line 2"),
        ("s,idx\ni_dome,3,4\n", "line 2"),
        ("s,i\ni_dome,3\n", "first line must be s,idx"),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match=words):
            _evaluate(files, tmp_path)
    path.write_text("s,idx\ni_dome,9\n")
    with pytest.raises(MismatchError, match="'i_dome' has only 9"):
        _evaluate(files, tmp_path)
    with pytest.raises(UsageError, match="Task files need a split, such as a"):
        evaluate_patches(_scenes(files), tasks=tmp_path)


def test_folders_as_the_benchmark_has_them(tmp_path: Path) -> None:
    """A folder a sequence with sixteen files of rows, apart by commas or semicolons."""
    files = make_vectors()
    for scene, rows in files.items():
        (tmp_path / "sift" / scene).mkdir(parents=True)
        for key, values in rows.items():
            delimiter = ";" if scene == "i_fog" else ","
            np.savetxt(tmp_path / "sift" / scene / f"{key}.csv", values, "%.9g", delimiter)
    read = read_patch_scenes(tmp_path / "sift")
    assert [scene.name for scene in read] == sorted(SCENES)
    for scene in read:
        assert set(scene.vectors) == {"ref"} | {f"{x}{k}" for x in "eht" for k in range(1, 6)}
    found = evaluate_patches(read, name="mine", split="full", resamples=200)
    assert found.protocol is not None
    assert found.protocol.to_dict() == _evaluate(files, None, "full").to_dict()


def test_chance_is_the_mean_over_all_orders() -> None:
    for right, wrong in ((1, 3), (2, 3), (3, 2)):
        orders = set(permutations([1] * right + [0] * wrong))
        plain = [_plain_pr([(i, one) for i, one in enumerate(order)], right) for order in orders]
        assert float(chance_area(right, right + wrong)) == pytest.approx(np.mean(plain))
        for order in orders:
            counts = [order[:at].count(0) for at, one in enumerate(order) if one]
            area = _plain_pr([(i, one) for i, one in enumerate(order)], right)
            assert float(trapezoid_area(counts, right)) == pytest.approx(area)


def test_chance_of_random_neighbours_in_all_patches() -> None:
    """All ways in which four patches choose a neighbour, in all orders of distance."""
    n, trapezoid, steps = 4, [], []
    for number in range(n**n):
        judged = [int((number // n**row) % n == row) for row in range(n)]
        for order in permutations(judged):
            trapezoid.append(_plain_pr([(i, one) for i, one in enumerate(order)], n))
            hits = [at for at, one in enumerate(order) if one]
            steps.append(sum((i + 1) / (at + 1) for i, at in enumerate(hits)) / n)
    assert trapezoid_chance([n]) == pytest.approx(np.mean(trapezoid))
    assert matching_chance([n]) == pytest.approx(np.mean(steps))


def test_curves_hold_precision_at_each_recall(tmp_path: Path) -> None:
    write_tasks(tmp_path, "full", SCENES)
    files = make_vectors()
    found = _evaluate(files, tmp_path, "full")
    tasks = {(one.task, one.part): one for one in found.curves}
    assert len(tasks) == 9
    for (_, part), letter in zip((("", p) for p in LETTERS.values()), LETTERS, strict=True):
        wanted = []
        for scene in SCENES:
            ref = files[scene]["ref"]
            for image in range(1, 6):
                far = [[_apart(q, o) for o in files[scene][f"{letter}{image}"]] for q in ref]
                judged = sorted((min(one), one.index(min(one)) != i) for i, one in enumerate(far))
                right = [at for at, (_, wrong) in enumerate(judged) if not wrong]
                need = max(1, math.ceil(0.5 * len(ref)))
                wanted.append(need / (right[need - 1] + 1) if len(right) >= need else 0.0)
        own = tasks["matching", part].precision[RECALLS.index(0.5)]
        assert own == pytest.approx(np.mean(wanted))
    curve = tasks["verification, same sequence", "easy"]
    assert curve.chance == pytest.approx(30 / 180)
    assert json.dumps(curve.to_dict())


def test_rows_of_zeros_are_taken_as_they_are_and_counted(tmp_path: Path) -> None:
    write_tasks(tmp_path, "full", SCENES)
    files = make_vectors()
    files["i_dome"]["ref"][2] = 0
    files["v_wall"]["h3"][[1, 4]] = 0
    found = _evaluate(files, tmp_path, "full")
    assert found.empty_rows == 3
    plain = _plain_matching(files, SCENES, "h")
    assert _number(found, "matching", "", "AP").intervals["hard"].estimate == pytest.approx(
        np.mean(list(plain.values()))
    )
