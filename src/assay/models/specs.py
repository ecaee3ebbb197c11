"""From a spec such as `wordllama` or `st:all-MiniLM-L6-v2` to an encoder."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, cast

from assay.core import checks
from assay.core.specs import SpecKind, SpecRegistry
from assay.core.text import did_you_mean, parse_whole
from assay.errors import AssayError, PluginError, UsageError, error_text
from assay.models.adapters.precomputed import PrecomputedModel
from assay.models.cache import EmbeddingCache
from assay.models.encoding import BatchMap, Encode, Encoder, EncoderRequest
from assay.models.lexical.base import LexicalModel
from assay.models.settings import EncoderSettings
from assay.models.text_models import ComputedModel, TextModel
from assay.plugins import MODELS


def _adapter(form: str, module: str) -> SpecKind:
    return SpecKind(form, f"assay.models.adapters.{module}:load")


ENCODERS: Final = SpecRegistry(
    "encoder",
    {
        "wordllama": _adapter("wordllama", "wordllama"),
        "minilm": _adapter("minilm:FOLDER", "minilm"),
        "st": _adapter("st:MODEL", "sentence_transformers"),
        "onnx": _adapter("onnx:FOLDER", "onnx"),
        "model2vec": _adapter("model2vec:MODEL", "model2vec"),
        "openai": _adapter("openai:MODEL", "openai"),
        "npy": _adapter("npy:FILE", "precomputed"),
        "py": _adapter("py:MODULE:FUNCTION", "python_function"),
        "checkpoint": _adapter("checkpoint:FILE", "torch_file"),
    },
    MODELS,
)
LEXICAL: Final = SpecRegistry(
    "lexical model",
    {
        "bm25": SpecKind("bm25", "assay.models.lexical.bm25:Bm25"),
        "tfidf": SpecKind("tfidf", "assay.models.lexical.tfidf:TfIdf"),
        "lsa": SpecKind("lsa:DIM", "assay.models.lexical.lsa:Lsa"),
    },
)
_ALL: Final = SpecRegistry("model", {**LEXICAL, **ENCODERS}, MODELS)
_CHECKPOINTS: Final = (".pt", ".pth", ".safetensors")


def encoder(
    spec: str, *, device: str | None = None, settings: EncoderSettings | None = None
) -> Encoder:
    """The encoder that a spec names; `device` is for the kinds that run on one.

    It applies only the settings that the model itself needs; `text_model` applies them all.
    """
    checks.require(spec, str, "An encoder", "a spec such as 'wordllama' or 'st:MODEL'")
    kind, argument = _kind_of(spec)
    if kind.needs_argument and not argument:
        raise UsageError(f"The encoder {spec!r} names no model. Write {kind.form}.")
    options = settings or EncoderSettings()
    if kind is not ENCODERS["st"]:
        options.refuse_hub(spec.partition(":")[0])
    model = _load_encoder(kind, EncoderRequest(spec, argument, device, options))
    return model if options.batch_size is None else replace(model, batch_size=options.batch_size)


def _load_encoder(kind: SpecKind, request: EncoderRequest) -> Encoder:
    """What the adapter loads; one of another package may fail in any way, and is named."""
    load = kind.load()
    if kind.plugin is None:
        model: Encoder = load(request)
        return model
    try:
        model = load(request)
    except (AssayError, MemoryError):
        raise
    except Exception as error:
        raise PluginError(
            f"The encoder {request.spec!r} of the package {kind.plugin.package} cannot be loaded: "
            f"{error_text(error)}."
        ) from error
    if not isinstance(model, Encoder):
        raise PluginError(
            f"The package {kind.plugin.package} offers {kind.plugin.name!r} as an encoder, but "
            f"{kind.source} returned {type(model).__name__}, not an assay.models.Encoder."
        )
    return model


def _kind_of(spec: str) -> tuple[SpecKind, str]:
    """The kind of encoder that a spec names, and what follows it."""
    name, _, argument = spec.partition(":")
    kind = ENCODERS.find(name)
    if kind is not None:
        return kind, argument
    if Path(spec).suffix.lower() in _CHECKPOINTS:
        return ENCODERS["checkpoint"], spec
    if is_lexical(spec):
        raise UsageError(
            f"{spec!r} is fitted to the documents and has no vectors of its own: "
            "call assay.models.lexical_model, or name it as a --model of a bench."
        )
    raise ENCODERS.unknown(spec)


def find_kind(spec: str) -> SpecKind:
    """The kind of a spec; one that names neither a lexical model nor an encoder is refused."""
    kind = _ALL.find(spec.partition(":")[0])
    if kind is None and Path(spec).suffix.lower() in _CHECKPOINTS:
        kind = ENCODERS["checkpoint"]
    if kind is None:
        raise _ALL.unknown(spec)
    return kind


def is_lexical(spec: str) -> bool:
    """Whether a spec names a model that is fitted to the documents."""
    return spec.partition(":")[0] in LEXICAL


def lexical_model(spec: str, **settings: Any) -> LexicalModel:
    """The model that a spec names, with its settings; nothing is loaded before it is fitted.

    >>> lexical_model("bm25", k1=1.2).k1
    1.2
    """
    checks.require(spec, str, "A lexical model", "a spec such as 'bm25' or 'lsa:200'")
    name, colon, argument = spec.partition(":")
    kind = LEXICAL.find(name)
    if kind is None:
        raise LEXICAL.unknown(spec)
    if bool(argument) != kind.needs_argument or bool(colon) != bool(argument):
        raise UsageError(f"The lexical model {spec!r} must be written {kind.form}.")
    model = kind.load()
    if argument:
        settings = {"dimensions": _whole(argument, spec, kind.form), **settings}
    _refuse_unknown(settings, [field.name for field in fields(model)], name)
    fitted: LexicalModel = model(**settings)
    return fitted


def _whole(argument: str, spec: str, form: str) -> int:
    number = parse_whole(argument)
    if number is None:
        raise UsageError(f"{spec[:80]!r}: no whole number up to 10^15 there. Write {form}.")
    return number


def _refuse_unknown(settings: dict[str, Any], names: list[str], kind: str) -> None:
    for name in settings:
        if name not in names:
            hint = did_you_mean(name, names)
            raise UsageError(f"{kind!r} has no setting {name!r}.{hint} It has: {', '.join(names)}.")


def text_model(
    spec: str,
    *,
    settings: EncoderSettings | None = None,
    cache: EmbeddingCache | None = None,
    device: str | None = None,
    elsewhere: BatchMap | None = None,
    warm_up: bool = False,
) -> TextModel:
    """The text model that a spec names, e.g. "wordllama" or "st:all-MiniLM-L6-v2".

    With a cache, a text is computed once for all runs, and an interrupted run resumes where it
    stopped. `elsewhere` encodes batches on other machines: `assay.cluster.ClusterBatches`. With
    `warm_up`, the first text that is to be computed is computed once more before the clock starts.
    """
    encoder_settings = EncoderSettings() if settings is None else settings
    checks.require(encoder_settings, EncoderSettings, "settings", "EncoderSettings(...)")
    if isinstance(spec, str) and _kind_of(spec)[0] is ENCODERS["npy"]:
        return PrecomputedModel(spec, encoder_settings)
    model = encoder(spec, device=device, settings=encoder_settings)
    return ComputedModel(model, encoder_settings, cache, elsewhere, warm_up)


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
