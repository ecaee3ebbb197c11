"""Files of predictions: every format gives the same numbers, and what is wrong is named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.errors import AssayError, FormatError, MismatchError, UsageError, ValueRangeError
from assay.io.arrays import NpyRows
from assay.prediction.files import read_labels, read_prediction_file

LOGITS = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
TARGETS = np.array([0, 3, 2, -1, 1])
TABLE = "id,target,top,user\ns1,7,7 8,a\ns2,8,\"['9', '7']\",b\n"


def test_npy_is_read_as_needed_and_needs_targets(tmp_path):
    np.save(tmp_path / "x.npy", LOGITS)
    read = read_prediction_file(tmp_path / "x.npy", targets=TARGETS)
    assert isinstance(read.scores, NpyRows)
    with pytest.raises(UsageError, match="--targets"):
        read_prediction_file(tmp_path / "x.npy")


def test_npy_of_integers_is_ambiguous(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, 2], [3, 4]]))
    with pytest.raises(ValueRangeError, match=r"x\.npy holds int64: scores or class numbers"):
        read_prediction_file(tmp_path / "x.npy", targets=[1, 2])
    read = read_prediction_file(tmp_path / "x.npy", targets=[1, 2], candidates=("top",))
    assert read.candidates["top"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("name", ["scores", "logits"])
@pytest.mark.parametrize("target", ["targets", "true_y", "labels"])
def test_npz_under_the_usual_names(tmp_path, name, target):
    np.savez(tmp_path / "x.npz", **{name: LOGITS, target: TARGETS})
    read = read_prediction_file(tmp_path / "x.npz")
    assert read.scores.tolist() == LOGITS.tolist()
    assert read.targets.tolist() == TARGETS.tolist()


@pytest.mark.parametrize(
    ("arrays", "error", "words"),
    [
        ({"scores": LOGITS}, FormatError, "lacks targets"),
        ({"targets": TARGETS}, FormatError, r"x\.npz lacks scores"),
        ({"scores": LOGITS, "logits": LOGITS, "targets": TARGETS}, MismatchError, "Keep one"),
        ({"scores": LOGITS, "targets": TARGETS, "label": TARGETS}, MismatchError, "Keep one"),
        ({"scores": LOGITS, "targets": TARGETS, "query_id": TARGETS}, FormatError, "query_ids"),
    ],
)
def test_npz_that_is_a_riddle(tmp_path, arrays, error, words):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(error, match=words):
        read_prediction_file(tmp_path / "x.npz")


def test_tables_of_lists(tmp_path):
    (tmp_path / "x.csv").write_text(TABLE)
    (tmp_path / "x.tsv").write_text("id\ttarget\ttop\tuser\ns1\t7\t7 8\ta\ns2\t8\t9,7\tb\n")
    records = [
        {"id": "s1", "target": "7", "top": ["7", "8"], "user": "a"},
        {"id": "s2", "target": "8", "top": ["9", "7"], "user": "b"},
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    for name in ("x.csv", "x.tsv", "x.jsonl"):
        read = read_prediction_file(tmp_path / name, candidates=("top",))
        assert read.candidates == {"top": [["7", "8"], ["9", "7"]]}
        assert (read.targets, read.query_ids) == (["7", "8"], ["s1", "s2"])
        assert read.columns["user"] == ["a", "b"]


def test_parquet_of_lists_and_of_scores(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"target": [7, None], "top": [[7, 8], [9]], "id": ["a", "b"]})
    parquet.write_table(table, tmp_path / "lists.parquet")
    read = read_prediction_file(tmp_path / "lists.parquet", candidates=("top",))
    assert (read.candidates["top"], read.targets) == ([[7, 8], [9]], [7, None])
    for kind in (arrow.list_(arrow.float32()), arrow.list_(arrow.float32(), 4)):
        scores = arrow.array(LOGITS.tolist(), kind)
        parquet.write_table(
            arrow.table({"logits": scores, "target": TARGETS}), tmp_path / "x.parquet"
        )
        batches = list(read_prediction_file(tmp_path / "x.parquet").batches())
        assert np.concatenate(batches).tolist() == LOGITS.tolist()


def test_parquet_rows_of_different_lengths_are_named(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        arrow.table({"logits": [[1.0, 2.0], [1.0]], "target": [0, 0]}), tmp_path / "x.parquet"
    )
    with pytest.raises(FormatError, match="row 1: logits holds 1 scores, the first row holds 2"):
        list(read_prediction_file(tmp_path / "x.parquet").batches())
    parquet.write_table(
        arrow.table({"logits": [[1.0, None], [1.0, 2.0]], "target": [0, 0]}), tmp_path / "y.parquet"
    )
    with pytest.raises(ValueRangeError, match="missing values"):
        list(read_prediction_file(tmp_path / "y.parquet").batches())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,target,top\ns1,7\n", "line 2: expected 3 columns, found 2"),
        ("id,target,top\n", "a header but no rows"),
        ("id,id,top\na,b,c\n", r"x\.csv: two columns share a name"),
        ("id,target,best\ns1,7,8\n", r"x\.csv lacks candidates"),
        ("id,goal,top\ns1,7,8\n", "lacks targets"),
        ('id,target,top\ns1,7,"8\n', "line 2"),
    ],
)
def test_tables_that_are_wrong_are_named(tmp_path, text, words):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(FormatError, match=words):
        read_prediction_file(tmp_path / "x.csv", candidates=("top",))


def test_labels_from_arrays_and_columns(tmp_path):
    np.save(tmp_path / "y.npy", TARGETS)
    (tmp_path / "x.csv").write_text(TABLE)
    assert read_labels(str(tmp_path / "y.npy")) == TARGETS.tolist()
    assert read_labels(f"{tmp_path / 'x.csv'}:user") == ["a", "b"]
    with pytest.raises(FormatError, match=r"x\.csv lacks this column"):
        read_labels(f"{tmp_path / 'x.csv'}:nobody")
    with pytest.raises(FormatError, match=r"x\.xlsx: unknown type"):
        read_labels(str(tmp_path / "x.xlsx"))


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.parquet", "x.jsonl"])
def test_fault_38_truncated_at_many_cuts(tmp_path, name):
    if name.endswith("parquet"):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(
            arrow.table({"logits": LOGITS.tolist(), "target": TARGETS}), tmp_path / name
        )
    elif name == "x.npz":
        np.savez(tmp_path / name, scores=LOGITS, targets=TARGETS)
    elif name == "x.npy":
        np.save(tmp_path / name, LOGITS)
    else:
        text = TABLE if name == "x.csv" else '{"target": "7", "top": ["7"]}\n'
        (tmp_path / name).write_text(text)
    whole = (tmp_path / name).read_bytes()
    for cut in range(0, len(whole) - 2, max(1, len(whole) // 40)):
        (tmp_path / name).write_bytes(whole[:cut])
        try:
            read = read_prediction_file(
                tmp_path / name,
                targets=TARGETS,
                candidates=("top",) if name in ("x.csv", "x.jsonl") else (),
            )
            if read.batches is not None:
                list(read.batches())
        except AssayError:
            continue
        assert name == "x.csv", f"cut at {cut} of {len(whole)} went unnoticed"


@pytest.mark.parametrize(
    ("cell", "items"),
    [
        ("7 8", ["7", "8"]),
        ("Joe's bar", ["Joe's", "bar"]),
        ("Joe's bar, home", ["Joe's bar", "home"]),
        ("['a', 'b c']", ["a", "b c"]),
        ("[1 2\t3]", ["1", "2", "3"]),
        ("(1, 2)", ["1", "2"]),
        ("", []),
        ("[]", []),
    ],
)
def test_lists_written_as_text(tmp_path, cell, items):
    (tmp_path / "x.jsonl").write_text(json.dumps({"target": "a", "top": cell}))
    assert read_prediction_file(tmp_path / "x.jsonl", candidates=("top",)).candidates["top"] == [
        items
    ]


def test_an_empty_cell_is_no_target(tmp_path):
    (tmp_path / "x.csv").write_text("target,top\n7,7\n,7\n")
    assert read_prediction_file(tmp_path / "x.csv", candidates=("top",)).targets == ["7", None]
