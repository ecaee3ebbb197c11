"""onnx: a small real model, its poolings, lengths and what can be wrong with a folder."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.errors import FormatError, StorageError, UsageError
from assay.models import EncoderSettings, encoder, text_model
from tests.models.onnx_model import write_model

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

TEXTS = ["cat", "dog red mat cat", "red zebra", "mat " * 30]
IDS = [[1, 4, 2], [1, 5, 6, 7, 4, 2], [1, 6, 3, 2], [1, *[7] * 30, 2]]


def rows_of(arrays, ids):
    table, matrix = arrays
    return np.tanh(table[ids] @ matrix)


@pytest.mark.parametrize(
    ("pooling", "pooled"),
    [
        ("mean_tokens", lambda rows: rows.mean(axis=0)),
        ("cls_token", lambda rows: rows[0]),
        ("max_tokens", lambda rows: rows.max(axis=0)),
    ],
)
def test_pooling_is_what_the_folder_says(tmp_path, pooling, pooled):
    arrays = write_model(tmp_path, pooling=pooling)
    made = text_model(f"onnx:{tmp_path}").encode_docs(TEXTS)
    assert np.allclose(made.vectors, [pooled(rows_of(arrays, ids)) for ids in IDS], atol=1e-6)
    assert not made.truncated.any()


def test_padding_changes_nothing(tmp_path):
    write_model(tmp_path)
    model = encoder(f"onnx:{tmp_path}")
    together = model.encode(TEXTS)
    alone = np.concatenate([model.encode([text]) for text in TEXTS])
    assert np.allclose(together, alone, atol=1e-6)


def test_length_and_scale_are_what_the_folder_says(tmp_path):
    arrays = write_model(tmp_path, scale=True, max_length=4)
    made = text_model(f"onnx:{tmp_path}").encode_docs(TEXTS)
    assert made.truncated.tolist() == [False, True, False, True]
    expected = rows_of(arrays, [1, 5, 6, 2]).mean(axis=0)
    assert np.allclose(made.vectors[1], expected / np.linalg.norm(expected), atol=1e-6)
    raw = text_model(f"onnx:{tmp_path}", settings=EncoderSettings(max_length=6, normalize=False))
    again = raw.encode_docs(TEXTS)
    assert again.truncated.tolist() == [False, False, False, True]
    assert np.allclose(again.vectors[1], rows_of(arrays, IDS[1]).mean(axis=0), atol=1e-6)


def test_the_files_are_the_fingerprint(tmp_path):
    write_model(tmp_path)
    first = text_model(f"onnx:{tmp_path}").fingerprint
    assert text_model(f"onnx:{tmp_path}").fingerprint == first
    write_model(tmp_path, pooling="cls_token")
    assert text_model(f"onnx:{tmp_path}").fingerprint != first


def test_a_model_in_its_own_folder(tmp_path):
    write_model(tmp_path)
    (tmp_path / "onnx").mkdir()
    (tmp_path / "model.onnx").rename(tmp_path / "onnx" / "model.onnx")
    assert encoder(f"onnx:{tmp_path}").encode(["cat"]).shape == (1, 3)


def test_folders_that_lack_something(tmp_path):
    with pytest.raises(StorageError, match=r"holds no model.onnx"):
        encoder(f"onnx:{tmp_path / 'nowhere'}")
    with pytest.raises(UsageError, match="names no model"):
        encoder("onnx:")
    write_model(tmp_path, pooling=None)
    with pytest.raises(
        FormatError, match=r"model\.onnx gives one vector per token, without a pooling rule"
    ):
        encoder(f"onnx:{tmp_path}").encode(["cat"])
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(StorageError, match=r"holds no tokenizer.json"):
        encoder(f"onnx:{tmp_path}")


def test_files_that_are_damaged(tmp_path):
    write_model(tmp_path)
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}')
    with pytest.raises(FormatError, match="asks for lasttoken"):
        encoder(f"onnx:{tmp_path}")
    (tmp_path / "1_Pooling" / "config.json").write_text("[]")
    with pytest.raises(FormatError, match="is not a JSON object"):
        encoder(f"onnx:{tmp_path}")
    write_model(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(
        FormatError, match=r"tokenizer\.json is not a tokenizer: Exception: Model missing"
    ):
        encoder(f"onnx:{tmp_path}")
    whole = (tmp_path / "model.onnx").read_bytes()
    for cut in (0, 10, len(whole) // 2):
        (tmp_path / "model.onnx").write_bytes(whole[:cut])
        with pytest.raises(FormatError, match="cannot be loaded"):
            encoder(f"onnx:{tmp_path}")


@pytest.mark.parametrize("length", [0, "x", 2.5])
def test_lengths_that_are_none(tmp_path, length):
    write_model(tmp_path)
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length}))
    with pytest.raises(UsageError, match="max_seq_length must be a whole number"):
        encoder(f"onnx:{tmp_path}")


def test_inputs_that_are_not_known(tmp_path):
    write_model(tmp_path, inputs=("input_ids", "pixel_values"))
    with pytest.raises(FormatError, match="asks for the input 'pixel_values'"):
        encoder(f"onnx:{tmp_path}").encode(["cat"])
    write_model(tmp_path, inputs=("input_ids", "attention_mask", "token_type_ids", "position_ids"))
    assert encoder(f"onnx:{tmp_path}").encode(["cat"]).shape == (1, 3)
