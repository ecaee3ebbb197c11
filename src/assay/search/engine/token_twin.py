"""MaxSim in numpy: the twins of native/search/token_search.

Scores are found by products of float32, which are off by a share of the norms, and decided by the
same exact products.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from assay.arrays import Floats, Floats32, Ints, Ints32, offsets_of
from assay.native.twins.exact import canonical_norms, canonical_scores

_CELLS: Final = 1 << 21  # products at a time
_ROUNDOFF: Final = 2.0**-24


def find_tokens(
    queries: Floats32,
    query_offsets: Ints,
    docs: Floats32,
    offsets: Ints,
    part: tuple[int, int],
    scores: Floats32,
    by_norm: Floats,
    stop: Ints32,
    done: Ints,
) -> None:
    """Score documents by float32; the score of one with norms up to n is off by by_norm · n."""
    lengths = np.diff(query_offsets)
    norms = np.sqrt(np.einsum("tc,tc->t", queries, queries, dtype=np.float64))
    share = (queries.shape[1] + lengths + 64) * 2 * _ROUNDOFF
    by_norm[:] = share * _sum_rows(norms[:, None], query_offsets)[:, 0]
    first, last = part
    while first < last and not stop[0]:
        room = offsets[first] + _CELLS // len(queries)
        end = int(np.searchsorted(offsets, room, "right")) - 1
        end = min(last, max(end, first + 1))
        tokens = offsets[first : end + 1] - offsets[first]
        some = np.flatnonzero(np.diff(tokens))
        if len(some):
            with np.errstate(all="ignore"):
                products = queries @ docs[offsets[first] : offsets[end]].T
                largest = np.maximum.reduceat(products, tokens[some], axis=1)
                scores[:, first - part[0] + some] = _sum_rows(largest, query_offsets)
        done[0] += (end - first) * len(lengths)
        first = end


def _sum_rows(values: Floats, offsets: Ints) -> Floats:
    """Sum the rows of each query, one after the other; 0 where it has none."""
    sums = np.zeros((len(offsets) - 1, values.shape[1]))
    lengths = np.diff(offsets)
    for place in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > place)
        sums[longer] += values[offsets[longer] + place]
    return sums


def score_tokens(
    queries: Floats32,
    query_offsets: Ints,
    docs: Floats32,
    doc_offsets: Ints,
    pairs: Ints,
    candidates: Ints,
    scores: Floats,
    stop: Ints32,
) -> None:
    """Score candidates exactly: products rounded once, summed in the order of query tokens."""
    for query in range(len(pairs) - 1):
        rows = queries[query_offsets[query] : query_offsets[query + 1]]
        first, end = int(pairs[query]), int(pairs[query + 1])
        while first < end and not stop[0]:
            lengths = np.diff(doc_offsets)[candidates[first:end]]
            room = np.searchsorted(np.cumsum(lengths), _CELLS // len(rows), "right")
            count = max(1, int(room))
            some = slice(first, first + count)
            scores[some] = _score_some(rows, docs, doc_offsets[candidates[some]], lengths[:count])
            first += count


def _score_some(rows: Floats32, docs: Floats32, starts: Ints, lengths: Ints) -> Floats:
    """Score one query with documents whose tokens start at `starts`."""
    segments = offsets_of(lengths)
    tokens = np.arange(segments[-1]) + np.repeat(starts - segments[:-1], lengths)
    at_doc = np.repeat(np.arange(len(lengths)), lengths)
    gathered = docs[tokens]
    left, right = rows.astype(np.float64), gathered.astype(np.float64)
    products = left @ right.T
    largest = np.maximum.reduceat(products, segments[:-1], axis=1)
    sizes = np.sqrt(np.square(left).sum(axis=1)), np.sqrt(np.square(right).sum(axis=1))
    share = 4 * (rows.shape[1] + 8) * 2.0**-53  # of two products that are each off by half of it
    off = share * sizes[0][:, None] * np.maximum.reduceat(sizes[1], segments[:-1])
    at_row, at_token = np.nonzero(products >= (largest - off)[:, at_doc])
    unscaled = [np.zeros(len(side), np.int32) for side in (rows, gathered)]
    values = canonical_scores(
        "dot",
        rows,
        unscaled[0],
        canonical_norms(rows, unscaled[0]),
        gathered,
        unscaled[1],
        canonical_norms(gathered, unscaled[1]),
        at_row.astype(np.int64),
        at_token.astype(np.int64),
    )
    cell = at_row * len(lengths) + at_doc[at_token]  # ascending, and none is missing
    exact = np.maximum.reduceat(values, np.flatnonzero(np.diff(cell, prepend=-1)))
    sums: Floats = _sum_rows(exact.reshape(len(rows), -1), np.array([0, len(rows)]))[0]
    return sums
