"""Top-1 classification from counts that merge exactly: accuracy, precision, recall and F1.

F1 of a whole is never the mean of the F1 of its parts; the counts behind it add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core import checks
from assay.errors import MismatchError, UsageError

AVERAGES = ("micro", "macro", "weighted")


@dataclass(frozen=True, eq=False)
class Confusion:
    """Counts of correct, predicted and true samples per class, in sorted order.

    >>> counts = Confusion.count(["a", "a", "b"], ["a", "b", "b"])
    >>> round(counts.f1("macro"), 4), round(counts.accuracy(), 4)
    (0.6667, 0.6667)
    """

    classes: NDArray[Any]
    right: Ints
    predicted: Ints
    actual: Ints

    @classmethod
    def count(cls, true: Any, predicted: Any) -> Confusion:
        """Count pairs of true and predicted labels, both text or both integers."""
        left = checks.check_labels(true, "true labels")
        right = checks.check_labels(predicted, "predicted labels")
        checks.check_lengths(true=len(left), predicted=len(right))
        checks.check_one_kind_of_label(left, right)
        classes, codes = np.unique(np.concatenate([left, right]), return_inverse=True)
        t, p = codes[: len(left)], codes[len(left) :]
        size = len(classes)
        return cls(
            classes,
            np.bincount(t[t == p], minlength=size),
            np.bincount(p, minlength=size),
            np.bincount(t, minlength=size),
        )

    @classmethod
    def merge(cls, *parts: Confusion) -> Confusion:
        """Return the counts of all parts together; the order of parts changes nothing."""
        if not parts:
            raise UsageError("merge needs at least one Confusion. Pass one.")
        for part in parts[1:]:
            if part.classes.dtype.kind != parts[0].classes.dtype.kind:
                raise MismatchError("Some parts have text classes, others integers. Use one kind.")
        classes = np.unique(np.concatenate([part.classes for part in parts]))
        return cls(
            classes,
            *(
                _add_up(classes, [(part.classes, getattr(part, name)) for part in parts])
                for name in ("right", "predicted", "actual")
            ),
        )

    @property
    def n(self) -> int:
        """Number of counted pairs."""
        return int(self.actual.sum())

    def accuracy(self) -> float:
        """Return the share of correct predictions; NaN without any."""
        return int(self.right.sum()) / self.n if self.n else math.nan

    def precision(self, avg: str = "weighted") -> float:
        """Return the share of correct predictions of a class; 0 if never predicted."""
        return self._average(self.precision_by_class(), avg)

    def recall(self, avg: str = "weighted") -> float:
        """Return the share of a class's samples predicted as it; 0 without samples."""
        return self._average(self.recall_by_class(), avg)

    def f1(self, avg: str = "weighted") -> float:
        """Return F1 = 2 · right / (predicted + actual).

        `weighted` by how frequent a class is, so frequent classes dominate it; `macro` gives
        each class the same weight; `micro` equals accuracy here.
        """
        return self._average(self.f1_by_class(), avg)

    def precision_by_class(self) -> Floats:
        """Return the precision of each class."""
        return _share(self.right, self.predicted)

    def recall_by_class(self) -> Floats:
        """Return the recall of each class."""
        return _share(self.right, self.actual)

    def f1_by_class(self) -> Floats:
        """Return the F1 of each class."""
        return _share(2 * self.right, self.predicted + self.actual)

    def _average(self, values: Floats, avg: str) -> float:
        if avg not in AVERAGES:
            raise UsageError(f"avg must be one of {', '.join(AVERAGES)}, found {avg!r}.")
        if not self.n:
            return math.nan
        if avg == "micro":
            return self.accuracy()
        if avg == "macro":
            return math.fsum(values.tolist()) / len(values)
        return math.fsum((values * self.actual).tolist()) / self.n


def _add_up(classes: NDArray[Any], parts: list[tuple[NDArray[Any], Ints]]) -> Ints:
    total = np.zeros(len(classes), np.int64)
    for names, counts in parts:
        total[np.searchsorted(classes, names)] += counts
    return total


def _share(top: Ints, bottom: Ints) -> Floats:
    return np.divide(top, bottom, out=np.zeros(len(top)), where=bottom > 0)
