"""Tables of the results: measures, labels, accuracies, rows of papers, and confused labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.stats import Interval
from assay.tables.svg import Drawing, heat_map
from assay.tables.table import Cell, Table, columns_of, table_of

if TYPE_CHECKING:
    from assay.crossmodal.results import CrossmodalResult, DirectionResult


Row = Sequence[str | float | int | None]
_ENDS: Final = ("95 % low", "95 % high")


def measure_table(results: Iterable[DirectionResult], *, seed: int = 0) -> Table:
    """Return means, interval, chance, ceiling and counts of each direction and measure."""
    columns = (
        *("level", "direction", "measure", "micro", *_ENDS, "macro", "chance"),
        *("ceiling", "queries", "empty", "tied share"),
    )
    rows: list[Row] = []
    for result in results:
        limits = (result.macro, result.chance.mean(), result.ceiling.mean())
        spans = result.intervals(seed=seed)
        for (name, mean), span in zip(result.micro.items(), spans, strict=True):
            count = result.micro.counts[name]
            ends = (mean, span.low, span.high, *(limit[name] for limit in limits))
            counts = (count.n, count.empty, count.tied_share)
            rows.append((result.level, result.direction.name, name, *ends, *counts))
    return table_of(columns, rows)


def screen_table(results: Sequence[DirectionResult]) -> Table:
    """Return mean, interval and chance of each direction and measure."""
    rows = []
    for result in results:
        chance, ceiling = result.chance.mean(), result.ceiling.mean()
        for (name, mean), span in zip(result.micro.items(), result.intervals(), strict=True):
            front = (result.level, result.direction.name, name)
            limits = (chance[name], ceiling[name], result.micro.counts[name].n)
            rows.append((*front, mean, span.cell(), *limits))
    heads = ("direction", "measure", "mean", Interval.heading(), "chance", "ceiling", "queries")
    table = table_of(("level", *heads), rows)
    several = len({result.level for result in results}) > 1
    return replace(columns_of(table, range(0 if several else 1, 8)), n_optional=2)


CHANCE_NOTE: Final = "Chance: a random order of the same items. No differences were tested."


def direction_table(results: Sequence[DirectionResult]) -> Table:
    """Return a row for each direction, with its intervals and chance below."""
    several = len({result.level for result in results}) > 1
    rows: list[tuple[Any, ...]] = []
    for result in results:
        name = f"{result.level}: {result.direction.name}" if several else result.direction.name
        rows.append((name, *result.micro.values()))
        spans = (span.cell() for span in result.intervals())
        rows.append((f"  {Interval.heading()}", *spans))
        rows.append(("  chance", *map(result.chance.mean().get, result.micro)))
    return table_of(("direction", *results[0].micro), rows)


def join_ends(table: Table) -> Table:
    """Return the table with the ends of each interval in one column, for people."""
    if _ENDS[0] not in table.columns:
        return table
    at = table.columns.index(_ENDS[0])

    def join(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
        ends = f"[{row[at].text}, {row[at + 1].text}]" if row[at].exact else None
        return (*row[:at], Cell(ends, "figure"), *row[at + 2 :])

    columns = (*table.columns[:at], Interval.heading(), *table.columns[at + 2 :])
    return Table(columns, tuple(map(join, table.rows)))


def label_table(results: Sequence[DirectionResult]) -> Table:
    """Return counts and means of each direction and label."""
    names = list(dict.fromkeys(name for result in results for name in result.micro))
    rows: list[Row] = []
    for result in results:
        for label, values in result.macro.groups.items():
            counts = result.queries[label], result.targets[label]
            means = map(values.get, names)
            rows.append((result.level, result.direction.name, label, *counts, *means))
    return table_of(("level", "direction", "label", "queries", "items", *names), rows)


def accuracy_table(results: Iterable[DirectionResult]) -> Table:
    """Return accuracies as papers print them, with interval, chance and majority class."""
    columns = (
        *("level", "modality", "classes", "samples", "top-1", *_ENDS),
        *("top-5", "mean per class", "chance", "majority class"),
    )
    rows = []
    for result in results:
        top = dict(zip(result.micro, result.intervals(), strict=True))["Success@1"]
        sizes = [n for label, n in result.queries.items() if label not in result.empty_labels]
        first = result.level, result.direction.source, result.n_docs, sum(sizes)
        accuracies = result.micro["Success@1"], top.low, top.high, result.micro["Success@5"]
        limits = result.macro["Success@1"], result.chance.mean()["Success@1"]
        majority = max(sizes) / sum(sizes) if sizes else None
        rows.append((*first, *accuracies, *limits, majority))
    return table_of(columns, rows)


_NO_TIES: Final = ("MedR", "MeanR", "rSum")


def paper_table(result: CrossmodalResult) -> Table:
    """Return the row of a level as papers print it, in percent."""
    pairs = next(iter(result.levels.values()))
    columns = [
        _shorten(number.measure) if place else f"{name} {_shorten(number.measure)}"
        for name, direction in pairs.items()
        for place, number in enumerate(direction.numbers)
    ]
    rows = []
    for level, directions in result.levels.items():
        cells: list[Cell] = []
        for name, direction in pairs.items():
            absent = [replace(number, value=None) for number in direction.numbers]
            for number in directions[name].numbers if name in directions else absent:
                percent = 1 if number.measure in _NO_TIES else 100
                value = None if number.value is None else f"{percent * number.value:.1f}"
                cells.append(Cell(value, "figure"))
        rsum = f"{result.rsum(level).value:.1f}" if len(directions) == 2 else None
        rows.append((Cell(level), *cells, Cell(rsum, "figure")))
    return Table(("positives", *columns, "rSum"), tuple(rows))


def _shorten(measure: str) -> str:
    """Return the field's name of a measure: its R@K is Success@K.

    >>> _shorten("Success@5"), _shorten("R@5")
    ('R@5', 'recall@5')
    """
    kind, at, cutoff = measure.partition("@")
    return {"Success": "R", "R": "recall"}.get(kind, kind) + at + cutoff


def number_table(result: CrossmodalResult) -> Table:
    """Return interval, chance, ceiling and counts of each level, direction and number."""
    columns = (
        *("positives", "direction", "measure", "value", *_ENDS),
        *("chance", "ceiling", "queries", "empty", "tied share"),
    )
    rows = []
    for level, directions in result.levels.items():
        numbers = [(name, number) for name in directions for number in directions[name].numbers]
        if len(directions) == 2:
            numbers.append(("both", result.rsum(level)))
        for name, number in numbers:
            tied = None if number.measure in _NO_TIES else number.tied / max(number.n, 1)
            ends = (number.value, number.low, number.high, number.chance, number.ceiling)
            rows.append((level, name, number.measure, *ends, number.n, number.empty, tied))
    return table_of(columns, rows)


@dataclass(frozen=True)
class RetrievedLabel:
    """Count of items of one label retrieved for queries of another."""

    query_label: str
    doc_label: str
    count: int
    share: float


@dataclass(frozen=True, eq=False)
class LabelConfusion:
    """Counts of (query label, retrieved label) in the first `k` places, those above 0 only.

    Tied items count as the tie rule places them.
    """

    k: int
    names: NDArray[Any]
    query: Ints
    doc: Ints
    count: Ints

    @classmethod
    def merge(cls, parts: Sequence[LabelConfusion]) -> LabelConfusion:
        """Return the counts of several searches whose labels differ."""
        starts = np.cumsum([0, *(len(part.names) for part in parts[:-1])])
        shifted = zip(parts, starts, strict=True)
        rows = [(p.names, p.query + start, p.doc + start, p.count) for p, start in shifted]
        return cls(parts[0].k, *map(np.concatenate, zip(*rows, strict=True)))

    def rows(self) -> Iterator[RetrievedLabel]:
        """Yield every pair by query label, most often retrieved first.

        The share is that of all items retrieved for queries of this label.
        """
        total = np.bincount(self.query, self.count, minlength=len(self.names))
        for i in np.lexsort((self.doc, -self.count, self.query)):
            query, doc = (str(self.names[side[i]]) for side in (self.query, self.doc))
            share = float(self.count[i] / total[self.query[i]])
            yield RetrievedLabel(query, doc, int(self.count[i]), share)

    def mistakes(self, limit: int) -> list[RetrievedLabel]:
        """Return the pairs of different labels with the largest shares."""
        wrong = [row for row in self.rows() if row.query_label != row.doc_label]
        return sorted(wrong, key=lambda row: -row.share)[:limit]

    def matrix(self, largest: int = 100) -> tuple[list[str], NDArray[np.float64]]:
        """Return shares as a square; beyond `largest` labels the rarest become one.

        Rows of labels that no query carries are NaN.
        """
        n = len(self.names)
        place, names = np.arange(n), [str(name) for name in self.names]
        if n > largest:
            weight = np.bincount(self.query, self.count, minlength=n)
            frequent = np.sort(np.argsort(-weight, kind="stable")[: largest - 1])
            place = np.full(n, largest - 1, np.int64)
            place[frequent] = np.arange(len(frequent))
            names = [*(names[i] for i in frequent), f"{n - len(frequent)} other labels"]
        square = np.zeros((len(names), len(names)))
        np.add.at(square, (place[self.query], place[self.doc]), self.count)
        total = square.sum(axis=1, keepdims=True)
        return names, np.divide(square, total, out=np.full_like(square, np.nan), where=total > 0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"k": self.k, "pairs": [asdict(row) for row in self.rows()]}


def confusion_table(results: Iterable[DirectionResult]) -> Table:
    """Return every pair of labels that occurs, with count and share."""
    return _pair_table((result, row) for result in results for row in result.confusion.rows())


def mistake_table(results: Iterable[DirectionResult], limit: int = 5) -> Table:
    """Return the labels that are most often retrieved for another label."""
    pairs = ((result, row) for result in results for row in result.confusion.mistakes(limit))
    return _pair_table(pairs)


def _pair_table(pairs: Iterable[tuple[DirectionResult, RetrievedLabel]]) -> Table:
    columns = ("level", "direction", "k", "query label", "retrieved label", "count", "share")
    rows = (
        (result.level, result.direction.name, result.confusion.k, *vars(pair).values())
        for result, pair in pairs
    )
    return table_of(columns, rows)


def confusion_picture(results: Sequence[DirectionResult]) -> str:
    """Return an SVG: rows are query labels, columns retrieved labels."""
    levels = {result.level for result in results}
    drawings = []
    for result in results:
        names, shares = result.confusion.matrix()
        level = f", {result.level}" if len(levels) > 1 else ""
        title = f"{result.direction.title}{level}: labels of the first {result.confusion.k}"
        drawings.append(heat_map(names, shares, title=title, rows="query", columns="retrieved"))
    return Drawing.stack(drawings).to_svg()
