"""ExperimentMetrics by the document's names: its example, its fixtures, merging, errors."""

from __future__ import annotations

import math
import random

import pytest

from assay.errors import UsageError, ValueRangeError
from assay.vision.compat import (
    ExperimentMetrics,
    QueryAPResult,
    TrueAveragePrecision,
    compute_query_ap,
)

IDENTITY = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def _query(rank: int) -> QueryAPResult:
    return QueryAPResult(1 / rank, rank, True, 100) if rank else QueryAPResult()


def test_example_of_the_document() -> None:
    metrics = ExperimentMetrics()
    metrics.add_image_result("i_dome", 0.75, 120, 200)
    metrics.add_image_result("v_wall", 0.45, 80, 180)
    metrics.add_query_ap("i_dome", _query(1))
    metrics.calculate_mean_precision()
    assert metrics.mean_precision == pytest.approx(0.6)
    assert metrics.scene_average_precision("i_dome") == 0.75
    assert metrics.scene_names == ["i_dome", "v_wall"]
    assert metrics.per_scene_matches["i_dome"] == 120
    assert metrics.per_scene_keypoints["v_wall"] == 180
    assert metrics.per_scene_image_count["v_wall"] == 1
    assert (metrics.total_matches, metrics.total_images_processed) == (200, 2)
    assert metrics.illumination_map == 1.0
    assert math.isnan(metrics.viewpoint_map)


def test_the_calls_of_the_document_work_by_its_names() -> None:
    """Line by line as in "Usage Examples", "Scene-Level Analysis" and "Error Handling"."""
    metrics = ExperimentMetrics()
    metrics.addImageResult("i_dome", 0.75, 120, 200)
    metrics.addImageResult("v_wall", 0.45, 80, 180)
    ap_result = TrueAveragePrecision.computeQueryAP([5, 5], IDENTITY, [[5, 6], [9, 9]], [0.7, 0.2])
    assert isinstance(ap_result, TrueAveragePrecision.QueryAPResult)
    metrics.addQueryAP("i_dome", ap_result)
    metrics.calculateMeanPrecision()
    assert (metrics.mean_precision, metrics.true_map_micro) == (pytest.approx(0.6), 0.5)
    assert metrics.getSceneNames() == ["i_dome", "v_wall"]
    assert metrics.getSceneAveragePrecision("i_dome") == 0.75
    error_result = ExperimentMetrics.createError("Feature detection failed")
    metrics.merge(error_result)
    assert (metrics.success, metrics.error_message) == (False, "Feature detection failed")


def test_mean_of_precisions_of_the_document() -> None:
    metrics = ExperimentMetrics()
    for precision in (0.8, 0.6, 0.9):
        metrics.add_image_result("s", precision, 1, 1)
    metrics.calculate_mean_precision()
    assert metrics.mean_precision == pytest.approx(0.767, abs=5e-4)


def test_fixture_of_micro_and_macro() -> None:
    metrics = ExperimentMetrics()
    for scene, rank in (("1", 1), ("1", 3), ("2", 5), ("2", 0)):
        metrics.add_query_ap(scene, _query(rank))
    metrics.calculate_mean_precision()
    assert metrics.true_map_micro == pytest.approx(0.5111, abs=5e-5)
    assert metrics.true_map_micro_including_zeros == pytest.approx(0.3833, abs=5e-5)
    assert metrics.true_map_macro_by_scene == pytest.approx(0.4333, abs=5e-5)
    assert metrics.true_map_macro_by_scene_including_zeros == pytest.approx(0.3833, abs=5e-5)
    assert metrics.precision_at_1 == metrics.recall_at_1 == pytest.approx(1 / 3)
    assert (metrics.precision_at_5, metrics.precision_at_10) == (1.0, 1.0)
    assert (metrics.total_queries_processed, metrics.total_queries_excluded) == (3, 1)


def test_a_scene_of_excluded_queries_counts_zero() -> None:
    metrics = ExperimentMetrics()
    metrics.add_query_ap("a", _query(1))
    metrics.add_query_ap("b", _query(0))
    metrics.calculate_mean_precision()
    assert metrics.true_map_macro_by_scene == 1.0
    assert metrics.true_map_macro_by_scene_including_zeros == 0.5


def test_a_failed_query_counts_zero_everywhere() -> None:
    metrics = ExperimentMetrics()
    metrics.add_query_ap("a", _query(1))
    metrics.add_query_ap("a", QueryAPResult(0.0, 0, True))
    metrics.calculate_mean_precision()
    assert metrics.true_map_micro == metrics.precision_at_10 == 0.5


def test_merging_in_any_order_gives_the_same_bits() -> None:
    rng = random.Random(1)
    parts = []
    for scene in "abcde":
        part = ExperimentMetrics()
        for _ in range(50):
            part.add_query_ap(scene, _query(rng.randrange(12)))
            part.add_image_result(scene, rng.random(), 3, 4)
        parts.append(part)
    totals = []
    for order in (parts, parts[::-1]):
        whole = ExperimentMetrics()
        for part in order:
            whole.merge(part)
        whole.calculate_mean_precision()
        names = ("true_map_micro", "true_map_macro_by_scene", "mean_precision", "precision_at_5")
        totals.append([getattr(whole, name) for name in names])
    assert totals[0] == totals[1]


def test_failures_survive_merging() -> None:
    metrics = ExperimentMetrics()
    metrics.merge(ExperimentMetrics.create_error("no image"))
    metrics.merge(ExperimentMetrics.create_error("no keypoints"))
    assert not metrics.success
    assert metrics.error_message == "no image; no keypoints"
    with pytest.raises(UsageError, match="A container would count twice"):
        metrics.merge(metrics)


def test_nothing_is_not_zero() -> None:
    metrics = ExperimentMetrics()
    metrics.calculate_mean_precision()
    assert math.isnan(metrics.true_map_micro)
    assert math.isnan(metrics.precision_at_1)


def test_what_makes_no_sense_is_refused() -> None:
    metrics = ExperimentMetrics()
    with pytest.raises(ValueRangeError, match=r"precision is 75\. Pass 0 to 1"):
        metrics.add_image_result("s", 75, 1, 1)
    with pytest.raises(ValueRangeError, match="Found -1 and 2"):
        metrics.add_image_result("s", 0.5, -1, 2)
    with pytest.raises(UsageError, match="must be a QueryAPResult"):
        metrics.add_query_ap("s", 0.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Unknown scene 'x'"):
        metrics.scene_average_precision("x")


@pytest.mark.parametrize(
    ("distances", "ties", "ap"),
    [
        ([0.5, 0.1, 0.9], "best", 0.5),
        ([0.5, 0.5, 0.5], "best", 1.0),
        ([0.5, 0.5, 0.5], "midrank-up", 0.5),
        ([0.5, 0.5, 0.5], "expected", (1 + 1 / 2 + 1 / 3) / 3),
    ],
)
def test_ap_of_a_query(distances: list[float], ties: str, ap: float) -> None:
    targets = [[10, 12.9], [50, 50], [90, 10]]
    found = compute_query_ap([10, 10], IDENTITY, targets=targets, distances=distances, ties=ties)
    assert found.ap == pytest.approx(ap)
    assert found.has_potential_match


def test_a_query_without_a_near_target_has_no_match() -> None:
    targets = [[10, 13.1]]
    found = compute_query_ap([10, 10], IDENTITY, targets=targets, distances=[0.1])
    assert found == QueryAPResult(total_candidates=1)
    within = compute_query_ap([10, 10], IDENTITY, targets=[[10, 13]], distances=[0.1])
    assert within.has_potential_match  # the tolerance is inclusive
