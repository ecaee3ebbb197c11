"""Charts as SVG, made by the server: they need no script and are there with the page.

Places are percentages, so that a chart is as wide as the page while its text keeps its size.
Colours come from the style sheet; shape or words say the same once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from assay.report.html import html_text

__all__ = ["Point", "Span", "bars", "histogram", "strip", "trend"]

_MOST_BARS: Final = 400
_BINS: Final = 20
_MOST_DATES: Final = 4
# Shapes around the origin, 5 units in each direction: up, down, a circle.
_SHAPES: Final = {
    "better": '<path d="M0-6 5.5 4.5h-11z"/>',
    "worse": '<path d="M0 6 5.5-4.5h-11z"/>',
    "same": '<circle r="4"/>',
}


@dataclass(frozen=True)
class Span:
    """From where to where an axis goes."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float | None], *, margin: float = 0.06) -> Span:
        """An axis on which all values are seen."""
        known = [value for value in values if value is not None and math.isfinite(value)]
        if not known:
            return cls(0.0, 1.0)
        low, high = min(known), max(known)
        room = (high - low) * margin or max(abs(high) * margin, 0.01)
        return cls(low - room, high + room)

    def reaching(self, values: Iterable[float | None]) -> Span:
        """An axis that also shows these values, unless they are so far that nothing else is seen.

        >>> Span(1, 2).reaching([0.5]), Span(1, 2).reaching([-9.0])
        (Span(low=0.5, high=2), Span(low=1, high=2))
        """
        known = [value for value in values if value is not None]
        low, high = min([self.low, *known]), max([self.high, *known])
        return Span(low, high) if high - low <= 2 * (self.high - self.low) else self

    def at(self, value: float) -> float:
        """The place of a value in percent.

        >>> Span(0, 4).at(1)
        25.0
        """
        return round(100 * (value - self.low) / (self.high - self.low), 3)

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers on the axis.

        >>> Span(0.03, 0.52).ticks()
        [0.1, 0.2, 0.3, 0.4, 0.5]
        """
        rough = (self.high - self.low) / most
        unit = 10 ** math.floor(math.log10(rough))
        step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= rough)
        first = math.ceil(self.low / step)
        count = math.floor(self.high / step) - first + 1
        return [round((first + i) * step, 12) for i in range(count)]


def strip(
    span: Span,
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    chance: float | None = None,
    first: bool = False,
) -> Markup:
    """A mean with its interval on one line of a table, and chance as a dashed mark."""
    if value is None:
        return Markup("")
    said = f"{value:.4f}" + (
        "" if low is None or high is None else f" from {low:.4f} to {high:.4f}"
    )
    parts = []
    if chance is not None and span.low <= chance <= span.high:
        at = span.at(chance)
        parts.append(f'<line class="chance" x1="{at}%" x2="{at}%" y1="0" y2="100%"/>')
    if low is not None and high is not None:
        parts.append(
            f'<line class="range" x1="{span.at(low)}%" x2="{span.at(high)}%" y1="50%" y2="50%"/>'
        )
    parts.append(f'<circle cx="{span.at(value)}%" cy="50%" r="4"/>')
    kind = "strip first" if first else "strip"
    return Markup(
        f'<svg class="{kind}" role="img" aria-label="{html_text(said)}">{"".join(parts)}</svg>'
    )


def _framed(kind: str, described: str, ticks: Sequence[tuple[float, str]], inside: str) -> Markup:
    """A chart with its axis at the left; ticks are places in percent from below, and words."""
    lines = "".join(
        f'<line class="grid" x1="0" x2="100%" y1="{100 - at}%" y2="{100 - at}%"/>'
        for at, _ in ticks
    )
    words = "".join(
        f'<text x="100%" y="{100 - at}%" dy=".35em">{text}</text>' for at, text in ticks
    )
    return Markup(
        f'<div class="plot {kind}"><svg class="axis" aria-hidden="true">{words}</svg>'
        f'<svg class="area" role="img" aria-label="{html_text(described)}">{lines}{inside}</svg>'
        "</div>"
    )


def _ticks(span: Span) -> list[tuple[float, str]]:
    return [(span.at(tick), f"{tick:g}") for tick in span.ticks()]


def _under(at: float, text: str) -> str:
    anchor = "start" if at < 5 else "end" if at > 95 else "middle"
    return f'<text class="{anchor}" x="{at}%" y="100%" dy="1.4em">{html_text(text)}</text>'


def histogram(values: NDArray[np.float64], measure: str, mean: float | None) -> Markup:
    """How many queries have which value; a line marks the mean."""
    known = values[~np.isnan(values)]
    if not len(known):
        return Markup("")
    low, high = min(0.0, float(known.min())), max(1.0, float(known.max()))
    counts, edges = np.histogram(known, bins=_BINS, range=(low, high))
    across, up = Span(low, high), Span(0, float(counts.max()) * 1.05)
    inside = "".join(
        f'<rect class="bar" x="{across.at(a) + 0.25:.3f}%" y="{100 - up.at(int(n)):.3f}%" '
        f'width="{100 / _BINS - 0.5}%" height="{up.at(int(n))}%">'
        f"<title>{a:.4g} to {b:.4g}: {n:,} queries</title></rect>"
        for n, a, b in zip(counts, edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if n
    )
    if mean is not None and low <= mean <= high:
        at = across.at(mean)
        inside += (
            f'<line class="mean" x1="{at}%" x2="{at}%" y1="0" y2="100%"/>'
            f'<text class="mean {"end" if at > 80 else "start"}" x="{at}%" y="0" dy="1em" '
            f'dx="{-6 if at > 80 else 6}">mean {mean:.4f}</text>'
        )
    inside += "".join(_under(across.at(tick), f"{tick:g}") for tick in across.ticks())
    whole = [(at, text) for at, text in _ticks(up) if "." not in text]
    return _framed("histogram", f"{measure}: values of {len(known):,} queries", whole, inside)


def bars(differences: NDArray[np.float64], described: str) -> Markup:
    """Differences of queries, the largest win first; losses hang below the line."""
    known = np.sort(differences[~np.isnan(differences)])[::-1]
    if not len(known):
        return Markup("")
    chosen = known
    if len(known) > _MOST_BARS:  # evenly, with both ends
        chosen = known[np.linspace(0, len(known) - 1, _MOST_BARS).round().astype(int)]
    span = Span.around([0.0, float(known[0]), float(known[-1])])
    zero, width = 100 - span.at(0.0), 100 / len(chosen)
    parts = []
    for number, value in enumerate(chosen.tolist()):
        top = 100 - span.at(max(value, 0.0))
        height = abs(span.at(value) - span.at(0.0))
        if height:
            parts.append(
                f'<rect class="{"win" if value > 0 else "loss"}" x="{number * width:.3f}%" '
                f'y="{top:.3f}%" width="{width:.3f}%" height="{height:.3f}%"/>'
            )
    line = f'<line class="zero" x1="0" x2="100%" y1="{zero}%" y2="{zero}%"/>'
    return _framed("bars", described, _ticks(span), "".join(parts) + line)


@dataclass(frozen=True)
class Point:
    """One run of a trend: when, how good, and whether that is better or worse than before."""

    when: str
    value: float
    low: float | None
    high: float | None
    change: str
    href: str
    said: str


def trend(points: Sequence[Point], measure: str, *, chance: float | None = None) -> Markup:
    """Runs in the order of time with intervals; triangles up and down mark clear changes."""
    if not points:
        return Markup("")
    ends = [end for point in points for end in (point.value, point.low, point.high)]
    span = Span.around(ends)
    places = [(i + 0.5) * 100 / len(points) for i in range(len(points))]
    heights = [round(100 - span.at(point.value), 3) for point in points]
    lines = [
        f'<line class="path" x1="{x:.3f}%" y1="{y}%" x2="{u:.3f}%" y2="{v}%"/>'
        for x, y, u, v in zip(places, heights, places[1:], heights[1:], strict=False)
    ]
    if chance is not None and span.low <= chance <= span.high:
        at = 100 - span.at(chance)
        lines.append(f'<line class="chance" x1="0" x2="100%" y1="{at}%" y2="{at}%"/>')
    marks = [_marked(p, x, y, span) for p, x, y in zip(points, places, heights, strict=True)]
    step = max(1, math.ceil(len(points) / _MOST_DATES))
    said_when = _dates([point.when for point in points])
    dates = [_under(places[i], said_when[i]) for i in range(0, len(points), step)]
    said = f"{measure} of {len(points)} runs in the order of time"
    return _framed("trend", said, _ticks(span), "".join([*lines, *marks, *dates]))


def _dates(moments: Sequence[str]) -> list[str]:
    """Days, or times where all are of one day.

    >>> _dates(["2026-11-16T04:50:00Z", "2026-11-16T05:00:00Z"])
    ['04:50', '05:00']
    """
    one_day = len({moment[:10] for moment in moments}) == 1
    return [moment[11:16] if one_day else moment[:10] for moment in moments]


def _marked(point: Point, x: float, y: float, span: Span) -> str:
    whisker = ""
    if point.low is not None and point.high is not None:
        whisker = (
            f'<line class="range" x1="{x:.3f}%" x2="{x:.3f}%" '
            f'y1="{100 - span.at(point.low):.3f}%" y2="{100 - span.at(point.high):.3f}%"/>'
        )
    return (
        f'<a href="{html_text(point.href)}" class="{point.change}">{whisker}'
        f'<svg class="mark" x="{x:.3f}%" y="{y}%">{_SHAPES[point.change]}</svg>'
        f"<title>{html_text(point.said)}</title></a>"
    )
