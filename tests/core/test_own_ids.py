"""Queries that are documents themselves: an id that nearly matches is never passed over."""

from __future__ import annotations

import numpy as np
import pytest

import assay
from assay.errors import MismatchError

VECTORS = np.random.default_rng(3).normal(size=(12, 4)).astype(np.float32)
WRITTEN = {
    "zero padding": (lambda n: f"{n}", lambda n: f"{n:03d}"),
    "upper and lower case": (lambda n: f"doc{n}", lambda n: f"DOC{n}"),
    "decimal point": (lambda n: f"{n}", lambda n: f"{n}.0"),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_a_search_without_self(how):
    query, doc = WRITTEN[how]
    ids = {"query_ids": [query(n) for n in range(12)], "doc_ids": [doc(n) for n in range(12)]}
    with pytest.raises(MismatchError, match=how):
        assay.rank(VECTORS, VECTORS, k=3, exclude="self", **ids)


@pytest.mark.parametrize("how", WRITTEN)
def test_judgments_without_self(how):
    query, doc = WRITTEN[how]
    run = {query(n): {doc(m): -abs(n - m) for m in range(12)} for n in range(12)}
    qrels = {query(n): {doc((n + 1) % 12): 1} for n in range(12)}
    with pytest.raises(MismatchError, match=how):
        assay.evaluate(run, qrels, "RR", self_match="exclude")
    scores = assay.evaluate(run, qrels, "RR", self_match="exclude", allow_mismatch=True)
    assert any(how in remark for remark in scores.remarks)


def test_queries_that_are_no_documents_are_fine():
    ids = {"query_ids": [f"q{n}" for n in range(12)], "doc_ids": [f"d{n}" for n in range(12)]}
    plain = assay.rank(VECTORS, VECTORS, k=3, **ids)
    assert (
        assay.rank(VECTORS, VECTORS, k=3, exclude="self", **ids).docs.tolist()
        == plain.docs.tolist()
    )
