"""The document's functions on tensors of a training loop, and its encoder and device by name."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from assay.compat import label_retrieval as document
from assay.errors import FormatError


class Tensor:
    """A tensor that refuses numpy as torch does: with grad, of bfloat16, or of another device."""

    def __init__(self, values, *, grad=True, dtype="torch.bfloat16", device="cuda:0"):
        self.values, self.grad, self.dtype, self.device = values, grad, dtype, device

    def detach(self):
        return Tensor(self.values, grad=False, dtype=self.dtype, device=self.device)

    def cpu(self):
        return Tensor(self.values, grad=self.grad, dtype=self.dtype, device="cpu")

    def float(self):
        return Tensor(self.values, grad=self.grad, dtype="torch.float32", device=self.device)

    def numpy(self):
        if self.grad or self.device != "cpu" or self.dtype == "torch.bfloat16":
            raise TypeError("Can't call numpy() on this tensor.")
        return self.values

    def __array__(self, *_, **__):
        return self.numpy()


def test_tensors_with_grad_score_as_arrays_do():
    rng = np.random.default_rng(0)
    sensor, text = (np.round(rng.normal(size=(30, 4)) * 4) / 4 + 8 for _ in "ab")
    labels = rng.integers(3, size=30)
    plain = document.compute_label_recall_at_k(sensor, text, labels, k_values=[3])
    tensors = document.compute_label_recall_at_k(
        Tensor(sensor), Tensor(text), Tensor(labels, dtype="torch.int64"), k_values=[3]
    )
    assert {name: dict(values) for name, values in tensors.items()} == {
        name: dict(values) for name, values in plain.items()
    }
    prototypes = document.compute_prototype_retrieval_metrics(
        Tensor(sensor[:3]), [0, 1, 2], Tensor(sensor), target_labels=labels, k_values=[3]
    )
    expected = document.compute_prototype_retrieval_metrics(
        sensor[:3], [0, 1, 2], sensor, target_labels=labels, k_values=[3]
    )
    assert dict(prototypes["prototype2sensor"]) == dict(expected["prototype2sensor"])


def test_the_text_encoder_of_a_checkpoint(monkeypatch):
    class WordLlama:
        @staticmethod
        def load(**_):
            return types.SimpleNamespace(
                tokenizer=types.SimpleNamespace(no_padding=lambda: None),
                tokenize=lambda texts: [types.SimpleNamespace(ids=[len(t)]) for t in texts],
                embedding=np.array([[i, 1.0] for i in range(10)], np.float32),
            )

    package = types.ModuleType("wordllama")
    package.WordLlama, package.__file__ = WordLlama, __file__
    monkeypatch.setitem(sys.modules, "wordllama", package)
    content = {"encoder": "wordllama", "projection": {"weight": np.array([[0, 2], [1, 0]])}}
    encoder = document.create_text_encoder_from_checkpoint(content, "cpu")
    vectors, labels = document.encode_text_prototypes({"a": "abc"}, encoder, "cpu", normalize=False)
    assert (vectors.tolist(), labels.tolist()) == ([[2, 3]], ["a"])
    with pytest.raises(FormatError, match="training checkpoint: weights of a class in"):
        document.create_text_encoder_from_checkpoint({"state_dict": {}, "epoch": 3})


@pytest.mark.parametrize(
    ("available", "best"), [((), "cpu"), (("mps",), "mps"), (("cuda", "mps"), "cuda")]
)
def test_the_fastest_device(monkeypatch, available, best):
    torch = types.ModuleType("torch")
    torch.device = str
    for name in ("cuda", "mps"):
        there = name in available
        setattr(torch, name, types.SimpleNamespace(is_available=lambda there=there: there))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert document.get_optimal_device() == best
    monkeypatch.setitem(sys.modules, "torch", None)
    assert document.get_optimal_device() == "cpu"
