"""Payload: the numbers of a record and the results of its queries, packed for a store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.core import checks
from assay.errors import StorageError, UsageError
from assay.runs.aggregates import aggregates_of_record
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate, QueryResults, results_from_data, results_to_data
from assay.scoring.scores import Scores
from assay.store.codec import Blob, json_text, pack_json, pack_scores, unpack_json

__all__ = ["Payload", "key_of", "pack_results", "score_columns", "unpack_results", "unpack_text"]


@dataclass(frozen=True)
class Payload:
    """Scores and details as arrays, aggregates, results of queries, and columns of the run.

    `columns` are those that say how the numbers were computed: conventions, signature, search.
    `wide` is the row under another program's column names.
    """

    blobs: tuple[Blob, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    columns: Mapping[str, Any] | None = None
    results: tuple[Blob, ...] = ()
    wide: Mapping[str, float | str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, record: RunRecord) -> Payload:
        """Compute means, counts and intervals of the scores, and pack all of the record."""
        blobs: list[Blob] = []
        if record.scores is not None:
            blobs += pack_scores(record.scores)
        if record.details:
            blobs.append(pack_json("details", json_text(record.details, "details")))
        columns = score_columns(record.scores)
        if record.timings:
            columns["timings"] = json_text(record.timings, "timings")
        results = tuple(pack_results(record.results))
        return cls(tuple(blobs), tuple(aggregates_of_record(record)), columns, results, record.wide)


def score_columns(scores: Scores | None) -> dict[str, Any]:
    """The columns that say how scores were computed."""
    if scores is None:
        return {}
    return {
        "n_queries": scores.n_queries,
        "conventions": scores.conventions.signature(),
        "signature": scores.signature,
        "search": scores.search,
    }


def key_of(query: str) -> str:
    """The key of a query: ids may be longer than an index of a database allows."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()


def pack_results(results: Mapping[str, QueryResults]) -> Iterable[Blob]:
    """One small JSON text for each query, so that one can be read without the others."""
    checks.require(results, Mapping, "results", "a dictionary from query id to QueryResults")
    for position, (query, one) in enumerate(results.items()):
        checks.require(query, str, "a query id of results", "a text")
        checks.require(one, QueryResults, f"results[{query!r}]", "a QueryResults")
        yield pack_json("shown", json.dumps([query, results_to_data(one)]), position, key_of(query))


def unpack_results(blob: Blob) -> tuple[str, QueryResults]:
    """The query and its results."""
    query, data = _unpack_query(blob)
    try:
        return query, results_from_data(data)
    except (ValueError, TypeError, UsageError):
        raise _unreadable() from None


def unpack_text(blob: Blob) -> tuple[str, str]:
    """The query and its text alone, which is quicker."""
    query, data = _unpack_query(blob)
    text = data.get("text") if isinstance(data, dict) else None
    return query, text if isinstance(text, str) else ""


def _unpack_query(blob: Blob) -> tuple[str, Any]:
    try:
        query, data = json.loads(unpack_json(blob))
    except (ValueError, TypeError):
        raise _unreadable() from None
    if not isinstance(query, str) or key_of(query) != blob.name:
        raise StorageError(
            f"The results of query {query!r} are stored under another: they are damaged."
        )
    return query, data


def _unreadable() -> StorageError:
    return StorageError("The results of a query cannot be read: they are damaged.")
