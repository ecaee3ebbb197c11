"""What a mean hides, in sentences."""

from __future__ import annotations

import numpy as np
import pytest

import assay
from assay.crossmodal import label_retrieval
from assay.prediction import evaluate_predictions
from assay.scoring.output import disclosures


@pytest.mark.parametrize(
    ("n_tied", "words"),
    [
        (1, "1 of 1,000 queries has a value that depends on ties (ties: order)"),
        (4, "4 of 1,000 queries have a value that depends on ties (ties: order)"),
        (10, "1 % of queries have a value that depends on ties (ties: order)"),
        (999, "999 of 1,000 queries have a value that depends on ties (ties: order)"),
        (1000, "100 % of queries have a value that depends on ties (ties: order)"),
    ],
)
def test_few_ties_are_counted_not_rounded_to_none(n_tied, words):
    run = {f"q{n}": {"a": 1.0, "b": 1.0 if n < n_tied else 0.0} for n in range(1000)}
    scores = assay.evaluate(run, {name: {"a": 1} for name in run}, "RR")
    assert words in list(disclosures(scores))
    assert "0 % depend" not in repr(scores).replace("100 % depend", "")


def test_tasks_count_few_ties_in_their_own_words():
    logits = np.tile(np.arange(3.0), (500, 1))
    logits[7] = 0
    few = "1 of 500 {} has a value that depends on ties (ties: {})"
    found = evaluate_predictions(logits, np.full(500, 2))
    assert few.format("samples", found.scores.conventions.ties) in list(found.remarks)
    sides = {"a": np.ones((500, 2)), "b": np.arange(1000.0).reshape(500, 2)}
    sides["a"][7] = 0
    labels = np.array(["x", "y"]).repeat(250)
    way = label_retrieval(sides, labels, directions=["a2b"], metric="dot")["label"]["a2b"]
    assert few.format("queries", way.scores.conventions.ties) in list(way.remarks())
