"""Which documents a query must not find: itself, or those of a list of pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import IdError, InputError, MismatchError, ShapeError, UsageError


class Excluded(NamedTuple):
    """Document numbers, ascending, of query q at `docs[offsets[q]:offsets[q+1]]`."""

    offsets: Ints
    docs: Ints

    def part(self, start: int, stop: int) -> Excluded:
        """The exclusions of some queries."""
        offsets = self.offsets[start : stop + 1]
        return Excluded(offsets - offsets[0], self.docs[offsets[0] : offsets[-1]])

    def within(self, first: int, count: int) -> tuple[Ints, NDArray[np.uint32]]:
        """Those among the documents first … first + count − 1, numbered from 0."""
        inside = (self.docs >= first) & (self.docs < first + count)
        counts = np.concatenate([[0], np.cumsum(inside)])[self.offsets]
        return counts.astype(np.int64), (self.docs[inside] - first).astype(np.uint32)


def exclusions_of(
    exclude: Any, *, n_queries: int, n_docs: int | None, query_ids: Ids | None, doc_ids: Ids | None
) -> Excluded:
    """What `exclude` asks for: None, "self", or pairs of ids (of row numbers without ids)."""
    if exclude is not None and (query_ids is None) != (doc_ids is None):
        raise UsageError(
            "exclude goes by id where both sides have ids, by row where neither has. Give both "
            "query_ids and doc_ids, or none."
        )
    if exclude is None:
        return Excluded(np.zeros(n_queries + 1, np.int64), np.empty(0, np.int64))
    if isinstance(exclude, str):
        if exclude != "self":
            raise UsageError(f"exclude must be None, 'self' or a list of pairs, found {exclude!r}.")
        pairs = _own(n_queries, n_docs, query_ids, doc_ids)
    elif query_ids is not None and doc_ids is not None:
        pairs = _pairs_of_ids(exclude, query_ids, doc_ids)
    else:
        pairs = _pairs_of_rows(exclude, n_queries, n_docs)
    pairs = np.unique(pairs, axis=0)  # sorted by query, then by document
    offsets = np.searchsorted(pairs[:, 0], np.arange(n_queries + 1)).astype(np.int64)
    return Excluded(offsets, np.ascontiguousarray(pairs[:, 1]))


def refuse_short(lengths: Ints, least: Any) -> None:
    """Refuse results of an exact search that hold fewer documents than there are to find."""
    short = lengths < least
    if short.any():
        query = int(np.argmax(short))
        needed = int(np.broadcast_to(least, lengths.shape)[query])
        raise InputError(
            f"The exact search returned {lengths[query]} of {needed} documents for query row "
            f"{query}, and too few for {int(short.sum())} of {len(lengths)} queries. The vectors "
            "changed while they were searched: search again, and report a bug if this persists."
        )


def _own(n_queries: int, n_docs: int | None, query_ids: Ids | None, doc_ids: Ids | None) -> Ints:
    if query_ids is not None and doc_ids is not None:
        docs = query_ids.match(doc_ids)
        there = np.flatnonzero(docs >= 0)
        return np.stack([there, docs[there]], axis=1)
    if n_docs is not None and n_docs != n_queries:
        raise MismatchError(
            f"exclude='self' by row needs as many queries as documents; there are {n_queries} "
            f"queries and {n_docs} documents. Pass query_ids and doc_ids to exclude by id."
        )
    rows = np.arange(n_queries)
    return np.stack([rows, rows], axis=1)


def _pairs_of_rows(exclude: Any, n_queries: int, n_docs: int | None) -> Ints:
    pairs = checks.plain_array(exclude, "exclude")
    if pairs.size == 0:
        return np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ShapeError(f"exclude must hold pairs (query, doc), found shape {pairs.shape}.")
    queries = checks.check_numbers(pairs[:, 0], n_queries, "query numbers in exclude")
    limit = np.iinfo(np.int32).max if n_docs is None else n_docs
    docs = checks.check_numbers(pairs[:, 1], limit, "doc numbers in exclude")
    return np.stack([queries, docs], axis=1)


def _pairs_of_ids(exclude: Any, query_ids: Ids, doc_ids: Ids) -> Ints:
    listed = [
        checks.as_list(pair, "a pair in exclude") for pair in checks.as_list(exclude, "exclude")
    ]
    if any(len(pair) != 2 for pair in listed):
        raise ShapeError("exclude must hold pairs (query id, doc id).")
    if not listed:
        return np.empty((0, 2), np.int64)
    sides = [[pair[side] for pair in listed] for side in (0, 1)]
    numbers = [
        Ids.of(side, what=what).match(ids)
        for side, what, ids in zip(sides, ("query", "doc"), (query_ids, doc_ids), strict=True)
    ]
    for column, side, what in zip(numbers, sides, ("query", "doc"), strict=True):
        if (column < 0).any():
            stranger = side[int(np.argmax(column < 0))]
            raise IdError(f"exclude names the {what} {stranger!r}, which is not among the {what}s.")
    return np.stack(numbers, axis=1)
