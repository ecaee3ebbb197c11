"""What is easily predicted: baselines that know only the training labels and the last classes.

    majority         always the most frequent class, then the next
    last-location    where one was last
    markov-1         what most often followed the last class, of all users together
    user-majority    the user's own most frequent classes
    user-recent      the user's classes, the latest first
    return-home      the user's most frequent class, home; from home, the next frequent one
    user-markov-1    what most often followed the last class of this user
    user-markov-2    what most often followed the last two classes of this user

Each ranks the whole vocabulary for every sample, so that a baseline is a result like any other.
What a rule does not name follows by the next simpler one: two classes, one class, the user's
frequencies, those of all. Classes are numbers from 0; what was never seen ranks last, the lower
number first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.mismatches import check_labels_match
from assay.core.ranking import sort_rows
from assay.errors import UsageError, ValueRangeError
from assay.measures import Measure
from assay.measures.classes import Confusion
from assay.native.tie_order import rank_order
from assay.prediction.evaluate import as_array, rename_classes
from assay.prediction.result import PredictionResult, make_result, name_targets
from assay.search.engine.target_search import TargetRanks

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
    owners: Ints
    user_names: tuple[Any, ...]
    n_classes: int

    @classmethod
    def of(cls, labels: Any, *, n_classes: int, users: Any = None) -> Training:
        """Check the labels; the visits of a user stand together or apart, but in order of time."""
        size = checks.check_cutoff(n_classes, "n_classes")
        numbers = checks.check_numbers(labels, size, "training labels")
        if not len(numbers):
            raise UsageError("The training labels are empty: no baseline can be made of them.")
        if users is None:
            return cls(numbers, np.zeros(len(numbers), np.int64), (), size)
        names = checks.check_labels(users, "users")
        checks.check_lengths(labels=len(numbers), users=len(names))
        user_names, owners = np.unique(names, return_inverse=True)
        order = np.argsort(owners, kind="stable")
        return cls(numbers[order], owners[order], tuple(user_names.tolist()), size)

    # What was counted in training

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

    def _follows(self, steps: int) -> Ints:
        """Return places of labels with `steps` labels of the same user before them."""
        later = np.arange(steps, len(self.labels))
        followers: Ints = later[self.owners[later] == self.owners[later - steps]]
        return followers

    @cached_property
    def _after_any(self) -> _Frequent:
        """What followed a class, of all users together."""
        at = self._follows(1)
        return _Frequent.of(self.labels[at], self._place, self.labels[at - 1])

    @cached_property
    def _own(self) -> _Frequent:
        """The classes of each user."""
        return _Frequent.of(self.labels, self._place, self.owners)

    @cached_property
    def _after_one(self) -> _Frequent:
        """What followed a class of each user."""
        at = self._follows(1)
        return _Frequent.of(self.labels[at], self._place, self.owners[at], self.labels[at - 1])

    @cached_property
    def _after_two(self) -> _Frequent:
        """What followed two classes of each user."""
        at = self._follows(2)
        before = self.labels[at - 2], self.labels[at - 1]
        return _Frequent.of(self.labels[at], self._place, self.owners[at], *before)

    def _latest(self, user: int) -> Ints:
        """Return the classes of a user, the latest first."""
        inside = slice(*np.searchsorted(self.owners, [user, user + 1]))
        return _first_mentions(self.labels[inside][::-1])

    # Baselines for anyone

    def majority(self, targets: Any) -> Baseline:
        """Rank the most frequent class first, then the next."""
        return self._baseline("majority", targets, (), lambda: _NOTHING)

    def last(self, previous: Any, *, targets: Any) -> Baseline:
        """Rank the last class first, then the most frequent; −1 has no past."""
        before = self._previous(previous, targets)
        return self._baseline("last-location", targets, (before,), _only)

    def markov(self, previous: Any, *, targets: Any) -> Baseline:
        """Rank first what most often followed the last class, then the most frequent.

        Steps of all users are counted together; equally frequent steps go by frequency.
        """
        before = self._previous(previous, targets)
        return self._baseline("markov-1", targets, (before,), self._after_any)

    # Baselines of each user

    def user_majority(self, users: Any, *, targets: Any) -> Baseline:
        """Rank the user's classes by frequency; those of all without training."""
        who = self._users(users, targets)
        return self._baseline("user-majority", targets, (who,), self._own)

    def user_recent(self, users: Any, previous: Any = None, *, targets: Any) -> Baseline:
        """Rank the last class first, then the user's classes, the latest first."""
        who, before = self._users(users, targets), np.full(len(targets), -1)
        if previous is not None:
            before = self._previous(previous, targets)

        def seen(user: int, last: int) -> Ints:
            return _first_mentions(_only(last), self._latest(user))

        return self._baseline("user-recent", targets, (who, before), seen)

    def return_home(self, users: Any, previous: Any, *, targets: Any) -> Baseline:
        """Rank home, the user's most frequent class, first; from there the next."""
        who, before = self._users(users, targets), self._previous(previous, targets)

        def seen(user: int, last: int) -> Ints:
            frequent = self._own(user)
            return np.roll(frequent, -1) if len(frequent) and frequent[0] == last else frequent

        return self._baseline("return-home", targets, (who, before), seen)

    def user_markov(self, users: Any, *before: Any, targets: Any) -> Baseline:
        """Rank first what most often followed the user's last class or two.

        `before` holds the classes before each sample, the later one last. Then comes what followed
        the last one, and the user's most frequent classes.
        """
        who = self._users(users, targets)
        past = [self._previous(column, targets) for column in before]

        def seen(user: int, *last: int) -> Ints:
            two = self._after_two(user, *last) if len(last) == 2 else _NOTHING
            return _first_mentions(two, self._after_one(user, last[-1]), self._own(user))

        return self._baseline(f"user-markov-{len(past)}", targets, (who, *past), seen)

    def all(
        self, targets: Any, previous: Any = None, users: Any = None, before_previous: Any = None
    ) -> list[Baseline]:
        """Return every baseline that the columns allow."""
        baselines = [self.majority(targets)]
        if previous is not None:
            baselines.append(self.last(previous, targets=targets))
            baselines.append(self.markov(previous, targets=targets))
        if users is None:
            return baselines
        baselines.append(self.user_majority(users, targets=targets))
        baselines.append(self.user_recent(users, previous, targets=targets))
        if previous is not None:
            baselines.append(self.return_home(users, previous, targets=targets))
            baselines.append(self.user_markov(users, previous, targets=targets))
        if previous is not None and before_previous is not None:
            baselines.append(self.user_markov(users, before_previous, previous, targets=targets))
        return baselines

    def _previous(self, previous: Any, targets: Any) -> Ints:
        before = _classes_or_none(previous, self.n_classes, "previous")
        checks.check_lengths(previous=len(before), targets=len(targets))
        return before

    def _users(self, users: Any, targets: Any) -> Ints:
        """Return numbers of the samples' users; −1 for one without training."""
        if not self.user_names:
            raise UsageError("The training labels have no users, so no baseline is a user's own.")
        names = checks.check_labels(users, "users of samples")
        checks.check_lengths(users=len(names), targets=len(targets))
        trained = np.asarray(self.user_names)
        checks.check_one_kind_of_label(trained, names)
        at = np.minimum(np.searchsorted(trained, names), len(trained) - 1)
        return np.where(trained[at] == names, at, -1)

    def _baseline(
        self, name: str, targets: Any, states: tuple[Ints, ...], seen: Callable[..., Ints]
    ) -> Baseline:
        """Rank what is seen in a sample's state first, then all classes by frequency.

        Nothing ties: these rankings are orders, not scores.
        """
        true = _classes_or_none(targets, self.n_classes, "targets")
        columns = np.column_stack([*states, np.zeros_like(true)])
        keys, state = np.unique(columns, axis=0, return_inverse=True)
        ahead, best = np.empty(len(true), np.int64), np.empty(len(true), np.int64)
        by_state = np.argsort(state.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(state.ravel(), minlength=len(keys)))
        for key, rows in zip(keys.tolist(), np.split(by_state, ends[:-1]), strict=True):
            first = seen(*key[:-1])
            ahead[rows] = self._places_after(first, np.maximum(true[rows], 0))
            best[rows] = first[0] if len(first) else self.order[0]
        none = true < 0
        zero = np.where(none, -1, 0)
        ranks = TargetRanks(np.where(none, -1, ahead), zero, zero, self.n_classes)
        return Baseline(name, ranks, best)

    def _places_after(self, first: Ints, targets: Ints) -> Ints:
        """Count the classes before each target: few come first, the rest by frequency."""
        rest = self._place[targets]
        if not len(first):
            return rest
        later = len(first) + rest - np.searchsorted(np.sort(self._place[first]), rest)
        order = np.argsort(first)
        at = np.minimum(np.searchsorted(first, targets, sorter=order), len(first) - 1)
        return np.where(first[order[at]] == targets, order[at], later)


_NOTHING: Final = np.empty(0, np.int64)


def _only(last: int) -> Ints:
    return np.array([last]) if last >= 0 else _NOTHING


def _first_mentions(*parts: Ints) -> Ints:
    """Return the classes of all parts in this order, each once."""
    classes = np.concatenate(parts)
    _, first = np.unique(classes, return_index=True)
    return classes[np.sort(first)]


@dataclass(frozen=True, eq=False)
class _Frequent:
    """The classes that occurred in each state, the most frequent first; ties go by `place`."""

    classes: Ints
    inside: dict[tuple[int, ...], tuple[int, int]]

    @classmethod
    def of(cls, classes: Ints, place: Ints, *states: Ints) -> _Frequent:
        """Count the classes of each state; a state is a number in each of the columns."""
        keys, state = np.unique(np.column_stack(states), axis=0, return_inverse=True)
        codes, counts = np.unique(state.ravel() * len(place) + classes, return_counts=True)
        states_of, frequent = np.divmod(codes, len(place))
        ends = np.searchsorted(states_of, np.arange(len(keys) + 1))
        frequent = frequent[sort_rows(ends, counts.astype(np.float64), place[frequent])]
        spans = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        return cls(frequent, dict(zip(map(tuple, keys.tolist()), spans, strict=True)))

    def __call__(self, *state: int) -> Ints:
        """Return the classes of a state; none where it never occurred."""
        return self.classes[slice(*self.inside.get(state, (0, 0)))]


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
    history: Any = None,
    users: Any = None,
    sample_users: Any = None,
    query_ids: Any = None,
    groups: Mapping[str, Any] | None = None,
    conventions: str | Conventions = "next_location",
    allow_mismatch: bool = False,
) -> list[PredictionResult]:
    """Evaluate every baseline that the columns allow, the simplest first.

    Args:
        train: Training labels in order of time.
        targets: The true class of each sample; None or −1 for none.
        measures: Measures of the ranking.
        n_classes: Size of the vocabulary; integers below it are class numbers as they are.
        previous: The class before each sample, or None.
        history: Instead of `previous`: all classes before each sample, the latest last.
        users: Whose the training labels are.
        sample_users: Whose the samples are.
        query_ids: Ids of the samples.
        groups: {column: {sample id: group}}.
        conventions: Conventions of the measures.
        allow_mismatch: Accept classes or users that are written differently, and users without
            training.

    Returns:
        A result per baseline.

    Raises:
        UsageError: Both `previous` and `history` are given, or there is no training label.
        MismatchError: Classes or users of the samples do not match those of training.

    >>> found = evaluate_baselines(["home", "work", "home"], ["work"], measures="RR")
    >>> found[0].name, found[0].mean()["RR"]
    ('majority', 0.5)
    """
    if history is not None and previous is not None:
        raise UsageError("Give previous or history, not both: the last of a history is previous.")
    older = None
    if history is not None:
        previous, older = last_classes(history)
    names, (labels, true, before, twice) = _as_numbers(n_classes, train, targets, previous, older)
    training = Training.of(labels, n_classes=len(names), users=users)
    has_target = true >= 0
    trained = names[np.unique(labels)].tolist()
    remarks: list[str] = []
    for what, codes in (
        ("true classes", true),
        ("previous classes", before),
        ("classes before the previous", twice),
    ):
        classes = names[np.unique(codes[codes >= 0])].tolist()
        remarks += check_places_match(classes, trained, what, allow=allow_mismatch)
    if users is not None and sample_users is not None:
        remarks += check_users_match(users, sample_users, allow=allow_mismatch)
    results = []
    past = (
        None if column is None else codes for column, codes in ((previous, before), (older, twice))
    )
    last, before_last = past
    for baseline in training.all(true, last, sample_users, before_last):
        counts = Confusion.count(true[has_target], baseline.best[has_target])
        hits = baseline.ranks.hits(query_ids)
        hits = replace(hits, remarks=(*hits.remarks, *remarks))
        results.append(
            make_result(
                hits,
                rename_classes(counts, names),
                targets=name_targets(true, names),
                predicted=name_targets(baseline.best, names),
                query_ids=query_ids,
                measures=measures,
                name=baseline.name,
                groups=groups,
                conventions=conventions,
            )
        )
    return results


def check_places_match(
    classes: Iterable[Any], trained: Iterable[Any], what: str, *, allow: bool = False
) -> tuple[str, ...]:
    """Refuse classes that the training labels write differently; few may all be new."""
    different = list(dict.fromkeys(classes))
    return check_labels_match(
        different,
        dict.fromkeys(trained),
        what,
        "the training labels",
        allow=allow,
        none=len(different) >= _FEW,
    )


def check_users_match(users: Any, sample_users: Any, *, allow: bool = False) -> tuple[str, ...]:
    """Refuse users of samples that training has under other names; count those it lacks.

    >>> check_users_match(["ann", "bob"], ["ann", "ann", "eve"])
    ("1 of 2 users of the samples (1 of 3 samples) has no training label: 'eve'",)
    """
    trained = dict.fromkeys(checks.as_list(as_array(users), "users"))
    visitors = checks.as_list(as_array(sample_users), "users of samples")
    counts = Counter(visitors)
    what, place = "users of the samples", "the training users (--train-users)"
    remarks = check_labels_match(counts, trained, what, place, allow=allow)
    absent = [user for user in counts if user not in trained]
    if not absent or remarks:
        return remarks
    n_samples = sum(counts[user] for user in absent)
    return (
        f"{len(absent):,} of {len(counts):,} {what} ({n_samples:,} of {len(visitors):,} samples) "
        f"{'has' if len(absent) == 1 else 'have'} no training label: {checks.name_few(absent)}",
    )


def last_classes(history: Any) -> tuple[list[Any], list[Any]]:
    """Return the last class of each history, and the one before; None without.

    >>> last_classes([["home", "work"], ["gym"], []])
    (['work', 'gym', None], ['home', None, None])
    """
    rows = [checks.as_list(row, "a history") for row in checks.as_list(history, "history")]
    last, before_last = ([row[-n] if len(row) >= n else None for row in rows] for n in (1, 2))
    return last, before_last


_COLUMNS: Final = ("training labels", "targets", "previous", "history")


def _as_numbers(n_classes: int | None, *columns: Any) -> tuple[NDArray[Any], list[Ints]]:
    """Return the vocabulary, and each column as numbers into it; −1 for none."""
    size = 0 if n_classes is None else checks.check_cutoff(n_classes, "n_classes")
    label_columns, places = [], []
    for what, column in zip(_COLUMNS, columns, strict=True):
        values = [] if column is None else checks.as_list(as_array(column), what)
        has = np.array([value is not None and value != -1 for value in values], bool)
        named_values = [value for value, present in zip(values, has, strict=True) if present]
        label_columns.append(checks.check_labels(named_values, what) if named_values else None)
        places.append(has)
    labels = [column for column in label_columns if column is not None]
    for column in labels[1:]:
        checks.check_one_kind_of_label(labels[0], column)
    named, codes = np.unique(np.concatenate(labels), return_inverse=True)
    direct = named.dtype.kind in "iu" and named[0] >= 0 and named[-1] < size
    names = np.arange(size) if direct else named
    if not direct and size > len(named):  # classes that nobody names come last
        names = np.concatenate([named, _nameless(size - len(named), named)])
    numbers = named[codes] if direct else codes
    return names, _spread(numbers, label_columns, places)


def _nameless(count: int, named: NDArray[Any]) -> NDArray[Any]:
    if named.dtype.kind in "iu":
        return np.arange(count) + int(named[-1]) + 1
    return np.array([f"(not named {number})" for number in range(1, count + 1)])


def _spread(numbers: Ints, columns: list[Any], places: list[NDArray[np.bool_]]) -> list[Ints]:
    """Cut the numbers of all columns apart and put each where its label stood."""
    spread_columns, start = [], 0
    for column, has in zip(columns, places, strict=True):
        spread = np.full(len(has), -1, np.int64)
        stop = start + (0 if column is None else len(column))
        spread[has] = numbers[start:stop]
        spread_columns.append(spread)
        start = stop
    return spread_columns
