"""Payload: all numbers of a record, packed as a store writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.runs.aggregates import Aggregate, aggregates_of
from assay.runs.record import RunRecord
from assay.scoring.scores import Scores
from assay.store.codec import Blob, as_text, pack_scores, packed_json
from assay.store.results import pack_results

__all__ = ["Payload"]


@dataclass(frozen=True)
class Payload:
    """Scores as arrays, aggregates, the columns of the run that say how they were computed, and
    the results of queries."""

    blobs: tuple[Blob, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    columns: Mapping[str, Any] | None = None
    results: tuple[Blob, ...] = ()

    @classmethod
    def of(cls, record: RunRecord) -> Payload:
        """Means, counts and intervals of the scores, and what the record has beside them."""
        blobs: list[Blob] = []
        aggregates = list(record.aggregates)
        if record.scores is not None:
            blobs += pack_scores(record.scores)
            aggregates = [*_aggregates(record, record.scores), *aggregates]
        if record.details:
            blobs.append(packed_json("details", as_text(record.details, "details")))
        columns = _columns(record.scores)
        if record.timings:
            columns["timings"] = as_text(record.timings, "timings")
        return cls(tuple(blobs), tuple(aggregates), columns, tuple(pack_results(record.results)))


def _aggregates(record: RunRecord, scores: Scores) -> list[Aggregate]:
    return aggregates_of(
        scores,
        chance=record.chance_means(),
        ceiling=record.ceiling_means(),
        clusters=record.clusters,
        resampling=record.resampling,
    )


def _columns(scores: Scores | None) -> dict[str, Any]:
    if scores is None:
        return {}
    return {
        "n_queries": scores.n_queries,
        "conventions": scores.conventions.signature(),
        "signature": scores.signature,
        "search": scores.search,
    }
