"""A picture of a pair: the best matches and the worst misses."""

from __future__ import annotations

import os
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.errors import UsageError
from assay.io.atomic import atomic_write
from assay.tasks.vision.ground_truth import Status
from assay.tasks.vision.images import Image, opencv, steady
from assay.tasks.vision.pair import PairData
from assay.tasks.vision.scenes import Scene

__all__ = ["draw_pair", "picture_of_pair"]

# Blue, green, red; the two colours are told apart by colour-blind readers, too.
_TRUE: Final = (115, 158, 0)
_WRONG: Final = (0, 94, 213)
_INK: Final = (40, 40, 40)
_WHITE: Final = (255, 255, 255)
_WIDEST: Final = 1600
_STRIP: Final = 34
_GAP: Final = 8


class _ImagePanel(NamedTuple):
    title: str
    rows: NDArray[np.int64]


class _Mark(NamedTuple):
    start: tuple[int, int]
    end: tuple[int, int]
    colour: tuple[int, int, int]


def draw_pair(
    scene: Scene,
    pair: PairData,
    path: str | os.PathLike[str],
    *,
    ranks: Any,
    found: Any,
    n: int = 8,
) -> None:
    """Write the picture of a pair as PNG; see `picture_of_pair`."""
    picture = picture_of_pair(scene, pair, ranks=ranks, found=found, n=n)
    with atomic_write(path) as file:
        file.write(opencv().imencode(".png", picture)[1].tobytes())


def picture_of_pair(scene: Scene, pair: PairData, *, ranks: Any, found: Any, n: int = 8) -> Image:
    """The n best matches above the n worst, each panel with both images side by side.

    For each query `ranks` is the rank of its true match within the pair's first tolerance (from 1;
    ignored where there is none) and `found` the row of the target that was ranked first. A line
    with a circle leads to the true match, one with a cross to what was ranked first instead.
    """
    count = checks.check_cutoff(n, "n")
    ranked = _per_query(ranks, "ranks", pair)
    first = _rows_of_targets(_per_query(found, "found", pair), len(pair.target))
    images = scene.image(1), scene.image(pair.image)
    zoom = min(1.0, (_WIDEST - _GAP) / (images[0].shape[1] + images[1].shape[1]))
    panels = _panels(pair, ranked, count)
    with steady() as cv2:
        small = [
            cv2.resize(image, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_AREA)
            for image in images
        ]
        return np.vstack([_drawn(cv2, small, zoom, pair, panel, first) for panel in panels])


def _per_query(values: Any, name: str, pair: PairData) -> NDArray[Any]:
    array = checks.plain_array(values, name)
    if array.shape != (len(pair.query),) or array.dtype.kind not in "iuf":
        raise UsageError(
            f"{name} must be one number for each of {len(pair.query)} queries, found "
            f"{array.shape} of {array.dtype}."
        )
    return array


def _rows_of_targets(found: NDArray[Any], n_targets: int) -> NDArray[np.int64]:
    """Rows among the targets; −1 where nothing was found."""
    bad = np.flatnonzero(~((found >= -1) & (found < n_targets)))
    if len(bad):
        raise UsageError(
            f"found must hold rows from 0 to {n_targets - 1}, or −1; row {bad[0]} is "
            f"{found[bad[0]]}."
        )
    return found.astype(np.int64)


def _panels(pair: PairData, ranks: NDArray[Any], n: int) -> list[_ImagePanel]:
    matched = np.flatnonzero(pair.truth.status == Status.MATCHED)
    order = matched[np.lexsort((matched, pair.truth.distance[matched], ranks[matched]))]
    best, worst = order[:n], order[n:][::-1][:n]
    head = f"{pair.scene} 1-{pair.image}  {pair.descriptor}  "
    return [
        _ImagePanel(
            f"{head}{len(best)} best of {len(matched)}: {_span(ranks[best])}  (o true match)", best
        ),
        _ImagePanel(
            f"{head}{len(worst)} worst of {len(matched)}: {_span(ranks[worst])}  "
            "(o true match, x ranked first)",
            worst,
        ),
    ]


def _span(ranks: NDArray[Any]) -> str:
    if not len(ranks):
        return "none"
    low, high = ranks.min(), ranks.max()
    return f"rank {low:g}" if low == high else f"ranks {low:g} to {high:g}"


def _drawn(
    cv2: Any,
    images: list[Image],
    zoom: float,
    pair: PairData,
    panel: _ImagePanel,
    first: NDArray[np.int64],
) -> Image:
    canvas, offset = _side_by_side(images)
    _write(cv2, canvas, panel.title)
    shift = np.array([[0, _STRIP], [offset, _STRIP]])
    marks: list[_Mark] = []
    for row in panel.rows:
        target = int(pair.truth.target[row])
        here = _pixel(pair.query.keypoints.xy[row], zoom, shift[0])
        if first[row] not in (target, -1):
            wrong = _pixel(pair.target.keypoints.xy[first[row]], zoom, shift[1])
            marks.append(_Mark(here, wrong, _WRONG))
        there = _pixel(pair.target.keypoints.xy[target], zoom, shift[1])
        marks.append(_Mark(here, there, _TRUE))
    for mark in marks:
        _line(cv2, canvas, *mark)
    for mark in marks:  # above all lines
        _ends(cv2, canvas, *mark)
    return canvas


def _ends(cv2: Any, canvas: Image, start: Any, end: Any, colour: tuple[int, int, int]) -> None:
    if colour == _WRONG:
        cv2.drawMarker(canvas, end, _WHITE, cv2.MARKER_TILTED_CROSS, 18, 5, cv2.LINE_AA)
        cv2.drawMarker(canvas, end, colour, cv2.MARKER_TILTED_CROSS, 16, 3, cv2.LINE_AA)
        return
    for place in (start, end):
        cv2.circle(canvas, place, 7, _WHITE, 4, cv2.LINE_AA)
        cv2.circle(canvas, place, 7, colour, 2, cv2.LINE_AA)


def _line(cv2: Any, canvas: Image, start: Any, end: Any, colour: tuple[int, int, int]) -> None:
    """White around the colour, so that it is seen on any picture."""
    cv2.line(canvas, start, end, _WHITE, 4, cv2.LINE_AA)
    cv2.line(canvas, start, end, colour, 2, cv2.LINE_AA)


def _side_by_side(images: list[Image]) -> tuple[Image, int]:
    """Both images on white, below a strip for the title; and where the second begins."""
    left, right = images
    height = _STRIP + max(left.shape[0], right.shape[0])
    canvas = np.full((height, left.shape[1] + _GAP + right.shape[1], 3), 255, np.uint8)
    canvas[_STRIP : _STRIP + left.shape[0], : left.shape[1]] = left
    offset = left.shape[1] + _GAP
    canvas[_STRIP : _STRIP + right.shape[0], offset:] = right
    return canvas, offset


def _write(cv2: Any, canvas: Image, title: str) -> None:
    """OpenCV's letters are those of ASCII; others become question marks."""
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in title)
    cv2.putText(canvas, plain, (6, 23), cv2.FONT_HERSHEY_SIMPLEX, 0.55, _INK, 1, cv2.LINE_AA)


def _pixel(xy: NDArray[np.float64], zoom: float, shift: NDArray[np.int64]) -> tuple[int, int]:
    x, y = np.rint(xy * zoom).astype(int) + shift
    return int(x), int(y)
