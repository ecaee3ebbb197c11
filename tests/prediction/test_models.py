"""Models from files as a notebook evaluates them: records, tables and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import assay.store
from assay.errors import UsageError
from assay.prediction import PredictionRequest, evaluate_files, evaluate_predictions

TARGETS = np.arange(60) % 7


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """Two seeds of one model and one file of another, as NAME=FILE."""
    found = []
    for number, name in enumerate(("a", "a", "b")):
        scores = np.random.default_rng(number).normal(size=(60, 7))
        path = tmp_path / f"{name}{number}.npz"
        np.savez(path, scores=scores, targets=TARGETS)
        found.append(f"{name}={path}")
    return tuple(found)


def test_each_seed_is_a_record(files: tuple[str, ...]) -> None:
    found = evaluate_files(PredictionRequest(files))
    assert [one.name for one in found.records()] == ["a (1)", "a (2)", "b"]
    assert [one.model for one in found.records()] == ["a", "a", "b"]
    assert [one.config["seed_number"] for one in found.records()] == [1, 2, 1]


def test_records_of_a_notebook_are_stored(files: tuple[str, ...], tmp_path: Path) -> None:
    found = evaluate_files(PredictionRequest(files))
    with assay.store.open(str(tmp_path / "runs.db")) as store:
        runs = store.save_all(found.records())
        assert [run.name for run in runs] == ["a (1)", "a (2)", "b"]
        stored = store.run(runs[2].id).record().scored()
    assert stored.values.tobytes() == found.models["b"][0].scores.values.tobytes()


def test_files_are_evaluated_as_arrays_are(files: tuple[str, ...]) -> None:
    path = files[2].partition("=")[2]
    (found,) = evaluate_files(PredictionRequest((path,))).models.values()
    scores = np.load(path)["scores"]
    assert found[0].means() == evaluate_predictions(scores, TARGETS).means()


def test_only_one_result_is_the_only_one(files: tuple[str, ...]) -> None:
    assert evaluate_files(PredictionRequest(files[2:])).only_result().name == "b"
    with pytest.raises(UsageError, match="one result"):
        evaluate_files(PredictionRequest(files)).only_result()


def test_tables_and_plain_data_hold_every_model(files: tuple[str, ...]) -> None:
    found = evaluate_files(PredictionRequest(files, ks=(1, 3)))
    assert found.tables()[0].columns[:3] == ("measure", "a (mean of 2 seeds)", "b")
    assert list(found.to_dict()["models"]) == ["a", "b"]
    assert found.comparison is not None
    assert found.comparison.paired is not None
