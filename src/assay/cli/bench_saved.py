"""Contestants of a bench as runs of a store, with what each of them found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.cli.saved import Result
from assay.tasks.bench_shown import Showing

if TYPE_CHECKING:
    from assay.tasks.bench_result import BenchResult, Contestant

__all__ = ["as_results"]


def as_results(result: BenchResult, files: Sequence[str | None], *, seed: int = 0) -> list[Result]:
    """One result for each contestant, best documents and missed ones with snippets."""
    showing = Showing(result.collection)
    return [_as_result(result, one, showing, files, seed) for one in result.contestants]


def _as_result(
    result: BenchResult,
    one: Contestant,
    showing: Showing,
    files: Sequence[str | None],
    seed: int,
) -> Result:
    return Result(
        one.name,
        one.scores,
        files,
        config={
            "spec": one.spec,
            "fingerprint": one.found.fingerprint,
            "collection": result.collection.fingerprint,
            "chunk": None if result.chunk is None else str(result.chunk),
            "costs": one.found.costs.to_dict(),
        },
        seeds={"seed": seed},
        chance=result.chance.mean(),
        ceiling=result.ceiling.mean(),
        model=one.spec,
        shown=showing.all(one.ranking),
    )
