"""From a spec such as `wordllama` or `st:all-MiniLM-L6-v2` to an encoder."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from assay.core import checks
from assay.core.text import did_you_mean
from assay.errors import UsageError
from assay.models.adapters.precomputed import PrecomputedModel
from assay.models.cache import EmbeddingCache
from assay.models.encoder import BatchMap, Encode, Encoder, EncoderRequest
from assay.models.lexical.base import LexicalModel
from assay.models.settings import EncoderSettings
from assay.models.text_model import ComputedModel, TextModel

__all__ = [
    "ENCODERS",
    "LEXICAL",
    "as_encoder",
    "encoder",
    "is_lexical",
    "kind_of",
    "lexical_model",
    "text_model",
]

# The module of this package that knows each kind, and how a spec of it is written.
ENCODERS: Final[dict[str, tuple[str, str]]] = {
    "wordllama": ("wordllama", "wordllama"),
    "minilm": ("minilm", "minilm"),
    "st": ("sentence_transformers", "st:MODEL"),
    "onnx": ("onnx", "onnx:FOLDER"),
    "model2vec": ("model2vec", "model2vec:MODEL"),
    "openai": ("openai", "openai:MODEL"),
    "npy": ("precomputed", "npy:FILE"),
    "py": ("python_function", "py:MODULE:FUNCTION"),
    "checkpoint": ("torch_file", "checkpoint:FILE"),
}
_CHECKPOINTS: Final = (".pt", ".pth", ".safetensors")


def encoder(
    spec: str, *, device: str | None = None, settings: EncoderSettings | None = None
) -> Encoder:
    """The encoder that a spec names; `device` is for the kinds that run on one.

    Of the settings it obeys those that the model itself must know; `text_model` obeys them all.
    """
    checks.require(spec, str, "An encoder", "a spec such as 'wordllama' or 'st:MODEL'")
    kind, argument = kind_of(spec)
    module, form = ENCODERS[kind]
    if ":" in form and not argument:
        raise UsageError(f"The encoder {spec!r} names no model. Write {form}.")
    request = EncoderRequest(spec, argument, device, settings or EncoderSettings())
    made: Encoder = import_module(f"assay.models.adapters.{module}").load(request)
    return made


def kind_of(spec: str) -> tuple[str, str]:
    """The kind that a spec names, and what follows it."""
    kind, _, argument = spec.partition(":")
    if kind not in ENCODERS and Path(spec).suffix.lower() in _CHECKPOINTS:
        return "checkpoint", spec
    if kind not in ENCODERS:
        raise UsageError(_unknown(spec, kind))
    return kind, argument


def _unknown(spec: str, kind: str) -> str:
    if is_lexical(spec):
        return (
            f"{spec!r} is fitted to the documents and has no vectors of its own: "
            "call assay.models.lexical_model, or name it as a --model of a bench."
        )
    hint = did_you_mean(kind, ENCODERS, forms={kind: form for kind, (_, form) in ENCODERS.items()})
    forms = ", ".join(form for _, form in ENCODERS.values())
    return f"Unknown encoder {spec!r}.{hint} An encoder is one of: {forms}."


# The class in the file of each kind, and how a spec of it is written.
LEXICAL: Final[dict[str, tuple[str, str]]] = {
    "bm25": ("Bm25", "bm25"),
    "tfidf": ("TfIdf", "tfidf"),
    "lsa": ("Lsa", "lsa:DIM"),
}


def is_lexical(spec: str) -> bool:
    """Whether a spec names a model that is fitted to the documents."""
    return spec.partition(":")[0] in LEXICAL


def lexical_model(spec: str, **settings: Any) -> LexicalModel:
    """The model that a spec names, with its settings; nothing is loaded before it is fitted.

    >>> lexical_model("bm25", k1=1.2).k1
    1.2
    """
    checks.require(spec, str, "A lexical model", "a spec such as 'bm25' or 'lsa:200'")
    kind, colon, argument = spec.partition(":")
    if kind not in LEXICAL:
        forms = ", ".join(form for _, form in LEXICAL.values())
        raise UsageError(f"Unknown lexical model {spec!r}. It is one of: {forms}.")
    name, form = LEXICAL[kind]
    if bool(argument) != (":" in form) or bool(colon) != bool(argument):
        raise UsageError(f"The lexical model {spec!r} must be written {form}.")
    model = getattr(import_module(f"assay.models.lexical.{kind}"), name)
    if argument:
        settings = {"dimensions": _whole(argument, spec, form), **settings}
    _refuse_unknown(settings, [field.name for field in fields(model)], kind)
    made: LexicalModel = model(**settings)
    return made


def _whole(argument: str, spec: str, form: str) -> int:
    if not argument.isascii() or not argument.isdigit():
        raise UsageError(f"{spec!r}: {argument!r} is no whole number. Write {form}.")
    return int(argument)


def _refuse_unknown(settings: dict[str, Any], known: list[str], kind: str) -> None:
    for name in settings:
        if name not in known:
            hint = did_you_mean(name, known)
            raise UsageError(f"{kind!r} has no setting {name!r}.{hint} It has: {', '.join(known)}.")


def text_model(
    spec: str,
    *,
    settings: EncoderSettings | None = None,
    cache: EmbeddingCache | None = None,
    device: str | None = None,
    elsewhere: BatchMap | None = None,
) -> TextModel:
    """The text model that a spec names, e.g. "wordllama" or "st:all-MiniLM-L6-v2".

    With a cache, a text is computed once for all runs, and an interrupted run goes on where it
    stopped. `elsewhere` encodes batches where this is not: `assay.cluster.ClusterBatches`.
    """
    given = EncoderSettings() if settings is None else settings
    checks.require(given, EncoderSettings, "settings", "EncoderSettings(...)")
    if isinstance(spec, str) and kind_of(spec)[0] == "npy":
        return PrecomputedModel(spec, given)
    return ComputedModel(encoder(spec, device=device, settings=given), given, cache, elsewhere)


def as_encoder(model: Any, *, device: str | None = None) -> Encoder:
    """From a spec, an Encoder, an object with `encode` or `encode_texts_clip`, or a function.

    >>> as_encoder(lambda texts: [[len(text)] for text in texts]).encode(["abc"]).tolist()
    [[3.0]]
    """
    if isinstance(model, Encoder):
        return model
    if isinstance(model, str):
        return encoder(model, device=device)
    return Encoder(_name_of(model), _function_of(model, device))


def _function_of(model: Any, device: str | None) -> Encode:
    clip = getattr(model, "encode_texts_clip", None)
    if callable(clip):
        return lambda texts: clip(texts, device or "cpu")
    encode = getattr(model, "encode", None)
    if callable(encode):
        return cast("Encode", encode)
    if callable(model):
        return cast("Encode", model)
    raise UsageError(
        f"A text encoder is a spec such as 'wordllama', an object with a method encode(texts) or "
        f"encode_texts_clip(texts, device), or a function, found {type(model).__name__}."
    )


def _name_of(model: Any) -> str:
    return str(getattr(model, "__qualname__", type(model).__qualname__))
