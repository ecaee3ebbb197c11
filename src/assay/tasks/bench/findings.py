"""What is suspicious in the results of the systems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.core.judgments import Qrels
from assay.core.text import format_percent
from assay.inspect.check import CheckReport, Finding
from assay.scoring.evaluate import score
from assay.tasks.bench.text_findings import check_texts

if TYPE_CHECKING:
    from assay.tasks.bench.result import BenchResult, System

__all__ = ["check_results", "diagnose", "disagreements", "failures"]

_EXAMPLES = 5
_WIDE = 0.5
_CUT = 0.1
_UNEQUAL = 0.1
_LOSS = 0.05
_PLACES = 10


def check_results(result: BenchResult) -> Iterator[Finding]:
    """Findings about failures, disagreement, truncated texts, unjudged documents and indexes."""
    for one in result.systems:
        yield from _check_cut(one)
        yield from _check_vectors(one)
        yield from _check_index(one)
    yield from _check_failures(result)
    yield from _check_disagreement(result)
    yield from _check_unjudged(result)


def _values(result: BenchResult) -> NDArray[np.float64]:
    """The first measure: systems × queries."""
    return np.array([one.scores.values[0] for one in result.systems])


def failures(result: BenchResult) -> list[str]:
    """Queries on which the first measure is 0 for every system."""
    nothing = (_values(result) == 0).all(axis=0)
    ids = result.systems[0].scores.query_ids
    return [str(ids[int(row)]) for row in np.flatnonzero(nothing)]


def disagreements(result: BenchResult) -> list[tuple[str, float]]:
    """Queries by how far apart the systems are on the first measure, widest first."""
    values = _values(result)
    spread = np.nan_to_num(values.max(axis=0) - values.min(axis=0))
    ids = result.systems[0].scores.query_ids
    order = np.argsort(-spread, kind="stable")
    return [(str(ids[int(row)]), float(spread[row])) for row in order if spread[row] > 0]


def _check_failures(result: BenchResult) -> Iterator[Finding]:
    failed = failures(result)
    if failed:
        everyone = (
            "all systems fail" if len(result.systems) > 1 else "nothing relevant is retrieved"
        )
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


def _check_disagreement(result: BenchResult) -> Iterator[Finding]:
    wide = [query for query, spread in disagreements(result) if spread >= _WIDE]
    if wide and len(result.systems) > 1:
        measure = result.systems[0].scores.measures[0]
        yield Finding(
            "note",
            "disagreement",
            f"on {_queries(len(wide))} systems are {_WIDE} or more apart on {measure}",
            "They retrieve different documents; a fusion may gain from that.",
            len(wide),
            result.chance.n_queries,
            tuple(wide[:_EXAMPLES]),
        )


def _check_cut(one: System) -> Iterator[Finding]:
    cut, total = one.result.n_cut, one.result.n_texts
    if cut and "@" not in one.spec:
        yield Finding(
            "warning" if cut >= _CUT * total else "note",
            "cut-off",
            f"{one.name} truncates {cut:,} of {total:,} texts ({cut / total:.1%})",
            "What comes after its maximum length is not searched; chunks would help.",
            cut,
            total,
        )


def _check_vectors(one: System) -> Iterator[Finding]:
    number = one.result.n_without
    if number:
        yield Finding(
            "warning",
            "zero-vectors",
            f"{one.name} gives {number:,} texts no vector, or one of zeros",
            "They cannot be retrieved.",
            number,
            one.result.n_texts,
        )


def _check_index(one: System) -> Iterator[Finding]:
    report = one.result.index
    if report is not None and report.recall < 1 - _LOSS:
        yield Finding(
            "warning",
            "index-loss",
            f"{one.name} has a recall of {report.recall:.1%} of the exact result",
            "Its loss against the model alone is the loss of the index, not of the model.",
            1,
            1,
        )


def _check_unjudged(result: BenchResult) -> Iterator[Finding]:
    """The share of unjudged documents at the top."""
    qrels = result.collection.qrels
    if isinstance(qrels, Qrels) and qrels.exhaustive:
        return
    shares = {}
    for one in result.systems:
        values = score(one.hits, f"Judged@{_PLACES}").values[0]
        known = values[np.isfinite(values)]  # a query without results has no such share
        if len(known):
            shares[one.name] = 1 - float(known.mean())
    if not shares:
        return
    low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    if shares[high] <= 0:
        return
    unequal = shares[high] - shares[low] >= _UNEQUAL
    span = (
        f"{format_percent(shares[low])} ({low}) to {format_percent(shares[high])} ({high})"
        if low != high
        else format_percent(shares[high])
    )
    effect = "They count as not relevant."
    if unequal:
        effect += f" That may be unfair to {high}: unjudged documents may be relevant."
    yield Finding(
        "warning" if unequal else "note",
        "unjudged",
        f"of the first {_PLACES} documents {span} are not judged",
        effect,
        0,
        0,
    )


def diagnose(result: BenchResult) -> CheckReport:
    """All findings, the most severe first."""
    severities = ["error", "warning", "note"]
    found: Iterator[Finding] = iter((*check_texts(result), *check_results(result)))
    return CheckReport(tuple(sorted(found, key=lambda one: severities.index(one.severity))))
