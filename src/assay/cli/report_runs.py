"""The runs of a report with their scores: files are scored now, stored runs bring theirs along."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from assay.cli import options

if TYPE_CHECKING:
    from assay.cli.report_sources import Sources
    from assay.conventions import Conventions
    from assay.judgments import Judgments
    from assay.measures import Measure
    from assay.report import ReportRun

__all__ = ["report_runs"]

_DIGITS: Final = 16


@dataclass(frozen=True)
class _Scoring:
    measures: tuple[Measure, ...]
    rules: Conventions
    n_docs: int | None


def report_runs(
    sources: Sources,
    qrels: str | None,
    *,
    measures: tuple[str, ...],
    rel: float | None,
    conventions: str,
    changes: Mapping[str, Any],
    n_docs: int | None,
) -> list[ReportRun]:
    """All runs in their order; files are scored as the stored runs were, unless options differ."""
    _refuse_idle(sources, {"--qrels": qrels, "--n-docs": n_docs, "--ties": changes["ties"],
                           "--depth": changes["depth"], "--conventions": _typed("conventions")},
                 None if measures else rel)  # fmt: skip
    stored = _stored(sources, changes)
    first = next(iter(stored.values()), None)
    if first is None or _typed("conventions"):
        rules = options.rules_from(conventions, **changes)
    else:
        rules = first.scores.conventions.but(**changes)
    wanted = _measures(measures, rel, list(stored.values()))
    scored = _scored(sources, qrels, _Scoring(wanted, rules, n_docs))
    return [
        scored[name] if name in scored else _only(stored[name], wanted) for name in sources.names
    ]


def _typed(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


def _refuse_idle(sources: Sources, given: Mapping[str, Any], idle_rel: float | None) -> None:
    """Stored runs keep what they were scored with, and files need judgments."""
    if sources.files:
        if given["--qrels"] is None:
            raise click.UsageError(
                f"{sources.files[0]} is a file, and files need judgments: --qrels QRELS."
            )
        return
    idle = [name for name, value in {**given, "--rel": idle_rel}.items() if value]
    if idle:
        raise click.UsageError(
            f"{idle[0]} is for files; stored runs keep what they were scored with. Leave it out."
        )


def _stored(sources: Sources, changes: Mapping[str, Any]) -> dict[str, ReportRun]:
    """Stored runs by name; how means treat empty and missing queries may still be chosen."""
    from assay.report.stored import stored_report_run

    of_means = {key: changes[key] for key in ("empty", "missing")}
    found = {}
    for item, name in zip(sources.items, sources.names, strict=True):
        if not isinstance(item, str):
            run = stored_report_run(item, name=name)
            rules = run.scores.conventions.but(**of_means)
            found[name] = replace(run, scores=replace(run.scores, conventions=rules))
    return found


def _measures(
    names: tuple[str, ...], rel: float | None, stored: list[ReportRun]
) -> tuple[Measure, ...]:
    """Those asked for; else those that all stored runs have; else nDCG@10."""
    from assay.measures import parse_many
    from assay.report.stored import shared_measures

    if stored and not names:
        return shared_measures([run.scores for run in stored])
    return options.with_threshold(parse_many(names or ("nDCG@10",)), rel)


def _only(run: ReportRun, measures: tuple[Measure, ...]) -> ReportRun:
    from assay.errors import MeasureError
    from assay.report.stored import only_measures

    try:
        return replace(run, scores=only_measures(run.scores, measures))
    except MeasureError as error:
        raise MeasureError(f"{run.details['stored run']} {run.name!r}: {error}") from None


def _scored(sources: Sources, qrels: str | None, how: _Scoring) -> dict[str, ReportRun]:
    """Files by name, scored."""
    from assay.io.sources import as_judgments

    if qrels is None:
        return {}
    judgments = as_judgments(qrels)
    truth = f"{qrels} {_checksum(qrels)}".strip()
    return {
        name: _scored_file(path, name, judgments, truth, how)
        for path, name in zip(sources.items, sources.names, strict=True)
        if isinstance(path, str)
    }


def _scored_file(
    path: str, name: str, judgments: Judgments, truth: str, how: _Scoring
) -> ReportRun:
    """Read, judge and score a run, keeping where its relevant documents landed."""
    from assay.chance import chance
    from assay.evaluation import score
    from assay.hits import judge
    from assay.io.sources import as_ranking
    from assay.report import ReportRun

    ranking = as_ranking(path, how.rules)
    hits = judge(ranking, judgments, conventions=how.rules)
    random = None
    if how.n_docs:
        random = chance(hits, how.measures, conventions=how.rules, n_docs=how.n_docs)
    details = {
        "file": path,
        "tag": ranking.name or "",
        f"SHA-256, first {_DIGITS} digits": _checksum(path),
        "judgments": truth,
    }
    scores = score(hits, how.measures, conventions=how.rules)
    return ReportRun(name, scores, random, hits, details)


def _checksum(path: str) -> str:
    """Enough of the SHA-256 to know a file by; nothing for pipes, which cannot be read again."""
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]
