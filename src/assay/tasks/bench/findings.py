"""What is suspicious in what the contestants found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.core.judgments import Qrels
from assay.inspect.check import CheckReport, Finding
from assay.scoring.evaluate import score
from assay.tasks.bench.text_findings import about_texts

if TYPE_CHECKING:
    from assay.tasks.bench.result import BenchResult, System

__all__ = ["about_results", "diagnose", "disagreements", "failures"]

_EXAMPLES = 5
_WIDE = 0.5
_CUT = 0.1
_UNEQUAL = 0.1
_LOSS = 0.05
_PLACES = 10


def about_results(result: BenchResult) -> Iterator[Finding]:
    """Findings about failures, disagreement, texts cut off, unjudged documents and indexes."""
    for one in result.systems:
        yield from _about_cut(one)
        yield from _about_vectors(one)
        yield from _about_index(one)
    yield from _about_failures(result)
    yield from _about_disagreement(result)
    yield from _about_unjudged(result)


def _values(result: BenchResult) -> NDArray[np.float64]:
    """The first measure: contestants × queries."""
    return np.array([one.scores.values[0] for one in result.systems])


def failures(result: BenchResult) -> list[str]:
    """Queries on which the first measure is 0 for every contestant."""
    nothing = (_values(result) == 0).all(axis=0)
    ids = result.systems[0].scores.query_ids
    return [str(ids[int(row)]) for row in np.flatnonzero(nothing)]


def disagreements(result: BenchResult) -> list[tuple[str, float]]:
    """Queries by how far apart the contestants are on the first measure, widest first."""
    values = _values(result)
    spread = np.nan_to_num(values.max(axis=0) - values.min(axis=0))
    ids = result.systems[0].scores.query_ids
    order = np.argsort(-spread, kind="stable")
    return [(str(ids[int(row)]), float(spread[row])) for row in order if spread[row] > 0]


def _about_failures(result: BenchResult) -> Iterator[Finding]:
    failed = failures(result)
    if failed:
        everyone = "all contestants fail" if len(result.systems) > 1 else "nothing is found"
        yield Finding(
            "note",
            "all-fail",
            f"on {_queries(len(failed))} {everyone}",
            "Look at one with 'assay explain --query ID': is the judgment right, is the text "
            "readable?",
            len(failed),
            result.chance.n_queries,
            tuple(failed[:_EXAMPLES]),
        )


def _queries(number: int) -> str:
    return "1 query" if number == 1 else f"{number:,} queries"


def _about_disagreement(result: BenchResult) -> Iterator[Finding]:
    wide = [query for query, spread in disagreements(result) if spread >= _WIDE]
    if wide and len(result.systems) > 1:
        measure = result.systems[0].scores.measures[0]
        yield Finding(
            "note",
            "disagreement",
            f"on {_queries(len(wide))} contestants are {_WIDE} or more apart on {measure}",
            "They find different things; a fusion may gain from that.",
            len(wide),
            result.chance.n_queries,
            tuple(wide[:_EXAMPLES]),
        )


def _about_cut(one: System) -> Iterator[Finding]:
    cut, total = one.result.n_cut, one.result.n_texts
    if cut and "@" not in one.spec:
        yield Finding(
            "warning" if cut >= _CUT * total else "note",
            "cut-off",
            f"{one.name} reads {cut:,} of {total:,} texts ({cut / total:.1%}) not to their end",
            "What comes after its maximum length cannot be found; chunks would help.",
            cut,
            total,
        )


def _about_vectors(one: System) -> Iterator[Finding]:
    number = one.result.n_without
    if number:
        yield Finding(
            "warning",
            "zero-vectors",
            f"{one.name} gives {number:,} texts no vector, or one of zeros",
            "They cannot be found.",
            number,
            one.result.n_texts,
        )


def _about_index(one: System) -> Iterator[Finding]:
    report = one.result.index
    if report is not None and report.recall < 1 - _LOSS:
        yield Finding(
            "warning",
            "index-loss",
            f"{one.name} finds {report.recall:.1%} of what exact search finds",
            "What it loses against its model is the loss of the index, not of the model.",
            1,
            1,
        )


def _about_unjudged(result: BenchResult) -> Iterator[Finding]:
    """How much of what is read first nobody has judged."""
    qrels = result.collection.qrels
    if isinstance(qrels, Qrels) and qrels.exhaustive:
        return
    shares = {}
    for one in result.systems:
        values = score(one.hits, f"Judged@{_PLACES}").values[0]
        known = values[np.isfinite(values)]  # a query that found nothing has no such share
        if len(known):
            shares[one.name] = 1 - float(known.mean())
    if not shares:
        return
    low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    if shares[high] <= 0:
        return
    unequal = shares[high] - shares[low] >= _UNEQUAL
    span = (
        f"{shares[low]:.0%} ({low}) to {shares[high]:.0%} ({high})"
        if low != high
        else f"{shares[high]:.0%}"
    )
    effect = "They count as not relevant."
    if unequal:
        effect += f" That may be hard on {high}: others than those that were judged may be right."
    yield Finding(
        "warning" if unequal else "note",
        "unjudged",
        f"of the first {_PLACES} documents {span} are not judged",
        effect,
        0,
        0,
    )


def diagnose(result: BenchResult) -> CheckReport:
    """All findings, the gravest first."""
    grave = ["error", "warning", "note"]
    found: Iterator[Finding] = iter((*about_texts(result), *about_results(result)))
    return CheckReport(tuple(sorted(found, key=lambda one: grave.index(one.severity))))
