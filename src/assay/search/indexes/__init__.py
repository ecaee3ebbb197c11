"""Search engines under one contract, one adapter to a file; others by entry points.

An index is built from vectors, answers with the numbers and exact scores of documents in the one
order of ties, and is closed. `measure_index` gives its recall against exact search, its
speed and its size.
"""

from __future__ import annotations

from assay.search.indexes.base import INDEXES
from assay.search.indexes.index import Index, IndexReport, build_index, measure_index

__all__ = ["INDEXES", "Index", "IndexReport", "build_index", "measure_index"]
