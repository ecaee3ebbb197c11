"""From a spec such as `faiss:HNSW32?efSearch=64` to the engine that it names.

A spec is KIND, KIND:ARGUMENT, and options behind a question mark: `?name=value&name=value`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from assay.core import checks, registry
from assay.core.specs import Spec, SpecKind, SpecRegistry
from assay.search.indexes.base import Opener

__all__ = ["INDEXES", "opener_of", "parse_spec", "without_secrets"]


def _engine(form: str, module: str, extra: str | None = None) -> SpecKind:
    return SpecKind(form, f"assay.search.indexes.{module}:open_engine", extra)


INDEXES: Final = SpecRegistry(
    "index",
    {
        "exact": _engine("exact", "exact"),
        "faiss": _engine("faiss:FACTORY", "faiss", "faiss"),
        "usearch": _engine("usearch", "usearch", "usearch"),
        "lancedb": _engine("lancedb[:TYPE]", "lancedb", "lancedb"),
        "qdrant": _engine("qdrant[:URL|:FOLDER]", "qdrant", "qdrant"),
        "pgvector": _engine("pgvector:URL", "pgvector", "pgvector"),
        "sqlite-vec": _engine("sqlite-vec", "sqlite_vec", "sqlite-vec"),
    },
    registry.INDEXES,
)
_SECRET: Final = re.compile(r"(?<=://)([^:/?#@]*:).*(?=@)|(password=)[^&]*", re.I | re.DOTALL)


def parse_spec(spec: Any) -> Spec:
    """Take a spec apart; the kind must be known. Its `text` hides a password.

    >>> parse_spec("faiss:HNSW32?efSearch=64").options
    {'efSearch': '64'}
    """
    checks.require(spec, str, "An index", "a spec such as 'exact' or 'faiss:HNSW32'")
    return INDEXES.parse(spec, without_secrets(spec))


def opener_of(spec: Spec) -> Opener:
    """The function that opens an engine of the kind that a spec names."""
    kind = INDEXES.find(spec.kind)
    if kind is None:
        raise INDEXES.unknown(spec.text)
    opener: Opener = kind.load()
    return opener


def without_secrets(text: str) -> str:
    """A text in which the password of a URL is hidden.

    >>> without_secrets("pgvector:postgresql://me:secret@host/db")
    'pgvector:postgresql://me:***@host/db'
    """
    return _SECRET.sub(lambda found: f"{found[1] or found[2]}***", text)
