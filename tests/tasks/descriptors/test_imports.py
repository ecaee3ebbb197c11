"""Results of the workbench: its database and its exports, with declared units."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from assay.errors import FormatError, UsageError
from assay.tasks.descriptors import import_results
from assay.tasks.descriptors.imports import compare_scenes

SCENES = ";".join(f"{'iv'[i % 2]}_{i}_true_map=0.{i + 10}" for i in range(9))
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
    assert first.scenes["i_8"] == 0.18


def test_units_are_declared_and_contradictions_reported(tmp_path: Path) -> None:
    percent = _database(tmp_path / "percent.sqlite", 100)
    found = import_results(percent, unit="percent")
    assert found.rows[0].values["true_map_micro"] == pytest.approx(0.6386)
    assert not found.contradictions
    wrong = import_results(percent, unit="fraction")
    assert "true_map_micro is 63.86, which is not a fraction" in wrong.contradictions[0]
    with pytest.raises(UsageError, match="unit"):
        import_results(percent, unit="parts")


def test_laws_that_every_result_obeys(tmp_path: Path) -> None:
    path = _database(tmp_path / "odd.db", precision_at_1=0.9)
    said = import_results(path, unit="fraction").contradictions
    assert any("precision_at_1 0.9 is above precision_at_5 0.7" in line for line in said)
    assert any("precision_at_1 0.9 is above true_map_micro 0.6386" in line for line in said)


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
