"""Baselines from the training labels and the last classes alone.

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

How predictable visits are at all is the bound of Song, Qu, Blumm and Barabási ("Limits of
predictability in human mobility", Science 327, 2010): the entropy rate of a user's visits,
estimated by Lempel and Ziv's matches (Kontoyiannis et al. 1998), put into Fano's inequality. Known
caveats: the estimate needs long sequences (it is too high for short ones); it depends on how visits
are cut out of tracks; and models that know more than the sequence (the hour, say) may exceed it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Unpack

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, log2
from assay.core import checks
from assay.core.mismatches import check_labels_match
from assay.core.ranking import sort_rows
from assay.errors import UsageError, ValueRangeError
from assay.native.tie_order import rank_order
from assay.prediction.evaluate import Scoring, make_result
from assay.prediction.result import PredictionResult
from assay.search.engine.targets import TargetRanks
from assay.stats import interval
from assay.tables.table import Table, table_of

_FEW = 10  # so few classes may well be new


@dataclass(frozen=True, eq=False)
class Baseline:
    """The ranks of the targets, and the class that ranks first, for each sample."""

    name: str
    ranks: TargetRanks
    best: Ints


@dataclass(frozen=True, eq=False)
class Training:
    """Training labels in order of time, and the baselines that they allow.

    `Training.of` makes it, with the labels of each user together.

    Args:
        labels: Class numbers, those of a user together and in order of time.
        owners: Number of the user of each label.
        user_names: Names of the users, in rising order; empty where they are not known.
        n_classes: Size of the vocabulary.

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
        """Check the labels of training.

        Args:
            labels: Class numbers; those of a user stand together or apart, but in order of time.
            n_classes: Size of the vocabulary.
            users: Whose the labels are, so that none run together.

        Returns:
            The labels, those of each user together.

        Raises:
            UsageError: There is no label.
        """
        size = checks.check_cutoff(n_classes, "n_classes")
        numbers = checks.check_numbers(labels, size, "training labels")
        if not len(numbers):
            raise UsageError("No training labels. Pass at least one for baselines.")
        if users is None:
            return cls(numbers, np.zeros(len(numbers), np.int64), (), size)
        names = checks.check_labels(users, "users")
        checks.check_lengths(labels=len(numbers), users=len(names))
        user_names, owners = np.unique(names, return_inverse=True)
        order = np.argsort(owners, kind="stable")
        return cls(numbers[order], owners[order], tuple(user_names.tolist()), size)

    @cached_property
    def counts(self) -> Ints:
        """Number of occurrences of each class."""
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
    def _counted(self) -> dict[tuple[int, bool], _Frequent]:
        return {}

    def _count_followers(self, steps: int, *, of_user: bool = True) -> _Frequent:
        """Count what followed the past classes, per user or over all users."""
        if (steps, of_user) not in self._counted:
            later = np.arange(steps, len(self.labels))
            at = later[self.owners[later] == self.owners[later - steps]]
            states = [self.owners[at]] if of_user else []
            states += [self.labels[at - back] for back in range(steps, 0, -1)]
            self._counted[steps, of_user] = _Frequent.of(self.labels[at], self._place, *states)
        return self._counted[steps, of_user]

    # Baselines for anyone

    def majority(self, targets: Any) -> Baseline:
        """Rank the most frequent class first, then the next."""
        return self._baseline("majority", targets, lambda: _NOTHING)

    def last(self, previous: Any, *, targets: Any) -> Baseline:
        """Rank the last class first, then the most frequent; −1 has no past."""
        return self._baseline("last-location", targets, _list_last, None, [previous])

    def markov(self, previous: Any, *, targets: Any) -> Baseline:
        """Rank the commonest followers of the last class first, then frequent classes.

        Steps of all users are counted together; equally frequent steps go by frequency.
        """
        followers = self._count_followers(1, of_user=False)
        return self._baseline("markov-1", targets, followers, None, [previous])

    # Baselines of each user

    def user_majority(self, users: Any, *, targets: Any) -> Baseline:
        """Rank the user's classes by frequency; those of all without training."""
        return self._baseline("user-majority", targets, self._count_followers(0), users)

    def user_recent(self, users: Any, previous: Any = None, *, targets: Any) -> Baseline:
        """Rank the last class first, then the user's classes, the latest first."""
        before = np.full(len(targets), -1) if previous is None else previous

        def seen(user: int, last: int) -> Ints:
            inside = slice(*np.searchsorted(self.owners, [user, user + 1]))
            return _keep_first_mentions(_list_last(last), self.labels[inside][::-1])

        return self._baseline("user-recent", targets, seen, users, [before])

    def return_home(self, users: Any, previous: Any, *, targets: Any) -> Baseline:
        """Rank home, the user's most frequent class, first; from there the next."""

        def seen(user: int, last: int) -> Ints:
            frequent = self._count_followers(0)(user)
            return np.roll(frequent, -1) if len(frequent) and frequent[0] == last else frequent

        return self._baseline("return-home", targets, seen, users, [previous])

    def user_markov(self, users: Any, *before: Any, targets: Any) -> Baseline:
        """Rank the commonest followers of the user's last class or two first.

        `before` holds the classes before each sample, the later one last. Then comes what followed
        the last one, and the user's most frequent classes.
        """

        def seen(user: int, *last: int) -> Ints:
            longest_first = range(len(last), -1, -1)
            parts = (self._count_followers(n)(user, *last[len(last) - n :]) for n in longest_first)
            return _keep_first_mentions(*parts)

        return self._baseline(f"user-markov-{len(before)}", targets, seen, users, before)

    def all(
        self, targets: Any, previous: Any = None, users: Any = None, before_previous: Any = None
    ) -> list[Baseline]:
        """Return every baseline that the columns allow."""
        baselines = [self.majority(targets)]
        if previous is not None:
            baselines += [work(previous, targets=targets) for work in (self.last, self.markov)]
        if users is None:
            return baselines
        baselines.append(self.user_majority(users, targets=targets))
        baselines.append(self.user_recent(users, previous, targets=targets))
        if previous is not None:
            baselines.append(self.return_home(users, previous, targets=targets))
            baselines.append(self.user_markov(users, previous, targets=targets))
            if before_previous is not None:
                past = before_previous, previous
                baselines.append(self.user_markov(users, *past, targets=targets))
        return baselines

    def _find_users(self, users: Any, targets: Any) -> Ints:
        """Return numbers of the samples' users; −1 for one without training."""
        if not self.user_names:
            raise UsageError("The training labels lack users. Pass users for this baseline.")
        names = checks.check_labels(users, "users of samples")
        checks.check_lengths(users=len(names), targets=len(targets))
        trained = np.asarray(self.user_names)
        checks.check_one_kind_of_label(trained, names)
        at = np.minimum(np.searchsorted(trained, names), len(trained) - 1)
        return np.where(trained[at] == names, at, -1)

    def _baseline(
        self,
        name: str,
        targets: Any,
        seen: Callable[..., Ints],
        users: Any = None,
        past: Sequence[Any] = (),
    ) -> Baseline:
        """Rank classes seen in a sample's state first, then all by frequency.

        The state is the user, where users are given, and the `past` classes. Nothing ties: these
        rankings are orders, not scores.
        """
        true = _check_classes(targets, self.n_classes, "targets")
        states = [] if users is None else [self._find_users(users, targets)]
        for column in past:
            states.append(_check_classes(column, self.n_classes, "previous"))
            checks.check_lengths(previous=len(states[-1]), targets=len(true))
        columns = np.column_stack([*states, np.zeros_like(true)])
        keys, state = np.unique(columns, axis=0, return_inverse=True)
        ahead, best = np.empty(len(true), np.int64), np.empty(len(true), np.int64)
        by_state = np.argsort(state.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(state.ravel(), minlength=len(keys)))
        for key, rows in zip(keys.tolist(), np.split(by_state, ends[:-1]), strict=True):
            first = seen(*key[:-1])
            ahead[rows] = self._count_before(first, np.maximum(true[rows], 0))
            best[rows] = first[0] if len(first) else self.order[0]
        none = true < 0
        zero = np.where(none, -1, 0)
        return Baseline(
            name, TargetRanks(np.where(none, -1, ahead), zero, zero, self.n_classes), best
        )

    def _count_before(self, first: Ints, targets: Ints) -> Ints:
        """Count the classes before each target: few come first, the rest by frequency."""
        rest = self._place[targets]
        if not len(first):
            return rest
        later = len(first) + rest - np.searchsorted(np.sort(self._place[first]), rest)
        order = np.argsort(first)
        at = np.minimum(np.searchsorted(first, targets, sorter=order), len(first) - 1)
        return np.where(first[order[at]] == targets, order[at], later)


_NOTHING: Final = np.empty(0, np.int64)


def _list_last(last: int) -> Ints:
    return np.array([last]) if last >= 0 else _NOTHING


def _keep_first_mentions(*parts: Ints) -> Ints:
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


def _check_classes(values: Any, n_classes: int, what: str) -> Ints:
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
            f"{what}, row {row}: {array[row]} is not a class. Use −1 to {n_classes - 1}."
        )
    return array.astype(np.int64)


def evaluate_baselines(
    train: Any,
    targets: Any,
    *,
    n_classes: int | None = None,
    previous: Any = None,
    history: Any = None,
    users: Any = None,
    sample_users: Any = None,
    query_ids: Any = None,
    allow_mismatch: bool = False,
    **scoring: Unpack[Scoring],
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
        clusters: The column of groups whose samples are not independent, such as users.
        allow_mismatch: Accept classes or users that are written differently, and users without
            training.

    Returns:
        A result per baseline.

    Raises:
        UsageError: Both `previous` and `history` are given, or there is no training label.
        MismatchError: Classes or users of the samples do not match those of training.

    >>> majority = evaluate_baselines(["home", "work", "home"], ["work"], measures="RR")[0]
    >>> majority.name, majority.mean()["RR"]
    ('majority', 0.5)
    """
    if history is not None and previous is not None:
        raise UsageError("previous and history exclude each other: a history ends with previous.")
    older = None
    if history is not None:
        previous, older = last_classes(history)
    parts = (train, targets, previous, older)
    names, (labels, true, last, before_last) = _as_numbers(n_classes, *parts)
    training = Training.of(labels, n_classes=len(names), users=users)
    trained = names[np.unique(labels)].tolist()
    columns = ("true classes", "previous classes", "classes before the previous")
    remarks: list[str] = []
    for what, codes in zip(columns, (true, last, before_last), strict=True):
        classes = names[np.unique(codes[codes >= 0])].tolist()
        remarks += check_places_match(classes, trained, what, allow=allow_mismatch)
    if users is not None and sample_users is not None:
        remarks += check_users_match(users, sample_users, allow=allow_mismatch)
    results = []
    past = (None if previous is None else last, None if older is None else before_last)
    for baseline in training.all(true, past[0], sample_users, past[1]):
        hits = baseline.ranks.hits(query_ids)
        hits = replace(hits, remarks=(*hits.remarks, *remarks))
        scoring["name"] = baseline.name
        results.append(make_result(hits, true, baseline.best, names, query_ids, **scoring))
    return results


def check_places_match(
    classes: Iterable[Any], trained: Iterable[Any], what: str, *, allow: bool = False
) -> tuple[str, ...]:
    """Refuse classes that the training labels write differently; few may all be new."""
    labels, known_labels = dict.fromkeys(classes), dict.fromkeys(trained)
    place, few = "the training labels", len(labels) < _FEW
    return check_labels_match(labels, known_labels, what, place, allow=allow, none=not few)


def check_users_match(users: Any, sample_users: Any, *, allow: bool = False) -> tuple[str, ...]:
    """Refuse users of samples that training has under other names; count those it lacks.

    >>> check_users_match(["ann", "bob"], ["ann", "ann", "eve"])
    ("1 of 2 users of the samples (1 of 3 samples) has no training label: 'eve'",)
    """
    trained = dict.fromkeys(checks.as_list(users, "users"))
    visitors = checks.as_list(sample_users, "users of samples")
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
    labels, places = [], []
    for what, column in zip(_COLUMNS, columns, strict=True):
        values = [] if column is None else checks.as_list(column, what)
        places.append(np.array([value is not None and value != -1 for value in values], bool))
        if places[-1].any():
            present = [value for value in values if value is not None and value != -1]
            labels.append(checks.check_labels(present, what))
    for column in labels[1:]:
        checks.check_one_kind_of_label(labels[0], column)
    named, numbers = np.unique(np.concatenate(labels), return_inverse=True)
    names, unnamed = named, size - len(named)
    if named.dtype.kind in "iu" and named[0] >= 0 and named[-1] < size:
        names, numbers = np.arange(size), named[numbers]
    elif unnamed > 0:  # classes that nobody names come last
        more = np.array([f"(not named {number})" for number in range(1, unnamed + 1)])
        if named.dtype.kind in "iu":
            more = np.arange(unnamed) + int(named[-1]) + 1
        names = np.concatenate([named, more])
    spread = [np.full(len(place), -1, np.int64) for place in places]
    ends = np.cumsum([place.sum() for place in places])[:-1]
    for codes, place, part in zip(spread, places, np.split(numbers, ends), strict=True):
        codes[place] = part
    return names, spread


def mark_new_places(
    targets: Sequence[Any],
    train: Sequence[Any],
    users: Any = None,
    sample_users: Any = None,
    *,
    allow_mismatch: bool = False,
) -> list[str]:
    """Mark samples whose true class is in the training (of their user, where known).

    Classes and users that are written differently are refused unless `allow_mismatch`.

    >>> mark_new_places(["home", "gym"], ["home", "work"])
    ['seen', 'new']
    """
    named = [target for target in targets if target is not None and target != -1]
    check_places_match(named, train, "true classes", allow=allow_mismatch)
    if users is None or sample_users is None:
        trained = set(train)
        return ["seen" if target in trained else "new" for target in targets]
    checks.check_lengths(train=len(train), train_users=len(users))
    checks.check_lengths(users=len(sample_users), samples=len(targets))
    check_users_match(users, sample_users, allow=allow_mismatch)
    visits = set(zip(users, train, strict=True))
    pairs = zip(sample_users, targets, strict=True)
    return ["seen" if pair in visits else "new" for pair in pairs]


@dataclass(frozen=True, eq=False)
class Predictability:
    """Entropies of each user's visits in bits, and the share that a best predictor may reach.

    `random` counts places only, `frequency` how often each is visited, `sequence` their order.
    `bound` has the same names: the bound of Fano's inequality for each entropy.
    """

    users: tuple[Any, ...]
    visits: Ints
    places: Ints
    entropy: dict[str, Floats]
    bound: dict[str, Floats]

    def table(self) -> Table:
        """Return means over users with 95 % intervals."""
        rows = []
        for name in self.entropy:
            share = interval(self.bound[name], bounds=(0.0, 1.0))
            bits = interval(self.entropy[name]).estimate
            rows.append((name, bits, share.estimate, share.low, share.high))
        return table_of(("knowing", "bits", "at most right", "95 % low", "95 % high"), rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "users": [str(user) for user in self.users],
            "visits": self.visits.tolist(),
            "places": self.places.tolist(),
            "bits": {name: values.tolist() for name, values in self.entropy.items()},
            "bound": {name: values.tolist() for name, values in self.bound.items()},
        }


def measure_predictability(labels: Any, users: Any = None) -> Predictability:
    """Bound the share of visits that a best predictor may get right.

    Args:
        labels: Places in order of time.
        users: Whose visits they are; without it, those of one user.

    Returns:
        Entropies in bits and bounds, for each user with at least two visits.

    Raises:
        UsageError: No user has two visits.

    >>> bound = measure_predictability(["home", "work"] * 50).bound
    >>> bound["frequency"].tolist(), float(bound["sequence"][0]) > 0.9
    ([0.5], True)
    """
    names = checks.check_labels(labels, "labels")
    owners = (
        np.zeros(len(names), np.int64) if users is None else checks.check_labels(users, "users")
    )
    checks.check_lengths(labels=len(names), users=len(owners))
    _, codes = np.unique(names, return_inverse=True)
    names_of_users, owner = np.unique(owners, return_inverse=True)
    each = [codes[owner == number] for number in range(len(names_of_users))]
    long = [number for number, visits in enumerate(each) if len(visits) > 1]
    if not long:
        raise UsageError("No user has two visits. Pass users with at least two.")
    counts = [np.unique(each[number], return_counts=True)[1] for number in long]
    visits, places = np.array([(n.sum(), len(n)) for n in counts]).T
    shares = [n / n.sum() for n in counts]
    entropy = {
        "random": np.array([math.log2(n) for n in places.tolist()]),
        "frequency": np.array([float(-(share * log2(share)).sum()) + 0.0 for share in shares]),
        "sequence": np.array([entropy_rate(each[number]) for number in long]),
    }
    bound = {
        name: np.array(list(map(fano_bound, bits.tolist(), places.tolist())))
        for name, bits in entropy.items()
    }
    users_with_visits = tuple(names_of_users[long].tolist())
    return Predictability(users_with_visits, visits, places, entropy, bound)


def entropy_rate(visits: Ints) -> float:
    """Estimate bits per visit by Lempel and Ziv: n log2 n over the sum of Λ_i.

    Λ_i is the length of the shortest run from visit i on that did not occur before visit i; a run
    that reaches the end counts one more.
    """
    n = len(visits)
    text = "".join(chr(code if code < 0xD800 else code + 0x800) for code in visits.tolist())
    total, length = 0, 0
    for start in range(n):
        length = max(length - 1, 0)  # what follows the first of a known run is known, too
        while start + length < n and text[start : start + length + 1] in text[:start]:
            length += 1
        total += length + 1
    return n * math.log2(n) / total


def fano_bound(bits: float, places: int) -> float:
    """Return the largest Π with H(Π) + (1 − Π) log2(places − 1) = bits."""
    if places < 2 or bits <= 0:
        return 1.0
    low, high = 1 / places, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        plain = sum(-x * math.log2(x) for x in (middle, 1 - middle) if x > 0)
        if plain + (1 - middle) * math.log2(max(places - 1, 1)) > bits:
            low = middle
        else:
            high = middle
    return (low + high) / 2
