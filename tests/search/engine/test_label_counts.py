"""count_labels against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import MismatchError, UsageError
from assay.search.engine import count_labels, rank


def test_counts_equal_counting_by_hand(engine):
    rng = np.random.default_rng(3)
    docs = rng.integers(-1, 2, (60, 4)).astype(np.float32) + 0.25
    labels = rng.integers(0, 5, 60)
    counts = count_labels(
        docs,
        docs,
        [1, 3, 70],
        query_labels=labels,
        doc_labels=labels,
        exclude="self",
        metric="l2",
        engine=engine,
    )
    for query in range(60):
        distances = ((docs.astype(float) - docs[query].astype(float)) ** 2).sum(axis=1)
        order = [doc for doc in np.argsort(distances, kind="stable") if doc != query]
        for column, k in enumerate([1, 3, 70]):
            same = [doc for doc in order[:k] if labels[doc] == labels[query]]
            assert counts.found[query, column] == len(same)
        assert counts.n_rel[query] == (labels == labels[query]).sum() - 1
    assert counts.k == (1, 3, 70)


def test_text_labels_on_one_side_only_are_never_found():
    vectors = np.eye(3, dtype=np.float32)
    counts = count_labels(
        vectors, vectors, 2, query_labels=["a", "b", "z"], doc_labels=["a", "a", "b"]
    )
    assert counts.n_rel.tolist() == [2, 1, 0]
    assert counts.found[:, 0].tolist() == [2, 0, 0]


@pytest.mark.parametrize(
    ("query_labels", "doc_labels", "error"),
    [
        (["1", "2"], [1, 2], MismatchError),
        ([1], [1, 2], MismatchError),
        ([1, 2], [1, 2, 3], MismatchError),
    ],
)
def test_labels_that_do_not_belong_together_are_refused(query_labels, doc_labels, error):
    vectors = np.eye(2, dtype=np.float32)
    with pytest.raises(error):
        count_labels(vectors, vectors, 1, query_labels=query_labels, doc_labels=doc_labels)


def test_no_cutoff_is_refused():
    vectors = np.eye(2, dtype=np.float32)
    with pytest.raises(UsageError, match="at least one cutoff"):
        count_labels(vectors, vectors, [], query_labels=[0, 1], doc_labels=[0, 1])


def test_a_cut_through_a_tie_is_remembered(engine):
    docs = np.array([[1, 0], [0, 1], [1, 0], [1, 0]], np.float32)
    found = rank([[1.0, 0.0], [0.0, 1.0]], docs, 2, engine=engine)
    assert found.tie_split is not None
    assert found.tie_split.tolist() == [True, True]
    assert rank([[1.0, 0.0]], docs, 3, engine=engine).tie_split is None
    assert rank([[1.0, 0.0]], docs, 2, keep_ties=True, engine=engine).lengths.tolist() == [3]
