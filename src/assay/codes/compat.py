"""Cosine and Hamming neighbours of small collections, as whole matrices, and their overlap.

The functions of the document "Similarity module and retrieval metrics" under its names. Matrices
are N × N, so these are for a few thousand vectors; `assay.codes.evaluate_codes` answers the
same questions for large collections without one. Equal scores are always ordered by the lower
index, an item is never its own neighbour, and invalid input is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32, Ints
from assay.core import checks
from assay.core.conventions import preset
from assay.core.hits import judge
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking
from assay.errors import IdError, MismatchError, ShapeError, UsageError, ValueRangeError
from assay.scoring.evaluate import score
from assay.search.engine import rank, rank_codes
from assay.search.engine.inputs import check_ids
from assay.search.neighbours import overlap

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


BLOCK_ROWS = 1024  # of a matrix, to compute at once in float64
_LARGEST_UNIT = 1e15  # squares of larger numbers, added up, may exceed float32


def cosine_similarity_matrix(embeddings: Any, assume_normalized: bool = False) -> Floats32:
    """Return the cosine of every pair of rows, N × N, float32, symmetric.

    With `assume_normalized` the rows are taken to have length 1 and are not touched. Otherwise a
    row of zeros is refused: it has no direction.

    >>> cosine_similarity_matrix([[3.0, 4.0], [4.0, 3.0]]).round(4).tolist()
    [[1.0, 0.9599999785423279], [0.9599999785423279, 1.0]]
    """
    matrix = checks.real_matrix(embeddings, "embeddings")
    vectors = matrix.astype(np.float64)
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
    """Return rows of length 1; each is scaled first, so that no square over- or underflows."""
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
    """Return all products of rows; the upper triangle is computed and mirrored."""
    size = len(vectors)
    products = np.empty((size, size), np.float32)
    for start in range(0, size, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        products[rows, start:] = vectors[rows] @ vectors[start:].T
        corner = products[rows, rows]
        products[rows, rows] = np.triu(corner) + np.triu(corner, 1).T
        products[start + BLOCK_ROWS :, rows] = products[rows, start + BLOCK_ROWS :].T
    return products


def hamming_distance_matrix(codes_01: Any) -> Floats32:
    """Return in how many bits every pair of rows differs, N × N.

    The matrix is float32, symmetric, with 0 on the diagonal.

    >>> hamming_distance_matrix([[0, 1, 1], [1, 1, 0]]).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    bits = _bits(codes_01, "codes_01").astype(np.float32)
    ones = bits.sum(axis=1)
    shared = _products(bits)  # whole numbers below 2^24: exact
    return np.asarray(ones[:, None] + ones[None, :] - 2 * shared, np.float32)


def _bits(codes: Any, what: str) -> NDArray[np.bool_]:
    """Return codes as booleans; any value but 0 and 1 is named with its place."""
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
    """Return the k best columns of every row, best first; equal values by the lower index.

    `largest` says whether larger is better (similarities) or smaller (distances).

    >>> compute_topk_indices([[1, 3, 3], [0, 0, 0]], 2).tolist()
    [[1, 2], [0, 1]]
    """
    scores = _scores(sim_or_dist, "sim_or_dist", largest)
    return _first(Ranking.from_scores(scores), _check_k(k, scores.shape[1], "columns"))


def topk_neighbor_indices(
    similarity_matrix: Any, k: int, *, largest: bool = True, exclude_self: bool = True
) -> Ints:
    """Return the k nearest neighbours of every row, best first; equal values by the lower index.

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
    """Return the mean over rows of |N_cos ∩ N_ham| / k.

    N are the k nearest neighbours without self.
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
    by_cosine = _neighbours(left, "cosine_sim", exclude_self)
    by_code = _neighbours(right, "hamming_sim", exclude_self)
    return float(overlap(by_cosine, by_code, k=k, ties=ties).mean())


def _are_distances(matrix: NDArray[np.float64], distances: bool | None) -> bool:
    """Tell by the diagonal whether values are distances.

    An item is nearest to itself: it has the least distance or the largest similarity.
    """
    if distances is not None:
        return distances
    if matrix.shape[0] != matrix.shape[1]:
        raise UsageError(
            f"hamming_sim has shape {matrix.shape}, so its diagonal does not tell whether it holds "
            "distances. Say distances=True or distances=False."
        )
    diagonal = np.diag(matrix)[:, None]
    if (diagonal >= matrix).all():
        return False
    if (diagonal <= matrix).all():
        return True
    row, column = (int(i) for i in np.argwhere(diagonal < matrix)[0])
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
    """Return the ranking of every row, without its own column."""
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
    """Return the first k documents of each row, as a rectangle."""
    starts = ranking.offsets[:-1, None]
    return np.asarray(ranking.docs[starts + np.arange(k)], np.int64)


def topk_cosine(queries: Any, docs: Any = None, k: int = 10, *, precomputed: bool = False) -> Ints:
    """Return the k documents of the largest cosine for every query; equal ones by the lower index.

    Without `docs` the queries are each other's neighbours, self left out. With `precomputed`,
    `queries` is a matrix of similarities (queries × docs). No matrix is made otherwise.

    >>> topk_cosine([[1.0, 0.0]], [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], 2).tolist()
    [[2, 1]]
    """
    if precomputed:
        return _topk_of_matrix(queries, docs, k, largest=True)
    return _topk(partial(rank, metric="cosine"), queries, docs, k)


def topk_hamming(queries: Any, docs: Any = None, k: int = 10, *, precomputed: bool = False) -> Ints:
    """Return the k documents of the least Hamming distance for every query.

    Equal ones are ordered by the lower index.

    Arguments as for `topk_cosine`, with codes of 0 and 1; a `precomputed` matrix holds distances.

    >>> topk_hamming([[0, 0, 1]], [[1, 1, 1], [0, 1, 1], [0, 0, 0]], 2).tolist()
    [[1, 2]]
    """
    if precomputed:
        return _topk_of_matrix(queries, docs, k, largest=False)
    codes = None if docs is None else _bits(docs, "docs")
    return _topk(rank_codes, _bits(queries, "queries"), codes, k)


def _topk_of_matrix(matrix: Any, docs: Any, k: int, *, largest: bool) -> Ints:
    if docs is not None:
        raise UsageError("With precomputed=True the first argument is the whole matrix; drop docs.")
    return compute_topk_indices(matrix, k, largest)


def _topk(search: Callable[..., Ranking], queries: Any, docs: Any, k: Any) -> Ints:
    """Return the first k documents; without any, the queries are each other's neighbours."""
    same = docs is None
    shape = np.shape(queries if same else docs)
    k = _check_k(k, shape[0] - same if shape else 0, "other rows" if same else "documents")
    exclude = "self" if same else None
    return _first(search(queries, queries if same else docs, k, exclude=exclude), k)


_LARGEST: Final = 2**31 - 2  # document numbers are int32


def recall_at_k(
    retrieved_indices: Any,
    relevant_sets: Any,
    k: int,
    *,
    n_docs: int | None = None,
    empty: str = "zero",
) -> float:
    """Return mean over queries of |retrieved ∩ relevant| / |relevant|.

    `retrieved_indices` holds k or more document numbers for each query, best first;
    `relevant_sets` a set, list or {document: gain} of relevant ones for each. `n_docs` is the size
    of the collection, to refuse numbers beyond it. A query without relevant documents counts 0;
    `empty="skip"` leaves it out.

    >>> recall_at_k([[0, 1], [2, 3]], [{0, 5}, {3}], 2)
    0.75
    """
    listed = checks.as_list(relevant_sets, "relevant_sets")
    rows = [_relevant(relevant, q) for q, relevant in enumerate(listed)]
    return _mean("R", retrieved_indices, rows, k, n_docs, empty)


def ndcg_at_k(
    retrieved_indices: Any,
    relevance_scores: Any,
    k: int,
    *,
    n_docs: int | None = None,
    empty: str = "zero",
) -> float:
    """Return the mean of DCG@k / IDCG@k over queries.

    Gains are as given, discounts 1 / log2(1 + rank).

    `relevance_scores` is a matrix queries × documents of gains ≥ 0, a {document: gain} for each
    query, or one {(query, document): gain}. A query without any gain counts 0 (0/0 → 0);
    `empty="skip"` leaves it out.

    >>> round(ndcg_at_k([[1, 0]], [[1.0, 0.0, 0.0]], 2), 4)
    0.6309
    """
    n_queries = len(checks.as_list(retrieved_indices, "retrieved_indices"))
    rows, size = _gains(relevance_scores, n_queries)
    return _mean("nDCG", retrieved_indices, rows, k, n_docs if size is None else size, empty)


def _mean(
    name: str, retrieved: Any, rows: list[dict[int, float]], k: Any, n_docs: int | None, empty: str
) -> float:
    k = checks.check_cutoff(k)
    docs = _lists(retrieved, k, n_docs)
    checks.check_lengths(retrieved_indices=len(docs), relevance=len(rows))
    numbers = [int(docs.max(initial=0)), *(max(row, default=0) for row in rows), 0]
    size = n_docs or 1 + max(numbers)
    ranking = Ranking.from_arrays(docs, n_docs=size)
    rules = preset("binary_codes").replace(empty=empty)
    hits = judge(ranking, _judgments(rows, size), conventions=rules)
    return next(iter(score(hits, f"{name}@{k}", conventions=rules).mean().values()))


def _lists(retrieved: Any, k: int, n_docs: int | None) -> Ints:
    docs = checks.real_matrix(retrieved, "retrieved_indices")
    if docs.dtype.kind not in "iu":
        raise ValueRangeError(f"retrieved_indices must be whole numbers, found dtype {docs.dtype}.")
    if docs.shape[1] < k:
        raise ShapeError(
            f"retrieved_indices has shape {docs.shape}: too few columns for k = {k}. Retrieve "
            f"{k} documents for each query, or use a smaller k."
        )
    most = _LARGEST if n_docs is None else checks.check_cutoff(n_docs, "n_docs") - 1
    wrong = (docs < 0) | (docs > most)
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        limit = "" if n_docs is None else f" for {n_docs} documents"
        raise ValueRangeError(
            f"retrieved_indices holds {docs[row, column]} at row {row}, column {column}, out "
            f"of range{limit}. Pass row numbers of the documents."
        )
    return docs[:, :k].astype(np.int64)


def _judgments(rows: list[dict[int, float]], n_docs: int) -> Qrels:
    for q, row in enumerate(rows):
        wrong = next((doc for doc in row if not 0 <= doc < n_docs), None)
        if wrong is not None:
            raise ValueRangeError(
                f"Document {wrong} is relevant to query row {q}, but out of range for "
                f"{n_docs} documents."
            )
    queries = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    docs = np.array([doc for row in rows for doc in row], np.int64)
    gains = np.array([gain for row in rows for gain in row.values()], np.float64)
    return Judgments.from_pairs(Ids.count(len(rows)), Ids.count(n_docs), queries, docs, gains)


def _relevant(docs: Any, q: int) -> dict[int, float]:
    if isinstance(docs, Mapping):
        return {doc: 1.0 for doc, gain in _gain_row(docs, q).items() if gain > 0}
    return {_doc_number(doc, q): 1.0 for doc in _list_relevant(docs, q, "relevant_sets")}


def _list_relevant(docs: Any, q: int, what: str) -> list[Any]:
    """Return the relevant documents of one query, which are different ones."""
    if docs is None:
        raise ValueRangeError(
            f"{what} has None for query row {q}; every query needs a set, an empty one if nothing "
            "is relevant."
        )
    if isinstance(docs, str | bytes) or not isinstance(docs, Iterable):
        raise ShapeError(
            f"{what} holds {docs!r} for query row {q}, not a set of documents. Pass a set."
        )
    names = list(docs)
    if len(set(names)) < len(names):
        twice = next(doc for doc in names if names.count(doc) > 1)
        raise IdError(f"Document {twice!r} appears twice among those relevant to query row {q}.")
    return names


def _doc_number(doc: Any, q: int) -> int:
    whole = isinstance(doc, int | np.integer) and not isinstance(doc, bool)
    if not whole or not 0 <= int(doc) <= _LARGEST:
        raise ValueRangeError(
            f"Relevance of query row {q} names document {doc!r}; documents are given by their "
            "numbers, 0 and up."
        )
    return int(doc)


def _gains(relevance: Any, n_queries: int) -> tuple[list[dict[int, float]], int | None]:
    """Return gains row by row, and the size of the collection where the shape tells it."""
    if isinstance(relevance, Mapping):
        return _rows_of_pairs(relevance, n_queries), None
    values = relevance
    if not isinstance(relevance, np.ndarray):
        values = checks.as_list(relevance, "relevance_scores")
    if len(values) and all(isinstance(row_gains, Mapping) for row_gains in values):
        return [_gain_row(row_gains, q) for q, row_gains in enumerate(values)], None
    matrix = checks.real_matrix(relevance, "relevance_scores").astype(np.float64)
    checks.check_finite(matrix, "relevance_scores")
    rows = ({int(doc): row[doc] for doc in np.flatnonzero(row)} for row in matrix)
    return [_gain_row(row, q) for q, row in enumerate(rows)], matrix.shape[1]


def _rows_of_pairs(pairs: Mapping[Any, Any], n_queries: int) -> list[dict[int, float]]:
    rows: list[dict[int, float]] = [{} for _ in range(n_queries)]
    for key, gain in pairs.items():
        if not isinstance(key, tuple) or len(key) != 2:
            raise UsageError(f"relevance_scores has the key {key!r}. Pass (query, document).")
        q = key[0]
        if not isinstance(q, int | np.integer) or not 0 <= q < n_queries:
            raise MismatchError(
                f"relevance_scores names query {q!r}, but there are {n_queries} query rows, "
                "numbered from 0."
            )
        rows[int(q)].update(_gain_row({key[1]: gain}, int(q)))
    return rows


def _gain_row(row: Mapping[Any, Any], q: int) -> dict[int, float]:
    gains = {}
    for doc, gain in row.items():
        number = float(gain) if isinstance(gain, int | float | np.number) else np.nan
        if not 0 <= number < np.inf:
            raise ValueRangeError(
                f"The gain of document {doc!r} for query row {q} is {gain!r}; gains are ≥ 0."
            )
        gains[_doc_number(doc, q)] = number
    return gains


def build_relevance_from_dataset(
    query_dataset: Any, corpus_dataset: Any, *, exclude_self: bool | None = None
) -> list[dict[int, float]]:
    """Return the relevant documents of each query as {document number: gain}.

    Both datasets have `labels` (equal label = relevant, gain 1), as an attribute or a key; or the
    queries have `relevance`, a set or {document: gain} for each, of numbers or, where the corpus
    has `ids`, of ids. `exclude_self` leaves a query's own document out: by `ids` where both have
    them, by number otherwise; by default where both datasets are one. The result goes to
    `recall_at_k` and `ndcg_at_k`.

    >>> build_relevance_from_dataset({"labels": ["a"]}, {"labels": ["b", "a"]})
    [{1: 1.0}]
    """
    corpus_ids = check_ids(_part(corpus_dataset, "ids"), None, "corpus_dataset")
    relevance = _part(query_dataset, "relevance")
    if relevance is None:
        rows = _rows_of_labels(query_dataset, corpus_dataset)
    else:
        listed = checks.as_list(relevance, "relevance")
        rows = [_rows_of_relevance(relevant, corpus_ids, q) for q, relevant in enumerate(listed)]
    same = query_dataset is corpus_dataset
    if same if exclude_self is None else exclude_self:
        query_ids = check_ids(_part(query_dataset, "ids"), None, "query_dataset")
        self_docs = np.arange(len(rows))
        if query_ids is not None and corpus_ids is not None:
            self_docs = query_ids.match(corpus_ids)
        for row, doc in zip(rows, self_docs.tolist(), strict=True):
            row.pop(doc, None)
    return rows


def _part(dataset: Any, name: str) -> Any:
    mapped = isinstance(dataset, Mapping)
    return dataset.get(name) if mapped else getattr(dataset, name, None)


def _rows_of_labels(queries: Any, corpus: Any) -> list[dict[int, float]]:
    labels = [_part(dataset, "labels") for dataset in (queries, corpus)]
    for which, side_labels in zip(("query_dataset", "corpus_dataset"), labels, strict=True):
        if side_labels is None:
            raise UsageError(
                f"{which} says nothing about relevance: it needs labels, or the query dataset "
                "needs relevance."
            )
    judgments = Judgments.from_labels(*labels)
    members = [np.flatnonzero(judgments.doc_labels == code) for code in range(len(judgments.names))]
    return [dict.fromkeys(members[code].tolist(), 1.0) for code in judgments.query_labels.tolist()]


def _rows_of_relevance(relevant: Any, ids: Ids | None, q: int) -> dict[int, float]:
    row = relevant
    if not isinstance(row, Mapping):
        row = dict.fromkeys(_list_relevant(relevant, q, "relevance"), 1.0)
    if ids is None:
        return _gain_row(row, q)
    names = list(row)
    places = Ids.of(names, what="doc").match(ids)
    if (places < 0).any():
        absent = names[int(np.argmax(places < 0))]
        raise IdError(f"Document {absent!r}, relevant to query row {q}, is not in the corpus.")
    return _gain_row(dict(zip(places.tolist(), row.values(), strict=True)), q)
