"""A heat map as a small SVG: shares from 0 to 1 as shades, every cell with its number on hover."""

from __future__ import annotations

import math
from html import escape
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.core.text import printable

__all__ = ["heat_map", "stacked"]

_CELL, _LETTER, _MARGIN, _LONGEST = 16, 6.2, 12, 40
# Light to dark, so that the picture also reads in print: white, blue, almost black.
_SHADES: Final = ((255, 255, 255), (107, 155, 209), (8, 29, 88))


def heat_map(
    names: list[str], shares: NDArray[np.float64], *, title: str, rows: str, columns: str
) -> tuple[float, float, str]:
    """Width, height and drawing of a square of shares; NaN is grey.

    `rows` and `columns` say what the two axes are.
    """
    room = min(max(map(len, names), default=0), _LONGEST) * _LETTER + 2 * _MARGIN
    side = len(names) * _CELL
    left, top = room + 18, room + 52
    parts = [_text(_MARGIN, 20, title, size=14, weight="bold")]
    parts.append(_text(left, 40, columns + " →", size=11, fill="#555"))
    parts.append(_turned(18, top + side / 2, rows + " →", size=11, fill="#555", anchor="middle"))
    for i, name in enumerate(names):
        middle = i * _CELL + _CELL / 2 + 3.5
        parts.append(_text(left - 5, top + middle, _short(name), anchor="end"))
        parts.append(_turned(left + middle, top - 5, _short(name)))
    parts += [_row(names, i, shares[i], left, top) for i in range(len(names))]
    parts.append(
        f'<rect x="{left:g}" y="{top:g}" width="{side}" height="{side}" fill="none" stroke="#999"/>'
    )
    parts.append(_legend(left, top + side + 14))
    width = max(left + side + _MARGIN, left + 240 + _MARGIN, len(title) * 8 + 2 * _MARGIN)
    return width, top + side + 44, "\n".join(parts)


def stacked(drawings: list[tuple[float, float, str]]) -> str:
    """One SVG with the drawings below one another."""
    width = max((drawing[0] for drawing in drawings), default=0)
    height, parts = 0.0, []
    for _, one_height, body in drawings:
        parts.append(f'<g transform="translate(0 {height:g})">\n{body}\n</g>')
        height += one_height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="10">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>"
    )


def _row(names: list[str], i: int, shares: NDArray[np.float64], left: float, top: float) -> str:
    """The cells of one row that are not empty; an undefined row is one grey bar."""
    y = top + i * _CELL
    if np.isnan(shares).all():
        tip = f"<title>{_safe(names[i])}: no queries</title>"
        return _cell(left, y, len(names) * _CELL, "#ddd", tip)
    cells = [
        _cell(
            left + j * _CELL,
            y,
            _CELL,
            _shade(share),
            f"<title>{_safe(names[i])} → {_safe(names[j])}: {share:.4f}</title>",
        )
        for j, share in enumerate(shares.tolist())
        if share > 0
    ]
    return "".join(cells)


def _cell(x: float, y: float, width: float, fill: str, tip: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{_CELL}" fill="{fill}">{tip}</rect>'
    )


def _shade(share: float) -> str:
    """A colour between white and dark; the root makes small shares visible."""
    place = math.sqrt(min(max(share, 0.0), 1.0)) * (len(_SHADES) - 1)
    low = min(int(place), len(_SHADES) - 2)
    mixed = [
        round(a + (b - a) * (place - low))
        for a, b in zip(_SHADES[low], _SHADES[low + 1], strict=True)
    ]
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _legend(x: float, y: float) -> str:
    steps = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
    parts = []
    for i, step in enumerate(steps):
        parts.append(
            f'<rect x="{x + i * 30:g}" y="{y:g}" width="30" height="10" fill="{_shade(step)}" '
            'stroke="#999" stroke-width="0.5"/>'
        )
        parts.append(_text(x + i * 30 + 15, y + 21, f"{step:g}", size=9, anchor="middle"))
    return "".join(parts)


def _text(x: float, y: float, words: str, *, size: int = 10, **style: Any) -> str:
    return f'<text x="{x:g}" y="{y:g}" {_style(size, style)}>{_safe(words)}</text>'


def _turned(x: float, y: float, words: str, *, size: int = 10, **style: Any) -> str:
    """Text that runs upwards."""
    return (
        f'<text transform="translate({x:g} {y:g}) rotate(-90)" {_style(size, style)}>'
        f"{_safe(words)}</text>"
    )


def _style(size: int, style: dict[str, Any]) -> str:
    names = {"weight": "font-weight", "anchor": "text-anchor", "fill": "fill"}
    return " ".join([f'font-size="{size}"', *(f'{names[key]}="{v}"' for key, v in style.items())])


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _safe(words: object) -> str:
    return escape(printable(words))
