"""The functions of the guide to benchmarking two embedding models."""

from __future__ import annotations

import numpy as np
import pytest

from assay.bench.compat import evaluate_model, get_top_k_indices, recall_at_k
from assay.errors import InputError
from tests.bench.samples import letters, small


def test_ties_go_to_the_lower_row_and_zero_vectors_are_refused() -> None:
    docs = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    assert get_top_k_indices(np.array([1.0, 0.0]), docs, k=3) == [0, 2, 3]
    assert get_top_k_indices([2.0, 0.0], docs, k=99) == [0, 2, 3, 1]
    assert recall_at_k([0, 2], {2, 5}, 2) == 0.5
    assert recall_at_k([0, 2], set(), 2) == 0.0
    with pytest.raises(InputError, match="zero"):
        get_top_k_indices([1.0, 0.0], [[0.0, 0.0], [1.0, 1.0]])


def test_evaluate_model_is_the_mean_of_recalls() -> None:
    collection = small()
    targets = [int(doc) for doc in collection.qrels.docs]
    eval_set = [(i, {target}) for i, target in enumerate(targets)] + [(0, set())]

    class Encoding:
        def encode(self, texts: list[str]) -> np.ndarray:
            return letters(texts)

    docs, asked = list(collection.doc_texts), list(collection.query_texts)
    vectors, queries = letters(docs), letters(asked)
    wanted = np.mean(
        [
            recall_at_k(get_top_k_indices(queries[q], vectors, k=3), relevant, 3)
            for q, relevant in eval_set
        ]
    )
    found = evaluate_model(Encoding(), asked, docs, eval_set, k=3)
    assert found == pytest.approx(wanted, abs=1e-12)
    assert found < evaluate_model(letters, asked, docs, eval_set, k=3, empty="skip")
