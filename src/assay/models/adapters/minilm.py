"""`minilm:FOLDER`: all-MiniLM-L6-v2 and its like, a BERT encoder run by onnxruntime.

The folder is what sentence-transformers saves or downloads: `model.safetensors`, `config.json`,
`tokenizer.json`, and how vectors are pooled and scaled. Nothing is exported or downloaded: the
graph is built from the weights.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32
from assay.errors import FormatError, UsageError
from assay.io.fingerprints import digest_of_file
from assay.models.adapters.onnx import ModelFolder, OnnxModel, folder_encoder, open_session
from assay.models.encoding import Encoder, EncoderRequest
from assay.search.safetensors import load_safetensors

_WEIGHTS: Final = "model.safetensors"
_SETTINGS: Final = ("config.json", "tokenizer.json", "modules.json", "sentence_bert_config.json")
_FILES: Final = (_WEIGHTS, *_SETTINGS, "1_Pooling/config.json")
_GRAPH: Final = 1  # changed whenever another graph changes the vectors
# What the graph does; a checkpoint that asks for something else is refused.
_KNOWN: Final = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
}


def load(request: EncoderRequest) -> Encoder:
    """Build the model from the weights in its folder."""
    folder = ModelFolder(Path(request.argument))
    graph = _build_graph(folder)
    length = request.settings.max_length or folder.max_length or graph.longest
    if not 3 <= length <= graph.longest:
        span = f"3 to {graph.longest} tokens"
        raise UsageError(f"{request.spec!r} reads {span}. Lower max_length ({length}).")
    name = str(folder.path / _WEIGHTS)
    session = open_session(graph.model, name, "minilm", graph.tensors)
    model = OnnxModel(session, folder.pooling(), 0, name)
    return folder_encoder(request, folder, model, length, lambda: _identity(folder))


def _build_graph(folder: ModelFolder) -> BertGraph:
    """Build the graph of the weights, under the settings of config.json."""
    weights, config = folder.file(_WEIGHTS), folder.file("config.json")
    settings = folder.settings("config.json")
    for name, value in _KNOWN.items():
        if settings.get(name, value) != value:
            raise FormatError(f"{config}: {name} is {settings[name]!r}. Use {value!r}.")
    try:
        tensors, heads = load_safetensors(weights)[0], _number(settings, "num_attention_heads", int)
        epsilon = _number(settings, "layer_norm_eps", float)
        return build_bert_graph(tensors, heads=heads, epsilon=epsilon)
    except KeyError as error:
        raise FormatError(
            f"{folder.path} lacks {error}. Pass the folder of a BERT encoder."
        ) from None
    except ValueError as error:  # tensors whose shapes do not fit each other
        raise FormatError(f"{weights} contradicts {config}: {error}. Export again.") from None


def _number(settings: dict[str, Any], name: str, kind: type) -> Any:
    if not isinstance(settings[name], kind) or not settings[name] > 0:
        raise ValueError(f"{name} is {settings[name]!r}")
    return settings[name]


def _identity(folder: ModelFolder) -> dict[str, Any]:
    """Return what the vectors depend on, whatever else lies in the folder."""
    there = [name for name in _FILES if (folder.path / name).is_file()]
    digests = {name: digest_of_file(folder.path / name) for name in there}
    return {"graph": _GRAPH, "weights": digests}


Tensors = Mapping[str, NDArray[Any]]
_FLOAT, _INT32, _INT64 = 1, 6, 7
_EXTERNAL: Final = 1
_FUSED: Final = "com.microsoft"
_OPSETS: Final = {"": 17, _FUSED: 1}


@dataclass(frozen=True, eq=False)
class BertGraph:
    """Hold the graph, the tensors it names, and how many tokens a text may have."""

    model: bytes
    tensors: dict[str, Floats32]
    longest: int


def build_bert_graph(tensors: Tensors, *, heads: int, epsilon: float) -> BertGraph:
    """Build a graph of tensors by the names of transformers' BertModel, or raise KeyError.

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
    """Collect nodes, and the tensors they name."""

    tensors: Tensors
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
        """Add a node with one output; return the name of that."""
        output = f"{len(self.nodes)}"
        named = b"".join(_field(5, _attribute(*item)) for item in attributes.items())
        fields = (*((1, name) for name in inputs), (2, output), (4, kind), (7, domain))
        self.nodes.append(b"".join(_field(*item) for item in fields) + named)
        return output

    def embed(self, places: Floats32) -> str:
        """Embed words and places; these hold the vector of the first kind, too."""
        words = self.keep("words", self.take("embeddings.word_embeddings.weight"))
        gathered = self.add("Gather", words, "input_ids")
        placed = self.add("Gather", self.keep("places", places), "position_ids")
        x, norm = self.add("Add", gathered, placed), self.norm("embeddings.LayerNorm")
        return self.add("LayerNormalization", x, *norm, epsilon=self.epsilon)

    def multiply(self, x: str, name: str) -> str:
        """Return x · weight without the bias."""
        return self.add("MatMul", x, self.keep(f"{name}.weight", self.take(f"{name}.weight").T))

    def add_norm(self, x: str, residual: str, layer: str, part: str) -> str:
        """Normalise x · weight + bias + residual."""
        product = self.multiply(x, f"{layer}.{part}.dense")
        norm, bias = self.norm(f"{layer}.{part}.LayerNorm"), self.bias(f"{layer}.{part}.dense")
        inputs = (product, residual, *norm, bias)
        return self.add("SkipLayerNormalization", *inputs, domain=_FUSED, epsilon=self.epsilon)

    def attend(self, x: str, name: str, heads: int) -> str:
        """Multiply queries, keys and values at once; add what tokens take from others."""
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
        """Write the whole as a ModelProto."""
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
    """Describe a tensor of float32 whose numbers the session gets by this name."""
    dims = b"".join(_field(1, size) for size in shape)
    place = _field(13, _field(1, "location") + _field(2, "memory"))
    return dims + _field(2, _FLOAT) + _field(8, name) + place + _field(14, _EXTERNAL)


def _value(name: str, kind: int, *dims: str) -> bytes:
    shape = b"".join(_field(1, _field(2, dim)) for dim in dims)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))
