"""`store.save_all(result.records())` stores what `--save` stores, row by row, for every task."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")

import assay.store
from assay.bench import run_bench
from assay.codes import evaluate_codes
from assay.crossmodal import label_retrieval
from assay.io.arrays import read_vectors
from assay.io.collections import load_collection
from assay.prediction.models import PredictionRequest, evaluate_files
from assay.runs.record import RunRecord
from assay.runs.run_files import group_records, score_run_files
from assay.vision import read_experiment, run_experiment
from tests.conftest import Answer
from tests.golden.inputs import make_inputs

Records = Iterable[RunRecord]

EXPERIMENT = """
dataset: {path: scenes}
keypoints: {detector: orb, border: 20, strongest: 25}
descriptors: [ORB]
evaluation: {tau: [3, 1], resamples: 300, verification: {scenes: 2}}
"""
# What differs from call to call; `config` is compared by itself, and the digest is of all columns.
VARYING = {
    *("uid", "batch", "created", "updated", "finished", "seconds", "timings"),
    *("done", "total", "command", "folder", "config", "digest"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    (folder / "one.yaml").write_text(EXPERIMENT)
    return folder


def eval_records() -> Records:
    measures = ["nDCG@10", "AP", "RR"]
    found = score_run_files(["dense.run", "coarse.run"], "qrels.txt", measures, n_docs=61)
    records, _ = group_records(found, "groups.tsv:kind")
    return [one.replace(files=(*one.files, "groups.tsv")) for one in records]


def compare_records() -> Records:
    found = score_run_files(["lexical.run", "partial.run"], "qrels.txt", ["nDCG@10", "AP"])
    records, column = group_records(found, "groups.tsv:topic")
    return [
        one.replace(files=(*one.files, "groups.tsv"), clusters=column, seeds={"seed": 5})
        for one in records
    ]


def predict_records() -> Records:
    found = evaluate_files(PredictionRequest(files=("m=a0.npz", "m=a1.npz", "lone=b0.npz")))
    return [one.replace(files=("a0.npz", "a1.npz", "b0.npz")) for one in found.records()]


def crossmodal_records() -> Records:
    modalities = {"sensor": np.load("sensor.npy"), "text": np.load("text.npy")}
    labels = np.load("labels.npy", allow_pickle=False)
    found = label_retrieval(modalities, labels, k_values=[3, 5], directions=["sensor2text"])
    files = ("sensor.npy", "text.npy", "labels.npy")
    return [one.replace(files=files) for one in found.records()]


def codes_records() -> Records:
    docs, queries = read_vectors("codes.npz", "doc"), read_vectors("codes.npz", "query")
    found = evaluate_codes(
        docs.vectors,
        queries.vectors,
        doc_ids=docs.ids,
        query_ids=queries.ids,
        qrels="codes.qrels",
        methods=["sign", "int8"],
        k=[5],
        resamples=200,
    )
    return [one.replace(files=("codes.npz", "codes.qrels")) for one in found.records()]


def bench_records() -> Records:
    collection = load_collection("made", name="texts")
    found = run_bench(
        collection, ["letters=py:tests.golden.models:bag", "bm25"], measures=["nDCG@10", "RR"]
    )
    records, column = group_records(found.records(), "kinds.csv")
    files = ("made/corpus.jsonl", "made/queries.jsonl", "made/qrels/test.tsv")
    return [one.replace(clusters=column, files=files) for one in records]


def descriptor_records() -> Records:
    found = run_experiment(read_experiment("one.yaml"))
    return [one.replace(files=("one.yaml",)) for one in found.records()]


SAME: dict[str, tuple[str, Callable[[], Records], tuple[str, ...]]] = {
    "eval": (
        "eval dense.run coarse.run -r qrels.txt -m nDCG@10 -m AP -m RR --by groups.tsv:kind"
        " --chance --n-docs 61 --json",
        eval_records,
        (),
    ),
    "compare": (
        "compare lexical.run partial.run -r qrels.txt -m nDCG@10 -m AP --by groups.tsv:topic"
        " --resamples 300 --seed 5",
        compare_records,
        (),
    ),
    "predict": ("predict m=a0.npz m=a1.npz lone=b0.npz", predict_records, ()),
    "crossmodal": (
        "crossmodal --sensor-embeddings sensor.npy --text-embeddings text.npy --labels labels.npy"
        " --k-values 3 5 --directions sensor2text",
        crossmodal_records,
        (),
    ),
    "codes": (
        "codes --embeddings codes.npz --queries codes.npz -r codes.qrels --method sign"
        " --method int8 --k 5 --resamples 200",
        codes_records,
        (),
    ),
    "bench": (
        "bench --corpus made --no-cache --model letters=py:tests.golden.models:bag --model bm25"
        " --by kinds.csv --resamples 300 --name texts -m nDCG@10 -m RR",
        bench_records,
        ("bm25s",),
    ),
    "descriptors": ("descriptors run one.yaml --fresh", descriptor_records, ("cv2", "yaml")),
}


@pytest.mark.parametrize("task", SAME)
def test_python_stores_the_rows_of_the_command(
    task: str,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    assay: Callable[..., Answer],
) -> None:
    line, make_records, needs = SAME[task]
    for package in needs:
        pytest.importorskip(package)
    monkeypatch.chdir(inputs)
    saved = assay(*line.split(), "--save", "--store", tmp_path / "command.db", "--tag", "t")
    assert saved.code == 0, saved.err
    with open_store(tmp_path / "python.db") as store:
        runs = store.save_all([one.replace(tags=["t"]) for one in make_records()])
        assert {run.batch for run in runs} == {runs[0].batch}
    command, python = read_tables(tmp_path / "command.db"), read_tables(tmp_path / "python.db")
    check_configs(command["runs"], python["runs"])
    for table, rows in command.items():
        assert len(python[table]) == len(rows), table
        for own, other in zip(python[table], rows, strict=True):
            assert not differences(own, other), table
    assert command["aggregates"]
    assert command["blobs"]


def test_saving_one_by_one_stores_the_same_but_for_the_batch(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(inputs)
    records = list(compare_records())
    with open_store(tmp_path / "all.db") as one, open_store(tmp_path / "single.db") as other:
        one.save_all(records)
        for record in records:
            other.save(record)
    left, right = read_tables(tmp_path / "all.db"), read_tables(tmp_path / "single.db")
    for table, rows in left.items():
        for own, other in zip(rows, right[table], strict=True):
            assert not differences(own, other), table


def open_store(path: Path) -> assay.store.Store:
    return assay.store.open(path)


def read_tables(database: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of a store."""
    keys = {
        "runs": "id",
        "aggregates": "run_id, position",
        "tags": "run_id, tag",
        "blobs": "run_id, kind, position",
        "shown": "run_id, position",
    }
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        return {
            table: [
                dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY {key}")
            ]
            for table, key in keys.items()
        }


def differences(own: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The columns in which two rows differ."""
    return {
        key: (value, other[key])
        for key, value in own.items()
        if key not in VARYING and value != other[key]
    }


def check_configs(command: list[dict[str, Any]], python: list[dict[str, Any]]) -> None:
    """The command adds its options to what the record says; costs are seconds and bytes."""
    for own, other in zip(command, python, strict=True):
        options, record = json.loads(own["config"]), json.loads(other["config"])
        record.pop("costs", None)
        assert {key: options.get(key) for key in record} == record
