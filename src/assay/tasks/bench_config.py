"""bench.toml: what a bench needs, in a file; its schema says and checks what may stand there."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Final

from assay.errors import FormatError, UsageError
from assay.io.schema import check_against
from assay.io.text_lines import read_text

__all__ = ["SCHEMA", "read_config"]

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
            _TEXT, "Documents: .jsonl, .json, .csv, .tsv, a folder of .txt and .md files, or a "
            "folder in BEIR's layout.",
        ),
        "queries": _told(_TEXT, "Queries: .jsonl, .json, .csv or .tsv."),
        "qrels": _told(_TEXT, "Judgments: TREC, .tsv, .csv, .json, .parquet."),
        "split": _told(_TEXT, "Which judgments of a folder in BEIR's layout.", default="test"),
        "judged": {
            "type": "string", "enum": ["documents", "chunks"], "default": "documents",
            "description": "What the judgments name: documents, or chunks as DOC#1, DOC#2, …",
        },
        "measures": _told(
            {"type": "array", "items": _TEXT, "minItems": 1}, "The first decides the order.",
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
}  # fmt: skip
_PATHS: Final = ("corpus", "queries", "qrels")


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and check a bench.toml; paths in it become absolute."""
    name = os.fspath(path)
    if Path(path).suffix.lower() != ".toml":
        raise UsageError(f"{name}: a bench is described in a .toml file. 'assay schema bench' "
                         "prints what may stand there.")  # fmt: skip
    try:
        data = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{name}: not TOML: {error}.") from None
    except RecursionError:
        raise FormatError(f"{name}: the TOML is nested too deeply to be a config.") from None
    check_against(data, SCHEMA, name)
    home = Path(path).resolve().parent
    return {key: str(home / value) if key in _PATHS else value for key, value in data.items()}
