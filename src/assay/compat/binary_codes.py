"""Cosine and Hamming neighbours of small collections, as whole matrices, and their overlap.

The functions of the document "Similarity module and retrieval metrics" under its names. Matrices
are N × N, so these are for a few thousand vectors; `assay.tasks.codes.evaluate_codes` answers the
same questions for large collections without one. Equal scores are always ordered by the lower
index, an item is never its own neighbour, and invalid input is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32, Ints
from assay.compat.code_relevance import build_relevance_from_dataset, ndcg_at_k, recall_at_k
from assay.core import checks
from assay.core.ranking import Ranking
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.measures.neighbours import overlap
from assay.search.engine import rank, rank_codes

__all__ = [
    "build_relevance_from_dataset",
    "compute_topk_indices",
    "cosine_similarity_matrix",
    "hamming_distance_matrix",
    "ndcg_at_k",
    "neighbor_overlap_at_k",
    "recall_at_k",
    "topk_cosine",
    "topk_hamming",
    "topk_neighbor_indices",
]


_ROWS = 1024  # of a matrix, to compute at once in float64
_LARGEST_UNIT = 1e15  # squares of larger numbers, added up, may exceed float32


def cosine_similarity_matrix(embeddings: Any, assume_normalized: bool = False) -> Floats32:
    """Cosine of every pair of rows, N × N, float32, symmetric.

    With `assume_normalized` the rows are taken to have length 1 and are not touched. Otherwise a
    row of zeros is refused: it has no direction.

    >>> cosine_similarity_matrix([[3.0, 4.0], [4.0, 3.0]]).round(4).tolist()
    [[1.0, 0.9599999785423279], [0.9599999785423279, 1.0]]
    """
    given = checks.real_matrix(embeddings, "embeddings")
    vectors = given.astype(np.float64)
    checks.check_finite(vectors, "embeddings")
    if not assume_normalized:
        vectors = _unit_rows(vectors)
    elif np.abs(vectors).max() > _LARGEST_UNIT:
        raise ValueRangeError(
            f"embeddings holds {np.abs(vectors).max()}: such rows are not of length 1, and their "
            "products overflow. Leave assume_normalized out."
        )
    return _products(vectors)


def _unit_rows(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of length 1; each is scaled first, so that no square over- or underflows."""
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    if not largest.all():
        row = int(np.argmin(largest))
        raise ValueRangeError(
            f"embeddings holds only zeros in row {row}: such a row has no direction, and its "
            "cosine with anything is undefined. Remove it."
        )
    # Powers of two are exact, so equal directions stay equal.
    scaled = np.ldexp(vectors, -np.frexp(largest)[1])
    unit: NDArray[np.float64] = scaled / np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    return unit


def _products(vectors: NDArray[Any]) -> Floats32:
    """All products of rows; the upper triangle is computed and mirrored."""
    size = len(vectors)
    made = np.empty((size, size), np.float32)
    for start in range(0, size, _ROWS):
        rows = slice(start, start + _ROWS)
        made[rows, start:] = vectors[rows] @ vectors[start:].T
        corner = made[rows, rows]
        made[rows, rows] = np.triu(corner) + np.triu(corner, 1).T
        made[start + _ROWS :, rows] = made[rows, start + _ROWS :].T
    return made


def hamming_distance_matrix(codes_01: Any) -> Floats32:
    """In how many bits every pair of rows differs, N × N, float32, symmetric, 0 on the diagonal.

    >>> hamming_distance_matrix([[0, 1, 1], [1, 1, 0]]).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    bits = _bits(codes_01, "codes_01").astype(np.float32)
    ones = bits.sum(axis=1)
    shared = _products(bits)  # whole numbers below 2^24: exact
    return np.asarray(ones[:, None] + ones[None, :] - 2 * shared, np.float32)


def _bits(codes: Any, what: str) -> NDArray[np.bool_]:
    """Codes as booleans; any value but 0 and 1 is named with its place."""
    array = checks.plain_array(codes, what)
    if array.dtype.kind not in "biuf":
        raise ValueRangeError(f"{what} must hold 0 and 1, found dtype {array.dtype}.")
    if array.ndim != 2 or 0 in array.shape:
        raise ShapeError(
            f"{what} must have two dimensions (rows × bits), each at least 1; "
            f"found shape {array.shape}."
        )
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueRangeError(
            f"{what} holds {array[row, column]} at row {row}, column {column}; "
            f"{int(wrong.sum())} such values in all. Codes are made of 0 and 1."
        )
    return array.astype(bool)


def compute_topk_indices(sim_or_dist: Any, k: int, largest: bool = True) -> Ints:
    """The k best columns of every row, best first; equal values by the lower index.

    `largest` says whether larger is better (similarities) or smaller (distances).

    >>> compute_topk_indices([[1, 3, 3], [0, 0, 0]], 2).tolist()
    [[1, 2], [0, 1]]
    """
    scores = _scores(sim_or_dist, "sim_or_dist", largest)
    return _first(Ranking.from_scores(scores), _check_k(k, scores.shape[1], "columns"))


def topk_neighbor_indices(
    similarity_matrix: Any, k: int, *, largest: bool = True, exclude_self: bool = True
) -> Ints:
    """The k nearest neighbours of every row, best first; equal values by the lower index.

    An item is no neighbour of itself: the diagonal is left out, wherever it would rank.
    `largest=False` takes distances.

    >>> topk_neighbor_indices([[1, 0.9, 0.9], [0.9, 1, 0], [0.9, 0, 1]], 1).tolist()
    [[1], [0], [0]]
    """
    scores = _scores(similarity_matrix, "similarity_matrix", largest)
    ranking = _neighbours(scores, "similarity_matrix", exclude_self)
    return _first(ranking, _check_k(k, scores.shape[1] - exclude_self, "neighbours of each row"))


def neighbor_overlap_at_k(
    cosine_sim: Any,
    hamming_sim: Any,
    k: int,
    *,
    ties: str = "order",
    exclude_self: bool = True,
    distances: bool | None = None,
) -> float:
    """Mean over rows of |N_cos ∩ N_ham| / k, where N are the k nearest neighbours without self.

    `hamming_sim` may hold distances or similarities; its diagonal tells which, unless `distances`
    does. `ties` is "order" (the lower index first) or "expected", "best", "worst": few distinct
    distances mean that ties decide much.

    >>> cosine = cosine_similarity_matrix([[1.0, 0.1], [1.0, 0.2], [0.1, 1.0]])
    >>> hamming = hamming_distance_matrix([[1, 0], [1, 0], [0, 1]])
    >>> [round(neighbor_overlap_at_k(cosine, hamming, 1, ties=t), 4) for t in ("order", "expected")]
    [0.6667, 0.8333]
    """
    left = _scores(cosine_sim, "cosine_sim", True)
    plain = _scores(hamming_sim, "hamming_sim", True)
    if left.shape != plain.shape:
        raise MismatchError(
            f"cosine_sim has shape {left.shape} and hamming_sim has shape {plain.shape}; "
            "both must be of the same items."
        )
    right = -plain if _are_distances(plain, distances) else plain
    k = _check_k(k, left.shape[1] - exclude_self, "neighbours of each row")
    rankings = (
        _neighbours(left, "cosine_sim", exclude_self),
        _neighbours(right, "hamming_sim", exclude_self),
    )
    return float(overlap(*rankings, k=k, ties=ties).mean())


def _are_distances(matrix: NDArray[np.float64], known: bool | None) -> bool:
    """An item is nearest to itself: the diagonal has least distances or largest similarities."""
    if known is not None:
        return known
    if matrix.shape[0] != matrix.shape[1]:
        raise UsageError(
            f"hamming_sim has shape {matrix.shape}, so its diagonal does not tell whether it holds "
            "distances. Say distances=True or distances=False."
        )
    own = np.diag(matrix)[:, None]
    if (own >= matrix).all():
        return False
    if (own <= matrix).all():
        return True
    row, column = (int(i) for i in np.argwhere(own < matrix)[0])
    raise UsageError(
        "hamming_sim holds neither distances nor similarities of items to each other: row "
        f"{row} has {matrix[row, row]:g} with itself and {matrix[row, column]:g} with {column}, "
        "and other rows the reverse. Say distances=True or distances=False if that is meant."
    )


def _scores(matrix: Any, what: str, largest: bool) -> NDArray[np.float64]:
    values = checks.exact_scores(checks.real_matrix(matrix, what), what)
    checks.check_finite(values, what)
    return values if largest else -values


def _neighbours(scores: NDArray[np.float64], what: str, exclude_self: bool) -> Ranking:
    """The ranking of every row, without its own column."""
    if not exclude_self:
        return Ranking.from_scores(scores)
    n_rows, n_columns = scores.shape
    if n_rows != n_columns:
        raise ShapeError(
            f"{what} has shape {scores.shape}; to leave out each item itself it must be square. "
            "Use exclude_self=False where rows and columns are different items."
        )
    docs = np.broadcast_to(np.arange(n_columns), scores.shape).copy()
    np.fill_diagonal(docs, -1)
    return Ranking.from_arrays(docs, scores, n_docs=n_columns)


def _check_k(k: Any, most: int, of: str) -> int:
    cut = checks.check_cutoff(k)
    if cut > most:
        raise UsageError(f"k is {cut}, but there are only {most} {of}. Use a smaller k.")
    return cut


def _first(ranking: Ranking, k: int) -> Ints:
    """The first k documents of each row, as a rectangle."""
    starts = ranking.offsets[:-1, None]
    return np.asarray(ranking.docs[starts + np.arange(k)], np.int64)


def topk_cosine(queries: Any, docs: Any = None, k: int = 10, *, precomputed: bool = False) -> Ints:
    """The k documents of the largest cosine for every query; equal ones by the lower index.

    Without `docs` the queries are each other's neighbours, self left out. With `precomputed`,
    `queries` is a matrix of similarities (queries × docs). No matrix is made otherwise.

    >>> topk_cosine([[1.0, 0.0]], [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], 2).tolist()
    [[2, 1]]
    """
    if precomputed:
        _refuse_docs(docs)
        return compute_topk_indices(queries, k)
    k, others, exclude = _task(queries, docs, k)
    return _first(rank(queries, others, k, metric="cosine", exclude=exclude), k)


def topk_hamming(queries: Any, docs: Any = None, k: int = 10, *, precomputed: bool = False) -> Ints:
    """The k documents of the least Hamming distance for every query; equal ones by the lower index.

    Arguments as for `topk_cosine`, with codes of 0 and 1; a `precomputed` matrix holds distances.

    >>> topk_hamming([[0, 0, 1]], [[1, 1, 1], [0, 1, 1], [0, 0, 0]], 2).tolist()
    [[1, 2]]
    """
    if precomputed:
        _refuse_docs(docs)
        return compute_topk_indices(queries, k, largest=False)
    codes = _bits(queries, "queries")
    k, others, exclude = _task(codes, None if docs is None else _bits(docs, "docs"), k)
    return _first(rank_codes(codes, others, k, exclude=exclude), k)


def _refuse_docs(docs: Any) -> None:
    if docs is not None:
        raise UsageError("With precomputed=True the first argument is the whole matrix; drop docs.")


def _task(queries: Any, docs: Any, k: Any) -> tuple[int, Any, str | None]:
    others = queries if docs is None else docs
    shape = np.shape(others)
    most = shape[0] - (docs is None) if shape else 0
    of = "other rows" if docs is None else "documents"
    return _check_k(k, most, of), others, "self" if docs is None else None
