"""Queries that are not independent of each other, such as the keypoints of one scene.

A stored run says by which group column its intervals were drawn, and comparisons of such runs draw
and test the same groups. The method of an interval holds the name: `bca by scene`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core.text import did_you_mean
from assay.errors import UsageError
from assay.scoring.scores import Scores
from assay.stats import interval_method

__all__ = ["clusters_in", "drawn_together", "labels_of", "method_by", "n_clusters"]

_BY: Final = " by "


def method_by(method: str, clusters: str) -> str:
    """The name of a method that draws whole groups of a column.

    >>> method_by("bca", "scene"), method_by("t", "")
    ('bca by scene', 't')
    """
    return f"{method}{_BY}{clusters}" if clusters else method


def clusters_in(method: str) -> str:
    """The column in the name of a method; empty where queries were drawn one by one.

    >>> clusters_in("bca by scene by day"), clusters_in("t")
    ('scene by day', '')
    """
    return method.partition(_BY)[2]


def labels_of(scores: Scores, clusters: str) -> NDArray[Any] | None:
    """The group of each query in the column `clusters`; None without a column."""
    if not isinstance(clusters, str):
        raise UsageError(f"clusters is the name of one group column, a text; found {clusters!r}.")
    if not clusters:
        return None
    if clusters not in scores.groups:
        hint = did_you_mean(clusters, scores.groups)
        have = ", ".join(map(repr, scores.groups)) or "none"
        raise UsageError(
            f"The scores have no group column {clusters!r} to draw by.{hint} They have: {have}."
        )
    return scores.groups[clusters]


def n_clusters(values: Floats, labels: NDArray[Any]) -> int:
    """How many groups have a value in any row."""
    return len(np.unique(labels[~np.isnan(values).all(axis=0)]))


def drawn_together(runs: Iterable[tuple[str, Scores]]) -> dict[str, str]:
    """Arguments for `compare`, from the column that each run is drawn by, and its scores.

    Nothing where runs are drawn query by query; where columns differ, that with the fewest groups.
    """
    known = {
        clusters: n_clusters(scores.values, scores.groups[clusters])
        for clusters, scores in runs
        if clusters in scores.groups
    }
    if not known:
        return {}
    by = min(known, key=lambda name: (known[name], name))
    return {"by": by, "interval": interval_method(known[by])}
