"""Run lines into sorted rows, with the faults that only ids can explain."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from assay.errors import IdError, ValueRangeError
from assay.ids import Ids
from assay.native import kernels
from assay.native.signatures import Bytes, Codes, Floats, Longs, RowFault

__all__ = ["SortedRows", "TieOrder", "sort_lines"]

TieOrder = Literal["ascending", "descending", "appearance"]
_TIES = {"ascending": 1, "descending": -1, "appearance": 0}


class SortedRows(NamedTuple):
    """Rows of docs in rank order: row q is `offsets[q]:offsets[q + 1]`."""

    offsets: Longs
    docs: Codes
    scores: Floats


def sort_lines(
    queries: Codes,
    docs: Codes,
    scores: Floats,
    *,
    query_ids: Ids,
    doc_ids: Ids,
    ties: TieOrder = "descending",
    float32: bool = False,
) -> SortedRows:
    """Group lines by query and sort each row by score descending, then by doc id.

    `float32` rounds the scores first, as trec_eval does. A doc twice in a row is an IdError.

    >>> ids = Ids.of(["a", "b"])
    >>> rows = sort_lines(np.zeros(2, np.int32), np.arange(2, dtype=np.int32), np.ones(2),
    ...                   query_ids=Ids.of(["q"]), doc_ids=ids)
    >>> rows.docs.tolist()
    [1, 0]
    """
    offsets, sorted_docs, sorted_scores, fault = kernels().sort_rows(
        queries, docs, scores, len(query_ids), *_id_bytes(doc_ids), _TIES[ties], float32
    )
    if fault is not None:
        raise _error(fault, query_ids, doc_ids)
    rows = SortedRows(offsets, sorted_docs, sorted_scores)
    for column in rows:
        column.flags.writeable = False
    return rows


def _id_bytes(ids: Ids) -> tuple[Bytes, Longs]:
    """Return bytes that order like the ids: integers become eight bytes, the highest first."""
    if ids.kind == "text":
        return ids.utf8
    shifted = ids.numbers.view(np.uint64) ^ np.uint64(1 << 63)
    return shifted.astype(">u8").view(np.uint8), np.arange(len(ids) + 1, dtype=np.int64) * 8


def _error(fault: RowFault, query_ids: Ids, doc_ids: Ids) -> IdError | ValueRangeError:
    kind, query, doc = fault
    where = f"doc {doc_ids[doc]!r} of query {query_ids[query]!r}"
    if kind == "duplicate":
        return IdError(
            f"{where} is in the run more than once. A doc can have one rank only: "
            "remove the repeated lines."
        )
    return ValueRangeError(
        f"the score of {where} is beyond the range of float32 (3.4e38). "
        "Scale the scores, or evaluate them in float64."
    )
