"""From a spec such as `faiss:HNSW32?efSearch=64` to the engine that it names.

A spec is KIND, KIND:ARGUMENT, and options behind a question mark: `?name=value&name=value`.
"""

from __future__ import annotations

import os
from typing import Any, Final

from assay import plugins
from assay.core import checks
from assay.core.specs import Consent, Spec, SpecKind, SpecRegistry
from assay.core.text import mask_secrets
from assay.errors import UsageError
from assay.search.indexes.base import Opener


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
    plugins.INDEXES,
)


def parse_spec(spec: Any) -> Spec:
    """Take a spec apart; the kind must be known. Its `text` hides a password.

    >>> parse_spec("faiss:HNSW32?efSearch=64").options
    {'efSearch': '64'}
    """
    checks.require(spec, str, "An index", "a spec such as 'exact' or 'faiss:HNSW32'")
    return INDEXES.parse(spec, mask_secrets(spec))


def opener_of(spec: Spec) -> Opener:
    """The function that opens an engine of the kind that a spec names."""
    kind = INDEXES.find(spec.kind)
    if kind is None:
        raise INDEXES.unknown(spec.text)
    opener: Opener = kind.load()
    return opener


def allow_index(spec: str, consent: Consent, place: str) -> None:
    """Refuse an index that a file names, without the consent that it needs.

    A server gets vectors, and by its own client what QDRANT_API_KEY or PGPASSWORD holds. A folder
    is for the command line: a file says nowhere what is written.
    """
    parsed, what = parse_spec(spec), f"the index {mask_secrets(str(spec))!r}"
    kind = INDEXES.find(parsed.kind)
    if kind is None or kind.plugin is not None:
        consent.check_code(what, place)
    elif parsed.kind == "qdrant" and parsed.argument.startswith(("http://", "https://")):
        consent.check_endpoint(parsed.argument, f"{place}: {what}", _set("QDRANT_API_KEY"))
    elif parsed.kind == "qdrant" and parsed.argument:
        raise UsageError(f"{place} names {what}, a folder to write to. Name it with --index.")
    elif parsed.kind == "pgvector":
        _refuse_other_hosts(parsed, f"{place}: {what}")
        consent.check_endpoint(parsed.argument, f"{place}: {what}", _set("PGPASSWORD"))


def _set(variable: str) -> str:
    """The variable, if there is something in it that would be sent."""
    return variable if os.environ.get(variable) else ""


_HARMLESS: Final = frozenset(
    ["index", "m", "ef_construction", "ef_search", "lists", "probes", "sslmode", "connect_timeout"]
)


def _refuse_other_hosts(spec: Spec, place: str) -> None:
    """PostgreSQL takes a host, a file of passwords and more from the options of an address."""
    odd = next((name for name in spec.options if name not in _HARMLESS), None)
    if odd is not None:
        raise UsageError(f"{place}: only you can give the option {odd!r}, with --index.")
    if not spec.argument.startswith(("postgresql://", "postgres://")):
        raise UsageError(f"{place}: a database in a file is named as postgresql://host/name.")
