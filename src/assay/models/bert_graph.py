"""A BERT encoder as an ONNX graph, made from the tensors of its checkpoint.

The graph is a protocol buffer of a few kilobytes, written here field by field (the numbers are
those of onnx.proto); the tensors go to onnxruntime beside it. Its nodes are onnxruntime's own fused
ones where there are any: attention, a residual with its normalisation, a bias with its GELU.
Devlin et al., "BERT" (2019); Vaswani et al., "Attention is all you need" (2017).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32

_FLOAT: Final = 1
_INT64: Final = 7
_INT32: Final = 6
_EXTERNAL: Final = 1
_FUSED: Final = "com.microsoft"
_OPSETS: Final = {"": 17, _FUSED: 1}


@dataclass(frozen=True, eq=False)
class BertGraph:
    """The graph, the tensors it names, and how many tokens a text may have."""

    model: bytes
    tensors: dict[str, Floats32]
    longest: int


def build_bert_graph(
    tensors: Mapping[str, NDArray[Any]], *, heads: int, epsilon: float
) -> BertGraph:
    """From tensors by the names of transformers' BertModel; a name that is absent is a KeyError.

    Inputs are `input_ids`, `position_ids` and `attention_mask`, the output one vector a token.
    """
    graph = _Graph(tensors, epsilon)
    places = graph.take("embeddings.position_embeddings.weight")
    x = graph.embed(places + graph.take("embeddings.token_type_embeddings.weight")[0])
    layers = {name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}
    for number in range(len(layers)):
        x = graph.add_layer(x, f"encoder.layer.{number}", heads)
    return BertGraph(graph.serialize(x), graph.kept, len(places))


@dataclass(eq=False)
class _Graph:
    """Nodes so far, and the tensors they name."""

    tensors: Mapping[str, NDArray[Any]]
    epsilon: float
    nodes: list[bytes] = field(default_factory=list)
    kept: dict[str, Floats32] = field(default_factory=dict)

    def take(self, name: str) -> Floats32:
        return np.asarray(self.tensors[name], np.float32)

    def keep(self, name: str, array: Floats32) -> str:
        self.kept[name] = np.ascontiguousarray(array)
        return name

    def bias(self, name: str) -> str:
        return self.keep(f"{name}.bias", self.take(f"{name}.bias"))

    def norm(self, name: str) -> tuple[str, str]:
        return self.keep(f"{name}.weight", self.take(f"{name}.weight")), self.bias(name)

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: int | float) -> str:
        """A node with one output, whose name is returned."""
        output = f"{len(self.nodes)}"
        named = b"".join(_field(5, _attribute(*item)) for item in attributes.items())
        fields = (*((1, name) for name in inputs), (2, output), (4, kind), (7, domain))
        self.nodes.append(b"".join(_field(*item) for item in fields) + named)
        return output

    def embed(self, places: Floats32) -> str:
        """The words and their places, of which those of the first kind have its vector in them."""
        words = self.keep("words", self.take("embeddings.word_embeddings.weight"))
        x = self.add(
            "Add",
            self.add("Gather", words, "input_ids"),
            self.add("Gather", self.keep("places", places), "position_ids"),
        )
        norm = self.norm("embeddings.LayerNorm")
        return self.add("LayerNormalization", x, *norm, epsilon=self.epsilon)

    def multiply(self, x: str, name: str) -> str:
        """x · weight without the bias."""
        return self.add("MatMul", x, self.keep(f"{name}.weight", self.take(f"{name}.weight").T))

    def add_norm(self, x: str, residual: str, layer: str, part: str) -> str:
        """Of x · weight + bias + residual."""
        product = self.multiply(x, f"{layer}.{part}.dense")
        norm, bias = self.norm(f"{layer}.{part}.LayerNorm"), self.bias(f"{layer}.{part}.dense")
        inputs = (product, residual, *norm, bias)
        return self.add("SkipLayerNormalization", *inputs, domain=_FUSED, epsilon=self.epsilon)

    def attend(self, x: str, name: str, heads: int) -> str:
        """Queries, keys and values in one product, and what each token takes from the others."""
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        weights = np.concatenate([self.take(f"{part}.weight").T for part in parts], axis=1)
        bias = np.concatenate([self.take(f"{part}.bias") for part in parts])
        joined = self.keep(f"{name}.weight", weights), self.keep(f"{name}.bias", bias)
        return self.add("Attention", x, *joined, "attention_mask", domain=_FUSED, num_heads=heads)

    def add_layer(self, x: str, layer: str, heads: int) -> str:
        attended = self.attend(x, f"{layer}.attention.self", heads)
        x = self.add_norm(attended, x, layer, "attention.output")
        wide, bias = self.multiply(x, f"{layer}.intermediate.dense"), f"{layer}.intermediate.dense"
        wide = self.add("BiasGelu", wide, self.bias(bias), domain=_FUSED)
        return self.add_norm(wide, x, layer, "output")

    def serialize(self, output: str) -> bytes:
        """The whole as a ModelProto."""
        inputs = {"input_ids": _INT64, "position_ids": _INT64, "attention_mask": _INT32}
        parts: list[tuple[int, bytes | str]] = [(1, node) for node in self.nodes]
        parts += [(2, "bert")]
        parts += [(5, _tensor(name, array.shape)) for name, array in self.kept.items()]
        parts += [(11, _value(name, kind, "text", "token")) for name, kind in inputs.items()]
        parts += [(12, _value(output, _FLOAT, "text", "token", "width"))]
        graph = _field(7, b"".join(_field(*part) for part in parts))
        opsets = (_field(1, domain) + _field(2, number) for domain, number in _OPSETS.items())
        return _field(1, 8) + graph + b"".join(_field(8, opset) for opset in opsets)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    return _field(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _field(20, 1)


def _tensor(name: str, shape: tuple[int, ...]) -> bytes:
    """A tensor of float32 whose numbers are not here: the session gets them by this name."""
    dims = b"".join(_field(1, size) for size in shape)
    place = _field(13, _field(1, "location") + _field(2, "memory"))
    return dims + _field(2, _FLOAT) + _field(8, name) + place + _field(14, _EXTERNAL)


def _value(name: str, kind: int, *dims: str) -> bytes:
    shape = b"".join(_field(1, _field(2, dim)) for dim in dims)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))
