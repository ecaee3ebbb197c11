"""Charts of reports and of the dashboard as SVG: they need no script and come with the page.

Built on the kit of `assay.tables.svg`. Places are percentages, so that a chart is as wide as the
page while its text keeps its size. Colours come from the style sheet; shape or words say the same
once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

import numpy as np

from assay.arrays import Floats
from assay.core.text import bracket
from assay.tables.html import Markup, html_text, tag
from assay.tables.svg import COLOURS, Scale, circle, line, percent, rect, svg_text

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
    """Draw a mean with its interval on one line of a table."""
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
    """Draw a line from the bottom to the top of a chart."""
    return line(percent(at), "0", percent(at), "100%", class_=kind)


def _level(at: float, kind: str) -> str:
    """Draw a line across a chart, at a place from below."""
    y = percent(100 - at)
    return line("0", y, "100%", y, class_=kind)


def _frame(kind: str, description: str, ticks: Sequence[tuple[float, str]], marks: str) -> Markup:
    """Draw a chart with its axis at the left; ticks are percent and words."""
    grid = "".join(_level(at, "grid") for at, _ in ticks)
    words = "".join(svg_text("100%", percent(100 - at), text, dy=".35em") for at, text in ticks)
    axis = tag("svg", words, class_="axis", aria_hidden="true")
    role = "group" if "<a " in marks else "img"  # links inside of an image are not read
    area = tag("svg", grid + marks, class_="area", role=role, aria_label=description)
    return Markup(tag("div", axis + area, class_=f"plot {kind}"))


def _ticks(scale: Scale) -> list[tuple[float, str]]:
    return [(scale.at(tick), f"{tick:g}") for tick in scale.ticks()]


def _below(at: float, text: str) -> str:
    """Write words below the horizontal axis, inside of the chart at its ends."""
    anchor = "start" if at < 5 else "end" if at > 95 else "middle"
    return svg_text(percent(at), "100%", text, class_=anchor, dy="1.4em")


def histogram(values: Floats, measure: str, mean: float | None) -> Markup:
    """Draw how many queries have which value; a line marks the mean."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return _NOTHING
    low, high = min(0.0, float(defined.min())), max(1.0, float(defined.max()))
    counts, edges = np.histogram(defined, bins=_BINS, range=(low, high))
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
        at = x.at(mean)
        side, away = ("end", -6) if at > 75 else ("start", 6)  # the mean stands where there is room
        words, place = f"mean {mean:.4f}", percent(at)
        marks.append(_upright(at, "mean"))
        marks.append(svg_text(place, "0", words, class_=f"mean {side}", dy="1em", dx=away))
    marks += [_below(x.at(tick), f"{tick:g}") for tick in x.ticks()]
    whole = [(at, text) for at, text in _ticks(y) if "." not in text]
    return _frame(
        "histogram", f"{measure}: values of {len(defined):,} queries", whole, "".join(marks)
    )


@dataclass(frozen=True)
class QueryBar:
    """A bar: where a click leads, and the words on hover."""

    href: str
    tip: str


def difference_bars(
    differences: Floats, description: str, describe: Callable[[int], QueryBar]
) -> Markup:
    """Draw differences of queries, the largest win first; losses hang below the line.

    `describe` says which query stands at a position of the differences.
    """
    order = np.argsort(-differences, kind="stable")[: int((~np.isnan(differences)).sum())]
    if not len(order):
        return _NOTHING
    y = Scale.around([0.0, *differences[order[[0, -1]]].tolist()])
    if len(order) > _MOST_BARS:  # evenly, with both ends
        order = order[np.linspace(0, len(order) - 1, _MOST_BARS).round().astype(int)]
    zero, width = y.at(0.0), 100 / len(order)
    bars = []
    for number, position in enumerate(order.tolist()):
        value = float(differences[position])
        height = abs(y.at(value) - zero)
        if height:
            place = (number * width, 100 - y.at(max(value, 0.0)), width, height)
            query = describe(position)
            kind = "win" if value > 0 else "loss"
            bar = rect(*map(percent, place), class_=kind, tip=query.tip)
            bars.append(tag("a", bar, href=query.href, tabindex=-1))  # the table has them all
    marks = "".join([*bars, _level(zero, "zero")])
    return _frame("bars", description, _ticks(y), marks)


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


def trend_line(points: Sequence[TrendPoint], measure: str) -> Markup:
    """Draw runs over time with intervals; triangles mark significant changes."""
    if not points:
        return _NOTHING
    y = trend_scale(points)
    xs = [(i + 0.5) * 100 / len(points) for i in range(len(points))]
    places = [(percent(x), percent(100 - y.at(p.value))) for x, p in zip(xs, points, strict=True)]
    marks = [line(*old, *new, class_="path") for old, new in pairwise(places)]
    marks += [_trend_mark(p, *place, y) for p, place in zip(points, places, strict=True)]
    step = max(1, math.ceil(len(points) / _MOST_DATES))
    days, years = ({point.when[:size] for point in points} for size in (10, 4))
    form = "%H:%M" if len(days) == 1 else "%-d %b" if len(years) == 1 else "%-d %b %Y"
    shown = {i: datetime.fromisoformat(points[i].when) for i in range(0, len(points), step)}
    marks += [_below(xs[i], f"{when:{form}}") for i, when in shown.items()]
    description = f"{measure} of {len(points)} runs in the order of time"
    return _frame("trend", description, _ticks(y), "".join(marks))


def trend_scale(points: Sequence[TrendPoint]) -> Scale:
    """Return a scale of all means and usual intervals, which a very wide one does not flatten."""
    values = [point.value for point in points]
    widths = [p.high - p.low for p in points if p.low is not None and p.high is not None]
    room = float(np.median(widths)) / 2 if widths else 0.0
    return Scale.around([min(values) - room, max(values) + room])


def sparkline(values: Sequence[float], description: str) -> Markup:
    """Draw a few numbers as a line without axes, the last one marked; nothing of one."""
    if len(values) < 2:
        return _NOTHING
    y = Scale.around(values, margin=0.2)
    places = [(100 * i / (len(values) - 1), 100 - y.at(v)) for i, v in enumerate(values)]
    path = tag("polyline", "", points=" ".join(f"{a:g},{b:g}" for a, b in places))
    stretched = tag("svg", path, viewBox="0 0 100 100", preserveAspectRatio="none")
    last = circle("100%", percent(places[-1][1]), 3)
    return Markup(tag("svg", stretched + last, class_="spark", role="img", aria_label=description))


def _trend_mark(point: TrendPoint, x: str, y: str, scale: Scale) -> str:
    interval = ""
    if point.low is not None and point.high is not None:
        ends = (percent(min(max(100 - scale.at(e), 0.0), 100.0)) for e in (point.low, point.high))
        interval = line(x, next(ends), x, next(ends), class_="range")
    mark = tag("svg", _SHAPES[point.change], class_="mark", x=x, y=y)
    tip = tag("title", html_text(point.tip))
    return tag("a", f"{interval}{mark}{tip}", href=point.href, class_=point.change)


_MOST_LABELS: Final = 40
_LONGEST: Final = 22  # characters of a name beside a mark
_LABEL: Final = 15.0  # pixels from one label to the next
# Heights of a chart of curves in pixels, as the style sheet has them: each holds some labels.
_HEIGHTS: Final = {"low": 280, "high": 420, "higher": 620}


def curve_lines(curves: Mapping[str, Sequence[tuple[int, float]]], measure: str) -> Markup:
    """Draw means against the cutoff: a line for each system, named at its end.

    A curve has pairs of a cutoff and a mean. The first six have colours. The style sheet lifts the
    line under the pointer.
    """
    points = [point for curve in curves.values() for point in curve]
    cutoffs = sorted({k for k, _ in points})
    x = Scale(math.log(cutoffs[0]), math.log(cutoffs[-1]))
    y = Scale.around(mean for _, mean in points)
    named = list(curves.values())[:_MOST_LABELS]
    needed = len(named) * _LABEL
    size = next((key for key, height in _HEIGHTS.items() if height >= needed), "higher")
    last = [curve[-1][0] for curve in named]
    labels = [0.0] * len(named)
    for cutoff in set(last):  # names stand at the ends of lines, and some lines end early
        members = [i for i, end in enumerate(last) if end == cutoff]
        ends = [100 - y.at(named[i][-1][1]) for i in members]
        for i, place in zip(members, _spread(ends, 100 * _LABEL / _HEIGHTS[size]), strict=True):
            labels[i] = place
    lines = []
    for number, (name, curve) in enumerate(curves.items()):
        places = [(x.at(math.log(k)), 100 - y.at(mean), k, mean) for k, mean in curve]
        path = tag("polyline", "", points=" ".join(f"{a:g},{b:g}" for a, b, *_ in places))
        # Stretched to the chart; the style sheet keeps the width of its line.
        marks = [tag("svg", path, viewBox="0 0 100 100", preserveAspectRatio="none")]
        for a, b, k, mean in places:
            tip = f"{name}, k = {k}: {mean:.4f}"
            marks.append(circle(percent(a), percent(b), 3, tip=tip))
        if number < len(labels):
            at = percent(places[-1][0]), percent(labels[number])
            marks.append(svg_text(*at, _brief(name), dx=10, dy=".35em", class_="name"))
        colour = f"c{number}" if number < len(COLOURS) else "rest"
        lines.append(tag("g", "".join(marks), class_=f"system {colour}", data_system=name))
    numbered: list[int] = []  # cutoffs whose numbers do not touch below the axis
    for k in cutoffs:
        if not numbered or x.at(math.log(k)) - x.at(math.log(numbered[-1])) > 4:
            numbered.append(k)
    words = [_below(x.at(math.log(k)), str(k)) for k in numbered]
    words.append(svg_text("50%", "100%", "cutoff k", class_="middle", dy="2.7em"))
    described = f"{measure} by cutoff of {len(curves)} systems, named at their ends"
    return _frame(f"curves {size}", described, _ticks(y), "".join([*words, *reversed(lines)]))


def _brief(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _spread(places: Sequence[float], gap: float) -> list[float]:
    """Move places apart as little as it takes, within the chart.

    >>> _spread([50, 51, 10], 5)
    [50, 55, 10]
    """
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    moved = list(places)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + gap)
    limit = 100.0
    for i in reversed(order):
        if moved[i] <= limit:
            break
        moved[i], limit = limit, limit - gap
    return moved


@dataclass(frozen=True)
class CostPoint:
    """A system: what it costs and what it reaches, with the ends of its interval."""

    name: str
    cost: float
    value: float
    low: float | None = None
    high: float | None = None
    href: str | None = None


def pareto_front(points: Iterable[CostPoint]) -> list[CostPoint]:
    """Return the systems that no other beats at the same or a lower cost.

    >>> [p.name for p in pareto_front([CostPoint("a", 1, 0.5), CostPoint("b", 2, 0.4)])]
    ['a']
    """
    front: list[CostPoint] = []
    for point in sorted(points, key=lambda system: (system.cost, -system.value)):
        if not front or point.value > front[-1].value:
            front.append(point)
    return front


def cost_picture(
    points: Sequence[CostPoint], measure: str, cost: str, write: Callable[[float], str]
) -> Markup:
    """Draw quality with intervals against cost on a logarithmic axis.

    `cost` is what the axis is of, `write` says a cost in words. Nothing is drawn of one system.
    """
    drawn = [p for p in points if p.cost > 0 and math.isfinite(p.cost) and math.isfinite(p.value)]
    if len(drawn) < 2:
        return _NOTHING
    x = Scale.around((math.log10(p.cost) for p in drawn), margin=0.12)
    y = Scale.around(end for p in drawn for end in (p.value, p.low, p.high))
    front = pareto_front(drawn)
    marks = [
        _below(x.at(math.log10(tick)), write(tick).replace(".0 ", " ")) for tick in _log_ticks(x)
    ]
    marks += [svg_text("50%", "100%", cost, class_="middle", dy="2.9em")]
    marks += _front_line(front, x, y)
    ranked = sorted(drawn, key=lambda point: (point not in front, -point.value))
    sides = _label_sides(ranked, x, y)
    marks += [_cost_mark(p, x, y, write, first=p in front, side=sides.get(p, "")) for p in drawn]
    best = ", ".join(p.name for p in front)
    described = f"{measure} against {cost} of {len(drawn)} systems; none is both cheaper and better"
    return _frame("costs", f"{described} than {best}", _ticks(y), "".join(marks))


def _log_ticks(scale: Scale) -> list[float]:
    """Return round numbers on a logarithmic scale, few over many powers of ten."""
    wide = scale.high - scale.low
    steps = range(1, 10) if wide < 0.5 else (1, 2, 5) if wide < 2.5 else (1,)
    powers = range(math.floor(scale.low), math.ceil(scale.high) + 1)
    every = [step * 10.0**power for power in powers for step in steps]
    return [tick for tick in every if 4 <= scale.at(math.log10(tick)) <= 96]


def _front_line(front: Sequence[CostPoint], x: Scale, y: Scale) -> list[str]:
    """Draw steps from one system of the front to the next."""
    places = [(x.at(math.log10(p.cost)), 100 - y.at(p.value)) for p in front]
    steps = []
    for (x1, y1), (x2, y2) in pairwise(places):
        a, b, c, d = map(percent, (x1, x2, y1, y2))
        steps += [line(a, c, b, c, class_="front"), line(b, c, b, d, class_="front")]
    return steps


def _label_sides(points: Sequence[CostPoint], x: Scale, y: Scale) -> dict[CostPoint, str]:
    """Find the side where a name covers no other name and no mark."""
    places = {point: (x.at(math.log10(point.cost)), y.at(point.value)) for point in points}
    names: list[tuple[float, float, float]] = []
    sides = {}
    for point, (at, up) in places.items():
        long = 2 + 1.4 * len(_brief(point.name))  # percent of a chart of half a page
        marks = [(a - 1, a + 1, b) for other, (a, b) in places.items() if other != point]
        for side, left in (("start", at + 1), ("end", at - 1 - long)):
            covers = [
                abs(up - b) < 6 and left < c and a < left + long for a, c, b in (*names, *marks)
            ]
            if not any(covers) and left >= 0 and left + long <= 112:
                names.append((left, left + long, up))
                sides[point] = side
                break
    return sides


def _cost_mark(
    p: CostPoint, x: Scale, y: Scale, write: Callable[[float], str], *, first: bool, side: str
) -> str:
    at = percent(x.at(math.log10(p.cost))), percent(100 - y.at(p.value))
    ends, words = "", f"{p.value:.4f}"
    if p.low is not None and p.high is not None:
        ends = line(at[0], percent(100 - y.at(p.low)), at[0], percent(100 - y.at(p.high)))
        words += f" {bracket(p.low, p.high)}"
    away = -9 if side == "end" else 9
    label = svg_text(*at, _brief(p.name), class_=side, dx=away, dy="-.35em") if side else ""
    tip = tag("title", html_text(f"{p.name}: {words}, {write(p.cost)}"))
    mark = f"{tip}{ends}{circle(*at, 5)}{label}"
    kind = "system first" if first else "system"
    return tag("g" if p.href is None else "a", mark, class_=kind, href=p.href, data_system=p.name)
