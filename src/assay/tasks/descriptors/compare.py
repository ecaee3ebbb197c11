"""Means of a descriptor over everything and over each category, with intervals over scenes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from assay.arrays import or_none
from assay.comparison.compare import Comparison, compare
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import MismatchError, UsageError
from assay.measures import parse_many
from assay.scoring.scores import Scores
from assay.stats import Interval, interval
from assay.tasks.descriptors.result import DescriptorResult
from assay.tasks.descriptors.sampling import as_id
from assay.tasks.descriptors.tables import interval_data

__all__ = [
    "ALL",
    "SHARE",
    "CategorySummary",
    "compare_descriptors",
    "compare_named",
    "field_names",
    "mean_defined",
    "summarize",
]

ALL: Final = "all"
SHARE: Final = "SetP"  # MMA of a pair of images is the precision of its matches


@dataclass(frozen=True)
class CategorySummary:
    """One descriptor on the scenes of a category, or on all of them.

    `micro` is the mean over keypoints, `macro` the mean over scenes; intervals resample scenes.
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
            data[name] = interval_data(getattr(self, name))
        for name in ("chance", "ceiling"):
            data[name] = or_none(data[name])
        data["means"] = {key: or_none(value) for key, value in self.means.items()}
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
    pairs = [pair for pair in result.pairs if every or pair.category == category]
    return CategorySummary(
        result.name,
        category,
        len(scenes),
        queries=sum(pair.n_queries for pair in pairs),
        excluded=sum(pair.n_excluded for pair in pairs),
        failed=sum(pair.n_failed for pair in pairs),
        micro=interval(values, clusters=clusters, bounds=(0.0, 1.0), **settings),
        macro=interval(means, bounds=(0.0, 1.0), **settings),
        means={str(measure): mean_defined(scores[measure][rows]) for measure in result.measures},
        chance=result.chance(None if every else category)["AP"],
        ceiling=result.ceiling(None if every else category)["AP"],
    )


def mean_defined(values: Any) -> float:
    """The mean of all values but NaN; NaN without any."""
    defined = values[~np.isnan(values)]
    return math.fsum(defined.tolist()) / len(defined) if len(defined) else math.nan


def compare_descriptors(
    results: Sequence[DescriptorResult],
    *,
    measures: Any = "AP",
    force: bool = False,
    **settings: Any,
) -> Comparison:
    """Compare descriptors on the same keypoints; whole scenes are resampled.

    Results on other keypoints, or with another truth, are refused: their questions differ in
    number and in difficulty. With `force` the means of scenes are compared instead, scene by
    scene. `settings` go to `compare`: baseline, test, correction, level, resamples, seed, margin.
    """
    if len(results) < 2:
        raise UsageError("A comparison takes two or more results.")
    for one in results:
        checks.require(one, DescriptorResult, "every result", "a DescriptorResult")
    names = [one.name for one in results]
    if len({one.query_set for one in results}) == 1:
        return compare(
            *(one.scores for one in results), names=names, measures=measures, by="scene", **settings
        )
    if not force:
        raise MismatchError(_why_not(results))
    scenes = (_scene_scores(one, measures) for one in results)
    return compare(*scenes, names=names, measures=measures, **settings)


def compare_named(
    name: str, measure: str, scores: Sequence[Scores], names: Sequence[str], **settings: Any
) -> Comparison:
    """Compare scores on a measure that the field knows by another `name`, such as MMA@3."""
    found = compare(*scores, names=names, measures=measure, **settings)
    return found.called({measure: name})


def field_names(scores: Sequence[Scores]) -> dict[str, str]:
    """What the measures of stored image matches are called: MMA with the pixels of their rule."""
    pixels = {one.settings.get("pixels") for one in scores}
    return {SHARE: f"MMA@{pixels.pop()}"} if len(pixels) == 1 else {}


def _why_not(results: Sequence[DescriptorResult]) -> str:
    """What differs, with sizes and chance, to show what a comparison would mean."""
    lines = []
    for one in results[:5]:
        pool = float(np.mean([pair.n_docs for pair in one.pairs])) if one.pairs else 0.0
        lines.append(
            f"{one.name!r} has {one.n_queries - one.n_excluded} keypoints with a true match among "
            f"{pool:.0f} on average (chance AP {one.chance()['AP']:.4f}"
            + (f", keypoints {one.keypoints!r})" if one.keypoints else ")")
        )
    return (
        "These results are of different queries, so their means are not comparable: "
        f"{'; '.join(lines)}. Use one locked set of keypoints for all, or force the comparison of "
        "scene means."
    )


def _scene_scores(result: DescriptorResult, measures: Any) -> Scores:
    """Scores whose queries are the scenes."""
    wanted = parse_many(measures)
    scenes = result.scene_names
    values = [[result.scene_means(str(measure))[scene] for scene in scenes] for measure in wanted]
    shape = (len(wanted), len(scenes))
    return Scores(
        wanted,
        Ids.of(list(map(as_id, scenes)), what="scene"),
        np.array(values).reshape(shape),
        np.zeros(shape, bool),
        np.zeros(len(scenes), bool),
        result.conventions,
        settings=result.scores.settings,
    )
