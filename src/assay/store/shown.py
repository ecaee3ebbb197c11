"""What a reader of a run wants to see of one query: its text, what was found and what was not."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay import checks
from assay.errors import StorageError, UsageError
from assay.store.blobs import Blob, packed_json, unpacked_json

__all__ = ["ShownDoc", "ShownQuery", "from_plain", "key_of", "pack_shown", "to_plain",
           "unpack_shown"]  # fmt: skip


@dataclass(frozen=True)
class ShownDoc:
    """A document of one query; `score` is None if it was not retrieved, `grade` if not judged."""

    doc: str
    score: float | None
    grade: float | None
    snippet: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be stored."""
        for name in ("doc", "snippet"):
            checks.require(getattr(self, name), str, f"{name} of a shown document", "a text")
        for name in ("score", "grade"):
            object.__setattr__(self, name, _number(getattr(self, name), name))


@dataclass(frozen=True)
class ShownQuery:
    """The text of a query, what was retrieved in rank order, and relevant documents it missed."""

    text: str
    results: tuple[ShownDoc, ...]
    missed: tuple[ShownDoc, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be stored."""
        checks.require(self.text, str, "text of a shown query", "a text")
        for name in ("results", "missed"):
            found = tuple(getattr(self, name))
            for one in found:
                checks.require(one, ShownDoc, f"every one of {name}", "a ShownDoc")
            object.__setattr__(self, name, found)


def _number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise UsageError(f"{name} of a shown document is a number or None, found {value!r}.")
    if not math.isfinite(value):
        raise UsageError(f"{name} of a shown document is {value}; it has to be finite, or None.")
    return float(value)


def key_of(query: str) -> str:
    """What a query is found by: ids may be longer than an index of a database takes."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()


def pack_shown(shown: Mapping[str, ShownQuery]) -> Iterable[Blob]:
    """One small text for each query, so that a reader takes only the one that it needs."""
    checks.require(shown, Mapping, "shown", "a dictionary from query id to ShownQuery")
    for position, (query, one) in enumerate(shown.items()):
        checks.require(query, str, "a query id of shown", "a text")
        checks.require(one, ShownQuery, f"shown[{query!r}]", "a ShownQuery")
        yield packed_json("shown", json.dumps([query, to_plain(one)]), position, key_of(query))


def unpack_shown(blob: Blob) -> tuple[str, ShownQuery]:
    """The query and what is shown of it."""
    try:
        query, data = json.loads(unpacked_json(blob))
        found = from_plain(data)
    except (ValueError, TypeError, UsageError):
        raise StorageError("What is shown of a query cannot be read: it is damaged.") from None
    if not isinstance(query, str) or key_of(query) != blob.name:
        raise StorageError(f"What is shown of query {query!r} lies under another: it is damaged.")
    return query, found


def to_plain(shown: ShownQuery) -> dict[str, Any]:
    """The same as plain data."""
    return {"text": shown.text, "results": list(map(_row, shown.results)),
            "missed": list(map(_row, shown.missed))}  # fmt: skip


def _row(one: ShownDoc) -> list[Any]:
    return [one.doc, one.score, one.grade, one.snippet]


def from_plain(data: Any) -> ShownQuery:
    """The same from plain data, checked."""
    if not isinstance(data, dict) or not {"text", "results", "missed"} <= data.keys():
        raise UsageError(f"A shown query has text, results and missed, found {data!r:.60}.")
    return ShownQuery(data["text"], _docs(data["results"]), _docs(data["missed"]))


def _docs(rows: Any) -> tuple[ShownDoc, ...]:
    if not isinstance(rows, list) or not all(isinstance(r, list) and len(r) == 4 for r in rows):
        raise UsageError("A shown document is a list of id, score, grade and snippet.")
    return tuple(ShownDoc(*row) for row in rows)
