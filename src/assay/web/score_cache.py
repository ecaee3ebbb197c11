"""Scores and comparisons of stored runs: computed once, since finished runs do not change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from assay.comparison.alignment import cluster_settings
from assay.comparison.compare import Comparison, compare
from assay.errors import StorageError, UsageError
from assay.scoring.scores import Scores
from assay.store import Run, Store
from assay.store.codec import unpack_scores
from assay.store.queries import read_blobs
from assay.store.run import refuse_other_query_sets
from assay.store.summaries import read_query_texts

__all__ = ["MOST_COMPARED", "LRUCache", "Pending", "ScoreCache"]

Value = TypeVar("Value")


class LRUCache(Generic[Value]):
    """The values that were used last, up to a total weight.

    >>> cache = LRUCache(2)
    >>> [cache.get(key, lambda key=key: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    >>> cache.get("c", lambda: "C"), "b" in cache, "a" in cache
    ('C', False, True)
    """

    def __init__(self, most: int, weigh: Callable[[Value], int] = lambda _: 1) -> None:
        self._most = most
        self._weigh = weigh
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def __contains__(self, key: Hashable) -> bool:
        """Whether the key is in the cache."""
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made where it is not there. Two threads may both make it."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._subtract(self._values.pop(key, None))
            self._values[key] = value
            self._weight += self._weigh(value)
            while self._weight > self._most and len(self._values) > 1:
                self._subtract(self._values.popitem(last=False)[1])
        return value

    def drop(self, key: Hashable) -> None:
        """Remove a key."""
        with self._lock:
            self._subtract(self._values.pop(key, None))

    def _subtract(self, value: Any) -> None:
        if value is not None:
            self._weight -= self._weigh(value)


MOST_COMPARED: Final = 100  # runs at a time: 4,950 pairs
_MOST_VALUES: Final = 10**7  # 80 MB
_MOST_COMPARISONS: Final = 64
_MOST_LETTERS: Final = 10**7
_WORKERS: Final = 2
_LONGEST_WAIT: Final = 10  # seconds


@dataclass(frozen=True)
class Pending:
    """A comparison that is still being computed, and for how long."""

    seconds: float

    @property
    def retry_after(self) -> int:
        """After how many seconds to ask again: the longer it takes, the less often.

        A slow machine would otherwise be busy with pages without a result.

        >>> [Pending(seconds).retry_after for seconds in (0.1, 3, 7.9, 600)]
        [1, 2, 4, 10]
        """
        return min(1 + int(self.seconds / 2), _LONGEST_WAIT)


class ScoreCache:
    """Scores and comparisons of stored runs."""

    def __init__(self) -> None:
        self._scores: LRUCache[Scores | None] = LRUCache(_MOST_VALUES, _weight)
        self._comparisons: LRUCache[tuple[float, Future[Comparison]]] = LRUCache(_MOST_COMPARISONS)
        self._texts: LRUCache[dict[str, str]] = LRUCache(_MOST_LETTERS, _count_letters)
        self._workers = ThreadPoolExecutor(_WORKERS, "assay-compare")

    def scores(self, store: Store, run: Run, measure: str | None = None) -> Scores | None:
        """The scores of a finished run, all or those of one measure; None where it has none."""
        if run.status != "finished":
            return None
        whole = (run.uid, None)
        key = whole if whole in self._scores else (run.uid, measure)
        return self._scores.get(key, lambda: _load_scores(store, run, measure))

    def texts(self, store: Store, run: Run) -> dict[str, str]:
        """The texts of all queries of a finished run, by query id; empty where none were stored."""
        if run.status != "finished":
            return {}
        return self._texts.get(run.uid, lambda: _load_texts(store, run))

    def comparison(
        self,
        store: Store,
        runs: Sequence[Run],
        names: Sequence[str],
        *,
        measure: str,
        baseline: str | None = None,
        slices: str | None = None,
        timeout: float | None = None,
    ) -> Comparison | Pending:
        """Runs compared on one measure as `assay runs compare` does.

        Pending where that takes longer than `timeout`, in seconds; the computation continues, for
        the next request.
        """
        how: dict[str, Any] = {"measures": [measure], "baseline": baseline, "slices": slices}
        key = (tuple(run.uid for run in runs), tuple(names), measure, baseline, slices)
        begun, found = self._comparisons.get(
            key,
            lambda: (
                monotonic(),
                self._workers.submit(self._compare, store, runs, names, how),
            ),
        )
        try:
            return found.result(timeout)
        except TimeoutError:
            return Pending(monotonic() - begun)
        except BaseException:
            self._comparisons.drop(key)
            raise

    def _compare(
        self, store: Store, runs: Sequence[Run], names: Sequence[str], how: dict[str, Any]
    ) -> Comparison:
        refuse_other_query_sets(runs)
        found = [self._require_scores(store, run, how["measures"][0]) for run in runs]
        together = cluster_settings((run.clusters, s) for run, s in zip(runs, found, strict=True))
        first, second, *more = found
        return compare(first, second, *more, names=names, **{**how, **together})

    def _require_scores(self, store: Store, run: Run, measure: str) -> Scores:
        scores = self.scores(store, run, measure)
        if scores is None:
            raise UsageError(
                f"Run {run.id} ({run.name!r}) is {run.status} and has no per-query values "
                "to compare."
            )
        return scores


def _weight(scores: Scores | None) -> int:
    return 1 if scores is None else 1 + 2 * int(scores.values.size)


def _count_letters(texts: dict[str, str]) -> int:
    return 1 + sum(map(len, texts.values()))


def _load_texts(store: Store, run: Run) -> dict[str, str]:
    with store.database.reading() as connection:
        return read_query_texts(connection, run.id)


def _load_scores(store: Store, run: Run, measure: str | None) -> Scores | None:
    with store.database.reading() as connection:
        blobs = read_blobs(connection, run.id, measure=measure)
    if not any(blob.kind == "values" for blob in blobs):
        return None
    try:
        return unpack_scores(blobs, run.conventions, search=run.search)
    except StorageError as error:
        raise StorageError(f"Run {run.id} ({run.name!r}): {error}") from None
