"""Results of the workbench: its database and its exports, with declared units."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.errors import FormatError, UsageError
from assay.tasks.descriptors import DescriptorResult, import_results, rank_pair
from assay.tasks.descriptors.imports import compare_scenes, report_import
from assay.tasks.descriptors.tables import wide_table
from tests.tasks.descriptors.samples import random_pair

MEANS = (0.57, 0.64, 0.58, 0.65, 0.59, 0.66, 0.6, 0.6764, 0.6136)
SCENES = ";".join(f"{'iv'[i % 2]}_{i}_true_map={mean}" for i, mean in enumerate(MEANS))
COLUMNS = (
    "id INTEGER PRIMARY KEY, experiment_id INTEGER, true_map_micro REAL, "
    "true_map_macro REAL, true_map_micro_with_zeros REAL, viewpoint_map REAL, "
    "keypoint_verification_ap REAL, precision_at_1 REAL, precision_at_5 REAL, "
    "processing_time_ms REAL, total_matches INTEGER, metadata TEXT"
)


def _database(path: Path, scale: float = 1.0, **change: float) -> Path:
    values = {
        "true_map_micro": 0.6386,
        "true_map_macro": 0.62,
        "true_map_micro_with_zeros": 0.5,
        "viewpoint_map": 0.6566,
        "precision_at_1": 0.55,
        "precision_at_5": 0.7,
        **change,
    }
    scaled = {key: scale * value for key, value in values.items()}
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE experiments (id INTEGER PRIMARY KEY, descriptor_type TEXT, "
            "dataset_name TEXT, timestamp TEXT)"
        )
        db.execute(f"CREATE TABLE results ({COLUMNS})")
        for number, name in enumerate(("sift", "dspsift"), 1):
            db.execute("INSERT INTO experiments VALUES (?, ?, 'hpatches', 'then')", (number, name))
            columns = ", ".join(scaled)
            marks = ", ".join("?" * len(scaled))
            db.execute(
                f"INSERT INTO results (experiment_id, {columns}, keypoint_verification_ap, "
                f"processing_time_ms, total_matches, metadata) VALUES ({number}, {marks}, -1, "
                "12.5, 99, ?)",
                (*scaled.values(), SCENES if scale == 1 else ""),
            )
    db.close()
    return path


def test_a_database(tmp_path: Path) -> None:
    found = import_results(_database(tmp_path / "experiments.db"), unit="fraction")
    assert found.contradictions == ()
    first, second = found.rows
    assert (first.name, second.name) == ("sift", "dspsift")
    assert first.values["true_map_micro"] == 0.6386
    assert first.values["true_map_macro_by_scene"] == 0.62
    assert first.values["true_map_micro_including_zeros"] == 0.5
    assert "keypoint_verification_ap" not in first.values  # −1 is "not computed"
    assert first.counts["total_matches"] == 99
    assert first.about["dataset_name"] == "hpatches"
    assert first.scenes["i_8"] == 0.6136


def test_units_are_declared_and_contradictions_reported(tmp_path: Path) -> None:
    percent = _database(tmp_path / "percent.sqlite", 100)
    found = import_results(percent, unit="percent")
    assert found.rows[0].values["true_map_micro"] == pytest.approx(0.6386)
    assert not found.contradictions
    wrong = import_results(percent, unit="fraction")
    assert "true_map_micro is 63.86, which is not a fraction" in wrong.contradictions[0]
    fractions = import_results(_database(tmp_path / "fraction.db"), unit="percent")
    assert "no value is above 1 percent, as if they were fractions" in fractions.contradictions[-1]
    with pytest.raises(UsageError, match="unit"):
        import_results(percent, unit="parts")


def test_laws_that_every_result_obeys(tmp_path: Path) -> None:
    path = _database(tmp_path / "odd.db", precision_at_1=0.9)
    said = import_results(path, unit="fraction").contradictions
    assert any("precision_at_1 0.9 is above precision_at_5 0.7" in line for line in said)
    assert any("precision_at_1 0.9 is above true_map_micro 0.6386" in line for line in said)


def test_means_that_contradict_their_scenes(tmp_path: Path) -> None:
    changes = {"true_map_macro": 0.61, "viewpoint_map": 0.0}
    said = import_results(_database(tmp_path / "odd.db", **changes), unit="fraction").contradictions
    place = f"{tmp_path}/odd.db, result 1: "
    assert [line.removeprefix(place) for line in said if line.startswith(place)] == [
        "true_map_macro_by_scene 0.61 contradicts the scenes, which give 0.62",
        "viewpoint_map 0 contradicts the scenes, which give 0.6566",
    ]


def test_differences_of_results_are_no_results(tmp_path: Path) -> None:
    """The workbench's exports hold columns that its notebooks added."""
    path = tmp_path / "export.csv"
    path.write_text(
        "descriptor_type,macro_map,map_improvement,map_improvement_pct,map_per_second,map_easy\n"
        "sift,0.5,-0.004,-0.86,0.001,0.7\n"
    )
    found = import_results(path, unit="fraction")
    assert found.contradictions == ()
    assert found.rows[0].values == {"true_map_macro_by_scene": 0.5, "map_easy": 0.7}
    assert found.rows[0].about["map_improvement_pct"] == "-0.86"


def test_one_value_under_two_names(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    head = "name,true_map_macro,true_map_macro_by_scene,mean_average_precision,true_map_micro"
    path.write_text(f"{head}\nsift,0.5,0.5,0.5,0.6\nodd,0.5,0.4,0.6,0.6\n")
    said = import_results(path, unit="fraction").contradictions
    assert [line.partition(": ")[2] for line in said] == [
        "true_map_macro_by_scene 0.4 is 0.5 under another name (true_map_macro)",
        "mean_average_precision 0.6 is not true_map_macro_by_scene 0.5, the mean over scenes",
    ]


def test_results_of_one_descriptor_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text("name,keypoint_set,tau,true_map_micro\nsift,all,3,0.6\nsift,all,1,0.5\n")
    table = report_import(path, unit="fraction").tables()[0]
    assert table.columns[:4] == ("source", "descriptor", "tau", "scenes")
    assert [row[2].value for row in table.rows] == ["3", "1"]


def _random_row(seed: int) -> dict[str, Any]:
    """The wide row of three scenes with many ties; one query in five has no true match."""
    rng = np.random.default_rng(seed)
    pairs = []
    for scene, category in (("v_a", "viewpoint"), ("v b;=", "viewpoint"), ("i_c", "illumination")):
        left, right, truth = random_pair(rng, "l2")
        pairs.append(
            rank_pair(left, right, truth=truth, scene=scene, pair="1-2", category=category)
        )
    cells = wide_table([DescriptorResult.of("=mine", pairs)], "paper")
    return dict(zip(cells.columns, (cell.exact for cell in cells.rows[0]), strict=True))


def _written(path: Path, row: Mapping[str, Any]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    return path


@pytest.mark.parametrize("seed", range(5))
def test_our_own_rows_contradict_nothing_until_a_number_is_changed(
    tmp_path: Path, seed: int
) -> None:
    row = _random_row(seed)
    found = import_results(_written(tmp_path / "own.csv", row), unit="fraction")
    assert (found.contradictions, found.rows[0].name) == ((), "=mine")
    assert found.rows[0].scenes.keys() == {"v_a", "v b;=", "i_c"}
    for name in (
        "true_map_micro",
        "true_map_macro",
        "true_map_macro_by_scene",
        "mean_average_precision",
        "true_map_micro_including_zeros",
        "true_map_macro_by_scene_including_zeros",
        "viewpoint_map",
        "precision_at_10",
        "total_queries_processed",
        "total_queries_excluded",
    ):
        other = int(row[name]) + 1 if name.startswith("total") else float(row[name]) - 0.001
        changed = {**row, name: other}
        said = import_results(_written(tmp_path / "odd.csv", changed), unit="fraction")
        assert any(name in line for line in said.contradictions), name


def test_means_change_with_the_metadata_alone(tmp_path: Path) -> None:
    """Every mean of AP is computed again, not only compared with its copy in the metadata."""
    row = _random_row(9)
    kept = [part for part in row["metadata"].split(";") if "_true_map" in part or "_count" in part]
    excluded = f"total_queries_excluded={row['total_queries_excluded']}"
    row["metadata"] = ";".join((*kept, excluded))
    del row["true_map_macro"]  # the same under another name
    assert not import_results(_written(tmp_path / "a.csv", row), unit="fraction").contradictions
    for name in (
        "true_map_micro",
        "true_map_macro_by_scene",
        "true_map_micro_including_zeros",
        "true_map_macro_by_scene_including_zeros",
        "total_queries_processed",
    ):
        step = 1 if name.startswith("total") else -0.01
        changed = {**row, name: float(row[name]) + step}
        said = import_results(_written(tmp_path / "b.csv", changed), unit="fraction").contradictions
        assert any(f"{name} " in line and "the scenes" in line for line in said), name


def test_a_csv_export(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text(f"name,true_map_micro,recall_at_1,note,metadata\nsift,0.5,,x,{SCENES}\n")
    [row] = import_results(path, unit="fraction").rows
    assert row.values == {"true_map_micro": 0.5}
    assert len(row.scenes) == 9
    assert row.about == {"name": "sift", "note": "x"}


def test_scenes_of_results_are_compared(tmp_path: Path) -> None:
    rows = import_results(_database(tmp_path / "a.db"), unit="fraction").rows
    found = compare_scenes(rows)
    assert found.n_queries == 9
    assert found.pairs[0].winner is None
    with pytest.raises(UsageError, match="Two or more"):
        compare_scenes(rows[:1])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "true_map_micro\n0.5\n", "must name the columns"),
        ("a.csv", "name,name\nx,y\n", "each once"),
        ("a.csv", "name,true_map_micro\nx\n", "line 2: 1 cells under 2 columns"),
        ("a.csv", "name,true_map_micro\nx,much\n", "line 2: true_map_micro must be a finite"),
        ("a.csv", "name,total_matches\nx,9.5\n", "line 2: total_matches must be a whole number"),
        ("a.csv", "name,true_map_micro\nx,nan\n", "finite number"),
        ("a.csv", "name,true_map_micro\n,0.5\n", "the row names no descriptor"),
        ("a.csv", "name,true_map_micro\n", "holds no results"),
        ("a.db", "this is no database, not at all", "cannot be read as a database"),
        ("a.txt", "x", "are read from"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(FormatError, match=message):
        import_results(path, unit="fraction")


def test_a_database_of_something_else_is_named_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE runs (id INTEGER)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(FormatError, match=r"no table 'results'\. Tables: runs"):
        import_results(path, unit="fraction")
    assert path.read_bytes() == before
