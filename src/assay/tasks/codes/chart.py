"""The curve of a report on codes: what a code preserves, over the bytes it takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.stats import Interval
from assay.tables.html import tag
from assay.tables.svg import (
    COLOURS,
    GREY,
    Drawing,
    Scale,
    circle,
    group,
    line,
    svg_text,
)
from assay.tasks.codes.encoders import FLOAT
from assay.tasks.codes.hashing import RADIUS, map_measure

if TYPE_CHECKING:
    from assay.tasks.codes.result import CodesReport, QuantizationResult

__all__ = ["report_chart"]

_COLOURS: Final = (*COLOURS, "#555555", "#8c564b", "#9a9a00", "#17a2b8")
_INK, _SOFT, _GRID = "#222222", "#666666", "#e4e4e4"
_WIDTH, _HEIGHT = 460, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 40, 46
_LEGEND_COLUMNS: Final = 6
_DASHES: Final = ("", "8 3", "4 3", "1 3")  # of the code itself, then by oversampling
_Y: Final = Scale(0.0, 1.0, start=_HEIGHT - _BOTTOM, end=_TOP)


@dataclass(frozen=True)
class _CodePoint:
    """One code: `method` decides the colour, `size` is in bytes per vector.

    `factor` is the oversampling with which it was re-ranked, 1 where it was not.
    """

    method: str
    name: str
    size: int
    mean: Interval
    factor: int


@dataclass(frozen=True)
class _Panel:
    title: str
    points: list[_CodePoint]
    chance: float


def report_chart(report: CodesReport) -> str:
    """Overlap at the smallest k and, where there are judgments, nDCG, over bytes per vector."""
    k = report.settings.k[0]
    overlap = {one.name: report.intervals[one.name][f"Overlap@{k}"] for one in report.codes}
    title = f"Overlap@{k} with the float ranking"
    panels = [_Panel(title, _code_points(report, overlap), report.chance(k))]
    if report.comparison is not None:
        preset, chance = report.settings.hashing, report.chance_map
        measure = f"nDCG@{k}" if preset is None else map_measure(preset)
        judged = {one.name: one.mean for one in report.comparison.standings_on(measure)}
        title = f"{measure} against the judgments"
        points = _code_points(report, judged)
        panels.append(_Panel(title, points, math.nan if chance is None else chance))
    methods = list(dict.fromkeys(point.method for panel in panels for point in panel.points))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(methods)}
    powers = [math.log2(point.size) for point in panels[0].points]
    x = Scale(min(powers) - 0.5, max(powers) + 0.5, start=_LEFT, end=_WIDTH - _RIGHT)
    curves = [one for one in report.codes if one.curve is not None]
    width = _WIDTH * (len(panels) + bool(curves))
    factors = report.settings.oversample
    lines = -(-len(methods) // _legend_columns(methods, width)) + bool(factors)
    height = _HEIGHT + 6 + 20 * lines
    marks = [
        group(_WIDTH * i, 0, "".join(_panel_marks(panel, x, colours)))
        for i, panel in enumerate(panels)
    ]
    if curves:
        marks.append(group(_WIDTH * len(panels), 0, "".join(_radius_marks(report, colours))))
    inside = tag(
        "g",
        "\n".join([*marks, *_legend(colours, width), *_dash_legend(factors, height)]),
        fill=_INK,
    )
    return Drawing(width, height, inside).to_svg(font_size=12)


def _code_points(report: CodesReport, means: dict[str, Interval]) -> list[_CodePoint]:
    return [
        _CodePoint(
            _method(one),
            one.name,
            one.cost.bytes_per_vector,
            means[one.name],
            one.oversample or 1,
        )
        for one in report.codes
    ]


def _method(one: QuantizationResult) -> str:
    """The method of a code; codes that were given stand for themselves."""
    name = one.name if one.oversample is None else one.name.rpartition(" ")[0]
    return name if one.method == "given" or name == FLOAT else one.method


def _panel_marks(panel: _Panel, x: Scale, colours: dict[str, str]) -> Iterator[str]:
    yield svg_text(_LEFT, 22, panel.title, font_size=14, font_weight="bold")
    yield from _axes(x)
    if not math.isnan(panel.chance):
        yield from _reference_line(panel.chance, "chance")
    levels = [point.mean.estimate for point in panel.points if point.name == FLOAT]
    if levels and not math.isnan(levels[0]):
        yield from _reference_line(levels[0], "float")
    for method, colour in colours.items():
        own = sorted((p for p in panel.points if p.method == method), key=lambda p: p.size)
        known = [p for p in own if not math.isnan(p.mean.estimate)]
        for number, factor in enumerate(sorted({p.factor for p in panel.points})):
            chosen = [p for p in known if p.factor == factor]
            yield from _curve(chosen, x, colour, _DASHES[number % len(_DASHES)])


def _axes(x: Scale) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _Y.at(0)
    for step in range(0, 11, 2):
        y = _Y.at(step / 10)
        yield line(_LEFT, y, right, y, stroke=_GRID)
        yield svg_text(_LEFT - 8, y + 4, f"{step / 10:.1f}", text_anchor="end")
    for power in range(math.ceil(x.low), math.floor(x.high) + 1):
        at = x.at(power)
        yield line(at, bottom, at, bottom + 5, stroke=GREY)
        yield svg_text(at, bottom + 18, 2**power, text_anchor="middle")
    yield svg_text((_LEFT + right) / 2, _HEIGHT - 8, "bytes per vector", text_anchor="middle")


def _radius_marks(report: CodesReport, colours: dict[str, str]) -> Iterator[str]:
    """Precision over recall by Hamming radius; the number at a line is that of its bits."""
    yield svg_text(_LEFT, 22, "By Hamming radius", font_size=14, font_weight="bold")
    x = Scale(0.0, 1.0, start=_LEFT, end=_WIDTH - _RIGHT)
    yield from _shares(x)
    for one in report.codes:
        if one.curve is None:
            continue
        colour = colours[_method(one)]
        places = [
            (x.at(r), _Y.at(p), radius)
            for radius, (r, p) in enumerate(zip(one.curve.recall, one.curve.precision, strict=True))
            if one.curve.filled[radius] > 0
        ]
        path = " ".join(f"{at:g},{y:g}" for at, y, _ in places)
        yield tag("polyline", points=path, fill="none", stroke=colour, stroke_width=1.5)
        at, y, _ = min(places, key=lambda place: abs(place[0] - x.at(0.4)))
        yield svg_text(at + 3, y - 3, one.cost.bits, font_size=10, fill=colour)
        for at, y, radius in places[:1] + [p for p in places[1:] if p[2] == RADIUS]:
            yield circle(at, y, 2.5, tip=f"{one.name}, radius {radius}", fill=colour)


def _shares(x: Scale) -> Iterator[str]:
    for step in range(0, 11, 2):
        yield line(_LEFT, _Y.at(step / 10), x.end, _Y.at(step / 10), stroke=_GRID)
        yield svg_text(_LEFT - 8, _Y.at(step / 10) + 4, f"{step / 10:.1f}", text_anchor="end")
        yield svg_text(x.at(step / 10), _Y.at(0) + 18, f"{step / 10:.1f}", text_anchor="middle")
    middle = (_LEFT + x.end) / 2
    yield svg_text(middle, _HEIGHT - 8, "recall; upwards: precision", text_anchor="middle")


def _reference_line(level: float, name: str) -> Iterator[str]:
    y = _Y.at(level)
    yield line(_LEFT, y, _WIDTH - _RIGHT, y, stroke=GREY, stroke_dasharray="4 3")
    yield svg_text(_LEFT + 4, y - 4, name, fill=_SOFT, font_size=11)


def _curve(points: list[_CodePoint], x: Scale, colour: str, dash: str) -> Iterator[str]:
    places = [(x.at(math.log2(point.size)), _Y.at(point.mean.estimate)) for point in points]
    if len(points) > 1:
        path = " ".join(f"{at:g},{y:g}" for at, y in places)
        style = {"stroke_dasharray": dash} if dash else {}
        yield tag("polyline", points=path, fill="none", stroke=colour, stroke_width=2, **style)
    for point, (at, y) in zip(points, places, strict=True):
        mean = point.mean
        if not math.isnan(mean.low):
            yield line(at, _Y.at(mean.low), at, _Y.at(mean.high), stroke=colour)
        tip = f"{point.name}: {mean.estimate:.4f}, {point.size} bytes"
        yield circle(at, y, 3.5, tip=tip, fill=colour)
        if len(points) == 1 and dash:  # there is no line whose dashes would tell
            yield svg_text(at + 7, y + 4, point.name.rpartition(" ")[2], font_size=10, fill=colour)


def _legend_columns(methods: Iterable[str], width: int) -> int:
    """How many names stand side by side: as many as there is room for, six at most."""
    longest = 30 + 7 * max(map(len, methods))
    return max(1, min(_LEGEND_COLUMNS, (width - _LEFT) // longest))


def _legend(colours: dict[str, str], width: int) -> Iterator[str]:
    columns = _legend_columns(colours, width)
    step = min(130.0, (width - _LEFT) / columns)
    for i, (name, colour) in enumerate(colours.items()):
        x = _LEFT + (i % columns) * step
        y = _HEIGHT + 12 + 20 * (i // columns)
        yield circle(x, y - 4, 4, fill=colour)
        yield svg_text(x + 9, y, name)


def _dash_legend(factors: tuple[int, ...], height: int) -> Iterator[str]:
    for number, factor in enumerate((1, *factors) if factors else ()):
        x, y = _LEFT + 110 * number, height - 14
        dash = _DASHES[number % len(_DASHES)]
        style = {"stroke_dasharray": dash} if dash else {}
        yield line(x - 4, y - 4, x + 24, y - 4, stroke=GREY, stroke_width=2, **style)
        yield svg_text(x + 30, y, "code alone" if number == 0 else f"re-ranked ×{factor}")
