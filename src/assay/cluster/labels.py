"""count_label_shards: how many of the best k have the query's label, counted where lists merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.arrays import Ints
from assay.cluster.merging import Lists
from assay.cluster.searching import VectorWork, prepared_search
from assay.cluster.settings import Cluster
from assay.core import checks
from assay.search.engine.labels import LabelCounts, cutoffs, found_labels, n_relevant, numbered

__all__ = ["count_label_shards"]


@dataclass(frozen=True)
class LabelWork(VectorWork):
    """A search of which only counts come back."""

    cuts: tuple[int, ...]

    def finish(self, part: Lists, *extra: Any) -> Ints:
        """Count the labels of a block; labels of documents are there once for all blocks."""
        wanted, doc_labels = extra
        return found_labels(part.offsets, doc_labels[part.docs], wanted, self.cuts)


def count_label_shards(
    queries: Any,
    shards: Any,
    k: int | Sequence[int],
    *,
    query_labels: Any,
    doc_labels: Any,
    cluster: Cluster | None = None,
    **options: Any,
) -> LabelCounts:
    """Count documents that share the query's label among the best k, for one or several k.

    `doc_labels` has one label for each document, in the order of the shards. The other arguments
    are those of `rank_shards`.
    """
    cluster = cluster or Cluster()
    cuts = cutoffs(k)
    left, right = numbered(query_labels, doc_labels)
    chosen = {"metric": "cosine", "zero": "error", "exclude": None, "query_ids": None}
    found = prepared_search(
        queries, shards, max(cuts), **{**chosen, **options}, keep_ties=False, cluster=cluster
    )
    request, work = found.request, found.work
    checks.check_lengths(query_labels=len(left), queries=request.n_queries)
    checks.check_lengths(doc_labels=len(right), docs=request.corpus.n_docs)
    counting = LabelWork(**vars(work), cuts=cuts)
    small = right.astype(np.min_scalar_type(int(right.max(initial=0))))
    everywhere = cluster.executor.put(small)
    blocks = found.blocks(
        counting, finish_extra=lambda block: (left[slice(*request.blocks[block])], everywhere)
    )
    counts = np.concatenate(blocks)
    return LabelCounts(cuts, counts, n_relevant(left, right, request.excluded))
