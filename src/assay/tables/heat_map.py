"""A heat map: shares from 0 to 1 as shades, every cell with its number on hover."""

from __future__ import annotations

from typing import Final

import numpy as np

from assay.arrays import Floats
from assay.tables.svg import Drawing, rect, shade, svg_text, vertical_text

__all__ = ["heat_map"]

_CELL, _LETTER, _MARGIN, _LONGEST = 16, 6.2, 12, 40
_STEPS: Final = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
_SOFT: Final = "#555"
_FRAME: Final = "#999"
_UNDEFINED: Final = "#ddd"


def heat_map(names: list[str], shares: Floats, *, title: str, rows: str, columns: str) -> Drawing:
    """A square of shares; a row without any (NaN) is grey.

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
    """The cells of one row that are not empty; an undefined row is one grey bar."""
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
