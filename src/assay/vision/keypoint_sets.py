"""Where the keypoints of an image come from, and which of them stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from assay.errors import InputError, UsageError
from assay.vision.detect import detect
from assay.vision.filled_paths import filled_path
from assay.vision.images import Image
from assay.vision.keypoint_files import read_keypoints
from assay.vision.keypoint_filters import (
    BORDER,
    by_size,
    inside_border,
    random_subset,
    shared,
    strongest,
)
from assay.vision.keypoints import Keypoints, project
from assay.vision.scenes import Scene

__all__ = ["KeypointSettings", "keypoints_of", "projected_keypoints"]

Source = Literal["detect", "project", "file"]


@dataclass(frozen=True)
class KeypointSettings:
    """How keypoints are chosen.

    `source`: "detect" finds them in each image, "project" takes those of image 1 through the
    homography, "file" reads `path`, in which {scene} and {image} stand for names. Then those near
    the border go, and those of other sizes; `shared_with` keeps what a second detector found, too;
    then the `strongest` and a `random` choice of so many stay.
    """

    source: Source = "detect"
    detector: str = "sift"
    options: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None
    border: float = BORDER
    least_size: float = 0.0
    most_size: float = float("inf")
    shared_with: str | None = None
    shared_side: Literal["left", "right"] = "left"  # whose sizes and angles: detector or the other
    tolerance: float = 3.0
    strongest: int | None = None
    random: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        if self.source not in ("detect", "project", "file"):
            raise UsageError(f"source must be detect, project or file; found {self.source!r}.")
        if self.shared_side not in ("left", "right"):
            raise UsageError(f"shared_side must be left or right; found {self.shared_side!r}.")
        if self.source == "file" and self.path is None:
            raise UsageError(
                "Keypoints from files need a path such as keypoints/{scene}/{image}.csv."
            )
        if self.source == "detect" and self.path is not None:
            raise UsageError("A path of keypoints needs the source file or project, not detect.")


def keypoints_of(scene: Scene, k: int, image: Image, settings: KeypointSettings) -> Keypoints:
    """The keypoints of image k of a scene; an image without any is refused."""
    found = _found(scene, k, image, settings)
    chosen = _chosen(found, image, settings)
    if not len(chosen):
        raise InputError(
            f"Image {k} of scene {scene.name!r} has no keypoints left: {len(found)} found, none "
            f"of which is {settings.border:g} pixels from the border of its {image.shape[1]} × "
            f"{image.shape[0]} pixels and within the other limits. Change the limits, or leave "
            "the image out."
        )
    return chosen


def projected_keypoints(
    scene: Scene, k: int, reference: Keypoints, shape: tuple[int, ...], *, border: float = BORDER
) -> Keypoints:
    """The keypoints of image 1 as image k sees them, with their ids."""
    ahead = inside_border(project(reference, scene.homographies[k], shape), shape, border=border)
    if not len(ahead):
        raise InputError(
            f"None of the {len(reference)} keypoints of scene {scene.name!r} lies in image {k}, "
            f"{border:g} pixels from its border."
        )
    return ahead


def _found(scene: Scene, k: int, image: Image, settings: KeypointSettings) -> Keypoints:
    if settings.path is None:
        return detect(image, settings.detector, options=settings.options)
    return read_keypoints(filled_path(settings.path, {"scene": scene.name, "image": k}))


def _chosen(found: Keypoints, image: Image, settings: KeypointSettings) -> Keypoints:
    ours = _limited(found, image, settings)
    if settings.shared_with is None:
        return _cut(ours, settings)
    theirs = _limited(detect(image, settings.shared_with), image, settings)
    left, right = shared(ours, theirs, tolerance=settings.tolerance)
    kept = _cut(left, settings)
    return kept if settings.shared_side == "left" else right.take(kept.ids.match(right.ids))


def _limited(keypoints: Keypoints, image: Image, settings: KeypointSettings) -> Keypoints:
    inner = inside_border(keypoints, image.shape, border=settings.border)
    return by_size(inner, least=settings.least_size, most=settings.most_size)


def _cut(keypoints: Keypoints, settings: KeypointSettings) -> Keypoints:
    if settings.strongest is not None:
        keypoints = strongest(keypoints, settings.strongest)
    if settings.random is not None:
        keypoints = random_subset(keypoints, settings.random, seed=settings.seed)
    return keypoints
