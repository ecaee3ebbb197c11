"""Charts of the dashboard, drawn on the server: they need no script and come with the page.

Built on the kit of `assay.tables.svg`. Places are percentages, so that a chart is as wide as the
page while its text keeps its size. Colours come from the style sheet; shape or words say the same
once more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from markupsafe import Markup

from assay.arrays import Floats
from assay.tables.html import html_text, tag
from assay.tables.svg import Scale, circle, line, percent, rect, svg_text

__all__ = ["TrendPoint", "difference_bars", "histogram", "interval_strip", "trend_line"]

_MOST_BARS: Final = 400
_BINS: Final = 20
_MOST_DATES: Final = 4
_NOTHING: Final = Markup("")
# Shapes around the origin, 5 units in each direction: up, down, a circle.
_SHAPES: Final = {
    "better": '<path d="M0-6 5.5 4.5h-11z"/>',
    "worse": '<path d="M0 6 5.5-4.5h-11z"/>',
    "same": '<circle r="4"/>',
}


def interval_strip(
    scale: Scale,
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    chance: float | None = None,
    first: bool = False,
) -> Markup:
    """A mean with its interval on one line of a table, and chance as a dashed mark."""
    if value is None:
        return _NOTHING
    description = f"{value:.4f}"
    marks = []
    if chance is not None and scale.low <= chance <= scale.high:
        marks.append(_upright(scale.at(chance), "chance"))
    if low is not None and high is not None:
        description += f" from {low:.4f} to {high:.4f}"
        ends = percent(scale.at(low)), percent(scale.at(high))
        marks.append(line(ends[0], "50%", ends[1], "50%", class_="range"))
    marks.append(circle(percent(scale.at(value)), "50%", 4))
    kind = "strip first" if first else "strip"
    return Markup(tag("svg", "".join(marks), class_=kind, role="img", aria_label=description))


def _upright(at: float, kind: str) -> str:
    """A line from the bottom to the top of a chart."""
    return line(percent(at), "0", percent(at), "100%", class_=kind)


def _level(at: float, kind: str) -> str:
    """A line across a chart, at a place from below."""
    y = percent(100 - at)
    return line("0", y, "100%", y, class_=kind)


def _frame(kind: str, description: str, ticks: Sequence[tuple[float, str]], marks: str) -> Markup:
    """A chart with its axis at the left; ticks are places in percent from below, and words."""
    grid = "".join(_level(at, "grid") for at, _ in ticks)
    words = "".join(svg_text("100%", percent(100 - at), text, dy=".35em") for at, text in ticks)
    axis = tag("svg", words, class_="axis", aria_hidden="true")
    area = tag("svg", grid + marks, class_="area", role="img", aria_label=description)
    return Markup(tag("div", axis + area, class_=f"plot {kind}"))


def _ticks(scale: Scale) -> list[tuple[float, str]]:
    return [(scale.at(tick), f"{tick:g}") for tick in scale.ticks()]


def _below(at: float, text: str) -> str:
    """Words below the horizontal axis, which do not leave the chart at its ends."""
    anchor = "start" if at < 5 else "end" if at > 95 else "middle"
    return svg_text(percent(at), "100%", text, class_=anchor, dy="1.4em")


def histogram(values: Floats, measure: str, mean: float | None) -> Markup:
    """How many queries have which value; a line marks the mean."""
    known = values[~np.isnan(values)]
    if not len(known):
        return _NOTHING
    low, high = min(0.0, float(known.min())), max(1.0, float(known.max()))
    counts, edges = np.histogram(known, bins=_BINS, range=(low, high))
    x, y = Scale(low, high), Scale(0, float(counts.max()) * 1.05)
    marks = [
        rect(
            percent(x.at(a) + 0.25),
            percent(100 - y.at(int(n))),
            percent(100 / _BINS - 0.5),
            percent(y.at(int(n))),
            class_="bar",
            tip=f"{a:.4g} to {b:.4g}: {n:,} queries",
        )
        for n, a, b in zip(counts, edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if n
    ]
    if mean is not None and low <= mean <= high:
        marks += _mean_line(x.at(mean), mean)
    marks += [_below(x.at(tick), f"{tick:g}") for tick in x.ticks()]
    whole = [(at, text) for at, text in _ticks(y) if "." not in text]
    return _frame(
        "histogram", f"{measure}: values of {len(known):,} queries", whole, "".join(marks)
    )


def _mean_line(at: float, mean: float) -> list[str]:
    """A line with the mean beside it, on the side where there is room."""
    side, away = ("end", -6) if at > 80 else ("start", 6)
    words = svg_text(percent(at), "0", f"mean {mean:.4f}", class_=f"mean {side}", dy="1em", dx=away)
    return [_upright(at, "mean"), words]


def difference_bars(differences: Floats, description: str) -> Markup:
    """Differences of queries, the largest win first; losses hang below the line."""
    known = np.sort(differences[~np.isnan(differences)])[::-1]
    if not len(known):
        return _NOTHING
    shown = known
    if len(known) > _MOST_BARS:  # evenly, with both ends
        shown = known[np.linspace(0, len(known) - 1, _MOST_BARS).round().astype(int)]
    y = Scale.around([0.0, float(known[0]), float(known[-1])])
    zero, width = y.at(0.0), 100 / len(shown)
    bars = []
    for number, value in enumerate(shown.tolist()):
        height = abs(y.at(value) - zero)
        if height:
            top = 100 - y.at(max(value, 0.0))
            place = (number * width, top, width, height)
            bars.append(rect(*map(percent, place), class_="win" if value > 0 else "loss"))
    return _frame("bars", description, _ticks(y), "".join([*bars, _level(zero, "zero")]))


@dataclass(frozen=True)
class TrendPoint:
    """One run of a trend: when, how good, and whether that is better or worse than before."""

    when: str
    value: float
    low: float | None
    high: float | None
    change: str
    href: str
    tip: str


def trend_line(
    points: Sequence[TrendPoint], measure: str, *, chance: float | None = None
) -> Markup:
    """Runs in the order of time with intervals; triangles up and down mark clear changes."""
    if not points:
        return _NOTHING
    y = Scale.around(end for point in points for end in (point.value, point.low, point.high))
    xs = [(i + 0.5) * 100 / len(points) for i in range(len(points))]
    places = [(percent(x), percent(100 - y.at(p.value))) for x, p in zip(xs, points, strict=True)]
    marks = [line(*old, *new, class_="path") for old, new in pairwise(places)]
    if chance is not None and y.low <= chance <= y.high:
        marks.append(_level(y.at(chance), "chance"))
    marks += [_trend_mark(p, *place, y) for p, place in zip(points, places, strict=True)]
    step = max(1, math.ceil(len(points) / _MOST_DATES))
    dates = _dates([point.when for point in points])
    marks += [_below(xs[i], dates[i]) for i in range(0, len(points), step)]
    description = f"{measure} of {len(points)} runs in the order of time"
    return _frame("trend", description, _ticks(y), "".join(marks))


def _dates(moments: Sequence[str]) -> list[str]:
    """Days, or times where all are of one day.

    >>> _dates(["2026-11-16T04:50:00Z", "2026-11-16T05:00:00Z"])
    ['04:50', '05:00']
    """
    one_day = len({moment[:10] for moment in moments}) == 1
    return [moment[11:16] if one_day else moment[:10] for moment in moments]


def _trend_mark(point: TrendPoint, x: str, y: str, scale: Scale) -> str:
    interval = ""
    if point.low is not None and point.high is not None:
        ends = (percent(100 - scale.at(end)) for end in (point.low, point.high))
        interval = line(x, next(ends), x, next(ends), class_="range")
    mark = tag("svg", _SHAPES[point.change], class_="mark", x=x, y=y)
    tip = tag("title", html_text(point.tip))
    return tag("a", f"{interval}{mark}{tip}", href=point.href, class_=point.change)
