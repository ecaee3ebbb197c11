"""Count how many of the best k documents have the query's label, for several k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.arrays import Ints, rows_of
from assay.core import checks
from assay.errors import UsageError
from assay.search.engine.inputs import Excluded, check_ids, exclusions_of
from assay.search.engine.search import rank


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Hold queries × cutoffs: `found[q, i]` of the first `k[i]` documents share q's label.

    `n_rel` is how many documents with that label the query could find.
    """

    k: tuple[int, ...]
    found: Ints
    n_rel: Ints


def count_labels(
    queries: Any,
    docs: Any,
    k: int | Sequence[int],
    *,
    query_labels: Any,
    doc_labels: Any,
    exclude: Any = None,
    query_ids: Any = None,
    doc_ids: Any = None,
    **options: Any,
) -> LabelCounts:
    """Count documents that share the query's label among the best k.

    Never more than the best max(k) of each query are held.

    Args:
        queries: Vectors of the queries.
        docs: Vectors of the documents.
        k: One cutoff or several.
        query_labels: A label for each query.
        doc_labels: A label for each document.
        exclude: Documents that a query must not find, as `rank` takes them.
        query_ids: Ids of the queries.
        doc_ids: Ids of the documents.
        **options: Further arguments of `rank`, by whose tie rule the first k are taken.

    Returns:
        Counts for each query and cutoff.

    Raises:
        AssayError: Labels, vectors or options do not fit.

    Example:
        >>> vectors = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]
        >>> labels = ["a", "a", "b"]
        >>> count_labels(vectors, vectors, [1, 2], query_labels=labels, doc_labels=labels,
        ...              exclude="self").found.tolist()
        [[1, 1], [1, 1], [0, 0]]
    """
    cuts = check_cutoffs(k)
    left, right = number_labels(query_labels, doc_labels)
    options |= {"exclude": exclude, "query_ids": query_ids, "doc_ids": doc_ids}
    ranking = rank(queries, docs, max(cuts), **options)
    checks.check_lengths(query_labels=len(left), queries=ranking.n_queries)
    checks.check_lengths(doc_labels=len(right), docs=ranking.n_docs)
    counts = count_found_labels(ranking.offsets, right[ranking.docs], left, cuts)
    names = check_ids(query_ids, len(left), "query"), check_ids(doc_ids, len(right), "doc")
    barred = exclusions_of(exclude, len(left), len(right), *names)
    return LabelCounts(cuts, counts, count_relevant(left, right, barred))


def count_found_labels(offsets: Ints, labels: Ints, targets: Ints, cuts: Sequence[int]) -> Ints:
    """Count the first documents of each row that have the row's label, for each cutoff."""
    rows = rows_of(offsets)
    same = labels == targets[rows]
    place = np.arange(len(rows)) - offsets[rows]
    counts = [np.bincount(rows[same & (place < cut)], minlength=len(targets)) for cut in cuts]
    return np.stack(counts, axis=1)


def check_cutoffs(k: int | Sequence[int]) -> tuple[int, ...]:
    """Check one or several cutoffs."""
    many = k if isinstance(k, Sequence | np.ndarray) else [k]
    cuts = tuple(checks.check_cutoff(cut) for cut in many)
    if not cuts:
        raise UsageError("k is empty. Pass at least one cutoff.")
    return cuts


def number_labels(query_labels: Any, doc_labels: Any) -> tuple[Ints, Ints]:
    """Turn labels into numbers; equal labels have equal numbers on both sides."""
    left = checks.check_labels(query_labels, "query_labels")
    right = checks.check_labels(doc_labels, "doc_labels")
    checks.check_one_kind_of_label(left, right)
    _, numbers = np.unique(np.concatenate([left, right]), return_inverse=True)
    return numbers[: len(left)], numbers[len(left) :]


def count_relevant(left: Ints, right: Ints, barred: Excluded) -> Ints:
    """Count the documents with each query's label, without those that it must not find."""
    sizes = np.bincount(right, minlength=int(left.max(initial=0)) + 1)
    rows = rows_of(barred.offsets)
    lost = np.bincount(rows[right[barred.docs] == left[rows]], minlength=len(left))
    n_rel: Ints = sizes[left] - lost
    return n_rel
