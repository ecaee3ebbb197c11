"""All numbers of a run, ready to be stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assay import checks
from assay.scores import Scores
from assay.store.aggregates import Aggregate, aggregates_of
from assay.store.blobs import Blob, packed_json
from assay.store.packing import pack_scores
from assay.store.plain import as_text
from assay.store.shown import ShownQuery, pack_shown

__all__ = ["Numbers"]


@dataclass(frozen=True)
class Numbers:
    """Scores as arrays, aggregates, the columns of the run that say how they were computed, and
    what is shown of each query."""

    blobs: tuple[Blob, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    columns: Mapping[str, Any] | None = None
    shown: tuple[Blob, ...] = ()

    @classmethod
    def of(
        cls,
        scores: Scores | None,
        *,
        aggregates: Iterable[Aggregate] = (),
        chance: Mapping[str, float] | None = None,
        ceiling: Mapping[str, float] | None = None,
        details: Mapping[str, Any] | None = None,
        shown: Mapping[str, ShownQuery] | None = None,
        timings: Mapping[str, float] | None = None,
        clusters: str = "",
        drawing: Mapping[str, Any] | None = None,
    ) -> Numbers:
        """Means, counts and intervals of the scores, and what is given beside them.

        `clusters` and `drawing` say how the intervals are drawn; see `aggregates_of`.
        """
        found = list(aggregates)
        for one in found:
            checks.require(one, Aggregate, "every aggregate", "an Aggregate")
        blobs: list[Blob] = []
        if scores is not None:
            checks.require(scores, Scores, "scores", "a Scores")
            blobs += pack_scores(scores)
            own = aggregates_of(
                scores, chance=chance, ceiling=ceiling, clusters=clusters, drawing=drawing
            )
            found = [*own, *found]
        if details:
            blobs.append(packed_json("details", as_text(details, "details")))
        columns = _columns(scores)
        if timings:
            columns["timings"] = as_text(timings, "timings")
        return cls(tuple(blobs), tuple(found), columns, tuple(pack_shown(shown or {})))


def _columns(scores: Scores | None) -> dict[str, Any]:
    if scores is None:
        return {}
    return {
        "n_queries": scores.n_queries,
        "conventions": scores.conventions.signature(),
        "signature": scores.signature,
        "search": scores.search,
    }
