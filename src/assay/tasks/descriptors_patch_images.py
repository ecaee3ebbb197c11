"""Patches as pictures, as HPatches ships them: strips of square patches, one below the other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.engine.codes import Codes
from assay.errors import FormatError, InputError, ShapeError
from assay.tasks.descriptors_patches import PatchScene, patch_folders, read_scenes
from assay.vision.describe import describe
from assay.vision.images import read_image
from assay.vision.keypoints import Keypoints

__all__ = ["describe_patch_scenes"]

# SIFT's grid is six keypoint sizes wide, so this size makes it cover the patch.
_GRID: Final = 6.0


def describe_patch_scenes(
    folder: str | os.PathLike[str],
    descriptor: str = "SIFT",
    *,
    options: Mapping[str, Any] | None = None,
) -> list[PatchScene]:
    """Read ref.png, e1.png, … of every scene in a folder and describe each patch by itself.

    The keypoint is the centre of the patch, upright; a patch that cannot be described has failed.
    """
    return read_scenes(
        patch_folders(folder), (".png",), lambda path: _described(path, descriptor, options or {})
    )


def _described(path: Path, descriptor: str, options: Mapping[str, Any]) -> NDArray[Any]:
    strip = read_image(path)
    height, side = strip.shape[:2]
    if height % side:
        raise ShapeError(
            f"{path}: {side} × {height} pixels are no strip of square patches, one below the other."
        )
    found = [_row(strip[top : top + side], descriptor, options) for top in range(0, height, side)]
    known = next((row for row in found if row is not None), None)
    if known is None:
        raise FormatError(f"{path}: {descriptor} described none of {len(found)} patches.")
    return np.stack([np.zeros_like(known) if row is None else row for row in found])


def _row(patch: NDArray[Any], descriptor: str, options: Mapping[str, Any]) -> NDArray[Any] | None:
    side = len(patch)
    centre = (side - 1) / 2
    try:
        keypoint = Keypoints.of([[centre, centre]], size=side / _GRID)
        vectors = describe(
            np.ascontiguousarray(patch), keypoint, descriptor, options=options
        ).vectors
    except InputError:
        return None
    rows = vectors.packed if isinstance(vectors, Codes) else vectors
    return np.array(rows[0])
