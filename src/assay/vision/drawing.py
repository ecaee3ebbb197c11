"""Pictures of matches as PNG, and of precision over recall as SVG."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.errors import InputError, UsageError
from assay.io.streams import atomic_write
from assay.search.engine import Codes, rank, target_ranks
from assay.tables.html import tag
from assay.tables.svg import COLOURS, GREY, Drawing, Scale, circle, group, line, svg_text
from assay.vision.ground_truth import Status
from assay.vision.opencv_features import Image, opencv, steady
from assay.vision.pairs import PairData, make_pair
from assay.vision.ranks import (
    RECALLS,
    PRCurve,
    choose_metric,
    hamming_nearest,
    hamming_target_ranks,
)
from assay.vision.run import ExperimentResult
from assay.vision.scenes import Scene


def find_pair(scenes: Sequence[Scene], text: str) -> tuple[Scene, int]:
    """Return scene and second image of a pair such as `v_wall/1-4`."""
    name, slash, numbers = text.rpartition("/")
    by_name = {scene.name: scene for scene in scenes}
    number = numbers.removeprefix("1-")
    if not slash or name not in by_name or not number.isdecimal():
        raise UsageError(
            f"--show takes pairs such as {scenes[0].name}/1-2. Found {text!r}. Scenes: "
            f"{', '.join(by_name)}."
        )
    if int(number) not in by_name[name].pairs:
        raise UsageError(f"Scene {name!r} has no pair 1-{number}. Choose another.")
    return by_name[name], int(number)


def draw_matches(found: ExperimentResult, pair: str, folder: str) -> Iterator[str]:
    """Draw a pair by every descriptor; yield a line on each picture.

    Keypoints and descriptors of the pair are computed again.

    Args:
        found: Result of an experiment.
        pair: Scene and images, such as v_wall/1-4.
        folder: Where the pictures go.

    Yields:
        The file that was written, or why there is none.

    Raises:
        UsageError: If there is no such pair.

    Example:
        for line in draw_matches(result, "v_wall/1-4", "pictures"):
            print(line)
    """
    scene, k = find_pair(found.scenes, pair)
    for descriptor in found.experiment.descriptors:
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in descriptor.name)
        path = os.path.join(folder, f"{scene.name}-1-{k}-{name}.png")
        try:
            data = make_pair(
                scene,
                k,
                keypoints=descriptor.keypoints or found.experiment.keypoints,
                descriptor=descriptor.type,
                options=descriptor.options,
                **found.experiment.evaluation.truth,
            )
            what = f"The descriptor {descriptor.name!r}"
            ranks, nearest = _rank_targets(data, choose_metric(descriptor.metric, data.kind, what))
            draw_pair(scene, data, path, ranks=ranks, found=nearest)
        except InputError as error:  # the pair is listed as failed, too
            yield f"no picture of {pair} by {descriptor.name}: {error}"
        else:
            yield f"wrote {path}"


def _rank_targets(data: Any, metric: Any) -> tuple[Any, Any]:
    """Return each true match's rank, and the nearest target."""
    left, right, target = data.query_vectors, data.target_vectors, data.truth.target
    if not isinstance(left, Codes):
        ranks = target_ranks(left, right, target, metric=metric).rank
        return ranks, rank(left, right, 1, metric=metric).docs
    has = np.flatnonzero(target >= 0)
    ranks = np.zeros(len(target), np.int64)
    ranks[has] = hamming_target_ranks(left.packed[has], right.packed, target[has]).rank
    return ranks, hamming_nearest(left.packed, right.packed)[0]


# Blue, green, red; the two colours are told apart by colour-blind readers, too.
TRUE_COLOUR: Final = (115, 158, 0)
WRONG_COLOUR: Final = (0, 94, 213)
_INK: Final = (40, 40, 40)
_WHITE: Final = (255, 255, 255)
_WIDEST: Final = 1600
_STRIP: Final = 34
_GAP: Final = 8


class ImagePanel(NamedTuple):
    """A title, and the queries that are drawn below it."""

    title: str
    rows: NDArray[np.int64]


def draw_pair(
    scene: Scene,
    pair: PairData,
    path: str | os.PathLike[str],
    *,
    ranks: Any,
    found: Any,
    n: int = 8,
) -> None:
    """Write the picture of a pair as PNG; see `picture_of_pair`.

    Args:
        scene: The scene.
        pair: The pair by `make_pair`.
        path: The file, written atomically.
        ranks: Rank of each query's true match.
        found: Row of the target that was ranked first for each query.
        n: How many best and worst matches to draw.

    Raises:
        UsageError: If ranks or rows do not fit the pair.

    Example:
        draw_pair(scene, pair, "pair.png", ranks=ranks, found=nearest)
    """
    picture = picture_of_pair(scene, pair, ranks=ranks, found=found, n=n)
    with atomic_write(path) as file:
        file.write(opencv().imencode(".png", picture)[1].tobytes())


def picture_of_pair(scene: Scene, pair: PairData, *, ranks: Any, found: Any, n: int = 8) -> Image:
    """Draw the n best matches above the n worst.

    Each panel has both images side by side. For each query `ranks` is the rank of its true match
    within the pair's first tolerance (from 1; ignored where there is none) and `found` the row of
    the target that was ranked first. A line with a circle leads to the true match, one with a cross
    to what was ranked first instead.
    """
    count = checks.check_cutoff(n, "n")
    ranked, first = (
        _check_per_query(values, name, pair)
        for values, name in ((ranks, "ranks"), (found, "found"))
    )
    bad = np.flatnonzero(~((first >= -1) & (first < len(pair.target))))
    if len(bad):
        raise UsageError(
            f"found must hold rows 0 to {len(pair.target) - 1}, or −1; row {bad[0]} is "
            f"{first[bad[0]]}."
        )
    images = scene.image(1), scene.image(pair.image)
    zoom = min(1.0, (_WIDEST - _GAP) / (images[0].shape[1] + images[1].shape[1]))
    with steady() as cv2:
        small = [
            cv2.resize(image, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_AREA)
            for image in images
        ]
        return np.vstack(
            [
                _draw_panel(cv2, small, zoom, pair, panel, first.astype(np.int64))
                for panel in choose_panels(pair, ranked, count)
            ]
        )


def _check_per_query(values: Any, name: str, pair: PairData) -> NDArray[Any]:
    array = checks.plain_array(values, name)
    if array.shape != (len(pair.query),) or array.dtype.kind not in "iuf":
        raise UsageError(
            f"{name} must be one number for each of {len(pair.query)} queries, found "
            f"{array.shape} of {array.dtype}."
        )
    return array


def choose_panels(pair: PairData, ranks: NDArray[Any], n: int) -> list[ImagePanel]:
    """Return the n best and the n worst matches of a pair, by rank."""
    matched = np.flatnonzero(pair.truth.status == Status.MATCHED)
    order = matched[np.lexsort((matched, pair.truth.distance[matched], ranks[matched]))]
    panels = []
    for kind, rows, words in (
        ("best", order[:n], "(o true match)"),
        ("worst", order[n:][::-1][:n], "(o true match, x ranked first)"),
    ):
        span = "none"
        if len(rows):
            low, high = ranks[rows].min(), ranks[rows].max()
            span = f"rank {low:g}" if low == high else f"ranks {low:g} to {high:g}"
        title = f"{pair.scene} 1-{pair.image}  {pair.descriptor}  {len(rows)} {kind}"
        panels.append(ImagePanel(f"{title} of {len(matched)}: {span}  {words}", rows))
    return panels


def _draw_panel(
    cv2: Any,
    images: list[Image],
    zoom: float,
    pair: PairData,
    panel: ImagePanel,
    first: NDArray[np.int64],
) -> Image:
    """Draw both images side by side on white, with a line for each match."""
    left, right = images
    offset = left.shape[1] + _GAP
    height = _STRIP + max(left.shape[0], right.shape[0])
    canvas = np.full((height, offset + right.shape[1], 3), 255, np.uint8)
    canvas[_STRIP : _STRIP + left.shape[0], : left.shape[1]] = left
    canvas[_STRIP : _STRIP + right.shape[0], offset:] = right
    # OpenCV has letters of ASCII only.
    title = "".join(letter if " " <= letter <= "~" else "?" for letter in panel.title)
    cv2.putText(canvas, title, (6, 23), cv2.FONT_HERSHEY_SIMPLEX, 0.55, _INK, 1, cv2.LINE_AA)

    def pixel(xy: NDArray[np.float64], shift: int) -> tuple[int, int]:
        x, y = np.rint(xy * zoom).astype(int) + np.array([shift, _STRIP])
        return int(x), int(y)

    marks = []
    for row in panel.rows:
        target = int(pair.truth.target[row])
        here = pixel(pair.query.keypoints.xy[row], 0)
        if first[row] not in (target, -1):
            wrong = pixel(pair.target.keypoints.xy[first[row]], offset)
            marks.append((here, wrong, WRONG_COLOUR))
        marks.append((here, pixel(pair.target.keypoints.xy[target], offset), TRUE_COLOUR))
    # White rims are seen on any picture; ends stand above all lines.
    for start, end, colour in marks:
        cv2.line(canvas, start, end, _WHITE, 4, cv2.LINE_AA)
        cv2.line(canvas, start, end, colour, 2, cv2.LINE_AA)
    for start, end, colour in marks:
        if colour == WRONG_COLOUR:
            cv2.drawMarker(canvas, end, _WHITE, cv2.MARKER_TILTED_CROSS, 18, 5, cv2.LINE_AA)
            cv2.drawMarker(canvas, end, colour, cv2.MARKER_TILTED_CROSS, 16, 3, cv2.LINE_AA)
            continue
        for place in (start, end):
            cv2.circle(canvas, place, 7, _WHITE, 4, cv2.LINE_AA)
            cv2.circle(canvas, place, 7, colour, 2, cv2.LINE_AA)
    return canvas


_SIDE, _LEFT, _TOP, _BELOW, _PANEL_GAP = 300, 52, 40, 46, 20
_DASHES: Final = ("", "6 3", "2 3", "8 3 2 3")


def draw_curves(curves: Sequence[PRCurve]) -> str:
    """Draw precision over recall as SVG, a panel for each task.

    Args:
        curves: Curves, coloured by descriptor, dashed by difficulty.

    Returns:
        The picture as text.

    Example:
        svg = draw_curves(report.curves)
    """
    tasks, names, parts = (
        list(dict.fromkeys(getattr(curve, key) for curve in curves))
        for key in ("task", "name", "part")
    )
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    dashes = {part: _DASHES[i % len(_DASHES)] for i, part in enumerate(parts)}
    step = _LEFT + _SIDE + _PANEL_GAP
    panels = [
        group(step * i, 0, "".join(_panel(task, curves, colours, dashes)))
        for i, task in enumerate(tasks)
    ]
    y = _TOP + _SIDE + _BELOW
    legend: list[str] = []
    for number, (name, colour) in enumerate(colours.items()):
        legend.append(circle(_LEFT, y + 20 * number - 4, 4, fill=colour))
        legend.append(svg_text(_LEFT + 10, y + 20 * number, name))
    below = y + 20 * len(names)
    for number, (part, dash) in enumerate(dashes.items() if len(dashes) > 1 else ()):
        x, style = _LEFT + 90 * number, {"stroke_dasharray": dash} if dash else {}
        legend.append(
            line(x - 4, below - 4, x + 24, below - 4, stroke=GREY, stroke_width=2, **style)
        )
        legend.append(svg_text(x + 30, below, part))
    height = y + 20 * (len(names) + (len(parts) > 1))
    return Drawing(step * len(tasks), height, "\n".join([*panels, *legend])).to_svg(font_size=12)


def _panel(
    task: str, curves: Sequence[PRCurve], colours: dict[str, str], dashes: dict[str, str]
) -> Iterator[str]:
    x = Scale(0.0, 1.0, start=_LEFT, end=_LEFT + _SIDE)
    y = Scale(0.0, 1.0, start=_TOP + _SIDE, end=_TOP)
    yield svg_text(_LEFT, 22, task, font_size=14, font_weight="bold")
    for tick in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        yield line(_LEFT, y.at(tick), x.end, y.at(tick), stroke="#e4e4e4")
        yield svg_text(_LEFT - 6, y.at(tick) + 4, f"{tick:g}", text_anchor="end")
        yield svg_text(x.at(tick), y.at(0) + 18, f"{tick:g}", text_anchor="middle")
    middle = _LEFT + _SIDE / 2
    yield svg_text(middle, y.at(0) + 36, "recall; upwards: precision", text_anchor="middle")
    for curve in (curve for curve in curves if curve.task == task):
        path = " ".join(
            f"{x.at(recall):g},{y.at(value):g}"
            for recall, value in zip(RECALLS, curve.precision.tolist(), strict=True)
        )
        style = {"stroke_dasharray": dashes[curve.part]} if dashes[curve.part] else {}
        stroke = colours[curve.name]
        yield tag("polyline", points=path, fill="none", stroke=stroke, stroke_width=1.5, **style)
        if not math.isnan(curve.chance):
            yield line(_LEFT, y.at(curve.chance), x.end, y.at(curve.chance), stroke=GREY)
            yield svg_text(_LEFT + 4, y.at(curve.chance) - 4, "chance", fill=GREY, font_size=11)
