"""Finished systems of a bench that is not finished: stored in a folder until it is.

A part is one system's ranking, found by a digest of all that could change it. The folder is deleted
when the bench is complete: embeddings stay in their cache, rankings do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from assay.core.ranking import Ranking
from assay.io.checkpoint import Checkpoint, Part
from assay.tasks.bench.collection import PreparedCollection
from assay.tasks.bench.search import Costs, SearchResult

__all__ = ["BenchCheckpoint"]

_LAYOUT: Final = "bench-2"


class BenchCheckpoint:
    """The finished systems of one bench; without a folder nothing is stored."""

    def __init__(self, folder: Path | None, identity: str, data: PreparedCollection) -> None:
        job = _digest(identity)
        place = None if folder is None else folder / _LAYOUT / job
        self._parts = Checkpoint(place, job, optional=True)
        self._data = data

    def without_folder(self) -> BenchCheckpoint:
        """A checkpoint that stores nothing, for what could not be recognised again."""
        return BenchCheckpoint(None, "", self._data)

    def load_or_compute(
        self,
        key: str,
        compute: Callable[[], SearchResult | None],
        data: PreparedCollection | None = None,
    ) -> SearchResult | None:
        """The part of this key if it is there and sound; else it is computed and stored.

        `data` is what was searched, where that is not the whole collection.
        """
        name = f"{_digest(key)}.part"
        part = self._parts.load(name)
        if part is not None:
            return _from_part(part, data or self._data)
        result = compute()
        if result is not None and result.index is None:  # a report on an index is made anew
            self._parts.save(name, _arrays_of(result.ranking), _notes_of(result))
        return result

    def clear(self) -> None:
        """Delete all parts: the bench is complete."""
        self._parts.clear()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _arrays_of(ranking: Ranking) -> dict[str, Any]:
    arrays = {"offsets": ranking.offsets, "docs": ranking.docs, "scores": ranking.scores}
    if ranking.tie_split is not None:
        arrays["tie_split"] = ranking.tie_split
    return arrays


def _notes_of(result: SearchResult) -> dict[str, Any]:
    return {
        "costs": asdict(result.costs),
        "fingerprint": result.fingerprint,
        "counts": [result.n_texts, result.n_cut, result.n_without],
        "ranking": [result.ranking.tiebreak, result.ranking.search, dict(result.ranking.settings)],
    }


def _from_part(part: Part, data: PreparedCollection) -> SearchResult:
    notes, arrays = part.notes, part.arrays
    tiebreak, search, settings = notes["ranking"]
    ranking = Ranking(
        data.query_ids,
        data.doc_ids,
        arrays["offsets"],
        arrays["docs"],
        arrays["scores"],
        n_docs=len(data.doc_ids),
        tiebreak=tiebreak,
        search=search,
        settings=settings,
    )
    if "tie_split" in arrays:
        ranking = replace(ranking, tie_split=arrays["tie_split"])
    return SearchResult(ranking, Costs(**notes["costs"]), notes["fingerprint"], *notes["counts"])
