"""Images with known homographies: scenes, keypoints, descriptors and true matches.

from assay.tasks.vision import KeypointSettings, find_scenes, make_pair
for scene in find_scenes("hpatches"):
    pair = make_pair(scene, 2, descriptor="RootSIFT", taus=(1, 3, 5))
"""

from __future__ import annotations

from assay.tasks.vision.demo_scenes import make_demo_scenes, write_scenes
from assay.tasks.vision.describe import DESCRIPTORS, Described
from assay.tasks.vision.drawing import draw_pair
from assay.tasks.vision.ground_truth import Status, Truth, match_truth, match_truths
from assay.tasks.vision.images import read_image
from assay.tasks.vision.keypoint_sources import KeypointSettings, read_keypoints, write_keypoints
from assay.tasks.vision.keypoints import (
    Keypoints,
    by_size,
    inside_border,
    project,
    random_subset,
    shared,
    strongest,
)
from assay.tasks.vision.opencv_features import DETECTORS
from assay.tasks.vision.pair import (
    PairCounts,
    PairData,
    Side,
    describe_image,
    make_pair,
    true_matches,
)
from assay.tasks.vision.scenes import Scene, find_scenes

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
