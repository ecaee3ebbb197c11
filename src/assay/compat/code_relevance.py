"""Recall and nDCG of lists of document numbers, and relevance from labels of two datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from assay.arrays import Ints
from assay.core import checks
from assay.core.conventions import preset
from assay.core.hits import judge
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking
from assay.errors import IdError, MismatchError, ShapeError, UsageError, ValueRangeError
from assay.scoring.evaluate import score

__all__ = ["build_relevance_from_dataset", "ndcg_at_k", "recall_at_k"]


_LARGEST: Final = 2**31 - 2  # document numbers are int32


def recall_at_k(
    retrieved_indices: Any,
    relevant_sets: Any,
    k: int,
    *,
    n_docs: int | None = None,
    empty: str = "zero",
) -> float:
    """Mean over queries of |retrieved ∩ relevant| / |relevant|.

    `retrieved_indices` holds k or more document numbers for each query, best first;
    `relevant_sets` a set, list or {document: gain} of relevant ones for each. `n_docs` is the size
    of the collection, to refuse numbers beyond it. A query without relevant documents counts 0;
    `empty="skip"` leaves it out.

    >>> recall_at_k([[0, 1], [2, 3]], [{0, 5}, {3}], 2)
    0.75
    """
    rows = [
        _relevant(one, q) for q, one in enumerate(checks.as_list(relevant_sets, "relevant_sets"))
    ]
    return _mean("R", retrieved_indices, rows, k, n_docs, empty)


def ndcg_at_k(
    retrieved_indices: Any,
    relevance_scores: Any,
    k: int,
    *,
    n_docs: int | None = None,
    empty: str = "zero",
) -> float:
    """Mean over queries of DCG@k / IDCG@k, with gains as given and discounts 1 / log2(1 + rank).

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
    name: str,
    retrieved: Any,
    rows: list[dict[int, float]],
    k: Any,
    n_docs: int | None,
    empty: str,
) -> float:
    k = checks.check_cutoff(k)
    docs = _lists(retrieved, k, n_docs)
    checks.check_lengths(retrieved_indices=len(docs), relevance=len(rows))
    size = n_docs or _needed(docs, rows)
    ranking = Ranking.from_arrays(docs, n_docs=size)
    rules = preset("binary_codes").but(empty=empty)
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
            f"retrieved_indices holds {docs[row, column]} at row {row}, column {column}, "
            f"which is out of range{limit}."
        )
    return docs[:, :k].astype(np.int64)


def _needed(docs: Ints, rows: list[dict[int, float]]) -> int:
    return 1 + max(int(docs.max(initial=0)), *(max(row, default=0) for row in rows), 0)


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


def _relevant(one: Any, q: int) -> dict[int, float]:
    if one is None:
        raise ValueRangeError(
            f"relevant_sets has None for query row {q}; every query needs a set, an empty one if "
            "nothing is relevant."
        )
    if isinstance(one, Mapping):
        return {doc: 1.0 for doc, gain in _gain_row(one, q).items() if gain > 0}
    if isinstance(one, str | bytes) or not isinstance(one, Iterable):
        raise ShapeError(f"relevant_sets holds {one!r} for query row {q}, not a set of numbers.")
    docs = [_doc_number(doc, q) for doc in one]
    if len(set(docs)) < len(docs):
        twice = next(doc for doc in docs if docs.count(doc) > 1)
        raise IdError(f"Document {twice} appears twice among those relevant to query row {q}.")
    return dict.fromkeys(docs, 1.0)


def _doc_number(doc: Any, q: int) -> int:
    whole = isinstance(doc, int | np.integer) and not isinstance(doc, bool)
    if not whole or not 0 <= int(doc) <= _LARGEST:
        raise ValueRangeError(
            f"Relevance of query row {q} names document {doc!r}; documents are given by their "
            "numbers, 0 and up."
        )
    return int(doc)


def _gains(given: Any, n_queries: int) -> tuple[list[dict[int, float]], int | None]:
    """Gains row by row, and the size of the collection where the shape tells it."""
    if isinstance(given, Mapping):
        return _rows_of_pairs(given, n_queries), None
    values = given if isinstance(given, np.ndarray) else checks.as_list(given, "relevance_scores")
    if len(values) and all(isinstance(one, Mapping) for one in values):
        return [_gain_row(one, q) for q, one in enumerate(values)], None
    matrix = checks.real_matrix(given, "relevance_scores").astype(np.float64)
    checks.check_finite(matrix, "relevance_scores")
    return [
        _gain_row({int(doc): row[doc] for doc in np.flatnonzero(row)}, q)
        for q, row in enumerate(matrix)
    ], matrix.shape[1]


def _rows_of_pairs(given: Mapping[Any, Any], n_queries: int) -> list[dict[int, float]]:
    rows: list[dict[int, float]] = [{} for _ in range(n_queries)]
    for key, gain in given.items():
        if not isinstance(key, tuple) or len(key) != 2:
            raise UsageError(f"relevance_scores maps (query, document) to a gain; found {key!r}.")
        q = key[0]
        if not isinstance(q, int | np.integer) or not 0 <= q < n_queries:
            raise MismatchError(
                f"relevance_scores names query {q!r}, but there are {n_queries} query rows, "
                "numbered from 0."
            )
        rows[int(q)].update(_gain_row({key[1]: gain}, int(q)))
    return rows


def _gain_row(row: Mapping[Any, Any], q: int) -> dict[int, float]:
    made = {}
    for doc, gain in row.items():
        number = float(gain) if isinstance(gain, int | float | np.number) else np.nan
        if not 0 <= number < np.inf:
            raise ValueRangeError(
                f"The gain of document {doc!r} for query row {q} is {gain!r}; gains are ≥ 0."
            )
        made[_doc_number(doc, q)] = number
    return made


def build_relevance_from_dataset(
    query_dataset: Any, corpus_dataset: Any, *, exclude_self: bool | None = None
) -> list[dict[int, float]]:
    """For each query the relevant documents of a corpus, as {document number: gain}.

    Both datasets have `labels` (equal label = relevant, gain 1), as an attribute or a key; or the
    queries have `relevance`, a set or {document: gain} for each, of numbers or, where the corpus
    has `ids`, of ids. `exclude_self` leaves a query's own document out: by `ids` where both have
    them, by number otherwise; by default where both datasets are one. The result goes to
    `recall_at_k` and `ndcg_at_k`.

    >>> build_relevance_from_dataset({"labels": ["a"]}, {"labels": ["b", "a"]})
    [{1: 1.0}]
    """
    corpus_ids = _ids(corpus_dataset, "corpus_dataset")
    given = _part(query_dataset, "relevance")
    if given is None:
        rows = _rows_of_labels(query_dataset, corpus_dataset)
    else:
        listed = checks.as_list(given, "relevance")
        rows = [_rows_of_relevance(one, corpus_ids, q) for q, one in enumerate(listed)]
    same = query_dataset is corpus_dataset
    if same if exclude_self is None else exclude_self:
        _drop_self(rows, _ids(query_dataset, "query_dataset"), corpus_ids)
    return rows


def _part(dataset: Any, name: str) -> Any:
    if isinstance(dataset, Mapping):
        return dataset.get(name)
    return getattr(dataset, name, None)


def _ids(dataset: Any, what: str) -> Ids | None:
    given = _part(dataset, "ids")
    if given is None:
        return None
    ids = Ids.of(given, what=what)
    checks.check_unique(ids, what)
    return ids


def _rows_of_labels(queries: Any, corpus: Any) -> list[dict[int, float]]:
    labels = [_part(dataset, "labels") for dataset in (queries, corpus)]
    for which, found in zip(("query_dataset", "corpus_dataset"), labels, strict=True):
        if found is None:
            raise UsageError(
                f"{which} says nothing about relevance: it needs labels, or the query dataset "
                "needs relevance."
            )
    made = Judgments.from_labels(*labels)
    members = [np.flatnonzero(made.doc_labels == code) for code in range(len(made.names))]
    return [dict.fromkeys(members[code].tolist(), 1.0) for code in made.query_labels.tolist()]


def _rows_of_relevance(one: Any, ids: Ids | None, q: int) -> dict[int, float]:
    row = one if isinstance(one, Mapping) else dict.fromkeys(_relevant_names(one, q), 1.0)
    if ids is None:
        return _gain_row(row, q)
    names = list(row)
    places = Ids.of(names, what="doc").match(ids)
    if (places < 0).any():
        absent = names[int(np.argmax(places < 0))]
        raise IdError(f"Document {absent!r}, relevant to query row {q}, is not in the corpus.")
    return _gain_row(dict(zip(places.tolist(), row.values(), strict=True)), q)


def _relevant_names(one: Any, q: int) -> list[Any]:
    if one is None:
        raise ValueRangeError(f"relevance is None for query row {q}; give an empty set instead.")
    names = list(one) if isinstance(one, set | frozenset) else checks.as_list(one, "relevance")
    if len(set(names)) < len(names):
        raise IdError(f"A document appears twice among those relevant to query row {q}.")
    return names


def _drop_self(rows: list[dict[int, float]], queries: Ids | None, corpus: Ids | None) -> None:
    own = np.arange(len(rows)) if queries is None or corpus is None else queries.match(corpus)
    for row, doc in zip(rows, own.tolist(), strict=True):
        row.pop(doc, None)
