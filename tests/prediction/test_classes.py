"""Top-1 classification: precision, recall and F1 from their definitions, label by label."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from assay.errors import AssayError, MismatchError, UsageError
from assay.prediction.classes import AVERAGES, Confusion

RNG = random.Random(11)
# Class e is never predicted, f never true.
TRUE = RNG.choices("abcde", (9, 5, 2, 1, 3), k=60)
PREDICTED = [t if t != "e" and RNG.random() < 0.6 else RNG.choice("abcdf") for t in TRUE]


def of_class(name: str) -> tuple[float, float, float]:
    """Precision, recall and F1 of one class, by going through all pairs."""
    right = sum(t == p == name for t, p in zip(TRUE, PREDICTED, strict=True))
    precision = right / PREDICTED.count(name) if PREDICTED.count(name) else 0.0
    recall = right / TRUE.count(name) if TRUE.count(name) else 0.0
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0


def test_values_of_classes_and_their_averages():
    counts = Confusion.count(TRUE, PREDICTED)
    names = sorted({*TRUE, *PREDICTED})
    assert counts.classes.tolist() == names == [*"abcdef"]
    each = [of_class(name) for name in names]
    weights = [TRUE.count(name) for name in names]
    accuracy = sum(t == p for t, p in zip(TRUE, PREDICTED, strict=True)) / 60
    assert counts.n == 60
    assert counts.accuracy() == accuracy
    for kind, wanted in zip(("precision", "recall", "f1"), zip(*each, strict=True), strict=True):
        assert getattr(counts, f"{kind}_by_class")() == pytest.approx(wanted, abs=1e-15)
        averages = {
            "micro": accuracy,
            "macro": sum(wanted) / 6,
            "weighted": sum(w * v for w, v in zip(weights, wanted, strict=True)) / 60,
        }
        assert {*averages} == {*AVERAGES}
        for avg, value in averages.items():
            assert getattr(counts, kind)(avg) == pytest.approx(value, abs=1e-14), (kind, avg)
        assert getattr(counts, kind)() == getattr(counts, kind)("weighted")


def test_parts_add_up_in_any_order():
    whole = Confusion.count(TRUE, PREDICTED)
    parts = [
        Confusion.count(TRUE[a:b], PREDICTED[a:b]) for a, b in ((0, 7), (7, 8), (8, 31), (31, 60))
    ]
    for order in (parts, parts[::-1]):
        merged = Confusion.merge(*order)
        for field in ("classes", "right", "predicted", "actual"):
            assert getattr(merged, field).tolist() == getattr(whole, field).tolist()


def test_without_pairs_nothing_is_defined():
    empty = Confusion(np.array(["a"]), *(np.zeros(1, np.int64),) * 3)
    values = [empty.accuracy(), *(empty.f1(avg) for avg in AVERAGES)]
    assert all(math.isnan(value) for value in values)


def test_what_does_not_fit_together_is_refused():
    words, numbers = Confusion.count(["a"], ["b"]), Confusion.count([1], [2])
    with pytest.raises(MismatchError, match="Some parts have text classes, others integers"):
        Confusion.merge(words, words, numbers)
    with pytest.raises(UsageError, match="at least one"):
        Confusion.merge()
    with pytest.raises(UsageError, match="micro, macro, weighted, found 'mean'"):
        words.f1("mean")
    for true, predicted in ((["a"], ["a", "b"]), (["a"], [1])):
        with pytest.raises(AssayError):
            Confusion.count(true, predicted)
