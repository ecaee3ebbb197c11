"""Zero-shot classification: each sample is given the label of the nearest description.

The convention is CLIP's (Radford et al. 2021, §3.1): a class is the mean of its descriptions'
vectors, each of length 1 before under cosine; top-1 and top-5 accuracy are the shares of samples
whose label is the nearest class, or among the five nearest. The mean over classes of their
accuracy, which is balanced accuracy, stands beside them. Samples whose label has no description
cannot be classified: they are left out, counted and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from assay.measures import Measure
from assay.runs.record import RunRecord
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table, columns_of
from assay.tasks.crossmodal.directions import PROTOTYPE
from assay.tasks.crossmodal.evaluate import LabelRetrievalResult, label_retrieval
from assay.tasks.crossmodal.results import DirectionResult
from assay.tasks.crossmodal.samples import Prototypes
from assay.tasks.crossmodal.tables import label_table, mistake_table

__all__ = ["ZeroShotResult", "zero_shot_classification"]

_TOP: Final = ("Success@1", "Success@5")
_COLUMNS: Final = (
    *("level", "modality", "classes", "samples", "top-1", "95 % low", "95 % high"),
    *("top-5", "mean per class", "chance", "majority class"),
)


def zero_shot_classification(
    modalities: Mapping[str, Any],
    labels: Any = None,
    *,
    prototypes: Prototypes,
    measures: Iterable[str | Measure] = (),
    **options: Any,
) -> ZeroShotResult:
    """Classify the samples of each modality by prototypes; options as in `label_retrieval`.

    >>> prototypes = Prototypes.of([[1, 0], [0, 1]], ["cat", "dog"])
    >>> vectors = [[3, 1], [2, 1], [1, 2], [2, 1]]
    >>> found = zero_shot_classification(
    ...     {"image": vectors}, ["cat", "cat", "dog", "dog"], prototypes=prototypes
    ... )
    >>> found["image2prototype"].micro["Success@1"]
    0.75
    """
    named = [*_TOP, *(one for one in measures if str(one) not in _TOP)]
    directions = options.pop("directions", None) or [f"{name}2{PROTOTYPE}" for name in modalities]
    found = label_retrieval(
        modalities,
        labels,
        prototypes=prototypes,
        directions=directions,
        measures=named,
        k_values=(),
        **{"confusion_k": 1, **options},
    )
    return ZeroShotResult(found)


@dataclass(frozen=True, eq=False)
class ZeroShotResult:
    """Accuracies with interval, chance and the majority class, each class, and its mistakes."""

    found: LabelRetrievalResult

    def __getitem__(self, direction: str) -> DirectionResult:
        """A direction at the first level of labels."""
        return next(iter(self.found.values()))[direction]

    @property
    def signature(self) -> str:
        """The conventions and the settings of all directions."""
        return self.found.signature

    @property
    def remarks(self) -> Iterator[str]:
        """What a reader of the numbers should know, a line each."""
        return self.found.remarks

    @property
    def directions(self) -> list[DirectionResult]:
        """The results of all directions, level by level."""
        return self.found.directions

    def table(self) -> Table:
        """A row for each level and modality, as papers print it, with interval and baselines."""
        return Table(_COLUMNS, tuple(map(_row, self.directions)))

    def tables(self) -> list[Table]:
        """Accuracies, classes and the most frequent mistakes."""
        found = self.directions
        tables = [self.table(), label_table(found), mistake_table(found)]
        start = 1 if len(self.found) == 1 else 0
        return [columns_of(one, range(start, len(one.columns))) for one in tables if one.rows]

    def page(self) -> Page:
        """The tables, with what they show."""
        title = "Zero-shot classification: the nearest mean of a class's descriptions"
        return [Words(title, "verdict"), *self.tables(), Words(self.signature, "signature")]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: what label retrieval has, and the accuracies."""
        table = self.table()
        rows = [
            dict(zip(table.columns, (cell.value for cell in row), strict=True))
            for row in table.rows
        ]
        return {"zero_shot": rows, **self.found.to_dict()}

    def records(self) -> list[RunRecord]:
        """A record for each direction and level of labels."""
        return self.found.records()


def _row(one: DirectionResult) -> tuple[Cell, ...]:
    spans = dict(zip(one.micro, one.intervals(), strict=True))
    known = {label: n for label, n in one.queries.items() if label not in one.empty_labels}
    majority = max(known.values()) / sum(known.values()) if known else None
    fractions = (
        one.micro["Success@1"],
        spans["Success@1"].low,
        spans["Success@1"].high,
        one.micro["Success@5"],
        one.macro["Success@1"],
        one.chance.mean()["Success@1"],
        majority,
    )
    return (
        Cell(one.level),
        Cell(one.direction.source),
        Cell(one.n_docs, "count"),
        Cell(sum(known.values()), "count"),
        *(Cell(value, "fraction") for value in fractions),
    )
