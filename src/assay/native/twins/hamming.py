"""The Hamming search in numpy: the twins of native/hamming."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from assay.arrays import Bytes, Ints, Ints32, Words
from assay.native.tie_order import nearest_order
from assay.native.twins.trec import require

_QUERIES = 64  # compared at a time
_WORDS = 1 << 17  # of documents at a time
_BITS = np.array([value.bit_count() for value in range(256)], np.uint8)


def find_nearest_codes(
    queries: Bytes,
    docs: Bytes,
    bits: int,
    k: int,
    keep_ties: bool,
    first_doc: int,
    excluded_offsets: Ints,
    excluded_docs: Ints,
    stop: Ints32,
    done: Ints,
) -> tuple[Ints, Ints32, Ints32, Bytes]:
    """Find the k nearest documents; see `signatures.Kernels.find_nearest_codes`."""
    _check_rows(queries, docs, bits)
    require(k >= 1, "k must be at least 1")
    require(first_doc >= 0 and first_doc + len(docs) < 1 << 31, "doc number out of range")
    _check_excluded(excluded_offsets, excluded_docs, len(queries))
    lists = [
        _Shortlist(k, keep_ties, bits, excluded_docs[begin:end] - first_doc)
        for begin, end in pairwise(excluded_offsets.tolist())
    ]
    for start, block in _doc_blocks(docs):
        for first in range(0, len(queries), _QUERIES):
            if stop[0]:
                break
            rows = _distances(_words(queries[first : first + _QUERIES]), block)
            for nearest, row in zip(lists[first : first + _QUERIES], rows, strict=True):
                nearest.offer(start, row)
            done[0] += rows.size
    return _finished(lists, first_doc)


def count_code_distances(
    queries: Bytes, docs: Bytes, bits: int, counts: Ints, stop: Ints32, done: Ints
) -> None:
    """Count documents by distance; see `signatures.Kernels.count_code_distances`."""
    _check_rows(queries, docs, bits)
    require(counts.shape == (len(queries), bits + 1), "counts must be queries × (bits + 1)")
    for _, block in _doc_blocks(docs):
        for first in range(0, len(queries), _QUERIES):
            if stop[0]:
                return
            rows = _distances(_words(queries[first : first + _QUERIES]), block)
            for place, row in enumerate(rows, first):
                counts[place] += np.bincount(row, minlength=bits + 1)
            done[0] += rows.size


class _Shortlist:
    """The nearest documents of one query so far, by distance and number.

    One document more than k is kept: at the distance of the last it shows that a cut divides ties.
    """

    def __init__(self, k: int, keep_ties: bool, bits: int, excluded: Ints) -> None:
        self.k, self.keep_ties, self.limit, self.excluded = k, keep_ties, bits, excluded
        self.docs, self.distances = np.zeros(0, np.int64), np.zeros(0, np.int32)

    def offer(self, start: int, row: npt.NDArray[np.uint16]) -> None:
        near = np.flatnonzero(row <= self.limit)
        if len(self.excluded):
            near = near[~np.isin(near + start, self.excluded)]
        docs = np.concatenate([self.docs, near + start])
        distances = np.concatenate([self.distances, row[near].astype(np.int32)])
        order = nearest_order(distances)  # numbers ascend already
        if len(order) >= self.k:
            self.limit = int(distances[order[self.k - 1]])
            within = int(np.count_nonzero(distances <= self.limit))
            order = order[: within if self.keep_ties else min(within, self.k + 1)]
        self.docs, self.distances = docs[order], distances[order]

    @property
    def tie_split(self) -> bool:
        return not self.keep_ties and len(self.docs) > self.k

    @property
    def count(self) -> int:
        return len(self.docs) if self.keep_ties else min(len(self.docs), self.k)


def _finished(lists: list[_Shortlist], first_doc: int) -> tuple[Ints, Ints32, Ints32, Bytes]:
    counts = np.array([nearest.count for nearest in lists], np.int64)
    none = [np.zeros(0, np.int64)]
    docs = np.concatenate([nearest.docs[: nearest.count] for nearest in lists] or none)
    distances = np.concatenate([nearest.distances[: nearest.count] for nearest in lists] or none)
    tie_split = np.array([nearest.tie_split for nearest in lists], np.uint8)
    return counts, (docs + first_doc).astype(np.int32), distances.astype(np.int32), tie_split


def _doc_blocks(docs: Bytes) -> Iterator[tuple[int, Words]]:
    """Yield documents in blocks, small enough to stop soon after an interrupt."""
    step = min(8192, max(256, _WORDS * 8 // docs.shape[1]))
    for start in range(0, len(docs), step):
        yield start, _words(docs[start : start + step])


def _words(rows: Bytes) -> Words:
    """Return rows as 64-bit words, filled up with zeros."""
    padded = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(np.uint64)


def _distances(queries: Words, docs: Words) -> npt.NDArray[np.uint16]:
    sums = np.zeros((len(queries), len(docs)), np.uint16)
    for left, right in zip(queries.T, docs.T, strict=True):
        sums += _bit_counts(left[:, None] ^ right)
    return sums


def _bit_counts(words: Words) -> Bytes:
    if hasattr(np, "bitwise_count"):  # numpy 2
        counts: Bytes = np.bitwise_count(words)
        return counts
    by_byte = _BITS[words.view(np.uint8)].reshape(*words.shape, 8)
    sums: Bytes = by_byte.sum(axis=-1, dtype=np.uint8)
    return sums


def _check_rows(queries: Bytes, docs: Bytes, bits: int) -> None:
    require(1 <= bits <= 65535, "bits must lie from 1 to 65535")
    width = -(-bits // 8)
    fits = queries.shape[1] == width and docs.shape[1] == width
    require(fits, "rows must hold ⌈bits / 8⌉ bytes")
    require(len(docs) < 1 << 31, "too many docs")


def _check_excluded(offsets: Ints, docs: Ints, n_queries: int) -> None:
    starts = len(offsets) == n_queries + 1 and offsets[0] == 0
    require(starts, "excluded offsets must start with 0, one row for each query")
    require(bool((np.diff(offsets) >= 0).all()), "excluded offsets must not fall")
    require(offsets[-1] == len(docs), "excluded offsets must end at the number of docs")
