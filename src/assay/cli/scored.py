"""A run that was scored: its name, its scores and what is to be said about them."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.conventions import Conventions
from assay.evaluation import score
from assay.hits import judge
from assay.io.sources import as_judgments, as_ranking
from assay.judgments import Judgments
from assay.measures import Measure
from assay.report.disclosures import disclosures
from assay.scores import Mean, Scores

__all__ = ["ScoredRun", "score_run", "score_runs", "unique_names"]

_LARGE = 30_000_000  # bytes that take long enough to read for somebody to wait
_ENDINGS = (".gz", ".zst", ".txt", ".run", ".trec", ".csv", ".tsv", ".json", ".jsonl", ".parquet",
            ".npy", ".npz")  # fmt: skip


@dataclass(frozen=True)
class ScoredRun:
    """The scores of one run file; with the size of the collection also chance and ceiling."""

    name: str
    path: str
    tag: str
    scores: Scores
    chance: Mean | None = None
    ceiling: Mean | None = None
    by: str | None = None

    def to_dict(self, *, per_query: bool) -> dict[str, Any]:
        """Plain data for JSON."""
        data = self.scores.to_dict(per_query=per_query)
        del data["schema_version"], data["signature"]
        for key in ("chance", "ceiling"):
            mean: Mean | None = getattr(self, key)
            if mean is not None:
                data[key] = _numbers(mean)
        if self.by is not None:
            macro = self.scores.mean(by=self.by)
            data["by"] = {
                "column": self.by,
                "average": macro.average,
                "measures": _numbers(macro),
                "groups": {name: _numbers(values) for name, values in macro.groups.items()},
            }
        return {"name": self.name, "path": self.path, "tag": self.tag, **data}

    def remarks(self, *, several: bool) -> Iterator[str]:
        """What a reader of the numbers should know, a line each."""
        start = f"{self.name}: " if several else ""
        for remark in disclosures(self.scores):
            yield start + remark


def _numbers(values: Any) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def score_runs(
    paths: Sequence[str],
    qrels: str,
    measures: tuple[Measure, ...],
    *,
    rules: Conventions,
    n_docs: int | None = None,
    by: str | None = None,
) -> list[ScoredRun]:
    """Read and score run files against one file of judgments; `by` names a file of groups."""
    with _progress([qrels, *paths]):
        judgments = as_judgments(qrels)
        scored = [
            score_run(path, judgments, measures, rules=rules, name=name, n_docs=n_docs)
            for path, name in zip(paths, unique_names(paths), strict=True)
        ]
    return scored if by is None else _grouped(scored, by)


def _progress(files: list[str]) -> AbstractContextManager[object]:
    """Something that moves, where the files are large enough to wait for and somebody watches."""
    large = sum(os.path.getsize(file) for file in files if os.path.isfile(file)) > _LARGE
    if not large or not sys.stderr.isatty():
        return nullcontext()
    from assay.cli.terminal import working

    return working("reading and scoring …")


def _grouped(scored: list[ScoredRun], by: str) -> list[ScoredRun]:
    from assay.cli.group_files import read_groups

    column, groups = read_groups(by, scored[0].scores.query_ids)
    return [
        replace(one, scores=one.scores.with_groups(**{column: groups}), by=column) for one in scored
    ]


def score_run(
    path: str,
    judgments: Judgments,
    measures: tuple[Measure, ...],
    *,
    rules: Conventions,
    name: str,
    n_docs: int | None,
) -> ScoredRun:
    """Read a run file and score it."""
    ranking = as_ranking(path, rules)
    hits = judge(ranking, judgments, conventions=rules)
    scores = score(hits, measures, conventions=rules)
    scored = ScoredRun(name, path, ranking.name or name, scores)
    if n_docs is None:
        return scored
    from assay.chance import ceiling, chance

    return replace(
        scored,
        chance=chance(hits, measures, conventions=rules, n_docs=n_docs).mean(),
        ceiling=ceiling(hits, measures, conventions=rules, n_docs=n_docs).mean(),
    )


def unique_names(paths: Sequence[str]) -> list[str]:
    """Names of runs from their files: as short as they can be while no two are equal.

    >>> unique_names(["a/bm25.txt.gz", "a/dense.txt"]), unique_names(["a/run.txt", "b/run.txt"])
    (['bm25', 'dense'], ['a/run', 'b/run'])
    """
    parts = [Path(path).parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = [_without_endings("/".join(part[-depth:])) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{path} ({number})" for number, path in enumerate(paths, 1)]


def _without_endings(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    while stem and not stem.endswith("/") and dot + ending.lower() in _ENDINGS:
        name = stem
        stem, dot, ending = name.rpartition(".")
    return name
