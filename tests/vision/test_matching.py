"""Image matching, checked by plain loops, by hand and on the Oxford scenes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")
import cv2

import assay.store
from assay.errors import UsageError
from assay.stats import interval
from assay.tables.table import Words
from assay.vision import (
    Estimator,
    KeypointSettings,
    MatchedPair,
    Matcher,
    MatchingReport,
    MatchingResult,
    Scene,
    describe_image,
    error_auc,
    experiment_from,
    find_scenes,
    match_images,
)
from assay.vision.keypoints import draw
from assay.vision.matching import PIXELS, choose_matches, corner_error, match_pair
from assay.vision.pairs import sort_by_place, usable_rows
from assay.vision.ranks import nearest_two

from .small_scenes import small_scenes

MATCHERS = ("nn", "mutual", "ratio", "mutual-ratio:0.9")


def _distance_table(left: Any, right: Any) -> Any:
    if left.dtype == np.uint8:
        x, y = (np.unpackbits(rows, axis=1).astype(float) for rows in (left, right))
        return np.abs(x[:, None] - y[None]).sum(axis=2)
    x, y = left.astype(float), right.astype(float)
    return np.sqrt(((x[:, None] - y[None]) ** 2).sum(axis=2))


def _plain_matches(apart: Any, name: str) -> list[tuple[int, int]]:
    """Every row's nearest, kept or not by the rules of the matcher."""
    found = []
    limit = float(name.partition(":")[2] or 0.8)
    for row in range(len(apart)):
        near = int(np.argmin(apart[row]))
        second = sorted(apart[row])[1]
        if "mutual" in name and int(np.argmin(apart[:, near])) != row:
            continue
        if "ratio" in name and not apart[row, near] < limit * second:
            continue
        found.append((row, near))
    return found


def _moved(points: Any, H: Any) -> Any:
    rows = np.concatenate([points, np.ones((len(points), 1))], axis=1) @ np.asarray(H).T
    return rows[:, :2] / rows[:, 2:]


def _in_image(points: Any, shape: Any) -> Any:
    x, y = points.T
    return (x >= 0) & (x <= shape[1] - 1) & (y >= 0) & (y <= shape[0] - 1)


def _plain_curve(matches: list[tuple[float, bool]], n_true: int) -> list[float]:
    """Precision at each hundredth of recall: walk from the nearest match, wrong ones first."""
    reached = []
    for place, (_, right) in enumerate(matches, 1):
        if right:
            reached.append((len(reached) + 1) / place)
    needed = [max(1, math.ceil(step * n_true / 100 - 1e-9)) for step in range(101)]
    return [reached[n - 1] if n <= len(reached) else 0.0 for n in needed]


def _plain_pair(scene: Scene, k: int, first: Any, other: Any, name: str) -> dict[str, Any]:
    """All numbers of a pair from explicit tables of distances, as the papers define them."""
    H = scene.homographies[k]
    left, right = first.described.keypoints.xy, other.described.keypoints.xy
    apart = _distance_table(usable_rows(first), usable_rows(other))
    ahead, back = _moved(left, H), _moved(right, np.linalg.inv(H))
    forward = _plain_matches(apart, name)
    backward = _plain_matches(apart.T, name)
    errors = np.array([math.dist(ahead[a], right[b]) for a, b in forward])
    every, others = first.keypoints.xy, other.keypoints.xy
    both = _moved(every, H)[_in_image(_moved(every, H), other.shape)]
    here = others[_in_image(_moved(others, np.linalg.inv(H)), first.shape)]
    table = np.linalg.norm(both[:, None] - here[None], axis=2)
    seen = _in_image(ahead, other.shape)
    found: dict[str, Any] = {"matches": len(forward), "accuracy": [], "repeatability": []}
    found |= {"score": [], "chance": []}
    whole = np.linalg.norm(ahead[:, None] - right[None], axis=2)
    for t in PIXELS:
        found["accuracy"].append(float(np.mean(errors <= t)) if len(errors) else 0.0)
        repeated = (table.min(axis=1) <= t).sum() + (table.min(axis=0) <= t).sum()
        found["repeatability"].append(repeated / (len(both) + len(here)))
        ones = sum(seen[a] and math.dist(ahead[a], right[b]) <= t for a, b in forward)
        inner = _in_image(back, first.shape)
        twos = sum(inner[b] and math.dist(back[b], left[a]) <= t for b, a in backward)
        found["score"].append((ones / len(both) + twos / len(here)) / 2)
        found["chance"].append(float((whole <= t).mean()))
    found["precision"] = _plain_curve(
        sorted((apart[a, b], bool(e <= 3)) for (a, b), e in zip(forward, errors, strict=True)),
        int((whole.min(axis=1) <= 3).sum()),
    )
    points = [np.array([left[a] for a, _ in forward]), np.array([right[b] for _, b in forward])]
    if len(forward) < 4:
        return {**found, "corners": [math.inf] * 3}
    height, width = first.shape[:2]
    corners = np.array([[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1]], float)
    rows = sorted(map(tuple, np.hstack(points).tolist()), key=lambda row: row[::-1])
    found["corners"] = []
    for seed in range(3):
        order = sorted(range(len(rows)), key=draw(seed, "matches", len(rows)).tolist().__getitem__)
        shuffled = np.array([rows[place] for place in order])
        estimated = cv2.findHomography(shuffled[:, :2], shuffled[:, 2:], cv2.RANSAC, 3.0)[0]
        moved = _moved(corners, H) - _moved(corners, estimated)
        found["corners"].append(float(np.linalg.norm(moved, axis=1).mean()))
    return found


def _check_scene(scene: Scene, k: int, descriptor: str, keypoints: KeypointSettings) -> None:
    first, other = (
        describe_image(scene, number, keypoints=keypoints, descriptor=descriptor)
        for number in (1, k)
    )
    metric = "hamming" if first.described.kind == "binary" else "l2"
    found = match_pair(
        scene,
        k,
        (first, other),
        matchers=tuple(map(Matcher.of, MATCHERS)),
        metric=metric,
        estimator=Estimator(repeats=3),
    )
    for name, pair in zip(MATCHERS, found, strict=True):
        plain = _plain_pair(scene, k, sort_by_place(first), sort_by_place(other), name)
        assert pair.matches == plain["matches"]
        assert name != "nn" or pair.matches > 50, "too few matches to prove anything"
        for key in ("accuracy", "repeatability", "score", "chance", "precision"):
            assert getattr(pair, key).tolist() == pytest.approx(plain[key], abs=1e-12), (name, key)
        assert pair.corners.tolist() == pytest.approx(plain["corners"], rel=1e-9)


@pytest.mark.parametrize("descriptor", ["SIFT", "ORB"])
def test_a_pair_equals_plain_loops(descriptor: str) -> None:
    settings = KeypointSettings(detector="orb", border=20, strongest=80)
    for scene in small_scenes():
        _check_scene(scene, 2, descriptor, settings)


@pytest.mark.parametrize("name", ["graf", pytest.param("leuven", marks=pytest.mark.slow)])
def test_oxford_pairs_equal_plain_loops(name: str, data_dir: Callable[[str], Path]) -> None:
    scenes = {scene.name: scene for scene in find_scenes(data_dir("oxford_affine"))}
    _check_scene(scenes[name], 2, "SIFT", KeypointSettings(strongest=150))


def _superglue_auc(errors: Any, threshold: float) -> float:
    """The area by many narrow strips under straight lines between the points of the curve."""
    ordered = np.sort(errors)
    known = ordered[ordered < threshold]
    x = np.concatenate([[0.0], known])
    y = np.arange(len(x)) / len(errors)
    edges = np.linspace(0, threshold, 200_001)
    middles = (edges[1:] + edges[:-1]) / 2
    return float(np.interp(middles, x, y).mean())


def test_the_area_under_errors_is_superglues_and_near_the_mean_of_pairs() -> None:
    rng = np.random.default_rng(3)
    for n in (1, 2, 7, 40):
        errors = np.append(rng.gamma(2.0, 1.5, n), np.inf)
        for threshold in (1.0, 3.0, 5.0):
            found = error_auc(errors, threshold)
            assert found == pytest.approx(_superglue_auc(errors, threshold), abs=2e-5)
            steps = float(np.maximum(0, 1 - errors / threshold).mean())
            assert 0 <= found - steps <= 1 / (2 * len(errors)) + 1e-12
    assert error_auc(np.zeros(3), 3.0) == 1.0
    assert error_auc(np.full(3, np.inf), 3.0) == 0.0
    assert math.isnan(error_auc(np.zeros(0), 3.0))


def test_matchers_by_name() -> None:
    assert Matcher.of("nn") == Matcher("nn")
    assert Matcher.of("ratio").ratio == 0.8
    assert Matcher.of("mutual-ratio:0.9") == Matcher("mutual-ratio:0.9", True, 0.9)
    for wrong in ("mutal", "nn:0.8", "ratio:", "ratio:0", "ratio:1.5", "ratio:x", "mutual:0.9"):
        with pytest.raises(UsageError, match="matcher"):
            Matcher.of(wrong)
    with pytest.raises(UsageError, match="mutual"):
        Matcher.of("mutal")
    with pytest.raises(UsageError, match="ransac"):
        Estimator("ransack")


def test_one_keypoint_and_none() -> None:
    one, none = np.ones((1, 2), np.float32), np.zeros((0, 2), np.float32)
    for left, right, n in ((one, one, 1), (one, none, 0), (none, one, 0)):
        ahead, back = nearest_two(left, right, "l2"), nearest_two(right, left, "l2")
        for name in MATCHERS:
            assert len(choose_matches(ahead, back, Matcher.of(name), "l2")) == n


@pytest.mark.parametrize("name", ["ransac", "magsac"])
def test_estimators_find_a_homography_among_wrong_matches(name: str) -> None:
    rng = np.random.default_rng(0)
    H = np.array([[1.1, 0.05, 12.0], [-0.04, 0.95, 7.0], [1e-4, 5e-5, 1.0]])
    left = rng.uniform(0, 300, (120, 2))
    right = _moved(left, H)
    right[:40] = rng.uniform(0, 300, (40, 2))
    estimates = Estimator(name, repeats=4).estimate(left, right)
    assert [corner_error(H, estimate, (300, 300)) < 0.01 for estimate in estimates] == [True] * 4
    assert Estimator(name, repeats=2).estimate(left[:3], right[:3]) == [None, None]
    assert corner_error(H, None, (300, 300)) == math.inf
    behind = np.array([[1.0, 0, 0], [0, 1, 0], [-0.01, 0, 1]])
    assert math.isnan(corner_error(behind, H, (300, 300)))


@pytest.mark.parametrize("name", ["ransac", "magsac"])
def test_estimates_do_not_depend_on_the_order_of_matches(name: str) -> None:
    rng = np.random.default_rng(1)
    left = rng.uniform(0, 300, (60, 2))
    right = left + rng.normal(0, 2, left.shape)
    right[:45] = rng.uniform(0, 300, (45, 2))
    estimates = Estimator(name).estimate(left, right)
    assert len(estimates) == 5
    assert len({np.asarray(estimate).tobytes() for estimate in estimates}) > 1, "nothing varies"
    for _ in range(3):
        order = rng.permutation(60)
        for estimate, other in zip(
            estimates, Estimator(name).estimate(left[order], right[order]), strict=True
        ):
            assert np.array_equal(np.asarray(estimate), np.asarray(other))


@pytest.mark.parametrize("descriptor", ["SIFT", "ORB"])
def test_nothing_depends_on_the_order_of_keypoints(descriptor: str) -> None:
    scene = small_scenes()[2]
    keypoints = KeypointSettings(detector="orb", border=20, strongest=120)
    sides = [describe_image(scene, k, keypoints=keypoints, descriptor=descriptor) for k in (1, 3)]
    metric = "hamming" if descriptor == "ORB" else "l2"
    rng = np.random.default_rng(0)

    def shuffled(side: Any) -> Any:
        order = rng.permutation(len(side.described))
        rows, vectors = usable_rows(side)[order], side.described.vectors
        if metric == "hamming":
            # Some are equal: which of them is nearest must not depend on the order either.
            rows = rows & 0xF0
        moved = replace(vectors, packed=rows) if metric == "hamming" else rows
        points = side.described.keypoints.take(order)
        return replace(side, described=replace(side.described, keypoints=points, vectors=moved))

    def match() -> list[Any]:
        return match_pair(
            scene,
            3,
            (shuffled(sides[0]), shuffled(sides[1])),
            matchers=tuple(map(Matcher.of, MATCHERS)),
            metric=metric,
            estimator=Estimator(),
        )

    for pair, other in zip(match(), match(), strict=True):
        for name, value in vars(pair).items():
            assert np.array_equal(value, getattr(other, name), equal_nan=name == "precision"), name


def test_spreads_are_the_deviations_of_means_over_repeats() -> None:
    errors = np.array([[0.5, 2.0, 4.0], [math.inf, 1.0, 1.0], [math.nan] * 3])
    zeros = np.zeros(len(PIXELS))
    pairs = tuple(
        MatchedPair("s", f"1-{k}", "", 9, 9, zeros, zeros, zeros, zeros, row, np.zeros(101))
        for k, row in enumerate(errors, 2)
    )
    result = MatchingResult("d", "nn", pairs)
    values, spreads = result.values(), result.spreads()
    assert values["accuracy@3"][:2].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert math.isnan(values["accuracy@3"][2])
    assert values["AUC@1"][:2].tolist() == pytest.approx([0.5 / 3, 0.0])
    # Of the two pairs with a true place: one, two and one are within 3 pixels.
    assert spreads["accuracy@3"] == pytest.approx(statistics.stdev([0.5, 1.0, 0.5]))
    areas = [error_auc(column[:2], 5.0) for column in errors.T]
    assert result.trapezoids()["AUC@5"] == pytest.approx(statistics.mean(areas))
    alone = MatchingResult("d", "nn", tuple(replace(p, corners=p.corners[:1]) for p in pairs))
    assert math.isnan(alone.spreads()["AUC@3"])


def _experiment(**more: Any) -> Any:
    return experiment_from(
        {
            "dataset": {"path": "unused"},
            "keypoints": {"detector": "orb", "border": 20, "strongest": 60},
            "descriptors": ["ORB", "SIFT"],
            "evaluation": {"resamples": 300},
            **more,
        }
    )


@pytest.fixture(scope="module")
def report() -> MatchingReport:
    return match_images(_experiment(), matchers=("nn", "mutual"), scenes=small_scenes())


def test_means_are_over_pairs_and_intervals_over_scenes(report: MatchingReport) -> None:
    assert list(report.summaries) == ["ORB nn", "ORB mutual", "SIFT nn", "SIFT mutual"]
    result = report.results[1]
    [whole, *kinds] = report.summaries["ORB mutual"]
    assert [one.category for one in kinds] == ["illumination", "viewpoint"]
    assert (whole.pairs, whole.scenes) == (6, 3)
    values = [pair.accuracy[2] for pair in result.pairs]
    scenes = [pair.scene for pair in result.pairs]
    expected = interval(values, clusters=scenes, bounds=(0.0, 1.0), resamples=300)
    assert whole.intervals["MMA@3"] == expected
    assert expected.low < expected.estimate < expected.high
    assert whole.chance["MMA@3"] < 0.05 < whole.intervals["MMA@3"].estimate
    errors = np.array([pair.corners for pair in result.pairs])
    assert errors.shape == (6, 5)
    assert whole.intervals["accuracy@3"].estimate == pytest.approx(np.mean(errors <= 3))
    areas = [error_auc(repeat, 3.0) for repeat in errors.T]
    assert whole.trapezoids["AUC@3"] == pytest.approx(np.mean(areas))
    assert whole.spreads["accuracy@3"] == pytest.approx((errors <= 3).mean(axis=0).std(ddof=1))
    curve = [whole.intervals[f"MMA@{pixels}"].estimate for pixels in PIXELS]
    assert curve == sorted(curve)


def test_records_are_stored_with_scenes_as_clusters(report: MatchingReport, tmp_path: Path) -> None:
    records = report.records()
    assert [one.task for one in records] == ["matching"] * 4
    assert records[0].clusters == "scene"
    with assay.store.open(str(tmp_path / "runs.db")) as store:
        saved = store.save_all(records)
        run = store.run(saved[1].id)
    found = {(one.measure, one.average, one.subset): one for one in run.aggregates}
    own = report.summaries["ORB mutual"][0]
    for name in ("MMA@3", "repeatability@3", "score@3", "accuracy@3", "AUC@5"):
        stored = found[name, "pairs", ""]
        assert stored.value == own.intervals[name].estimate
        assert (stored.low, stored.high) == (own.intervals[name].low, own.intervals[name].high)
        assert stored.clusters == "scene"
    assert found["AUC@3", "trapezoid", ""].value == own.trapezoids["AUC@3"]


def test_verdicts_name_the_measure_of_the_field(report: MatchingReport) -> None:
    assert report.comparison is not None
    assert list(report.comparison.verdicts) == ["MMA@3"]
    words = [str(part.text) for part in report.page() if isinstance(part, Words)]
    assert any("on MMA@3" in one for one in words)
    assert not any("SetP" in one for one in words)
    assert list(report.to_dict()["comparison"]["measures"]) == ["MMA@3"]


def test_threads_change_no_number(report: MatchingReport) -> None:
    again = match_images(_experiment(), matchers=("nn", "mutual"), scenes=small_scenes(), threads=3)
    assert again.to_dict() == report.to_dict()


def test_a_pair_that_fails_is_listed_and_the_others_count(tmp_path: Path) -> None:
    scene = small_scenes()[0]
    black = np.zeros_like(scene.image(1))
    broken = Scene(scene.name, scene.category, (*scene.images[:2], black), scene.homographies)
    found = match_images(_experiment(), scenes=[broken, small_scenes()[1]])
    assert [(name, one.pair) for name, one in found.failures] == [("ORB", "1-3"), ("SIFT", "1-3")]
    assert [one.pairs for one in found.summaries["ORB mutual"]] == [3, 1, 2]
    assert "FAILED ORB i_camera 1-3" in "\n".join(found.remarks)
    nothing = match_images(
        _experiment(descriptors=["ORB"]),
        scenes=[Scene("dark", "viewpoint", (black, black), {2: np.eye(3)})],
    )
    assert nothing.records() == []
    assert nothing.comparison is None
    assert nothing.tables()[0].rows == ()
    assert len(nothing.page()) > 2
    assert nothing.to_dict()["failed"] == 1


def test_pairs_and_matchers_that_are_not_there_are_refused() -> None:
    with pytest.raises(UsageError, match="no image 9"):
        match_images(_experiment(evaluation={"pairs": [9]}), scenes=small_scenes())
    with pytest.raises(UsageError, match="Matching needs a matcher and a scene"):
        match_images(_experiment(), matchers=(), scenes=small_scenes())
