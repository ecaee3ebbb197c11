"""From a spec such as `faiss:HNSW32?efSearch=64` to the engine that it names.

A spec is KIND, KIND:ARGUMENT, and options behind a question mark: `?name=value&name=value`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from assay.core import checks
from assay.core.text import did_you_mean
from assay.errors import UsageError
from assay.search.indexes.base import Opener

__all__ = ["KINDS", "IndexSpec", "Options", "parse_spec", "without_secrets"]


class Kind(NamedTuple):
    """The module of this package that knows a kind, how it is written, and the extra it needs."""

    module: str
    form: str
    extra: str | None = None


KINDS: Final = {
    "exact": Kind("exact", "exact"),
    "faiss": Kind("faiss", "faiss:FACTORY", "faiss"),
    "usearch": Kind("usearch", "usearch", "usearch"),
    "lancedb": Kind("lancedb", "lancedb[:TYPE]", "lancedb"),
    "qdrant": Kind("qdrant", "qdrant[:URL|:FOLDER]", "qdrant"),
    "pgvector": Kind("pgvector", "pgvector:URL", "pgvector"),
    "sqlite-vec": Kind("sqlite_vec", "sqlite-vec", "sqlite-vec"),
}
_SPEC: Final = re.compile(r"(?P<kind>[^:?]*)(:(?P<argument>[^?]*))?(\?(?P<options>.*))?", re.DOTALL)
_SECRET: Final = re.compile(r"(?<=://)([^:/?#@]*:).*(?=@)|(password=)[^&]*", re.I | re.DOTALL)


class Options:
    """The options of a spec; each is taken by its name, and what nobody took is refused."""

    def __init__(self, spec: str, values: dict[str, str]) -> None:
        self._spec = spec
        self._left = dict(values)
        self._known: list[str] = []

    def whole(self, name: str, default: int | None = None) -> int | None:
        """A whole number ≥ 1."""
        value = self._taken(name)
        if value is None:
            return default
        if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) < 1:
            raise UsageError(f"{name} must be a whole number ≥ 1, found {value!r}: {self._spec}")
        return int(value)

    def flag(self, name: str) -> bool:
        """True or false; false where it is not given."""
        return self.choice(name, ("false", "true")) == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words; the first where it is not given."""
        value = self._taken(name)
        if value is None:
            return choices[0]
        if value not in choices:
            words = ", ".join(choices)
            raise UsageError(f"{name} must be one of {words}, found {value!r}: {self._spec}")
        return value

    def rest(self) -> dict[str, str]:
        """All that was not taken."""
        left, self._left = self._left, {}
        return left

    def finish(self) -> None:
        """Refuse options that nobody took."""
        for name in self._left:
            hint = did_you_mean(name, self._known)
            known = ", ".join(self._known) or "none"
            raise UsageError(f"Unknown option {name!r} in {self._spec}.{hint} Known: {known}.")

    def _taken(self, name: str) -> str | None:
        self._known.append(name)
        return self._left.pop(name, None)


@dataclass(frozen=True)
class IndexSpec:
    """A checked spec; `shown` hides a password."""

    kind: str
    argument: str
    shown: str
    values: dict[str, str]

    def opener(self) -> Opener:
        """The function that opens an engine of this kind."""
        module = import_module(f"assay.search.indexes.{KINDS[self.kind].module}")
        opener: Opener = module.open_engine
        return opener

    def options(self) -> Options:
        """The options, none of them taken."""
        return Options(self.shown, self.values)


def parse_spec(spec: Any) -> IndexSpec:
    """Take a spec apart; the kind must be known.

    >>> parse_spec("faiss:HNSW32?efSearch=64").values
    {'efSearch': '64'}
    """
    checks.require(spec, str, "An index", "a spec such as 'exact' or 'faiss:HNSW32'")
    shown = without_secrets(spec)
    parts = _SPEC.fullmatch(spec)
    kind = parts["kind"] if parts else ""
    if parts is None or kind not in KINDS:
        raise UsageError(_unknown(shown, kind))
    pairs = parse_qsl(parts["options"] or "", keep_blank_values=True)
    values = dict(pairs)
    if len(values) < len(pairs) or (parts["options"] and not pairs):
        raise UsageError(f"Options are written ?name=value&name=value, each once: {shown}")
    return IndexSpec(kind, parts["argument"] or "", shown, values)


def without_secrets(text: str) -> str:
    """A text in which the password of a URL is hidden.

    >>> without_secrets("pgvector:postgresql://me:secret@host/db")
    'pgvector:postgresql://me:***@host/db'
    """
    return _SECRET.sub(lambda found: f"{found[1] or found[2]}***", text)


def _unknown(shown: str, kind: str) -> str:
    hint = did_you_mean(kind, KINDS, forms={name: one.form for name, one in KINDS.items()})
    forms = ", ".join(one.form for one in KINDS.values())
    return f"Unknown index {shown!r}.{hint} An index is one of: {forms}."
