"""Descriptions of labels: from metadata to vectors."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.crossmodal import (
    Prototypes,
    encode_text_prototypes,
    label_retrieval,
    load_text_prototypes_from_metadata,
)
from assay.errors import FormatError, ShapeError, StorageError, UsageError, ValueRangeError

METADATA = {
    "milan": {
        "label_to_text_sourish": {"Cook": "cooking a meal", "Sleep": ["asleep", "in bed"]},
        "label_to_text_short": {"Cook": "cook"},
        "rooms": 7,
    },
    "aruba": {},
}


@pytest.fixture
def metadata(tmp_path):
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps(METADATA), "utf-8")
    return path


def lengths(texts):
    return np.array([[len(text), 1.0] for text in texts])


def test_descriptions_are_read_as_they_stand(metadata):
    found = load_text_prototypes_from_metadata(
        metadata_path=metadata, dataset_name="milan", style="sourish"
    )
    assert found == METADATA["milan"]["label_to_text_sourish"]
    assert load_text_prototypes_from_metadata(metadata, "milan", style="short") == {"Cook": "cook"}


def test_what_is_not_there_is_named_with_what_is(metadata):
    with pytest.raises(UsageError, match=r"Did you mean milan\?"):
        load_text_prototypes_from_metadata(metadata, "millan")
    with pytest.raises(
        UsageError, match=r"metadata\.json, dataset 'milan': unknown caption style 'shot'"
    ):
        load_text_prototypes_from_metadata(metadata, "milan", style="shot")
    with pytest.raises(UsageError, match="Known: none"):
        load_text_prototypes_from_metadata(metadata, "aruba")
    with pytest.raises(StorageError, match="does not exist"):
        load_text_prototypes_from_metadata(metadata.with_name("no.json"), "milan")


@pytest.mark.parametrize("texts", ["", " ", [], ["a", ""], 3, None, {"a": "b"}, [["a"]]])
def test_a_label_without_a_description(metadata, texts):
    metadata.write_text(json.dumps({"milan": {"label_to_text_sourish": {"Cook": texts}}}))
    with pytest.raises(ValueRangeError, match="label 'Cook' is described by"):
        load_text_prototypes_from_metadata(metadata, "milan")


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"milan": 3}', '{"milan": {"label_to_text_sourish": []}}']
)
def test_files_of_another_shape(metadata, text):
    metadata.write_text(text)
    with pytest.raises(FormatError):
        load_text_prototypes_from_metadata(metadata, "milan")


def test_one_row_for_each_text_of_each_label():
    texts = METADATA["milan"]["label_to_text_sourish"]
    vectors, labels = encode_text_prototypes(
        label_to_text=texts, text_encoder=lengths, device="cpu", normalize=False
    )
    assert vectors.tolist() == [[14, 1], [6, 1], [6, 1]]
    assert labels.tolist() == ["Cook", "Sleep", "Sleep"]
    unit, _ = encode_text_prototypes(texts, lengths)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1)


class Tensor:
    """As much of a torch tensor as is needed."""

    def __init__(self, array):
        self.array = array

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.array


class ClipLike:
    """The text encoder that the document uses."""

    def encode_texts_clip(self, texts, device):
        assert device == "cuda:1"
        return Tensor(lengths(texts))


class WithEncode:
    def encode(self, texts):
        return lengths(texts).tolist()


@pytest.mark.parametrize("model", [ClipLike(), WithEncode(), lengths])
def test_whatever_encodes_texts_is_taken(model):
    vectors, _ = encode_text_prototypes({"a": "abc"}, model, device="cuda:1", normalize=False)
    assert vectors.tolist() == [[3.0, 1.0]]


def test_what_does_not_encode_is_refused():
    with pytest.raises(UsageError, match="int is not a text encoder"):
        encode_text_prototypes({"a": "abc"}, 3)
    with pytest.raises(ShapeError, match=r"shape \(1, 2\) for 2 texts"):
        encode_text_prototypes({"a": ["b", "c"]}, lambda texts: lengths(texts[:1]))
    with pytest.raises(ValueRangeError, match="NaN or infinite values for text 0, 'b'"):
        encode_text_prototypes({"a": "b"}, lambda texts: [[np.nan]])
    with pytest.raises(ValueRangeError, match="description of 'a' became a zero vector"):
        encode_text_prototypes({"a": "b"}, lambda texts: [[0.0, 0.0]])
    with pytest.raises(UsageError, match="at least one label"):
        encode_text_prototypes({}, lengths)


def test_prototypes_need_a_label_each():
    with pytest.raises(ValueError, match="prototype_embeddings has 2, prototype_labels has 1"):
        Prototypes.of([[1.0], [2.0]], ["a"])
    with pytest.raises(UsageError, match="No prototype is left"):
        label_retrieval(
            {"image": [[1.0], [2.0]]},
            ["a", "b"],
            prototypes=Prototypes.of([[1.0]], ["a"]),
            drop_labels=["a"],
        )
