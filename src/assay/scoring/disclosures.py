"""What a reader of scores should know: queries missing, not judged, empty, or decided by ties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from assay.core.checks import named_few

if TYPE_CHECKING:
    from assay.core.ids import Ids
    from assay.scoring.scores import Scores

__all__ = ["disclosures"]


def disclosures(scores: Scores) -> Iterator[str]:
    """A sentence for each thing that a mean alone would hide.

    >>> from assay import evaluate
    >>> list(disclosures(evaluate({"q": {"a": 1, "b": 1}}, {"q": {"a": 1}}, "RR")))
    ['100% of queries have a value that depends on ties (ties: order)']
    """
    for find in (_missing, _extra, _empty, _tied):
        remark = find(scores)
        if remark:
            yield remark


def _missing(scores: Scores) -> str:
    ids = _chosen(scores.query_ids, scores.missing)
    if not len(ids):
        return ""
    fate = "left out" if scores.conventions.missing == "skip" else "counted as 0"
    return f"{_queries(len(ids))} judged but not in the run, {fate}: {named_few(ids)}"


def _extra(scores: Scores) -> str:
    if not len(scores.extra):
        return ""
    number = _queries(len(scores.extra))
    return f"{number} in the run but not judged, left out: {named_few(scores.extra)}"


def _empty(scores: Scores) -> str:
    counts = scores.mean().counts
    number = max((c.empty for c in counts.values()), default=0)
    if not number:
        return ""
    fate = "counted as 0" if scores.conventions.empty == "zero" else "left out"
    return f"{_queries(number)} without a relevant document, {fate}"


def _tied(scores: Scores) -> str:
    """How much of the result hangs on the order of documents with equal scores."""
    dependent = scores.tied.any(axis=0)
    if not dependent.any():
        return ""
    return (
        f"{dependent.mean():.0%} of queries have a value that depends on ties "
        f"(ties: {scores.conventions.ties})"
    )


def _queries(number: int) -> str:
    return "1 query" if number == 1 else f"{number} queries"


def _chosen(ids: Ids, which: Any) -> Ids:
    return ids.take(which.nonzero()[0])
