"""What is easily predicted: baselines that know only the training labels and the last class.

Each ranks the whole vocabulary for every sample, so that a baseline is a result like any other.
Classes are numbers from 0; what was never seen in training ranks last, the lower number first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.id_hints import check_labels_match
from assay.core.order import rank_order
from assay.errors import UsageError, ValueRangeError
from assay.measures import Measure
from assay.measures.classes import Confusion
from assay.search.engine.target_search import TargetRanks
from assay.tasks.prediction.evaluate import as_array
from assay.tasks.prediction.result import PredictionResult, make_result, name_targets

__all__ = ["Baseline", "Training", "evaluate_baselines"]

_FEW = 10  # so few classes may well be new


@dataclass(frozen=True, eq=False)
class Baseline:
    """The ranks of the targets, and the class that ranks first, for each sample."""

    name: str
    ranks: TargetRanks
    best: Ints


@dataclass(frozen=True, eq=False)
class Training:
    """Training labels in order of time; `users` tells whose they are, so that none run together.

    >>> training = Training.of([0, 1, 0, 1, 0, 2], n_classes=4)
    >>> training.majority([0, 2]).ranks.rank.tolist()
    [1, 3]
    >>> training.markov([0, 1], targets=[1, 0]).ranks.rank.tolist()
    [1, 1]
    """

    labels: Ints
    follows: NDArray[np.bool_]
    n_classes: int

    @classmethod
    def of(cls, labels: Any, *, n_classes: int, users: Any = None) -> Training:
        """Check the labels; the visits of a user stand together or apart, but in order of time."""
        size = checks.check_cutoff(n_classes, "n_classes")
        numbers = checks.check_numbers(labels, size, "training labels")
        if not len(numbers):
            raise UsageError("The training labels are empty: no baseline can be made of them.")
        if users is None:
            follows = np.ones(len(numbers), bool)
            follows[0] = False
            return cls(numbers, follows, size)
        owners = checks.check_labels(users, "users")
        checks.check_lengths(labels=len(numbers), users=len(owners))
        order = np.argsort(owners, kind="stable")
        owner = owners[order]
        follows = np.concatenate([[False], owner[1:] == owner[:-1]])
        return cls(numbers[order], follows, size)

    @cached_property
    def counts(self) -> Ints:
        """How often each class occurs."""
        return np.bincount(self.labels, minlength=self.n_classes)

    @cached_property
    def order(self) -> Ints:
        """All classes, the most frequent first."""
        return rank_order(self.counts)

    @cached_property
    def _place(self) -> Ints:
        """For each class how many stand before it in `order`."""
        place = np.empty(self.n_classes, np.int64)
        place[self.order] = np.arange(self.n_classes)
        return place

    @cached_property
    def _steps(self) -> tuple[Ints, Ints]:
        """Each step from class to class that occurs, as one number, and how often it does."""
        after = np.flatnonzero(self.follows)
        codes = self.labels[after - 1] * self.n_classes + self.labels[after]
        return np.unique(codes, return_counts=True)

    def majority(self, targets: Any) -> Baseline:
        """Always the most frequent class, then the next."""
        wanted = self._targets(targets)
        best = np.full(len(wanted), self.order[0])
        return self._baseline("majority", wanted, self._place[np.maximum(wanted, 0)], best)

    def last(self, previous: Any, *, targets: Any) -> Baseline:
        """Where one was last, then the most frequent classes; −1 is a sample without a past."""
        wanted, before = self._targets(targets), self._previous(previous, targets)
        place = self._place[np.maximum(wanted, 0)]
        moved = (before >= 0) & (self._place[np.maximum(before, 0)] > place)
        ahead = np.where(before == wanted, 0, place + moved)
        best = np.where(before >= 0, before, self.order[0])
        return self._baseline("last-location", wanted, ahead, best)

    def markov(self, previous: Any, *, targets: Any) -> Baseline:
        """The classes that most often followed the last one; then the most frequent classes.

        Steps of all users are counted together; equally frequent steps go by frequency.
        """
        wanted, before = self._targets(targets), self._previous(previous, targets)
        ahead = np.empty(len(wanted), np.int64)
        best = np.empty(len(wanted), np.int64)
        for state in np.unique(before).tolist():
            rows = np.flatnonzero(before == state)
            place = self._place_after(state)
            ahead[rows] = place[np.maximum(wanted[rows], 0)]
            best[rows] = int(np.argmin(place))
        return self._baseline("markov-1", wanted, ahead, best)

    def _place_after(self, state: int) -> Ints:
        """For each class how many stand before it after this one; few of them ever followed."""
        if state < 0:
            return self._place
        codes, counts = self._steps
        inside = slice(
            *np.searchsorted(codes, [state * self.n_classes, (state + 1) * self.n_classes])
        )
        seen, often = codes[inside] % self.n_classes, counts[inside]
        seen = seen[rank_order(often, tiebreak=self._place[seen])]
        first = np.zeros(self.n_classes, bool)
        first[seen] = True
        place = np.empty(self.n_classes, np.int64)
        place[np.concatenate([seen, self.order[~first[self.order]]])] = np.arange(self.n_classes)
        return place

    def all(self, targets: Any, previous: Any = None) -> list[Baseline]:
        """Every baseline that can be made; those that need the last class only with `previous`."""
        found = [self.majority(targets)]
        if previous is not None:
            found.append(self.last(previous, targets=targets))
            found.append(self.markov(previous, targets=targets))
        return found

    def _targets(self, targets: Any) -> Ints:
        return _classes_or_none(targets, self.n_classes, "targets")

    def _previous(self, previous: Any, targets: Any) -> Ints:
        found = _classes_or_none(previous, self.n_classes, "previous")
        checks.check_lengths(previous=len(found), targets=len(targets))
        return found

    def _baseline(self, name: str, wanted: Ints, ahead: Ints, best: Ints) -> Baseline:
        """Nothing ties: these rankings are orders, not scores."""
        none = wanted < 0
        zero = np.where(none, -1, 0)
        ranks = TargetRanks(np.where(none, -1, ahead), zero, zero, self.n_classes)
        return Baseline(name, ranks, best)


def _classes_or_none(values: Any, n_classes: int, what: str) -> Ints:
    array = checks.plain_array(values, what)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueRangeError(
            f"{what} must be one class number per sample (−1 for none), found shape {array.shape} "
            f"of {array.dtype}."
        )
    outside = (array < -1) | (array >= n_classes)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueRangeError(
            f"{what}: row {row} is {array[row]}; classes are 0 to {n_classes - 1}, −1 is none."
        )
    return array.astype(np.int64)


def evaluate_baselines(
    train: Any,
    targets: Any,
    *,
    measures: str | Measure | Iterable[str | Measure],
    n_classes: int | None = None,
    previous: Any = None,
    users: Any = None,
    query_ids: Any = None,
    groups: Mapping[str, Any] | None = None,
    conventions: str | Conventions = "next_location",
    allow_mismatch: bool = False,
) -> list[PredictionResult]:
    """Majority class from training labels; with `previous` also last-location and Markov-1.

    `train` are labels in order of time, of several `users` if these are given; `previous` is the
    class before each sample, or None. Integers below `n_classes` are class numbers as they are.
    Classes that are written differently are refused unless `allow_mismatch`.

    >>> found = evaluate_baselines(["home", "work", "home"], ["work"], measures="RR")
    >>> found[0].name, found[0].mean()["RR"]
    ('majority', 0.5)
    """
    names, (labels, wanted, before) = _as_numbers(n_classes, train, targets, previous)
    training = Training.of(labels, n_classes=len(names), users=users)
    known = wanted >= 0
    for what, some in (("true classes", wanted[known]), ("previous classes", before[before >= 0])):
        check_labels_match(
            names[np.unique(some)].tolist(),
            names[np.unique(labels)].tolist(),
            what,
            "the training labels",
            allow=allow_mismatch,
            none=len(np.unique(some)) >= _FEW,
        )
    results = []
    for baseline in training.all(wanted, None if previous is None else before):
        counts = Confusion.count(wanted[known], baseline.best[known])
        counts = Confusion(names[counts.classes], counts.right, counts.predicted, counts.actual)
        hits = baseline.ranks.hits(query_ids)
        results.append(
            make_result(
                hits,
                counts,
                targets=name_targets(wanted, names),
                query_ids=query_ids,
                measures=measures,
                name=baseline.name,
                groups=groups,
                conventions=conventions,
            )
        )
    return results


def _as_numbers(n_classes: int | None, *columns: Any) -> tuple[NDArray[Any], list[Ints]]:
    """The vocabulary, and each column of labels as numbers into it; −1 for none."""
    size = 0 if n_classes is None else checks.check_cutoff(n_classes, "n_classes")
    given, places = [], []
    for what, column in zip(("training labels", "targets", "previous"), columns, strict=True):
        values = [] if column is None else checks.as_list(as_array(column), what)
        has = np.array([value is not None and value != -1 for value in values], bool)
        kept = [value for value, one in zip(values, has, strict=True) if one]
        given.append(checks.check_labels(kept, what) if kept else None)
        places.append(has)
    labels = [column for column in given if column is not None]
    for column in labels[1:]:
        checks.check_one_kind_of_label(labels[0], column)
    named, codes = np.unique(np.concatenate(labels), return_inverse=True)
    direct = named.dtype.kind in "iu" and named[0] >= 0 and named[-1] < size
    names = np.arange(size) if direct else named
    if not direct and size > len(named):  # classes that nobody names come last
        names = np.concatenate([named, _nameless(size - len(named), named)])
    numbers = named[codes] if direct else codes
    return names, _spread(numbers, given, places)


def _nameless(count: int, named: NDArray[Any]) -> NDArray[Any]:
    if named.dtype.kind in "iu":
        return np.arange(count) + int(named[-1]) + 1
    return np.array([f"(not named {number})" for number in range(1, count + 1)])


def _spread(numbers: Ints, given: list[Any], places: list[NDArray[np.bool_]]) -> list[Ints]:
    """Cut the numbers of all columns apart and put each where its label stood."""
    found, start = [], 0
    for column, has in zip(given, places, strict=True):
        spread = np.full(len(has), -1, np.int64)
        stop = start + (0 if column is None else len(column))
        spread[has] = numbers[start:stop]
        found.append(spread)
        start = stop
    return found
