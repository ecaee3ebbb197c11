"""`checkpoint:FILE`: the text tower of a trained model, from a .pt or .safetensors file.

What the file holds:

    encoder                 spec of the text model, e.g. `wordllama` or `st:all-MiniLM-L6-v2`
                            (in .safetensors a note of that name in `__metadata__`)
    projection.weight       optional: outputs × inputs; each vector is multiplied by it
    projection.bias         optional: added after that

In a .pt file `projection` may also be a dictionary with `weight` and `bias`. Other entries are
left alone. A .pt file is only ever loaded with `weights_only=True`, so it cannot run code, and
the spec inside a file may not name code either; `from_factory` plugs in a class of your own.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from assay.arrays import Array
from assay.core.specs import named_callable
from assay.errors import AssayError, FormatError, MismatchError, UsageError, error_text, need
from assay.io.streams import open_chunks
from assay.models.encoding import Batch, Encoder, EncoderRequest, weights_of
from assay.models.specs import encoder, runs_code
from assay.search.safetensors import load_safetensors

_ENDINGS = (".pt", ".pth", ".ckpt", ".safetensors")
# What the keys of files hold that name no text model.
_KINDS = {
    "a training checkpoint": ("state_dict", "optimizer", "epoch", "global_step", "lightning"),
    "a state_dict": (".weight", ".bias"),
}
_OLDEST = (2, 6)  # of torch: before, `weights_only` could be got around
_NOT_FROM_A_FILE = ("checkpoint", "onnx", "openai", "npy")


def load(request: EncoderRequest) -> Encoder:
    """Load the text model that the file names, with the file's projection if it has one."""
    return make_encoder(read_checkpoint(request.argument), request)


def make_encoder(content: Mapping[str, Any], request: EncoderRequest) -> Encoder:
    """Make the text model of a checkpoint's content; `request.argument` names where it is from."""
    path = request.argument
    inner = _inner_spec(content, path)
    model = encoder(inner, device=request.device, settings=request.settings)
    projection = _projection(content, path)

    def encode(texts: list[str]) -> Batch:
        vectors = model.encode_batch(texts)
        if projection is None:
            return vectors
        return vectors._replace(vectors=_project(vectors.vectors, *projection, path))

    return Encoder(
        request.spec,
        encode,
        lambda: {"encoder": inner, **model.identity(), **weights_of(path)},
        repeatable=model.repeatable,
        batch_size=model.batch_size,
    )


def from_factory(path: str, factory: str, *, device: str | None = None) -> Any:
    """Call `module:factory` with the content of a checkpoint and the device.

    The result is a text encoder: an object with `encode` or `encode_texts_clip`, or a function.
    """
    make = named_callable(factory, "MODULE:FACTORY")
    content = read_checkpoint(path)
    try:
        return make(content, device or "cpu")
    except (AssayError, MemoryError, OSError):
        raise
    except Exception as error:  # the factory is not ours: it can fail in any way
        raise UsageError(
            f"The factory {factory!r} failed on {path}: {error_text(error)}. It must accept "
            "the checkpoint's content and the device."
        ) from error


def read_checkpoint(path: str) -> Mapping[str, Any]:
    """Read a .pt or .safetensors file; nothing in it is executed."""
    ending = Path(path).suffix.lower()
    if ending == ".safetensors":
        tensors, notes = load_safetensors(path)
        return {**tensors, **notes}
    if ending not in _ENDINGS:
        raise FormatError(f"{path}: unknown ending. Use {', '.join(_ENDINGS)}.")
    next(open_chunks(path, 1))  # refuses empty files and what is not a regular file
    content = _load_weights(path)
    if not isinstance(content, Mapping):
        raise FormatError(f"{path} holds {type(content).__name__}. Save a dictionary instead.")
    return content


def _load_weights(path: str) -> Any:
    torch = need("torch", "A checkpoint in .pt", "torch")
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < _OLDEST:
        raise UsageError(
            f"torch {torch.__version__} may run code from a weights file. Install "
            f"torch>={'.'.join(map(str, _OLDEST))}, or save a .safetensors file."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of files that it then refuses
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch may raise anything
        words = (str(error).splitlines() or [type(error).__name__])[0]
        raise FormatError(
            f"{path} cannot be loaded as plain weights ({words:.160}). Python objects run "
            "code when loaded. If you trust it, save its weights alone: "
            "torch.save({'state_dict': …}, FILE), or .safetensors."
        ) from None


def _inner_spec(content: Mapping[str, Any], path: str) -> str:
    spec = content.get("encoder")
    if not isinstance(spec, str):
        keys = " ".join(map(str, content))
        some = ", ".join(repr(str(key)) for key in list(content)[:5])
        kinds = [kind for kind, words in _KINDS.items() if any(word in keys for word in words)]
        what = f", {kinds[0]}: weights of a class in your own code" if kinds else ""
        raise FormatError(
            f"{path} names no text model: it holds {some or 'nothing'}{what}. Pass "
            "--text-encoder-factory MODULE:FACTORY (content, device → text encoder), or add "
            "the entries 'encoder' (such as 'wordllama') and 'projection.weight'."
        )
    name, _, argument = spec.partition(":")
    elsewhere = name in _NOT_FROM_A_FILE or (bool(argument) and Path(argument).exists())
    if elsewhere or Path(spec).suffix.lower() in _ENDINGS or runs_code(spec):
        raise FormatError(
            f"{path} names the encoder {spec!r}. Files may not name code, files or servers. "
            "Pass --encoder or --text-encoder-factory."
        )
    return spec


def _projection(content: Mapping[str, Any], path: str) -> tuple[Array, Array | None] | None:
    nested = content.get("projection")
    parts = nested if isinstance(nested, Mapping) else {}
    weight = parts.get("weight", content.get("projection.weight"))
    bias = parts.get("bias", content.get("projection.bias"))
    if weight is None:
        if bias is not None or (nested is not None and not isinstance(nested, Mapping)):
            raise FormatError(f"{path}: 'projection' lacks 'weight'. Add it.")
        return None
    matrix = _numbers(weight, 2, f"{path}, projection.weight")
    shift = None if bias is None else _numbers(bias, 1, f"{path}, projection.bias")
    if shift is not None and len(shift) != len(matrix):
        sizes = f"{len(matrix)} outputs and projection.bias {len(shift)}"
        raise FormatError(f"{path}: projection.weight has {sizes}.")
    return matrix, shift


def _numbers(value: Any, dimensions: int, place: str) -> Array:
    if hasattr(value, "detach"):
        value = value.detach().float().cpu().numpy()  # float(): numpy knows no bfloat16
    array = np.asarray(value)
    if array.ndim != dimensions or array.dtype.kind not in "iuf" or not array.size:
        raise FormatError(
            f"{place} must hold numbers in {dimensions} dimension(s), found shape {array.shape} "
            f"of {array.dtype}."
        )
    return array.astype(np.float32)


def _project(vectors: Array, weight: Array, bias: Array | None, path: str) -> Array:
    if vectors.shape[1] != weight.shape[1]:
        raise MismatchError(
            f"{path}: projection.weight takes {weight.shape[1]} inputs, but the text model gives "
            f"{vectors.shape[1]}. Check the encoder that the file names."
        )
    projected = vectors @ weight.T
    return projected if bias is None else projected + bias
