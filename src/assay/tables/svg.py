"""The one kit for static charts: colours, labels, scales, and the marks of SVG.

Tasks draw pictures of their own (heat maps, curves of codes) and lie below the reports, so the kit
lies with the tables. The charts of the dashboard (`assay.report.svg`) are built on it, and the
interactive charts of a report (`assay.report.charts`) take their colours and labels from here.
Colours are those of Okabe and Ito (2008), which readers with any kind of colour vision can tell
apart; shape, position or words say the same once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.core.text import printable
from assay.tables.html import html_text, tag

__all__ = [
    "BLUE",
    "COLOURS",
    "GREY",
    "VERMILION",
    "Drawing",
    "Scale",
    "circle",
    "group",
    "line",
    "percent",
    "rect",
    "shade",
    "svg_text",
    "unique_labels",
    "vertical_text",
]

BLUE: Final = "#0072b2"
VERMILION: Final = "#d55e00"
# Blue, orange, green, vermilion, purple, sky blue; black and yellow vanish on one background.
COLOURS: Final = (BLUE, "#e69f00", "#009e73", VERMILION, "#cc79a7", "#56b4e9")
GREY: Final = "#8c8c8c"
# Light to dark, so that a heat map also reads in print: white, blue, almost black.
_SHADES: Final = ((255, 255, 255), (107, 155, 209), (8, 29, 88))

# Every object of JavaScript has these, and Vega takes them for values of its own when they are in
# a list of names; with a space that nobody sees they are names again.
_INHERITED: Final = (
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
)
_INVISIBLE: Final = "\u00a0"


def unique_labels(names: Sequence[str]) -> dict[str, str]:
    r"""Names as charts show them: control characters written out, and still all different.

    >>> unique_labels(["a\n", "a\\n"])
    {'a\n': 'a\\n', 'a\\n': 'a\\n (2)'}
    """
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = printable(name) or "(no name)"
        plain = label = plain + _INVISIBLE if plain in _INHERITED else plain
        number = 2
        while label in taken:
            label, number = f"{plain} ({number})", number + 1
        labels[name] = label
        taken.add(label)
    return labels


def shade(share: float) -> str:
    """A colour between white and dark for a share from 0 to 1; the root makes small ones visible.

    >>> shade(0), shade(1)
    ('#ffffff', '#081d58')
    """
    place = math.sqrt(min(max(share, 0.0), 1.0)) * (len(_SHADES) - 1)
    low = min(int(place), len(_SHADES) - 2)
    mixed = [
        round(a + (b - a) * (place - low))
        for a, b in zip(_SHADES[low], _SHADES[low + 1], strict=True)
    ]
    return "#{:02x}{:02x}{:02x}".format(*mixed)


@dataclass(frozen=True)
class Scale:
    """From values between `low` and `high` to places between `start` and `end`.

    Places are percentages unless told otherwise, so that a chart is as wide as its page.
    """

    low: float
    high: float
    start: float = 0.0
    end: float = 100.0

    @classmethod
    def around(cls, values: Iterable[float | None], *, margin: float = 0.06) -> Scale:
        """A scale on which all values are seen."""
        known = [value for value in values if value is not None and math.isfinite(value)]
        if not known:
            return cls(0.0, 1.0)
        low, high = min(known), max(known)
        room = (high - low) * margin or max(abs(high) * margin, 0.01)
        return cls(low - room, high + room)

    def extend(self, values: Iterable[float | None]) -> Scale:
        """A scale that also shows these values, unless that would more than double its length.

        >>> Scale(1, 2).extend([0.5]).low, Scale(1, 2).extend([-9.0]).low
        (0.5, 1)
        """
        known = [value for value in values if value is not None]
        low, high = min([self.low, *known]), max([self.high, *known])
        return Scale(low, high) if high - low <= 2 * (self.high - self.low) else self

    def at(self, value: float) -> float:
        """The place of a value.

        >>> Scale(0, 4).at(1), Scale(0, 1, start=300, end=40).at(0.5)
        (25.0, 170.0)
        """
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + (self.end - self.start) * share, 3)

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers on the scale.

        >>> Scale(0.03, 0.52).ticks()
        [0.1, 0.2, 0.3, 0.4, 0.5]
        """
        rough = (self.high - self.low) / most
        unit = 10 ** math.floor(math.log10(rough))
        step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= rough)
        first = math.ceil(self.low / step)
        count = math.floor(self.high / step) - first + 1
        return [round((first + i) * step, 12) for i in range(count)]


Place = float | str  # a number of pixels, or a text such as 50%


def percent(place: float) -> str:
    """A place as a share of the chart.

    >>> percent(12.5)
    '12.5%'
    """
    return f"{round(place, 3):g}%"


def line(x1: Place, y1: Place, x2: Place, y2: Place, **style: Any) -> str:
    """A straight line."""
    return tag("line", x1=x1, x2=x2, y1=y1, y2=y2, **style)


def rect(x: Place, y: Place, width: Place, height: Place, *, tip: str = "", **style: Any) -> str:
    """A filled rectangle; `tip` is shown on hover."""
    return tag("rect", _title(tip), x=x, y=y, width=width, height=height, **style)


def circle(x: Place, y: Place, radius: float, *, tip: str = "", **style: Any) -> str:
    """A dot; `tip` is shown on hover."""
    return tag("circle", _title(tip), cx=x, cy=y, r=radius, **style)


def _title(tip: str) -> str | None:
    return tag("title", html_text(tip)) if tip else None


def svg_text(x: Place, y: Place, words: object, **style: Any) -> str:
    """Words at a place."""
    return tag("text", html_text(words), x=x, y=y, **style)


def vertical_text(x: float, y: float, words: object, **style: Any) -> str:
    """Words that run upwards."""
    turned = f"translate({x:g} {y:g}) rotate(-90)"
    return tag("text", html_text(words), transform=turned, **style)


def group(x: float, y: float, marks: str) -> str:
    """Marks moved to a place."""
    return tag("g", marks, transform=f"translate({x:g} {y:g})")


@dataclass(frozen=True)
class Drawing:
    """Marks with their size, to be put below each other or written as a document."""

    width: float
    height: float
    marks: str

    @classmethod
    def stack(cls, drawings: Sequence[Drawing]) -> Drawing:
        """One drawing with the others below one another."""
        width = max((one.width for one in drawings), default=0)
        height, parts = 0.0, []
        for one in drawings:
            parts.append(group(0, height, f"\n{one.marks}\n"))
            height += one.height
        return cls(width, height, "\n".join(parts))

    def to_svg(self, *, font_size: int = 10) -> str:
        """A document of its own on white, for a file."""
        background = tag("rect", width="100%", height="100%", fill="#fff")
        return tag(
            "svg",
            f"\n{background}\n{self.marks}\n",
            xmlns="http://www.w3.org/2000/svg",
            width=float(self.width),
            height=float(self.height),
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            font_family="sans-serif",
            font_size=font_size,
        )
