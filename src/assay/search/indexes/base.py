"""Describe engines: a spec such as `faiss:HNSW32?efSearch=64` names a function that opens one.

A spec is KIND, KIND:ARGUMENT, and options behind a question mark: `?name=value&name=value`. An
adapter is one function that opens an engine, which takes vectors and finds documents.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from numpy.typing import NDArray

from assay import plugins
from assay.arrays import Floats32
from assay.core import checks
from assay.core.specs import Consent, Spec, SpecKind, SpecRegistry
from assay.core.text import did_you_mean, mask_secrets
from assay.errors import UsageError

Metric = Literal["cosine", "dot", "l2"]

# "certified": the answers are the exact ones; "exact": they are, but for the rounding of float32
# and the order of ties, which the index sees to; "approximate": documents may be lost.
Exactness = Literal["certified", "exact", "approximate"]


# Options of an address of PostgreSQL that name no other host and no file.
_HARMLESS: Final = frozenset(
    ["index", "m", "ef_construction", "ef_search", "lists", "probes", "sslmode", "connect_timeout"]
)


class EngineBytes(NamedTuple):
    """Give the size of an engine in bytes; None where it is unknown."""

    memory: int | None = None
    disk: int | None = None


class Options:
    """Read the options of a spec by name; refuse those that were not read."""

    def __init__(self, spec: str, values: dict[str, str]) -> None:
        self._spec = spec
        self._left = dict(values)
        self._known: list[str] = []

    def whole(self, name: str, default: int | None = None) -> int | None:
        """Read a whole number ≥ 1."""
        value = self._take(name)
        if value is None:
            return default
        if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) < 1:
            raise UsageError(f"{name} must be a whole number ≥ 1; found {value!r}: {self._spec}")
        return int(value)

    def flag(self, name: str) -> bool:
        """Read true or false; false by default."""
        return self.choice(name, ("false", "true")) == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Read one of some words; the first by default."""
        value = self._take(name)
        if value is None:
            return choices[0]
        if value not in choices:
            words = ", ".join(choices)
            raise UsageError(f"{name} must be one of {words}, found {value!r}: {self._spec}")
        return value

    def rest(self) -> dict[str, str]:
        """Return all that were not read yet."""
        left, self._left = self._left, {}
        return left

    def finish(self) -> None:
        """Refuse options that were not read."""
        for name in self._left:
            hint = did_you_mean(name, self._known)
            names = ", ".join(self._known) or "none"
            raise UsageError(f"Unknown option {name!r} in {self._spec}.{hint} Known: {names}.")

    def _take(self, name: str) -> str | None:
        self._known.append(name)
        return self._left.pop(name, None)


@dataclass(frozen=True)
class Setup:
    """Hold what an engine is opened with; vectors are float32, of length 1 under cosine."""

    argument: str
    options: Options
    dimension: int
    metric: Metric
    threads: int | None
    spec: str  # for messages


class Engine(Protocol):
    """Describe a search engine that holds the vectors 0, 1, …

    It may have two more methods. `find_among(queries, k, numbers)` finds only some of the vectors,
    by the engine's own filter; it returns None where this engine cannot. `tune(options)` reads and
    sets the options named in `tunable`, also when vectors are there already.
    """

    version: str
    exactness: Exactness

    def add(self, vectors: Floats32) -> None:
        """Take in all vectors and make the engine ready to search; called once."""

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        """Find the numbers of the k best vectors of each query, in any order; -1 for none."""

    def size(self) -> EngineBytes:
        """Return the size of the engine."""

    def close(self) -> None:
        """Release everything; may be called at any time, and twice."""


Opener = Callable[[Setup], Engine]
FEWEST_POINTS: Final = 39  # per centroid, below which faiss warns


def describe_lesson(n_vectors: int, n_centroids: int = 0) -> str:
    """Say what an engine learnt from: the `learnt` that it may have beside `size`.

    >>> describe_lesson(1000, 100)
    'trained on the 1,000 documents it holds, 10.0 per centroid (faiss asks for 39)'
    """
    points = n_vectors / max(n_centroids, 1)
    few = f" (faiss asks for {FEWEST_POINTS})" if points < FEWEST_POINTS else ""
    centroids = f", {points:.1f} per centroid{few}" if n_centroids else ""
    return f"trained on the {n_vectors:,} documents it holds{centroids}"


def folder_bytes(folder: str) -> int:
    """Return the size of all files in a folder."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def _engine(form: str, module: str, extra: str | None = None) -> SpecKind:
    return SpecKind(form, f"assay.search.indexes.{module}:open_engine", extra)


INDEXES: Final = SpecRegistry(
    "index",
    {
        "exact": SpecKind("exact", "assay.search.indexes.index:open_exact"),
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
    """Return the function that opens an engine of the kind that a spec names."""
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
        consent.check_endpoint(parsed.argument, f"{place}: {what}", _name_set("QDRANT_API_KEY"))
    elif parsed.kind == "qdrant" and parsed.argument:
        raise UsageError(f"{place} names {what}, a folder to write to. Name it with --index.")
    elif parsed.kind == "pgvector":
        _refuse_other_hosts(parsed, f"{place}: {what}")
        consent.check_endpoint(parsed.argument, f"{place}: {what}", _name_set("PGPASSWORD"))


def _name_set(variable: str) -> str:
    """Name the variable, if there is something in it that would be sent."""
    return variable if os.environ.get(variable) else ""


def _refuse_other_hosts(spec: Spec, place: str) -> None:
    """Refuse options: PostgreSQL takes a host, a file of passwords and more from them."""
    odd = next((name for name in spec.options if name not in _HARMLESS), None)
    if odd is not None:
        raise UsageError(f"{place}: only you can give the option {odd!r}, with --index.")
    if not spec.argument.startswith(("postgresql://", "postgres://")):
        raise UsageError(f"{place}: a database in a file is named as postgresql://host/name.")
