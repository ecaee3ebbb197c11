"""numpy files: rankings and judgments from them."""

from __future__ import annotations

import numpy as np
import pytest

from assay.core.judgments import Labels
from assay.errors import FormatError, IdError, InputError, ShapeError, ValueRangeError
from assay.io.arrays import NpyRows, load_npy
from assay.io.formats import read_qrels, read_run
from assay.io.mapped import is_mapped

SCORES = np.array([[0.1, 0.9, 0.5], [0.3, 0.2, 0.3]])


def saved(folder, **arrays):
    path = folder / "a.npz"
    np.savez(path, **arrays)
    return path


def rows(ranking):
    return {query: ranking.row(query) for query in ranking.query_ids}


def test_a_score_matrix_is_a_complete_ranking(tmp_path):
    expected = {0: [(1, 0.9), (2, 0.5), (0, 0.1)], 1: [(2, 0.3), (0, 0.3), (1, 0.2)]}
    np.save(tmp_path / "s.npy", SCORES)
    for run in (read_run(tmp_path / "s.npy"), read_run(saved(tmp_path, scores=SCORES))):
        assert rows(run) == expected
        assert run.complete.all()
    by_index = read_run(tmp_path / "s.npy", conventions="ranx")
    assert by_index.row(1) == [(0, 0.3), (2, 0.3), (1, 0.2)]


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_layout_gives_the_same_array(tmp_path, dtype, order):
    matrix = np.asarray(SCORES, dtype, order=order)
    np.save(tmp_path / "s.npy", matrix)
    loaded = load_npy(tmp_path / "s.npy")
    assert not is_mapped(loaded)  # what is read whole outlives the file
    assert not loaded.flags.writeable
    np.testing.assert_array_equal(loaded, matrix)
    run = read_run(saved(tmp_path, scores=matrix))
    assert rows(run) == rows(read_run(tmp_path / "s.npy"))


def test_docs_scores_and_ids(tmp_path):
    path = saved(
        tmp_path,
        docs=[[2, 0], [1, -1]],
        scores=[[0.5, 0.5], [1.0, 0.0]],
        query_ids=["q1", "q2"],
        doc_ids=["a", "b", "c"],
        n_docs=0,
    )
    run = read_run(path)
    assert rows(run) == {"q1": [("c", 0.5), ("a", 0.5)], "q2": [("b", 1.0)]}
    assert run.n_docs == 0
    assert rows(read_run(saved(tmp_path, docs=[[2, 0]]))) == {0: [(2, 0.0), (0, -1.0)]}


def test_judgments_by_label_target_and_pair(tmp_path):
    labels = read_qrels(saved(tmp_path, query_labels=["x"], doc_labels=["x", "y"]))
    assert isinstance(labels, Labels)
    targets = read_qrels(saved(tmp_path, targets=[1, -1], n_docs=3))
    assert np.diff(targets.offsets).tolist() == [1, 0]
    pairs = read_qrels(
        saved(tmp_path, queries=[0, 1], docs=[1, 0], grades=[2.0, 1.0], doc_ids=["a", "b"])
    )
    assert (pairs.doc_ids.to_list(), pairs.grades.tolist()) == (["a", "b"], [2.0, 1.0])


@pytest.mark.parametrize(
    ("arrays", "error", "found"),
    [
        ({"scores": SCORES, "doc_id": ["a"]}, FormatError, "'doc_id'. Known arrays are docs"),
        ({"query_ids": ["a"]}, FormatError, "needs the array 'docs'"),
        ({"scores": SCORES.astype("U")}, ValueRangeError, "must hold real numbers"),
        ({"scores": SCORES[0]}, ShapeError, "shape"),
        ({"scores": np.array([[np.nan]])}, ValueRangeError, "nan"),
        ({"docs": [[1, 1]]}, IdError, "twice"),
        ({"docs": [[1.5]]}, ValueRangeError, "integers"),
        ({"docs": [[5]], "doc_ids": ["a"]}, ValueRangeError, "out of range"),
        ({"docs": [[0]], "doc_ids": ["a"], "n_docs": [1, 2]}, ShapeError, "n_docs"),
        ({"docs": [[0, 1]], "n_docs": 1}, ValueRangeError, "out of range for 1 doc"),
        ({"docs": [[0]], "doc_ids": ["a", "b"], "n_docs": 1}, ValueRangeError, "n_docs is 1"),
        ({"docs": [[0]], "by_line": [True, False]}, ShapeError, "by_line must be True or False"),
        ({"docs": [[0]], "query_ids": ["a", "b"]}, InputError, "same length"),
        ({"docs": np.zeros(1, [("a", int)])}, FormatError, "Save numbers or text"),
    ],
)
def test_faulty_runs(tmp_path, arrays, error, found):
    with pytest.raises(error, match=found):
        read_run(saved(tmp_path, **arrays))


@pytest.mark.parametrize(
    ("arrays", "error", "found"),
    [
        ({"targets": [0], "grades": [1]}, FormatError, "Save query_labels and doc_labels"),
        ({"queries": [0], "docs": [3], "grades": [1], "doc_ids": ["a"]}, ValueRangeError, "range"),
        ({"queries": [-1], "docs": [0], "grades": [1]}, ValueRangeError, "number -1 in row 0"),
        (
            {"queries": [2**62], "docs": [0], "grades": [1]},
            ValueRangeError,
            "is too large",
        ),
        ({"targets": [2**62]}, ValueRangeError, "target 4611686018427387904 .* out of range"),
        ({"queries": [0.0], "docs": [0], "grades": [1]}, ShapeError, "integers"),
        ({"queries": [0], "docs": [0], "grades": [[1]]}, ShapeError, "one number per judgment"),
        ({"queries": [0], "docs": [0], "grades": [1, 2]}, InputError, "same length"),
        ({"queries": [0], "docs": [0], "grades": [np.inf]}, ValueRangeError, "inf"),
        ({"queries": [0], "docs": [0], "grades": [1], "doc_ids": ["a", "a"]}, IdError, "twice"),
    ],
)
def test_faulty_judgments(tmp_path, arrays, error, found):
    with pytest.raises(error, match=found):
        read_qrels(saved(tmp_path, **arrays))


def test_bare_arrays_that_could_mean_two_things(tmp_path):
    np.save(tmp_path / "s.npy", np.array([[3, 1, 2]]))
    with pytest.raises(ValueRangeError, match="could be scores or document numbers"):
        read_run(tmp_path / "s.npy")
    with pytest.raises(FormatError, match="does not say what is relevant"):
        read_qrels(tmp_path / "s.npy")


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_of_a_file_are_those_of_its_array(order, tmp_path, monkeypatch):
    monkeypatch.setattr("assay.io.arrays.WINDOW_BYTES", 100)  # a few rows at a time
    array = np.asarray(np.arange(51.0).reshape(17, 3), order=order)
    np.save(tmp_path / "rows.npy", array)
    rows = NpyRows(tmp_path / "rows.npy")
    assert (len(rows), rows.ndim, rows.nbytes, rows.dtype) == (17, 2, array.nbytes, array.dtype)
    for part in (slice(None), slice(3, 9), slice(-4, None), slice(9, 3), slice(16, 0, -5)):
        assert np.array_equal(rows[part], array[part])
    for chosen in (np.array([16, 0, 5, 5, -1]), array[:, 0] > 20, np.array([], np.int64)):
        some = rows[chosen]
        assert isinstance(some, NpyRows)
        assert some.shape == array[chosen].shape == some.stand_in.shape
        assert np.array_equal(some[:], array[chosen])
        assert np.array_equal(some[1:], array[chosen][1:])
        assert np.array_equal(np.asarray(some[np.arange(len(some))[::-1]]), array[chosen][::-1])
    assert np.array_equal(np.asarray(rows), array)
    with pytest.raises(IndexError):
        rows[np.array([17])]


def test_other_arrays_may_stand_beside_and_one_may_be_named(tmp_path):
    path = saved(tmp_path, scores=SCORES, other=-SCORES, notes=["x"])
    assert rows(read_run(path)) == rows(read_run(saved(tmp_path, scores=SCORES)))
    path = saved(tmp_path, scores=SCORES, other=-SCORES, docs=[[0], [1]])
    assert read_run(f"{path}:other").row(0) == [(0, -0.1), (2, -0.5), (1, -0.9)]
    truth = saved(tmp_path, gold=[1, 0], query_labels=["x", "y"], doc_labels=["x", "y"])
    assert isinstance(read_qrels(truth), Labels)
    assert read_qrels(f"{truth}:gold").docs.tolist() == [1, 0]
    with pytest.raises(FormatError, match="or name the targets"):
        read_qrels(saved(tmp_path, targets=[0], query_labels=["x"], doc_labels=["x"]))
