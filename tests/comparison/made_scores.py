"""Scores made by hand, for tests of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay import Conventions, Ids, Scores, parse_many, preset


def scores_of(
    values: Any, *, measures: str = "RR", ids: Sequence[object] | None = None, **rules: Any
) -> Scores:
    """One value per query and measure, under these conventions."""
    table = np.atleast_2d(np.asarray(values, float))
    names = [f"q{i:04}" for i in range(table.shape[1])] if ids is None else ids
    return Scores(
        measures=parse_many(measures),
        query_ids=Ids.of(list(names), what="query"),
        values=table,
        tied=np.zeros(table.shape, bool),
        missing=np.zeros(table.shape[1], bool),
        conventions=Conventions(**rules),
    )


def with_users(values: Any, users: Sequence[str]) -> Scores:
    """One value per query, and the user who asked it."""
    scores = scores_of(values)
    return scores.with_groups(user=dict(zip(scores.query_ids, users, strict=True)))


def made_scores(seed: int, *, skill: float = 0.5, n: int = 60, groups: bool = True) -> Scores:
    """Values around a skill; the noise of a query is the same in every run."""
    rng = np.random.default_rng(1234)
    hardness = rng.normal(0, 0.2, (3, n))
    noise = np.random.default_rng(seed).normal(0, 0.04, (3, n))
    values = np.clip(skill + hardness + noise, 0, 1).round(4)
    ids = Ids.of([f"q{i:03}" for i in range(n)], "query")
    topic = np.asarray([("aero", "heat", "flow")[i % 3] for i in range(n)], np.str_)
    return Scores(
        parse_many(["nDCG@10", "AP", "P@10"]),
        ids,
        values,
        tied=np.zeros((3, n), bool),
        missing=np.zeros(n, bool),
        conventions=preset("trec_eval"),
        groups={"topic": topic} if groups else {},
    )
