"""Experiments from a file to results: settings, resuming, failures, tasks, merging."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")

from assay.errors import FormatError, InputError, MissingPackageError, UsageError
from assay.vision import (
    Experiment,
    ExperimentReport,
    ExperimentResult,
    KeypointSettings,
    compare_descriptors,
    describe_image,
    experiment_from,
    make_pair,
    metadata_text,
    read_experiment,
    run_experiment,
    wide_row,
)
from assay.vision.compat import CATEGORIES, row_with_metadata
from assay.vision.opencv_features import detect
from assay.vision.scenes import category_of
from assay.vision.settings import DistractorSettings

from .small_scenes import experiment_text, scene_folders, small_scenes

HERE = "tests.vision.small_scenes"
OXFORD = ("bark", "bikes", "boat", "graf", "leuven", "trees", "ubc", "wall")


def _experiment(**more: object) -> Experiment:
    return experiment_from(
        {
            "dataset": {"path": "unused"},
            "keypoints": {"detector": "orb", "border": 20, "strongest": 60},
            "descriptors": ["ORB"],
            **more,
        }
    )


def _run(**more: object) -> ExperimentResult:
    return run_experiment(_experiment(**more), scenes=small_scenes())


@pytest.fixture(scope="module")
def all_tasks() -> ExperimentResult:
    evaluation = {
        "tau": [3, 1],
        "verification": {"scenes": 2, "keypoints": 7, "seed": 5},
        "retrieval": True,
        "image_retrieval": {"keypoints": 30},
    }
    return _run(descriptors=["ORB", "SIFT"], evaluation=evaluation)


def _plain(value: object) -> object:
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _bytes(found: ExperimentResult) -> list[object]:
    """Everything of the results but seconds."""
    return [
        (
            one.name,
            one.scores.values.tobytes(),
            [(p.scene, p.pair, p.above.tobytes(), p.nearest.tobytes()) for p in one.pairs],
            [[_plain(value) for value in vars(count).values()] for count in one.pooled],
            None if one.image_retrieval is None else one.image_retrieval.values.tobytes(),
            one.query_set,
            one.failures,
        )
        for one in found.results
    ] + [found.notes, found.n_computed, found.n_reused]


@pytest.mark.parametrize("threads", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 8])
def test_scenes_side_by_side_change_no_byte(all_tasks: ExperimentResult, threads: int) -> None:
    experiment = replace(all_tasks.experiment)
    found = run_experiment(experiment, scenes=small_scenes(), threads=threads)
    assert _bytes(found) == _bytes(all_tasks)


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_each_image_is_searched_for_keypoints_once(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Each descriptor had the same keypoints found again, and so had distractors."""
    asked: list[str] = []

    def counting(image: Any, detector: str = "sift", **more: Any) -> Any:
        asked.append(f"{detector} {more['options']} {hash(image.tobytes())}")
        return detect(image, detector, **more)

    monkeypatch.setattr("assay.vision.scenes.detect", counting)
    fewer = {"detector": "orb", "border": 20, "strongest": 30}
    other = {"detector": "orb", "border": 20, "options": {"nfeatures": 100}}
    descriptors = [
        "ORB",
        "BRISK",
        {"name": "fewer", "type": "ORB", "keypoints": fewer},
        {"name": "other", "type": "ORB", "keypoints": other},
    ]
    experiment = _experiment(descriptors=descriptors, evaluation={"verification": True})
    run_experiment(experiment, scenes=small_scenes(), threads=threads)
    assert len(asked) == len(set(asked)) == 2 * 3 * 3


@pytest.mark.parametrize("threads", [1, 3])
def test_the_error_of_the_first_scene_is_raised(threads: int) -> None:
    """Whichever scene fails first by the clock."""
    experiment = _experiment(evaluation={"pairs": [7]})
    for _ in range(3):
        with pytest.raises(UsageError, match="Scene 'i_camera' has no image 7"):
            run_experiment(experiment, scenes=small_scenes(), threads=threads)


def test_functions_of_others_are_called_by_one_thread_at_a_time() -> None:
    found = run_experiment(
        _experiment(descriptors=[{"name": "alone", "type": f"{HERE}:alone"}]),
        scenes=small_scenes(),
        threads=3,
    )
    assert found.failures == ()


def test_progress_counts_scenes_of_all_descriptors() -> None:
    seen: list[tuple[int, int | None]] = []
    run_experiment(
        _experiment(descriptors=["ORB", "SIFT"]),
        scenes=small_scenes(),
        threads=2,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (6, 6)
    assert sorted(seen) == seen


def test_an_interrupted_run_ends(tmp_path: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    experiment = _experiment(descriptors=["ORB", "SIFT"])
    with pytest.raises(KeyboardInterrupt):
        run_experiment(
            experiment, scenes=small_scenes(), threads=2, work_folder=tmp_path, progress=interrupt
        )
    again = run_experiment(experiment, scenes=small_scenes(), work_folder=tmp_path)
    assert again.n_computed + again.n_reused == 6


def test_counts_agree_with_the_pairs_of_the_vision_part(all_tasks: ExperimentResult) -> None:
    keypoints = all_tasks.experiment.keypoints
    for scene in small_scenes():
        for k in scene.pairs:
            pair = make_pair(scene, k, keypoints=keypoints, descriptor="ORB", taus=(3.0, 1.0))
            for result in (all_tasks.results[0], all_tasks.results[1]):
                [ours] = [p for p in result.pairs if (p.scene, p.pair) == (scene.name, f"1-{k}")]
                counts = pair.counts[result.tau]
                assert ours.n_excluded == counts.no_match + counts.outside
                assert ours.n_failed == counts.failed
                assert int((ours.above >= 0).sum()) == counts.matched


def test_all_descriptors_answer_the_same_questions(all_tasks: ExperimentResult) -> None:
    assert len({one.query_set for one in all_tasks.headline}) == 1
    assert len({one.query_set for one in all_tasks.results}) == 2  # another τ is another truth
    assert compare_descriptors(all_tasks.headline).n_queries == all_tasks.headline[0].n_queries


def test_tasks_are_in_the_wide_row(all_tasks: ExperimentResult) -> None:
    row = wide_row(all_tasks.headline[0])
    for column in (
        "keypoint_verification_ap",
        "keypoint_retrieval_ap",
        "image_retrieval_map",
        "image_matching_map",
        "verification_viewpoint_ap",
        "retrieval_illumination_ap",
    ):
        assert 0 < row[column] <= 1
    assert row["retrieval_num_true_positives"] > 0


def test_distractors_are_drawn_by_seed_and_recorded(all_tasks: ExperimentResult) -> None:
    found = all_tasks.headline[0].task("verification")
    assert found is not None
    listed = ExperimentReport(all_tasks).to_dict()["results"][0]["tasks"]["verification"]
    for part in found.scenes:
        drawn = listed["distractors"][part.scene]
        assert part.scene not in drawn["scenes"]
        assert len(drawn["scenes"]) == 2
        assert part.query_negatives.max() == len(set(drawn["keypoints"])) == 14
        assert part.seed == drawn["seed"] == 5
        # Every name is a keypoint of the first image of its scene.
        for name in drawn["keypoints"]:
            scene, _, keypoint = name.partition("/")
            assert scene in drawn["scenes"]
            assert keypoint in _first_ids(scene)
    other = _run(evaluation={"verification": {"scenes": 2, "keypoints": 7, "seed": 6}})
    assert other.headline[0].task("verification").mean() != found.mean()  # type: ignore[union-attr]


@cache
def _first_ids(name: str) -> set[str]:
    [scene] = [scene for scene in small_scenes() if scene.name == name]
    settings = KeypointSettings(detector="orb", border=20, strongest=60)
    return set(
        map(str, describe_image(scene, 1, keypoints=settings, descriptor="ORB").keypoints.ids)
    )


def test_columns_of_verification_and_retrieval_are_the_authors_numbers(
    all_tasks: ExperimentResult,
) -> None:
    result = all_tasks.headline[0]
    row = wide_row(result)
    for task in ("verification", "retrieval"):
        pooled = result.task(task)
        assert pooled is not None
        assert row[f"keypoint_{task}_ap"] == pooled.author_mean()
        assert row[f"{task}_viewpoint_ap"] == pooled.author_mean("viewpoint")
        for rule in ("paper", "program"):
            assert wide_row(result, rule=rule)[f"keypoint_{task}_ap"] == pooled.mean(rule)
    # A verification list has wrong neighbours of the scene itself, a retrieval list has none.
    assert row["keypoint_verification_ap"] != row["keypoint_retrieval_ap"]
    saved = {(item.average, item.subset): item.value for item in result.records()[0].aggregates}
    assert saved["authors", "verification"] == pytest.approx(row["keypoint_verification_ap"])


def test_the_wide_row_has_the_columns_of_all_named_categories(
    all_tasks: ExperimentResult,
) -> None:
    row = row_with_metadata(all_tasks.headline[0])
    names = {category_of(name) for name in ("v_a", "i_a", *OXFORD)}
    assert len(row) == 49
    for category in names:
        columns = {
            f"{category}_map",
            f"{category}_map_including_zeros",
            f"verification_{category}_ap",
            f"retrieval_{category}_ap",
        }
        assert columns <= set(row)
    assert names == set(CATEGORIES)


def test_tighter_tolerance_excludes_more(all_tasks: ExperimentResult) -> None:
    wide, tight = all_tasks.results[:2]
    assert (wide.tau, tight.tau) == (3.0, 1.0)
    assert tight.n_excluded > wide.n_excluded


def test_scenes_apart_merge_to_the_whole(all_tasks: ExperimentResult) -> None:
    experiment = replace(
        all_tasks.experiment,
        evaluation=replace(
            all_tasks.experiment.evaluation, image_retrieval=None, verification=None, retrieval=None
        ),
    )
    whole = run_experiment(experiment, scenes=small_scenes()).headline
    parts = [run_experiment(experiment, scenes=[scene]).headline for scene in small_scenes()]
    for number, result in enumerate(whole):
        merged = parts[2][number].merge(parts[0][number], parts[1][number])
        assert merged.scores.values.tobytes() == result.scores.values.tobytes()
        ours, theirs = map(metadata_text, (merged, result))
        assert ours.split("processing_time")[0] == theirs.split("processing_time")[0]


def test_a_constant_descriptor_scores_chance() -> None:
    result = _run(descriptors=[f"{HERE}:constant"]).headline[0]
    assert result.mean()["AP"] == pytest.approx(result.chance()["AP"], rel=1e-9)
    assert result.mean()["AP"] < 0.2
    best = replace(result, conventions=result.conventions.replace(ties="best"))
    assert best.mean()["AP"] == 1.0  # which is why ties are not optimistic


def test_failed_descriptors_are_seen() -> None:
    result = _run(descriptors=[{"name": "gaps", "type": f"{HERE}:sometimes_zero"}])
    assert result.n_failed > 0
    assert result.headline[0].n_failed == result.n_failed
    assert any("12 of 60 keypoints of i_camera/1 could not be described" in n for n in result.notes)
    same = _run().headline[0]
    assert same.query_set == result.headline[0].query_set  # failures are no other questions


def test_projected_keypoints_are_their_own_matches() -> None:
    result = _run(keypoints={"source": "project", "detector": "orb", "border": 20}).headline[0]
    light = [pair for pair in result.pairs if pair.scene == "i_camera"]
    assert all(pair.n_excluded == 0 for pair in light)
    assert result.n_excluded > 0


def test_descriptors_with_keypoints_of_their_own_are_not_compared() -> None:
    own = {"name": "SIFT", "type": "SIFT", "keypoints": {"detector": "sift", "border": 20}}
    found = _run(descriptors=["ORB", own]).headline
    with pytest.raises(InputError, match="results have different queries: 'ORB' has"):
        compare_descriptors(found)
    assert compare_descriptors(found, force=True).n_queries == 3


def test_a_scene_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    folder = scene_folders(tmp_path / "data")
    file = tmp_path / "e.yaml"
    file.write_text(experiment_text("data"))
    experiment = read_experiment(file)
    first = run_experiment(experiment, work_folder=tmp_path / "parts")
    assert (first.n_computed, first.n_reused) == (6, 0)
    again = run_experiment(experiment, work_folder=tmp_path / "parts")
    assert (again.n_computed, again.n_reused) == (0, 6)
    for one, other in zip(first.results, again.results, strict=True):
        assert one.scores.values.tobytes() == other.scores.values.tobytes()
        assert metadata_text(one) == metadata_text(other)
    loose = replace(experiment, evaluation=replace(experiment.evaluation, ties="worst"))
    assert run_experiment(loose, work_folder=tmp_path / "parts").n_computed == 0
    _exchange(folder / "v_brick" / "1.png", folder / "v_brick" / "2.png")
    changed = run_experiment(experiment, work_folder=tmp_path / "parts")
    assert (changed.n_computed, changed.n_reused) == (2, 4)


def _exchange(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def test_other_settings_are_noticed(tmp_path: Path) -> None:
    scenes = small_scenes()
    experiment = _experiment()
    run_experiment(experiment, scenes=scenes, work_folder=tmp_path)
    for name, value in (
        ("symmetric", True),
        ("matching", False),
        ("verification", DistractorSettings(2)),
    ):
        other = replace(experiment, evaluation=replace(experiment.evaluation, **{name: value}))
        assert run_experiment(other, scenes=scenes, work_folder=tmp_path).n_reused == 0
    stronger = replace(experiment, keypoints=replace(experiment.keypoints, strongest=50))
    assert run_experiment(stronger, scenes=scenes, work_folder=tmp_path).n_reused == 0


def test_a_function_that_was_edited_is_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import numpy\ndef describe(image, points):\n    return numpy.ones((len(points), 4))"
    (tmp_path / "own_descriptor.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    experiment = _experiment(descriptors=[{"name": "own", "type": "own_descriptor:describe"}])
    reused = []
    for text in (code, code, code + " * 2"):
        (tmp_path / "own_descriptor.py").write_text(text)
        run = run_experiment(experiment, scenes=small_scenes(), work_folder=tmp_path / "parts")
        reused.append(run.n_reused)
    assert reused == [0, 3, 0]


def test_distractors_from_a_file_that_changed_are_drawn_again(tmp_path: Path) -> None:
    """What is given for one scene is a distractor of the others."""
    sides = {
        (scene.name, k): describe_image(scene, k, keypoints=_experiment().keypoints)
        for scene in small_scenes()
        for k in (1, 2, 3)
    }
    for (scene, k), side in sides.items():
        np.savez(tmp_path / f"{scene}-{k}.npz", vectors=side.described.vectors)
    experiment = _experiment(
        descriptors=[{"name": "net", "type": str(tmp_path / "{scene}-{image}.npz")}],
        evaluation={"verification": {"scenes": 2}},
    )
    counts = []
    for factor in (1, 1, 3):
        rows = sides["v_brick", 1].described.vectors * factor
        np.savez(tmp_path / "v_brick-1.npz", vectors=rows)
        run = run_experiment(experiment, scenes=small_scenes(), work_folder=tmp_path / "parts")
        assert [one.failures for one in run.headline] == [()]
        counts.append(run.n_reused)
    assert counts == [0, 3, 0]


def test_kept_tasks_come_back_bit_by_bit(tmp_path: Path) -> None:
    experiment = _experiment(evaluation={"verification": {"scenes": 2}, "image_retrieval": True})
    runs = [
        run_experiment(experiment, scenes=small_scenes(), work_folder=tmp_path) for _ in range(2)
    ]
    assert runs[1].n_reused == 3
    first, again = (run.headline[0] for run in runs)
    assert metadata_text(first) == metadata_text(again)
    np.testing.assert_array_equal(first.image_retrieval["AP"], again.image_retrieval["AP"])


def test_toml_and_yaml_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(experiment_text("data"))
    (tmp_path / "e.toml").write_text(
        '[dataset]\npath = "data"\n[keypoints]\ndetector = "orb"\nborder = 20\nstrongest = 60\n'
        "[evaluation]\ntau = [3, 1]\n"
        '[[descriptors]]\ntype = "ORB"\n[[descriptors]]\ntype = "SIFT"\n'
    )
    assert read_experiment(tmp_path / "e.yaml") == read_experiment(tmp_path / "e.toml")
    assert read_experiment(tmp_path / "e.yaml").dataset.path == str(tmp_path / "data")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("keypoint", "{}", r"unknown key 'keypoint'\. Did you mean keypoints\?"),
        ("evaluation", "{taus: 3}", r"evaluation: unknown key 'taus'\. Did you mean tau\?"),
        (
            "evaluation",
            "{tau: three}",
            r"evaluation: tau, number 1: expected a number, found 'three'",
        ),
        ("evaluation", "{tau: [3, -1]}", r"e\.yaml: evaluation: tau is -1\.0"),
        ("evaluation", "{ties: lucky}", r"ties: 'lucky' is not one of order, .*, midrank-up"),
        ("evaluation", "{matching: 1}", r"matching: expected a boolean, found 1"),
        ("evaluation", "{pairs: [1]}", r"pairs are numbers of images from 2 on, found 1"),
        (
            "evaluation",
            "{verification: {scenes: 0}}",
            r"verification: scenes: 0 must be at least 1",
        ),
        ("keypoints", "{strongest: 2.5}", r"keypoints: strongest: expected a whole number"),
        ("keypoints", "[1]", r"keypoints: expected a table, found \[1\]"),
        ("descriptors", "[SIFT, SIFT]", r"Two descriptors are called 'SIFT'"),
        ("descriptors", "[]", "Add at least one"),
        ("descriptors", "[{name: x}]", r"descriptors, number 1: the key 'type' is missing"),
        ("descriptors", "", r"the key 'descriptors' is missing"),
        ("dataset", "{path: !!python/object:os.system x}", r"is not YAML"),
        ("dataset", "{path: [a, b", r"is not YAML"),
        ("dataset", "{path: a, path: b}", r"the key 'path' appears twice"),
        ("dataset", "&a {path: *a}", r"write the value out"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(
    tmp_path: Path, key: str, value: str, message: str
) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(experiment_text("data", **{key: value}))
    with pytest.raises(FormatError, match=message):
        read_experiment(file)


def test_unknown_scenes_and_pairs_are_named(tmp_path: Path) -> None:
    folder = scene_folders(tmp_path / "data")
    data = {"path": str(folder), "scenes": ["v_brik"]}
    with pytest.raises(InputError, match=r"no scene 'v_brik'\. Scenes: i_camera, v_astronaut"):
        run_experiment(_experiment(dataset=data))
    with pytest.raises(ValueError, match="has no image 7; it has 1 to 3"):
        _run(evaluation={"pairs": [7]})


def test_learned_features_run_from_their_files_alone(tmp_path: Path) -> None:
    """SIFT's keypoints and descriptors in files as networks write them give SIFT's numbers."""
    scene_folders(tmp_path / "data")
    settings = KeypointSettings(detector="orb", border=20, strongest=60)
    for scene in small_scenes():
        (tmp_path / scene.name).mkdir()
        for k in (1, 2, 3):
            side = describe_image(scene, k, keypoints=settings, descriptor="SIFT")
            np.savez(
                tmp_path / scene.name / f"{k}.npz",
                keypoints=side.keypoints.xy,
                scores=side.keypoints.response,
                descriptors=np.asarray(side.described.vectors),
            )
    files = "'{scene}/{image}.npz'"
    (tmp_path / "e.yaml").write_text(
        experiment_text(
            "data",
            keypoints=f"{{source: file, path: {files}, border: 0}}",
            descriptors=f"[{{name: net, type: {files}}}, {{name: own, type: {files}, "
            f"keypoints: {{source: file, path: {files}, border: 0}}}}]",
            evaluation="{tau: [3]}",
        )
    )
    [found, again] = run_experiment(read_experiment(tmp_path / "e.yaml")).results
    [own] = _run(descriptors=["SIFT"]).results
    assert found.n_queries == own.n_queries > 300
    assert found.scene_means() == again.scene_means() == own.scene_means()


def test_yaml_is_installed_with_what_describes_images(tmp_path, monkeypatch):
    (tmp_path / "e.yaml").touch()
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingPackageError, match=r"\[vision\]"):
        read_experiment(tmp_path / "e.yaml")
