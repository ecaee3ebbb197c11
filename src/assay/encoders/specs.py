"""From a spec such as `wordllama` or `st:all-MiniLM-L6-v2` to an encoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Final

from assay import checks
from assay.encoders.base import Encoder
from assay.encoders.settings import EncoderSettings
from assay.errors import UsageError
from assay.lexical.specs import is_lexical

__all__ = ["KINDS", "Request", "encoder", "kind_of"]

# The module of this package that knows each kind, and how a spec of it is written.
KINDS: Final[dict[str, tuple[str, str]]] = {
    "wordllama": ("wordllama", "wordllama"),
    "minilm": ("minilm", "minilm"),
    "st": ("sentence_transformers", "st:MODEL"),
    "onnx": ("onnx", "onnx:FOLDER"),
    "model2vec": ("model2vec", "model2vec:MODEL"),
    "openai": ("openai", "openai:MODEL"),
    "npy": ("precomputed", "npy:FILE"),
    "py": ("python_function", "py:MODULE:FUNCTION"),
    "checkpoint": ("checkpoint", "checkpoint:FILE"),
}
_CHECKPOINTS: Final = (".pt", ".pth", ".safetensors")


@dataclass(frozen=True)
class Request:
    """What is asked of the file of a kind: `load(request)` gives the encoder."""

    spec: str
    argument: str = ""
    device: str | None = None
    settings: EncoderSettings = field(default_factory=EncoderSettings)


def encoder(
    spec: str, *, device: str | None = None, settings: EncoderSettings | None = None
) -> Encoder:
    """The encoder that a spec names; `device` is for the kinds that run on one.

    Of the settings it obeys those that the model itself must know; `text_model` obeys them all.
    """
    checks.require(spec, str, "An encoder", "a spec such as 'wordllama' or 'st:MODEL'")
    kind, argument = kind_of(spec)
    module, form = KINDS[kind]
    if ":" in form and not argument:
        raise UsageError(f"The encoder {spec!r} names no model. Write {form}.")
    request = Request(spec, argument, device, settings or EncoderSettings())
    made: Encoder = import_module(f"assay.encoders.{module}").load(request)
    return made


def kind_of(spec: str) -> tuple[str, str]:
    """The kind that a spec names, and what follows it."""
    kind, _, argument = spec.partition(":")
    if kind not in KINDS and Path(spec).suffix.lower() in _CHECKPOINTS:
        return "checkpoint", spec
    if kind not in KINDS:
        raise UsageError(_unknown(spec, kind))
    return kind, argument


def _unknown(spec: str, kind: str) -> str:
    if is_lexical(spec):
        return (
            f"{spec!r} is fitted to the documents and has no vectors of its own: "
            "call assay.lexical.lexical_model, or name it as a --model of a bench."
        )
    near = get_close_matches(kind, KINDS, n=1)
    hint = f" Did you mean {KINDS[near[0]][1]}?" if near else ""
    forms = ", ".join(form for _, form in KINDS.values())
    return f"Unknown encoder {spec!r}.{hint} An encoder is one of: {forms}."
