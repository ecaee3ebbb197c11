"""Tables of label retrieval: measures, labels, confusion and mistakes, and a heat map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.tables.heat_map import heat_map
from assay.tables.svg import Drawing
from assay.tables.table import Cell, Table
from assay.tasks.crossmodal.confusion import RetrievedLabel
from assay.tasks.crossmodal.results import DirectionResult

__all__ = [
    "confusion_picture",
    "confusion_table",
    "label_table",
    "measure_table",
    "mistake_table",
]


def measure_table(results: Iterable[DirectionResult], *, seed: int = 0) -> Table:
    """A row for each direction and measure: means, interval, chance, ceiling, counts."""
    columns = (
        "level",
        "direction",
        "measure",
        "micro",
        "95 % low",
        "95 % high",
        "macro",
        "chance",
        "ceiling",
        "queries",
        "empty",
        "tied share",
    )
    return Table(columns, tuple(row for one in results for row in _measure_rows(one, seed)))


def _measure_rows(one: DirectionResult, seed: int) -> list[tuple[Cell, ...]]:
    micro, macro = one.micro, one.macro
    chance, ceiling = one.chance.mean(), one.ceiling.mean()
    spans = zip(micro, one.intervals(seed=seed), strict=True)
    return [
        (
            Cell(one.level),
            Cell(one.direction.name),
            Cell(name),
            *(Cell(value, "fraction") for value in (micro[name], span.low, span.high)),
            *(Cell(mean[name], "fraction") for mean in (macro, chance, ceiling)),
            Cell(micro.counts[name].n, "count"),
            Cell(micro.counts[name].empty, "count"),
            Cell(micro.counts[name].tied_share, "fraction"),
        )
        for name, span in spans
    ]


def label_table(results: Iterable[DirectionResult]) -> Table:
    """A row for each direction and label: how many queries and items, and the label's means."""
    found = list(results)
    names = list(dict.fromkeys(name for one in found for name in one.micro))
    columns = ("level", "direction", "label", "queries", "items", *names)
    rows = [row for one in found for row in _label_rows(one, names)]
    return Table(columns, tuple(rows))


def _label_rows(one: DirectionResult, names: list[str]) -> list[tuple[Cell, ...]]:
    return [
        (
            Cell(one.level),
            Cell(one.direction.name),
            Cell(label),
            Cell(one.queries[label], "count"),
            Cell(one.targets[label], "count"),
            *(Cell(values.get(name), "fraction") for name in names),
        )
        for label, values in one.macro.groups.items()
    ]


_PAIRS = ("level", "direction", "k", "query label", "retrieved label", "count", "share")


def confusion_table(results: Iterable[DirectionResult]) -> Table:
    """Every pair of labels that occurs, with how often and which share of its query label."""
    return _pair_table((one, row) for one in results for row in one.confusion.rows())


def mistake_table(results: Iterable[DirectionResult], limit: int = 5) -> Table:
    """The labels that are most often retrieved for another label, a few of each direction."""
    return _pair_table((one, row) for one in results for row in one.confusion.mistakes(limit))


def _pair_table(pairs: Iterable[tuple[DirectionResult, RetrievedLabel]]) -> Table:
    rows = [
        (
            Cell(one.level),
            Cell(one.direction.name),
            Cell(one.confusion.k, "count"),
            Cell(pair.query_label),
            Cell(pair.doc_label),
            Cell(pair.count, "count"),
            Cell(pair.share, "fraction"),
        )
        for one, pair in pairs
    ]
    return Table(_PAIRS, tuple(rows))


def confusion_picture(results: Sequence[DirectionResult]) -> str:
    """An SVG: row = label of the query, column = label of what it retrieved, shade = share."""
    levels = {one.level for one in results}
    drawings = []
    for one in results:
        names, shares = one.confusion.matrix()
        level = f", {one.level}" if len(levels) > 1 else ""
        title = f"{one.direction.title}{level}: labels of the first {one.confusion.k}"
        drawings.append(heat_map(names, shares, title=title, rows="query", columns="retrieved"))
    return Drawing.stack(drawings).to_svg()
