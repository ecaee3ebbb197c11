"""Label retrieval worked out query by query, with none of Assay's code."""

from __future__ import annotations

import numpy as np


def ranked(scores, banned):
    """Item numbers by score descending, then number, without the banned one."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    return [i for i in order if i != banned]


def label_precision(queries, docs, query_labels, doc_labels, k, *, without_own, metric="dot"):
    """Mean share of the first k that carry the query's label, over queries that have any."""
    values = []
    items = [doc.tolist() for doc in np.asarray(docs)]
    for row, (vector, label) in enumerate(zip(queries, query_labels, strict=True)):
        scores = [_similarity(vector.tolist(), item, metric) for item in items]
        found = ranked(scores, row if without_own else None)
        if any(doc_labels[i] == label for i in found):
            values.append(sum(doc_labels[i] == label for i in found[:k]) / k)
    return float(np.mean(values)) if values else float("nan")


def _similarity(a, b, metric):
    if metric == "l2":
        return -sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
    return sum(x * y for x, y in zip(a, b, strict=True))
