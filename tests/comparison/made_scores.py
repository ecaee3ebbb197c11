"""Scores made by hand, for tests of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay import Conventions, Ids, Scores, parse_many


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
