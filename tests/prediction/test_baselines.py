"""Baselines against counting by hand."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.prediction import evaluate_baselines
from assay.prediction.baselines import Training

RNG = np.random.default_rng(11)
TRAIN = RNG.zipf(1.6, 400) % 23
USERS = RNG.integers(0, 4, 400)
TARGETS = RNG.zipf(1.6, 60) % 23
PREVIOUS = RNG.zipf(1.6, 60) % 23
N = 30  # some classes are never seen


def ranking(keys):
    return sorted(range(N), key=keys)


def steps(users):
    found = Counter()
    for user in sorted(set(users)):
        own = TRAIN[users == user].tolist()
        found.update(itertools.pairwise(own))
    return found


@pytest.mark.parametrize("users", [np.zeros(400, int), USERS])
def test_every_baseline_ranks_as_counting_by_hand_does(users):
    often, moves = Counter(TRAIN.tolist()), steps(users)
    training = Training.of(TRAIN, n_classes=N, users=users)
    majority, last, markov = training.all(TARGETS, PREVIOUS)
    for row, (target, before) in enumerate(zip(TARGETS.tolist(), PREVIOUS.tolist(), strict=True)):
        orders = (
            (majority, ranking(lambda c: (-often[c], c))),
            (last, ranking(lambda c, p=before: (c != p, -often[c], c))),
            (markov, ranking(lambda c, p=before: (-moves[p, c], -often[c], c))),
        )
        for baseline, order in orders:
            assert baseline.ranks.rank[row] == order.index(target) + 1
            assert baseline.best[row] == order[0]


def by_levels(*counts):
    """Classes of the first count by how often they occur there, then those of the next, …"""
    often, order = counts[-1], []
    for level in counts:
        named = [c for c in range(N) if c not in order and (level[c] or level is often)]
        order += sorted(named, key=lambda c, level=level: (-level[c], -often[c], c))
    return order


def user_rankings(own, older, last):
    """What each baseline of a user says, from the labels of that user in order of time."""
    often, mine = Counter(TRAIN.tolist()), Counter(own)
    after_one = Counter(c for a, c in itertools.pairwise(own) if a == last)
    triples = zip(own, own[1:], own[2:], strict=False)
    after_two = Counter(c for a, b, c in triples if (a, b) == (older, last))
    majority = by_levels(mine, often)
    latest = list(dict.fromkeys([last, *reversed(own), *by_levels(often)]))
    home = majority[0]
    away = [c for c in majority if mine[c] and c != home]
    at_home = bool(own) and last == home
    return {
        "user-majority": majority,
        "user-recent": latest,
        "return-home": [*away, home, *majority[len(away) + 1 :]] if at_home else majority,
        "user-markov-1": by_levels(after_one, mine, often),
        "user-markov-2": by_levels(after_two, after_one, mine, often),
    }


def test_baselines_of_users_rank_as_counting_by_hand_does():
    who = RNG.integers(0, 5, len(TARGETS))  # user 4 has no training
    older = RNG.zipf(1.6, len(TARGETS)) % 23
    training = Training.of(TRAIN, n_classes=N, users=USERS)
    found = {one.name: one for one in training.all(TARGETS, PREVIOUS, who, older)}
    rows = zip(TARGETS.tolist(), who.tolist(), older.tolist(), PREVIOUS.tolist(), strict=True)
    for row, (target, user, *past) in enumerate(rows):
        wanted = user_rankings(TRAIN[user == USERS].tolist(), *past)
        assert list(wanted) == list(found)[3:]
        for name, order in wanted.items():
            assert found[name].ranks.rank[row] == order.index(target) + 1, (name, row)
            assert found[name].best[row] == order[0], (name, row)


def test_histories_and_users_of_samples():
    train, users = ["a", "b", "a", "b", "c", "c", "c", "a"], list("xxxxyyyy")
    found = evaluate_baselines(
        train,
        ["a", "c"],
        measures="RR",
        users=users,
        sample_users=["x", "y"],
        history=[["a", "b"], []],
    )
    assert [one.name for one in found][-1] == "user-markov-2"
    assert found[-1].rank.tolist() == [1, 1]
    with pytest.raises(UsageError, match="previous and history exclude each other:"):
        evaluate_baselines(train, ["a"], measures="RR", previous=["a"], history=[["a"]])
    with pytest.raises(UsageError, match="The training labels lack users"):
        evaluate_baselines(train, ["a"], measures="RR", sample_users=["x"])
    with pytest.raises(MismatchError, match="users has 1"):
        Training.of([0, 1], n_classes=2, users=["x", "y"]).user_majority(["x"], targets=[0, 1])


def test_no_past_and_no_target():
    training = Training.of([1, 1, 0], n_classes=3)
    markov = training.markov([-1, 0], targets=[1, -1])
    assert markov.ranks.rank.tolist() == [1, 0]
    assert training.last([-1, 0], targets=[1, -1]).best.tolist() == [1, 0]


def test_results_stand_beside_the_model():
    found = evaluate_baselines(
        TRAIN, TARGETS, measures=["Acc@1", "RR"], n_classes=N, previous=PREVIOUS, users=USERS
    )
    assert [one.name for one in found] == ["majority", "last-location", "markov-1"]
    top = np.bincount(TRAIN).argmax()
    assert found[0].mean()["Acc@1"] == pytest.approx((top == TARGETS).mean())
    assert found[0].confusion.accuracy() == found[0].mean()["Acc@1"]
    assert found[1].mean()["Acc@1"] == pytest.approx((TARGETS == PREVIOUS).mean())
    assert found[0].n_classes == N


def test_labels_of_text_with_gaps():
    found = evaluate_baselines(
        ["home", "work", "home", "gym"],
        ["home", None, "moon"],
        measures="RR",
        n_classes=10,
        previous=["work", "home", None],
    )
    assert found[0].rank.tolist() == [1, 0, 4]  # after all three that were seen
    assert found[2].rank.tolist() == [1, 0, 4]
    assert found[0].n_without_target == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Training.of([], n_classes=3), UsageError, "No training labels"),
        (lambda: Training.of([0, 3], n_classes=3), ValueRangeError, "row 1 is 3"),
        (lambda: Training.of([0, 1], n_classes=3, users=["a"]), MismatchError, "users has 1"),
        (
            lambda: Training.of([0], n_classes=2).majority([2]),
            ValueRangeError,
            "targets, row 0: 2 is not a class. Use −1 to 1",
        ),
        (lambda: Training.of([0], n_classes=2).majority([0.5]), ValueRangeError, "float64"),
        (
            lambda: Training.of([0], n_classes=2).last([0], targets=[0, 1]),
            MismatchError,
            "previous",
        ),
        (lambda: evaluate_baselines(["a"], [1], measures="RR"), MismatchError, "never equal"),
    ],
)
def test_what_makes_no_sense(call, error, words):
    with pytest.raises(error, match=words):
        call()
