"""Scores for readers: what a mean hides, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from assay.arrays import Flags
from assay.core.checks import name_few
from assay.core.ids import Ids
from assay.core.text import Remark, format_share
from assay.measures import Measure
from assay.scoring.scores import Scores

__all__ = ["disclosures", "is_below_chance", "limit_remarks", "tied_remark", "zero_remark"]


def disclosures(scores: Scores, chance: Mapping[str, float] | None = None) -> Iterator[str]:
    """A sentence for each thing that a mean alone would hide; `chance` by measure if known.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 1, "b": 1, "c": 0}}
    >>> list(disclosures(evaluate(run, {"q": {"a": 1}}, "RR")))
    ['100% of queries have a value that depends on ties (ties: order)']
    """
    yield from scores.remarks
    for describe in (_missing, _extra, _empty, tied_remark):
        remark = describe(scores)
        if remark:
            yield remark
    yield from limit_remarks(scores, chance)


def limit_remarks(scores: Scores, chance: Mapping[str, float] | None = None) -> Iterator[str]:
    """A sentence where a cut-off lies beyond the collection, where no order can be wrong, and where
    a random order is better.
    """
    n_docs = int(scores.settings.get("n_docs", 0))
    deep = [str(m) for m in scores.measures if isinstance(m.cutoff, int) and m.cutoff > n_docs > 0]
    if deep:
        words = f"{', '.join(deep)}: k is beyond the {n_docs} there are to find"
        yield Remark(words, f"k beyond the {n_docs} there are")
    sure = [name for name, value in (chance or {}).items() if value > 1 - 1e-12]
    if sure:
        words = f"{', '.join(sure)}: chance is 100 %, any order is right, so this tells nothing"
        yield Remark(words, f"chance of {sure[0]} is 100 %")
    yield from _below_chance(scores, chance or {})
    unknown = [m for m in scores.measures if math.isnan((chance or {}).get(str(m), 0.0))]
    hard = [str(m) for m in unknown if not m.is_order_free and np.isfinite(scores[m]).any()]
    if hard:
        words = f"chance of {', '.join(hard)} is not computed: the exact value would take too long"
        yield Remark(words, "chance not computed")


def _below_chance(scores: Scores, chance: Mapping[str, float]) -> Iterator[str]:
    means = scores.mean() if chance else {}
    low = {
        str(m): chance[str(m)]
        for m in scores.measures
        if is_below_chance(m, means.get(str(m), 1.0), chance.get(str(m), 0.0))
    }
    if low:
        below = [f"{name} ({means[name]:.4f}, chance {value:.4f})" for name, value in low.items()]
        words = f"below chance, worse than a random order: {', '.join(below)}"
        yield Remark(words, f"below chance on {next(iter(low))}")


def is_below_chance(measure: Measure, mean: float, chance: float) -> bool:
    """Whether a random order is better than this mean, by more than rounding."""
    if measure.definition.high != 1.0 or measure.name == "Unjudged":
        return False
    return mean < chance * (1 - 1e-9)


def zero_remark(policy: str, n_queries: int, n_docs: int, what: str = "documents") -> str:
    """What became of vectors of zeros under cosine; empty where there are none."""
    dropped = policy == "drop"
    parts = [
        f"{n_queries} of the queries, to which " + ("nothing is found" if dropped else "all tie")
    ]
    parts += [f"{n_docs} of the {what}, " + ("never found" if dropped else "always last")]
    some = [part for part, n in zip(parts, (n_queries, n_docs), strict=True) if n]
    return f"vectors of zeros (zero: {policy}): {'; '.join(some)}" if some else ""


def _missing(scores: Scores) -> str:
    ids = _select(scores.query_ids, scores.missing)
    if not len(ids):
        return ""
    fate = "left out" if scores.conventions.missing == "skip" else "counted as 0"
    number = _queries(len(ids))
    words = f"{number} judged but not in the run, {fate}: {name_few(ids)}"
    return Remark(words, f"{number} not in the run, {fate}")


def _extra(scores: Scores) -> str:
    if not len(scores.extra):
        return ""
    number = _queries(len(scores.extra))
    words = f"{number} in the run but not judged, left out: {name_few(scores.extra)}"
    return Remark(words, f"{number} not judged, left out")


def _empty(scores: Scores) -> str:
    counts = scores.mean().counts
    number = max((c.empty for c in counts.values()), default=0)
    if not number:
        return ""
    fate = "counted as 0" if scores.conventions.empty == "zero" else "left out"
    return f"{_queries(number)} without a relevant document, {fate}"


def tied_remark(scores: Scores, what: str = "queries") -> str:
    """How many of the queries depend on the order of documents with equal scores, if any."""
    number, total = int(scores.tied.any(axis=0).sum()), len(scores.query_ids)
    if not number:
        return ""
    share = format_share(number, total, what)
    verb = "has" if share.startswith("1 of") else "have"
    words = f"{share} {verb} a value that depends on ties (ties: {scores.conventions.ties})"
    return Remark(words, "values depend on ties")


def _queries(number: int) -> str:
    return "1 query" if number == 1 else f"{number} queries"


def _select(ids: Ids, marked: Flags) -> Ids:
    return ids.take(marked.nonzero()[0])
