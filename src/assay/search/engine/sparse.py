"""Search among sparse vectors, as SPLADE and BM25 make them, by inverted lists.

A score is the sum of the products of the terms that query and document share: in float64, one after
the other in the order of the columns (of the names, where terms have names). So it has the same
bytes for any number of threads and both engines. Under "cosine" the weights of each row are first
divided by its norm, which is summed in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from assay.arrays import Array, Floats, offsets_of
from assay.core import checks
from assay.core.checks import thread_count
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.native import Engine
from assay.search.engine.inputs import check_ids, choose_kernels, exclusions_of, refuse_short
from assay.search.engine.plan import search_settings
from assay.search.engine.sparse_twin import SparseIndex as NumpyIndex
from assay.search.engine.sparse_vectors import SparseVectors, read_sparse
from assay.search.engine.workers import Control, Progress, run

if TYPE_CHECKING:
    from assay.native.signatures import SparseHandle

_QUERIES_AT_ONCE: Final = 256


def _divide_by_norms(rows: SparseVectors, what: str) -> Floats:
    """Divide each row by its norm, of which the squares are summed one after the other."""
    number = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
    wide = rows.weights.astype(np.float64)
    largest = np.zeros(len(rows))
    np.maximum.at(largest, number, np.abs(wide))
    if not largest.all():
        raise ValueRangeError(
            f"{what} row {int(np.argmin(largest != 0))} is empty or all zeros, which has no "
            f"cosine; {int((largest == 0).sum())} such rows. Remove them, or use metric='dot'."
        )
    scale = np.ldexp(1.0, -np.frexp(largest)[1])[number]  # or squares might leave the range
    scaled = wide * scale
    return scaled / np.sqrt(np.bincount(number, scaled * scaled))[number]


def _index_of(rows: SparseVectors, metric: str, engine: Engine | None) -> SparseHandle:
    """Return inverted lists of the rows, which are made once."""
    name, kernels = choose_kernels(engine)
    if (name, metric) not in rows.indexes:
        weights = rows.weights if metric == "dot" else _divide_by_norms(rows, "docs")
        make: Any = NumpyIndex
        if name == "native":
            make = kernels.SparseIndex32 if weights.itemsize == 4 else kernels.SparseIndex64
        rows.indexes[name, metric] = make(rows.offsets, rows.columns, weights, rows.width)
    return cast("SparseHandle", rows.indexes[name, metric])


def _match_columns(queries: SparseVectors, docs: SparseVectors) -> SparseVectors:
    """Give terms the columns they have in the documents; leave out those without one."""
    if (queries.names is None) != (docs.names is None):
        raise MismatchError(
            "One side names its terms, the other numbers its columns. Give both in one way."
        )
    if queries.names is None or docs.names is None:
        if queries.width != docs.width:
            raise MismatchError(f"queries have {queries.width} columns and docs have {docs.width}.")
        return queries
    place = {name: number for number, name in enumerate(docs.names)}
    columns = np.array([place.get(name, -1) for name in queries.names])[queries.columns]
    shared = columns >= 0
    if not shared.any():
        raise MismatchError(
            f"Queries and documents share no term: queries have {checks.name_few(queries.names)}, "
            f"documents {checks.name_few(docs.names)}."
        )
    offsets = np.concatenate([[0], np.cumsum(shared)])[queries.offsets]
    return SparseVectors(offsets, columns[shared], queries.weights[shared], docs.width, docs.names)


def rank_sparse(
    queries: Any,
    docs: Any,
    k: int,
    *,
    metric: str,
    exclude: Any,
    query_ids: Iterable[object] | None,
    doc_ids: Iterable[object] | None,
    keep_ties: bool,
    threads: int | None,
    engine: Engine | None,
    progress: Progress | None,
) -> Ranking:
    """Rank the k best documents of each query, as `rank` does, by sparse vectors."""
    if checks.check_choice(metric, ("cosine", "dot", "l2"), "metric") == "l2":
        raise UsageError("Sparse vectors are compared by metric='dot' or 'cosine'.")
    left, right = read_sparse(queries, "queries"), read_sparse(docs, "docs")
    if metric == "cosine":
        left = replace(left, weights=_divide_by_norms(left, "queries"), indexes={})
    left = _match_columns(left, right)
    weights = left.weights.astype(np.float64)
    if metric == "dot":
        _refuse_beyond_range(weights, right.weights, int(np.diff(left.offsets).max()))
    n_queries, n_docs = len(left), len(right)
    names = check_ids(query_ids, n_queries, "query"), check_ids(doc_ids, n_docs, "doc")
    unwanted = exclusions_of(exclude, n_queries, n_docs, *names)
    index, k = _index_of(right, metric, engine), min(k, n_docs)
    blocks = range(0, n_queries, min(_QUERIES_AT_ONCE, -(-n_queries // thread_count(threads))))
    lists: list[Any] = [None] * len(blocks)

    def search(number: int, control: Control) -> None:
        start = blocks[number]
        stop = min(start + blocks.step, n_queries)
        offsets = left.offsets[start : stop + 1]
        row = slice(offsets[0], offsets[-1])
        lists[number] = index.search(
            offsets - offsets[0],
            left.columns[row],
            weights[row],
            k,
            keep_ties,
            *unwanted.part(start, stop),
            *control,
        )

    tasks = [partial(search, number) for number in range(len(blocks))]
    run(tasks, threads=threads, progress=progress, total=n_queries * n_docs)
    counts, best, scores, tie_split = map(np.concatenate, zip(*lists, strict=True))
    refuse_short(counts, np.minimum(k, n_docs - np.diff(unwanted.offsets)))
    return Ranking(
        names[0] or Ids.count(n_queries),
        names[1] or Ids.count(n_docs),
        offsets_of(counts),
        best,
        scores,
        n_docs=n_docs,
        has_ids=None not in names,
        tie_split=tie_split.astype(bool) if tie_split.any() else None,
        search=f"{choose_kernels(engine)[0]}-certified",
        settings=search_settings(
            metric=f"sparse-{metric}",
            zero="error",
            exclude=exclude,
            k=k,
            keep_ties=keep_ties,
            n_docs=n_docs,
        ),
    )


def _refuse_beyond_range(queries: Floats, docs: Array, n_terms: int) -> None:
    query, doc = (float(np.abs(side).max(initial=0.0)) for side in (queries, docs))
    if not math.isfinite(query * doc * n_terms):
        raise ValueRangeError(
            "Some scores may be beyond the range of float64 (1.8e308). Scale the weights down."
        )
