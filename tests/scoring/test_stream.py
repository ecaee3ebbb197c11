"""Batches give the same bytes as the whole, in any order of merging."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

import assay
from assay import errors
from assay.prediction.classes import Confusion
from assay.scoring.evaluate import Stream


def _random_run(rng: np.random.Generator) -> tuple[dict, dict]:
    run = {f"q{i}": {f"d{j}": float(rng.integers(4)) for j in range(8)} for i in range(12)}
    qrels = {q: {f"d{j}": int(rng.integers(3)) for j in rng.choice(9, 4, False)} for q in run}
    return run, qrels


def test_any_split_and_order_gives_the_whole() -> None:
    run, qrels = _random_run(np.random.default_rng(3))
    whole = assay.evaluate(run, qrels, "default")
    batches = [list(run)[i::3] for i in range(3)]
    for order in itertools.permutations(batches):
        stream = Stream("default")
        for batch in order:
            stream.add({q: run[q] for q in batch}, {q: qrels[q] for q in batch})
        merged = stream.scores()
        assert merged.values.tobytes() == whole.values.tobytes()
        assert merged.query_ids == whole.query_ids
        assert dict(merged.mean()) == dict(whole.mean())


def test_same_id_twice_is_refused() -> None:
    stream = Stream("RR")
    stream.add_hits(assay.judge_ranks([1]))
    stream.add_hits(assay.judge_ranks([2]))
    with pytest.raises(errors.IdError, match="query_ids"):
        stream.scores()


def test_numbering_is_only_for_queries_without_ids() -> None:
    stream = Stream("RR", number=True)
    with pytest.raises(errors.UsageError, match="without ids"):
        stream.add_hits(assay.judge_ranks([1], query_ids=["q"]))
    with pytest.raises(errors.UsageError, match="is empty"):
        stream.scores()


def test_confusion_against_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    true = rng.integers(0, 7, 500)
    predicted = np.where(rng.random(500) < 0.5, true, rng.integers(0, 9, 500))
    counts = Confusion.count(true, predicted)
    assert counts.accuracy() == accuracy_score(true, predicted)
    for avg in ("micro", "macro", "weighted"):
        options = {"average": avg, "zero_division": 0}
        assert counts.f1(avg) == pytest.approx(f1_score(true, predicted, **options), abs=1e-14)
        assert counts.precision(avg) == pytest.approx(
            precision_score(true, predicted, **options), abs=1e-14
        )
        assert counts.recall(avg) == pytest.approx(
            recall_score(true, predicted, **options), abs=1e-14
        )


def test_confusion_merges_to_the_same_bytes() -> None:
    rng = np.random.default_rng(2)
    true, predicted = rng.integers(0, 50, 300), rng.integers(0, 50, 300)
    whole = Confusion.count(true, predicted)
    parts = [Confusion.count(true[i::4], predicted[i::4]) for i in range(4)]
    for order in itertools.permutations(parts):
        merged = Confusion.merge(*order)
        for name in ("classes", "right", "predicted", "actual"):
            assert getattr(merged, name).tolist() == getattr(whole, name).tolist()
        assert merged.f1("weighted") == whole.f1("weighted")


def test_confusion_refuses_mixed_labels_and_lengths() -> None:
    with pytest.raises(errors.MismatchError, match="never equal"):
        Confusion.count(["1"], [1])
    with pytest.raises(errors.MismatchError, match="same length"):
        Confusion.count([1, 2], [1])
    with pytest.raises(errors.UsageError, match="avg"):
        Confusion.count([1], [1]).f1("mean")
    assert np.isnan(Confusion.count(np.array([], int), np.array([], int)).accuracy())
