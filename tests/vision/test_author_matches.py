"""Verification and retrieval by the authors' program, rewritten in plain loops."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")

from assay.stats.confidence import jackknife_interval
from assay.stats.effects import grouped_ap
from assay.vision import ExperimentResult, experiment_from, run_experiment
from assay.vision.pairs import SceneContext, usable_rows
from assay.vision.settings import DistractorSettings

from .small_scenes import small_scenes

CHOSEN = {"scenes": 2, "keypoints": 15, "seed": 5}


def _found(descriptor: str) -> ExperimentResult:
    return run_experiment(
        experiment_from(
            {
                "dataset": {"path": "unused"},
                "keypoints": {"detector": "orb", "border": 20, "strongest": 40},
                "descriptors": [descriptor],
                "evaluation": {"verification": CHOSEN, "retrieval": CHOSEN},
            }
        ),
        scenes=small_scenes(),
    )


def test_intervals_are_over_scenes() -> None:
    found = _found("ORB").results[0]
    verification, retrieval = found.task("verification"), found.task("retrieval")
    assert verification is not None
    assert retrieval is not None
    own = verification.interval("authors")
    left_out = [
        replace(
            verification, scenes=tuple(one for one in verification.scenes if one is not gone)
        ).author_mean()
        for gone in verification.scenes
    ]
    by_hand = jackknife_interval(verification.author_mean(), np.array(left_out))
    assert (own.estimate, own.low, own.high) == (by_hand.estimate, by_hand.low, by_hand.high)
    assert own.method == "jackknife"
    for kind, value in (
        ("authors", retrieval.author_mean()),
        ("pooled", retrieval.mean()),
        ("per query", retrieval.query_mean()),
    ):
        one = retrieval.interval(kind, resamples=200)
        assert one.estimate == pytest.approx(value)
        assert one.low <= one.estimate <= one.high
    [record] = found.records(resampling={"level": 0.9})
    stored = [one for one in record.aggregates if one.average == "authors"]
    assert len(stored) >= 2
    assert all(one.level == 0.9 and one.clusters == "scene" for one in stored)
    assert all(one.low <= one.value <= one.high for one in stored if not one.subset.count("/"))


def test_the_curve_of_verification_is_that_of_its_list() -> None:
    found = _found("SIFT").results[0]
    curves = {one.task: one for one in found.curves}
    assert list(curves) == ["image matching", "keypoint verification"]
    task = found.task("verification")
    assert task is not None
    distance = np.concatenate([one.author_distance for one in task.scenes])
    right = np.concatenate([one.author_right for one in task.scenes])
    total = int(right.sum()) + sum(one.author_missed for one in task.scenes)
    need = math.ceil(0.3 * total)
    limit = np.sort(distance[right])[need - 1]
    wrong = int((distance[~right] <= limit).sum())
    assert curves["keypoint verification"].precision[30] == pytest.approx(need / (need + wrong))


def _distance(one: Any, other: Any) -> float:
    if one.dtype == np.uint8:
        return float(np.unpackbits(one ^ other).sum())
    return float(((one.astype(float) - other.astype(float)) ** 2).sum())


def _plain_ap(judged: list[tuple[float, bool]], missed: int = 0) -> float:
    """Precision at each distinct distance, weighted by the recall that it adds."""
    total = sum(right for _, right in judged) + missed
    area, before = 0.0, 0
    for limit in sorted({distance for distance, _ in judged}):
        inside = [right for distance, right in judged if distance <= limit]
        area += (sum(inside) - before) / total * sum(inside) / len(inside)
        before = sum(inside)
    return area


def _plain_scene(scene: Any, context: SceneContext) -> tuple[list[Any], list[list[Any]]]:
    """Judged matches of the whole scene, and those of each keypoint."""
    first = context.first(scene)
    others = list(context.distractors(scene.name, DistractorSettings(**CHOSEN)).rows.values())
    pooled: list[Any] = []
    single: list[list[Any]] = []
    for row, query in enumerate(usable_rows(first)):
        own: list[Any] = []
        for k in scene.pairs:
            side = context.side(scene, k)
            rows, places = usable_rows(side), side.described.keypoints.xy
            x, y, w = scene.homographies[k] @ [*first.described.keypoints.xy[row], 1.0]
            off = [math.dist(place, (x / w, y / w)) for place in places]
            near = min(range(len(rows)), key=lambda at: _distance(query, rows[at]))
            pooled.append((_distance(query, rows[near]), off[near] <= min(off)))
            own.append((_distance(query, rows[off.index(min(off))]), True))
        for rows in others:
            nearest = min(_distance(query, other) for other in rows)
            pooled.append((nearest, False))
            own.append((nearest, False))
        single.append(own)
    return pooled, single


@pytest.mark.parametrize("descriptor", ["ORB", "SIFT"])
def test_both_numbers_are_those_of_the_authors_program(descriptor: str) -> None:
    found = _found(descriptor)
    [result] = found.results
    experiment = found.experiment
    context = SceneContext(
        {scene.name: scene for scene in small_scenes()},
        experiment.descriptors[0],
        experiment.keypoints,
        experiment.evaluation,
    )
    parts = [_plain_scene(scene, context) for scene in small_scenes()]
    verification, retrieval = result.task("verification"), result.task("retrieval")
    assert verification is not None
    assert retrieval is not None
    assert result.n_failed == 0
    pooled = _plain_ap([one for own, _ in parts for one in own])
    assert verification.author_mean() == pytest.approx(pooled, abs=1e-9)
    single = [_plain_ap(own) for _, lists in parts for own in lists]
    assert retrieval.author_mean() == pytest.approx(float(np.mean(single)), abs=1e-9)
    light = _plain_ap(parts[0][0])
    assert verification.author_mean("illumination") == pytest.approx(light, abs=1e-9)
    assert verification.author_mean() != pytest.approx(retrieval.author_mean(), abs=0.01)


def test_what_could_not_be_described_is_missed() -> None:
    here = "tests.vision.small_scenes:sometimes_zero"
    [result] = _found(here).results
    verification, retrieval = result.task("verification"), result.task("retrieval")
    assert verification is not None
    assert retrieval is not None
    for one in verification.scenes:
        assert one.author_missed == 8 * 2  # every fifth of 40 keypoints, in two images
    for one in retrieval.scenes:
        assert one.author_missed == 8
    assert verification.author_counts()[0] >= 3 * 16


def test_equal_distances_are_taken_together() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    for _ in range(20):
        distance = rng.integers(0, 6, 30).astype(float)
        right = rng.random(30) < 0.4
        right[0] = True
        expected = metrics.average_precision_score(right, -distance)
        assert grouped_ap(distance, right) == pytest.approx(expected, rel=1e-12)
    assert math.isnan(grouped_ap(np.ones(2), np.zeros(2, bool)))
    assert grouped_ap(np.zeros(0), np.zeros(0, bool), missed=3) == 0.0
