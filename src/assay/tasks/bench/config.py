"""A bench as a config file or options describe it: what to load and what to run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.core.consent import Consent
from assay.core.numbers import parse_number
from assay.errors import UsageError
from assay.io.answers import ANSWER_MEASURES
from assay.io.chunking import ChunkRule
from assay.io.collections import Collection, find_layout, load_collection
from assay.io.config_text import parse_toml, read_config_text
from assay.io.ir_data import allow_ir, is_ir
from assay.io.json_text import check_against
from assay.measures import parse_many
from assay.models.from_file import allow_model, allow_reranker
from assay.models.settings import DTYPES, EncoderSettings
from assay.models.specs import find_kind
from assay.search.indexes.specs import allow_index, parse_spec
from assay.tasks.bench.evaluate import MEASURES, run_bench
from assay.tasks.bench.plan import (
    METRICS,
    BenchPlan,
    Folds,
    Fusion,
    Model,
    Rerank,
    as_fusions,
    as_models,
    as_reranks,
    split_stages,
)

if TYPE_CHECKING:
    from assay.models import EmbeddingCache
    from assay.tasks.bench.result import BenchResult
    from assay.tasks.bench.search import BenchProgress

__all__ = ["SCHEMA", "BenchRequest", "make_request", "read_config"]

_TEXT: Final = {"type": "string", "minLength": 1}
_WHOLE: Final = {"type": "integer", "minimum": 1}


def _describe(kind: dict[str, Any], words: str, **more: Any) -> dict[str, Any]:
    return {**kind, "description": words, **more}


_MODEL: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["spec"],
    "properties": {
        "name": _describe(_TEXT, "Its name in results; by default the spec."),
        "spec": _describe(_TEXT, "Such as bm25, wordllama, st:MODEL, py:MODULE:FUNCTION."),
        "query_prefix": _describe({"type": "string"}, "Prefix of every query."),
        "doc_prefix": _describe({"type": "string"}, "Prefix of every document."),
        "max_length": _describe(_WHOLE, "Maximum number of tokens; longer texts are truncated."),
        "normalize": _describe({"type": "boolean"}, "Whether vectors are scaled to length 1."),
        "dimensions": _describe(_WHOLE, "Number of leading dimensions to keep (Matryoshka)."),
        "base_url": _describe(
            _TEXT, "URL of the endpoint of openai: models; it needs --allow-endpoint."
        ),
        "key_env": _describe(
            _TEXT,
            "Environment variable with the key of that endpoint; without it none is sent.",
        ),
        "revision": _describe(_TEXT, "Commit, branch or tag of a st: model."),
        "dtype": _describe({"type": "string", "enum": list(DTYPES)}, "Numbers of a st: model."),
        "trust_remote_code": _describe(
            {"type": "boolean"}, "Run code that a st: model brings along; it needs --allow-code."
        ),
        "batch_size": _describe(_WHOLE, "Texts that are encoded at once."),
        "metric": _describe(
            {"type": "string", "enum": list(METRICS)}, "Similarity of its vectors, if another."
        ),
        "codes": _describe(_TEXT, "What its vectors are searched as: int8, binary, pq:M, ..."),
        "price": _describe({"type": "number", "minimum": 0}, "What a million tokens costs."),
        "settings": _describe(
            {"type": "object"}, "Settings of bm25, tfidf and lsa, such as k1, b, stemmer."
        ),
    },
}
_FUSION: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["of"],
    "properties": {
        "name": _describe(_TEXT, "Its name in results."),
        "of": _describe(
            {"type": "array", "items": _TEXT, "minItems": 2}, "Names of the models to fuse."
        ),
        "method": {"type": "string", "enum": ["rrf", "combsum", "combmnz"]},
        "normalize": {"type": "string", "enum": ["minmax", "zscore"]},
        "weights": {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}},
        "rrf_k": {"type": "integer", "minimum": 0},
        "tune": _describe(
            {"type": "integer", "minimum": 2}, "Fit weights by cross-validation in so many folds."
        ),
        "seed": _describe({"type": "integer", "minimum": 0}, "How these are dealt.", default=0),
    },
}
_RERANK: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["of", "spec"],
    "properties": {
        "name": _describe(_TEXT, "Its name in results."),
        "of": _describe(_TEXT, "Name of the model or fusion that retrieves."),
        "spec": _describe(
            _TEXT, "What puts them in order: py:MODULE:FUNCTION, st:MODEL, onnx:FOLDER, rerank:URL."
        ),
        "depth": _describe(_WHOLE, "How many documents of each query; 100 by default."),
        **{
            key: _MODEL["properties"][key]  # type: ignore[index]
            for key in (
                "max_length",
                "revision",
                "dtype",
                "trust_remote_code",
                "batch_size",
                "price",
            )
        },
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
        "name": _describe(_TEXT, "Name of the collection."),
        "corpus": _describe(
            _TEXT,
            "Documents: .jsonl, .json, .csv, .tsv, .parquet, a folder of .txt and .md files, a "
            "folder in the layout of BEIR or Hugging Face, or ir:ID of ir_datasets.",
        ),
        "queries": _describe(_TEXT, "Queries: .jsonl, .json, .csv, .tsv or .parquet."),
        "qrels": _describe(_TEXT, "Judgments: TREC, .tsv, .csv, .json, .parquet."),
        "answers": _describe(
            _TEXT, "Answers of the queries: .json, .jsonl, .tsv; a text that holds one is relevant."
        ),
        "split": _describe(_TEXT, "Which judgments of a folder in BEIR's layout.", default="test"),
        "judged": {
            "type": "string",
            "enum": ["documents", "chunks"],
            "default": "documents",
            "description": "What the judgments name: documents, or chunks as DOC#1, DOC#2, …",
        },
        "measures": _describe(
            {"type": "array", "items": _TEXT, "minItems": 1},
            "The first decides the order.",
            default=["nDCG@10", "R@100", "RR"],
        ),
        "model": {"type": "array", "items": _MODEL, "minItems": 1},
        "fusion": {"type": "array", "items": _FUSION},
        "rerank": {"type": "array", "items": _RERANK},
        "index": _describe(
            {"type": "array", "items": _TEXT},
            "Indexes that search vectors too, e.g. faiss:HNSW32.",
        ),
        "chunk": _describe(_TEXT, "UNIT:SIZE[:OVERLAP] with characters, sentences or tokens."),
        "fold": _describe(
            _TEXT, "How chunk scores become a document's score: max, or sum:N of its best chunks."
        ),
        "metric": {"type": "string", "enum": ["cosine", "dot", "l2"], "default": "cosine"},
        "depth": _describe(_WHOLE, "Number of documents to retrieve for each query."),
        "conventions": _describe(_TEXT, "A preset or a signature.", default="trec_eval"),
        "device": _describe(_TEXT, "Device that models run on, e.g. cuda."),
    },
}
_PATHS: Final = ("corpus", "queries", "qrels", "answers")


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and check a bench.toml; paths in it become absolute."""
    name = os.fspath(path)
    if Path(path).suffix.lower() != ".toml":
        raise UsageError(
            f"{name}: a bench is described in a .toml file. 'assay schema bench' prints its schema."
        )
    data = parse_toml(read_config_text(path), name)
    check_against(data, SCHEMA, name)
    home = Path(path).resolve().parent
    return {
        key: str(home / value) if key in _PATHS and not is_ir(value) else value
        for key, value in data.items()
    }


_ENCODER: Final = tuple(one.name for one in fields(EncoderSettings))
_CONFIG: Final = "The config file"
_SHARED: Final = ("metric", "depth", "conventions", "device", "fold")


@dataclass(frozen=True)
class BenchRequest:
    """Files, models and options, checked as far as they can be before anything is read."""

    corpus: str
    queries: str | None
    qrels: str | None
    split: str
    name: str
    judged: str
    plan: BenchPlan
    measures: tuple[str, ...]
    chunk: ChunkRule | None
    options: Mapping[str, Any] = field(default_factory=dict)
    answers: str | None = None

    @property
    def files(self) -> list[str]:
        """What is read; of a folder in BEIR's layout, the three files."""
        answers = [self.answers] if self.answers else []
        if is_ir(self.corpus):
            return answers
        if self.queries is None and self.qrels is None:
            return [*map(str, find_layout(self.corpus, self.split)), *answers]
        return [*(path for path in (self.corpus, self.queries, self.qrels) if path), *answers]

    @property
    def usual_measures(self) -> tuple[str, ...]:
        """Measures where none is named: those of DPR where answers alone judge."""
        by_answers = self.answers and self.qrels is None and self.queries is not None
        return ANSWER_MEASURES if by_answers else MEASURES

    def load(self) -> Collection:
        """Read the collection."""
        return load_collection(
            self.corpus,
            self.queries,
            self.qrels,
            split=self.split,
            name=self.name,
            chunks=self.chunk if self.judged == "chunks" else None,
            answers=self.answers,
        )

    def run(
        self,
        collection: Collection,
        *,
        cache: EmbeddingCache | None = None,
        threads: int | None = None,
        progress: BenchProgress | None = None,
        **changes: Any,
    ) -> BenchResult:
        """Run it on the collection; with a cache, an interrupted bench resumes."""
        result = run_bench(
            collection,
            self.plan.models,
            fusions=self.plan.fusions,
            indexes=self.plan.indexes,
            reranks=self.plan.reranks,
            measures=self.measures or self.usual_measures,
            chunk=None if self.judged == "chunks" else self.chunk,
            cache=cache,
            checkpoint=None if cache is None else cache.folder,
            threads=threads,
            progress=progress,
            **{**self.options, **changes},
        )
        return replace(result, chunk=self.chunk, judged=self.judged)


def make_request(
    config: Mapping[str, Any],
    *,
    allow_code: bool = False,
    allow_endpoints: Iterable[str] = (),
    **given: Any,
) -> BenchRequest:
    """From a config file and the options that override it; an option that is None does not.

    Settings of encoders that come as options hold for all models that have vectors. Options are
    your own; what the config names runs code or reaches an endpoint only if that is allowed.
    """
    consent = Consent.of(allow_code, allow_endpoints)
    said = {key: value for key, value in given.items() if value not in (None, ())}
    if "model" in said:
        said["model"], stages = split_stages(said["model"])
        said |= {"rerank": (*stages, *said.get("rerank", ()))} if stages else {}
    config = _with_stages(config)
    both = {**config, **said}
    if not both.get("corpus"):
        raise UsageError("No documents given: name them with --corpus, or in a config file.")
    if "corpus" not in said:
        allow_ir(both["corpus"], consent, _CONFIG)
    models = _models(config, said, consent)
    fusions = (
        as_fusions(said["fusion"])
        if "fusion" in said
        else tuple(_fusion(one) for one in config.get("fusion", ()))
    )
    reranks = (
        as_reranks(said["rerank"])
        if "rerank" in said
        else tuple(_rerank(one, consent) for one in config.get("rerank", ()))
    )
    plan = BenchPlan.of(models, fusions, both.get("index", ()), reranks)
    plan = plan.with_prices(_prices(said.get("price", ())))
    chunk = both.get("chunk")
    judged = both.get("judged", "documents")
    if chunk is None and (judged == "chunks" or "fold" in both):
        what = "fold" if "fold" in both else "judged = chunks"
        raise UsageError(f"{what} needs chunks: give a rule to cut documents, with chunk.")
    for index in plan.indexes:
        parse_spec(index)
        if "index" not in said:
            allow_index(index, consent, _CONFIG)
    measures = parse_many(both["measures"]) if both.get("measures") else ()
    return BenchRequest(
        both["corpus"],
        both.get("queries"),
        both.get("qrels"),
        both.get("split", "test"),
        both.get("name", ""),
        judged,
        plan,
        tuple(map(str, measures)),
        None if chunk is None else ChunkRule.parse(chunk),
        {key: both[key] for key in _SHARED if key in both},
        both.get("answers"),
    )


def _with_stages(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config whose models of two stages, rerank:A>RERANKER, stand among its rerankers."""
    models, stages = [], []
    for entry in config.get("model", ()):
        if split_stages([entry["spec"]])[1]:
            two = Rerank.parse(entry["spec"])
            depth = {} if two.depth is None else {"depth": two.depth}
            stages.append({**entry, "of": two.first, "spec": two.reranker, **depth})
        else:
            models.append(entry)
    if not stages:
        return {**config}
    for entry in stages:
        check_against(entry, _RERANK, f"{_CONFIG}: model {entry['of']}>{entry['spec']}")
    return {**config, "model": models, "rerank": [*stages, *config.get("rerank", ())]}


def _prices(texts: Iterable[str]) -> dict[str, float]:
    """NAME=AMOUNT by name; a name may hold an equals sign, an amount does not."""
    found = {}
    for text in texts:
        name, _, amount = text.rpartition("=")
        number = parse_number(amount)
        if not name or number is None or number < 0:
            raise UsageError(
                f"A price is written NAME=AMOUNT, of a million tokens; found {text!r:.60}."
            )
        found[name] = number
    return found


def _models(
    config: Mapping[str, Any], said: Mapping[str, Any], consent: Consent
) -> tuple[Model, ...]:
    shared = {key: said[key] for key in _ENCODER if key in said}
    if "model" in said:
        models = as_models(said["model"])
    else:
        models = as_models([_model(one) for one in config.get("model", ())])
    for model in models:
        find_kind(model.spec)
    if shared and models and all(one.is_lexical for one in models):
        raise UsageError(f"All models are lexical, so that {next(iter(shared))!r} does not apply.")
    if "model" not in said:
        models = tuple(_allow(one, shared, consent) for one in models)
    return tuple(
        one if one.is_lexical else replace(one, settings={**one.settings, **shared})
        for one in models
    )


def _allow(model: Model, shared: Mapping[str, Any], consent: Consent) -> Model:
    """The model of a config with the settings that it may have; a typed endpoint replaces its own,
    together with the key that it names.
    """
    gone = ("base_url", "key_env") if "base_url" in shared else ()
    own = {key: value for key, value in model.settings.items() if key not in gone}
    return replace(model, settings=allow_model(model.spec, own, consent, _CONFIG))


def _model(entry: Mapping[str, Any]) -> Model:
    spec = entry["spec"]
    settings = {key: entry[key] for key in _ENCODER if key in entry}
    own = dict(entry.get("settings", {}))
    parsed = Model.parse(spec)
    model = Model(
        entry.get("name", spec),
        parsed.spec,
        {**settings, **own},
        entry.get("metric"),
        entry.get("codes", parsed.codes),
        entry.get("price"),
    )
    odd = settings if model.is_lexical else own
    if odd:
        words = "is lexical" if model.is_lexical else "is not a lexical model"
        raise UsageError(
            f"The model {model.name!r} {words}, so that {next(iter(odd))!r} does not apply."
        )
    return model


def _fusion(entry: Mapping[str, Any]) -> Fusion:
    method = entry.get("method", "rrf")
    return Fusion(
        entry.get("name") or ("tuned " * ("tune" in entry)) + f"{method}({'+'.join(entry['of'])})",
        tuple(entry["of"]),
        method,
        entry.get("normalize", "minmax"),
        tuple(map(float, entry["weights"])) if "weights" in entry else None,
        entry.get("rrf_k", 60),
        Folds(entry["tune"], entry.get("seed", 0)) if "tune" in entry else None,
    )


def _rerank(entry: Mapping[str, Any], consent: Consent) -> Rerank:
    """Two stages of a config, whose reranker needs the consent that a model needs."""
    settings = {key: entry[key] for key in _ENCODER if key in entry}
    name = entry.get("name") or f"{entry['of']}>{entry['spec']}"
    made = Rerank(
        name, entry["of"], entry["spec"], entry.get("depth"), settings, entry.get("price")
    )
    allow_reranker(made.reranker, settings, consent, _CONFIG)
    return made
