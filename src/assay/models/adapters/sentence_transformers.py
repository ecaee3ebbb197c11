"""`st:MODEL`: a sentence-transformers model, by name or folder, with the prompts it was made for.

Queries and documents go through `encode_query` and `encode_document` (sentence-transformers 5), or
under the prompts of these names, unless prefixes are given: those replace the model's prompts.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayError, UsageError, error_text, need
from assay.io.fingerprints import version_of, weights_of
from assay.models.encoding import Batch, Encoder, EncoderRequest
from assay.models.settings import EncoderSettings

# The names under which models keep the prompts of a side, the usual one first.
_PROMPTS: Final = {"query": ("query",), "document": ("document", "passage", "corpus")}
# Put before a name without an owner, and then looked for on this machine before the hub is asked:
# the first by SentenceTransformer, the second by CrossEncoder of version 6.
_OWNERS: Final = ("sentence-transformers", "cross-encoder")
_OLDEST: Final = 6  # before, the files of a model could name any class, and a folder its own code
_ROUTERS: Final = ("Router", "Asym")  # modules that treat queries and documents differently


def load(request: EncoderRequest) -> Encoder:
    """Load the model; one that is not on this machine is fetched by the package."""
    package = need("sentence_transformers", "The encoder 'st:'", "sentence-transformers")
    settings = request.settings
    model = load_model(package.SentenceTransformer, request)
    if settings.max_length is not None:
        model.max_seq_length = settings.max_length
    sides = {side: partial(_encode, model, _caller(model, side, settings)) for side in _PROMPTS}
    prompts = {} if _has_prefixes(settings) else _prompts(model)
    differ = bool(prompts) or (_has_router(model) and not _has_prefixes(settings))
    weights = _weights(model, request.argument)
    return Encoder(
        request.spec,
        sides["document"],
        lambda: {
            "sentence-transformers": version_of("sentence-transformers"),
            **(weights or (lambda: {"model": request.argument}))(),
            **({"prompts": prompts} if prompts else {}),
            **({"dtype": settings.dtype} if settings.dtype else {}),
        },
        repeatable=weights is not None,
        batch_size=settings.batch_size or 256,
        query_function=sides["query"] if differ else None,
    )


def load_model(make: Callable[..., Any], request: EncoderRequest, **more: Any) -> Any:
    """Load a model of the package by one of its classes.

    Code that a model brings along runs only if it was asked for.
    """
    name, settings = request.argument, request.settings
    folders = local_folders(name)
    if folders and not settings.trust_remote_code and imports_any_class():
        raise UsageError(
            f"The model {name!r} is the folder {folders[0]}, and sentence-transformers "
            f"{version_of('sentence-transformers')} runs whatever code a folder names. Install "
            f"sentence-transformers>={_OLDEST}.0; or read the code, then say --trust-remote-code."
        )
    arguments = {
        "revision": settings.revision,
        "trust_remote_code": settings.trust_remote_code or None,
        "model_kwargs": {"torch_dtype": settings.dtype} if settings.dtype else None,
        **more,
    }
    options = {key: value for key, value in arguments.items() if value is not None}
    try:
        return make(name, device=request.device, **options)
    except (AssayError, MemoryError):
        raise
    except Exception as error:  # the package and its models can fail in any way
        code = "trust_remote_code" in str(error)
        hint = " It contains code. Read it, then pass --trust-remote-code." if code else ""
        reason = error_text(error)
        raise UsageError(f"The model {name!r} cannot be loaded: {reason}.{hint}") from error


def local_folders(name: str) -> list[str]:
    """Return what on this machine the package may take for a model of this name."""
    owners = () if "/" in name or not name else _OWNERS
    places = (name, *(f"{owner}/{name}" for owner in owners))
    return [place for place in places if os.path.exists(place)]


def imports_any_class() -> bool:
    """Return whether the installed package may import what the files of a model name."""
    major = re.match("[0-9]+", version_of("sentence-transformers"))
    return major is None or int(major[0]) < _OLDEST


def _has_prefixes(settings: EncoderSettings) -> bool:
    return bool(settings.query_prefix or settings.doc_prefix)


def _prompts(model: Any) -> dict[str, str]:
    """Return the model's prompts, without empty ones."""
    prompts = getattr(model, "prompts", None)
    return {str(name): str(text) for name, text in (prompts or {}).items() if text}


def _has_router(model: Any) -> bool:
    modules = getattr(model, "modules", None)
    return callable(modules) and any(type(module).__name__ in _ROUTERS for module in modules())


def _caller(model: Any, side: str, settings: EncoderSettings) -> Callable[..., Any]:
    """Return what encodes a side: its function, its prompt, or the same as for anything."""
    prompts = _prompts(model)
    if _has_prefixes(settings):
        return partial(model.encode, **({"prompt": ""} if prompts else {}))
    method: Any = getattr(model, f"encode_{side}", None)
    if callable(method):
        return partial(method)
    name = next((name for name in _PROMPTS[side] if name in prompts), None)
    return partial(model.encode, **({} if name is None else {"prompt_name": name}))


def _weights(model: Any, argument: str) -> Callable[[], dict[str, Any]] | None:
    """Return what identifies the weights: files of a folder, the revision, or the numbers.

    None where nothing does: then no vector may come from a cache.
    """
    if Path(argument).exists():
        return lambda: weights_of(argument)
    revision = _revision(model)
    if revision is not None:
        return lambda: {"model": argument, "revision": revision}
    if callable(getattr(model, "state_dict", None)):
        return lambda: {"model": argument, "weights": _digest(model.state_dict())}
    return None


def _revision(model: Any) -> str | None:
    """Return the commit of the hub that transformers has read the weights from."""
    try:
        revision = model[0].auto_model.config._commit_hash
    except (AttributeError, IndexError, KeyError, TypeError):
        return None
    return revision if isinstance(revision, str) and revision else None


def _digest(tensors: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        plain = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
        digest.update(plain.numpy().tobytes())  # numpy has no bfloat16; float32 holds it exactly
    return digest.hexdigest()


def _encode(model: Any, call: Callable[..., Any], texts: list[str]) -> Batch:
    vectors = call(texts, convert_to_numpy=True, show_progress_bar=False)
    return Batch(vectors, _truncated(model, texts))


def _truncated(model: Any, texts: list[str]) -> NDArray[np.bool_] | None:
    """Tell which texts have more tokens than the model reads, if its tokenizer can tell."""
    most, tokenizer = getattr(model, "max_seq_length", None), getattr(model, "tokenizer", None)
    if not isinstance(most, int) or not callable(tokenizer):
        return None
    tokens = tokenizer(texts, truncation=False, verbose=False)["input_ids"]
    return np.array([len(row) > most for row in tokens])
