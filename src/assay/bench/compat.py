"""The functions of the guide to benchmarking two embedding models, by their names.

`get_top_k_indices` ranks exactly under the one tie rule, and refuses what has no direction
instead of putting it first. A query without a relevant document counts 0, as in the guide; it can
be left out by name. To compare two models, use `assay bench`: a higher mean alone decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection as Many
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from assay.core import checks
from assay.core.conventions import preset
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.errors import UsageError
from assay.models.encoding import as_vectors
from assay.scoring.evaluate import evaluate
from assay.search.engine import rank

__all__ = ["evaluate_model", "get_top_k_indices", "recall_at_k"]


def get_top_k_indices(query_emb: Any, doc_embeddings: Any, k: int = 10) -> list[int]:
    """Return rows of the k documents nearest to one query by cosine; ties go to the lower row.

    >>> get_top_k_indices([1.0, 0.0], [[0.0, 1.0], [2.0, 0.0], [1.0, 0.0]], k=2)
    [1, 2]
    """
    query = checks.plain_array(query_emb, "query_emb")
    ranking = rank(query.reshape(1, -1) if query.ndim == 1 else query, doc_embeddings, k)
    if len(ranking) != 1:
        raise UsageError(f"query_emb holds {len(ranking)} vectors. Pass one.")
    return [int(doc) for doc in ranking.docs]


def recall_at_k(
    retrieved_ids: Sequence[Any], relevant_ids: Many[Any], k: int, *, empty: float = 0.0
) -> float:
    """Return the share of relevant documents among the first k.

    `empty` is the value where none is relevant.

    >>> recall_at_k([4, 2, 9], {2, 7}, k=2)
    0.5
    """
    first = checks.as_list(retrieved_ids, "retrieved_ids")[: checks.check_cutoff(k)]
    relevant = set(relevant_ids)
    return len(relevant & set(first)) / len(relevant) if relevant else empty


def evaluate_model(
    model: Any,
    queries: Sequence[str],
    documents: Sequence[str],
    eval_set: Iterable[tuple[int, Many[int]]],
    k: int = 10,
    *,
    empty: str = "zero",
) -> float:
    """Return mean R@k of a model that turns texts into vectors (`encode`, or a function).

    `eval_set` has the number of a query and the numbers of its relevant documents. A query without
    a relevant document counts 0, or is left out with empty="skip"; the mean of no query is 0 as
    well, or NaN with "skip".

    >>> model = lambda texts: [[len(text), 1.0] for text in texts]
    >>> evaluate_model(model, ["ab"], ["xyz", "uv"], [(0, {1})], k=1)
    1.0
    """
    k = checks.check_cutoff(k)
    pairs = [(int(query), sorted(set(map(int, docs)))) for query, docs in eval_set]
    if not pairs:
        return 0.0 if empty == "zero" else math.nan
    rows = [query for query, _ in pairs]
    checks.check_numbers(rows, len(queries), "eval_set queries")
    checks.check_numbers(
        [doc for _, docs in pairs for doc in docs], len(documents), "relevant docs"
    )
    encode = getattr(model, "encode", model)
    doc_vectors = as_vectors(encode(list(documents)), len(documents), "model")
    texts = [queries[query] for query in rows]
    ranking = rank(as_vectors(encode(texts), len(texts), "model"), doc_vectors, k)
    owners = np.repeat(np.arange(len(pairs)), [len(docs) for _, docs in pairs])
    numbers = np.array([doc for _, docs in pairs for doc in docs], np.int64)
    qrels = Judgments.from_pairs(
        Ids.count(len(pairs)), Ids.count(len(documents)), owners, numbers, np.ones(len(owners))
    )
    rules = preset("model_bench").replace(empty=empty)
    return evaluate(ranking, qrels, f"R@{k}", conventions=rules).mean()[f"R@{k}"]
