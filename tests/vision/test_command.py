"""`assay descriptors`: run, resume, draw, save, import, patches."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("cv2")

from assay.store import open as open_store
from tests.conftest import Answer
from tests.vision.small_scenes import experiment_text, scene_folders, small_scenes
from tests.vision.test_patch_networks import write_network

Assay = Callable[..., Answer]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes, an experiment file, and the parts of a first run, which others take up."""
    folder = tmp_path_factory.mktemp("descriptors")
    scene_folders(folder / "data")
    (folder / "e.yaml").write_text(
        experiment_text(
            "data", evaluation="{tau: [3, 1], resamples: 500, verification: {scenes: 2}}"
        )
    )
    return folder


@pytest.fixture
def there(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(shared)
    return shared


def test_run_prints_a_table_and_resumes(assay: Assay, there: Path) -> None:
    first = assay("descriptors", "run", "e.yaml", "--scenes", "--ranks", "--timings", "--full")
    assert first.code == 0, first.err
    for words in (
        "mAP (micro)",
        "mAP (macro)",
        "viewpoint",
        "illumination",
        "chance mAP",
        "keypoint verification, pooled (paper)",
        "image matching",
        "beyond 100",
        "v_astronaut",
        "τ = 1 px",
        "ties:expected",
        "describe",
    ):
        assert words in first.out
    again = assay("descriptors", "run", "e.yaml", "--full")
    assert "0 scenes evaluated, 6 reused" in again.out
    fresh = assay("descriptors", "run", "e.yaml", "--fresh", "--format", "csv")
    assert "6 scenes evaluated" in fresh.err
    assert fresh.out == assay("descriptors", "run", "e.yaml", "--format", "csv").out


def test_json_has_everything(assay: Assay, there: Path) -> None:
    data = json.loads(assay("descriptors", "run", "e.yaml", "--json").out)
    assert data["command"] == "descriptors"
    assert [(one["descriptor"], one["tau"]) for one in data["results"]] == [
        ("ORB", 3.0),
        ("ORB", 1.0),
        ("SIFT", 3.0),
        ("SIFT", 1.0),
    ]
    one = data["results"][0]
    assert one["wide"]["true_map_micro"] == one["categories"][0]["micro"]["mean"]
    assert set(one["tasks"]["verification"]["pooled"]) == {"paper", "program"}
    assert one["tasks"]["verification"]["distractors"]["v_brick"]["seed"] == 0
    assert one["metadata"].startswith("tau=3.0;true_map_micro=")
    assert {row["scene"] for row in one["scenes"]} == {"i_camera", "v_astronaut", "v_brick"}
    assert data["comparison"]["systems"] == ["ORB", "SIFT"]


def test_csv_holds_a_wide_row_for_each_descriptor_and_tolerance(assay: Assay, there: Path) -> None:
    assert assay("descriptors", "run", "e.yaml", "--csv", "wide.csv").code == 0
    with open("wide.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["descriptor"] for row in rows] == ["ORB", "ORB", "SIFT", "SIFT"]


def test_pictures_of_a_pair(assay: Assay, there: Path) -> None:
    answer = assay("descriptors", "run", "e.yaml", "--show", "v_brick/1-2", "--show-to", "pictures")
    assert answer.code == 0, answer.err
    assert sorted(path.name for path in (there / "pictures").iterdir()) == [
        "v_brick-1-2-ORB.png",
        "v_brick-1-2-SIFT.png",
    ]
    for pair in ("brick/1-2", "v_brick/1-9", "v_brick", "v_brick/x"):
        assert assay("descriptors", "run", "e.yaml", "--show", pair).code == 2


def test_pictures_are_refused_before_the_work_and_may_fail(assay: Assay, tmp_path: Path) -> None:
    data = scene_folders(tmp_path / "data")
    (data / "v_brick" / "3.png").write_text("no image")
    (tmp_path / "e.yaml").write_text(experiment_text("data", descriptors="[ORB]"))
    run = ("descriptors", "run", tmp_path / "e.yaml", "--show-to")
    for folder, pair, code, words in (
        (tmp_path / "e.yaml" / "absent", "v_brick/1-2", 5, "is not a folder"),
        (tmp_path, "v_brick/1-9", 2, "has no pair 1-9"),
    ):
        refused = assay(*run, folder, "--show", pair)
        assert (refused.code, refused.out) == (code, "")
        assert words in refused.err
    assert not (tmp_path / "e.yaml.parts").exists()  # nothing was computed
    broken = assay(*run, tmp_path, "--show", "v_brick/1-3")
    assert broken.code == 1
    assert "no picture of v_brick/1-3 by ORB" in broken.err
    assert "mAP (micro)" in broken.out


@pytest.mark.parametrize(
    ("kind", "metric", "words"),
    [
        (
            "ORB",
            "cosine",
            "gives bits. Omit metric: cosine",
        ),
        ("ORB", "l2", "gives bits. Omit metric: l2"),
        (
            "SIFT",
            "hamming",
            "gives floats. Set metric: l2",
        ),
    ],
)
def test_a_metric_that_does_not_fit_is_refused(
    assay: Assay, tmp_path: Path, kind: str, metric: str, words: str
) -> None:
    """l2 was taken for Hamming without a word."""
    scene_folders(tmp_path / "data")
    mine = f"[{{name: mine, type: {kind}, metric: {metric}}}]"
    (tmp_path / "e.yaml").write_text(experiment_text("data", descriptors=mine))
    answer = assay("descriptors", "run", tmp_path / "e.yaml")
    assert answer.code == 2
    assert f"The descriptor 'mine' {words}" in answer.err


def test_bits_may_be_said_to_have_hamming_distances(assay: Assay, tmp_path: Path) -> None:
    scene_folders(tmp_path / "data")
    found = []
    for mine in ("ORB", "{name: ORB, type: ORB, metric: hamming}"):
        (tmp_path / "e.yaml").write_text(experiment_text("data", descriptors=f"[{mine}]"))
        answer = assay("descriptors", "run", tmp_path / "e.yaml", "--fresh", "--json")
        found.append(json.loads(answer.out)["results"][0])
        for timed in ("timings", "metadata", "wide"):
            found[-1].pop(timed, None)
    assert found[0] == found[1]


def test_saved_runs_fill_the_wide_view(assay: Assay, there: Path) -> None:
    """Also those of a run that only takes up finished scenes: every cell is that of the file."""
    pytest.importorskip("sqlalchemy")
    saving = ("--save", "--store", "s.db", "--dataset", "demo", "--csv", "wide.csv")
    answer = assay("descriptors", "run", "e.yaml", *saving)
    assert answer.code == 0, answer.err
    results = json.loads(assay("descriptors", "run", "e.yaml", "--json").out)["results"]
    with closing(sqlite3.connect("s.db")) as db:
        db.row_factory = sqlite3.Row
        rows = [dict(row) for row in db.execute("SELECT * FROM wide_results ORDER BY run_id")]
    written = list(csv.DictReader(Path("wide.csv").read_text().splitlines()))
    assert len(rows) == len(written) == len(results) == 4
    for row, cells, result in zip(rows, written, results, strict=True):
        assert cells == {key: "" if row[key] is None else str(row[key]) for key in cells}
        assert {**result["wide"], "metadata": result["metadata"]} == {k: row[k] for k in cells}
    listed = json.loads(assay("runs", "list", "--store", "s.db", "--json").out)["runs"]
    assert listed[-1]["name"] == "ORB τ=3"
    again = assay("runs", "rerun", 1, "--store", "s.db", "--yes")
    assert again.code == 0, again.err
    assert "bit by bit" in again.err


def test_stored_runs_draw_scenes_as_the_command_does(assay: Assay, there: Path) -> None:
    pytest.importorskip("sqlalchemy")
    Path("level.yaml").write_text(
        experiment_text("data", evaluation="{level: 0.9, resamples: 300, seed: 4}")
    )
    saved = assay("descriptors", "run", "level.yaml", "--save", "--store", "d.db", "--json")
    assert saved.code == 0, saved.err
    data = json.loads(saved.out)
    for number, result in enumerate(data["results"], 1):
        shown = json.loads(assay("runs", "show", number, "--store", "d.db", "--json").out)["run"]
        stored = next(one for one in shown["aggregates"] if one["measure"] == "AP")
        micro = result["categories"][0]["micro"]
        for key in ("low", "high", "level"):
            assert stored[key] == micro[key]
        assert stored["method"] == "score by scene"
    assert "whole groups by scene" in assay("runs", "show", 1, "--store", "d.db").out
    compared = assay(
        "runs",
        "compare",
        1,
        2,
        "-m",
        "AP",
        "--store",
        "d.db",
        "--level",
        "0.1",
        "--resamples",
        300,
        "--seed",
        4,
        "--json",
    )
    again = json.loads(compared.out)
    assert again["settings"]["by"] == "scene"
    found, expected = (one["measures"]["AP"]["pairs"][0] for one in (again, data["comparison"]))
    for key in ("difference", "p"):
        assert found[key] == pytest.approx(expected[key], rel=1e-12)
    assert (found["low"], found["high"]) == (expected["low"], expected["high"])


def test_stored_runs_of_other_questions_are_not_compared(assay: Assay, there: Path) -> None:
    pytest.importorskip("sqlalchemy")
    saved = assay("descriptors", "run", "e.yaml", "--save", "--store", "q.db", "--dataset", "d")
    assert saved.code == 0, saved.err
    two = ("runs", "compare", 1, 2, "-m", "AP", "--store", "q.db")
    refused = assay(*two)
    assert refused.code == 3
    assert "('ORB τ=3') and 2 ('ORB τ=1') have different query sets" in refused.err
    assert assay(*two, "--force").code == 0
    assert assay("runs", "compare", 1, 3, "-m", "AP", "--store", "q.db").code == 0
    report = assay("report", 1, 2, "-m", "AP", "--store", "q.db", "-o", "q.md", "--json")
    assert any("different query sets" in one for one in json.loads(report.out)["remarks"])


def test_keypoints_that_cannot_be_described_are_failed_queries(
    assay: Assay, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted and named; the command has done what it was asked to do."""
    own = "{name: gaps, type: 'tests.vision.small_scenes:sometimes_zero'}"
    Path("gaps.yaml").write_text(experiment_text("data", descriptors=f"[ORB, {own}]"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    answer = assay("descriptors", "run", "gaps.yaml", "--fresh", "--json", "--allow-code")
    assert answer.code == 0, answer.err
    data = json.loads(answer.out)
    counted = [one["wide"]["total_queries_failed"] for one in data["results"] if one["tau"] == 3]
    assert counted[0] == 0 < counted[1]
    assert any(f"gaps: {counted[1]} of " in line for line in data["remarks"])
    assert any("keypoints of i_camera/1 could not be described" in line for line in data["remarks"])


def test_demo_needs_no_files(assay: Assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skimage")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("assay.vision.run.make_demo_scenes", _two_scenes)
    answer = assay("descriptors", "demo", "--descriptor", "ORB", "--strongest", 50, "--json")
    assert answer.code == 0, answer.err
    data = json.loads(answer.out)
    assert data["results"][0]["wide"]["image_retrieval_map"] == 1.0
    assert list(tmp_path.iterdir()) == []


def _two_scenes() -> object:
    from assay.vision import scenes

    return [scenes.make_demo_scene(name, 0, 2) for name in ("i_camera", "v_coffee")]


def test_patches(assay: Assay, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for scene in ("v_a", "i_b"):
        (tmp_path / "sift" / scene).mkdir(parents=True)
        ref = rng.normal(size=(20, 8))
        for key, noise in (("ref", 0.0), ("e1", 0.1), ("t1", 2.0)):
            rows = ref + noise * rng.normal(size=ref.shape)
            np.savetxt(tmp_path / "sift" / scene / f"{key}.csv", rows, delimiter=",")
    answer = assay("descriptors", "patches", tmp_path / "sift")
    assert answer.code == 0, answer.err
    assert "patch mAP" in answer.out
    assert "FPR@95, wrong pairs of the same scene" in answer.out
    data = json.loads(assay("descriptors", "patches", tmp_path / "sift", "--json").out)
    [own] = data["results"]
    assert own["fpr95"]["same/easy"] <= own["fpr95"]["same/tough"]


def _patch_folders(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for scene in ("v_a", "v_b", "i_c", "i_d"):
        ref = rng.normal(size=(12, 8))
        for name, worse in (("good", 0.2), ("bad", 1.5)):
            (tmp_path / name / scene).mkdir(parents=True)
            for key, noise in (("ref", 0.0), ("e1", 1.0), ("h1", 2.0)):
                rows = ref + worse * noise * rng.normal(size=ref.shape)
                np.savetxt(tmp_path / name / scene / f"{key}.csv", rows, delimiter=",")


def test_several_descriptors_of_patches_are_compared_saved_and_repeated(
    assay: Assay, tmp_path: Path
) -> None:
    _patch_folders(tmp_path)
    store, chart = tmp_path / "runs.db", tmp_path / "pr.svg"
    words = ("descriptors", "patches", tmp_path / "good", tmp_path / "bad", "--split", "full")
    answer = assay(*words, "--save", "--store", store, "--chart", chart, "--json")
    assert answer.code == 0, answer.err
    data = json.loads(answer.out)
    assert [one["descriptor"] for one in data["results"]] == ["good", "bad"]
    assert list(data["comparisons"]) == ["patch AP", "matching AP", "retrieval AP"]
    assert "good and bad" in assay(*words).out
    numbers = data["results"][0]["protocol"]["numbers"]
    assert {one["task"] for one in numbers} == {"verification", "matching", "retrieval"}
    assert all(one["mean"]["low"] <= one["mean"]["mean"] <= one["mean"]["high"] for one in numbers)
    assert ElementTree.parse(chart).getroot().tag.endswith("svg")
    with open_store(str(store)) as opened:
        [hard] = [one for one in opened.run(1).aggregates if one.subset == "matching/hard"]
    own = next(one for one in numbers if one["task"] == "matching")
    assert (hard.value, hard.low, hard.chance) == (
        own["hard"]["mean"],
        own["hard"]["low"],
        own["chance"],
    )
    again = assay("runs", "rerun", "1", "--store", store, "--yes")
    assert again.code == 0, again.err


def test_names_of_patch_descriptors_and_what_does_not_fit(assay: Assay, tmp_path: Path) -> None:
    _patch_folders(tmp_path)
    two = (tmp_path / "good", tmp_path / "bad")
    data = json.loads(
        assay("descriptors", "patches", *two, "--name", "a", "--name", "b", "--json").out
    )
    assert [one["descriptor"] for one in data["results"]] == ["a", "b"]
    for words in (("--name", "a"), ("--name", "a", "--name", "a"), ("--describe", "SIFT")):
        assert assay("descriptors", "patches", *two, *words).code == 2
    chart = assay("descriptors", "patches", *two, "--chart", tmp_path / "x.svg")
    assert (chart.code, "--chart requires --split" in chart.err) == (2, True)
    assert assay("descriptors", "patches", *two, "--chart", tmp_path / "x.png").code == 2
    (tmp_path / "bad" / "v_a" / "e1.csv").unlink()
    other = assay("descriptors", "patches", *two)
    assert (other.code, "hold different patches" in other.err) == (3, True)


@pytest.mark.slow
def test_patches_by_a_network_beside_sift_with_time_and_bytes(assay: Assay, tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    pytest.importorskip("onnxruntime")
    write_network(tmp_path / "net.onnx", side=32, width=16)
    network = f"onnx:{tmp_path / 'net.onnx'}"
    words = ("descriptors", "patches", "--describe", "SIFT", "--describe", network)
    answer = assay(*words, "--name", "SIFT", "--name", "net", "--timings", "--full")
    assert answer.code == 0, answer.err
    [row] = re.findall(r"^net +[\d.]+ +(\d+) +[\d.]+$", answer.out, re.MULTILINE)
    assert row == "64"  # 16 floats
    assert "bytes per descriptor: SIFT 512, net 64" in answer.out
    assert "on retrieval AP" in answer.out


@pytest.mark.parametrize("descriptor", ["SIFT", "ORB"])
def test_pictures_of_patches(assay: Assay, tmp_path: Path, descriptor: str) -> None:
    import cv2

    picture = small_scenes()[1].images[0][:, :, 0]
    rng = np.random.default_rng(0)
    (tmp_path / "v_a").mkdir()
    corners = rng.integers(0, 130, (8, 2))
    strip = np.vstack([picture[y : y + 65, x : x + 65] for x, y in corners])
    for name, noise in (("ref", 0), ("e1", 4), ("h1", 60)):
        noisy = strip + rng.normal(0, noise, strip.shape) if noise else strip
        cv2.imwrite(str(tmp_path / "v_a" / f"{name}.png"), np.clip(noisy, 0, 255).astype(np.uint8))
    answer = assay("descriptors", "patches", tmp_path, "--describe", descriptor, "--json")
    assert answer.code == 0, answer.err
    [own] = json.loads(answer.out)["results"]
    result = own["result"]
    assert result["metric"] == ("hamming" if descriptor == "ORB" else "l2")
    [row] = result["scenes"]
    assert (row["queries"], row["failed"]) == (16, 0)
    assert row["AP"] > 0.7
    cv2.imwrite(str(tmp_path / "v_a" / "t1.png"), strip[:-1])
    assert assay("descriptors", "patches", tmp_path, "--describe", descriptor).code == 3


def test_a_metric_that_does_not_fit_described_patches_is_refused(
    assay: Assay, tmp_path: Path
) -> None:
    import cv2

    (tmp_path / "v_a").mkdir()
    picture = small_scenes()[1].images[0][:, :, 0]
    for key in ("ref", "e1"):
        cv2.imwrite(str(tmp_path / "v_a" / f"{key}.png"), np.vstack([picture[:65, :65]] * 4))
    for kind, metric, advice in (
        ("ORB", "l2", "Omit metric: l2"),
        ("SIFT", "hamming", "Set metric: l2 or cosine"),
    ):
        answer = assay("descriptors", "patches", tmp_path, "--describe", kind, "--metric", metric)
        assert (answer.code, advice in answer.err) == (2, True)


def test_other_keypoints_are_compared_by_force_only(assay: Assay, there: Path) -> None:
    own = "{name: own, type: SIFT, keypoints: {detector: sift, border: 20}}"
    (there / "two.yaml").write_text(experiment_text("data", descriptors=f"[ORB, {own}]"))
    answer = assay("descriptors", "run", "two.yaml", "--full")
    assert "not compared: The results have different queries:" in answer.out
    forced = assay("descriptors", "run", "two.yaml", "--force", "--full")
    assert "comparison forced on different keypoints: scene means only" in forced.out


def test_results_never_replace_the_experiment(assay: Assay, there: Path) -> None:
    before = (there / "e.yaml").read_text()
    for option in ("-o", "--csv"):
        assert assay("descriptors", "run", "e.yaml", option, "e.yaml").code == 2
    assert assay("descriptors", "run", "e.yaml", "-o", "x.csv", "--csv", "x.csv").code == 2
    assert (there / "e.yaml").read_text() == before


def test_match_prints_both_tables_and_saves(
    assay: Assay, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    words = ("descriptors", "match", "e.yaml", "--matcher", "mutual", "--matcher", "ratio:0.9")
    text = assay(*words, "--scenes")
    assert text.code == 0, text.err
    for head in (
        "repeatability@3",
        "matcher    scene        pairs  repeatability@3  score@3",
        "Too few groups (3) to compare ",
        "repeatability@3  score@3   MMA@3  accuracy@3   AUC@3",
        "AUC@1",
        "v_brick",
    ):
        assert head in text.out
    store = str(tmp_path / "runs.db")
    chart = tmp_path / "pr.svg"
    data = json.loads(assay(*words, "--json", "--save", "--store", store, "--chart", chart).out)
    assert ElementTree.parse(chart).getroot().tag.endswith("svg")
    named = {(one["descriptor"], one["part"]) for one in data["curves"]}
    assert ("ORB", "mutual") in named
    assert all(len(one["precision"]) == 101 for one in data["curves"])
    first = data["results"][0]
    assert (first["descriptor"], first["matcher"], first["category"]) == ("ORB", "mutual", "all")
    assert 0 < first["measures"]["MMA@3"]["low"] < first["measures"]["MMA@3"]["mean"] <= 1
    assert len(json.loads(assay("runs", "list", "--store", store, "--json").out)["runs"]) == 4
    rows = list(csv.DictReader(assay(*words, "--format", "csv").out.splitlines()))
    own = [row for row in rows if row["measure"] == "MMA@3" and row["category"] == "all"]
    assert float(own[0]["mean"]) == first["measures"]["MMA@3"]["mean"]


def test_match_refuses_unknown_matchers(assay: Assay, there: Path) -> None:
    answer = assay("descriptors", "match", "e.yaml", "--matcher", "mutal")
    assert answer.code == 2
    assert "Did you mean" in answer.err


def test_match_runs_a_function_of_a_file_only_if_allowed(
    assay: Assay, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (there / "describe_rows.py").write_text(
        "import numpy as np\n\n\ndef rows(image, keypoints):\n"
        "    return np.cos(keypoints.xy).astype(np.float32)\n"
    )
    (there / "own.yaml").write_text(experiment_text("data", descriptors='["describe_rows:rows"]'))
    monkeypatch.syspath_prepend(there)
    refused = assay("descriptors", "match", "own.yaml", "--matcher", "nn")
    assert refused.code == 2
    assert "--allow-code" in refused.err
    allowed = assay("descriptors", "match", "own.yaml", "--matcher", "nn", "--allow-code")
    assert allowed.code == 0, allowed.err


def test_a_saved_match_is_repeated(assay: Assay, there: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    words = ("descriptors", "match", "e.yaml", "--matcher", "mutual")
    assert assay(*words, "--save", "--store", store).code == 0
    again = assay("runs", "rerun", "1", "--store", store)
    assert again.code == 0, again.err
