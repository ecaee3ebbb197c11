"""The report of an experiment: tables, comparison, remarks, plain data, and pictures."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.errors import InputError, MismatchError, UsageError
from assay.io.streams import atomic_write
from assay.runs.record import RunRecord
from assay.scoring.output import tied_remark
from assay.scoring.scores import signature_of
from assay.search.engine import Codes, rank, target_ranks
from assay.tables.html import tag
from assay.tables.svg import COLOURS, GREY, Drawing, Scale, circle, group, line, svg_text
from assay.tables.table import Page, Table, Words
from assay.vision import tables
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
from assay.vision.tables import (
    CategorySummary,
    compare_descriptors,
    comparison_words,
    result_data,
    summarize,
)

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison
    from assay.vision.experiment import DescriptorSettings
    from assay.vision.scenes import Scene


_MOST_NOTES: Final = 3


@dataclass(frozen=True, eq=False)
class ExperimentReport:
    """An experiment's result as tables, a page and plain data.

    With `force` descriptors on different keypoints are compared by the means of their scenes;
    `per_scene`, `ranks` and `timings` add tables.
    """

    found: ExperimentResult
    force: bool = False
    per_scene: bool = False
    ranks: bool = False
    timings: bool = False

    @property
    def rule(self) -> str:
        """Which label 0 counts as wrong."""
        return self.found.experiment.evaluation.rule

    @property
    def signature(self) -> str:
        """The conventions and the settings of all descriptors, listed where they differ."""
        how = self.found.experiment.evaluation
        tasks = {name: getattr(how, name) for name in ("verification", "retrieval")}
        drawn = {
            name: f"{settings.scenes},{settings.keypoints},{settings.seed}"
            for name, settings in tasks.items()
            if settings
        }
        if how.image_retrieval is not None:
            settings = how.image_retrieval
            drawn["image_retrieval"] = f"{settings.keypoints},{settings.ratio:g},{settings.seed}"
        stated = {name: getattr(how, name) for name in ("rule", "level", "resamples", "seed")}
        return signature_of([result.scores for result in self.found.headline], {**stated, **drawn})

    @cached_property
    def summaries(self) -> list[CategorySummary]:
        """Descriptors × categories, for the first tolerance."""
        return self.summaries_at(self.found.experiment.evaluation.tau[0])

    def summaries_at(self, tau: float) -> list[CategorySummary]:
        """Return descriptors × categories for one tolerance."""
        how = self.found.experiment.evaluation.resampling
        return [row for result in self.found.at(tau) for row in summarize(result, **how)]

    @cached_property
    def curves(self) -> list[PRCurve]:
        """Precision over recall of image matching and of verification, for the first tolerance."""
        return [curve for result in self.found.headline for curve in result.curves]

    @cached_property
    def comparison(self) -> Comparison | None:
        """How descriptors compare on AP; None for one, or where they must not be compared."""
        if len(self.found.headline) < 2:
            return None
        how = self.found.experiment.evaluation
        try:
            return compare_descriptors(
                self.found.headline,
                force=self.force,
                level=round(1 - how.level, 12),  # 0.05, not 0.050000000000000044
                resamples=how.resamples,
                seed=how.seed,
            )
        except MismatchError:
            return None

    @cached_property
    def remarks(self) -> list[str]:
        """What a reader of the numbers should know, a line each."""
        experiment = self.found
        lines = [f"scenes evaluated: {experiment.n_computed}, reused: {experiment.n_reused}"]
        lines += experiment.notes[:_MOST_NOTES]
        if len(experiment.notes) > _MOST_NOTES:
            lines.append(f"… and {len(experiment.notes) - _MOST_NOTES} more such notes")
        lines += [
            f"{result.name}: {result.n_failed} of {result.n_queries - result.n_excluded} queries "
            "failed, as their keypoint or its true match could not be described; they count 0"
            for result in experiment.headline
            if result.n_failed
        ]
        for name, failure in experiment.failures:
            lines.append(f"FAILED {name} {failure.scene} {failure.pair}: {failure.reason}")
        if self.comparison is None and len(experiment.headline) > 1:
            lines.append(self._why_not_compared())
        if self.force and len({result.query_set for result in experiment.headline}) > 1:
            lines.append("comparison forced: scene means on different keypoints")
        tied = (
            (result.name, tied_remark(result.scores, "keypoints")) for result in experiment.headline
        )
        return lines + [f"{name}: {remark}" for name, remark in tied if remark]

    def _why_not_compared(self) -> str:
        try:
            compare_descriptors(self.found.headline)
        except MismatchError as error:
            return f"not compared: {error} (--force)"
        return ""

    def tables(self) -> list[Table]:
        """Return the summary, the tasks and the tables asked for."""
        parts = [tables.category_table(self.summaries)]
        headline = self.found.headline
        how = self.found.experiment.evaluation.resampling
        tasks = tables.task_table(headline, self.rule, how)
        parts += [tasks] if tasks is not None else []
        parts += [tables.scene_table(headline)] if self.per_scene else []
        parts += [tables.rank_table(headline)] if self.ranks else []
        costs = [(result.name, result.timings, result.cost) for result in headline]
        return [*parts, tables.timing_table(costs)] if self.timings else parts

    def table(self) -> Table:
        """Return descriptors × categories with every digit, for programs."""
        return tables.category_data(self.summaries)

    def records(self) -> list[RunRecord]:
        """Return a record for each descriptor and tolerance."""
        return self.found.records(rule=self.rule)

    def page(self) -> Page:
        """Return tables with words between them, for people."""
        how = self.found.experiment.evaluation
        keypoints = "; ".join(dict.fromkeys(result.keypoints for result in self.found.headline))
        page: Page = [Words(f"τ = {how.tau[0]:g} px; keypoints: {keypoints}")]
        first, *rest = self.tables()
        page.append(first)
        if self.comparison is not None:
            page += comparison_words(self.comparison)
        page += rest
        for tau in how.tau[1:]:
            page += [Words(f"τ = {tau:g} px"), tables.category_table(self.summaries_at(tau))]
        page += [Words(line, "remark") for line in self.remarks]
        return [*page, Words(self.signature, "signature")]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        experiment = self.found
        return {
            "signature": self.signature,
            "experiment": experiment.experiment.to_dict(),
            "results": [
                result_data(
                    item,
                    self.summaries_at(item.tau),
                    rule=self.rule,
                    resampling=experiment.experiment.evaluation.resampling,
                )
                for item in experiment.results
            ],
            "curves": [item.to_dict() for item in self.curves],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "computed": experiment.n_computed,
            "reused": experiment.n_reused,
            "failed": experiment.n_failed,
            "remarks": self.remarks,
        }


def find_pair(scenes: Sequence[Scene], text: str) -> tuple[Scene, int]:
    """Return scene and second image of a pair such as `v_wall/1-4`."""
    name, slash, numbers = text.rpartition("/")
    by_name = {scene.name: scene for scene in scenes}
    number = numbers.removeprefix("1-")
    if not slash or name not in by_name or not number.isdecimal():
        raise UsageError(
            f"--show takes a pair such as {scenes[0].name}/1-2; found {text!r}. Scenes: "
            f"{', '.join(by_name)}."
        )
    if int(number) not in by_name[name].pairs:
        raise UsageError(f"Scene {name!r} has no pair 1-{number}.")
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
    """
    scene, k = find_pair(found.scenes, pair)
    for descriptor in found.experiment.descriptors:
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in descriptor.name)
        path = os.path.join(folder, f"{scene.name}-1-{k}-{name}.png")
        try:
            _draw(found, scene, k, descriptor, path)
        except InputError as error:  # the pair is listed as failed, too
            yield f"no picture of {pair} by {descriptor.name}: {error}"
        else:
            yield f"wrote {path}"


def _draw(
    result: ExperimentResult, scene: Scene, k: int, descriptor: DescriptorSettings, path: str
) -> None:
    how = result.experiment.evaluation
    data = make_pair(
        scene,
        k,
        keypoints=descriptor.keypoints or result.experiment.keypoints,
        descriptor=descriptor.type,
        options=descriptor.options,
        taus=how.tau,
        one_to_one=how.one_to_one,
        symmetric=how.symmetric,
    )
    metric = choose_metric(descriptor.metric, data.kind, f"The descriptor {descriptor.name!r}")
    ranks, nearest = _ranks_of(data, metric)
    draw_pair(scene, data, path, ranks=ranks, found=nearest)


def _ranks_of(data: Any, metric: Any) -> tuple[Any, Any]:
    """Return each true match's rank, and the nearest target."""
    left, right, target = data.query_vectors, data.target_vectors, data.truth.target
    has = np.flatnonzero(target >= 0)
    ranks = np.zeros(len(target), np.int64)
    if isinstance(left, Codes):
        nearest = hamming_nearest(left.packed, right.packed)[0]
        ranks[has] = hamming_target_ranks(left.packed[has], right.packed, target[has]).rank
        return ranks, nearest
    ranks = target_ranks(left, right, target, metric=metric).rank
    return ranks, rank(left, right, 1, metric=metric).docs


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


def _rows_of_targets(targets: NDArray[Any], n_targets: int) -> NDArray[np.int64]:
    """Check rows among the targets; −1 where nothing was found."""
    bad = np.flatnonzero(~((targets >= -1) & (targets < n_targets)))
    if len(bad):
        raise UsageError(
            f"found must hold rows from 0 to {n_targets - 1}, or −1; row {bad[0]} is "
            f"{targets[bad[0]]}."
        )
    return targets.astype(np.int64)


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
    """Draw a line with a white rim, seen on any picture."""
    cv2.line(canvas, start, end, _WHITE, 4, cv2.LINE_AA)
    cv2.line(canvas, start, end, colour, 2, cv2.LINE_AA)


def _side_by_side(images: list[Image]) -> tuple[Image, int]:
    """Place both images on white; return where the second begins."""
    left, right = images
    height = _STRIP + max(left.shape[0], right.shape[0])
    canvas = np.full((height, left.shape[1] + _GAP + right.shape[1], 3), 255, np.uint8)
    canvas[_STRIP : _STRIP + left.shape[0], : left.shape[1]] = left
    offset = left.shape[1] + _GAP
    canvas[_STRIP : _STRIP + right.shape[0], offset:] = right
    return canvas, offset


def _write(cv2: Any, canvas: Image, title: str) -> None:
    """Write the title; OpenCV has letters of ASCII only."""
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in title)
    cv2.putText(canvas, plain, (6, 23), cv2.FONT_HERSHEY_SIMPLEX, 0.55, _INK, 1, cv2.LINE_AA)


def _pixel(xy: NDArray[np.float64], zoom: float, shift: NDArray[np.int64]) -> tuple[int, int]:
    x, y = np.rint(xy * zoom).astype(int) + shift
    return int(x), int(y)


_SIDE, _LEFT, _TOP, _BELOW, _PANEL_GAP = 300, 52, 40, 46, 20
_DASHES: Final = ("", "6 3", "2 3", "8 3 2 3")


def draw_curves(curves: Sequence[PRCurve]) -> str:
    """Draw precision over recall as SVG, a panel for each task.

    Args:
        curves: Curves, coloured by descriptor, dashed by difficulty.

    Returns:
        The picture as text.
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
    legend = [*_legend(colours, y), *_dash_legend(dashes, y + 20 * len(names))]
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


def _legend(colours: dict[str, str], y: float) -> Iterator[str]:
    for number, (name, colour) in enumerate(colours.items()):
        yield circle(_LEFT, y + 20 * number - 4, 4, fill=colour)
        yield svg_text(_LEFT + 10, y + 20 * number, name)


def _dash_legend(dashes: dict[str, str], y: float) -> Iterator[str]:
    for number, (part, dash) in enumerate(dashes.items() if len(dashes) > 1 else ()):
        x = _LEFT + 90 * number
        style = {"stroke_dasharray": dash} if dash else {}
        yield line(x - 4, y - 4, x + 24, y - 4, stroke=GREY, stroke_width=2, **style)
        yield svg_text(x + 30, y, part)
