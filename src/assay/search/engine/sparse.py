"""Search among sparse vectors, as SPLADE and BM25 make them, by inverted lists.

A score is the sum of the products of the terms that query and document share: in float64, one after
the other in the order of the columns (of the names, where terms have names). So it has the same
bytes for any number of threads and both engines. Under "cosine" the weights of each row are first
divided by its norm, which is summed in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, IdsLike, Ints, Ints32, offsets_of
from assay.core import checks
from assay.core.checks import thread_count
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.native import Engine
from assay.search.engine.inputs import check_ids, choose_kernels, exclusions_of, refuse_short
from assay.search.engine.plan import search_settings
from assay.search.engine.sparse_lists import divide_by_norms, make_lists
from assay.search.engine.sparse_vectors import SparseVectors, read_sparse
from assay.search.engine.workers import Control, Progress, run

_QUERIES_AT_ONCE: Final = 256


def _match_columns(queries: SparseVectors, docs: SparseVectors, part: bool) -> SparseVectors:
    """Give terms the columns they have in the documents; leave out those without one."""
    if (queries.names is None) != (docs.names is None):
        raise MismatchError("One side names terms, the other numbers columns. Use one form.")
    if queries.names is None or docs.names is None:
        if queries.width != docs.width:
            raise MismatchError(
                f"queries have {queries.width} columns, docs {docs.width}. Use one vocabulary."
            )
        return queries
    place = {name: number for number, name in enumerate(docs.names)}
    columns = np.array([place.get(name, -1) for name in queries.names])[queries.columns]
    shared = columns >= 0
    if not shared.any() and not part:
        raise MismatchError(
            f"Queries ({checks.name_few(queries.names)}) and documents "
            f"({checks.name_few(docs.names)}) share no term. Use one vocabulary."
        )
    offsets = np.concatenate([[0], np.cumsum(shared)])[queries.offsets]
    return SparseVectors(offsets, columns[shared], queries.weights[shared], docs.width, docs.names)


class SparseSearch:
    """Hold checked queries and documents, ready to be searched."""

    def __init__(
        self,
        queries: Any,
        docs: Any,
        *,
        metric: str,
        exclude: Any = None,
        query_ids: IdsLike | None = None,
        doc_ids: IdsLike | None = None,
        threads: int | None = None,
        engine: Engine | None = None,
        part: bool = False,
    ) -> None:
        """Check everything; a part of the documents may share no term with the queries."""
        if checks.check_choice(metric, ("cosine", "dot", "l2"), "metric") == "l2":
            raise UsageError("Sparse vectors are compared by metric='dot' or 'cosine'.")
        self.queries, self.docs = read_sparse(queries, "queries"), read_sparse(docs, "docs")
        if metric == "cosine":
            weights = divide_by_norms(self.queries, "queries")
            self.queries = replace(self.queries, weights=weights, indexes={})
        self.queries = _match_columns(self.queries, self.docs, part)
        self._weights = self.queries.weights.astype(np.float64)
        if metric == "dot":
            _refuse_beyond_range(self.queries, self.docs)
        self.n_queries, self.n_docs = len(self.queries), len(self.docs)
        self.query_ids = check_ids(query_ids, self.n_queries, "query")
        self.doc_ids = check_ids(doc_ids, self.n_docs, "doc")
        self.excluded = exclusions_of(
            exclude, self.n_queries, self.n_docs, self.query_ids, self.doc_ids
        )
        self.index, self.threads = make_lists(self.docs, metric, engine), threads
        self.engine = f"{choose_kernels(engine)[0]}-certified"

    def rows(self, start: int, stop: int) -> tuple[Ints, Ints32, Floats]:
        """Return some queries as kernels take them."""
        offsets = self.queries.offsets[start : stop + 1]
        inside = slice(offsets[0], offsets[-1])
        return offsets - offsets[0], self.queries.columns[inside], self._weights[inside]

    def run(self, search: Callable[..., Any], progress: Progress | None) -> list[Any]:
        """Call `search(start, stop, control)` for all blocks of queries."""
        step = min(_QUERIES_AT_ONCE, -(-self.n_queries // thread_count(self.threads)))
        starts = range(0, self.n_queries, step)
        results: list[Any] = [None] * len(starts)

        def work(number: int, control: Control) -> None:
            stop = min(starts[number] + step, self.n_queries)
            results[number] = search(starts[number], stop, control)

        tasks = [partial(work, number) for number in range(len(starts))]
        total = self.n_queries * self.n_docs
        run(tasks, threads=self.threads, progress=progress, total=total)
        return results


def rank_sparse(
    queries: Any,
    docs: Any,
    k: int,
    *,
    metric: str,
    exclude: Any,
    keep_ties: bool,
    floors: Floats | None,
    progress: Progress | None = None,
    **options: Any,
) -> Ranking:
    """Rank the k best documents of each query, as `rank` does, by sparse vectors."""
    ready = SparseSearch(queries, docs, metric=metric, exclude=exclude, **options)
    n_docs, k = ready.n_docs, min(k, ready.n_docs)
    least = np.full(ready.n_queries, -np.inf) if floors is None else floors
    checks.check_lengths(floors=least.size, queries=ready.n_queries)
    least = np.where(np.isfinite(least), least, -np.inf)

    def search(start: int, stop: int, control: Control) -> Any:
        barred = ready.excluded.part(start, stop)
        how = (k, keep_ties, least[start:stop], *barred)
        return ready.index.search(*ready.rows(start, stop), *how, *control)

    lists = ready.run(search, progress)
    counts, best, scores, tie_split = map(np.concatenate, zip(*lists, strict=True))
    if floors is None:
        refuse_short(counts, np.minimum(k, n_docs - np.diff(ready.excluded.offsets)))
    return Ranking(
        ready.query_ids or Ids.count(ready.n_queries),
        ready.doc_ids or Ids.count(n_docs),
        offsets_of(counts),
        best,
        scores,
        n_docs=n_docs,
        has_ids=ready.query_ids is not None and ready.doc_ids is not None,
        tie_split=tie_split.astype(bool) if tie_split.any() else None,
        search=ready.engine,
        settings=search_settings(
            metric=f"sparse-{metric}",
            zero="error",
            exclude=exclude,
            k=k,
            keep_ties=keep_ties,
            n_docs=n_docs,
            floors=None if floors is None else "given",
        ),
    )


def count_sparse_targets(
    ready: SparseSearch, targets: Ints, progress: Progress | None = None
) -> tuple[Ints, Ints, Ints]:
    """Count documents above each target, tied with it, and tied with a lower number."""
    scores = ready.index.score(*ready.rows(0, ready.n_queries), targets)
    counts = np.zeros((3, ready.n_queries), np.int64)

    def count(start: int, stop: int, control: Control) -> None:
        here, part = slice(start, stop), (start, stop)
        about = (targets[here], scores[here], *counts[:, here], *ready.excluded.part(*part))
        ready.index.count_targets(*ready.rows(*part), *about, *control)

    ready.run(count, progress)
    above, tied, before = counts
    return above, tied, before


def _refuse_beyond_range(queries: SparseVectors, docs: SparseVectors) -> None:
    n_terms = int(np.diff(queries.offsets).max())
    if not math.isfinite(queries.largest * docs.largest * n_terms):
        raise ValueRangeError("Some scores may exceed float64 (1.8e308). Scale the weights down.")
