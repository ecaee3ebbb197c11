"""minilm: against the shared vectors, and its graph against a plain forward pass in float64."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest

from assay.errors import FormatError, StorageError, UsageError
from assay.models import EncoderSettings, encoder, text_model
from assay.models.adapters.onnx import Tokenizer, by_length
from assay.search.safetensors import load_safetensors
from tests.collections_at_hand import minilm_folder, scifact


@pytest.fixture(scope="module")
def minilm():
    for package in ("onnxruntime", "tokenizers"):
        pytest.importorskip(package)
    return text_model(f"minilm:{minilm_folder()}")


def half_spacing(values):
    """How far rounding to float16 can have moved each value."""
    return np.spacing(np.abs(values).astype(np.float16)).astype(np.float64) / 2


def test_vectors_agree_with_the_shared_ones(minilm, data_dir):
    data = scifact(data_dir)
    shared = np.load(data_dir("scifact") / "minilm.npz")
    docs, queries = range(0, 5183, 400), range(0, 300, 12)
    made = minilm.encode_docs([data.docs[i] for i in docs])
    asked = minilm.encode_queries([data.queries[i] for i in queries])
    for ours, theirs in (
        (made.vectors, shared["docs"][list(docs)]),
        (asked.vectors, shared["queries"][list(queries)]),
    ):
        away = np.abs(ours - theirs.astype(np.float64))
        assert (away <= half_spacing(theirs) + 1e-6).all()
    assert made.truncated.any()
    assert not asked.truncated.any()


def test_a_vector_hardly_depends_on_the_batch(minilm):
    rng = np.random.default_rng(0)
    words = [
        "cells",
        "of",
        "the",
        "immune",
        "system",
        "bind",
        "a",
        "receptor",
        "and",
        "東京",
        "été",
        "x",
    ]
    texts = [" ".join(rng.choice(words, n)) for n in rng.integers(1, 40, 40)]
    whole = minilm.encode_docs(texts).vectors
    alone = np.concatenate([minilm.encode_docs([text]).vectors for text in texts[:8]])
    assert np.abs(whole[:8] - alone).max() < 1e-6
    assert np.allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)


def test_length_is_cut_and_told(minilm):
    long = "cat " * 300
    made = minilm.encode_docs([long, "cat", "a" * 1_000_000])
    assert made.truncated.tolist() == [True, False, False]
    short = text_model(minilm.spec, settings=EncoderSettings(max_length=12, normalize=False))
    cut = short.encode_docs([long, "cat " * 10, "cat " * 11])
    assert cut.truncated.tolist() == [True, False, True]
    assert np.abs(cut.vectors[0] - cut.vectors[1]).max() < 1e-5
    assert np.linalg.norm(cut.vectors[0]) > 1.5
    assert short.fingerprint != minilm.fingerprint


@pytest.mark.parametrize("length", [2, 513])
def test_lengths_that_the_model_has_not(minilm, length):
    with pytest.raises(UsageError, match="reads 3 to 512 tokens"):
        text_model(minilm.spec, settings=EncoderSettings(max_length=length))


@pytest.mark.slow
def test_the_graph_is_the_plain_forward_pass_on_the_real_weights(minilm):
    folder = minilm_folder()
    tensors, _ = load_safetensors(folder / "model.safetensors")
    texts = ["Red blood cells carry oxygen.", "cat", "a much longer text than the others: 東京 été"]
    tokens = Tokenizer(folder / "tokenizer.json", None, purpose="", extra="")(texts)
    expected = np.array([plain_bert(tensors, ids, 12, 1e-12) for ids in tokens.ids])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.abs(minilm.encode_docs(texts).vectors - expected).max() < 1e-6


def tiny_bert(rng, *, layers=2, width=8, inner=12, words=20, places=16):
    def random(*shape):
        return rng.normal(size=shape).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": random(words, width),
        "embeddings.position_embeddings.weight": random(places, width),
        "embeddings.token_type_embeddings.weight": random(2, width),
    }

    def put(name, *shape):
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = random(*shape), random(shape[0])

    put("embeddings.LayerNorm", width)
    for i in range(layers):
        layer = f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            put(f"{layer}.attention.self.{part}", width, width)
        put(f"{layer}.attention.output.dense", width, width)
        put(f"{layer}.attention.output.LayerNorm", width)
        put(f"{layer}.intermediate.dense", inner, width)
        put(f"{layer}.output.dense", width, inner)
        put(f"{layer}.output.LayerNorm", width)
    return tensors


def plain_bert(tensors, ids, heads, epsilon):
    """One text, one token and one head after the other, in float64."""
    t = {name: array.astype(np.float64) for name, array in tensors.items()}

    def dense(name, row):
        return t[f"{name}.weight"] @ row + t[f"{name}.bias"]

    def norm(name, row):
        scaled = (row - row.mean()) / math.sqrt(row.var() + epsilon)
        return scaled * t[f"{name}.weight"] + t[f"{name}.bias"]

    def start(place, number):
        row = t["embeddings.word_embeddings.weight"][number].copy()
        row += t["embeddings.position_embeddings.weight"][place]
        return norm("embeddings.LayerNorm", row + t["embeddings.token_type_embeddings.weight"][0])

    rows = [start(place, number) for place, number in enumerate(ids)]
    layers = {name.split(".")[2] for name in t if name.startswith("encoder.layer.")}
    for i in range(len(layers)):
        layer = f"encoder.layer.{i}"
        rows = plain_layer(layer, rows, heads, dense, norm)
    return np.mean(rows, axis=0)


def plain_layer(layer, rows, heads, dense, norm):
    own = f"{layer}.attention.self"
    q, k, v = ([dense(f"{own}.{part}", row) for row in rows] for part in ("query", "key", "value"))
    size = len(rows[0]) // heads
    made = []
    for i, row in enumerate(rows):
        taken = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = np.array([q[i][part] @ other[part] for other in k]) / math.sqrt(size)
            weights = np.exp(scores) / np.exp(scores).sum()
            taken.append(sum(w * value[part] for w, value in zip(weights, v, strict=True)))
        mixed = norm(
            f"{layer}.attention.output.LayerNorm",
            dense(f"{layer}.attention.output.dense", np.concatenate(taken)) + row,
        )
        wide = dense(f"{layer}.intermediate.dense", mixed)
        wide = np.array([x / 2 * math.erfc(-x / math.sqrt(2)) for x in wide])
        made.append(norm(f"{layer}.output.LayerNorm", dense(f"{layer}.output.dense", wide) + mixed))
    return made


WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *(f"w{i}" for i in range(16))]
DTYPES = {"f4": "F32", "f2": "F16"}


def write_safetensors(path, tensors, dtype="f4"):
    header, data = {}, b""
    for name, array in tensors.items():
        raw = array.astype(f"<{dtype}").tobytes()
        place = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": DTYPES[dtype], "shape": array.shape, "data_offsets": place}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_folder(folder, tensors, *, dtype="f4", **config):
    """A small model as sentence-transformers saves it."""
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("onnxruntime")
    folder.mkdir(exist_ok=True)
    write_safetensors(folder / "model.safetensors", tensors, dtype)
    settings = {"model_type": "bert", "num_attention_heads": 2, "layer_norm_eps": 1e-12} | config
    (folder / "config.json").write_text(json.dumps(settings))
    words = tokenizers.models.WordLevel({name: i for i, name in enumerate(WORDS)}, "[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    return f"minilm:{folder}"


@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("seed", range(3))
def test_a_folder_gives_the_plain_forward_pass(tmp_path, seed, dtype):
    rng = np.random.default_rng(seed)
    tensors = {name: array.astype(dtype) for name, array in tiny_bert(rng).items()}
    spec = write_folder(tmp_path, tensors, dtype=dtype)
    files = sorted(tmp_path.rglob("*"))
    ids = [rng.integers(4, 20, n).tolist() for n in (5, 1, 3, 3, 16, 5, 3)]
    found = encoder(spec).encode([" ".join(WORDS[i] for i in row) for row in ids])
    expected = [plain_bert(tensors, row, 2, 1e-12) for row in ids]
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert sorted(tmp_path.rglob("*")) == files


def test_the_files_that_are_used_are_the_fingerprint(tmp_path):
    spec = write_folder(tmp_path, tiny_bert(np.random.default_rng(0)))
    first = text_model(spec).fingerprint
    (tmp_path / "README.md").write_text("about it")
    assert text_model(spec).fingerprint == first
    (tmp_path / "modules.json").write_text("[]")
    assert text_model(spec).fingerprint != first


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "mpnet"}, r"config\.json: model_type is 'mpnet'"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'"),
        ({"num_attention_heads": 3}, "cannot be loaded|failed"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"layer_norm_eps": "x"}, "layer_norm_eps is 'x'"),
    ],
)
def test_settings_that_the_graph_has_not(tmp_path, config, message):
    spec = write_folder(tmp_path, tiny_bert(np.random.default_rng(0)), **config)
    with pytest.raises((FormatError, UsageError), match=message):
        encoder(spec).encode(["w1"])


def test_folders_that_lack_something(tmp_path):
    with pytest.raises(StorageError, match=r"holds no model.safetensors"):
        encoder(f"minilm:{tmp_path / 'nowhere'}")
    tensors = tiny_bert(np.random.default_rng(0))
    del tensors["encoder.layer.1.output.dense.bias"]
    with pytest.raises(FormatError, match=r"lacks 'encoder.layer.1.output.dense.bias'"):
        encoder(write_folder(tmp_path, tensors))
    spec = write_folder(tmp_path, tiny_bert(np.random.default_rng(0)))
    shutil.rmtree(tmp_path / "1_Pooling")
    with pytest.raises(FormatError, match="vector per token, without a pooling rule"):
        encoder(spec).encode(["w1"])


def test_tensors_that_do_not_fit(tmp_path):
    tensors = tiny_bert(np.random.default_rng(0))
    tensors["encoder.layer.0.output.dense.weight"] = np.zeros((8, 11), np.float32)
    with pytest.raises((FormatError, UsageError), match=r"cannot be loaded|failed"):
        encoder(write_folder(tmp_path, tensors)).encode(["w1"])
    tensors["embeddings.token_type_embeddings.weight"] = np.zeros((2, 7), np.float32)
    with pytest.raises(
        FormatError, match=r"config\.json: operands could not be broadcast together"
    ):
        encoder(write_folder(tmp_path, tensors))


def test_batches_of_like_length_hold_every_row_once():
    rng = np.random.default_rng(0)
    ids = [[1] * n for n in rng.integers(1, 50, 200)]
    batches = by_length(ids, 100)
    assert sorted(row for batch in batches for row in batch) == list(range(200))
    for batch in batches:
        longest = max(len(ids[row]) for row in batch)
        assert longest * len(batch) <= 100 or len(batch) == 1
