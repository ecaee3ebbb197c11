"""Retrieval confusion as heat maps, one below the other for each direction and level."""

from __future__ import annotations

from collections.abc import Sequence

from assay.report.heat_map import heat_map, stacked
from assay.tasks.crossmodal_results import DirectionResult

__all__ = ["confusion_picture"]


def confusion_picture(results: Sequence[DirectionResult]) -> str:
    """An SVG: row = label of the query, column = label of what it retrieved, shade = share."""
    levels = {one.level for one in results}
    drawings = []
    for one in results:
        names, shares = one.confusion.matrix()
        level = f", {one.level}" if len(levels) > 1 else ""
        title = f"{one.direction.title}{level}: labels of the first {one.confusion.k}"
        drawings.append(heat_map(names, shares, title=title, rows="query", columns="retrieved"))
    return stacked(drawings)
