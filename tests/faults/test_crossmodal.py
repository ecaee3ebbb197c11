"""Faults that label retrieval meets, by their numbers."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from assay.crossmodal import SampleRows, label_retrieval
from assay.crossmodal.compat import save_results
from assay.errors import (
    AssayError,
    FormatError,
    IdError,
    InputError,
    MismatchError,
    ShapeError,
    UsageError,
    ValueRangeError,
)

LABELS = ["a", "a", "b", "b"]
GOOD = np.array([[1.0, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])


def search(vectors=GOOD, labels=LABELS, **options):
    return label_retrieval({"image": vectors}, labels, k_values=[1], **options)["label"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_named(bad):
    vectors = GOOD.copy()
    vectors[2, 1] = bad
    with pytest.raises(ValueRangeError, match=r"'image': sample 2 holds -?(nan|inf) in column 1"):
        search(vectors)
    with pytest.raises(ValueRangeError, match="sample 'y' holds"):
        search(SampleRows(vectors, ["w", "x", "y", "z"]), SampleRows(LABELS, ["z", "y", "x", "w"]))


def test_a_zero_vector_under_cosine():
    vectors = GOOD.copy()
    vectors[1] = 0
    with pytest.raises(ValueRangeError, match="sample 1 is all zeros"):
        search(vectors)
    for zero in ("drop", "last"):
        assert search(vectors, zero=zero)["image2image"].scores["P@1"][2] == 1.0
    assert search(vectors, metric="dot")["image2image"][1] >= 0


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_tiny_and_huge_vectors_are_ranked_alike(scale):
    assert search(GOOD * scale)["image2image"][1] == search()["image2image"][1] == 1.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_types_are_widened(dtype):
    assert search(GOOD.astype(dtype))["image2image"][1] == 1.0


@pytest.mark.parametrize("shape", [(4,), (4, 2, 1), (0, 2), (4, 0)])
def test_shapes_are_named(shape):
    with pytest.raises(ShapeError, match=str(shape).replace("(", r"\(").replace(")", r"\)")):
        search(np.ones(shape))


def test_dimensions_that_differ():
    with pytest.raises(InputError, match="queries have 3 dimensions and the items 2"):
        label_retrieval({"image": GOOD, "text": np.ones((4, 3))}, LABELS, k_values=[1])


def test_other_memory_layouts_give_the_same_bytes(tmp_path):
    np.save(tmp_path / "x.npy", GOOD)
    plain = search()["image2image"].scores.values.tobytes()
    wide = np.zeros((8, 4))
    wide[::2, ::2] = GOOD
    for other in (
        np.asfortranarray(GOOD),
        wide[::2, ::2],
        GOOD.astype(">f8"),
        np.load(tmp_path / "x.npy", mmap_mode="r"),
    ):
        assert search(other)["image2image"].scores.values.tobytes() == plain


def test_objects_are_refused():
    with pytest.raises(AssayError):
        search(np.array([[1, "a"], [2, "b"], [3, "c"], [4, "d"]], dtype=object))


def test_sample_ids():
    for ids, words in (
        (["x", "x", "y", "z"], "appears twice"),
        ([1, "1", 2, 3], "mix text and integers"),
        (["x", "", "y", "z"], "cannot be empty"),
        (["x", "a b", "y", "z"], "white space"),
    ):
        with pytest.raises(IdError, match=words):
            search(SampleRows(GOOD, ids))
    with pytest.raises(MismatchError, match="has 3"):
        search(SampleRows(GOOD, ["x", "y", "z"]))


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_label_is_named_with_its_row(missing):
    with pytest.raises(ValueRangeError, match="row 1"):
        search(labels=["a", missing, "b", "b"])


def test_a_label_on_one_side_only_is_an_empty_query():
    found = search(labels=["a", "a", "b", "c"])["image2image"]
    assert found.empty_labels == ["b", "c"]
    assert found.micro.counts["P@1"].empty == 2
    assert found.micro.counts["P@1"].n == 2


def test_lengths_that_differ():
    with pytest.raises(MismatchError, match="embeddings 'image' has 4, labels 'label' has 3"):
        search(labels=["a", "a", "b"])


@pytest.mark.parametrize("base", [2**24, 2**53])
def test_large_whole_labels_stay_apart(base):
    found = search(labels=[base, base + 1, base + 2, base + 3])["image2image"]
    assert len(found.empty_labels) == 4


def test_the_order_of_samples_changes_nothing():
    ids = np.array(["s1", "s2", "s3", "s4"])
    plain = label_retrieval({"image": SampleRows(GOOD, ids)}, SampleRows(LABELS, ids))["label"][
        "image2image"
    ]
    order = np.array([3, 1, 0, 2])
    mixed = label_retrieval(
        {"image": SampleRows(GOOD[order], ids[order])},
        SampleRows(np.array(LABELS)[order], ids[order]),
    )["label"]["image2image"]
    assert mixed.to_dict() == plain.to_dict()


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_senseless_cutoffs(k):
    with pytest.raises(UsageError, match="whole number ≥ 1"):
        label_retrieval({"image": GOOD}, LABELS, k_values=[k])


def test_a_cutoff_beyond_the_collection_still_divides_by_k():
    found = label_retrieval({"image": GOOD}, LABELS, k_values=[100])["label"]["image2image"]
    assert found[100] == pytest.approx(1 / 100)
    assert found.ceiling.mean()["P@100"] == pytest.approx(1 / 100)


def test_metadata_with_nan_or_doubled_keys(tmp_path):
    from assay.crossmodal import load_text_prototypes_from_metadata

    for text in ('{"milan": NaN}', '{"milan": {}, "milan": {}}', "[" * 10_000):
        (tmp_path / "m.json").write_text(text)
        with pytest.raises(FormatError):
            load_text_prototypes_from_metadata(tmp_path / "m.json", "milan")


def test_what_was_there_stays_when_results_cannot_be_written(tmp_path):
    path = tmp_path / "results.json"
    path.write_text("old")
    with pytest.raises(UsageError):
        save_results({"text2sensor": {10: "no number"}}, path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["results.json"]


def test_names_are_shown_literally(tmp_path, assay):
    labels = np.array(["=cmd()", "\x1b[31mred"] * 10)
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(20, 3)))
    np.save(tmp_path / "l.npy", labels)
    base = (
        "crossmodal",
        "--modality",
        f"image={tmp_path / 'v.npy'}",
        "--labels",
        tmp_path / "l.npy",
        "--k-values",
        "3",
        "--full",
    )
    shown = assay(*base)
    assert "\x1b" not in shown.out
    assert "\\x1b[31mred" in shown.out
    assert "'=cmd()" in assay(*base, "--format", "csv").out
    data = json.loads(assay(*base, "--json").out)
    assert "=cmd()" in data["levels"]["label"]["image2image"]["labels"]


def test_no_bar_without_a_terminal(tmp_path, assay):
    np.save(tmp_path / "v.npy", GOOD)
    np.save(tmp_path / "l.npy", np.array(LABELS))
    said = assay(
        "crossmodal",
        "--modality",
        f"image={tmp_path / 'v.npy'}",
        "--labels",
        tmp_path / "l.npy",
        "--k-values",
        "1",
    )
    assert said.code == 0
    assert "searching" not in said.err
    assert "\x1b" not in said.err + said.out
