"""`st:MODEL`: a sentence-transformers model, by name or folder, with the prompts it was made for.

Queries and documents go through `encode_query` and `encode_document` (sentence-transformers 5), or
under the prompts of these names, unless prefixes are given: those replace the model's prompts.

The files of a model say whether it makes one vector of a text, token vectors (MultiVectorEncoder)
or sparse ones (SparseEncoder). Its class then encodes, with its own masks and lengths.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayError, UsageError, error_text, need
from assay.io.fingerprints import fingerprint_of, version_of
from assay.io.plain_data import parse_json
from assay.io.streams import read_text
from assay.models.encoding import Batch, Encoder, EncoderRequest, weights_of
from assay.models.ragged import VectorKind
from assay.models.settings import EncoderSettings
from assay.search.engine import SparseVectors

# The names under which models keep the prompts of a side, the usual one first.
_PROMPTS: Final = {"query": ("query",), "document": ("document", "passage", "corpus")}
# Put before a name without an owner, and then looked for on this machine before the hub is asked:
# the first by SentenceTransformer, the second by CrossEncoder of version 6.
_OWNERS: Final = ("sentence-transformers", "cross-encoder")
_OLDEST: Final = 6  # before, the files of a model could name any class, and a folder its own code
_ROUTERS: Final = ("Router", "Asym")  # modules that treat queries and documents differently
_CLASSES: Final[dict[VectorKind, str]] = {
    "dense": "SentenceTransformer",
    "tokens": "MultiVectorEncoder",
    "sparse": "SparseEncoder",
}
_TYPES: Final[dict[Any, VectorKind]] = {
    **{name: kind for kind, name in _CLASSES.items()},
    "ColBERT": "tokens",  # as PyLate calls it
}
# What a model with such a module makes; the first that is there counts.
_MODULES: Final[dict[str, VectorKind]] = {
    "SpladePooling": "sparse",
    "SparseAutoEncoder": "sparse",
    "SparseStaticEmbedding": "sparse",
    "MultiVectorMask": "tokens",
    "Pooling": "dense",
    "StaticEmbedding": "dense",
}
_METRICS: Final = ("dot", "cosine")  # of sparse vectors


def load(request: EncoderRequest) -> Encoder:
    """Load the model; one that is not on this machine is fetched by the package."""
    package = need("sentence_transformers", "The encoder 'st:'", "sentence-transformers")
    settings = request.settings
    kind = kind_of_files(request.argument, _fetcher(package, request))
    model = load_model(_class_of(package, kind, request.argument), request)
    if settings.max_length is not None:
        model.max_seq_length = settings.max_length
    prompts = {} if _has_prefixes(settings) else _prompts(model)
    metric, details = None, {}
    if kind == "dense":
        sides = {side: partial(_encode, model, _caller(model, side, settings)) for side in _PROMPTS}
        differ = bool(prompts) or (_has_router(model) and not _has_prefixes(settings))
    else:
        # Each side has its own function, mask and length.
        if settings.max_length is not None and getattr(model[0], "document_length", None):
            model[0].document_length = settings.max_length
        metric, differ = _metric_of(model, kind, request), True
        bare = {"prompt": ""} if _prompts(model) and _has_prefixes(settings) else {}
        sides = {side: partial(_encode_ragged, model, kind, side, bare) for side in _PROMPTS}
        modules = fingerprint_of({"modules": _describe_modules(model)})
        details = {"class": _CLASSES[kind], "modules": modules}
    weights = _weights(model, request.argument)
    return Encoder(
        request.spec,
        sides["document"],
        lambda: {
            "sentence-transformers": version_of("sentence-transformers"),
            **(weights or (lambda: {"model": request.argument}))(),
            **details,
            **({"prompts": prompts} if prompts else {}),
            **({"dtype": settings.dtype} if settings.dtype else {}),
        },
        repeatable=weights is not None,
        batch_size=settings.batch_size or 256,
        query_function=sides["query"] if differ else None,
        kind=kind,
        metric=metric,
    )


def _class_of(package: Any, kind: VectorKind, name: str) -> Callable[..., Any]:
    """Return the class of the package for such models."""
    make: Callable[..., Any] | None = getattr(package, _CLASSES[kind], None)
    if make is None:
        raise UsageError(
            f"The model {name!r} is a {_CLASSES[kind]}, which sentence-transformers "
            f"{version_of('sentence-transformers')} does not have. Install "
            f"sentence-transformers>={_OLDEST}.0."
        )
    return make


def _metric_of(model: Any, kind: VectorKind, request: EncoderRequest) -> str:
    """Return how the model's authors compare its token or sparse vectors."""
    metric = str(model.similarity_fn_name)
    if kind == "sparse" and metric not in _METRICS:
        raise UsageError(
            f"The model {request.argument!r} compares its sparse vectors by {metric}; use "
            f"{' or '.join(_METRICS)}."
        )
    return metric if kind == "sparse" else "maxsim"


def kind_of_files(name: str, fetch: Callable[[str], str | None] | None = None) -> VectorKind:
    """Return what a model makes, by config_sentence_transformers.json and modules.json.

    `fetch` returns the path of a file of a model that is not on this machine.
    """
    find = partial(_file_of, name) if local_folders(name) else fetch
    if find is None:
        return "dense"
    config = _read_json(find("config_sentence_transformers.json"))
    listed = _read_json(find("modules.json"))
    declared = config.get("model_type") if isinstance(config, dict) else None
    modules = (
        [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    )
    types = {str(part.get("type")).rpartition(".")[2] for part in modules}
    shown = next((kind for module, kind in _MODULES.items() if module in types), None)
    if declared is None and not modules:  # ColBERT's own layout has neither file
        hub = _read_json(find("config.json"))
        written = hub.get("architectures") if isinstance(hub, dict) else None
        return "tokens" if isinstance(written, list) and "HF_ColBERT" in written else "dense"
    said = _TYPES.get(declared, "dense") if isinstance(declared, str) else None
    if isinstance(declared, str) and declared in _TYPES and shown not in (None, said):
        raise UsageError(
            f"The model {name!r} contradicts itself: config_sentence_transformers.json says "
            f"{declared}, and modules.json lists {', '.join(sorted(types))}. Correct the files."
        )
    return said or shown or "dense"


def _file_of(name: str, file: str) -> str | None:
    paths = (os.path.join(folder, file) for folder in local_folders(name))
    return next(filter(os.path.isfile, paths), None)


def _read_json(path: str | None) -> Any:
    return None if path is None else parse_json(read_text(path), path)


def _fetcher(package: Any, request: EncoderRequest) -> Callable[[str], str | None] | None:
    """Return what fetches a file of a model from the hub, if the package offers that."""
    fetch = getattr(getattr(package, "util", None), "load_file_path", None)
    name = request.argument
    if fetch is None or "/" not in name:  # its authors publish no others by a short name
        return None

    def fetch_file(file: str) -> str | None:
        try:
            path = fetch(name, file, revision=request.settings.revision)
        except Exception as error:  # of the hub or the network
            reason = error_text(error)
            raise UsageError(f"The model {name!r} cannot be loaded: {reason}.") from error
        return None if path is None else str(path)

    return fetch_file


def _describe_modules(model: Iterable[Any]) -> list[Any]:
    """Return the settings of each module: masks, lengths, query expansion, pooling."""
    described = []
    for part in model:
        config: dict[str, Any] = getattr(part, "get_config_dict", dict)()
        described.append([type(part).__name__, repr(sorted(config.items()))])
    return described


def _encode_ragged(
    model: Any, kind: VectorKind, side: str, options: Any, texts: list[str]
) -> Batch:
    """Encode one side by its own function."""
    encode = partial(getattr(model, f"encode_{side}"), texts, show_progress_bar=False, **options)
    most = None
    if kind == "tokens":
        vectors = encode(convert_to_numpy=True)
        most = getattr(model[0], "document_length", None)
    else:
        tensor = encode(save_to_cpu=True)
        tensor = (tensor if tensor.is_sparse else tensor.to_sparse()).coalesce()
        rows, columns = tensor.indices().numpy()
        offsets, weights = np.searchsorted(rows, np.arange(len(texts) + 1)), tensor.values().float()
        vectors = SparseVectors(offsets, columns, weights.numpy(), int(tensor.shape[1]))
    # Lengths of queries are not those of documents, which alone are reported.
    return Batch(vectors, _truncated(model, texts, most) if side == "document" else None)


def load_model(make: Callable[..., Any], request: EncoderRequest, **more: Any) -> Any:
    """Load a model of the package by one of its classes.

    Code that a model brings along runs only if it was asked for.
    """
    name, settings = request.argument, request.settings
    folders = local_folders(name)
    if folders and not settings.trust_remote_code and imports_any_class():
        raise UsageError(
            f"The model {name!r} is the folder {folders[0]}, whose code sentence-transformers "
            f"{version_of('sentence-transformers')} always runs. Install "
            f"sentence-transformers>={_OLDEST}.0; or read the code, then pass "
            "--trust-remote-code."
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


def _truncated(model: Any, texts: list[str], most: int | None = None) -> NDArray[np.bool_] | None:
    """Tell which texts have more tokens than the model reads, if its tokenizer can tell."""
    most = most or getattr(model, "max_seq_length", None)
    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(most, int) or not callable(tokenizer):
        return None
    tokens = tokenizer(texts, truncation=False, verbose=False)["input_ids"]
    return np.array([len(row) > most for row in tokens])
