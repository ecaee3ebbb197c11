"""Turn a spec such as `wordllama` or `st:all-MiniLM-L6-v2` into a model, with the user's consent.

A file may name models. Some of what they do (run code, send a key) needs the user's consent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from assay.core import checks
from assay.core.on_demand import OnDemand
from assay.core.specs import Consent, SpecKind, SpecRegistry, own_callable
from assay.core.text import did_you_mean, parse_number, parse_whole
from assay.errors import AssayError, PluginError, UsageError, error_text
from assay.models.adapters.precomputed import PrecomputedModel, kind_of_spec
from assay.models.adapters.sentence_transformers import (
    imports_any_class,
    kind_of_files,
    local_folders,
)
from assay.models.cache import EmbeddingCache
from assay.models.encoding import BatchMap, ComputedModel, Encoder, EncoderRequest, TextModel
from assay.models.ragged import NAMES, VectorKind
from assay.models.settings import EncoderSettings
from assay.plugins import MODELS

if TYPE_CHECKING:
    from assay.models.adapters import openai
    from assay.models.lexical import LexicalModel
    from assay.models.rerankers import parse_endpoint
else:  # which a spec that is only named does not need
    openai = OnDemand("assay.models.adapters.openai")
    parse_endpoint = OnDemand("assay.models.rerankers").parse_endpoint

Params = Mapping[str, Any]  # options of a command, or settings of a model, by name

_HUB: Final = "huggingface.co"
_FETCHED: Final = ("st", "model2vec")  # from there, unless their argument is a folder
# Names that the authors of sentence-transformers publish themselves.
_PUBLISHED: Final = re.compile(r"(sentence-transformers/)?[A-Za-z0-9][\w.-]*")


# Forms of the specs, and where what they name is loaded from.
_ADAPTERS: Final = {
    "wordllama": "wordllama",
    "minilm:FOLDER": "minilm",
    "st:MODEL": "sentence_transformers",
    "onnx:FOLDER": "onnx",
    "model2vec:MODEL": "model2vec",
    "openai:MODEL": "openai",
    "npy:FILE": "precomputed",
    "py:MODULE:FUNCTION": "python_function",
    "checkpoint:FILE": "torch_file",
}
_LEXICAL: Final = {"bm25": "Bm25", "tfidf": "TfIdf", "lsa:DIM": "Lsa"}


def _kinds(sources: Mapping[str, str], place: str) -> dict[str, SpecKind]:
    kinds = (SpecKind(form, place.format(source)) for form, source in sources.items())
    return {kind.form.partition(":")[0]: kind for kind in kinds}


class _Models(SpecRegistry):
    """Models by name; one of a hub is told how to write it."""

    def unknown(self, spec: str) -> UsageError:
        error = str(super().unknown(spec))
        if re.fullmatch(r"(?![.-])[\w.-]+(/[\w.-]+)?", spec) and "Did you mean" not in error:
            error = error.replace("Known:", f"Write st:{spec} for sentence-transformers. Known:")
        return UsageError(error)


_LOAD: Final = "assay.models.adapters.{}:load"
ENCODERS: Final = _Models("encoder", _kinds(_ADAPTERS, _LOAD), MODELS)
LEXICAL: Final = SpecRegistry("lexical model", _kinds(_LEXICAL, "assay.models.lexical:{}"))
_ALL: Final = _Models("model", {**LEXICAL, **ENCODERS}, MODELS)
_CHECKPOINTS: Final = (".pt", ".pth", ".ckpt", ".safetensors")


def encoder(
    spec: str, *, device: str | None = None, settings: EncoderSettings | None = None
) -> Encoder:
    """Load the encoder that a spec names.

    It applies only the settings that the model itself needs; `text_model` applies them all.

    Args:
        spec: Spec of the model, e.g. "wordllama".
        device: Device, for the kinds that run on one.
        settings: Settings of the model.

    Returns:
        The encoder.

    Raises:
        AssayError: The spec is unknown, a package is missing, or the model cannot be loaded.

    Example:
        encoder("wordllama").encode(["a text"])
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
    """Load by the adapter; one of another package may fail in any way, and is named."""
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
    """Return the kind of encoder that a spec names, and what follows it."""
    name, _, argument = spec.partition(":")
    if (kind := ENCODERS.find(name)) is not None:
        return kind, argument
    if Path(spec).suffix.lower() in _CHECKPOINTS:
        return ENCODERS["checkpoint"], spec
    if is_lexical(spec):
        raise UsageError(
            f"{spec!r} is lexical and has no vectors. Call assay.models.lexical_model, or use "
            "it in a bench."
        )
    raise ENCODERS.unknown(spec)


def find_kind(spec: str) -> SpecKind:
    """Return the kind of a spec; refuse one that names no lexical model and no encoder."""
    kind = _ALL.find(re.split("[:?]" if is_lexical(spec) else ":", spec)[0])
    if kind is None and Path(spec).suffix.lower() in _CHECKPOINTS:
        kind = ENCODERS["checkpoint"]
    if kind is None:
        raise _ALL.unknown(spec)
    return kind


def is_lexical(spec: str) -> bool:
    """Tell whether a spec names a model that is fitted to the documents.

    Args:
        spec: Spec of a model.

    Returns:
        True for a lexical model.

    Example:
        >>> is_lexical("bm25?stemmer=de"), is_lexical("wordllama")
        (True, False)
    """
    return re.split("[:?]", spec)[0] in LEXICAL


def lexical_model(spec: str, /, **settings: Any) -> LexicalModel:
    """Return the lexical model that a spec names; nothing is loaded before it is fitted.

    Args:
        spec: "bm25", "tfidf" or "lsa:DIM", and perhaps settings: "bm25?stemmer=de&k1=1.2".
        **settings: Settings of the model; they count before those of the spec.

    Returns:
        A model with `fit(texts)`, which returns what can search.

    Raises:
        UsageError: The spec or a setting is unknown.

    Example:
        >>> lexical_model("bm25?b=0.75", k1=1.2).b
        0.75
    """
    checks.require(spec, str, "A lexical model", "a spec such as 'bm25' or 'lsa:200'")
    head, question, options = spec.partition("?")
    name, colon, argument = head.partition(":")
    kind = LEXICAL.find(name)
    if kind is None:
        raise LEXICAL.unknown(spec)
    if bool(argument) != kind.needs_argument or bool(colon) != bool(argument):
        raise UsageError(f"The lexical model {spec!r} is incomplete. Write {kind.form}.")
    make = kind.load()
    pairs = [_read_option(text, spec) for text in options.split("&") if question]
    written = dict(pairs)
    if len(written) < len(pairs):
        raise UsageError(f"{spec[:80]!r}: a setting appears twice. Keep one.")
    if argument:
        written["dimensions"] = parse_whole(argument)
        if written["dimensions"] is None:
            reason = f"not a whole number up to 10^15. Write {kind.form}"
            raise UsageError(f"{spec[:80]!r}: {reason}.")
    settings = {**written, **settings}
    names = [field.name for field in fields(make)]
    for key in settings:
        if key not in names:
            hint, listed = did_you_mean(key, names), ", ".join(names)
            raise UsageError(f"{name!r} has no setting {key!r:.60}.{hint} Known: {listed}.")
    model: LexicalModel = make(**settings)
    return model


def _read_option(text: str, spec: str) -> tuple[str, Any]:
    """Read NAME=VALUE in a spec: a number, true, false, none, a word, or words with commas."""
    name, _, value = text.partition("=")
    if not value:
        raise UsageError(f"{spec[:80]!r}: cannot read settings. Write ?name=value&name=value.")
    number = parse_number(value)
    if number is not None:
        return name, number if "." in value else int(number)
    words = {"none": None, "true": True, "false": False}
    return name, words.get(value, value.split(",") if "," in value else value)


def text_model(
    spec: str,
    *,
    settings: EncoderSettings | None = None,
    cache: EmbeddingCache | None = None,
    device: str | None = None,
    elsewhere: BatchMap | None = None,
    warm_up: bool = False,
    ragged: bool = False,
) -> TextModel:
    """Return the text model that a spec names.

    Args:
        spec: Spec of the model, e.g. "wordllama" or "st:all-MiniLM-L6-v2".
        settings: Prefixes, length, scale and width.
        cache: Cache in which a text is computed once for all runs; an interrupted run resumes
            where it stopped.
        device: Device, for the kinds that run on one.
        elsewhere: Encodes batches on other machines: `assay.cluster.ClusterBatches`.
        warm_up: Compute the first text once more before the clock starts.
        ragged: Take models of token and of sparse vectors, too.

    Returns:
        The model, which encodes documents and queries.

    Raises:
        AssayError: The spec is unknown, a package is missing, or settings do not fit.

    Example:
        model = text_model("wordllama", cache=EmbeddingCache())
        model.encode_docs(["a text"]).vectors
    """
    encoder_settings = EncoderSettings() if settings is None else settings
    checks.require(encoder_settings, EncoderSettings, "settings", "EncoderSettings(...)")
    if isinstance(spec, str) and _kind_of(spec)[0] is ENCODERS["npy"]:
        ready = PrecomputedModel(spec, encoder_settings)
        return ready if ragged else _only_dense(ready)
    model = encoder(spec, device=device, settings=encoder_settings)
    if not ragged:
        _only_dense(model)
    return ComputedModel(model, encoder_settings, cache, elsewhere, warm_up)


M = TypeVar("M", PrecomputedModel, Encoder)


def _only_dense(model: M) -> M:
    """Refuse a model of token or sparse vectors where a text has one vector."""
    if model.kind != "dense":
        raise UsageError(
            f"{model.spec!r} makes {NAMES[model.kind]}, but one dense vector is needed. "
            "Compare it with `assay bench`."
        )
    return model


def vector_kind(spec: str) -> VectorKind | None:
    """Return what a model makes of a text; None where no file on this machine tells.

    >>> vector_kind("wordllama")
    'dense'
    """
    name, _, argument = spec.partition(":")
    if name == "npy":
        return kind_of_spec(spec)
    if name == "st":
        return kind_of_files(argument) if local_folders(argument) else None
    return None if is_lexical(spec) or find_kind(spec).plugin is not None else "dense"


def as_encoder(model: Any, *, device: str | None = None) -> Encoder:
    """Make an Encoder of a spec, an object with `encode`, or a function.

    >>> as_encoder(lambda texts: [[len(text)] for text in texts]).encode(["abc"]).tolist()
    [[3.0]]
    """
    if isinstance(model, Encoder):
        return model
    if isinstance(model, str):
        return _only_dense(encoder(model, device=device))
    name = str(getattr(model, "__qualname__", type(model).__qualname__))
    clip, encode = getattr(model, "encode_texts_clip", None), getattr(model, "encode", None)
    if callable(clip):
        return Encoder(name, lambda texts: clip(texts, device or "cpu"))
    function = encode if callable(encode) else model
    if not callable(function):
        raise UsageError(
            f"{type(model).__name__} is not a text encoder. Pass a spec such as 'wordllama', "
            "a function, or an object with encode(texts) or encode_texts_clip(texts, device)."
        )
    return Encoder(name, function)


def allow_model(spec: str, settings: Params, consent: Consent, place: str) -> dict[str, Any]:
    """Refuse a model without the consent that it needs; return settings with its key."""
    what = f"the model {spec!r}"
    name, _, argument = spec.partition(":")
    # A revision of the authors' model may be a pull request of anybody.
    revised = name == "st" and bool(settings.get("revision")) and imports_any_class()
    if runs_code(spec) or settings.get("trust_remote_code") or revised:
        folders = local_folders(argument) if name == "st" else []
        words = f" (here the folder {folders[0]})" if folders else ""
        consent.check_code(f"{what}{words}", place)
    if name in _FETCHED and not os.path.exists(argument):
        consent.check_download(what, _HUB, place)
    if name == "py":
        own_callable(argument, "py:MODULE:FUNCTION")
    return _allow_key(settings, consent, f"{place}: {what}") if name == "openai" else {**settings}


def allow_reranker(spec: str, settings: Mapping[str, Any], consent: Consent, place: str) -> None:
    """Refuse a reranker without the consent that it needs; a key goes where both are allowed."""
    if spec.startswith("rerank:"):
        where = parse_endpoint(spec)
        consent.check_endpoint(where.url, f"{place}: the reranker {spec!r}", where.key_env)
    else:
        allow_model(spec.removeprefix("maxsim:"), settings, consent, place)


def runs_code(spec: str) -> bool:
    """Tell whether loading the model runs code that a spec chooses.

    `py:` and plugins do. So does `st:` of a folder or of anybody's name: its files name classes
    to import. Those of the package's own authors are taken as the package itself is, unless a
    folder on this machine is taken for them.
    """
    name, _, argument = spec.partition(":")
    if name == "st":
        return bool(local_folders(argument)) or not _PUBLISHED.fullmatch(argument)
    return find_kind(spec).plugin is not None or name == "py"


def _allow_key(settings: Mapping[str, Any], consent: Consent, place: str) -> dict[str, Any]:
    """Give an endpoint of the file the variable that it names, if the user allows that."""
    url, variable = settings.get("base_url"), settings.get("key_env", "")
    if variable and url is None:
        raise UsageError(f"{place}: key_env requires base_url. Add it.")
    if url is None or (not variable and openai.is_trusted(url)):
        return {**settings}
    consent.check_endpoint(url, place, variable)
    return {**settings, "key_env": variable}


def check_model(spec: str, params: Mapping[str, Any], consent: Consent, place: str) -> None:
    """Refuse a model of a stored command without the consent that it needs."""
    base_url = params.get("base_url")
    if spec.partition(":")[0] == "openai":
        url = base_url or openai.default_address()
        consent.check_endpoint(
            url, f"{place}: the model {spec!r}", openai.key_variable() if base_url else ""
        )
    else:
        allow_model(spec, code_settings(params), consent, place)


def code_settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that decide whose code a model may run."""
    return {name: params.get(name) for name in ("revision", "trust_remote_code")}


def allow_encoders(specs: list[str], params: Params, consent: Consent, place: str) -> None:
    """Refuse encoders of a stored command without consent."""
    for spec in specs:
        check_model(spec, params, consent, place)


def allow_factories(names: list[str], params: Params, consent: Consent, place: str) -> None:
    """Refuse functions of a stored command that make models, without consent."""
    for name in names:
        consent.check_code(f"the factory {name!r}", place)
        own_callable(name, "MODULE:FACTORY")


def offer_models(_: Any) -> Iterator[str]:
    """Yield the specs of models, with a colon where something follows."""
    for name, kind in {**LEXICAL, **ENCODERS}.items():
        yield f"{name}:" if ":" in kind.form.partition("[")[0] else name
