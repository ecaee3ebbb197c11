"""Verification and retrieval with ternary labels, FPR@95 and image retrieval, by brute force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assay.errors import UsageError
from assay.stats.confidence import jackknife_interval
from assay.stats.samples import resample_sums
from assay.vision import Candidates, PooledResult, count_candidates
from assay.vision.matching import count_matches, evaluate_image_retrieval
from assay.vision.patches import (
    JudgedPairs,
    PatchScene,
    error_rate,
    evaluate_patches,
    read_patch_scenes,
    resample_rates,
)
from assay.vision.settings import default_conventions
from assay.vision.verification import RULES

from .samples import distances

Labelled = list[tuple[float, int]]


def _vectors(rng: Any, metric: str, n: int) -> Any:
    if metric == "hamming":
        return rng.integers(0, 256, (n, 1)).astype(np.uint8)
    return rng.integers(0, 3, (n, 3)).astype(np.float32)


def _scene(rng: Any, metric: str, name: str, category: str) -> tuple[Any, list[Labelled]]:
    """A scene and, the plain way, the labelled candidates of each of its queries."""
    queries, others = _vectors(rng, metric, 20), _vectors(rng, metric, 9)
    images = [Candidates(_vectors(rng, metric, 15), rng.integers(-1, 15, 20)) for _ in range(3)]
    counts = count_candidates(
        queries, images, others, task="verification", scene=name, category=category, metric=metric
    )
    lists = []
    for i, query in enumerate(queries):
        found: Labelled = []
        for image in images:
            apart = distances(query[None], image.vectors)[0]
            found += [(d, int(image.truth[i] == j)) for j, d in enumerate(apart)]
        found += [(d, -1) for d in distances(query[None], others)[0]]
        lists.append(found)
    return counts, lists


def _sorted_ap(labelled: Labelled, rule: str, ties: str) -> float:
    """AP after an explicit sort, wrong before right among ties or the other way round."""
    kept = [(d, y == 1) for d, y in labelled if rule == "program" or y != 0]
    if not any(right for _, right in kept):
        return np.nan
    kept.sort(key=lambda one: (one[0], one[1] if ties == "worst" else not one[1]))
    right = np.array([y for _, y in kept])
    return float((np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean())


@pytest.mark.parametrize("metric", ["l2", "hamming"])
@pytest.mark.parametrize("ties", ["best", "worst"])
def test_pooled_and_single_lists_equal_an_explicit_sort(metric: str, ties: str) -> None:
    rng = np.random.default_rng(1)
    scenes = {name: _scene(rng, metric, name, "view") for name in ("a b", "c")}
    result = PooledResult(
        tuple(counts for counts, _ in scenes.values()), default_conventions().replace(ties=ties)
    )
    for rule in RULES:
        wanted = [
            _sorted_ap([one for each in lists for one in each], rule, ties)
            for _, lists in scenes.values()
        ]
        np.testing.assert_allclose(result.pooled(rule)["AP"], wanted)
        assert result.mean(rule) == pytest.approx(np.mean(wanted))
        single = [[_sorted_ap(each, rule, ties) for each in lists] for _, lists in scenes.values()]
        found = result.per_query(rule)
        by_scene = [found["AP"][found.groups["scene"] == name] for name in scenes]
        for ours, theirs in zip(by_scene, single, strict=True):
            np.testing.assert_allclose(np.sort(ours), np.sort(theirs))
        assert result.query_mean(rule) == pytest.approx(np.mean([np.nanmean(s) for s in single]))


def test_labels_are_counted_and_categories_kept_apart() -> None:
    rng = np.random.default_rng(2)
    counts = [_scene(rng, "l2", name, name[0]) for name in ("v_a", "i_b")]
    result = PooledResult(tuple(one for one, _ in counts), default_conventions())
    labels = result.counts()
    assert labels["+1"] + labels["0"] == 2 * 20 * 3 * 15
    assert labels["-1"] == 2 * 20 * 9
    assert result.counts("v")["-1"] == 20 * 9
    assert result.mean(category="v") == pytest.approx(result.pooled()["AP"][1])


def test_zeros_are_ignored_by_the_paper_and_wrong_in_the_program() -> None:
    """One query at 0; candidates of the scene at 1 and 2, the true one; a distractor at 3."""
    counts = count_candidates(
        np.zeros((1, 1), np.float32) + 5,
        [Candidates(np.array([[6.0], [7.0]]), np.array([1]))],
        np.array([[8.0]]),
        task="retrieval",
        scene="s",
    )
    result = PooledResult((counts,), default_conventions())
    assert result.mean("paper") == 1.0
    assert result.mean("program") == 0.5
    with pytest.raises(UsageError, match="paper or program"):
        result.mean("neither")


def test_matches_of_failed_descriptors_are_lost_not_left_out() -> None:
    """Two queries at 5; the match of the second, or the second itself, has no descriptor."""
    rows, far = np.array([[5.0], [5.0]]), np.array([[9.0]])
    images = [Candidates(np.array([[5.5]]), np.array([0, -2]))]
    lost_match = count_candidates(rows, images, far, task="retrieval", scene="s")
    images = [Candidates(np.array([[5.5], [5.6]]), np.array([0, 1]))]
    lost_query = count_candidates(
        rows, images, far, task="retrieval", scene="s", failed=np.array([False, True])
    )
    for counts in (lost_match, lost_query):
        result = PooledResult((counts,), default_conventions())
        assert result.counts()["+1"] == 2
        assert result.mean("paper") == 0.5
        assert result.query_mean("paper") == 0.5


def test_a_constant_descriptor_verifies_at_chance() -> None:
    same = np.full((30, 4), 2.5, np.float32)
    images = [Candidates(same, np.arange(30))]
    counts = count_candidates(same, images, same, task="verification", scene="s")
    result = PooledResult((counts,), default_conventions())
    assert result.mean("paper") < 0.06  # one of 31 candidates is right
    assert result.mean("program") < 0.03


def test_false_positive_rate_at_recall() -> None:
    near = [JudgedPairs(number, np.arange(float(number), 100.0, 4)) for number in range(4)]
    far = [JudgedPairs(0, np.array([93.5, 94.0])), JudgedPairs(1, np.array([94.5, 200.0]))]
    found = error_rate(near, far, 4)
    assert found.estimate == 0.5  # 95 of 100 lie at 94 or below
    assert found.low < 0.5 < found.high
    assert np.isnan(error_rate(near, [], 4).estimate)
    few = error_rate(near[:2], far, 2)
    assert few.estimate == 0.0  # 48 of 50 lie at 93 or below
    assert "too few groups (2)" in few.note
    assert np.isnan([few.low, few.high]).all()


def _ragged(rng: np.random.Generator, n_scenes: int) -> tuple[list[Any], list[Any]]:
    """Whole distances of scenes of different sizes: ties everywhere."""
    sizes = rng.integers(1, 40, n_scenes)
    shifts = rng.normal(0, 2, n_scenes)
    pairs = list(zip(sizes, shifts, strict=True))
    near = [np.rint(rng.normal(20 + shift, 5, size)) for size, shift in pairs]
    return near, [np.rint(rng.normal(32 + shift, 4, size)) for size, shift in pairs]


@pytest.mark.parametrize("n_scenes", [3, 7])
def test_resampled_rates_are_those_of_the_scenes_put_together(n_scenes: int) -> None:
    near, far = _ragged(np.random.default_rng(n_scenes), n_scenes)
    rates = resample_rates(near, far, 50, 3)
    drawn = resample_sums(np.eye(n_scenes, dtype=np.int64), np.array([0, n_scenes]), 50, 3)
    for rate, times in zip(rates, drawn, strict=True):
        scenes = np.repeat(np.arange(n_scenes), times)
        right, wrong = (np.sort(np.concatenate([part[s] for s in scenes])) for part in (near, far))
        limit = right[math.ceil(0.95 * len(right)) - 1]
        assert rate == pytest.approx(sum(d <= limit for d in wrong.tolist()) / len(wrong))
    assert len(set(rates.tolist())) > 5


def test_an_interval_of_rates_with_ties_is_no_jump_of_one_distance() -> None:
    """The limit is one distance or the next, by half of the scenes: the rate is 0.45 or 0.5."""
    near = [JudgedPairs(s, np.repeat([10.0, 20.0], [20 - s % 2 * 2, s % 2 * 2])) for s in range(40)]
    far = [JudgedPairs(s, np.repeat([9.0, 15.0, 30.0], [9, 1, 10])) for s in range(40)]
    found = error_rate(near, far, 40)
    assert found.estimate == 0.45  # 760 of 800 are within 10, as many as are needed
    left_out = [
        error_rate(*([_renumber(j, s) for j in side if j.scene != s] for side in (near, far)), 39)
        for s in range(40)
    ]
    assert {rate.estimate for rate in left_out} == {0.45, 0.5}
    wide = jackknife_interval(found.estimate, np.array([rate.estimate for rate in left_out]))
    assert wide.high - wide.low > 0.5
    assert 0.4 < found.low < 0.45
    assert 0.5 < found.high < 0.55


def _renumber(part: JudgedPairs, gone: int) -> JudgedPairs:
    """Number the scenes anew where one is gone."""
    return part._replace(scene=part.scene - (part.scene > gone))


@pytest.mark.slow
def test_intervals_of_rates_cover_the_rate_of_all_scenes() -> None:
    """Bits tie often: 88 to 98 % of intervals hold the rate of a very large collection."""
    rng = np.random.default_rng(0)

    def scenes(n: int) -> tuple[list[JudgedPairs], list[JudgedPairs]]:
        near, far = _ragged(rng, n)
        return ([JudgedPairs(s, rows) for s, rows in enumerate(side)] for side in (near, far))  # type: ignore[return-value]

    near, far = _ragged(rng, 20_000)
    limit = np.quantile(np.concatenate(near), 0.95, method="inverted_cdf")
    truth = float((np.concatenate(far) <= limit).mean())
    for n in (6, 30):
        held = [
            found.low <= truth <= found.high
            for found in (error_rate(*scenes(n), n, resamples=1000) for _ in range(300))
        ]
        assert 0.87 < np.mean(held) < 0.995, (n, np.mean(held))


def test_image_retrieval_finds_the_images_of_the_scene() -> None:
    rng = np.random.default_rng(0)
    images = {}
    for scene in ("b two", "a"):
        base = rng.normal(size=(40, 8))
        images[scene] = [(base + 0.05 * k * rng.normal(size=base.shape)) for k in range(4)]
    found = evaluate_image_retrieval(images, conventions=default_conventions())
    assert found["AP"].tolist() == [1.0, 1.0]
    assert count_matches(images["a"][0], images["a"][1]) > 30
    assert count_matches(images["a"][0], images["b two"][1]) < 15
    constant = {scene: [np.ones((5, 3))] * 3 for scene in "xyz"}
    chance = evaluate_image_retrieval(constant, conventions=default_conventions())
    assert chance.mean()["AP"] < 0.5  # two of eight images are right


def _patch_scenes(rng: Any) -> list[PatchScene]:
    scenes = []
    for name, kind in (("v_a", "viewpoint"), ("i_b", "illumination")):
        ref = rng.normal(size=(60, 16)).astype(np.float32)
        noise = {"e1": 0.05, "h1": 0.5, "t1": 1.5}
        others = {k: ref + s * rng.normal(size=ref.shape).astype("f") for k, s in noise.items()}
        scenes.append(PatchScene(name, kind, {"ref": ref, **others}))
    return scenes


def test_patches_by_index() -> None:
    scenes = _patch_scenes(np.random.default_rng(0))
    found = evaluate_patches(scenes, seed=3)
    ranks = []
    for scene in scenes:
        for key in ("e1", "h1", "t1"):
            apart = distances(scene.vectors["ref"], scene.vectors[key])
            ranks += [1 + (row < row[i]).sum() for i, row in enumerate(apart)]
    assert found.patch_map == pytest.approx(np.mean(1 / np.array(ranks)))
    assert found.fpr95["same/easy"] == 0.0 < found.fpr95["same/tough"]
    assert found.fpr95 == evaluate_patches(scenes, seed=3).fpr95
    assert found.result.matching is not None
    assert len(found.result.matching.query_ids) == 6


def test_patch_files(tmp_path: Any) -> None:
    for scene in _patch_scenes(np.random.default_rng(0)):
        folder = tmp_path / scene.name
        folder.mkdir()
        for key, rows in scene.vectors.items():
            np.savetxt(folder / f"{key}.csv", rows, delimiter=";" if key == "ref" else ",")
        np.save(folder / "e1.npy", scene.vectors["e1"])
        (folder / "e1.csv").unlink()
    read = read_patch_scenes(tmp_path)
    assert [scene.category for scene in read] == ["illumination", "viewpoint"]
    wanted = evaluate_patches(_patch_scenes(np.random.default_rng(0)))
    assert evaluate_patches(read).patch_map == pytest.approx(wanted.patch_map)


def test_patches_by_difficulty_are_those_of_its_files_alone() -> None:
    rng = np.random.default_rng(4)
    scenes = []
    for name in ("v_a", "i_b"):
        ref = rng.normal(size=(30, 6)).astype(np.float32)
        noise = {"e1": 0.3, "e2": 0.3, "h1": 0.8, "t1": 1.6}
        moved = {key: ref + n * rng.normal(size=ref.shape) for key, n in noise.items()}
        rows = {"ref": ref, **{key: own.astype(np.float32) for key, own in moved.items()}}
        scenes.append(PatchScene(name, "", rows))
    found = evaluate_patches(scenes).by_difficulty
    assert list(found) == ["patch mAP", "matching mAP"]
    for letter, difficulty in (("e", "easy"), ("h", "hard"), ("t", "tough")):
        some = [
            PatchScene(
                one.name,
                "",
                {key: own for key, own in one.vectors.items() if key[0] in ("r", letter)},
            )
            for one in scenes
        ]
        alone = evaluate_patches(some)
        assert found["patch mAP"][difficulty] == alone.patch_map
        assert alone.result.matching is not None
        matching = alone.result.matching.mean(empty="skip")["AP"]
        assert found["matching mAP"][difficulty] == matching
    assert found["patch mAP"]["easy"] > found["patch mAP"]["hard"] > found["patch mAP"]["tough"]
