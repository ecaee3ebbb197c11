"""Tables of the results: measures, labels, accuracies, rows of papers, and confused labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.tables.svg import Drawing, heat_map
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.crossmodal.results import CrossmodalResult, DirectionResult
    from assay.runs.results import Aggregate


def measure_table(results: Iterable[DirectionResult], *, seed: int = 0) -> Table:
    """Return means, interval, chance, ceiling and counts of each direction and measure."""
    columns = (
        *("level", "direction", "measure", "micro", "95 % low", "95 % high", "macro", "chance"),
        *("ceiling", "queries", "empty", "tied share"),
    )
    rows = []
    for result in results:
        micro, counts = result.micro, result.micro.counts
        limits = (result.macro, result.chance.mean(), result.ceiling.mean())
        for name, span in zip(micro, result.intervals(seed=seed), strict=True):
            means = (micro[name], span.low, span.high, *(mean[name] for mean in limits))
            rows.append(
                (
                    *_cells(result.level, result.direction.name, name),
                    *_cells(*means, kind="fraction"),
                    *_cells(counts[name].n, counts[name].empty, kind="count"),
                    Cell(counts[name].tied_share, "fraction"),
                )
            )
    return Table(columns, tuple(rows))


def _cells(*values: Any, kind: str = "text") -> Iterator[Cell]:
    return (Cell(value, kind) for value in values)


def label_table(results: Sequence[DirectionResult]) -> Table:
    """Return counts and means of each direction and label."""
    names = list(dict.fromkeys(name for result in results for name in result.micro))
    rows = [
        (
            *_cells(result.level, result.direction.name, label),
            *_cells(result.queries[label], result.targets[label], kind="count"),
            *_cells(*(values.get(name) for name in names), kind="fraction"),
        )
        for result in results
        for label, values in result.macro.groups.items()
    ]
    return Table(("level", "direction", "label", "queries", "items", *names), tuple(rows))


def accuracy_table(results: Iterable[DirectionResult]) -> Table:
    """Return accuracies as papers print them, with interval, chance and majority class."""
    columns = (
        *("level", "modality", "classes", "samples", "top-1", "95 % low", "95 % high"),
        *("top-5", "mean per class", "chance", "majority class"),
    )
    rows = []
    for result in results:
        top = dict(zip(result.micro, result.intervals(), strict=True))["Success@1"]
        empty = result.empty_labels
        sizes = [n for label, n in result.queries.items() if label not in empty]
        fractions = (
            *(result.micro["Success@1"], top.low, top.high, result.micro["Success@5"]),
            *(result.macro["Success@1"], result.chance.mean()["Success@1"]),
            max(sizes) / sum(sizes) if sizes else None,
        )
        rows.append(
            (
                *_cells(result.level, result.direction.source),
                *_cells(result.n_docs, sum(sizes), kind="count"),
                *_cells(*fractions, kind="fraction"),
            )
        )
    return Table(columns, tuple(rows))


_NO_TIES: Final = ("MedR", "MeanR", "rSum")


def paper_table(result: CrossmodalResult) -> Table:
    """Return the row of a level as papers print it, in percent."""
    pairs = next(iter(result.levels.values()))
    columns = [
        _short(number.measure) if place else f"{name} {_short(number.measure)}"
        for name, direction in pairs.items()
        for place, number in enumerate(direction.numbers)
    ]
    rows = []
    for level, directions in result.levels.items():
        cells = []
        for name, direction in pairs.items():
            here = directions[name].numbers if name in directions else None
            for place, number in enumerate(direction.numbers):
                cells.append(_paper_cell(here[place] if here else replace(number, value=None)))
        rsum = f"{result.rsum(level).value:.1f}" if len(directions) == 2 else None
        rows.append((Cell(level), *cells, Cell(rsum, "figure")))
    return Table(("positives", *columns, "rSum"), tuple(rows))


def _short(measure: str) -> str:
    """Return the field's name of a measure: its R@K is Success@K.

    >>> _short("Success@5"), _short("R@5")
    ('R@5', 'recall@5')
    """
    kind, at, cutoff = measure.partition("@")
    return {"Success": "R", "R": "recall"}.get(kind, kind) + at + cutoff


def _paper_cell(number: Aggregate) -> Cell:
    if number.value is None:
        return Cell(None, "figure")
    percent = 1 if number.measure in _NO_TIES else 100
    return Cell(f"{percent * number.value:.1f}", "figure")


def number_table(result: CrossmodalResult) -> Table:
    """Return interval, chance, ceiling and counts of each level, direction and number."""
    columns = (
        *("positives", "direction", "measure", "value", "95 % low", "95 % high"),
        *("chance", "ceiling", "queries", "empty", "tied share"),
    )
    rows = []
    for level, directions in result.levels.items():
        numbers = [(name, number) for name in directions for number in directions[name].numbers]
        if len(directions) == 2:
            numbers.append(("both", result.rsum(level)))
        for name, number in numbers:
            values = (number.value, number.low, number.high, number.chance, number.ceiling)
            tied = None if number.measure in _NO_TIES else number.tied / max(number.n, 1)
            rows.append(
                (
                    *_cells(level, name, number.measure),
                    *_cells(*values, kind="fraction"),
                    *_cells(number.n, number.empty, kind="count"),
                    Cell(tied, "fraction"),
                )
            )
    return Table(columns, tuple(rows))


@dataclass(frozen=True)
class RetrievedLabel:
    """How often items of one label were retrieved for queries of another."""

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
        shifted = list(zip(parts, starts, strict=True))
        return cls(
            parts[0].k,
            np.concatenate([part.names for part in parts]),
            np.concatenate([part.query + start for part, start in shifted]),
            np.concatenate([part.doc + start for part, start in shifted]),
            np.concatenate([part.count for part in parts]),
        )

    def rows(self) -> Iterator[RetrievedLabel]:
        """Yield every pair by query label, most often retrieved first.

        The share is that of all items retrieved for queries of this label.
        """
        total = np.bincount(self.query, self.count, minlength=len(self.names))
        for i in np.lexsort((self.doc, -self.count, self.query)):
            query, doc = self.query[i], self.doc[i]
            share = float(self.count[i] / total[query])
            yield RetrievedLabel(
                str(self.names[query]), str(self.names[doc]), int(self.count[i]), share
            )

    def mistakes(self, limit: int) -> list[RetrievedLabel]:
        """Return the pairs of different labels with the largest shares."""
        wrong = [row for row in self.rows() if row.query_label != row.doc_label]
        return sorted(wrong, key=lambda row: -row.share)[:limit]

    def matrix(self, largest: int = 100) -> tuple[list[str], NDArray[np.float64]]:
        """Return shares as a square; beyond `largest` labels the rarest become one.

        Rows of labels that no query carries are NaN.
        """
        n = len(self.names)
        if n <= largest:
            place, names = np.arange(n), [str(name) for name in self.names]
        else:
            place, names = self._lump_rare_labels(largest)
        square = np.zeros((len(names), len(names)))
        np.add.at(square, (place[self.query], place[self.doc]), self.count)
        total = square.sum(axis=1, keepdims=True)
        return names, np.divide(square, total, out=np.full_like(square, np.nan), where=total > 0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"k": self.k, "pairs": [asdict(row) for row in self.rows()]}

    def _lump_rare_labels(self, largest: int) -> tuple[Ints, list[str]]:
        n = len(self.names)
        weight = np.bincount(self.query, self.count, minlength=n)
        frequent = np.sort(np.argsort(-weight, kind="stable")[: largest - 1])
        place = np.full(n, largest - 1, np.int64)
        place[frequent] = np.arange(len(frequent))
        return place, [*(str(self.names[i]) for i in frequent), f"{n - len(frequent)} other labels"]


def confusion_table(results: Iterable[DirectionResult]) -> Table:
    """Return every pair of labels that occurs, with count and share."""
    return _pair_table((result, row) for result in results for row in result.confusion.rows())


def mistake_table(results: Iterable[DirectionResult], limit: int = 5) -> Table:
    """Return the labels that are most often retrieved for another label."""
    return _pair_table(
        (result, row) for result in results for row in result.confusion.mistakes(limit)
    )


def _pair_table(pairs: Iterable[tuple[DirectionResult, RetrievedLabel]]) -> Table:
    columns = ("level", "direction", "k", "query label", "retrieved label", "count", "share")
    rows = [
        (
            *_cells(result.level, result.direction.name),
            Cell(result.confusion.k, "count"),
            *_cells(pair.query_label, pair.doc_label),
            Cell(pair.count, "count"),
            Cell(pair.share, "fraction"),
        )
        for result, pair in pairs
    ]
    return Table(columns, tuple(rows))


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
