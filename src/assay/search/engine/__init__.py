"""Exact search: the best k, the ranks of targets and Hamming neighbours, the same bytes everywhere.

Two steps. Find: a product of 8-bit or float32 numbers proposes candidates, with a margin that
provably loses none.
Decide: the candidates are scored canonically: the exact value, rounded once to float64.
"""

from __future__ import annotations

from assay.search.engine.codes import Codes, distance_histogram, pack_codes, rank_codes
from assay.search.engine.labels import LabelCounts, count_labels
from assay.search.engine.prepared import Prepared, prepare
from assay.search.engine.search import rank, rerank
from assay.search.engine.sparse_vectors import SparseVectors, read_sparse
from assay.search.engine.targets import TargetRanks, target_ranks, target_ranks_from_scores
from assay.search.engine.token_vectors import TokenVectors, read_tokens
from assay.search.engine.tokens import score_pairs

__all__ = [
    "Codes",
    "LabelCounts",
    "Prepared",
    "SparseVectors",
    "TargetRanks",
    "TokenVectors",
    "count_labels",
    "distance_histogram",
    "pack_codes",
    "prepare",
    "rank",
    "rank_codes",
    "read_sparse",
    "read_tokens",
    "rerank",
    "score_pairs",
    "target_ranks",
    "target_ranks_from_scores",
]
