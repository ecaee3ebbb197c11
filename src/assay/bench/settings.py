"""Settings of a bench: options, config keys and their schema.

    Setting → option of `assay bench` (bench.command), key of bench.toml (SCHEMA), key of a request

Nothing here needs numpy, so that `assay bench --help` is quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal, get_args

from assay.cli import settings
from assay.cli.settings import SWITCH, TEXT, TEXTS, WHOLE, Setting, at_least, object_schema, one_of
from assay.models.settings import DTYPES

Schema = Mapping[str, Any]
Metric = Literal["cosine", "dot", "l2"]
METRICS: Final = get_args(Metric)
METHODS: Final = ("rrf", "combsum", "combmnz")
NORMALIZATIONS: Final = ("minmax", "zscore")
MEASURES: Final = ("nDCG@10", "R@100", "RR")
SCORE_DIRECTIONS: Final = ("high", "low", "order")
FAILED: Final = ("error", "skip")
PLACES: Final = 10  # documents of each query that are shown and stored


def _input(name: str, help: str, value: Schema = TEXT, default: Any = None, **more: Any) -> Setting:
    """Declare a setting with an option in the section of inputs, unless another is named.

    What follows the name is how the help calls its value.
    """
    name, _, metavar = name.partition(" ")
    display = {"metavar": metavar} if metavar else {}
    return Setting(name, help, value, default, {"section": "Input", **display, **more})


_file = partial(_input, reads=True, metavar="FILE")
_of_models = partial(_input, section="Models")
_number = partial(_of_models, value=WHOLE, metavar="N")


# Keys of [[model]]; those with an option hold for all models that have vectors.
_HUB_AND_SIZE: Final = (
    _number("max_length", "Maximum number of tokens; longer texts are truncated."),
    _of_models("revision REV", "Commit, branch or tag of st: models."),
    _of_models("dtype", "Number type of st: models.", one_of(DTYPES)),
    _of_models("trust_remote_code", "Run code shipped with st: models.", SWITCH, is_flag=True),
    _number("batch_size", "Encoding batch size."),
    _of_models(
        "price NAME=AMOUNT",
        "Price of a million tokens, by model.",
        {"type": "number", "minimum": 0},
        multiple=True,
    ),
)
MODEL: Final = (
    Setting("name", "Its name in results; by default the spec."),
    Setting("spec", "Such as bm25, wordllama, st:MODEL, py:MODULE:FUNCTION."),
    _of_models("query_prefix TEXT", "Prefix of every query.", settings.ANY_TEXT),
    _of_models("doc_prefix TEXT", "Prefix of every document.", settings.ANY_TEXT),
    _of_models(
        "normalize",
        "Scale vectors to length 1.",
        SWITCH,
        flags=("--normalize/--no-normalize",),
    ),
    _number("dimensions", "Number of leading dimensions to keep (Matryoshka)."),
    _of_models(
        "base_url URL", "Endpoint URL of openai: models.", allow="assay.cli.settings:allow_anything"
    ),
    Setting("key_env", "Environment variable with the endpoint's key. [no key]"),
    *_HUB_AND_SIZE,
    Setting("metric", "Similarity of its vectors.", one_of(METRICS)),
    Setting("codes", "Code of its vectors: int8, binary, pq:M, ..."),
    Setting("chunk", "Chunking of its documents, such as sentences:5:1."),
    Setting(
        "settings", "Settings of bm25, tfidf and lsa, such as k1, b, stemmer.", {"type": "object"}
    ),
)
_FUSION: Final = (
    Setting("name", "Its name in results."),
    Setting("of", "Names of the models to fuse.", {**TEXTS, "minItems": 2}),
    Setting("method", "Fusion method.", one_of(METHODS)),
    Setting("normalize", "Score normalisation.", one_of(NORMALIZATIONS)),
    Setting("weights", "Weights of the models.", {"type": "array", "items": settings.POSITIVE}),
    Setting("rrf_k", "Constant of rrf.", at_least(0)),
    Setting("tune", "Number of folds for tuning weights.", at_least(2)),
    Setting("seed", "Seed of the folds.", at_least(0), 0),
)
_RERANK: Final = (
    Setting("name", "Its name in results."),
    Setting("of", "Name of the model or fusion that retrieves."),
    Setting(
        "spec",
        "Reranker: py:MODULE:FUNCTION, st:MODEL, onnx:FOLDER, rerank:URL, maxsim:MODEL.",
    ),
    Setting("depth", "Documents per query to rerank. [100]", WHOLE),
    Setting("count", "Unit of depth.", one_of(["documents", "chunks"]), "documents"),
    *_HUB_AND_SIZE,
)
RERANK_SCHEMA: Final = object_schema(_RERANK, "of", "spec")
# Systems that Assay does not run itself; options hold for all of them.
_of_systems = partial(_input, section="Systems")
_DOC_OF: Final = _of_systems("doc_of REGEX", "Map from returned to judged ids (regex or file).")
SYSTEM: Final = (
    Setting("name", "Its name in results; by default the spec."),
    Setting("spec", "Such as run:FILE, retrieve:MODULE:FUNCTION, http:PRESET:URL."),
    Setting("id", "Path of the id in a hit, such as metadata.source."),
    Setting("scores", "Best scores: high, low, or order to ignore them.", one_of(SCORE_DIRECTIONS)),
    Setting("doc_of", _DOC_OF.help),
    Setting("exact", "Model of the exact search to measure recall against."),
    # Of http: systems.
    Setting("method", "HTTP method. [POST]"),
    Setting("headers", "Further request headers, without keys.", {"type": "object"}),
    Setting("body", "Template of a request; {{query}} and {{k}} are filled.", {"type": "object"}),
    Setting("hits", "Path of the list of hits in an answer."),
    Setting("score", "Path of the score in a hit."),
    Setting("field", "Searched field of a preset."),
    Setting("collection", "Name of the collection, for Typesense and Weaviate."),
    Setting("most", "Maximum number of hits of the engine.", WHOLE),
    Setting("timeout", "Seconds to wait for an answer. [30]", settings.POSITIVE),
    Setting("key_env", "Environment variable with the key. [no key]"),
    Setting("key_header", "Key header and prefix, such as 'api-key: '."),
)

# Keys of the file itself.
BENCH: Final = (
    _input(
        "corpus PATH",
        "Documents: a file, a folder of texts, or ir:ID.",
        reads=True,
        allow="assay.io.texts:allow_corpus",
    ),
    _input(
        "extensions .EXT",
        "Further file extension to read in folders.",
        TEXTS,
        flags=("--extension", "extensions"),
    ),
    _file("queries", "Queries: .jsonl, .json, .csv, .tsv, .parquet."),
    _file("qrels", "Judgments: TREC, .tsv, .csv, .json, .parquet.", flags=("-r", "--qrels")),
    _file("answers", "Answer strings of queries; documents containing one are relevant."),
    _input("split NAME", "Judgments of a folder in BEIR's layout.", default="test"),
    _input("name NAME", "Name of the collection.", offers="assay.store.completion:offer_names"),
    _input(
        "chunk UNIT:SIZE[:OVERLAP]",
        "Cut documents: characters, sentences or tokens; sentences:5:1.",
    ),
    _input("fold max|sum:N", "Document score from chunk scores: max (default) or sum:N."),
    _input(
        "judged",
        "Judged unit: documents, or chunks (DOC#1, DOC#2).",
        one_of(["documents", "chunks"]),
        "documents",
    ),
    _of_models(
        "model [NAME=]SPEC",
        "Model: bm25, wordllama, st:MODEL, openai:MODEL, npy:FILE, py:MODULE:FUNCTION, ...",
        {"type": "array", "items": object_schema(MODEL, "spec")},
        offers="assay.models.specs:offer_models",
        allow="assay.bench.config:allow_models",
    ),
    _of_models(
        "fusion [NAME=]METHOD:A+B",
        "Fusion of models: rrf:bm25+wordllama; ?tune fits weights.",
        {"type": "array", "items": object_schema(_FUSION, "of")},
    ),
    _of_models(
        "rerank [NAME=]A>RERANKER",
        "Rerank the results of A (model or fusion): 'rerank/50:bm25>st:MODEL'.",
        {"type": "array", "items": RERANK_SCHEMA},
        allow="assay.bench.config:allow_reranks",
    ),
    _of_models(
        "index SPEC",
        "Approximate index: faiss:HNSW32, usearch, lancedb, ...",
        TEXTS,
        allow="assay.bench.config:allow_indexes",
    ),
    _of_systems(
        "system [NAME=]SPEC",
        "System: run:FILE, retrieve:MODULE:FUNCTION or http:PRESET:URL.",
        {"type": "array", "items": object_schema(SYSTEM, "spec")},
        reads=True,
        allow="assay.bench.config:allow_systems",
    ),
    _DOC_OF,
    _of_systems("concurrency N", "Number of concurrent queries. [1]", WHOLE),
    _of_systems("timeout SECONDS", "Seconds to wait for an answer.", settings.POSITIVE),
    _of_systems("retries N", "Retries of a failed query. [2]", at_least(0)),
    _of_systems(
        "failed", "Failed queries: error, or skip for all systems.", one_of(FAILED), "error"
    ),
    _input("filter COLUMN", "Filter by shared columns: tenant, or date>=since.", TEXTS),
    _of_models("sweep NAME=V1,V2,...", "Values of an index option, depth or weight to compare."),
    _input("metric", "Similarity of vectors.", one_of(METRICS), "cosine", section="Search"),
    _of_models("device NAME", "Device of the models."),
    _input(
        "measures NAME",
        "Measure; the first one sorts.",
        {**TEXTS, "minItems": 1},
        list(MEASURES),
        flags=("-m", "--measure", "measures"),
        section="Measures and conventions",
        offers="assay.cli.completion:offer_measures",
    ),
    # Options of all commands that score, which make conventions.
    Setting("depth", "Number of documents to retrieve for each query.", WHOLE),
    Setting("conventions", "A preset or a signature.", TEXT, "trec_eval"),
)
SCHEMA: Final[dict[str, Any]] = object_schema(
    BENCH,
    "corpus",
    **{"$schema": "https://json-schema.org/draft/2020-12/schema"},
    title="assay bench",
    description="Paths are relative to the file that names them.",
)
OPTIONS: Final = tuple(setting for setting in (*BENCH, *MODEL) if setting.option is not None)
# Options that override a config file.
REQUEST_KEYS: Final = frozenset(setting.name for setting in OPTIONS)
