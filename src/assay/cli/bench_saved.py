"""Contestants of a bench as runs of a store, with what each of them found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from assay.cli.saved import Result
from assay.tasks.bench_shown import Showing

if TYPE_CHECKING:
    from assay.cluster import Journal
    from assay.tasks.bench_result import BenchResult, Contestant

__all__ = ["as_results"]


def as_results(
    result: BenchResult,
    files: Sequence[str | None],
    *,
    seed: int = 0,
    clusters: str = "",
    journal: Journal | None = None,
) -> list[Result]:
    """One result for each contestant, best documents and missed ones with snippets.

    `clusters` is the group column that was drawn, `journal` what a cluster did for all of them.
    """
    showing = Showing(result.collection)
    tasks = {} if journal is None else {"cluster": journal.to_dict()}
    made = [_as_result(result, one, showing) for one in result.contestants]
    return [
        replace(one, files=files, seeds={"seed": seed}, clusters=clusters,
                config={**one.config, **tasks})
        for one in made
    ]  # fmt: skip


def _as_result(result: BenchResult, one: Contestant, showing: Showing) -> Result:
    return Result(
        one.name,
        one.scores,
        config={
            "spec": one.spec,
            "fingerprint": one.found.fingerprint,
            "collection": result.collection.fingerprint,
            "chunk": None if result.chunk is None else str(result.chunk),
            "costs": one.found.costs.to_dict(),
        },
        chance=result.chance.mean(),
        ceiling=result.ceiling.mean(),
        model=one.spec,
        shown=showing.all(one.ranking),
    )
