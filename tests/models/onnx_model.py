"""A small real ONNX model, written byte by byte: tanh(table[input_ids] · matrix).

ONNX files are protocol buffers; the field numbers are those of onnx.proto,
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

import json

import numpy as np

INT64, FLOAT = 7, 1


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def tensor(name, array):
    dims = b"".join(field(1, n) for n in array.shape)
    return dims + field(2, FLOAT) + field(8, name) + field(9, array.astype("<f4").tobytes())


def value(name, kind, *dims):
    shape = b"".join(field(1, field(2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def node(kind, inputs, output):
    return b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind)


# Attribute keepdims = 0, of type INT.
KEEP_NO_AXIS = field(5, field(1, "keepdims") + field(3, 0) + field(20, 2))


def whole_numbers(name, *values):
    data = np.array(values, "<i8")
    return field(1, len(values)) + field(2, INT64) + field(8, name) + field(9, data.tobytes())


def cross_encoder_bytes(table, kinds):
    """Σ table[input_ids] · kinds[token_type_ids] over the tokens: one number for each pair."""
    graph = (
        field(1, node("Gather", ["table", "input_ids"], "rows"))
        + field(1, node("Gather", ["kinds", "token_type_ids"], "sides"))
        + field(1, node("Mul", ["rows", "sides"], "both"))
        + field(1, node("ReduceSum", ["both", "axes"], "logits") + KEEP_NO_AXIS)
        + field(2, "tiny")
        + field(5, tensor("table", table))
        + field(5, tensor("kinds", kinds))
        + field(5, whole_numbers("axes", 1))
        + field(11, value("input_ids", INT64, "batch", "length"))
        + field(11, value("token_type_ids", INT64, "batch", "length"))
        + field(12, value("logits", FLOAT, "batch", "width"))
    )
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def write_cross_encoder(folder, words, weights, *, width=1, max_length=None):
    """A folder with a cross-encoder; `weights` are those of the words, on the text's side only."""
    import tokenizers

    folder.mkdir(exist_ok=True)
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *words]
    table = np.array([0, 0, 0, 0, *weights], "<f4")[:, None].repeat(width, axis=1)
    kinds = np.array([[0], [1]], "<f4")
    (folder / "model.onnx").write_bytes(cross_encoder_bytes(table, kinds))
    by_name = {name: i for i, name in enumerate(names)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(by_name, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    if max_length:
        (folder / "config.json").write_text(json.dumps({"max_position_embeddings": max_length}))


def model_bytes(table, matrix, inputs=("input_ids", "attention_mask")):
    graph = (
        field(1, node("Gather", ["table", "input_ids"], "rows"))
        + field(1, node("MatMul", ["rows", "matrix"], "mixed"))
        + field(1, node("Tanh", ["mixed"], "last_hidden_state"))
        + field(2, "tiny")
        + field(5, tensor("table", table))
        + field(5, tensor("matrix", matrix))
        + b"".join(field(11, value(name, INT64, "batch", "length")) for name in inputs)
        + field(12, value("last_hidden_state", FLOAT, "batch", "length", "width"))
    )
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def write_model(folder, *, pooling="mean_tokens", scale=False, max_length=None, **options):
    """A folder as an export writes it; gives the arrays of the model."""
    import tokenizers

    rng = np.random.default_rng(0)
    table, matrix = rng.normal(size=(8, 4)).astype("<f4"), rng.normal(size=(4, 3)).astype("<f4")
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(model_bytes(table, matrix, **options))
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "cat", "dog", "red", "mat"]
    words = tokenizers.models.WordLevel({name: i for i, name in enumerate(names)}, "[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    if pooling:
        (folder / "1_Pooling").mkdir(exist_ok=True)
        modes = {"pooling_mode_cls_token": False, f"pooling_mode_{pooling}": True}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    if scale:
        modules = [{"type": "sentence_transformers.models.Normalize"}]
        (folder / "modules.json").write_text(json.dumps(modules))
    if max_length:
        (folder / "sentence_bert_config.json").write_text(
            json.dumps({"max_seq_length": max_length})
        )
    return table, matrix
