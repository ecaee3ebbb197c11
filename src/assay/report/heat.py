"""Tables of colours: all pairs of systems, shares by rank, means by group.

They are tables, so that they sort, print, and are read aloud. The style sheet has a shade for each
step from s0 to s9, light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.tables.html import Attributes, Decoration, cell_text, html_table, html_text, tag
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison

__all__ = ["MOST_IN_MATRIX", "PairMark", "pair_marks", "pair_matrix", "shade_steps"]

MOST_IN_MATRIX: Final = 30  # systems; a larger square is not readable
_STEPS: Final = 10


def shade_steps(values: Sequence[Sequence[float]]) -> list[list[int | None]]:
    """A step from 0 to 9 for each number, from the smallest of all to the largest.

    >>> shade_steps([[0.0, 0.5], [1.0, math.nan]])
    [[0, 5], [9, None]]
    """
    known = [value for row in values for value in row if not math.isnan(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    size = (high - low) / _STEPS or 1.0
    return [
        [None if math.isnan(v) else min(int((v - low) / size), _STEPS - 1) for v in row]
        for row in values
    ]


@dataclass(frozen=True)
class PairMark:
    """A difference of the better minus the other, its p, and whether the test separates them."""

    difference: float
    p: float
    clear: bool


def pair_marks(
    comparison: Comparison, measure: str
) -> tuple[list[str], dict[tuple[int, int], PairMark]]:
    """The systems best first, and each pair by the places of its two."""
    names = [one.name for one in comparison.standings_on(measure)]
    place = {name: i for i, name in enumerate(names)}
    marks = {}
    for pair in comparison.pairs_on(measure):
        i, j = sorted((place[pair.a], place[pair.b]))
        difference, *_ = pair.difference_of(names[i])
        marks[i, j] = PairMark(difference, pair.p, pair.winner is not None)
    return names, marks


def pair_matrix(
    names: Sequence[str],
    marks: Mapping[tuple[int, int], PairMark],
    link: Callable[[int, int], str] | None = None,
) -> str:
    """A table of all pairs: differences above the diagonal, p below it.

    Pairs that the test separates are shaded by their difference. A difference is a link where
    `link` gives its address, else a button for the script of the page.
    """
    several = range(len(names))
    rows = tuple((Cell(names[i]), *(_square(marks, i, j) for j in several)) for i in several)
    return html_table(Table(("", *names), rows), _Squares(marks, link))


def _square(marks: Mapping[tuple[int, int], PairMark], i: int, j: int) -> Cell:
    mark = marks.get((min(i, j), max(i, j)))
    if i == j or mark is None:
        return Cell("", "figure")
    number = mark.difference if i < j else mark.p
    if math.isnan(number):
        return Cell(None, "figure")
    return Cell(_short(number) if i < j else _short_p(number), "figure", mark.clear)


def _short(difference: float) -> str:
    """Three decimals and a sign.

    >>> _short(0.0512), _short(-3.25)
    ('+.051', '−3.250')
    """
    sign = "−" if difference < 0 else "+"
    return sign + f"{abs(difference):.3f}".removeprefix("0")


def _short_p(p: float) -> str:
    """Three decimals; a smaller p is not rounded to 0.

    >>> _short_p(0.0424), _short_p(0.0001)
    ('.042', '<.001')
    """
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


class _Squares(Decoration):
    def __init__(
        self,
        marks: Mapping[tuple[int, int], PairMark],
        link: Callable[[int, int], str] | None,
    ) -> None:
        clear = [pair for pair, mark in marks.items() if mark.clear]
        sizes = [abs(marks[pair].difference) for pair in clear]
        steps = shade_steps([[0.0, *sizes]])[0][1:]
        self._shades = dict(zip(clear, steps, strict=True))
        self._link = link

    def head(self, column: int, name: str, left: bool) -> tuple[Attributes, str]:
        """Names that run upwards."""
        if not column:
            return {"scope": "col"}, tag("span", "row − column", class_="unseen")
        return {"scope": "col", "title": name}, tag("span", html_text(name))

    def cell(self, row: int, column: int, cell: Cell, left: bool) -> tuple[Attributes, str]:
        """A name, a difference, or a p."""
        if not column:
            return {}, cell_text(cell)
        i, j = row, column - 1
        step = self._shades.get((min(i, j), max(i, j)))
        attributes: Attributes = {"class_": None if step is None else f"heat s{step}"}
        if i >= j or not cell.text:
            return {"class_": "same"} if i == j else attributes, cell_text(cell)
        if self._link is None:
            return attributes, tag("button", cell_text(cell))
        return attributes, tag("a", cell_text(cell), href=self._link(i, j))
