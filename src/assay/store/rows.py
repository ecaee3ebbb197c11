"""A record as the rows of a store: the row of its run, and its numbers and results, packed."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.core import checks
from assay.errors import StorageError, UsageError
from assay.io.fingerprints import git_commit, versions
from assay.runs.record import RunRecord
from assay.runs.results import (
    Aggregate,
    QueryResults,
    aggregates_of_record,
    results_from_data,
    results_to_data,
)
from assay.scoring.scores import Scores
from assay.store.codec import (
    SAVED,
    Blob,
    json_text,
    now,
    pack_json,
    pack_scores,
    unpack_json,
)
from assay.store.run import COLUMNS


def start_values(record: RunRecord) -> dict[str, Any]:
    """Return the fields of a run that begins now with this record."""
    created = now()
    return {
        **{name: getattr(record, name) for name, column in COLUMNS.items() if column.recorded},
        "uid": uuid.uuid4().hex,
        "batch": record.batch or uuid.uuid4().hex,
        "model": record.model or record.name,
        "status": "running",
        "created": created,
        "updated": created,
        "git_commit": git_commit(),
        "versions": versions(),
        "digest_from": SAVED,
    }


def to_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that hold these fields of a run."""
    return {name: COLUMNS[name].kind.write(value, name) for name, value in values.items()}


def from_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run that these cells hold."""
    return {
        name: row[name] if column.kind.read is None else column.kind.read(row[name])
        for name, column in COLUMNS.items()
    }


@dataclass(frozen=True)
class Payload:
    """Scores and details as arrays, aggregates, results of queries, and columns of the run.

    `columns` are those that say how the numbers were computed: conventions, signature, search.
    `wide` is the row under another program's column names.
    """

    blobs: tuple[Blob, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
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
            columns["timings"] = record.timings
        results = tuple(pack_results(record.results))
        return cls(tuple(blobs), tuple(aggregates_of_record(record)), columns, results, record.wide)


def score_columns(scores: Scores | None) -> dict[str, Any]:
    """Return the fields that say how scores were computed."""
    if scores is None:
        return {}
    return {
        "n_queries": scores.n_queries,
        "conventions": scores.conventions.signature(),
        "signature": scores.signature,
        "search": scores.search,
    }


def key_of(query: str) -> str:
    """Return the key of a query: ids may be too long for an index."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()


def pack_results(results: Mapping[str, QueryResults]) -> Iterable[Blob]:
    """Yield a JSON text for each query, to be read alone."""
    checks.require(results, Mapping, "results", "a dictionary from query id to QueryResults")
    for position, (query, result) in enumerate(results.items()):
        checks.require(query, str, "a query id of results", "a text")
        checks.require(result, QueryResults, f"results[{query!r}]", "a QueryResults")
        yield pack_json(
            "shown", json.dumps([query, results_to_data(result)]), position, key_of(query)
        )


def unpack_results(blob: Blob) -> tuple[str, QueryResults]:
    """Return the query and its results."""
    query, data = _unpack_query(blob)
    try:
        return query, results_from_data(data)
    except (ValueError, TypeError, UsageError):
        raise _unreadable() from None


def unpack_text(blob: Blob) -> tuple[str, str]:
    """Return the query and its text alone, which is quicker."""
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
