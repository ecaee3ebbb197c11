"""The view `wide_results` and the wide rows of a CSV file: the same columns, the same values."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")

from sqlalchemy import text

import assay.store
from assay.errors import StorageError, UsageError
from assay.store import Store
from assay.store.schema import escape_text
from assay.tables.table import as_csv
from assay.vision import DescriptorResult, rank_pair, read_metadata
from assay.vision.report import wide_table
from tests.store.places import HOSTILE, make_scores
from tests.vision.samples import random_pair

ABOUT = ("run_id", "name", "task", "dataset", "model", "status", "created")
CATEGORIES = {"v_wall": "viewpoint", "i_dome": "illumination", "other": "", "empty": "zoom"}


def _result(seed: int, name: str = "mine", **more: Any) -> DescriptorResult:
    """Four scenes with many ties and queries without a match; one has no match at all."""
    rng = np.random.default_rng(seed)
    pairs = []
    for scene, category in CATEGORIES.items():
        for k in (2, 3):
            left, right, truth = random_pair(rng, "l2")
            truth = np.full_like(truth, -1) if scene == "empty" else truth
            failed = rng.random(len(left)) < 0.1
            pairs.append(
                rank_pair(
                    left,
                    right,
                    truth=truth,
                    scene=scene,
                    pair=f"1-{k}",
                    category=category,
                    failed_queries=failed,
                )
            )
    timings = {"describe": 0.1, "rank": 0.2 + seed}
    return DescriptorResult.of(name, pairs, timings=timings, keypoints="sift, border 40", **more)


def _view(store: Store) -> list[dict[str, Any]]:
    with store.database.reading() as connection:
        rows = connection.execute(text("SELECT * FROM wide_results ORDER BY run_id"))
        return [dict(row) for row in rows.mappings()]


def _read_cell(column: str, cell: str) -> Any:
    """A cell of the CSV file as the value that the view has."""
    if column in ("descriptor", "keypoint_set", "metadata"):
        return cell
    counted = column.startswith(("total_queries_", "retrieval_num_"))
    return None if cell == "" else int(cell) if counted else float(cell)


def test_the_view_is_the_csv_file_column_by_column(place: str) -> None:
    """Also where several tolerances have a run each: every cell, every bit."""
    results = [_result(1), _result(2, tau=1.5), _result(3, "=odd")]
    written = list(csv.DictReader(io.StringIO(as_csv(wide_table(results, "authors")))))
    with assay.store.open(place) as store:
        for number, one in enumerate(results):
            [record] = one.records(name=f"run {number}")
            store.save(record.replace(seconds=7.0))
        rows = _view(store)
    for row, cells in zip(rows, written, strict=True):
        cells["descriptor"] = cells["descriptor"].removeprefix("'")  # a guard of the file
        assert set(row) - set(ABOUT) == set(cells)
        assert {key: row[key] for key in cells} == {k: _read_cell(k, cells[k]) for k in cells}
        assert row["total_queries_processed"] + row["total_queries_excluded"] == 8 * 25
        assert row["mean_average_precision"] == row["true_map_macro_by_scene"]
    assert [row["processing_time_ms"] for row in rows] == pytest.approx([1300, 2300, 3300])


def test_the_metadata_of_the_view_reads_back(place: str) -> None:
    result = _result(4)
    with assay.store.open(place) as store:
        store.save(result.records()[0])
        [row] = _view(store)
    found = read_metadata(row["metadata"])
    assert found["true_map_micro"] == row["true_map_micro"]
    for scene in ("v_wall", "i_dome", "other"):
        assert found[f"{scene}_true_map"] == result.scene_means()[scene]
    counted = {key: value for key, value in found.items() if key.endswith("_query_count")}
    assert sum(counted.values()) == row["total_queries_processed"]


def test_a_run_without_a_wide_row_shows_its_aggregates(place: str) -> None:
    """Means over images beside means over queries change no count of queries."""
    record = _result(5).records()[0]
    with assay.store.open(place) as store:
        store.save(record)
        store.save(record.replace(wide={}, seconds=2.0))
        stored, computed = _view(store)
    for key, value in computed.items():
        if value is not None and key not in (*ABOUT, "processing_time_ms"):
            assert value == stored[key], key
    assert computed["total_queries_processed"] == stored["total_queries_processed"]
    assert (computed["processing_time_ms"], computed["metadata"]) == (2000.0, None)


def test_a_wide_row_lasts_as_long_as_its_run(place: str) -> None:
    with assay.store.open(place) as store:
        store.save(make_scores(1), "a", wide={"tau": 3, "metadata": "x=1;"})
        for statement in (
            "UPDATE wide_values SET number = 4",
            "DELETE FROM wide_values",
            "INSERT INTO wide_values (run_id, position, name) VALUES (1, 9, 'x')",
        ):
            with (
                pytest.raises(StorageError, match="a finished run does not change"),
                store.database.writing() as connection,
            ):
                connection.execute(text(statement))
        assert store.run(1).wide() == {"tau": 3.0, "metadata": "x=1;"}
        store.delete(1)
        with store.database.reading() as connection:
            assert connection.execute(text("SELECT count(*) FROM wide_values")).scalar() == 0


def test_a_wide_row_comes_back_from_an_export(place: str, tmp_path: Any) -> None:
    row = {f"{number} {name}"[:500]: name for number, name in enumerate(HOSTILE)}
    row |= {
        "nothing": None,
        "number": 0.1 + 0.2,
        "none": float("nan"),
        "keypoint_set": "\x00;\ud800",
    }
    with assay.store.open(place) as store:
        store.save(make_scores(1), "a", wide=row)
        store.export(tmp_path / "runs.json")
        kept = store.run(1).wide()
        assert kept == {**row, "none": None}
        assert list(kept) == list(row)
        [seen] = _view(store)
        assert seen["keypoint_set"] == escape_text("\x00;\ud800")
    with assay.store.open(tmp_path / "other.db") as other:
        other.load(tmp_path / "runs.json")
        assert other.run(1).wide() == kept
        other.export(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "runs.json").read_text()


@pytest.mark.parametrize("cell", [True, float("inf"), [1], b"x"])
def test_cells_that_no_column_holds(cell: Any) -> None:
    with pytest.raises(UsageError, match="x of a wide row"):
        _result(1).records()[0].replace(wide={"x": cell})
