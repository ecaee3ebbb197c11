"""Ids that two inputs write differently are named where they are joined."""

from __future__ import annotations

import json

import numpy as np
import pytest

import assay
from assay.core.ids import Ids
from assay.crossmodal import SampleRows, label_retrieval
from assay.crossmodal.samples import read_labels
from assay.errors import AssayError, MismatchError
from assay.io.collections import read_answers
from assay.io.columns import read_groups

QUERIES = Ids.of([f"q{number}" for number in range(1, 11)])


def test_groups_of_other_queries_are_refused(tmp_path):
    path = tmp_path / "slices.tsv"
    path.write_text("query\tkind\n" + "".join(f"zz-{n}\tk{n % 2}\n" for n in range(21, 27)))
    with pytest.raises(
        MismatchError, match=r"None of the 10 queries is in .*there: 'zz-21', 'zz-22'"
    ):
        read_groups(str(path), QUERIES)


def test_slices_of_other_queries_are_refused_by_compare(assay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels").write_text("".join(f"q{n} 0 d1 1\n" for n in range(1, 9)))
    for name in "ab":
        lines = (f"q{n} Q0 d{1 + (n + ord(name)) % 2} 1 2 x\n" for n in range(1, 9))
        (tmp_path / f"{name}.run").write_text("".join(lines))
    (tmp_path / "slices.csv").write_text("query,kind\n7f,long\n8c,short\n")
    answer = assay("compare", "a.run", "b.run", "--qrels", "qrels", "--slices", "slices.csv")
    assert answer.code != 0
    assert "None of the 8 queries is in slices.csv (missing: 'q1', 'q2', 'q3'" in answer.err


def test_answers_of_queries_that_are_written_differently_are_refused(tmp_path):
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({"q1": ["x"], "Q2": ["y"], "Q3": ["z"]}))
    with pytest.raises(MismatchError, match="'q2' and 'Q2' differ in upper and lower case"):
        read_answers(path, QUERIES, [f"text {number}" for number in range(10)])


def test_labels_of_a_map_and_samples_name_what_is_near(tmp_path):
    np.save(tmp_path / "labels.npy", np.array(["Cat", "Dog"]))
    (tmp_path / "map.json").write_text(json.dumps({"cat": "pet", "dog": "pet"}))
    with pytest.raises(MismatchError, match="'Cat' and 'cat' differ in upper and lower case"):
        read_labels(
            {"label": str(tmp_path / "labels.npy")}, {}, {"kind": str(tmp_path / "map.json")}
        )
    rows = np.eye(3)
    sides = {"a": SampleRows(rows, ["1", "2", "3"]), "b": SampleRows(rows, ["01", "02", "03"])}
    with pytest.raises(MismatchError, match="'1' and '01' differ in zero padding"):
        label_retrieval(sides, ["x", "y", "y"], k_values=[1])


def test_weights_name_what_is_near():
    run = {"q": {"a": 1.0}, "r": {"a": 1.0}}
    scores = assay.evaluate(run, {"q": {"a": 1}, "r": {"a": 1}}, "RR")
    scores = scores.with_groups(scene={"q": "Park", "r": "Town"})
    with pytest.raises(AssayError, match="'Park' and 'park' differ in upper and lower case"):
        scores.mean(by="scene", weights={"park": 1, "town": 2})
