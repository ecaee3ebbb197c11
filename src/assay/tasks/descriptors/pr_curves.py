"""Precision over recall: areas as HPatches' program computes them, curves as data, and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, Ints
from assay.tables.html import tag
from assay.tables.svg import COLOURS, GREY, Drawing, Scale, circle, group, line, svg_text

__all__ = [
    "RECALLS",
    "PRCurve",
    "chance_area",
    "curve_of",
    "draw_curves",
    "mean_curve",
    "trapezoid_area",
]

RECALLS: Final = tuple(step / 100 for step in range(101))


def trapezoid_area(wrong: Any, total: int) -> Floats:
    """The area under precision over recall, points joined by straight lines, in closed form.

    `wrong` is how many wrong entries stand before the first, the second, … right one, along the
    last axis; `total` right ones could be found. Precision is 1 before the first entry.

    >>> float(trapezoid_area([0, 1], 2)), float(trapezoid_area([1], 1))
    (0.7916666666666666, 0.25)
    """
    false = np.asarray(wrong, np.float64)
    found = np.arange(1, false.shape[-1] + 1)
    with np.errstate(invalid="ignore"):
        before = np.where(found - 1 + false > 0, (found - 1) / (found - 1 + false), 1.0)
    after = found / (found + false)
    return np.asarray((before + after).sum(axis=-1) / (2 * total))


def chance_area(right: Any, size: Any) -> Floats:
    """The mean of `trapezoid_area` over all orders of `size` entries, `right` of them right.

    A right entry at any place has a share of (right − 1) / (size − 1) right ones before it.

    >>> float(chance_area(1, 2))
    0.625
    """
    n, r = np.asarray(size, np.float64), np.asarray(right, np.float64)
    harmonic = np.array([_harmonic(int(one)) for one in n.flat]).reshape(n.shape) / n
    others = (r - 1) / np.maximum(n - 1, 1)
    return np.asarray((r / n + harmonic + others * (1 - harmonic)) / 2)


def _harmonic(n: int) -> float:
    if n > 1_000_000:
        return math.log(n) + 0.5772156649015329 + 1 / (2 * n)
    return float((1 / np.arange(1, n + 1)).sum())


@dataclass(frozen=True, eq=False)
class PRCurve:
    """Precision at the recalls 0, 0.01, … 1 of one task; 0 where a recall is not reached.

    `name` is the descriptor, `part` the difficulty of patches or empty, `chance` the precision of
    a random order.
    """

    task: str
    name: str
    part: str
    precision: Floats
    chance: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        about = {"task": self.task, "descriptor": self.name, "part": self.part}
        points = {"recall": list(RECALLS), "precision": self.precision.tolist()}
        return {**about, "chance": None if math.isnan(self.chance) else self.chance, **points}


def curve_of(wrong: Ints, total: int) -> Floats:
    """Precision when the share `RECALLS` of `total` right entries is found; at 0 for the first.

    >>> curve_of(np.array([0, 2]), 2)[[0, 50, 51, 100]].tolist()
    [1.0, 1.0, 0.5, 0.5]
    """
    found = np.arange(1, len(wrong) + 1)
    reached = found / (found + wrong)
    needed = np.maximum(np.ceil(np.array(RECALLS) * total - 1e-9).astype(np.int64), 1)
    place = np.minimum(needed, max(len(wrong), 1)) - 1
    if not len(wrong):
        return np.zeros(len(RECALLS))
    return np.where(needed <= len(wrong), reached[place], 0.0)


def mean_curve(curves: Iterable[Floats]) -> Floats:
    """The mean precision of several lists at each recall."""
    found = list(curves)
    return np.mean(found, axis=0) if found else np.full(len(RECALLS), np.nan)


_SIDE, _LEFT, _TOP, _BELOW, _GAP = 300, 52, 40, 46, 20
_DASHES: Final = ("", "6 3", "2 3", "8 3 2 3")


def draw_curves(curves: Sequence[PRCurve]) -> str:
    """A panel for each task, a colour for each descriptor, dashes for easy, hard and tough."""
    tasks, names, parts = (
        list(dict.fromkeys(getattr(one, key) for one in curves)) for key in ("task", "name", "part")
    )
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    dashes = {part: _DASHES[i % len(_DASHES)] for i, part in enumerate(parts)}
    step = _LEFT + _SIDE + _GAP
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
    for one in (one for one in curves if one.task == task):
        path = " ".join(
            f"{x.at(recall):g},{y.at(value):g}"
            for recall, value in zip(RECALLS, one.precision.tolist(), strict=True)
        )
        style = {"stroke_dasharray": dashes[one.part]} if dashes[one.part] else {}
        stroke = colours[one.name]
        yield tag("polyline", points=path, fill="none", stroke=stroke, stroke_width=1.5, **style)
        if not math.isnan(one.chance):
            yield line(_LEFT, y.at(one.chance), x.end, y.at(one.chance), stroke=GREY)
            yield svg_text(_LEFT + 4, y.at(one.chance) - 4, "chance", fill=GREY, font_size=11)


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
