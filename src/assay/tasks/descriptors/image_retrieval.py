"""Image retrieval: does the first image of a scene find the other images of that scene?

Two images are as alike as they have matches: pairs of keypoints that are each other's nearest,
clearly nearer than the second nearest (Lowe's ratio).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.conventions import Conventions
from assay.core.hits import judge
from assay.core.judgments import Judgments
from assay.core.ranking import Ranking
from assay.errors import UsageError
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.tasks.descriptors.distances import nearest_two
from assay.tasks.descriptors.image_matching import RATIO, Matcher, choose_matches
from assay.tasks.descriptors.sampling import as_id

__all__ = ["count_matches", "evaluate_image_retrieval"]


def count_matches(
    left: NDArray[Any], right: NDArray[Any], *, metric: str = "l2", ratio: float = RATIO
) -> int:
    """How many keypoints of two images match: mutual nearest neighbours that pass the ratio test.

    >>> rows = np.eye(4, dtype=np.float32)
    >>> count_matches(rows, rows[::-1]), count_matches(rows, np.ones((4, 4), np.float32))
    (4, 0)
    """
    matcher = Matcher("mutual-ratio", mutual=True, ratio=ratio)
    ahead, back = nearest_two(left, right, metric), nearest_two(right, left, metric)
    return len(choose_matches(ahead, back, matcher, metric))


def evaluate_image_retrieval(
    images: Mapping[str, Sequence[NDArray[Any]]],
    *,
    conventions: Conventions,
    metric: str = "l2",
    ratio: float = RATIO,
) -> Scores:
    """AP of the first image of each scene among all images of all scenes but itself.

    `images` holds the descriptors of every image of every scene. The relevant images are those of
    the same scene; the score is the number of matches.
    """
    if len(images) < 2:
        raise UsageError("Image retrieval needs two or more scenes to choose from.")
    names = [(scene, number) for scene in images for number in range(1, len(images[scene]) + 1)]
    doc_ids = [as_id(f"{scene}/{number}") for scene, number in names]
    scenes = sorted(images)
    table = [
        [
            count_matches(images[scene][0], images[other][number - 1], metric=metric, ratio=ratio)
            for other, number in names
        ]
        for scene in scenes
    ]
    query_ids = [as_id(f"{scene}/1") for scene in scenes]
    ranking = Ranking.from_scores(np.array(table, np.float64), query_ids=query_ids, doc_ids=doc_ids)
    judgments = Judgments.from_labels(
        scenes, [scene for scene, _ in names], query_ids=query_ids, doc_ids=doc_ids
    )
    rules = conventions.but(self_match="exclude")
    found = score(judge(ranking, judgments, conventions=rules), "AP", conventions=rules)
    return found.with_groups(scene=dict(zip(query_ids, scenes, strict=True)))
