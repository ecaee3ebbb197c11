"""Results of queries as bytes: one small text for each query, found by the query."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from assay.core import checks
from assay.errors import StorageError, UsageError
from assay.runs.results import QueryResults, results_from_plain, results_to_plain
from assay.store.codec import Blob, packed_json, unpacked_json

__all__ = ["key_of", "pack_results", "unpack_results"]


def key_of(query: str) -> str:
    """What a query is found by: ids may be longer than an index of a database takes."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()


def pack_results(results: Mapping[str, QueryResults]) -> Iterable[Blob]:
    """One small text for each query, so that a reader takes only the one that it needs."""
    checks.require(results, Mapping, "results", "a dictionary from query id to QueryResults")
    for position, (query, one) in enumerate(results.items()):
        checks.require(query, str, "a query id of results", "a text")
        checks.require(one, QueryResults, f"results[{query!r}]", "a QueryResults")
        yield packed_json(
            "shown", json.dumps([query, results_to_plain(one)]), position, key_of(query)
        )


def unpack_results(blob: Blob) -> tuple[str, QueryResults]:
    """The query and its results."""
    try:
        query, data = json.loads(unpacked_json(blob))
        found = results_from_plain(data)
    except (ValueError, TypeError, UsageError):
        raise StorageError("The results of a query cannot be read: they are damaged.") from None
    if not isinstance(query, str) or key_of(query) != blob.name:
        raise StorageError(
            f"The results of query {query!r} are stored under another: they are damaged."
        )
    return query, found
