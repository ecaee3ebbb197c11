"""Comparisons of descriptors: scenes are what varies, and only equal questions are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay import checks
from assay.clustered import n_clusters
from assay.comparison import Comparison, compare
from assay.errors import MismatchError, UsageError
from assay.ids import Ids
from assay.measures import parse_many
from assay.scores import Scores
from assay.stats import interval_method
from assay.tasks.descriptors_names import as_id
from assay.tasks.descriptors_result import DescriptorResult

__all__ = ["compare_descriptors"]


def compare_descriptors(
    results: Sequence[DescriptorResult],
    *,
    measures: Any = "AP",
    force: bool = False,
    **settings: Any,
) -> Comparison:
    """Compare descriptors on the same keypoints; whole scenes are drawn and tested.

    Results on other keypoints, or with another truth, are refused: their questions differ in
    number and in difficulty. With `force` the means of scenes are compared instead, scene by
    scene. `settings` go to `compare`: baseline, test, correction, level, resamples, seed, margin.
    """
    if len(results) < 2:
        raise UsageError("A comparison takes two or more results.")
    for one in results:
        checks.require(one, DescriptorResult, "every result", "a DescriptorResult")
    names = [one.name for one in results]
    fewest = min(n_clusters(one.scores.values, one.scores.groups["scene"]) for one in results)
    settings = {"interval": interval_method(fewest), **settings}
    if len({one.query_set for one in results}) == 1:
        return compare(
            *(one.scores for one in results), names=names, measures=measures, by="scene", **settings
        )
    if not force:
        raise MismatchError(_why_not(results))
    scenes = (_scene_scores(one, measures) for one in results)
    return compare(*scenes, names=names, measures=measures, **settings)


def _why_not(results: Sequence[DescriptorResult]) -> str:
    """Say what differs, with sizes and chance, so that the reader sees what it would mean."""
    lines = []
    for one in results[:5]:
        pool = float(np.mean([pair.n_docs for pair in one.pairs])) if one.pairs else 0.0
        lines.append(
            f"{one.name!r} has {one.n_queries - one.n_excluded} keypoints with a true match among "
            f"{pool:.0f} on average (chance AP {one.chance()['AP']:.4f}"
            + (f", keypoints {one.keypoints!r})" if one.keypoints else ")")
        )
    return (
        "These results answer different questions, so their means are not comparable: "
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
        wanted, Ids.of(list(map(as_id, scenes)), what="scene"), np.array(values).reshape(shape),
        np.zeros(shape, bool), np.zeros(len(scenes), bool), result.conventions,
    )  # fmt: skip
