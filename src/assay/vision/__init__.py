"""Images with known homographies: scenes, keypoints, descriptors and true matches.

from assay.vision import KeypointSettings, find_scenes, make_pair
for scene in find_scenes("hpatches"):
    pair = make_pair(scene, 2, descriptor="RootSIFT", taus=(1, 3, 5))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.vision.demo_scenes import make_demo_scenes, write_scenes
    from assay.vision.describe import DESCRIPTORS, Described
    from assay.vision.detect import DETECTORS
    from assay.vision.drawing import draw_pair
    from assay.vision.ground_truth import Status, Truth, match_truth, match_truths
    from assay.vision.images import read_image
    from assay.vision.keypoint_files import read_keypoints, write_keypoints
    from assay.vision.keypoint_filters import (
        by_size,
        inside_border,
        random_subset,
        shared,
        strongest,
    )
    from assay.vision.keypoint_sets import KeypointSettings
    from assay.vision.keypoints import Keypoints, project
    from assay.vision.pair import (
        PairCounts,
        PairData,
        Side,
        describe_image,
        join_sides,
        make_pair,
        true_matches,
    )
    from assay.vision.scenes import Scene, find_scenes

_HOME = {
    "DESCRIPTORS": "describe",
    "DETECTORS": "detect",
    "Described": "describe",
    "KeypointSettings": "keypoint_sets",
    "Keypoints": "keypoints",
    "PairCounts": "pair",
    "PairData": "pair",
    "Scene": "scenes",
    "Side": "pair",
    "Status": "ground_truth",
    "Truth": "ground_truth",
    "by_size": "keypoint_filters",
    "describe_image": "pair",
    "draw_pair": "drawing",
    "find_scenes": "scenes",
    "inside_border": "keypoint_filters",
    "join_sides": "pair",
    "make_demo_scenes": "demo_scenes",
    "make_pair": "pair",
    "match_truth": "ground_truth",
    "match_truths": "ground_truth",
    "project": "keypoints",
    "random_subset": "keypoint_filters",
    "read_image": "images",
    "read_keypoints": "keypoint_files",
    "shared": "keypoint_filters",
    "strongest": "keypoint_filters",
    "true_matches": "pair",
    "write_keypoints": "keypoint_files",
    "write_scenes": "demo_scenes",
}

__all__ = [
    "DESCRIPTORS",
    "DETECTORS",
    "Described",
    "KeypointSettings",
    "Keypoints",
    "PairCounts",
    "PairData",
    "Scene",
    "Side",
    "Status",
    "Truth",
    "by_size",
    "describe_image",
    "draw_pair",
    "find_scenes",
    "inside_border",
    "join_sides",
    "make_demo_scenes",
    "make_pair",
    "match_truth",
    "match_truths",
    "project",
    "random_subset",
    "read_image",
    "read_keypoints",
    "shared",
    "strongest",
    "true_matches",
    "write_keypoints",
    "write_scenes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'assay.vision' has no attribute {name!r}")
    return getattr(import_module(f"assay.vision.{_HOME[name]}"), name)
