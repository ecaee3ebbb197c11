"""Scenes of a few small images, in memory or as folders, and descriptors for tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from threading import Semaphore
from typing import Any

import numpy as np

from assay.vision import Scene, make_demo_scenes, write_scenes


@cache
def small_scenes() -> tuple[Scene, ...]:
    """Three scenes of three images each, 220 × 200 pixels: the corner of the demo's."""
    return tuple(
        Scene(
            scene.name,
            scene.category,
            tuple(np.ascontiguousarray(scene.image(k)[:200, :220]) for k in (1, 2, 3)),
            {k: scene.homographies[k] for k in (2, 3)},
        )
        for scene in make_demo_scenes(["i_camera", "v_astronaut", "v_brick"])
    )


def scene_folders(folder: Path) -> Path:
    """The scenes as folders."""
    write_scenes(small_scenes(), folder)
    return folder


def experiment_text(path: str, **more: str) -> str:
    """An experiment file in YAML that runs in moments."""
    lines = {
        "dataset": f"{{path: {path}}}",
        "keypoints": "{detector: orb, border: 20, strongest: 60}",
        "descriptors": "[ORB, SIFT]",
        "evaluation": "{tau: [3, 1]}",
        **more,
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items() if value)


def constant(image: Any, keypoints: Any) -> Any:
    """A descriptor that says the same of every keypoint."""
    return np.full((len(keypoints), 8), 0.1, np.float32)


def sometimes_zero(image: Any, keypoints: Any) -> Any:
    """A descriptor that fails for every fifth keypoint."""
    rows = np.random.default_rng(len(keypoints)).normal(size=(len(keypoints), 8))
    rows[::5] = 0
    return rows.astype(np.float32)


_CALLS = Semaphore()


def alone(image: Any, keypoints: Any) -> Any:
    """A descriptor that does not bear a second call before the first has ended."""
    if not _CALLS.acquire(blocking=False):
        raise RuntimeError("called by two threads at once")
    try:
        return sum(np.cos(keypoints.xy + angle) for angle in range(200)).astype(np.float32)
    finally:
        _CALLS.release()
