"""mAP on the Oxford scenes, checked by a plain script: float64, every distance, explicit sorts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")

from assay.vision import KeypointSettings, find_scenes
from assay.vision.pairs import SceneContext, evaluate_scene, whole_rows
from assay.vision.ranks import MATCHED, NO_MATCH, OUTSIDE
from assay.vision.result import DescriptorResult
from assay.vision.run import join_scenes
from assay.vision.settings import DescriptorSettings, EvaluationSettings

from .samples import sorted_ap

SCENES = ("bikes", "graf", "leuven", "wall")
KEYPOINTS = KeypointSettings(detector="orb", strongest=150)


class Remembering(SceneContext):
    """Keeps every described image, so that the plain script need not describe again."""

    def side(self, scene: Any, k: int, reference: Any = None) -> Any:
        key = f"{scene.name}/{k}"
        if key not in self.sides:
            self.sides[key] = super().side(scene, k, reference)
        return self.sides[key]

    @cached_property
    def sides(self) -> dict[str, Any]:
        return {}


@pytest.fixture(
    scope="module",
    params=[
        ("SIFT", SCENES[1:3]),
        ("ORB", SCENES[:1]),
        *(
            pytest.param((name, scenes), marks=pytest.mark.slow)
            for name, scenes in (
                *(("BRISK", SCENES[3:]), ("AKAZE", SCENES[1:2])),
                *(("SIFT", SCENES), ("ORB", SCENES), ("BRISK", SCENES)),
            )
        ),
    ],
    ids=lambda param: f"{param[0]}-{len(param[1])}",
)
def evaluated(
    request: pytest.FixtureRequest, data_dir: Callable[[str], Path]
) -> tuple[SceneContext, DescriptorResult]:
    name, chosen = request.param
    found = find_scenes(data_dir("oxford_affine"))
    scenes = {scene.name: scene for scene in found if scene.name in chosen}
    work = Remembering(scenes, DescriptorSettings(name, name), KEYPOINTS, EvaluationSettings())
    parts = [evaluate_scene(scene, work) for scene in scenes.values()]
    [result] = join_scenes(parts, work)
    return work, result


def _plain_truth(scene: Any, k: int, work: Any) -> tuple[list[int], list[int]]:
    """The nearest keypoint within 3 px of the projection, and what is known of each query."""
    first, other = work.sides[f"{scene.name}/1"], work.sides[f"{scene.name}/{k}"]
    targets, statuses = [], []
    height, width = other.shape[:2]
    for x, y in first.keypoints.xy:
        u, v, w = scene.homographies[k] @ [x, y, 1.0]
        u, v = u / w, v / w
        if not (w > 0 and 0 <= u <= width - 1 and 0 <= v <= height - 1):
            targets.append(-1)
            statuses.append(OUTSIDE)
            continue
        apart = np.hypot(other.keypoints.xy[:, 0] - u, other.keypoints.xy[:, 1] - v)
        near = int(np.argmin(apart))
        targets.append(near if apart[near] <= 3.0 else -1)
        statuses.append(MATCHED if apart[near] <= 3.0 else NO_MATCH)
    return targets, statuses


def _plain_distances(left: Any, right: Any) -> Any:
    if left.dtype == np.uint8:
        x, y = (np.unpackbits(rows, axis=1).astype(np.float64) for rows in (left, right))
        return x @ (1 - y).T + (1 - x) @ y.T
    wide = [rows.astype(np.float64) for rows in (left, right)]
    return ((wide[0][:, None, :] - wide[1][None, :, :]) ** 2).sum(axis=2)


def _plain_pair(scene: Any, k: int, work: Any) -> tuple[list[float], list[int]]:
    """AP of every keypoint with a true match, 0 where the descriptor failed; and the statuses."""
    left, lost = whole_rows(work.sides[f"{scene.name}/1"])
    right, gone = whole_rows(work.sides[f"{scene.name}/{k}"])
    apart = _plain_distances(left, right)
    apart[:, gone] = np.inf
    targets, statuses = _plain_truth(scene, k, work)
    found = []
    for row, target in enumerate(targets):
        if target >= 0:
            failed = lost[row] or gone[target]
            found.append(0.0 if failed else sorted_ap(apart[row], target, "expected"))
    return found, statuses


def test_map_of_every_pair_equals_the_plain_script(
    evaluated: tuple[SceneContext, DescriptorResult],
) -> None:
    work, result = evaluated
    assert result.scene_names == list(work.scenes)
    means = result.mean(by="pair").groups
    every: list[float] = []
    by_scene = []
    for name in work.scenes:
        own: list[float] = []
        for k in range(2, 7):
            values, statuses = _plain_pair(work.scenes[name], k, work)
            [pair] = [p for p in result.pairs if (p.scene, p.pair) == (name, f"1-{k}")]
            assert pair.status.tolist() == statuses
            assert len(values) > 10, "too few true matches to prove anything"
            assert means[f"{name}/1-{k}"]["AP"] == pytest.approx(np.mean(values), rel=1e-12)
            own += values
        by_scene.append(np.mean(own))
        every += own
    assert result.mean()["AP"] == pytest.approx(np.mean(every), rel=1e-12)
    assert result.mean(by="scene")["AP"] == pytest.approx(np.mean(by_scene), rel=1e-12)
    assert 0.2 < result.mean()["AP"] < 0.95
