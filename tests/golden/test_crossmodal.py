"""The summary and the JSON of label retrieval, byte for byte in the layout that is specified."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from assay.crossmodal import label_retrieval
from assay.crossmodal.compat import print_results_summary, save_results
from assay.errors import UsageError

GOLDEN = Path(__file__).with_name("crossmodal")
NUMBERS = {
    "instance": {
        "text2sensor": {10: 0.7234, 50: 0.6891, 100: 0.6523},
        "sensor2text": {10: 0.7156, 50: 0.6812, 100: 0.6478},
    },
    "prototype": {
        "prototype2sensor": {10: 0.8345, 50: 0.7923, 100: 0.7634},
        "prototype2text": {10: 0.8123, 50: 0.7845, 100: 0.7567},
    },
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_summary(kind, capsys):
    print_results_summary(NUMBERS[kind])
    assert capsys.readouterr().out == (GOLDEN / f"{kind}.txt").read_text("utf-8") + "\n"


@pytest.mark.parametrize("kind", NUMBERS)
def test_json(kind, tmp_path):
    save_results(NUMBERS[kind], tmp_path / "results.json")
    assert (tmp_path / "results.json").read_bytes() == (GOLDEN / f"{kind}.json").read_bytes()


@pytest.mark.parametrize("kind", NUMBERS)
def test_saved_results_print_the_same_summary(kind, tmp_path, capsys):
    save_results(NUMBERS[kind], tmp_path / "results.json")
    print_results_summary(json.loads((tmp_path / "results.json").read_text("utf-8")))
    assert capsys.readouterr().out == (GOLDEN / f"{kind}.txt").read_text("utf-8") + "\n"


def test_computed_results_have_the_layout_of_the_golden_files(tmp_path, capsys):
    """The same letters but for the digits of the values."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 120)
    sides = {"sensor": rng.normal(size=(120, 8)), "text": rng.normal(size=(120, 8))}
    results = label_retrieval(sides, labels)["label"]
    print_results_summary(results)
    golden = (GOLDEN / "instance.txt").read_text("utf-8").splitlines()
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(" = ")[0] for line in printed] == [
        line.partition(" = ")[0] for line in golden
    ]
    save_results(results, tmp_path / "results.json")
    written = (tmp_path / "results.json").read_text("utf-8").splitlines()
    golden = (GOLDEN / "instance.json").read_text("utf-8").splitlines()
    assert [line.partition(": 0")[0] for line in written] == [
        line.partition(": 0")[0] for line in golden
    ]


@pytest.mark.parametrize("bad", [3, [1], {"a": {"10": "x"}}, None])
def test_what_is_no_result_is_not_saved(bad, tmp_path):
    with pytest.raises(UsageError, match="Results are"):
        save_results(bad, tmp_path / "results.json")
    assert not (tmp_path / "results.json").exists()


@pytest.mark.parametrize("bad", [3, [1], {"a": 3}, None])
def test_what_is_no_result_is_not_printed(bad):
    with pytest.raises(UsageError, match="Results are"):
        print_results_summary(bad)


def test_an_undefined_value_is_null_and_said_in_words(tmp_path, capsys):
    results = label_retrieval({"image": np.eye(2)}, ["a", "b"], k_values=[1])["label"]
    print_results_summary(results)
    assert "K=  1  =>  Label-Recall@K undefined" in capsys.readouterr().out
    save_results(results, tmp_path / "results.json")
    assert json.loads((tmp_path / "results.json").read_text()) == {"image2image": {"1": None}}
