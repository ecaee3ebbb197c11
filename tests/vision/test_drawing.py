"""The picture of a pair: what it shows, and that it is written whole."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from assay.errors import StorageError, UsageError
from assay.vision import KeypointSettings, draw_pair, make_pair
from assay.vision.drawing import TRUE_COLOUR, WRONG_COLOUR, choose_panels, picture_of_pair
from assay.vision.ground_truth import Status
from assay.vision.scenes import make_demo_scenes


@pytest.fixture(scope="module")
def drawn():
    scene = make_demo_scenes(["v_coffee"], n_images=2)[0]
    pair = make_pair(scene, 2, keypoints=KeypointSettings(strongest=60))
    rng = np.random.default_rng(0)
    ranks = np.where(np.arange(len(pair.query)) % 2, 1, rng.integers(2, 9, len(pair.query)))
    found = np.where(ranks == 1, pair.truth.target, rng.integers(0, len(pair.target), len(ranks)))
    return scene, pair, ranks, found


def _holds(picture, colour):
    return bool((np.abs(picture.astype(int) - colour).max(axis=2) == 0).any())


def test_best_above_worst(drawn):
    scene, pair, ranks, found = drawn
    picture = picture_of_pair(scene, pair, ranks=ranks, found=found, n=5)
    height, width = scene.image(1).shape[:2]
    assert picture.shape == (2 * (height + 34), 2 * width + 8, 3)
    half = picture.shape[0] // 2
    assert _holds(picture[:half], TRUE_COLOUR)
    assert _holds(picture[half:], TRUE_COLOUR)
    assert not _holds(picture[:half], WRONG_COLOUR)  # the best have rank 1
    assert _holds(picture[half:], WRONG_COLOUR)


def test_rows_are_chosen_by_rank(drawn):
    _, pair, ranks, _ = drawn
    best, worst = choose_panels(pair, ranks, 5)
    matched = pair.truth.status == Status.MATCHED
    assert sorted(ranks[best.rows]) == sorted(ranks[matched])[:5]
    assert sorted(ranks[worst.rows]) == sorted(ranks[matched])[-5:]
    everything, rest = choose_panels(pair, ranks, 999)
    assert (len(everything.rows), len(rest.rows)) == (matched.sum(), 0)
    assert ": none  (" in rest.title


def test_the_file_is_the_picture(drawn, tmp_path):
    scene, pair, ranks, found = drawn
    draw_pair(scene, pair, tmp_path / "pair.png", ranks=ranks, found=found)
    picture = picture_of_pair(scene, pair, ranks=ranks, found=found)
    np.testing.assert_array_equal(cv2.imread(str(tmp_path / "pair.png")), picture)
    with pytest.raises(StorageError):
        draw_pair(scene, pair, tmp_path, ranks=ranks, found=found)


def test_numbers_that_do_not_fit_are_refused(drawn):
    scene, pair, ranks, found = drawn
    for change in (
        {"ranks": ranks[1:]},
        {"found": found[1:]},
        {"n": 0},
        {"ranks": ["a"] * 60},
        {"found": np.full(60, 999)},
    ):
        with pytest.raises(UsageError):
            picture_of_pair(scene, pair, **{"ranks": ranks, "found": found, **change})
