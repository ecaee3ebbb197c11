"""sampled_recall: recall of an approximate index, from exact neighbours of sampled queries.

Exact neighbours of all queries may cost more than the index ever will. Those of a random sample
cost a known share of it, and the interval says what the sample leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.cluster.searching import rank_shards
from assay.cluster.settings import Cluster
from assay.core import checks
from assay.core.ids import Ids, IntegerIds
from assay.core.ranking import Ranking
from assay.errors import MismatchError, UsageError
from assay.io.arrays import open_rows
from assay.native.random_words import stream_key, words
from assay.search.engine.inputs import check_ids, matrix_of
from assay.search.engine.search import rank
from assay.stats import INTERVAL_NAMES, interval
from assay.stats.samples import check_level, check_seed

_FEWEST: Final = 8  # with fewer queries no interval is given


@dataclass(frozen=True, eq=False)
class SampledRecall:
    """Recall@k of an approximate ranking on sampled queries, and the interval for all queries.

    `values` has one recall for each of `query_ids`; `exact` are their exact neighbours, ties with
    the k-th included. `method` says how the interval was found.
    """

    estimate: float
    low: float
    high: float
    level: float
    method: str
    k: int
    n_queries: int
    seed: int
    query_ids: Ids
    values: Floats
    exact: Ranking

    def __repr__(self) -> str:
        """Estimate, interval and sizes."""
        sizes = f"{len(self.values)} of {self.n_queries} queries, seed {self.seed}"
        ends = f"[{self.low:.4f}, {self.high:.4f}]"
        return f"SampledRecall(R@{self.k} {self.estimate:.4f} {ends}, {sizes})"


def sample_queries(n_queries: int, sample: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Rows of a random sample without repetition, ascending; the same for one seed everywhere.

    >>> sample_queries(10, 3, seed=1).tolist()
    [0, 4, 6]
    """
    count = min(checks.check_cutoff(sample, "sample"), checks.check_cutoff(n_queries, "n_queries"))
    keys = words(stream_key(check_seed(seed), "sampled queries"), 0, n_queries)
    return np.sort(np.argsort(keys, kind="stable")[:count]).astype(np.int64)


def take_sample(
    queries: Any, query_ids: Any, sample: int, *, seed: int = 0
) -> tuple[NDArray[Any], Ids]:
    """The vectors and ids of sampled queries; without ids they are called by their row."""
    matrix = matrix_of(open_rows(queries), "queries")
    names = check_ids(query_ids, matrix.shape[0], "query")
    rows = sample_queries(matrix.shape[0], sample, seed=seed)
    some = np.concatenate([matrix[row : row + 1] for row in rows])
    numbered = IntegerIds(rows, rising=True, numbered=True)
    return some, numbered if names is None else names.take(rows)


def sampled_recall(
    approximate: Ranking,
    queries: Any,
    docs: Any,
    *,
    k: int,
    sample: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    metric: Any = "cosine",
    query_ids: Any = None,
    cluster: Cluster | None = None,
) -> SampledRecall:
    """Estimate Recall@k of an approximate ranking from exact neighbours of sampled queries.

    `docs` are shards (see `rank_shards`) or an array. A document counts as found if it is among
    the first k of the approximate ranking and scores no less than the k-th exact neighbour, so
    that ties cost nothing. Queries and documents are matched by their ids.
    """
    checks.require(approximate, Ranking, "approximate", "a Ranking, such as read_run() gives")
    matrix = matrix_of(open_rows(queries), "queries")
    some, sampled_ids = take_sample(matrix, query_ids, sample, seed=seed)
    if query_ids is None and approximate.query_ids.kind == "text":
        sampled_ids = _as_text(sampled_ids)  # files of runs know text only
    how = {"metric": metric, "query_ids": sampled_ids, "keep_ties": True}
    if isinstance(docs, np.ndarray):
        exact = rank(some, docs, k, **how)
    else:
        exact = rank_shards(some, docs, k, **how, cluster=cluster)
    values = _recalls(approximate, exact, checks.check_cutoff(k))
    return _estimate(values, exact, k=k, n_queries=matrix.shape[0], seed=seed, level=level)


def _recalls(approximate: Ranking, exact: Ranking, k: int) -> Floats:
    """For each query of the exact ranking the share of its neighbours that was found."""
    places = exact.query_ids.match(approximate.query_ids)
    if (places < 0).any():
        stranger = exact.query_ids[int(np.argmax(places < 0))]
        raise MismatchError(f"The approximate ranking has no query {stranger!r}.")
    docs = np.unique(exact.docs).astype(np.int64)
    names = exact.doc_ids.take(docs)
    if not exact.has_ids and approximate.doc_ids.kind == "text":
        names = _as_text(names)
    number_of = np.append(docs, -1)[approximate.doc_ids.match(names)]
    values = np.empty(len(exact))
    for row, place in enumerate(places):
        first = approximate.offsets[place]
        last = min(first + k, approximate.offsets[place + 1])
        numbers = number_of[approximate.docs[first:last]]
        true = exact.docs[exact.offsets[row] : exact.offsets[row + 1]]
        values[row] = np.isin(true, numbers[numbers >= 0]).sum() / min(k, len(true))
    return values


def _as_text(numbers: Ids) -> Ids:
    return Ids.of([str(number) for number in numbers], what="doc")


def _estimate(
    values: Floats, exact: Ranking, *, k: int, n_queries: int, seed: int, level: float
) -> SampledRecall:
    level = check_level(level)
    if len(values) < min(_FEWEST, n_queries):
        raise UsageError(f"sample must be at least {_FEWEST} queries, found {len(values)}.")
    mean = float(values.mean())
    if len(values) == n_queries:
        low, high, method = mean, mean, "all queries"
    else:
        estimate = interval(values, level=level, seed=seed, bounds=(0.0, 1.0))
        low, high, method = estimate.low, estimate.high, INTERVAL_NAMES[estimate.method]
    return SampledRecall(
        mean, low, high, level, method, k, n_queries, seed, exact.query_ids, values, exact
    )
