"""measure_index: recall of an index against exact search, speed and size."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, Floats32
from assay.core import checks
from assay.core.ranking import Ranking
from assay.errors import MismatchError
from assay.search.engine import rank
from assay.search.indexes.index import Index

_WARM_UP: Final = 3


@dataclass(frozen=True, eq=False)
class IndexReport:
    """An index against exact search.

    `recall` counts documents that score at least as much as the exact k-th: among tied ones it
    does not matter which are named. `overlap` counts those that exact search names too. Both are
    means over queries, the values of which are in `recalls` and `overlaps`. `short` is how many
    queries got fewer documents than exist. Times are the engine's own, without
    the ordering by exact scores: `queries_per_second` of all queries in one call, `latency_ms` of
    calls with one query, by percentile. Bytes are None where the engine does not report them.
    """

    spec: str
    version: str
    metric: str
    k: int
    n_docs: int
    n_queries: int
    exactness: str
    recall: float
    overlap: float
    short: int
    build_seconds: float
    queries_per_second: float
    latency_ms: dict[str, float]
    memory_bytes: int | None
    disk_bytes: int | None
    recalls: Floats
    overlaps: Floats

    def as_dict(self) -> dict[str, Any]:
        """All but the values of single queries, for JSON."""
        hidden = ("recalls", "overlaps")
        return {name: value for name, value in vars(self).items() if name not in hidden}


def measure_index(
    index: Index,
    queries: Any,
    k: int,
    *,
    exact: Ranking | None = None,
    latency_queries: int = 100,
) -> IndexReport:
    """Recall and overlap at k against exact search, build time, speed, latency and size.

    `exact` is the ranking by exact search of the same queries, at least k deep; without it the
    search is made here. `latency_queries` is how many queries are timed one by one.

    >>> import numpy as np
    >>> from assay.search.indexes import build_index
    >>> vectors = np.eye(4)
    >>> with build_index("exact", vectors) as index:
    ...     measure_index(index, vectors, 1).recall
    1.0
    """
    checks.require(index, Index, "index", "an Index; build_index() makes one")
    k = min(checks.check_cutoff(k), index.n_docs)
    ready = index.raw(queries)
    if exact is None:
        exact = rank(queries, index.vectors, k, metric=index.metric)
    exact = _check_exact(exact, index, len(ready), k)
    index.find(ready[:_WARM_UP], k)
    seconds = _seconds(index, ready, k)
    latency = _latency(index, ready, k, checks.check_cutoff(latency_queries, "latency_queries"))
    ranking = index.rank(queries, k)
    recalls, overlaps = _agreement(ranking, exact, k)
    size = index.size()
    return IndexReport(
        spec=index.spec,
        version=index.version,
        metric=index.metric,
        k=k,
        n_docs=index.n_docs,
        n_queries=len(ready),
        exactness=index.exactness,
        recall=_mean(recalls),
        overlap=_mean(overlaps),
        short=int((ranking.lengths < k).sum()),
        build_seconds=index.build_seconds,
        queries_per_second=len(ready) / seconds,
        latency_ms=latency,
        memory_bytes=size.memory,
        disk_bytes=size.disk,
        recalls=recalls,
        overlaps=overlaps,
    )


def _check_exact(exact: Ranking, index: Index, n_queries: int, k: int) -> Ranking:
    """The first k of an exact ranking, which must be one of this index's documents."""
    checks.require(exact, Ranking, "exact", "a Ranking; assay.rank() makes one")
    checks.check_lengths(queries=n_queries, **{"rows of exact": len(exact)})
    checks.check_lengths(docs=index.n_docs, **{"documents of exact": exact.n_docs})
    if int(exact.lengths.min()) < k:
        raise MismatchError(
            f"exact holds {int(exact.lengths.min())} documents for some query; {k} are needed."
        )
    return exact.first(k)


def _agreement(ranking: Ranking, exact: Ranking, k: int) -> tuple[Floats, Floats]:
    """For each query the share of k that scores as the exact ones do, and that is the same."""
    row = np.repeat(np.arange(len(ranking)), ranking.lengths)
    kth = exact.scores[exact.offsets[1:] - 1]
    as_good = np.bincount(row[ranking.scores >= kth[row]], minlength=len(ranking))
    size = np.int64(exact.n_docs)
    exact_row = np.repeat(np.arange(len(exact)), exact.lengths)
    same = np.isin(row * size + ranking.docs, exact_row * size + exact.docs)
    named_too = np.bincount(row[same], minlength=len(ranking))
    return as_good / k, named_too / k


def _seconds(index: Index, ready: Floats32, k: int) -> float:
    start = time.perf_counter()
    index.find(ready, k)
    return max(time.perf_counter() - start, 1e-9)


def _latency(index: Index, ready: Floats32, k: int, n_queries: int) -> dict[str, float]:
    """Percentiles of the time for one query, over queries spread evenly."""
    rows = np.linspace(0, len(ready) - 1, min(n_queries, len(ready))).astype(int)
    taken = sorted(1000 * _seconds(index, ready[row : row + 1], k) for row in rows.tolist())
    return {f"p{p}": taken[max(math.ceil(p / 100 * len(taken)) - 1, 0)] for p in (50, 95, 99)}


def _mean(values: Floats) -> float:
    return math.fsum(values.tolist()) / len(values)
