"""FAULTS 10 to 18: objects in arrays, ids and labels."""

from __future__ import annotations

import os
import pickle
import unicodedata

import numpy as np
import pytest

import assay
from assay.core.conventions import preset
from assay.errors import (
    FormatError,
    IdError,
    InputError,
    MismatchError,
    ShapeError,
    ValueRangeError,
)
from assay.io.formats import as_judgments, as_ranking, read_qrels, read_run

RULES = preset("trec_eval")


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def pickled_files(folder, mark):
    array = np.array([[Payload(mark)]], dtype=object)
    np.save(folder / "a.npy", array, allow_pickle=True)
    np.savez(folder / "a.npz", scores=array, allow_pickle=True)
    (folder / "bare.npy").write_bytes(pickle.dumps(Payload(mark)))
    (folder / "bare").write_bytes(pickle.dumps(Payload(mark)))
    np.savez(folder / "b.npz", targets=array, allow_pickle=True)
    return sorted(path for path in folder.iterdir() if path.is_file())


def test_pickles_are_refused_and_never_run(tmp_path):
    mark = tmp_path / "payload-ran"
    files = pickled_files(tmp_path, mark)
    assert len(files) == 5
    for path in files:
        for read in (read_run, read_qrels):
            with pytest.raises(FormatError):
                read(path)
    with pytest.raises(FormatError, match="pickled Python objects, which are never loaded"):
        read_run(tmp_path / "a.npy")
    assert not mark.exists()


def test_object_arrays_in_memory():
    ragged = np.array([[1.0, 2.0], [1.0]], dtype=object)
    with pytest.raises(ShapeError, match="object array"):
        assay.Ranking.from_scores(ragged)


def test_duplicate_id(engine, tmp_path):
    with pytest.raises(IdError, match="query id 'q' appears twice, in rows 0 and 1"):
        assay.Ranking.from_scores([[1.0], [2.0]], query_ids=["q", "q"])
    with pytest.raises(IdError, match="doc id 7 appears twice"):
        assay.Judgments.from_labels([1], [1, 2], doc_ids=[7, 7])
    path = tmp_path / "run.json"
    path.write_text('{"q": {"a": 1}, "q": {"b": 1}}')
    with pytest.raises(FormatError, match="the key 'q' appears twice"):
        read_run(path)


@pytest.mark.parametrize(
    "mixed",
    [
        {1: {"a": 1.0}, "1": {"a": 1.0}},
        {"q": {1: 1.0, "1": 2.0}},
        {"q": {1: 1.0}, "r": {"1": 2.0}},
        [("q", 1, 1.0), ("q", "1", 1.0)],
        {"q": [1, "1"]},
    ],
)
def test_one_and_text_one_in_one_input(engine, mixed):
    with pytest.raises(IdError, match=r"mix text and integers.*ambiguous"):
        as_ranking(mixed, RULES)
    with pytest.raises(IdError, match=r"mix text and integers.*ambiguous"):
        as_judgments(mixed)


def test_one_on_one_side_and_text_one_on_the_other_are_one_id(engine):
    as_text = {"1": {"2": 1.0, "10": 1.0, "3": 1.0}}
    as_integers = {1: {2: 1.0, 10: 1.0, 3: 1.0}}
    judged = assay.evaluate(as_text, {"1": {"10": 1}}, "RR")
    for run, qrels in (
        (as_integers, {"1": {"10": 1}}),
        (as_text, {1: {10: 1}}),
        (as_integers, {1: {10: 1}}),
        ({1: as_text["1"]}, {"1": {10: 1}}),
    ):
        found = assay.evaluate(run, qrels, "RR")
        assert found["RR"].tolist() == judged["RR"].tolist() == [1 / 3]
        assert found.signature == judged.signature
    padded = {f"0{n}": {"a": 1} for n in range(1, 9)}
    with pytest.raises(MismatchError, match="zero padding"):
        assay.evaluate({n: {"a": 1.0} for n in range(1, 9)}, padded)


def test_numbered_rows_are_no_ids(engine):
    with pytest.raises(IdError, match="Numbered rows"):
        assay.evaluate(assay.Ranking.from_scores([[1.0, 2.0]]), {"0": {"0": 1}}, "RR")


@pytest.mark.parametrize("sneaky", [True, 1.0, np.float64(1), b"1", None, float("nan"), (1,)])
def test_what_equals_an_integer_is_not_one(sneaky):
    with pytest.raises(IdError, match="the doc id is"):
        as_ranking({"q": {1: 1.0}, "r": {sneaky: 1.0}}, RULES)
    with pytest.raises(IdError, match="the query id is"):
        as_ranking([(1, "a", 1.0), (sneaky, "b", 1.0)], RULES)


@pytest.mark.parametrize("odd", ["", " ", "a b", "a\tb", "a\nb", "a\rb", "a\0", "\0", "\ud800"])
def test_ids_that_would_tear_a_line_apart(engine, odd, tmp_path):
    for source in ({"q": {odd: 1.0}}, {odd: {"a": 1.0}}, [("q", odd, 1.0)], {"q": [odd]}):
        with pytest.raises(IdError, match="id is"):
            as_ranking(source, RULES)
        with pytest.raises(IdError, match="id is"):
            as_judgments(source)
    with pytest.raises(IdError):
        assay.Ranking.from_scores([[1.0]], doc_ids=[odd])


def test_composed_and_decomposed_accents_stay_distinct(engine, tmp_path):
    composed, decomposed = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    run = {"q": {composed: 2.0, decomposed: 1.0}}
    scores = assay.evaluate(run, {"q": {decomposed: 1}}, "RR")
    assert scores["RR"].tolist() == [0.5]
    for name, text in (
        ("run.txt", f"q Q0 {composed} 1 2 t\nq Q0 {decomposed} 2 1 t\n"),
        ("run.csv", f"query,doc,score\nq,{composed},2\nq,{decomposed},1\n"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert [doc for doc, _ in read_run(tmp_path / name).row("q")] == [composed, decomposed]


@pytest.mark.parametrize("missing", [None, float("nan"), np.float64("nan")])
def test_missing_label(missing):
    for labels, row in ((["a", missing], 1), ([missing, "a"], 0), ([1, missing], 1)):
        with pytest.raises(ValueRangeError, match=f"doc_labels is missing in row {row}"):
            assay.Judgments.from_labels(["a"], labels)
    with pytest.raises(ValueRangeError, match="query_labels holds nan in row 1"):
        assay.Judgments.from_labels(np.array([1.0, np.nan]), [1])


def test_a_label_on_one_side_only_is_an_empty_query(engine):
    ranking = assay.Ranking.from_scores([[2.0, 1.0], [2.0, 1.0]])
    judgments = assay.Judgments.from_labels(["cat", "unicorn"], ["dog", "cat"])
    scores = assay.score(assay.judge(ranking, judgments), "RR", conventions="label_retrieval")
    assert scores["RR"][0] == 0.5
    assert np.isnan(scores["RR"][1])
    mean = scores.mean()
    assert mean["RR"] == 0.5
    assert (mean.counts["RR"].n, mean.counts["RR"].empty) == (1, 1)


def test_lengths_differ():
    with pytest.raises(MismatchError, match="query_ids has 1, rows has 2"):
        assay.Ranking.from_scores([[1.0], [2.0]], query_ids=["q"])
    with pytest.raises(ShapeError, match=r"\(1, 2\).*\(1, 3\)"):
        assay.Ranking.from_arrays([[1, 2]], [[1.0, 2.0, 3.0]])
    with pytest.raises(MismatchError, match="doc_labels has 2, doc_ids has 1"):
        assay.Judgments.from_labels([1], [1, 2], doc_ids=["a"])
    with pytest.raises(MismatchError, match="targets has 2, query_ids has 1"):
        assay.Judgments.from_targets([1, 2], query_ids=["a"])
    with pytest.raises(InputError, match="row 1: expected 3 elements"):
        as_ranking([("q", "a", 1.0), ("q", "b")], RULES)


@pytest.mark.parametrize("power", [24, 53, 62])
@pytest.mark.parametrize(
    ("left", "right"),
    [(list, list), (np.int64, np.int64), (np.int64, np.uint64), (np.uint64, list)],
)
def test_large_integer_labels_stay_distinct(engine, power, left, right):
    near = [2**power, 2**power + 1]
    both = [left(near), right(near[1:])]
    assert assay.Judgments.from_labels(*both).n_relevant.tolist() == [0, 1]


def test_labels_that_lose_digits_are_refused():
    for labels in ([2**63, 1], [-(2**63) - 1], np.array([2**63], np.uint64)):
        with pytest.raises(ValueRangeError, match="does not fit 64 bits"):
            assay.Judgments.from_labels(labels, [1])
    for labels in (np.array([2.0**53]), [2**53 + 1, 1.0]):
        with pytest.raises(ValueRangeError, match="query_labels holds"):
            assay.Judgments.from_labels(labels, [1])


def test_large_integer_ids_stay_distinct(engine):
    run = {2**53: {2**53: 2.0, 2**53 + 1: 1.0}, 2**53 + 1: {2**53: 1.0}}
    scores = assay.evaluate(run, {2**53: {2**53 + 1: 1}, 2**53 + 1: {2**53: 1}}, "RR")
    assert scores["RR"].tolist() == [0.5, 1.0]
    with pytest.raises(IdError, match="exceeds 64 bits"):
        as_ranking({2**64: {"a": 1.0}}, RULES)
