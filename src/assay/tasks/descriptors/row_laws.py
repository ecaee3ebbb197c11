"""What must hold inside one wide row: laws of the measures, and means that follow from scenes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

__all__ = ["ROUNDED", "SCENE_END", "broken_laws", "contradicted_means"]

ROUNDED: Final = 1.1e-4  # two numbers of four digits that are the same
SCENE_END: Final = "_true_map"
# What holds for every result, whatever it is of: the first is not above the second.
_CHAINS: Final = (
    ("precision_at_1", "precision_at_5", "precision_at_10"),
    ("recall_at_1", "recall_at_5", "recall_at_10"),
    ("precision_at_1", "true_map_micro"),
    ("true_map_micro_including_zeros", "true_map_micro"),
    ("true_map_macro_by_scene_including_zeros", "true_map_macro_by_scene"),
)
_CATEGORIES: Final = {"viewpoint_map": "v_", "illumination_map": "i_"}


def broken_laws(values: Mapping[str, float]) -> Iterator[str]:
    """The laws that do not hold, whatever the scenes are.

    >>> list(broken_laws({"precision_at_1": 0.5, "precision_at_5": 0.4}))
    ['precision_at_1 0.5 is above precision_at_5 0.4']
    """
    for chain in _CHAINS:
        for low, high in pairwise(name for name in chain if name in values):
            if values[low] > values[high] + ROUNDED:
                yield f"{low} {values[low]:g} is above {high} {values[high]:g}"
    shown, macro = "mean_average_precision", "true_map_macro_by_scene"
    if _differ(values, shown, values.get(macro)):
        yield f"{shown} {values[shown]:g} is not {macro} {values[macro]:g}, the mean over scenes"


def contradicted_means(
    values: Mapping[str, float],
    counts: Mapping[str, int],
    scenes: Mapping[str, float],
    pairs: Mapping[str, float],
    scale: float = 1.0,
) -> Iterator[str]:
    """Means that are not those of the row's scenes, and cells that the metadata contradicts.

    `scenes` are the means of AP by scene, `pairs` all numbers of the metadata, in a unit that
    `scale` makes a fraction.

    >>> list(contradicted_means({"true_map_macro_by_scene": 0.5}, {}, {"a": 0.2, "b": 0.4}, {}))
    ['true_map_macro_by_scene 0.5 contradicts the scenes, which give 0.3']
    """
    for name, value in _recomputed(scenes, pairs, scale).items():
        if _differ(values, name, value):
            yield f"{name} {values[name]:g} contradicts the scenes, which give {value:g}"
    totals = _totals(scenes, pairs)
    for name, total in totals.items():
        given = counts.get(name, pairs.get(name, total))
        if given != total:
            yield f"{name} {given:g} contradicts the scenes, which give {total:g}"
    for name in pairs.keys() & values.keys():
        if _differ(values, name, scale * pairs[name]):
            yield f"{name} {values[name]:g} contradicts the metadata, {scale * pairs[name]:g}"
    for name in (
        pairs.keys() & counts.keys() & {"total_queries_processed", "total_queries_excluded"}
    ):
        if pairs[name] != counts[name]:
            yield f"{name} {counts[name]:g} contradicts the metadata, {pairs[name]:g}"


def _differ(values: Mapping[str, float], name: str, other: float | None) -> bool:
    return other is not None and abs(values.get(name, other) - other) > ROUNDED


def _recomputed(
    scenes: Mapping[str, float], pairs: Mapping[str, float], scale: float
) -> dict[str, float]:
    """Every mean that can be computed from what is known of the scenes."""
    if not scenes:
        return {}
    found = {"true_map_macro_by_scene": _mean(scenes.values())}
    if all(scene.startswith(tuple(_CATEGORIES.values())) for scene in scenes):
        for name, start in _CATEGORIES.items():
            chosen = [value for scene, value in scenes.items() if scene.startswith(start)]
            found |= {name: _mean(chosen)} if chosen else {}
    weights = [pairs.get(f"{scene}_query_count") for scene in scenes]
    if None not in weights:
        summed = math.fsum(v * (w or 0) for v, w in zip(scenes.values(), weights, strict=True))
        total = math.fsum(w or 0 for w in weights)
        excluded = math.fsum(_ending(pairs, "_excluded_count").values())
        found |= {"true_map_micro": summed / total} if total else {}
        if total and pairs.get("total_queries_excluded") == excluded:
            found["true_map_micro_including_zeros"] = summed / (total + excluded)
            zeros = _ending(pairs, f"{SCENE_END}_with_zeros").values()
            if zeros:
                found["true_map_macro_by_scene_including_zeros"] = scale * _mean(zeros)
    return found


def _totals(scenes: Mapping[str, float], pairs: Mapping[str, float]) -> dict[str, float]:
    """The number of queries, where every scene says its own."""
    known = [pairs.get(f"{scene}_query_count") for scene in scenes]
    if not known or None in known:
        return {}
    return {"total_queries_processed": math.fsum(_ending(pairs, "_query_count").values())}


def _ending(pairs: Mapping[str, float], end: str) -> dict[str, float]:
    return {key: value for key, value in pairs.items() if key.endswith(end)}


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known)
