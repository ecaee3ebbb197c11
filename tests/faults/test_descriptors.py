"""What must happen when things go wrong with descriptors; the numbers are those of the list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")

from assay.errors import InputError, MismatchError, ShapeError, ValueRangeError, install_command
from assay.vision import DescriptorResult, Scene, experiment_from, rank_pair, run_experiment
from assay.vision.keypoints import choose_names
from assay.vision.run import SceneCheckpoint
from tests.conftest import Answer
from tests.vision.small_scenes import experiment_text, scene_folders, small_scenes

Assay = Callable[..., Answer]

TWO = np.array([[1.0, 2.0], [3.0, 4.0]])


def _ranked(left: Any, right: Any, truth: Any = (0, 1), **more: Any) -> Any:
    return rank_pair(left, right, truth=truth, scene="s", pair="1-2", **more)


def _run(scenes: Any, folder: Any = None, **more: Any) -> Any:
    data = {
        "dataset": {"path": "x"},
        "descriptors": ["ORB"],
        "keypoints": {"detector": "orb", "border": 20, "strongest": 40},
        **more,
    }
    return run_experiment(experiment_from(data), scenes=scenes, work_folder=folder)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_in_one_descriptor(bad: float) -> None:
    broken = TWO.copy()
    broken[1, 0] = bad
    with pytest.raises(ValueRangeError, match=r"vectors of queries holds .* at row 1, column 0"):
        _ranked(broken, TWO)
    with pytest.raises(ValueRangeError, match=r"vectors of targets holds"):
        _ranked(TWO, broken)
    spared = _ranked(broken, TWO, failed_queries=[False, True])
    assert spared.failed.tolist() == [False, True]


def test_zero_descriptors_are_failures_not_missing_truth() -> None:
    pair = _ranked([[0.0, 0.0], [3.0, 4.0]], TWO)
    assert (pair.n_failed, pair.n_excluded) == (1, 0)
    assert DescriptorResult.of("x", [pair]).mean()["AP"] == 0.5


@pytest.mark.parametrize("rows", [np.zeros(3), np.zeros((1, 2, 3)), np.zeros((0, 2)), TWO[:, :0]])
def test_shapes(rows: Any) -> None:
    with pytest.raises(ShapeError, match=r"found shape \("):
        _ranked(rows, TWO, [0])


def test_dimensions_differ() -> None:
    with pytest.raises(MismatchError, match="2 columns and target_vectors 1"):
        _ranked(TWO, TWO[:, :1])


def test_any_layout_gives_the_same_answer() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 12, 6)).astype(np.float32)
    truth = rng.integers(0, 12, 12)
    wanted = _ranked(left, right, truth)
    for change in (
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a.astype(">f4"),
        np.float64,
    ):
        found = _ranked(change(left), change(right), truth)
        assert found.above.tolist() == wanted.above.tolist()


def test_bits_must_be_packed_bytes() -> None:
    with pytest.raises(ValueRangeError, match=r"packed in uint8, found float64"):
        _ranked(TWO, TWO, metric="hamming")


def test_lengths_differ() -> None:
    with pytest.raises(MismatchError, match="truth has 3, query_vectors has 2"):
        _ranked(TWO, TWO, [0, 1, 1])
    for name in ("query_ids", "outside", "failed_queries", "failed_targets"):
        with pytest.raises(MismatchError, match=f"{name} has 1"):
            _ranked(TWO, TWO, **{name: [True]})
    with pytest.raises(InputError, match="must lie from"):
        _ranked(TWO, TWO, [0, 2])


def test_a_constant_descriptor_is_worth_chance() -> None:
    same = np.full((50, 3), 0.7)
    result = DescriptorResult.of("x", [_ranked(same, same, np.arange(50))])
    assert result.mean()["AP"] == pytest.approx(result.chance()["AP"])


def test_any_number_of_threads_gives_the_same_bytes() -> None:
    rng = np.random.default_rng(1)
    left, right = rng.integers(0, 4, (2, 300, 8)).astype(np.float32)
    truth = rng.integers(-1, 300, 300)
    found = [_ranked(left, right, truth, threads=n, matching=True) for n in (1, 2, 4)]
    for name in ("above", "tied", "before", "nearest", "right"):
        assert len({getattr(one, name).tobytes() for one in found}) == 1


def test_names_never_become_paths(tmp_path: Path) -> None:
    checkpoint = SceneCheckpoint(tmp_path)
    hostile = ["../../x", "a/b", "a\\b", "", "con", "é" * 300, "a\0b", "A", "a"]
    paths = [checkpoint.path(name, name) for name in hostile]
    assert len(set(paths)) == len(hostile)
    for path in paths:
        assert path is not None
        assert path.parent == tmp_path
        assert len(path.name) < 200


def test_unreadable_images_are_listed_and_the_rest_goes_on(
    assay: Assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scene_folders(tmp_path / "data")
    (tmp_path / "data" / "v_brick" / "3.png").write_bytes(b"no picture at all")
    broken = (tmp_path / "data" / "i_camera" / "1.png").read_bytes()
    (tmp_path / "data" / "i_camera" / "1.png").write_bytes(broken[: len(broken) // 2])
    (tmp_path / "e.yaml").write_text(experiment_text("data", descriptors="[ORB]"))
    answer = assay("descriptors", "run", "e.yaml", "--full")
    assert answer.code == 1
    assert "FAILED ORB v_brick 1-3:" in answer.out
    assert "FAILED ORB i_camera 1-2:" in answer.out
    assert "truncated" in answer.out
    assert "v_astronaut" not in answer.out.split("FAILED", 1)[1]
    again = assay("descriptors", "run", "e.yaml", "--full")
    assert "2 scenes evaluated, 1 reused" in again.out  # failures are tried again


@pytest.mark.parametrize(("n_scenes", "words"), [(2, "fewer distractors"), (1, "not computed")])
def test_a_broken_scene_gives_no_distractors_and_the_rest_goes_on(
    n_scenes: int, words: str
) -> None:
    flat = np.full((200, 220), 128, np.uint8)
    first, *others = small_scenes()
    broken = Scene(first.name, first.category, (flat, *first.images[1:]), first.homographies)
    found = run_experiment(
        experiment_from(
            {
                "dataset": {"path": "unused"},
                "descriptors": ["ORB"],
                "keypoints": {"detector": "orb", "border": 20, "strongest": 60},
                "evaluation": {
                    "verification": {"scenes": n_scenes, "seed": _seed_with(broken.name)}
                },
            }
        ),
        scenes=[broken, *others],
    )
    assert {failure.scene for _, failure in found.failures} == {broken.name}
    assert any(f"{words}" in note and broken.name in note for note in found.notes)
    result = found.headline[0]
    assert set(result.scene_names) == {scene.name for scene in others}
    pooled = result.task("verification")
    for part in pooled.scenes if pooled is not None else ():
        drawn = {name.split("/")[0] for name in part.distractors}
        assert drawn
        assert broken.name not in drawn


def _seed_with(name: str) -> int:
    """A seed by which the first choice of another scene is this one."""
    others = [scene.name for scene in small_scenes()]
    return next(
        seed
        for seed in range(99)
        if choose_names(seed, f"distractors of {others[1]}", [name, others[2]], 1) == [name]
    )


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _run(small_scenes())
    from assay.vision import run

    real, calls = run.evaluate_scene, []

    def stopping(scene: Any, work: Any) -> Any:
        calls.append(scene.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(scene, work)

    monkeypatch.setattr(run, "evaluate_scene", stopping)
    with pytest.raises(KeyboardInterrupt):
        _run(small_scenes(), tmp_path)
    resumed = _run(small_scenes(), tmp_path)
    assert (resumed.n_computed, resumed.n_reused) == (2, 1)
    one, other = resumed.headline[0], whole.headline[0]
    assert one.scores.values.tobytes() == other.scores.values.tobytes()


def test_interrupted_on_the_command_line(
    assay: Assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    scene_folders(tmp_path / "data")
    (tmp_path / "e.yaml").write_text(experiment_text("data"))
    monkeypatch.setattr("assay.vision.run.evaluate_scene", interrupted)
    answer = assay("descriptors", "run", tmp_path / "e.yaml")
    assert answer.code == 130
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("damage", ["cut", "flip", "text"])
def test_a_damaged_part_is_computed_again(tmp_path: Path, damage: str) -> None:
    scenes = small_scenes()[:1]
    first = _run(scenes, tmp_path)
    [path] = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[len(content) // 3] ^= 0xFF
    else:
        content = bytearray(b"not an archive")
    path.write_bytes(content)
    again = _run(scenes, tmp_path)
    assert again.n_computed == 1
    assert again.headline[0].query_set == first.headline[0].query_set
    assert _run(scenes, tmp_path).n_reused == 1


def test_one_scene_has_no_interval_and_no_invented_number(assay: Assay, tmp_path: Path) -> None:
    scene_folders(tmp_path / "data")
    (tmp_path / "e.yaml").write_text(
        experiment_text("data", dataset="{path: data, scenes: [v_brick]}", evaluation="{tau: 3}")
    )
    answer = assay("descriptors", "run", tmp_path / "e.yaml")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("Too few groups (1) to compare SIFT and ORB on AP: at least 3 are")


def test_hostile_scene_names_are_shown_literally(assay: Assay, tmp_path: Path) -> None:
    scene_folders(tmp_path / "data")
    (tmp_path / "data" / "v_brick").rename(tmp_path / "data" / "v_\x1b[31m <b> =1+1;x y")
    (tmp_path / "e.yaml").write_text(experiment_text("data", descriptors="[ORB]"))
    answer = assay("descriptors", "run", tmp_path / "e.yaml", "--scenes")
    assert answer.code == 0, answer.err
    assert "\x1b" not in answer.out
    assert "v_\\x1b[31m <b> =1+1;x y" in answer.out
    assert assay("descriptors", "run", tmp_path / "e.yaml", "--json").code == 0


def test_an_unknown_key_ends_with_3(assay: Assay, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(experiment_text("data", evaluation="{tua: 3}"))
    answer = assay("descriptors", "run", tmp_path / "e.yaml")
    assert answer.code == 3
    assert "unknown key 'tua'. Did you mean tau?" in answer.err
    assert not (tmp_path / "e.yaml.parts").exists()


@pytest.mark.parametrize(
    ("text", "code"),
    [("1 0\n0 1\n", 3), ("1 2 3\n2 4 6\n0 0 1\n", 3), ("1 0 0\n0 1 0\n0 0 nan\n", 3)],
)
def test_bad_homographies_are_named(assay: Assay, tmp_path: Path, text: str, code: int) -> None:
    scene_folders(tmp_path / "data")
    (tmp_path / "data" / "v_brick" / "H_1_2").write_text(text)
    (tmp_path / "e.yaml").write_text(experiment_text("data"))
    answer = assay("descriptors", "run", tmp_path / "e.yaml")
    assert answer.code == code
    assert "H_1_2" in answer.err


def test_an_image_without_keypoints_is_a_failure() -> None:
    grey = np.full((200, 220, 3), 128, np.uint8)
    first, *rest = small_scenes()
    flat = Scene("flat", "", (first.images[0], grey), {2: np.eye(3)})
    found = _run([flat, *rest])
    assert found.n_failed >= 1
    [(name, failure)] = found.failures
    assert (name, failure.scene, failure.pair) == ("ORB", "flat", "1-2")
    assert "has no keypoints left" in failure.reason


def test_an_unknown_descriptor_stops_at_once(assay: Assay, tmp_path: Path) -> None:
    scene_folders(tmp_path / "data")
    (tmp_path / "e.yaml").write_text(experiment_text("data", descriptors="[SIFTT]"))
    answer = assay("descriptors", "run", tmp_path / "e.yaml")
    assert answer.code == 2
    assert "Unknown descriptor 'SIFTT'. Did you mean SIFT?" in answer.err


def test_without_opencv_the_pip_command(
    assay: Assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene_folders(tmp_path / "data")
    (tmp_path / "e.yaml").write_text(experiment_text("data"))
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    answer = assay("descriptors", "run", tmp_path / "e.yaml")
    assert answer.code == 4
    assert install_command("vision") in answer.err
