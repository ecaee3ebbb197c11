"""Baselines against counting by hand."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.tasks.prediction import evaluate_baselines
from assay.tasks.prediction.baselines import Training

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
        (lambda: Training.of([], n_classes=3), UsageError, "empty"),
        (lambda: Training.of([0, 3], n_classes=3), ValueRangeError, "row 1 is 3"),
        (lambda: Training.of([0, 1], n_classes=3, users=["a"]), MismatchError, "users has 1"),
        (lambda: Training.of([0], n_classes=2).majority([2]), ValueRangeError, "row 0 is 2"),
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
