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

import numpy as np

from assay.arrays import Floats
from assay.core.text import printable
from assay.tables.html import html_text, tag

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
    *("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "__proto__"),
    *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString"),
    *("toString", "valueOf"),
)
_INVISIBLE: Final = "\u00a0"


def unique_labels(names: Sequence[str]) -> dict[str, str]:
    r"""Return names as charts show them: control characters written out, and still all different.

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
    """Return a colour from white to dark for a share; the root makes small ones visible.

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
        """Return a scale on which all values are seen."""
        finite = [value for value in values if value is not None and math.isfinite(value)]
        if not finite:
            return cls(0.0, 1.0)
        low, high = min(finite), max(finite)
        room = (high - low) * margin or max(abs(high) * margin, 0.01)
        return cls(low - room, high + room)

    def extend(self, values: Iterable[float | None]) -> Scale:
        """Return a scale with these values too, unless that would more than double it.

        >>> Scale(1, 2).extend([0.5]).low, Scale(1, 2).extend([-9.0]).low
        (0.5, 1)
        """
        numbers = [value for value in values if value is not None]
        low, high = min([self.low, *numbers]), max([self.high, *numbers])
        return Scale(low, high) if high - low <= 2 * (self.high - self.low) else self

    def at(self, value: float) -> float:
        """Return the place of a value.

        >>> Scale(0, 4).at(1), Scale(0, 1, start=300, end=40).at(0.5)
        (25.0, 170.0)
        """
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + (self.end - self.start) * share, 3)

    def ticks(self, most: int = 5) -> list[float]:
        """Return round numbers on the scale.

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
    """Return a place as a share of the chart.

    >>> percent(12.5)
    '12.5%'
    """
    return f"{round(place, 3):g}%"


def line(x1: Place, y1: Place, x2: Place, y2: Place, **style: Any) -> str:
    """Return a straight line."""
    return tag("line", x1=x1, x2=x2, y1=y1, y2=y2, **style)


def rect(x: Place, y: Place, width: Place, height: Place, *, tip: str = "", **style: Any) -> str:
    """Return a filled rectangle; `tip` is shown on hover."""
    return tag("rect", _title(tip), x=x, y=y, width=width, height=height, **style)


def circle(x: Place, y: Place, radius: float, *, tip: str = "", **style: Any) -> str:
    """Return a dot; `tip` is shown on hover."""
    return tag("circle", _title(tip), cx=x, cy=y, r=radius, **style)


def _title(tip: str) -> str | None:
    return tag("title", html_text(tip)) if tip else None


def svg_text(x: Place, y: Place, words: object, **style: Any) -> str:
    """Return words at a place."""
    return tag("text", html_text(words), x=x, y=y, **style)


def vertical_text(x: float, y: float, words: object, **style: Any) -> str:
    """Return words that run upwards."""
    turned = f"translate({x:g} {y:g}) rotate(-90)"
    return tag("text", html_text(words), transform=turned, **style)


def group(x: float, y: float, marks: str) -> str:
    """Return marks moved to a place."""
    return tag("g", marks, transform=f"translate({x:g} {y:g})")


@dataclass(frozen=True)
class Drawing:
    """Marks with their size, to be put below each other or written as a document."""

    width: float
    height: float
    marks: str

    @classmethod
    def stack(cls, drawings: Sequence[Drawing]) -> Drawing:
        """Return one drawing with the others below one another."""
        width = max((drawing.width for drawing in drawings), default=0)
        height, parts = 0.0, []
        for drawing in drawings:
            parts.append(group(0, height, f"\n{drawing.marks}\n"))
            height += drawing.height
        return cls(width, height, "\n".join(parts))

    def to_svg(self, *, font_size: int = 10) -> str:
        """Return a standalone document on white, for a file."""
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


_CELL, _LETTER, _MARGIN, _LONGEST = 16, 6.2, 12, 40
_STEPS: Final = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
_SOFT: Final = "#555"
_FRAME: Final = "#999"
_UNDEFINED: Final = "#ddd"


def heat_map(names: list[str], shares: Floats, *, title: str, rows: str, columns: str) -> Drawing:
    """Return a square of shares; a row without any (NaN) is grey.

    `rows` and `columns` say what the two axes are.
    """
    room = min(max(map(len, names), default=0), _LONGEST) * _LETTER + 2 * _MARGIN
    side = len(names) * _CELL
    left, top = room + 18, room + 52
    marks = [
        svg_text(_MARGIN, 20, title, font_size=14, font_weight="bold"),
        svg_text(left, 40, f"{columns} →", font_size=11, fill=_SOFT),
        vertical_text(
            18, top + side / 2, f"{rows} →", font_size=11, fill=_SOFT, text_anchor="middle"
        ),
    ]
    for i, name in enumerate(names):
        middle = i * _CELL + _CELL / 2 + 3.5
        label = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
        marks.append(svg_text(left - 5, top + middle, label, font_size=10, text_anchor="end"))
        marks.append(vertical_text(left + middle, top - 5, label, font_size=10))
    marks += [_row(names, i, shares[i], left, top) for i in range(len(names))]
    marks.append(rect(left, top, side, side, fill="none", stroke=_FRAME))
    marks.append(_legend(left, top + side + 14))
    width = max(left + side + _MARGIN, left + 240 + _MARGIN, len(title) * 8 + 2 * _MARGIN)
    return Drawing(width, top + side + 44, "\n".join(marks))


def _row(names: list[str], i: int, shares: Floats, left: float, top: float) -> str:
    """Return the cells of one row that are not empty.

    An undefined row is one grey bar.
    """
    y = top + i * _CELL
    if np.isnan(shares).all():
        tip = f"{names[i]}: no queries"
        return rect(left, y, len(names) * _CELL, _CELL, tip=tip, fill=_UNDEFINED)
    return "".join(
        rect(
            left + j * _CELL,
            y,
            _CELL,
            _CELL,
            tip=f"{names[i]} → {names[j]}: {share:.4f}",
            fill=shade(share),
        )
        for j, share in enumerate(shares.tolist())
        if share > 0
    )


def _legend(x: float, y: float) -> str:
    marks = []
    for i, step in enumerate(_STEPS):
        at = x + i * 30
        marks.append(rect(at, y, 30, 10, fill=shade(step), stroke=_FRAME, stroke_width=0.5))
        marks.append(svg_text(at + 15, y + 21, f"{step:g}", font_size=9, text_anchor="middle"))
    return "".join(marks)
