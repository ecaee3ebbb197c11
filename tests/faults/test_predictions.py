"""Predictions that are wrong in some way are refused by name, in both engines."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import (
    FormatError,
    IdError,
    MismatchError,
    ShapeError,
    UsageError,
    ValueRangeError,
)
from assay.prediction import evaluate_candidates, evaluate_predictions, import_results
from assay.prediction.files import read_prediction_file

SCORES = np.random.default_rng(2).integers(0, 9, (6, 5)).astype(float)
TARGETS = np.array([0, 1, 2, 3, 4, 0])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_score_at_a_target(value, engine):
    scores = SCORES.copy()
    scores[3, 3] = value
    with pytest.raises(ValueRangeError, match="row 3, column 3"):
        evaluate_predictions(scores, TARGETS)


def test_a_masked_class_ranks_last(engine):
    scores = SCORES.copy()
    scores[3, 4] = -np.inf
    assert evaluate_predictions(scores, [4 if r == 4 else 0 for r in range(6)]).n_samples == 6
    found = evaluate_predictions(scores, [0, 1, 2, 4, 4, 0])  # also where it is the true one
    assert (found.rank[3], found.masked, found.n_without_target) == (5, 1, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", ">f8"])
def test_types_are_widened(dtype, engine):
    plain = evaluate_predictions(SCORES, TARGETS)
    other = evaluate_predictions(SCORES.astype(dtype), TARGETS)
    assert other.scores.values.tobytes() == plain.scores.values.tobytes()


@pytest.mark.parametrize("shape", [(6,), (6, 0), (0, 5), (6, 5, 1)])
def test_shapes_are_named(shape, engine):
    with pytest.raises(ShapeError, match=str(shape).replace("(", r"\(").replace(")", r"\)")):
        evaluate_predictions(np.zeros(shape), TARGETS)


def test_pickled_predictions_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[{}]], object), allow_pickle=True)
    with pytest.raises(FormatError, match="pickled"):
        read_prediction_file(tmp_path / "x.npy", targets=[0])


def test_a_sample_id_twice():
    with pytest.raises(IdError, match="appears twice"):
        evaluate_predictions(SCORES, TARGETS, query_ids=["a", "b", "c", "d", "e", "a"])


def test_text_and_numbers_are_never_equal():
    with pytest.raises(MismatchError, match="never equal"):
        evaluate_candidates([["1", "2"]], [1])
    with pytest.raises(ValueRangeError, match="mixes text with int"):
        evaluate_candidates([["1", 2]], ["1"])


def test_lengths_differ():
    with pytest.raises(MismatchError, match="6 rows, targets 5"):
        evaluate_predictions(SCORES, TARGETS[:5])


def test_large_class_numbers_stay_distinct():
    result = evaluate_candidates([[2**53, 2**53 + 1]], [2**53 + 1])
    assert result.rank.tolist() == [2]


def test_a_constant_model_never_looks_good(engine):
    result = evaluate_predictions(
        np.ones((5, 5)), np.arange(5), conventions="preset:next_location|ties:expected"
    )
    assert result.mean()["Success@1"] == pytest.approx(1 / 5)
    assert result.mean()["RR"] == pytest.approx(0.456667, abs=1e-6)
    assert result.mean().counts["RR"].tied == 5


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_cut_offs_that_make_no_sense(k):
    with pytest.raises(UsageError):
        evaluate_predictions(SCORES, TARGETS, measures=f"Success@{k}")


def test_a_cut_off_beyond_the_classes():
    assert evaluate_predictions(SCORES, TARGETS, measures="Acc@10").mean()["Acc@10"] == 1


@pytest.mark.parametrize(
    "text", ['{"acc@1": NaN}', '{"acc@1": 1, "acc@1": 2}', "[" * 10_000, '{"acc@1"', ""]
)
def test_json_that_is_none(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(FormatError, match=r"a\.json"):
        import_results({"a": tmp_path / "a.json"}, unit="fraction")


def test_two_samples_give_no_invented_interval():
    found = evaluate_predictions(SCORES[:2], TARGETS[:2]).intervals()["RR"]
    assert np.isnan(found.low)
    assert "too few" in found.note


def test_escape_codes_in_names_are_shown(assay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.tsv").write_text("target\ttop\tuser\na\ta b\t\x1b[31mred\nb\ta b\tx\n")
    out = assay("predict", "x.tsv", "--candidates", "top", "--by", "user").out
    assert "\x1b" not in out
    assert r"\x1b[31mred" in out


def test_no_terminal_no_colour_and_no_bar(assay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", scores=SCORES, targets=TARGETS)
    answer = assay("predict", "x.npz")
    assert "\x1b" not in answer.out + answer.err
