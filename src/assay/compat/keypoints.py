"""ExperimentMetrics: the workbench's container of results, by its names.

Add results of images and queries one by one, merge containers, and compute the means at the end.
Sums are exact, so the order of adding and merging changes nothing. A mean of nothing is NaN.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from assay.core import checks
from assay.core.conventions import preset
from assay.errors import UsageError, ValueRangeError
from assay.scoring.evaluate import score
from assay.search.engine import target_ranks_from_scores
from assay.tasks.vision.ground_truth import match_truth

__all__ = ["ExperimentMetrics", "QueryAPResult", "compute_query_ap"]

_NO_BOUNDS = (2**31, 2**31)


@dataclass(frozen=True)
class QueryAPResult:
    """One query: AP and rank of its true match; without one, `has_potential_match` is False.

    A query whose descriptor failed has a true match and AP 0; its rank is 0.
    """

    ap: float = 0.0
    rank_of_true_match: int = -1
    has_potential_match: bool = False
    total_candidates: int = 0


def compute_query_ap(
    query: Any,
    homography: Any,
    targets: Any,
    distances: Any,
    *,
    tau: float = 3.0,
    ties: str = "expected",
    target_shape: tuple[int, int] = _NO_BOUNDS,
) -> QueryAPResult:
    """AP of one keypoint (x, y): its true match is the target nearest to where H takes it.

    `distances` are those of descriptors, one for each target (x, y). `ties` is best for the
    document's formula, midrank-up for its program.

    >>> H = [[1, 0, 10], [0, 1, 0], [0, 0, 1]]
    >>> compute_query_ap([5, 5], H, [[15, 6], [40, 5]], [0.7, 0.2])
    QueryAPResult(ap=0.5, rank_of_true_match=2, has_potential_match=True, total_candidates=2)
    """
    truth = match_truth([query], targets, homography, tau=tau, target_shape=target_shape)
    scores = -checks.plain_array(distances, "distances").reshape(1, -1)
    checks.check_lengths(distances=scores.shape[1], targets=len(targets))
    if truth.target[0] < 0:
        return QueryAPResult(total_candidates=len(targets))
    ranks = target_ranks_from_scores(scores, truth.target)
    rules = preset("keypoints").but(ties=ties)
    ap = float(score(ranks.hits(), "AP", conventions=rules)["AP"][0])
    return QueryAPResult(ap, int(ranks.rank[0]), True, len(targets))


@dataclass
class ExperimentMetrics:
    """Results of an experiment as they come in; `calculate_mean_precision` fills in the means.

    `precision_at_k` and `recall_at_k` are Success@k: with one true match per query, neither is
    precision. `mean_precision` is over images, `legacy_macro_precision_by_scene` over scenes.

    >>> metrics = ExperimentMetrics()
    >>> metrics.add_query_ap("v_wall", QueryAPResult(0.5, 2, True))
    >>> metrics.add_query_ap("v_wall", QueryAPResult())
    >>> metrics.calculate_mean_precision()
    >>> metrics.true_map_micro, metrics.true_map_micro_including_zeros
    (0.5, 0.25)
    """

    mean_precision: float = math.nan
    legacy_macro_precision_by_scene: float = math.nan
    true_map_micro: float = math.nan
    true_map_macro_by_scene: float = math.nan
    true_map_micro_including_zeros: float = math.nan
    true_map_macro_by_scene_including_zeros: float = math.nan
    viewpoint_map: float = math.nan
    illumination_map: float = math.nan
    precision_at_1: float = math.nan
    precision_at_5: float = math.nan
    precision_at_10: float = math.nan
    recall_at_1: float = math.nan
    recall_at_5: float = math.nan
    recall_at_10: float = math.nan
    total_matches: int = 0
    total_keypoints: int = 0
    total_images_processed: int = 0
    total_queries_processed: int = 0
    total_queries_excluded: int = 0
    precisions_per_image: list[float] = field(default_factory=list)
    per_scene_precisions: dict[str, list[float]] = field(default_factory=dict)
    per_scene_matches: Counter[str] = field(default_factory=Counter)
    per_scene_keypoints: Counter[str] = field(default_factory=Counter)
    per_scene_image_count: Counter[str] = field(default_factory=Counter)
    ap_per_query: list[float] = field(default_factory=list)
    per_scene_ap: dict[str, list[float]] = field(default_factory=dict)
    per_scene_excluded: Counter[str] = field(default_factory=Counter)
    ranks_per_query: list[int] = field(default_factory=list)
    processing_time_ms: float = 0.0
    success: bool = True
    error_message: str = ""

    @classmethod
    def create_error(cls, message: str) -> ExperimentMetrics:
        """A result that failed, and why."""
        return cls(success=False, error_message=str(message))

    def add_image_result(self, scene: str, precision: float, matches: int, keypoints: int) -> None:
        """One image: the share of its matches that are right, and how many there are."""
        if not 0 <= precision <= 1:
            raise ValueRangeError(f"precision of an image lies from 0 to 1, found {precision!r}.")
        if matches < 0 or keypoints < 0:
            raise ValueRangeError(
                f"matches and keypoints are counts, found {matches} and {keypoints}."
            )
        self.precisions_per_image.append(float(precision))
        self.per_scene_precisions.setdefault(scene, []).append(float(precision))
        self.total_matches += matches
        self.total_keypoints += keypoints
        self.total_images_processed += 1
        self.per_scene_matches[scene] += matches
        self.per_scene_keypoints[scene] += keypoints
        self.per_scene_image_count[scene] += 1

    def add_query_ap(self, scene: str, result: QueryAPResult) -> None:
        """One query; without a true match it is counted as excluded."""
        checks.require(result, QueryAPResult, "result", "a QueryAPResult")
        if not result.has_potential_match:
            self.total_queries_excluded += 1
            self.per_scene_excluded[scene] += 1
            self.ranks_per_query.append(-1)
            return
        if not 0 <= result.ap <= 1:
            raise ValueRangeError(f"ap of a query lies from 0 to 1, found {result.ap!r}.")
        self.ap_per_query.append(result.ap)
        self.per_scene_ap.setdefault(scene, []).append(result.ap)
        self.ranks_per_query.append(result.rank_of_true_match)
        self.total_queries_processed += 1

    def merge(self, other: ExperimentMetrics) -> None:
        """Add everything that another container holds; one failure makes the whole a failure."""
        checks.require(other, ExperimentMetrics, "other", "an ExperimentMetrics")
        if other is self:
            raise UsageError("A container cannot be merged with itself: it would count twice.")
        for name in _LISTS:
            getattr(self, name).extend(getattr(other, name))
        for name in _LISTS_BY_SCENE:
            for scene, values in getattr(other, name).items():
                getattr(self, name).setdefault(scene, []).extend(values)
        for name in _COUNTS_BY_SCENE:
            getattr(self, name).update(getattr(other, name))
        for name in (*_COUNTS, "processing_time_ms"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if not other.success:
            self.success = False
            self.error_message = "; ".join(filter(None, (self.error_message, other.error_message)))

    def calculate_mean_precision(self) -> None:
        """Compute all means of what was added so far."""
        self.mean_precision = _mean(self.precisions_per_image)
        self.legacy_macro_precision_by_scene = _mean(map(_mean, self.per_scene_precisions.values()))
        self.true_map_micro = _mean(self.ap_per_query)
        self.true_map_macro_by_scene = _mean(map(_mean, self.per_scene_ap.values()))
        self.true_map_micro_including_zeros = _mean(self.ap_per_query, self.total_queries_excluded)
        self.true_map_macro_by_scene_including_zeros = _mean(map(self._with_zeros, self._queried))
        for category, start in (("viewpoint", "v_"), ("illumination", "i_")):
            scenes = (name for name in self.per_scene_ap if name.startswith(start))
            setattr(self, f"{category}_map", _mean(_mean(self.per_scene_ap[s]) for s in scenes))
        for k in (1, 5, 10):
            known = [rank for rank in self.ranks_per_query if rank >= 0]
            share = _mean([float(0 < rank <= k) for rank in known])
            setattr(self, f"precision_at_{k}", share)
            setattr(self, f"recall_at_{k}", share)

    @property
    def _queried(self) -> list[str]:
        return sorted({*self.per_scene_ap, *self.per_scene_excluded})

    def _with_zeros(self, scene: str) -> float:
        return _mean(self.per_scene_ap.get(scene, []), self.per_scene_excluded[scene])

    def scene_average_precision(self, scene: str) -> float:
        """The mean precision of the images of a scene; a scene without images is refused."""
        if scene not in self.per_scene_precisions:
            known = checks.name_few(sorted(self.per_scene_precisions))
            raise UsageError(f"There is no image of scene {scene!r}. Scenes: {known or 'none'}.")
        return _mean(self.per_scene_precisions[scene])

    @property
    def scene_names(self) -> list[str]:
        """All scenes of which an image or a query was added, in order."""
        return sorted({*self.per_scene_precisions, *self._queried})


_LISTS = ("precisions_per_image", "ap_per_query", "ranks_per_query")
_LISTS_BY_SCENE = ("per_scene_precisions", "per_scene_ap")
_COUNTS_BY_SCENE = (
    "per_scene_matches",
    "per_scene_keypoints",
    "per_scene_image_count",
    "per_scene_excluded",
)
_COUNTS = (
    "total_matches",
    "total_keypoints",
    "total_images_processed",
    "total_queries_processed",
    "total_queries_excluded",
)


def _mean(values: Iterable[float], zeros: int = 0) -> float:
    """The mean with so many zeros more, rounded once; NaN of nothing."""
    known = list(values)
    count = len(known) + zeros
    return math.fsum(known) / count if count else math.nan
