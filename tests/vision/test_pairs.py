"""Pairs: rows that belong together, true matches, and failures that are counted."""

from __future__ import annotations

import sys
import types
from dataclasses import replace

import numpy as np
import pytest

from assay.errors import InputError, UsageError
from assay.search.engine import Codes
from assay.vision import (
    DESCRIPTORS,
    KeypointSettings,
    Scene,
    Status,
    describe_image,
    make_pair,
    match_truth,
)
from assay.vision.descriptors import describe
from assay.vision.ground_truth import project_points
from assay.vision.scenes import keypoints_of, make_demo_scenes

FEW = KeypointSettings(strongest=60)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return make_demo_scenes(["v_coffee"], n_images=3)[0]


@pytest.mark.parametrize("descriptor", ["SIFT", "ORB"])
def test_a_pair_is_made_of_its_parts(scene, descriptor):
    pair = make_pair(scene, 3, keypoints=FEW, descriptor=descriptor, taus=(1, 3))
    for k, side in ((1, pair.query), (3, pair.target)):
        keypoints = keypoints_of(scene, k, scene.image(k), FEW)
        alone = describe(scene.image(k), keypoints, descriptor)
        assert side.keypoints.ids == alone.keypoints.ids
        mine, theirs = (
            vectors.packed if isinstance(vectors, Codes) else vectors
            for vectors in (side.vectors, alone.vectors)
        )
        np.testing.assert_array_equal(mine, theirs)
    truth = match_truth(
        pair.query.keypoints.xy,
        pair.target.keypoints.xy,
        scene.homographies[3],
        target_shape=scene.image(3).shape,
    )
    np.testing.assert_array_equal(pair.truths[3.0].target, truth.target)
    assert pair.truth is pair.truths[1.0]
    with pytest.raises(ValueError, match="read-only"):
        pair.truth.target[0] = 5
    assert pair.counts[3.0].matched == truth.count(Status.MATCHED) > 10
    assert sum(pair.counts[3.0]) == 60
    assert set(pair.seconds) == {"read", "keypoints", "describe", "truth"}
    assert pair.failures == ()


@pytest.mark.parametrize("source", ["detect", "project"])
def test_descriptors_on_shared_keypoints_are_asked_the_same_queries(scene, source):
    settings = KeypointSettings(source=source, shared_with="orb", border=20)
    left, right = (
        make_pair(scene, 2, keypoints=replace(settings, shared_side=side))
        for side in ("left", "right")
    )
    assert left.query_ids == right.query_ids
    assert not np.array_equal(left.query.keypoints.xy, right.query.keypoints.xy)
    matched = [pair.truth.status == Status.MATCHED for pair in (left, right)]
    assert (matched[0] == matched[1]).mean() > 0.8
    for pair, found in zip((left, right), matched, strict=True):
        places = project_points(pair.query.keypoints.xy, scene.homographies[2])
        height, width = scene.image(2).shape[:2]
        edge = np.minimum(places, np.array([width, height]) - 1 - places).min(axis=1)
        if source == "project":  # nothing but the border decides
            np.testing.assert_array_equal(found, edge >= 20)


def test_a_reference_is_made_once_for_all_pairs(scene):
    reference = describe_image(scene, 1, keypoints=FEW)
    for k in scene.pairs:
        alone = make_pair(scene, k, keypoints=FEW)
        shared = make_pair(scene, k, keypoints=FEW, reference=reference)
        np.testing.assert_array_equal(alone.truth.target, shared.truth.target)
        np.testing.assert_array_equal(alone.query_vectors, shared.query_vectors)


def test_projected_keypoints_are_their_own_matches(scene):
    settings = KeypointSettings(source="project", strongest=80)
    pair = make_pair(scene, 3, keypoints=settings)
    matched = pair.truth.status == Status.MATCHED
    assert 10 < matched.sum() < 80
    for row in np.flatnonzero(matched):
        assert pair.query_ids[row] == pair.target_ids[int(pair.truth.target[row])]
    assert pair.truth.distance[matched].tolist() == [0.0] * matched.sum()
    assert not np.isin(
        np.array(pair.query_ids.to_list())[~matched], pair.target_ids.to_list()
    ).any()


@pytest.fixture
def half_blind(monkeypatch):
    """A descriptor that gives zeros for every other keypoint by id."""

    def describe(image, keypoints):
        ids = np.array(keypoints.ids.to_list())
        return np.where(ids[:, None] % 2 == 0, 0.0, keypoints.xy)

    module = types.ModuleType("half_blind")
    module.describe = describe
    monkeypatch.setitem(sys.modules, "half_blind", module)


@pytest.mark.usefixtures("half_blind")
def test_failures_are_counted_and_never_dropped(scene):
    settings = KeypointSettings(source="project", strongest=80)
    whole = make_pair(scene, 2, keypoints=settings)
    pair = make_pair(scene, 2, keypoints=settings, descriptor="half_blind:describe")
    even = [i for i in whole.query_ids if i % 2 == 0]
    assert pair.query.failed.to_list() == even
    assert len(pair.query) == 80 - len(even)
    counts, before = pair.counts[3.0], whole.counts[3.0]
    assert (counts.no_match, counts.outside) == (before.no_match, before.outside)
    assert counts.matched + counts.failed == before.matched
    assert pair.n_failed == counts.failed > 0
    assert len(pair.failures) == 2
    assert pair.failures[0].startswith("v_coffee/1: half_blind:describe failed for")


@pytest.mark.usefixtures("half_blind")
def test_a_query_whose_match_failed_has_failed(scene):
    """Detected apart, ids say nothing: a described query may have lost its match."""
    whole = make_pair(scene, 2, keypoints=FEW)
    pair = make_pair(scene, 2, keypoints=FEW, descriptor="half_blind:describe")
    lost = {
        query
        for query, target in zip(whole.query_ids, whole.truth.target, strict=True)
        if target >= 0 and query % 2 and whole.target_ids[int(target)] % 2 == 0
    }
    failed = np.flatnonzero(pair.truth.status == Status.FAILED)
    assert {pair.query_ids[int(row)] for row in failed} == lost != set()
    assert sum(pair.counts[3.0]) == sum(whole.counts[3.0]) == 60
    assert pair.counts[3.0].matched == pair.truth.count(Status.MATCHED)


def test_same_bytes_each_time_and_for_any_number_of_threads(scene):
    import cv2

    part = scene.image(1)[100:260, 200:360]
    small = Scene("s", "c", (part, part[:, ::-1]), {2: np.eye(3)})
    before = cv2.getNumThreads()
    try:
        for name in DESCRIPTORS:
            found = []
            for threads in (1, 4):
                cv2.setNumThreads(threads)
                pair = make_pair(small, 2, keypoints=FEW, descriptor=name)
                assert cv2.getNumThreads() == threads
                vectors = pair.target_vectors
                found.append(getattr(vectors, "packed", vectors).tobytes())
            assert found[0] == found[1]
    finally:
        cv2.setNumThreads(before)


def test_a_pair_that_is_not_there(scene):
    for k in (0, 1, 4, -1):
        with pytest.raises(UsageError, match="v_coffee"):
            make_pair(scene, k)


def test_an_image_without_keypoints_is_named():
    flat = np.full((120, 120), 128, np.uint8)
    scene = Scene("i_flat", "illumination", (flat, flat), {2: np.eye(3)})
    with pytest.raises(
        InputError, match="Image 1 of scene 'i_flat' has no keypoints left: 0 found"
    ):
        make_pair(scene, 2)
