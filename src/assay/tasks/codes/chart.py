"""The curve of a report on codes as SVG: what a code keeps, over the bytes it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

from assay.core.text import printable
from assay.tasks.codes.evaluate import FLOAT, CodesReport

__all__ = ["report_chart"]

# Colours that people with any kind of colour vision tell apart (Okabe and Ito).
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
_WIDTH, _HEIGHT = 460, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 40, 46


@dataclass(frozen=True)
class _Point:
    method: str
    name: str
    size: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class _Scale:
    """From bytes and values to places in a panel; bytes are shown by their logarithm."""

    low: float
    high: float

    def x(self, size: float) -> float:
        share = (math.log2(size) - self.low) / (self.high - self.low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value * (_HEIGHT - _TOP - _BOTTOM)


def report_chart(report: CodesReport) -> str:
    """Overlap at the smallest k and, where there are judgments, nDCG, over bytes per vector."""
    k = report.settings.k[0]
    panels = [(f"Overlap@{k} with the float ranking", _overlaps(report, k), report.chance(k))]
    if report.comparison is not None:
        panels.append((f"nDCG@{k} against the judgments", _found(report, k), math.nan))
    methods = list(dict.fromkeys(point.method for _, points, _ in panels for point in points))
    colour = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(methods)}
    sizes = [point.size for point in panels[0][1]]
    scale = _Scale(math.log2(min(sizes)) - 0.5, math.log2(max(sizes)) + 0.5)
    width, height = _WIDTH * len(panels), _HEIGHT + 26 + 20 * ((len(methods) - 1) // 6)
    parts = [
        f'<g transform="translate({_WIDTH * i},0)">{"".join(_panel(panel, scale, colour))}</g>'
        for i, panel in enumerate(panels)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="#222222">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        f"{''.join(parts)}{''.join(_legend(colour, width))}</svg>"
    )


def _label(report: CodesReport, name: str) -> str:
    """Ready codes stand for themselves, the others for their method."""
    one = report[name]
    return name if one.method == "given" or name == FLOAT else one.method


def _overlaps(report: CodesReport, k: int) -> list[_Point]:
    return [
        _Point(
            _label(report, one.name),
            one.name,
            one.cost.bytes_per_vector,
            found.estimate,
            found.low,
            found.high,
        )
        for one in report.codes
        for found in [report.intervals[one.name][f"Overlap@{k}"]]
    ]


def _found(report: CodesReport, k: int) -> list[_Point]:
    if report.comparison is None:
        return []
    means = {one.name: one.mean for one in report.comparison.standings_on(f"nDCG@{k}")}
    return [
        _Point(
            _label(report, one.name),
            one.name,
            one.cost.bytes_per_vector,
            means[one.name].estimate,
            means[one.name].low,
            means[one.name].high,
        )
        for one in report.codes
    ]


def _panel(
    panel: tuple[str, list[_Point], float], scale: _Scale, colour: dict[str, str]
) -> Iterator[str]:
    title, points, chance = panel
    yield f'<text x="{_LEFT}" y="22" font-size="14" font-weight="bold">{escape(title)}</text>'
    yield from _axes(scale)
    if not math.isnan(chance):
        yield _rule(scale.y(chance), "chance")
    level = next((point.value for point in points if point.name == FLOAT), math.nan)
    if not math.isnan(level):
        yield _rule(scale.y(level), "float")
    for method, shade in colour.items():
        own = sorted((p for p in points if p.method == method), key=lambda point: point.size)
        yield from _line([p for p in own if not math.isnan(p.value)], scale, shade)


def _rule(y: float, name: str) -> str:
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#888888" '
        f'stroke-dasharray="4 3"/><text x="{_LEFT + 4}" y="{y - 4:.1f}" fill="#666666" '
        f'font-size="11">{name}</text>'
    )


def _axes(scale: _Scale) -> Iterator[str]:
    bottom = scale.y(0)
    for step in range(0, 11, 2):
        y = scale.y(step / 10)
        yield (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="#e4e4e4"/><text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{step / 10:.1f}</text>"
        )
    for power in range(math.ceil(scale.low), math.floor(scale.high) + 1):
        x = scale.x(2.0**power)
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:.1f}" y2="{bottom + 5:.1f}" '
            f'stroke="#888888"/><text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">'
            f"{2**power}</text>"
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield f'<text x="{middle:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">bytes per vector</text>'


def _line(points: list[_Point], scale: _Scale, shade: str) -> Iterator[str]:
    if len(points) > 1:
        path = " ".join(f"{scale.x(p.size):.1f},{scale.y(p.value):.1f}" for p in points)
        yield f'<polyline points="{path}" fill="none" stroke="{shade}" stroke-width="2"/>'
    for point in points:
        x, y = scale.x(point.size), scale.y(point.value)
        if not math.isnan(point.low):
            yield (
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{scale.y(point.low):.1f}" '
                f'y2="{scale.y(point.high):.1f}" stroke="{shade}"/>'
            )
        said = escape(f"{printable(point.name)}: {point.value:.4f}, {point.size} bytes")
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{shade}"><title>{said}</title>'
            "</circle>"
        )


def _legend(colour: dict[str, str], width: int) -> Iterator[str]:
    step = min(130.0, (width - _LEFT) / 6)
    for i, (name, shade) in enumerate(colour.items()):
        x, y = _LEFT + (i % 6) * step, _HEIGHT + 12 + 20 * (i // 6)
        yield (
            f'<circle cx="{x:.0f}" cy="{y - 4}" r="4" fill="{shade}"/>'
            f'<text x="{x + 9:.0f}" y="{y}">{escape(printable(name))}</text>'
        )
