"""A bench as it is asked for, by a config file or by options: what to load and what to run."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.core.text import did_you_mean
from assay.errors import FormatError, UsageError
from assay.io.chunking import ChunkRule
from assay.io.collections import Collection, find_layout, load_collection
from assay.io.json_text import check_against
from assay.io.streams import read_text
from assay.measures import parse_many
from assay.models.specs import ENCODERS, LEXICAL, is_lexical
from assay.search.indexes.specs import parse_spec
from assay.tasks.bench.evaluate import MEASURES, run_bench
from assay.tasks.bench.plan import (
    Fusion,
    Model,
    as_fusions,
    as_models,
    check_names,
    indexed_name,
)

if TYPE_CHECKING:
    from assay.models import EmbeddingCache
    from assay.tasks.bench.result import BenchResult
    from assay.tasks.bench.search import Watch

__all__ = ["SCHEMA", "BenchRequest", "read_config", "request_of"]

_TEXT: Final = {"type": "string", "minLength": 1}
_WHOLE: Final = {"type": "integer", "minimum": 1}


def _told(kind: dict[str, Any], words: str, **more: Any) -> dict[str, Any]:
    return {**kind, "description": words, **more}


_MODEL: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["spec"],
    "properties": {
        "name": _told(_TEXT, "What it is called in results; the spec without it."),
        "spec": _told(_TEXT, "Such as bm25, wordllama, minilm, st:MODEL, py:MODULE:FUNCTION."),
        "query_prefix": _told({"type": "string"}, "Put before every query."),
        "doc_prefix": _told({"type": "string"}, "Put before every document."),
        "max_length": _told(_WHOLE, "Tokens that the model reads of a text."),
        "normalize": _told({"type": "boolean"}, "Scale vectors to length 1, or leave that out."),
        "dimensions": _told(_WHOLE, "Keep the first numbers of each vector (Matryoshka)."),
        "base_url": _told(_TEXT, "Where the endpoint of openai: is."),
        "settings": _told(
            {"type": "object"}, "Settings of bm25, tfidf and lsa, such as k1, b, stemmer."
        ),
    },
}
_FUSION: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["of"],
    "properties": {
        "name": _told(_TEXT, "What it is called in results."),
        "of": _told(
            {"type": "array", "items": _TEXT, "minItems": 2}, "Names of the models to fuse."
        ),
        "method": {"type": "string", "enum": ["rrf", "combsum", "combmnz"]},
        "normalize": {"type": "string", "enum": ["minmax", "zscore"]},
        "weights": {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}},
        "rrf_k": {"type": "integer", "minimum": 0},
    },
}
SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "assay bench",
    "description": "Paths are relative to the file that names them.",
    "type": "object",
    "additionalProperties": False,
    "required": ["corpus", "model"],
    "properties": {
        "name": _told(_TEXT, "What the collection is called."),
        "corpus": _told(
            _TEXT,
            "Documents: .jsonl, .json, .csv, .tsv, a folder of .txt and .md files, or a "
            "folder in BEIR's layout.",
        ),
        "queries": _told(_TEXT, "Queries: .jsonl, .json, .csv or .tsv."),
        "qrels": _told(_TEXT, "Judgments: TREC, .tsv, .csv, .json, .parquet."),
        "split": _told(_TEXT, "Which judgments of a folder in BEIR's layout.", default="test"),
        "judged": {
            "type": "string",
            "enum": ["documents", "chunks"],
            "default": "documents",
            "description": "What the judgments name: documents, or chunks as DOC#1, DOC#2, …",
        },
        "measures": _told(
            {"type": "array", "items": _TEXT, "minItems": 1},
            "The first decides the order.",
            default=["nDCG@10", "R@100", "RR"],
        ),
        "model": {"type": "array", "items": _MODEL, "minItems": 1},
        "fusion": {"type": "array", "items": _FUSION},
        "index": _told(
            {"type": "array", "items": _TEXT}, "Search vectors also by these, e.g. faiss:HNSW32."
        ),
        "chunk": _told(_TEXT, "UNIT:SIZE[:OVERLAP] with characters, sentences or tokens."),
        "fold": _told(_TEXT, "What a document is worth: max, or sum:N of its chunks."),
        "metric": {"type": "string", "enum": ["cosine", "dot", "l2"], "default": "cosine"},
        "depth": _told(_WHOLE, "How many documents are retrieved for each query."),
        "conventions": _told(_TEXT, "A preset or a signature.", default="trec_eval"),
        "device": _told(_TEXT, "Where models run, e.g. cuda."),
    },
}
_PATHS: Final = ("corpus", "queries", "qrels")


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and check a bench.toml; paths in it become absolute."""
    name = os.fspath(path)
    if Path(path).suffix.lower() != ".toml":
        raise UsageError(
            f"{name}: a bench is described in a .toml file. 'assay schema bench' "
            "prints what may stand there."
        )
    try:
        data = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{name}: not TOML: {error}.") from None
    except RecursionError:
        raise FormatError(f"{name}: the TOML is nested too deeply to be a config.") from None
    check_against(data, SCHEMA, name)
    home = Path(path).resolve().parent
    return {key: str(home / value) if key in _PATHS else value for key, value in data.items()}


_ENCODER: Final = (
    "query_prefix",
    "doc_prefix",
    "max_length",
    "normalize",
    "dimensions",
    "base_url",
)
_SHARED: Final = ("metric", "depth", "conventions", "device", "fold")


@dataclass(frozen=True)
class BenchRequest:
    """Files, models and choices, checked as far as they can be before anything is read."""

    corpus: str
    queries: str | None
    qrels: str | None
    split: str
    name: str
    judged: str
    models: tuple[Model, ...]
    fusions: tuple[Fusion, ...]
    indexes: tuple[str, ...]
    measures: tuple[str, ...]
    chunk: ChunkRule | None
    choices: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        """What is read; of a folder in BEIR's layout, the three files."""
        if self.queries is None and self.qrels is None:
            return list(map(str, find_layout(self.corpus, self.split)))
        return [path for path in (self.corpus, self.queries, self.qrels) if path]

    @property
    def names(self) -> list[str]:
        """What the contestants will be called; those behind an index only if they have vectors."""
        indexed = [indexed_name(one.name, index) for one in self.models for index in self.indexes]
        return [*(one.name for one in self.models), *indexed, *(one.name for one in self.fusions)]

    @property
    def encodes(self) -> bool:
        """Whether some model makes vectors of texts; lexical ones and those of files do not."""
        return any(not (_is_lexical(one) or one.spec.startswith("npy:")) for one in self.models)

    def load(self) -> Collection:
        """Read the collection."""
        return load_collection(
            self.corpus,
            self.queries,
            self.qrels,
            split=self.split,
            name=self.name,
            chunks=self.chunk if self.judged == "chunks" else None,
        )

    def run(
        self,
        collection: Collection,
        *,
        cache: EmbeddingCache | None = None,
        threads: int | None = None,
        watch: Watch | None = None,
        **changes: Any,
    ) -> BenchResult:
        """Run it on the collection; with a cache, what was interrupted goes on."""
        result = run_bench(
            collection,
            self.models,
            fusions=self.fusions,
            indexes=self.indexes,
            measures=self.measures or MEASURES,
            chunk=None if self.judged == "chunks" else self.chunk,
            cache=cache,
            parts=None if cache is None else cache.folder,
            threads=threads,
            watch=watch,
            **{**self.choices, **changes},
        )
        return replace(result, chunk=self.chunk, judged=self.judged)


def request_of(config: Mapping[str, Any], **given: Any) -> BenchRequest:
    """What a config file says, and options say otherwise; options that are None say nothing.

    Settings of encoders that come as options hold for all models that have vectors.
    """
    said = {key: value for key, value in given.items() if value not in (None, ())}
    both = {**config, **said}
    if not both.get("corpus"):
        raise UsageError("There are no documents: name them with --corpus, or in a config file.")
    models = _models(config, said)
    fusions = (
        as_fusions(said["fusion"])
        if "fusion" in said
        else tuple(_fusion(one) for one in config.get("fusion", ()))
    )
    check_names(models, fusions)
    chunk = both.get("chunk")
    judged = both.get("judged", "documents")
    if chunk is None and (judged == "chunks" or "fold" in both):
        what = "fold" if "fold" in both else "judged = chunks"
        raise UsageError(f"{what} goes with chunks: say how documents are cut, with chunk.")
    for index in both.get("index", ()):
        parse_spec(index)
    measures = parse_many(both["measures"]) if both.get("measures") else ()
    return BenchRequest(
        both["corpus"],
        both.get("queries"),
        both.get("qrels"),
        both.get("split", "test"),
        both.get("name", ""),
        judged,
        models,
        fusions,
        tuple(dict.fromkeys(both.get("index", ()))),
        tuple(map(str, measures)),
        None if chunk is None else ChunkRule.parse(chunk),
        {key: both[key] for key in _SHARED if key in both},
    )


def _models(config: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[Model, ...]:
    shared = {key: said[key] for key in _ENCODER if key in said}
    if "model" in said:
        models = as_models(said["model"])
    else:
        models = as_models([_model(one) for one in config.get("model", ())])
    for model in models:
        _check_kind(model)
    return tuple(
        one if _is_lexical(one) else Model(one.name, one.spec, {**one.settings, **shared})
        for one in models
    )


def _model(entry: Mapping[str, Any]) -> Model:
    spec = entry["spec"]
    settings = {key: entry[key] for key in _ENCODER if key in entry}
    own = dict(entry.get("settings", {}))
    model = Model(entry.get("name", spec), spec, {**settings, **own})
    odd = settings if _is_lexical(model) else own
    if odd:
        words = "has no vectors, so that" if odd is settings else "is no lexical model, so that"
        raise UsageError(f"The model {model.name!r} {words} {next(iter(odd))!r} does not apply.")
    return model


def _fusion(entry: Mapping[str, Any]) -> Fusion:
    method = entry.get("method", "rrf")
    return Fusion(
        entry.get("name") or f"{method}({'+'.join(entry['of'])})",
        tuple(entry["of"]),
        method,
        entry.get("normalize", "minmax"),
        tuple(map(float, entry["weights"])) if "weights" in entry else None,
        entry.get("rrf_k", 60),
    )


def _is_lexical(model: Model) -> bool:
    return is_lexical(model.spec)


def _check_kind(model: Model) -> None:
    """Refuse a spec that no adapter knows, before anything is read."""
    kind = model.spec.partition(":")[0]
    known: Sequence[str] = [*LEXICAL, *ENCODERS]
    if kind in known or model.spec.endswith((".pt", ".pth", ".safetensors")):
        return
    forms = [form for _, form in (*LEXICAL.values(), *ENCODERS.values())]
    hint = did_you_mean(kind, known)
    raise UsageError(f"Unknown model {model.spec!r}.{hint} A model is one of: {', '.join(forms)}.")
