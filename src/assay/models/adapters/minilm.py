"""`minilm:FOLDER`: all-MiniLM-L6-v2 and its like, a BERT encoder run by onnxruntime.

The folder is what sentence-transformers saves or downloads: `model.safetensors`, `config.json`,
`tokenizer.json`, and how vectors are pooled and scaled. Nothing is exported or downloaded: the
graph is built from the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from assay.errors import FormatError, UsageError
from assay.io.fingerprints import digest_of_file
from assay.models.adapters.onnx import ModelFolder, OnnxModel, folder_encoder, open_session
from assay.models.bert_graph import BertGraph, build_bert_graph
from assay.models.encoding import Encoder, EncoderRequest
from assay.models.safetensors import load_safetensors

_WEIGHTS: Final = "model.safetensors"
_FILES: Final = (
    _WEIGHTS,
    "config.json",
    "tokenizer.json",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
)
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
        raise UsageError(
            f"{request.spec!r} reads 3 to {graph.longest} tokens, max_length is {length}."
        )
    name = str(folder.path / _WEIGHTS)
    session = open_session(graph.model, name, "minilm", graph.tensors)
    model = OnnxModel(session, folder.pooling(), 0, name)
    return folder_encoder(request, folder, model, length, lambda: _identity(folder))


def _build_graph(folder: ModelFolder) -> BertGraph:
    """The graph of the weights, under the settings of config.json."""
    weights, config = folder.file(_WEIGHTS), folder.file("config.json")
    settings = folder.settings("config.json")
    for name, value in _KNOWN.items():
        if settings.get(name, value) != value:
            raise FormatError(f"{config}: {name} is {settings[name]!r}; known is only {value!r}.")
    try:
        return build_bert_graph(
            load_safetensors(weights)[0],
            heads=_number(settings, "num_attention_heads", int),
            epsilon=_number(settings, "layer_norm_eps", float),
        )
    except KeyError as error:
        raise FormatError(
            f"{folder.path} lacks {error}, which an encoder of the kind BERT has. Give the folder "
            "of such a model."
        ) from None
    except ValueError as error:  # tensors whose shapes do not fit each other
        raise FormatError(f"{weights} does not fit {config}: {error}.") from None


def _number(settings: dict[str, Any], name: str, kind: type) -> Any:
    if not isinstance(settings[name], kind) or not settings[name] > 0:
        raise ValueError(f"{name} is {settings[name]!r}")
    return settings[name]


def _identity(folder: ModelFolder) -> dict[str, Any]:
    """What the vectors depend on, whatever else lies in the folder."""
    there = [name for name in _FILES if (folder.path / name).is_file()]
    digests = {name: digest_of_file(folder.path / name) for name in there}
    return {"graph": _GRAPH, "weights": digests}
