"""Inverted lists of sparse rows, made once; and the search in numpy, twin of sparse_search."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.arrays import Array, Bytes, Floats, Ints, Ints32, offsets_of
from assay.errors import ValueRangeError
from assay.native import Engine
from assay.native.tie_order import rank_order
from assay.search.engine.inputs import choose_kernels
from assay.search.engine.sparse_vectors import SparseVectors


class SparseIndex:
    """Hold inverted lists of documents."""

    def __init__(self, offsets: Ints, terms: Ints32, weights: Array, n_terms: int) -> None:
        """Sort the elements by term, then by document."""
        order = np.argsort(terms, kind="stable")
        docs = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        self.n_docs = len(offsets) - 1
        self.offsets = offsets_of(np.bincount(terms, minlength=n_terms))
        self.docs, self.weights = docs[order], weights[order].astype(np.float64)

    def search(
        self,
        offsets: Ints,
        terms: Ints32,
        weights: Floats,
        k: int,
        keep_ties: bool,
        floors: Floats,
        excluded_offsets: Ints,
        excluded_docs: Ints,
        stop: Ints32,
        done: Ints,
    ) -> tuple[Ints, Ints32, Floats, Bytes]:
        """Return for each query its documents, their scores, and whether the cut divides a tie."""
        lists, tie_split = [], np.zeros(len(offsets) - 1, np.uint8)
        for query in range(len(offsets) - 1):
            if stop[0]:
                break
            row = slice(offsets[query], offsets[query + 1])
            scores = self._scores(terms[row], weights[row])
            barred = excluded_docs[excluded_offsets[query] : excluded_offsets[query + 1]]
            docs = np.setdiff1d(np.flatnonzero(scores >= floors[query]), barred)
            docs = docs[rank_order(scores[docs])]
            end = min(k, len(docs))
            if end:
                ties = int(np.count_nonzero(scores[docs[end:]] == scores[docs[end - 1]]))
                tie_split[query] = ties > 0 and not keep_ties
                end += ties if keep_ties else 0
            lists.append((docs[:end].astype(np.int32), scores[docs[:end]]))
            done[0] += self.n_docs
        counts = np.array([len(docs) for docs, _ in lists], np.int64)
        numbers: Ints32 = np.concatenate([docs for docs, _ in lists])
        return counts, numbers, np.concatenate([s for _, s in lists]), tie_split[: len(lists)]

    def count_targets(
        self,
        offsets: Ints,
        terms: Ints32,
        weights: Floats,
        targets: Ints,
        scores: Floats,
        above: Ints,
        tied: Ints,
        before: Ints,
        excluded_offsets: Ints,
        excluded_docs: Ints,
        stop: Ints32,
        done: Ints,
    ) -> None:
        """Add to the counts the documents above each target, tied, and tied with a lower number."""
        for query, target in enumerate(targets):
            if stop[0]:
                return
            done[0] += self.n_docs
            if target < 0:
                continue
            row = slice(offsets[query], offsets[query + 1])
            others = np.ones(self.n_docs, bool)
            others[excluded_docs[excluded_offsets[query] : excluded_offsets[query + 1]]] = False
            others[target : target + 1] = False
            values = self._scores(terms[row], weights[row])
            ties = others & (values == scores[query])
            above[query] += np.count_nonzero(others & (values > scores[query]))
            tied[query] += np.count_nonzero(ties)
            before[query] += np.count_nonzero(ties[:target])

    def score(self, offsets: Ints, terms: Ints32, weights: Floats, docs: Ints) -> Floats:
        """Return the score of one document for each query; 0 where its number is −1."""
        scores = np.zeros(len(docs))
        for query, doc in enumerate(docs):
            row = slice(offsets[query], offsets[query + 1])
            if doc >= 0:
                scores[query] = self._scores(terms[row], weights[row])[doc]
        return scores

    def _scores(self, terms: Ints32, weights: Floats) -> Floats:
        """Add the products up in the order of the terms: bincount adds one after the other."""
        lengths = self.offsets[terms + 1] - self.offsets[terms]
        places = np.arange(lengths.sum()) + np.repeat(
            self.offsets[terms] - offsets_of(lengths)[:-1], lengths
        )
        products = np.repeat(weights, lengths) * self.weights[places]
        # of no products bincount makes whole numbers
        return np.bincount(self.docs[places], products, self.n_docs).astype(np.float64)


def divide_by_norms(rows: SparseVectors, what: str) -> Floats:
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


def make_lists(rows: SparseVectors, metric: str, engine: Engine | None) -> Any:
    """Return inverted lists of the rows, a `SparseHandle`, which are made once."""
    name, kernels = choose_kernels(engine)
    if (name, metric) not in rows.indexes:
        weights = rows.weights if metric == "dot" else divide_by_norms(rows, "docs")
        make: Any = SparseIndex
        if name == "native":
            make = kernels.SparseIndex32 if weights.itemsize == 4 else kernels.SparseIndex64
        rows.indexes[name, metric] = make(rows.offsets, rows.columns, weights, rows.width)
    return rows.indexes[name, metric]
