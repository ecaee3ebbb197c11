"""Means of a descriptor over everything and over each category, with intervals over scenes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from assay.stats import Interval, interval, interval_method
from assay.tasks.descriptors_result import DescriptorResult

__all__ = ["ALL", "CategorySummary", "summarize"]

ALL: Final = "all"


@dataclass(frozen=True)
class CategorySummary:
    """One descriptor on the scenes of a category, or on all of them.

    `micro` is the mean over keypoints, `macro` the mean over scenes; both intervals draw scenes.
    `chance` and `ceiling` are those of the mean over keypoints.
    """

    descriptor: str
    category: str
    scenes: int
    queries: int
    excluded: int
    failed: int
    micro: Interval
    macro: Interval
    means: dict[str, float]
    chance: float
    ceiling: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; undefined numbers are None."""
        data = asdict(self)
        for name in ("micro", "macro"):
            one: Interval = getattr(self, name)
            data[name] = {
                "mean": _or_none(one.estimate), "low": _or_none(one.low),
                "high": _or_none(one.high), "level": one.level, "method": one.method,
                "note": one.note,
            }  # fmt: skip
        for name in ("chance", "ceiling"):
            data[name] = _or_none(data[name])
        data["means"] = {key: _or_none(value) for key, value in self.means.items()}
        return data


def summarize(
    result: DescriptorResult, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> list[CategorySummary]:
    """A summary of all scenes, then one of each category."""
    settings = {"level": level, "resamples": resamples, "seed": seed}
    names = [ALL, *(name for name in result.category_names)]
    if len(set(result.categories.values())) == 1:
        names = [ALL]
    return [_summary(result, name, settings) for name in names]


def _summary(result: DescriptorResult, category: str, settings: dict[str, Any]) -> CategorySummary:
    scores = result.scores
    every = category == ALL
    rows = slice(None) if every else scores.groups["category"] == category
    scenes = [s for s, own in result.categories.items() if every or own == category]
    values, clusters = scores["AP"][rows], scores.groups["scene"][rows]
    means = np.array([result.scene_means()[scene] for scene in scenes])
    method = interval_method(int((~np.isnan(means)).sum()))  # some scenes have no true match
    pairs = [pair for pair in result.pairs if every or pair.category == category]
    return CategorySummary(
        result.name, category, len(scenes),
        queries=sum(pair.n_queries for pair in pairs),
        excluded=sum(pair.n_excluded for pair in pairs),
        failed=sum(pair.n_failed for pair in pairs),
        micro=interval(values, method=method, clusters=clusters, **settings).within(0.0, 1.0),
        macro=interval(means, method=method, **settings).within(0.0, 1.0),
        means={
            str(measure): _mean(scores[measure][rows]) for measure in result.measures
        },
        chance=result.chance(None if every else category)["AP"],
        ceiling=result.ceiling(None if every else category)["AP"],
    )  # fmt: skip


def _mean(values: Any) -> float:
    defined = values[~np.isnan(values)]
    return math.fsum(defined.tolist()) / len(defined) if len(defined) else math.nan


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
