"""Keypoint verification and retrieval as the authors of the protocol compute them.

The program of Bojanić, Bartol et al. (arXiv 2007.10000) judges nearest neighbours, not all pairs.
Verification: in each other image of the scene the nearest neighbour of a keypoint is right if no
keypoint lies nearer to the projected point, else wrong; in images of other scenes it is wrong. One
list of all scenes is sorted by distance. Retrieval: in each image of the scene the keypoint nearest
to the projected point is right, nearest neighbours in other scenes are wrong; one list a keypoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.tasks.descriptors.distances import largest_distance, nearest_two, row_distances

__all__ = ["AuthorMatches", "PlacedRows", "match_like_authors"]

_STEP = 1024  # queries at a time


class PlacedRows(NamedTuple):
    """Descriptors of an image with their places, and where the queries are projected to."""

    vectors: NDArray[Any]
    places: Floats
    projected: Floats  # of all queries; NaN behind the camera


class AuthorMatches(NamedTuple):
    """Judged matches of a scene; `missed` are those that a failed descriptor hides."""

    query: Ints
    distance: Floats
    right: NDArray[np.bool_]
    missed: int


def match_like_authors(
    task: str,
    queries: NDArray[Any],
    images: Sequence[PlacedRows],
    distractors: Sequence[NDArray[Any]],
    *,
    metric: str,
    failed: NDArray[np.bool_],
) -> AuthorMatches:
    """The judged matches of all queries with a descriptor."""
    kept = np.flatnonzero(~failed)
    own = queries[kept]
    judge = _nearest_by_descriptor if task == "verification" else _nearest_by_place
    found = [judge(own, kept, image, metric) for image in images]
    for rows in distractors:
        apart = nearest_two(own, rows, metric).best
        found.append((kept, apart, np.zeros(len(kept), bool)))
    query, distance, right = (np.concatenate(part) for part in zip(*found, strict=True))
    lost = int(failed.sum())
    return AuthorMatches(
        query, distance, right, lost * len(images) if task == "verification" else lost
    )


def _nearest_by_descriptor(
    own: NDArray[Any], kept: Ints, image: PlacedRows, metric: str
) -> tuple[Ints, Floats, NDArray[np.bool_]]:
    near = nearest_two(own, image.vectors, metric)
    projected = image.projected[kept]
    closest = _closest(projected, image.places)[1]
    apart = np.linalg.norm(image.places[near.nearest] - projected, axis=1)
    return kept, near.best, apart <= closest  # NaN is never right


def _nearest_by_place(
    own: NDArray[Any], kept: Ints, image: PlacedRows, metric: str
) -> tuple[Ints, Floats, NDArray[np.bool_]]:
    row, apart = _closest(image.projected[kept], image.places)
    has = np.flatnonzero(np.isfinite(apart))
    scale = largest_distance(own, image.vectors, metric=metric)
    distance = row_distances(own[has], image.vectors[row[has]], metric, scale)
    return kept[has], distance, np.ones(len(has), bool)


def _closest(points: Floats, places: Floats) -> tuple[Ints, Floats]:
    """For each point the first of the nearest places, and how far it is; NaN for no point."""
    row, apart = np.zeros(len(points), np.int64), np.zeros(len(points))
    for start in range(0, len(points), _STEP):
        rows = slice(start, start + _STEP)
        table = np.linalg.norm(points[rows, None] - places[None], axis=2)
        row[rows] = table.argmin(axis=1)
        apart[rows] = table.min(axis=1)
    return row, apart
