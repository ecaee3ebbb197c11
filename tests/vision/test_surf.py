"""SURF by mahotas: places, sizes, directions and descriptors of images that can be computed."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("mahotas")

from assay.errors import MissingPackageError, UsageError
from assay.vision import Keypoints, KeypointSettings, describe_image, inside_border, rank_pair
from assay.vision.descriptors import describe
from assay.vision.opencv_features import describe_blobs, detect

from .small_scenes import small_scenes

ROWS, COLUMNS = np.mgrid[:200, :240].astype(float)


def _image(values: Any) -> Any:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def _blob(x: float, y: float, sigma: float) -> Any:
    return _image(255 * np.exp(-((COLUMNS - x) ** 2 + (ROWS - y) ** 2) / (2 * sigma**2)))


@pytest.mark.parametrize(("x", "y"), [(120, 100), (111, 96)])
def test_a_blob_is_found_where_it_is_and_larger_ones_are_larger(x: int, y: int) -> None:
    sizes = []
    for sigma in (3.0, 5.0, 8.0):
        found = detect(_blob(x, y, sigma), "surf")
        best = found.take([int(np.argmax(found.response))])
        assert np.abs(best.xy[0] - [x, y]).max() < 0.3 * sigma
        sizes.append(best.size[0])
    assert sizes == sorted(sizes)
    # The determinant of a Gaussian blob is largest at its own scale; sizes are twice the scale.
    assert sizes[1] == pytest.approx(2 * 5.0, rel=0.35)


@pytest.mark.parametrize("degrees", range(0, 360, 30))
def test_directions_run_from_x_towards_y_as_those_of_other_detectors(degrees: int) -> None:
    """Brightness grows in the direction."""
    turn = np.deg2rad(degrees)
    ramp = _image(128 + 0.6 * ((COLUMNS - 120) * np.cos(turn) + (ROWS - 100) * np.sin(turn)))
    _, angle, _ = describe_blobs(ramp, np.array([[120.0, 100.0]]), np.array([3.0]))
    assert abs((angle[0] - degrees + 180) % 360 - 180) < 2


def test_keypoints_have_directions_but_near_the_border() -> None:
    image = small_scenes()[1].image(1)
    found = detect(image, "surf")
    inner = inside_border(found, image.shape, border=60)
    assert len(inner) > 5
    assert (inner.angle >= 0).all()
    assert (found.angle == -1).any()


def test_descriptors_have_norm_1_and_bear_light_and_quarter_turns() -> None:
    image = small_scenes()[1].image(1)[:200, :200]
    points = Keypoints.of([[100, 90], [80, 120], [110, 110]], size=8.0)
    rows = describe(image, points, "SURF").vectors
    assert rows.shape == (3, 64)  # type: ignore[union-attr]
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    dark = describe((image // 2 + 20).astype(np.uint8), points, "SURF").vectors
    assert np.linalg.norm(rows - dark, axis=1).max() < 0.15  # type: ignore[operator]
    turned = Keypoints.of(np.stack([points.xy[:, 1], 199 - points.xy[:, 0]], axis=1), size=8.0)
    other = describe(np.ascontiguousarray(np.rot90(image)), turned, "SURF").vectors
    table = np.linalg.norm(rows[:, None] - other[None], axis=2)  # type: ignore[call-overload,index]
    assert table.argmin(axis=1).tolist() == [0, 1, 2]


def test_rows_belong_to_their_keypoints_and_those_at_the_border_fail() -> None:
    image = small_scenes()[1].image(1)
    points = inside_border(detect(image, "surf"), image.shape, border=60)
    mixed = Keypoints.of(
        [[1, 1], *points.xy[:4], [219, 199], *points.xy[4:6], [500, 500]],
        [f"k{n}" for n in range(9)],
        size=[8, *points.size[:4], 8, *points.size[4:6], 8],
    )
    found = describe(image, mixed, "SURF")
    assert list(found.failed) == ["k0", "k5", "k8"]
    for row, name in enumerate(found.keypoints.ids):
        place = mixed.ids.to_list().index(name)
        alone = describe(image, mixed.take([place]), "SURF")
        assert np.array_equal(alone.vectors[0], found.vectors[row])  # type: ignore[index]


@pytest.mark.parametrize("size", [1e-300, 1e3, 1e300])
def test_keypoints_of_any_size_fail_where_they_do_not_fit(size: float) -> None:
    """A scale beyond its integers ends the process in mahotas."""
    image = small_scenes()[1].image(1)
    points = Keypoints.of([[100, 100], [100, 100]], size=[size, 8.0])
    assert list(describe(image, points, "SURF").failed) == [0]


def test_the_intersection_of_sift_and_surf_is_a_keypoint_set_of_both() -> None:
    scene = small_scenes()[2]
    common: dict[str, Any] = {"detector": "sift", "shared_with": "surf", "border": 20}
    left, right = (KeypointSettings(**common, shared_side=side) for side in ("left", "right"))
    sides = {}
    for name, settings in (("SIFT", left), ("SURF", right)):
        first, other = (
            describe_image(scene, k, keypoints=settings, descriptor=name) for k in (1, 2)
        )
        assert len(first.keypoints) > 20
        assert len(other.keypoints) > 20
        sides[name] = first.keypoints
    assert list(sides["SIFT"].ids) == list(sides["SURF"].ids)
    assert np.linalg.norm(sides["SIFT"].xy - sides["SURF"].xy, axis=1).max() <= 3
    own = detect(scene.image(1), "surf").xy.tolist()
    assert all(place in own for place in sides["SURF"].xy.tolist())


def test_surf_finds_matches_far_above_chance() -> None:
    scene = small_scenes()[0]
    settings = KeypointSettings(source="project", detector="surf", border=25, strongest=60)
    first = describe_image(scene, 1, keypoints=settings, descriptor="SURF")
    other = describe_image(
        scene, 2, keypoints=settings, descriptor="SURF", projected=first.keypoints
    )
    truth = first.described.keypoints.ids.match(other.described.keypoints.ids)
    ranks = rank_pair(
        first.described.vectors, other.described.vectors, truth=truth, scene="s", pair="1-2"
    )
    assert np.mean(ranks.above == 0) > 0.8


@pytest.mark.parametrize(
    "options",
    [
        {"nr_octaves": 0},
        {"nr_octaves": -1},
        {"nr_octaves": 30},
        {"initial_step_size": 1000},
        {"nr_scales": 2.5},
        {"initial_step_size": 0},
        {"max_points": True},
        {"threshold": 0},
        {"threshold": "x"},
        {"threshold": float("nan")},
        {"nfeatures": 9},
    ],
)
def test_options_that_mahotas_would_not_check_are_refused(options: dict[str, Any]) -> None:
    """With no octaves it reads beyond its arrays, and the process ends."""
    with pytest.raises(UsageError):
        detect(_blob(50, 50, 3), "surf", options=options)


def test_options_limit_the_number_of_keypoints() -> None:
    image = small_scenes()[1].image(1)
    every = detect(image, "surf")
    strong = detect(image, "SURF", options={"threshold": 20, "nr_octaves": 2})
    assert 0 < len(strong) < len(every)
    assert strong.response.min() >= 20
    with pytest.raises(UsageError, match="takes no options"):
        describe(image, every, "SURF", options={"sizes": [1]})


@pytest.mark.parametrize("shape", [(5, 5), (60, 60)])
def test_an_image_without_structure_has_no_keypoints(shape: tuple[int, int]) -> None:
    assert len(detect(np.full(shape, 9, np.uint8), "surf")) == 0


def test_without_mahotas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mahotas.features.surf", None)
    with pytest.raises(MissingPackageError, match=r"\[vision\]"):
        detect(_blob(50, 50, 3), "surf")
